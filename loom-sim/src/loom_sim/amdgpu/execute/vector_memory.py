"""Global, flat, scratch and buffer instructions."""

from __future__ import annotations

import numpy as np

from loom_sim.amdgpu.emitter import Emitter, Value
from loom_sim.amdgpu.execute import access, atomics, buffers, formatted
from loom_sim.amdgpu.instruction import OFF, Instruction, Operand
from loom_sim.amdgpu.state import Array

_GLOBAL = ("GLOBAL", "VGLOBAL")
_FLAT = ("FLAT", "VFLAT")
_SCRATCH = ("SCRATCH", "VSCRATCH")
_BUFFER = ("MUBUF", "MTBUF", "VBUFFER")
_ALL = _GLOBAL + _FLAT + _SCRATCH + _BUFFER
_U32 = np.uint32


def add_base(low: Array, high: Array, offset: Array) -> tuple[Array, Array]:
    """A 64-bit scalar base plus an unsigned 32-bit offset per lane."""
    total = low + offset
    if int(low.max()) + int(offset.max()) <= 0xFFFFFFFF:
        return total, high
    return total, high + (total < offset)


def _address(em: Emitter, inst: Instruction) -> tuple[str, str]:
    """Names of low and high address words of a global or flat instruction, without the immediate offset."""
    vector = inst.operand("addr") or inst.operand("vaddr")
    base = inst.operand("saddr")
    if "addtid" in inst.mnemonic:
        return _address_by_lane(em, base)
    if base is None or base.code == OFF:
        if vector is None or vector.code == OFF:
            raise em.unsupported("no address operand")
        low = em.vector32(em.vector_index(vector.code))
        high = em.vector32(em.vector_index(vector.code + 1))
        em.check(low, "the address")
        em.check(high, "the address")
        return low.name, high.name
    low, high = em.scalar32(base.code), em.scalar32(base.code + 1)
    em.check(low, "the address")
    em.check(high, "the address")
    if vector is None or vector.code == OFF:
        return low.name, high.name
    offset = em.vector32(em.vector_index(vector.code))
    em.check(offset, "the address")
    pair = em.let(f"{em.const(add_base)}({low.name}, {high.name}, {offset.name})")
    return em.let(f"{pair}[0]"), em.let(f"{pair}[1]")


def _address_by_lane(em: Emitter, base: Operand | None) -> tuple[str, str]:
    """`global_*_addtid_b32`: a word per lane, from the scalar address on."""
    if base is None or base.code == OFF:
        raise em.unsupported("an address by lane without a scalar base")
    low, high = em.scalar32(base.code), em.scalar32(base.code + 1)
    em.check(low, "the address")
    em.check(high, "the address")
    lanes = em.const(np.arange(em.wave_size, dtype=_U32)[None, :] * _U32(4), ("lane words", em.wave_size))
    pair = em.let(f"{em.const(add_base)}({low.name}, {high.name}, {lanes})")
    return em.let(f"{pair}[0]"), em.let(f"{pair}[1]")


def _scratch_offset(em: Emitter, inst: Instruction) -> str:
    terms = []
    for name in ("addr", "vaddr"):
        vector = inst.operand(name)
        if vector is not None and vector.code != OFF:
            terms.append(em.vector32(em.vector_index(vector.code)))
    base = inst.operand("saddr")
    if base is not None and base.code != OFF and not em.is_null(base.code):
        terms.append(em.scalar32(base.code))
    for term in terms:
        em.check(term, "the scratch address")
    total = " + ".join(t.name for t in terms) or em.bits(0).name
    return em.let(f"{total} + u32({inst.get('offset') & 0xFFFFFFFF})")


def _data(inst: Instruction) -> Operand | None:
    return inst.operand("data") or inst.operand("vdata") or inst.operand("vsrc")


def _result(inst: Instruction) -> Operand | None:
    found = inst.results
    return found[0] if found else None


