"""DS instructions: LDS loads, stores, atomics, and lane permutes through the LDS crossbar."""

from __future__ import annotations

import re

import numpy as np

from loom_sim.amdgpu.emitter import Emitter, Value
from loom_sim.amdgpu.execute import access, atomics
from loom_sim.amdgpu.instruction import Instruction
from loom_sim.amdgpu.state import Array

_U32 = np.uint32
_PAIR = re.compile(
    r"ds_(?:(?P<load>load|read)|(?P<store>store|write)|(?P<swap>storexchg|wrxchg))"
    r"(?:_2addr|2)(?P<far>_stride64|st64)?(?P<rtn>_rtn)?_b(?P<bits>32|64)"
)


def _offset(inst: Instruction) -> int:
    """The 16-bit offset of single-address forms, in bytes."""
    return inst.get("offset")


def translate(em: Emitter, inst: Instruction) -> bool:
    """Translate a DS instruction; False if it is none."""
    if inst.format != "DS":
        return False
    if inst.modifiers.get("gds"):
        raise em.unsupported("global data share")
    name = inst.mnemonic
    em.site()
    if name in ("ds_bpermute_b32", "ds_permute_b32"):
        _permute(em, inst)
        return True
    if name == "ds_swizzle_b32":
        _swizzle(em, inst)
        return True
    if name in ("ds_append", "ds_consume"):
        _append(em, inst)
        return True
    if "addtid" in name:
        _by_lane(em, inst)
        return True
    pair = _PAIR.fullmatch(name)
    if pair is not None:
        _two(em, inst, pair)
        return True
    move = access.parse(name)
    if move is not None:
        _one(em, inst, move)
        return True
    operation = re.sub(r"^ds_", "", name).replace("_rtn", "")
    atomic = atomics.parse(operation)
    if atomic is None:
        return False
    _atomic(em, inst, atomic)
    return True


def _address(em: Emitter, inst: Instruction) -> str:
    operand = inst.operand("addr")
    if operand is None:
        raise em.unsupported("a DS instruction without address")
    value = em.vector32(em.vector_index(operand.code))
    em.check(value, "the LDS address")
    return value.name


def _m0(em: Emitter) -> str:
    value = em.scalar32(em.traits.m0_code)
    em.check_everywhere(value, "the LDS address in M0")
    return em.let(f"{value.name} & klow")


def _by_lane(em: Emitter, inst: Instruction) -> None:
    """`ds_*_addtid_b32`: a word per lane, from M0[15:0] plus the offset on."""
    lanes = em.const(np.arange(em.wave_size, dtype=_U32)[None, :] * _U32(4), ("lane words", em.wave_size))
    move = access.parse(inst.mnemonic.replace("_addtid", ""))
    assert move is not None
    _move(em, inst, move, em.let(f"{_m0(em)} + {lanes}"))


def count_lanes(active: Array) -> Array:
    """Active lanes of each wave, as words of shape (waves, 1)."""
    counts: Array = active.sum(axis=1, keepdims=True).astype(_U32)
    return counts


def some_lane(active: Array) -> Array:
    """A lane mask with the first lane of each wave that has an active one."""
    mask = np.zeros(active.shape, bool)
    mask[:, 0] = active.any(axis=1)
    return mask


def _append(em: Emitter, inst: Instruction) -> None:
    """Add or subtract the number of active lanes once per wave; all lanes get the value before."""
    atomic = atomics.parse("add_u32" if inst.mnemonic == "ds_append" else "sub_u32")
    count = em.let(f"{em.const(count_lanes)}(E)")
    one = em.let(f"{em.const(some_lane)}(E)")
    bound = f"{em.const(atomics.bind)}({em.const(atomic)}, [{count}], True)"
    old = em.let(f"M.lds_atomic(g, {_m0(em)}, {_offset(inst)}, 4, {one}, {bound})")
    em.write_vector32(em.vector_index(inst.results[0].code), Value(em.let(f"{old}[0][:, :1]")))


