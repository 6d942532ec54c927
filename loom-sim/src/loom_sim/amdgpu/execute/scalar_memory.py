"""Scalar loads, stores and atomics: once per wave; loads once for all waves when the address is the same."""

from __future__ import annotations

import numpy as np

from loom_sim.amdgpu.emitter import Emitter, Value
from loom_sim.amdgpu.execute import access, atomics
from loom_sim.amdgpu.instruction import Instruction, Operand
from loom_sim.amdgpu.state import Array


def scalar_address(low: Array, high: Array, extra: Array | None, offset: int) -> tuple[Array, Array]:
    """A 64-bit base plus scalar and immediate offsets, as words."""
    address = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
    if extra is not None:
        address = address + extra.astype(np.uint64)
    address = address + np.uint64(offset & (1 << 64) - 1)
    return address.astype(np.uint32), (address >> np.uint64(32)).astype(np.uint32)


def translate(em: Emitter, inst: Instruction) -> bool:
    """Translate a scalar memory instruction; False if it is none."""
    if inst.format != "SMEM":
        return False
    if inst.mnemonic in ("s_memtime", "s_memrealtime"):
        time = em.let("M.clock()")
        em.result(inst.results[0], "u64", Value(time))
        return True
    if "scratch" in inst.mnemonic:
        return False
    _, _, operation = inst.mnemonic.partition("_atomic_")
    if operation:
        return _atomic(em, inst, operation)
    move = access.parse(inst.mnemonic)
    if move is None:
        return False
    data = inst.operand("sdata")
    assert data is not None
    if move.store:
        _store(em, inst, move, data)
    else:
        _load(em, inst, move, data)
    return True


def _offsets(em: Emitter, inst: Instruction) -> tuple[str, int]:
    """Name of the scalar offset (or `None`), and the immediate one."""
    extra, offset = "None", 0
    for name in ("soffset", "offset", "ioffset"):
        operand = inst.operand(name)
        if operand is None:
            continue
        if operand.kind == "offset":
            offset += operand.code
        elif not em.is_null(operand.code):
            value = em.source(operand, "u32", 31)
            em.check(value, "the scalar offset")
            extra = value.name
    return extra, offset + inst.modifiers.get("offset", 0)


def _base(em: Emitter, inst: Instruction) -> tuple[Value, Value, int]:
    base = inst.operand("sbase")
    assert base is not None
    low, high = em.scalar32(base.code), em.scalar32(base.code + 1)
    em.check(low, "the address")
    em.check(high, "the address")
    return low, high, base.code


def _load(em: Emitter, inst: Instruction, move: access.Access, result: Operand) -> None:
    low, high, base = _base(em, inst)
    extra, offset = _offsets(em, inst)
    em.site()
    if "buffer" in inst.mnemonic:
        records = em.scalar32(base + 2)
        masked = em.let(f"{high.name} & klow")
        em.check(records, "the buffer resource")
        resource = f"{low.name}, {masked}, {high.name}, {records.name}"
        loaded = em.let(f"M.scalar_buffer_load({resource}, {extra}, {offset}, {move.nbytes})")
    else:
        pair = em.let(f"{em.const(scalar_address)}({low.name}, {high.name}, {extra}, {offset})")
        loaded = em.let(f"M.scalar_load(g, {pair}[0], {pair}[1], {move.nbytes})")
    if move.signed:
        word = em.let(f"{em.const(access.extend_signed)}({loaded}[0], {move.nbytes})")
        em.write_scalar32(result.code, Value(word))
        return
    for k in range(max(1, move.nbytes // 4)):
        em.write_scalar32(result.code + k, Value(em.let(f"{loaded}[{k}]")))


# --- stores and atomics of gfx942: what one lane of a wave would do, whichever lanes are active


def one_lane(waves: int, lanes: int, inside: Array | None) -> Array:
    """A lane mask with the first lane of each wave, of those waves that are `inside` a buffer if that is given."""
    mask = np.zeros((waves, lanes), bool)
    mask[:, :1] = True if inside is None else inside
    return mask


def in_buffer(stride: Array, records: Array, extra: Array | None, offset: int, nbytes: int) -> Array:
    """Waves whose scalar access lies inside the buffer; the others do nothing."""
    place = np.full((1, 1), offset, np.int64) + (0 if extra is None else extra.astype(np.int64))
    step = (stride >> np.uint32(16) & np.uint32(0x3FFF)).astype(np.int64)
    found: Array = place + nbytes <= records.astype(np.int64) * np.where(step == 0, 1, step)
    return found


def _target(em: Emitter, inst: Instruction, nbytes: int) -> tuple[str, str]:
    """Names of the address words and of the lane mask."""
    low, high, base = _base(em, inst)
    extra, offset = _offsets(em, inst)
    inside, top = "None", high.name
    if "buffer" in inst.mnemonic:
        records = em.scalar32(base + 2)
        em.check(records, "the buffer resource")
        inside = em.let(f"{em.const(in_buffer)}({high.name}, {records.name}, {extra}, {offset}, {nbytes})")
        top = em.let(f"{high.name} & klow")
    pair = em.let(f"{em.const(scalar_address)}({low.name}, {top}, {extra}, {offset})")
    return pair, em.let(f"{em.const(one_lane)}(len(g.waves), {em.wave_size}, {inside})")


def _words(em: Emitter, first: int, count: int) -> str:
    values = [em.scalar32(first + k) for k in range(count)]
    for value in values:
        em.check_everywhere(value, "stored data")
    return ", ".join(v.name for v in values)


def _store(em: Emitter, inst: Instruction, move: access.Access, data: Operand) -> None:
    words = _words(em, data.code, move.nbytes // 4)
    pair, mask = _target(em, inst, move.nbytes)
    em.site()
    em.emit(f"M.global_store(g, {pair}[0], {pair}[1], 0, {move.nbytes}, {mask}, [{words}])")


def _atomic(em: Emitter, inst: Instruction, operation: str) -> bool:
    atomic = atomics.parse(operation)
    data = inst.operand("sdata")
    if atomic is None or data is None:
        return False
    count = atomic.nbytes // 4
    words = _words(em, data.code, atomic.operands * count)
    pair, mask = _target(em, inst, atomic.nbytes)
    want_old = bool(inst.results)
    bound = em.let(f"{em.const(atomics.bind)}({em.const(atomic)}, [{words}], {want_old})")
    em.site()
    old = em.let(f"M.global_atomic(g, {pair}[0], {pair}[1], 0, {atomic.nbytes}, {mask}, {bound})")
    if want_old:
        for k in range(count):
            em.write_scalar32(data.code + k, Value(em.let(f"{old}[{k}][:, :1]")))
    return True
