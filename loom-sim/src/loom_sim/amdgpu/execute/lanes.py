"""Instructions that move data between lanes, or between lanes and scalar registers."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from loom_sim.amdgpu.emitter import Emitter, Value
from loom_sim.amdgpu.execute import interpolation, lane_select
from loom_sim.amdgpu.execute.vector_integer import masked_sum_at
from loom_sim.amdgpu.instruction import VGPR, Instruction
from loom_sim.amdgpu.state import Array

_U32 = np.uint32


def first_lane(x: Array, mask: Array | None) -> Array:
    """The value of the lowest active lane of each wave (lane 0 if none is active)."""
    if x.shape[1] == 1:
        return x
    if mask is None:
        return x[:, :1]
    lane = np.broadcast_to(mask, (mask.shape[0], x.shape[1])).argmax(axis=1)
    rows = np.arange(len(lane)) if x.shape[0] > 1 else np.zeros(len(lane), np.intp)
    found: Array = x[rows, lane][:, None]
    return found


def one_lane(x: Array, lane: Array) -> Array:
    """The value of a lane, given per wave (uint32 of shape (waves, 1))."""
    if x.shape[1] == 1:
        return x
    index = (lane & _U32(x.shape[1] - 1))[:, 0]
    if len(index) == 1:
        return x[:, int(index[0]) : int(index[0]) + 1]
    rows = np.arange(len(index)) if x.shape[0] > 1 else np.zeros(len(index), np.intp)
    found: Array = x[rows, index][:, None]
    return found


def below(wave_size: int, high: bool) -> Array:
    """For each lane, the mask of lower lanes in the low (or high) 32 lanes, shape (1, lanes)."""
    lane = np.arange(wave_size, dtype=np.int64)
    count = np.clip(lane - (32 if high else 0), 0, 32)
    return ((np.int64(1) << count) - 1).astype(_U32)[None, :]


def permute_lanes(x: Array, selector: Array, across: bool, wave_size: int) -> tuple[Array, Array]:
    """V_PERMLANE16_VAR and X16: each lane takes the lane its selector names, in its own or the paired row of sixteen.

    Returns the values and the source lane numbers.
    """
    lane = np.arange(wave_size)
    row = (lane & ~15) ^ (16 if across else 0)
    source = row[None, :] + selector.astype(np.intp)
    if x.shape[1] == 1:
        return x, source
    wide, index = np.broadcast_arrays(x, source)
    return np.take_along_axis(wide, index, axis=1), source


def permute_in_rows(x: Array, low: Array, high: Array, across: bool, wave_size: int) -> tuple[Array, Array]:
    """V_PERMLANE16 and X16: like `permute_lanes`, the selector of lane i of a row being nibble i of two words."""
    lane = np.arange(wave_size)
    within = lane & 15
    shift = ((within & 7) * 4).astype(_U32)[None, :]
    selector = np.where(within[None, :] < 8, low, high) >> shift & _U32(15)
    return permute_lanes(x, selector, across, wave_size)


def _read_first_lane(em: Emitter, inst: Instruction) -> None:
    value = em.source(inst.operands[1], "u32")
    helper = em.const(first_lane)
    name = em.let(f"{helper}({value.name}, {em.mask_argument()})")
    undefined = None
    if value.undefined:
        undefined = em.let(f"None if {value.undefined} is None else {helper}({value.undefined}, {em.mask_argument()})")
    em.result(inst.operands[0], "u32", Value(name, undefined))


def _read_lane(em: Emitter, inst: Instruction) -> None:
    value = em.source(inst.operands[1], "u32", 31)
    lane = em.source(inst.operands[2], "u32", 31)
    em.check(lane, "the lane number")
    helper = em.const(one_lane)
    undefined = None
    if value.undefined:
        undefined = em.let(f"None if {value.undefined} is None else {helper}({value.undefined}, {lane.name})")
    em.result(inst.operands[0], "u32", Value(em.let(f"{helper}({value.name}, {lane.name})"), undefined))


def _write_lane(em: Emitter, inst: Instruction) -> None:
    value = em.source(inst.operands[1], "u32", 31)
    lane = em.source(inst.operands[2], "u32", 31)
    em.check(lane, "the lane number")
    numbers = em.const(np.arange(em.wave_size, dtype=_U32)[None, :], ("lanes", em.wave_size))
    mask = em.let(f"{numbers} == ({lane.name} & u32({em.wave_size - 1}))")
    em.write_vector32(em.vector_index(inst.operands[0].code), value, mask)


def _count_below(em: Emitter, inst: Instruction) -> None:
    high = inst.mnemonic == "v_mbcnt_hi_u32_b32"
    mask, base = em.source(inst.operands[1], "u32", 0), em.source(inst.operands[2], "u32", 1)
    lower = em.const(below(em.wave_size, high), ("below", em.wave_size, high))
    name = em.let(f"np.bitwise_count({mask.name} & {lower}).astype(u32) + {base.name}")
    undefined = None
    if mask.undefined or base.undefined:
        undefined = em.let(f"fit_undefined(any_undefined({mask.undefined}, {base.undefined}), 'u32')")
    em.result(inst.operands[0], "u32", Value(name, undefined))


def _swap(em: Emitter, inst: Instruction) -> None:
    first, second = (em.vector_index(o.code) for o in inst.operands)
    a, b = em.vector32(first), em.vector32(second)
    em.write_vector32(first, b)
    em.write_vector32(second, a)


def _permute_row(em: Emitter, inst: Instruction) -> None:
    destination, source = inst.operands[0], inst.operands[1]
    value = em.source(source, "u32", 31)
    if inst.mnemonic.endswith("_var_b32"):
        selector = em.source(inst.operands[2], "u32", 31)
        low = em.let(f"{selector.name} & u32(15)")
        em.check(selector, "the lane selector")
        helper = em.const(permute_lanes)
        call = f"{helper}({value.name}, {low}, {'permlanex' in inst.mnemonic}, {em.wave_size})"
    else:
        first, second = em.source(inst.operands[2], "u32", 31), em.source(inst.operands[3], "u32", 31)
        em.check(first, "the lane selector")
        em.check(second, "the lane selector")
        low, high = first.name, second.name
        helper = em.const(permute_in_rows)
        call = f"{helper}({value.name}, {low}, {high}, {'permlanex' in inst.mnemonic}, {em.wave_size})"
    pair = em.let(call)
    name = em.let(f"{pair}[0]")
    fetch_inactive, bound_control = inst.modifiers.get("op_sel", 0) & 1, inst.modifiers.get("op_sel", 0) >> 1 & 1
    mask = None
    if not em.full and not fetch_inactive:
        available = em.let(f"np.take_along_axis(*np.broadcast_arrays(E, {pair}[1]), axis=1)")
        if bound_control:
            name = em.let(f"np.where({available}, {name}, u32(0))")
        else:
            mask = em.let(f"E & {available}")
    undefined = None
    if value.undefined:
        undefined = em.let(f"fit_undefined(any_undefined({value.undefined}), 'u32')")
    em.write_vector32(em.vector_index(destination.code), Value(name, undefined), mask)


def _swap_halves(em: Emitter, inst: Instruction) -> None:
    value = em.source(inst.operands[1], "u32", 31)
    if em.wave_size == 32:
        return
    name = em.let(f"{value.name} if {value.name}.shape[1] == 1 else np.roll({value.name}, 32, axis=1)")
    undefined = None
    if value.undefined:
        undefined = em.let(f"fit_undefined(any_undefined({value.undefined}), 'u32')")
    em.write_vector32(em.vector_index(inst.operands[0].code), Value(name, undefined))


def _masked_sums(em: Emitter, inst: Instruction) -> None:
    """V_MQSAD_U32_U8: four sums at byte offsets of a pair, each added to a word of a quad."""
    pair, word = em.source(inst.operands[1], "u64", 0), em.source(inst.operands[2], "u32", 1)
    start = inst.operands[3].code
    if start < VGPR:
        raise em.unsupported("a scalar accumulator of V_MQSAD_U32_U8")
    found = []
    for k in range(4):
        base = em.vector32(em.vector_index(start + k))
        name = em.let(f"{em.const(masked_sum_at)}({k}, {pair.name}, {word.name}, {base.name})")
        shadows = [v.undefined for v in (pair, word, base) if v.undefined]
        undefined = em.let(f"fit_undefined(any_undefined({', '.join(shadows)}), 'u32')") if shadows else None
        found.append(Value(name, undefined))
    for k, value in enumerate(found):
        em.write_vector32(em.vector_index(inst.operands[0].code + k), value)


_BY_NAME: dict[str, Any] = {
    "v_mqsad_u32_u8": _masked_sums,
    "v_readfirstlane_b32": _read_first_lane,
    "v_readlane_b32": _read_lane,
    "v_writelane_b32": _write_lane,
    "v_mbcnt_lo_u32_b32": _count_below,
    "v_mbcnt_hi_u32_b32": _count_below,
    "v_swap_b32": _swap,
    "v_permlane16_b32": _permute_row,
    "v_permlanex16_b32": _permute_row,
    "v_permlane16_var_b32": _permute_row,
    "v_permlanex16_var_b32": _permute_row,
    "v_permlane64_b32": _swap_halves,
    **dict.fromkeys(interpolation.NAMES, interpolation.interpolate),
}


def translate(em: Emitter, inst: Instruction) -> bool:
    """Translate a lane instruction; False if it is none."""
    handler = _BY_NAME.get(inst.mnemonic)
    if handler is None or (inst.variant and handler is not _count_below):
        return False
    with lane_select.applied(em, inst) if inst.variant else nullcontext():
        handler(em, inst)
    return True