def _one(em: Emitter, inst: Instruction, move: access.Access) -> None:
    _move(em, inst, move, _address(em, inst))


def _move(em: Emitter, inst: Instruction, move: access.Access, address: str) -> None:
    mask = em.mask_argument()
    arguments = f"g, {address}, {_offset(inst)}, {move.nbytes}, {mask}"
    if move.store:
        data = inst.operand("data0")
        assert data is not None
        words = access.stored_words(em, move, data.code, checked=False)
        em.emit(f"M.lds_store({arguments}, [{', '.join(words)}])")
        return
    loaded = em.let(f"M.lds_load({arguments})")
    words = [em.let(f"{loaded}[{k}]") for k in range(max(1, move.nbytes // 4))]
    access.write_loaded(em, move, inst.results[0].code, words, access.undefined_words(em, len(words)))


def _two(em: Emitter, inst: Instruction, pair: re.Match[str]) -> None:
    nbytes = int(pair["bits"]) // 8
    scale = nbytes * (64 if pair["far"] else 1)
    offsets = (inst.modifiers.get("offset0", 0) * scale, inst.modifiers.get("offset1", 0) * scale)
    address, mask = _address(em, inst), em.mask_argument()
    count = nbytes // 4
    if pair["load"]:
        # Both reads happen before the first result is written: the address register may be a destination.
        values = []
        for offset in offsets:
            loaded = em.let(f"M.lds_load(g, {address}, {offset}, {nbytes}, {mask})")
            undefined = access.undefined_words(em, count)
            values += [Value(em.let(f"{loaded}[{k}]"), undefined[k]) for k in range(count)]
        for k, value in enumerate(values):
            em.write_vector32(em.vector_index(inst.results[0].code + k), value)
        return
    moves = []
    for name in ("data0", "data1"):
        operand = inst.operand(name)
        assert operand is not None
        moves.append([em.vector32(em.vector_index(operand.code + k)).name for k in range(count)])
    if pair["swap"]:
        swap = atomics.parse(f"swap_b{pair['bits']}")
        olds = []
        for offset, words in zip(offsets, moves, strict=True):
            bound = f"{em.const(atomics.bind)}({em.const(swap)}, [{', '.join(words)}], True)"
            olds.append(em.let(f"M.lds_atomic(g, {address}, {offset}, {nbytes}, {mask}, {bound})"))
        for k, old in enumerate(olds):
            for part in range(count):
                code = inst.results[0].code + k * count + part
                em.write_vector32(em.vector_index(code), Value(em.let(f"{old}[{part}]")))
        return
    for offset, words in zip(offsets, moves, strict=True):
        em.emit(f"M.lds_store(g, {address}, {offset}, {nbytes}, {mask}, [{', '.join(words)}])")


def _atomic(em: Emitter, inst: Instruction, atomic: atomics.Atomic) -> None:
    address, mask = _address(em, inst), em.mask_argument()
    names = ["data0", "data1"][: atomic.operands]
    if atomic.operands == 2 and "cmpst_" in inst.mnemonic:
        names.reverse()  # gfx9's older form has the expected value first
    words = []
    for name in names:
        operand = inst.operand(name)
        assert operand is not None
        for k in range(atomic.nbytes // 4):
            value = em.vector32(em.vector_index(operand.code + k))
            em.check(value, "atomic data")
            words.append(value.name)
    want_old = bool(inst.results)
    bound = f"{em.const(atomics.bind)}({em.const(atomic)}, [{', '.join(words)}], {want_old})"
    old = em.let(f"M.lds_atomic(g, {address}, {_offset(inst)}, {atomic.nbytes}, {mask}, {bound})")
    if want_old:
        for k in range(atomic.nbytes // 4):
            em.write_vector32(em.vector_index(inst.results[0].code + k), Value(em.let(f"{old}[{k}]")))


# --- permutes ---


def _named_lane(address: Array, offset: int, reach: int, lanes: int) -> Array:
    """Lane numbers from byte addresses. `reach` lanes can talk to each other: the whole wave, or its half."""
    base = np.arange(lanes, dtype=_U32) & ~_U32(reach - 1)
    return ((address + _U32(offset)) >> _U32(2) & _U32(reach - 1)) | base[None, :]


def pull(data: Array, address: Array, offset: int, reach: int, active: Array) -> Array:
    """DS_BPERMUTE: each lane takes the value of the lane its address names (in bytes); inactive lanes give zero."""
    source = _named_lane(address, offset, reach, active.shape[1])
    data = np.where(active, data, _U32(0))
    wide, index = np.broadcast_arrays(data, source.astype(np.intp))
    return np.take_along_axis(wide, index, axis=1)


def push(data: Array, address: Array, offset: int, reach: int, active: Array) -> Array:
    """DS_PERMUTE: each active lane sends its value to the lane its address names; the highest sender wins."""
    target = np.broadcast_to(_named_lane(address, offset, reach, active.shape[1]), active.shape)
    result = np.zeros(active.shape, _U32)
    wide = np.broadcast_to(data, active.shape)
    rows = np.broadcast_to(np.arange(active.shape[0])[:, None], active.shape)
    result[rows[active], target[active]] = wide[active]
    return result


def _permute(em: Emitter, inst: Instruction) -> None:
    address = _address(em, inst)
    operand = inst.operand("data0")
    assert operand is not None
    data = em.vector32(em.vector_index(operand.code))
    helper = em.const(pull if inst.mnemonic == "ds_bpermute_b32" else push)
    # Since gfx10 the two halves of a wave64 are separate here.
    reach = 64 if em.traits.family == "gfx942" else 32
    name = em.let(f"{helper}({data.name}, {address}, {_offset(inst)}, {reach}, E)")
    undefined = None
    if data.undefined:
        undefined = em.let(
            f"None if {data.undefined} is None else {helper}({data.undefined}, {address}, {_offset(inst)}, {reach}, E)"
        )
    em.write_vector32(em.vector_index(inst.results[0].code), Value(name, undefined))


def swizzle_source(pattern: int, lanes: int) -> Array:
    """Source lane of each lane for a DS_SWIZZLE offset (AMD ISA documents, DS_SWIZZLE_B32).

    Bit 15 set: quad permutation (or, above 0xE000, FFT and rotate modes); clear: and, or, xor masks in groups of 32.
    """
    lane = np.arange(lanes)
    within = lane & 31
    if pattern >= 0xE000:
        raise NotImplementedError(f"swizzle mode {pattern:#x}")
    if pattern >= 0xC000:
        amount, mask = pattern >> 5 & 31, pattern & 31
        direction = -1 if pattern >> 10 & 1 else 1
        rotated = (within & mask) | ((within + direction * amount) & ~mask & 31)
        return (lane & ~31) | rotated
    if pattern & 0x8000:
        return (lane & ~3) + (pattern >> (2 * (lane & 3)) & 3)
    return (lane & ~31) | ((within & (pattern & 31)) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31)


def take_lanes(data: Array, source: Array, active: Array) -> Array:
    """Values of other lanes, zero from inactive ones."""
    return np.where(active, data, _U32(0))[:, source]


def _swizzle(em: Emitter, inst: Instruction) -> None:
    operand = inst.operand("addr")
    assert operand is not None
    data = em.vector32(em.vector_index(operand.code))
    try:
        source = swizzle_source(_offset(inst) & 0xFFFF, em.wave_size)
    except NotImplementedError as error:
        raise em.unsupported(str(error)) from error
    helper, lanes = em.const(take_lanes), em.const(source)
    undefined = None
    if data.undefined:
        undefined = em.let(f"None if {data.undefined} is None else {helper}({data.undefined}, {lanes}, E)")
    name = em.let(f"{helper}({data.name}, {lanes}, E)")
    em.write_vector32(em.vector_index(inst.results[0].code), Value(name, undefined))
