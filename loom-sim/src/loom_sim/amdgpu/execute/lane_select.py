"""DPP and SDWA: sources that come from other lanes or from part of a register."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from loom_sim.amdgpu import runtime
from loom_sim.amdgpu.emitter import Emitter, Value
from loom_sim.amdgpu.instruction import Instruction, Operand
from loom_sim.amdgpu.state import Array

Place = Callable[[str, Value], Value]


def source_lanes(control: int, wave_size: int, family: str) -> tuple[Array, Array] | None:
    """For a DPP16 control value: the lane each lane reads and whether that lane exists; None if unknown.

    Control values: AMD ISA documents, table "DPP_CTRL Enumeration". Lanes move within rows of 16.
    """
    lane = np.arange(wave_size)
    row, within = lane & ~15, lane & 15
    valid = np.ones(wave_size, bool)
    n = control & 15
    if control <= 0xFF:
        return (lane & ~3) + (control >> (2 * (lane & 3)) & 3), valid
    if 0x101 <= control <= 0x10F:
        return np.minimum(row + within + n, wave_size - 1), within + n < 16
    if 0x111 <= control <= 0x11F:
        return np.maximum(row + within - n, 0), within - n >= 0
    if 0x121 <= control <= 0x12F:
        return row + (within - n & 15), valid
    if control == 0x140:
        return row + 15 - within, valid
    if control == 0x141:
        return (lane & ~7) + 7 - (lane & 7), valid
    if family == "gfx942":
        if control == 0x130:
            return np.minimum(lane + 1, wave_size - 1), lane + 1 < wave_size
        if control == 0x134:
            return (lane + 1) % wave_size, valid
        if control == 0x138:
            return np.maximum(lane - 1, 0), lane >= 1
        if control == 0x13C:
            return (lane - 1) % wave_size, valid
        if control == 0x142:
            return np.maximum(row - 1, 0), row >= 16
        if control == 0x143:
            return np.full(wave_size, 31), lane >= 32
        if 0x150 <= control <= 0x15F:
            return row + n, valid
        return None
    if 0x150 <= control <= 0x15F:
        return row + n, valid
    if 0x160 <= control <= 0x16F:
        return row + (within ^ n), valid
    return None


def shuffle(value: Array, source: Array) -> Array:
    """Each lane gets the value of the lane that `source` names."""
    return value if value.shape[1] == 1 else value[:, source]


def _from_lanes(value: Array, source: Array, available: Array) -> Array:
    """Values from other lanes, zero where there is none."""
    return np.where(available, shuffle(value, source), value.dtype.type(0))


@contextmanager
def applied(em: Emitter, inst: Instruction) -> Iterator[Place | None]:
    """Translate under an instruction's DPP or SDWA word.

    Yields, for SDWA, a function that places a result (type and value) into the destination word; else None.
    """
    place: Place | None = None
    if inst.variant == "sdwa":
        place = _begin_sdwa(em, inst)
    else:
        _begin_dpp(em, inst)
    try:
        yield place
    finally:
        em.permute = None
        em.write_mask_name = None


def _begin_dpp(em: Emitter, inst: Instruction) -> None:
    size = em.wave_size
    lane = np.arange(size)
    enabled = np.ones(size, bool)
    fetch_inactive = bool(inst.modifiers.get("fi", 0))
    if inst.variant == "dpp8":
        selector = inst.get("dpp8")
        source = (lane & ~7) + (selector >> (3 * (lane & 7)) & 7)
        valid = np.ones(size, bool)
        zero_fill = True
    else:
        found = source_lanes(inst.get("dpp_ctrl"), size, em.traits.family)
        if found is None:
            raise em.unsupported(f"DPP control {inst.get('dpp_ctrl'):#x} does not exist on {em.traits.family}")
        source, valid = found
        zero_fill = bool(inst.modifiers.get("bound_ctrl", 0))
        enabled = (inst.get("row_mask") >> (lane >> 4 & 3) & 1).astype(bool)
        enabled &= (inst.get("bank_mask") >> (lane >> 2 & 3) & 1).astype(bool)
    source_name = em.const(source)
    available = em.const(valid[None, :])
    if not fetch_inactive and not em.full:
        available = em.let(f"{available} & E[:, {source_name}]")
    from_lanes = em.const(_from_lanes)

    def permute(operand: Operand, value: Value, position: int) -> Value:
        if position != 0:
            return value
        name = em.let(f"{from_lanes}({value.name}, {source_name}, {available})")
        undefined = None
        if value.undefined:
            undefined = em.let(
                f"None if {value.undefined} is None else {from_lanes}({value.undefined}, {source_name}, {available})"
            )
        return Value(name, undefined)

    em.permute = permute
    written = [] if em.full else ["E"]
    if not enabled.all():
        written.append(em.const(enabled[None, :]))
    if not zero_fill and not (valid.all() and em.full):
        written.append(available)
    if written and written != ["E"]:
        em.write_mask_name = em.let(" & ".join(written))


_FIELD = {0: (0, 8), 1: (8, 8), 2: (16, 8), 3: (24, 8), 4: (0, 16), 5: (16, 16), 6: (0, 32)}
"""SDWA selects: first bit and width."""


def _begin_sdwa(em: Emitter, inst: Instruction) -> Place:
    selects = (inst.get("src0_sel"), inst.get("src1_sel"))
    signed = inst.modifiers.get("sext", 0)

    def permute(operand: Operand, value: Value, position: int) -> Value:
        if position > 1:
            return value
        low, width = _FIELD[selects[position]]
        if width == 32:
            return value
        helper = runtime.extract_signed if signed >> position & 1 else runtime.extract
        name = em.let(f"{em.const(helper)}({value.name}, {low}, {width})")
        undefined = None
        if value.undefined:
            undefined = em.let(f"{em.const(runtime.extract_undefined)}({value.undefined}, {low}, {width})")
        return Value(name, undefined)

    em.permute = permute
    destination = inst.results[0]
    unused = inst.get("dst_unused")
    low, width = _FIELD[inst.get("dst_sel")]

    def place(tag: str, value: Value) -> Value:
        bits = 16 if tag.endswith("16") else 32
        if tag.endswith("64"):
            raise em.unsupported("a 64-bit result with SDWA")
        name = value.name if tag == f"u{bits}" else em.let(f"{value.name}.view(u{bits})")
        if bits == 16:
            name = em.let(f"{name}.astype(u32)")
        if width == 32:
            return Value(name, value.undefined)
        old = em.vector32(em.vector_index(destination.code))
        placed = em.let(f"{em.const(runtime.insert)}({name}, {old.name}, {low}, {width}, {unused})")
        undefined = None
        if value.undefined or (old.undefined and unused == 2):
            kept = old.undefined if unused == 2 else None
            undefined = em.let(
                f"{em.const(runtime.insert_undefined)}({value.undefined}, {kept}, {low}, {width}, {unused})"
            )
        return Value(placed, undefined)

    return place