def translate(em: Emitter, inst: Instruction) -> bool:
    """Translate a vector memory instruction; False if it is none."""
    if inst.format not in _ALL:
        return False
    name = inst.mnemonic
    if "lds" in name or inst.form.endswith("lds"):
        _load_to_lds(em, inst)
        return True
    if "_tr_" in name:
        _transposed_load(em, inst)
        return True
    if "block" in name:
        raise em.unsupported("moves of registers that M0 selects are not executed")
    em.site()
    if "_format_" in name:
        formatted.translate(em, inst)
        return True
    _, separator, operation = name.partition("_atomic_")
    if separator:
        _atomic(em, inst, operation)
        return True
    move = access.parse(name.replace("_addtid", ""))
    if move is None:
        return False
    if inst.format in _BUFFER:
        _buffer(em, inst, move)
        return True
    mask = em.mask_argument()
    if inst.format in _SCRATCH:
        place = _scratch_offset(em, inst)
        target = f"M.scratch_{{}}(g, {place}, {move.nbytes}, {mask}"
    else:
        low, high = _address(em, inst)
        kind = "flat" if inst.format in _FLAT else "global"
        target = f"M.{kind}_{{}}(g, {low}, {high}, {inst.get('offset')}, {move.nbytes}, {mask}"
    if move.store:
        data = _data(inst)
        assert data is not None
        words = access.stored_words(em, move, data.code, checked=inst.format in _GLOBAL)
        em.emit(target.format("store") + f", [{', '.join(words)}])")
        return True
    result = _result(inst)
    assert result is not None
    loaded = em.let(target.format("load") + ")")
    # Buffers hold what the host gave them; only LDS and scratch start without values.
    local = inst.format in _SCRATCH or inst.format in _FLAT
    words = _each(em, loaded, move.nbytes)
    access.write_loaded(em, move, result.code, words, access.undefined_words(em, len(words)) if local else None)
    return True


