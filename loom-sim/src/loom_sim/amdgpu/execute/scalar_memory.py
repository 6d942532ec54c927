"""Scalar loads: once per wave, or once for all waves when the address is the same."""

from __future__ import annotations

import numpy as np

from loom_sim.amdgpu.emitter import Emitter, Value
from loom_sim.amdgpu.execute import access
from loom_sim.amdgpu.instruction import Instruction
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
    move = access.parse(inst.mnemonic)
    if move is None or move.store or "scratch" in inst.mnemonic:
        return False
    result, base = inst.operand("sdata"), inst.operand("sbase")
    assert result is not None
    assert base is not None
    buffer = "buffer" in inst.mnemonic
    low, high = em.scalar32(base.code), em.scalar32(base.code + 1)
    em.check(low, "the address")
    em.check(high, "the address")
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
    offset += inst.modifiers.get("offset", 0)
    em.site()
    if buffer:
        records, stride = em.scalar32(base.code + 2), high
        high = Value(em.let(f"{high.name} & klow"), high.undefined)
        em.check(records, "the buffer resource")
        resource = f"{low.name}, {high.name}, {stride.name}, {records.name}"
        loaded = em.let(f"M.scalar_buffer_load({resource}, {extra}, {offset}, {move.nbytes})")
    else:
        pair = em.let(f"{em.const(scalar_address)}({low.name}, {high.name}, {extra}, {offset})")
        loaded = em.let(f"M.scalar_load(g, {pair}[0], {pair}[1], {move.nbytes})")
    if move.signed:
        word = em.let(f"{em.const(access.extend_signed)}({loaded}[0], {move.nbytes})")
        em.write_scalar32(result.code, Value(word))
        return True
    for k in range(max(1, move.nbytes // 4)):
        em.write_scalar32(result.code + k, Value(em.let(f"{loaded}[{k}]")))
    return True
