"""Whether another schedule of a kernel is worth its time for the waves that it lets in.

Fewer registers let more waves onto a SIMD, which hide each other's latency; but an order that needs fewer registers
hides less of a wave's own. What counts is the time of one wave divided by the waves that share it.
"""

from __future__ import annotations

from typing import Final

from loom.low.allocate import Allocation
from loom.low.cfg import loop_depths
from loom.low.machine import Function, ScheduleMode, VReg
from loom.low.schedule import ScheduleModel
from loom_target_amdgpu.profiles import Processor, vgprs_for_waves, waves_per_simd

_ROOM: Final = 8
"""Allocation may need an eighth more registers than are live at once, for tuples in one piece."""
_TRIPS: Final = 8
"""Assumed trips of a loop, as for the costs of spilling."""
_DEEPEST: Final = 8


def waves_of(allocation: Allocation, processor: Processor) -> int:
    """Resident waves per SIMD with the registers of an allocation."""
    high = allocation.high_water
    return waves_per_simd(
        processor,
        processor.wave,
        high.get("amdgpu.vgpr", 0),
        high.get("amdgpu.agpr", 0),
        high.get("amdgpu.sgpr", 0),
    )


def tighter_limit(function: Function, allocation: Allocation, processor: Processor) -> int | None:
    """Vector registers that a schedule should stay within so that one more wave fits; None where none could.

    Nothing is to be gained where all waves fit, where scalar registers are the limit, where the order is fixed, and
    where not even all registers were enough.
    """
    if function.schedule_mode is ScheduleMode.LOCKED or allocation.spills or allocation.reloads:
        return None
    waves, high = waves_of(allocation, processor), allocation.high_water
    agprs, sgprs = high.get("amdgpu.agpr", 0), high.get("amdgpu.sgpr", 0)
    if waves_per_simd(processor, processor.wave, 1, agprs, sgprs) <= waves:
        return None
    step = vgprs_for_waves(processor, processor.wave, waves + 1, agprs)
    return step - step // _ROOM


def pays(old: tuple[int, int, Allocation], new: tuple[int, int, Allocation]) -> bool:
    """Whether the new (cycles, waves, allocation) makes the waves of a SIMD faster together, without spilling."""
    (old_cycles, old_waves, before), (cycles, waves, after) = old, new
    if after.spills > before.spills or after.reloads > before.reloads:
        return False
    return waves > old_waves and cycles * old_waves < old_cycles * waves


def issue_cycles(function: Function, model: ScheduleModel) -> int:
    """Cycles that one wave takes from start to end if each block runs as often as its loops suggest.

    One instruction starts per cycle, in order, once its operands are there.
    """
    depths = loop_depths(function)
    total = 0
    for block in function.blocks:
        ready: dict[VReg, int] = {}
        cycle = 0
        for instruction in block.instructions:
            start = max([cycle, *[ready.get(value, 0) for value in instruction.operands]])
            if instruction.descriptor is not None:
                done = start + model.latency(instruction.descriptor)
                ready.update(dict.fromkeys(instruction.results, done))
            cycle = start + 1
        total += cycle * _TRIPS ** min(depths.get(block, 0), _DEEPEST)
    return total