def _transposed_load(em: Emitter, inst: Instruction) -> None:
    """`global_load_tr_b128` and `_b64` of gfx12; see `transposed`."""
    result = _result(inst)
    assert result is not None
    if em.wave_size != _TRANSPOSED_LANES:
        raise em.unsupported("loads that transpose in waves of 64: which lane gets what is not in the public documents")
    em.site()
    em.emit(f"{em.const(require_every_lane)}({em.active()})")
    low, high = _address(em, inst)
    nbytes = result.bits // 8
    arguments = f"g, {low}, {high}, {inst.get('offset')}, {nbytes}, {em.mask_argument()}"
    loaded = em.let(f"{em.const(transposed)}(M.global_load({arguments}), len(g.waves))")
    for k in range(nbytes // 4):
        em.write_vector32(em.vector_index(result.code + k), Value(em.let(f"{loaded}[{k}]")))


_TRANSPOSED_LANES = 32


def require_every_lane(mask: Array) -> None:
    """Refuse inactive lanes: a transposing load wants them all (AMD RDNA4 ISA, "Load Transpose").

    Raises:
        NotImplementedError: there are some.
    """
    if not mask.all():
        raise NotImplementedError("a load that transposes while some lanes are inactive")


def transposed(words: list[Array], waves: int) -> list[Array]:
    """What lanes of a wave32 get when each has read eight elements of 16 bits (four words) or 8 bits (two words).

    Tiles of 8 x 8 elements are transposed. With 16 bits, a tile is what eight lanes in a row have read; with 8 bits
    it is what lanes 0-3 and 8-11 of 16 have, or lanes 4-7 and 12-15, and goes to lanes 0-7 or 8-15. This is as measured
    on gfx1201 by several users of it (among them the projects Tessera and a port of llama.cpp), whose reports agree;
    the public documents only say that a 16 x 16 matrix is transposed.
    """
    lane, element = np.indices((_TRANSPOSED_LANES, 8))
    if len(words) == 4:
        source = lane // 8 * 8 + element
    else:
        source = lane // 16 * 16 + element // 4 * 8 + lane // 8 % 2 * 4 + element % 4
    shape = (waves, _TRANSPOSED_LANES)
    read = np.stack([np.broadcast_to(word, shape) for word in words], axis=-1)
    elements = read.view(np.uint16 if len(words) == 4 else np.uint8)
    result = np.ascontiguousarray(elements[:, source, lane % 8]).view(_U32)
    return [result[..., k] for k in range(len(words))]


def _each(em: Emitter, loaded: str, nbytes: int) -> list[str]:
    return [em.let(f"{loaded}[{k}]") for k in range(max(1, nbytes // 4))]


def _atomic(em: Emitter, inst: Instruction, operation: str) -> None:
    atomic = atomics.parse(operation)
    if atomic is None:
        raise em.unsupported("an atomic whose order the hardware decides is not executed")
    data = _data(inst)
    assert data is not None
    words = []
    # Compare-and-swap data: the new value first, then the expected one.
    for k in range(atomic.operands * atomic.nbytes // 4):
        value = em.vector32(em.vector_index(data.code + k))
        em.check(value, "atomic data")
        words.append(value.name)
    result = _result(inst)
    want_old = result is not None
    bound = em.let(f"{em.const(atomics.bind)}({em.const(atomic)}, [{', '.join(words)}], {want_old})")
    if inst.format in _BUFFER:
        low, high, inside = buffers.address_of(em, inst, atomic.nbytes)
        old = em.let(f"M.global_atomic(g, {low}, {high}, 0, {atomic.nbytes}, {inside}, {bound})")
    elif inst.format in _SCRATCH:
        raise em.unsupported("scratch atomics do not exist")
    else:
        low, high = _address(em, inst)
        kind = "flat" if inst.format in _FLAT else "global"
        old = em.let(
            f"M.{kind}_atomic(g, {low}, {high}, {inst.get('offset')}, {atomic.nbytes}, {em.mask_argument()}, {bound})"
        )
    if result is not None:
        for k in range(atomic.nbytes // 4):
            em.write_vector32(em.vector_index(result.code + k), Value(em.let(f"{old}[{k}]")))


def _buffer(em: Emitter, inst: Instruction, move: access.Access) -> None:
    low, high, inside = buffers.address_of(em, inst, move.nbytes)
    data = inst.operand("vdata")
    assert data is not None
    if move.store:
        words = access.stored_words(em, move, data.code, checked=True)
        em.emit(f"M.global_store(g, {low}, {high}, 0, {move.nbytes}, {inside}, [{', '.join(words)}])")
        return
    loaded = em.let(
        f"{em.const(buffers.zero_outside)}(M.global_load(g, {low}, {high}, 0, {move.nbytes}, {inside}), {inside})"
    )
    access.write_loaded(em, move, data.code, _each(em, loaded, move.nbytes))


_M0_WORDS = 0x3FFFC


def _load_to_lds(em: Emitter, inst: Instruction) -> None:
    """Memory to LDS without a register, a word per lane: at M0 plus the immediate offset plus four times the lane.

    The immediate offset counts on both sides. Buffer loads take M0[15:0] as bytes (AMD CDNA3 ISA, "Memory Buffer Load
    to LDS"), global and scratch loads M0[17:2] as words ("Flat Memory Instructions", "Addressing").
    """
    move = access.parse(inst.mnemonic.replace("_lds", ""))
    if em.traits.family != "gfx942":
        raise em.unsupported(
            "where in LDS the loads to LDS of this processor put their data is not in its public documents"
        )
    if move is None or move.store or inst.format in _FLAT or move.nbytes > 4:
        raise em.unsupported("only loads of up to a word from global memory, scratch and buffers to LDS are executed")
    em.site()
    start = em.scalar32(em.traits.m0_code)
    em.check_everywhere(start, "the LDS address")
    offset = inst.get("offset")
    undefined = None
    if inst.format in _BUFFER:
        low, high, inside = buffers.address_of(em, inst, move.nbytes)
        arguments = f"g, {low}, {high}, 0, {move.nbytes}, {inside}"
        loaded = em.let(f"{em.const(buffers.zero_outside)}(M.global_load({arguments}), {inside})")
    elif inst.format in _SCRATCH:
        loaded = em.let(f"M.scratch_load(g, {_scratch_offset(em, inst)}, {move.nbytes}, {em.mask_argument()})")
        (undefined,) = access.undefined_words(em, 1)
    else:
        low, high = _address(em, inst)
        loaded = em.let(f"M.global_load(g, {low}, {high}, {offset}, {move.nbytes}, {em.mask_argument()})")
    word = em.let(f"{loaded}[0]")
    em.check(Value(word, undefined), "data loaded to LDS")
    if move.signed:
        word = em.let(f"{em.const(access.extend_signed)}({word}, {move.nbytes})")
    lanes = em.const(np.arange(em.wave_size, dtype=_U32)[None, :] * _U32(4), ("lane words", em.wave_size))
    kept = "klow" if inst.format in _BUFFER else f"u32({_M0_WORDS})"
    place = em.let(f"({start.name} & {kept}) + {lanes}")
    em.emit(f"M.lds_store(g, {place}, {offset & 0xFFFFFFFF}, 4, {em.mask_argument()}, [{word}])")
