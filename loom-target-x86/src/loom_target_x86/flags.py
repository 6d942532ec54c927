"""Comparisons and their users: what lets a branch or selection take the flags instead of a 0 or 1 in a register."""

from __future__ import annotations

from loom.low.machine import Function, Instruction, Kind, ScheduleMode, VReg
from loom_target_x86.encode import Encoding


def sink_comparisons(function: Function) -> None:
    """Move each comparison whose only user is a branch or selection of its block directly before that user.

    There the user can take the flags, and no register needs to hold the outcome. Blocks with packets that use bare
    flags, and code whose order the author controls, stay as they are.
    """
    if function.schedule_mode is ScheduleMode.LOCKED:
        return
    uses = use_counts(function)
    for block in function.blocks:
        if any(_keeps_order(instruction) for instruction in block.instructions):
            continue
        maker = {
            instruction.results[0]: instruction
            for instruction in block.instructions
            if sets_flags(instruction) and uses.get(instruction.results[0]) == 1
        }
        if not maker:
            continue
        users = {
            instruction: maker[value]
            for instruction in block.instructions
            if (value := condition_of(instruction)) is not None and value in maker
        }
        moving = set(users.values())
        code: list[Instruction] = []
        for instruction in block.instructions:
            if instruction in moving:
                continue
            if instruction in users:
                code.append(users[instruction])
            code.append(instruction)
        block.instructions = code


def _keeps_order(instruction: Instruction) -> bool:
    if instruction.kind is Kind.FENCE or instruction.scope_events:
        return True
    descriptor = instruction.descriptor
    return descriptor is not None and bool(descriptor.effects.implicit_reads)


def sets_flags(instruction: Instruction) -> bool:
    """Whether an instruction is a comparison that can leave its outcome in the flags alone."""
    descriptor = instruction.descriptor
    if descriptor is None or instruction.lock or len(instruction.results) != 1:
        return False
    return isinstance(descriptor.encoding, Encoding) and descriptor.encoding.flags is not None


def takes_flags(instruction: Instruction) -> bool:
    """Whether an instruction is a selection that can act on flags."""
    descriptor = instruction.descriptor
    return descriptor is not None and isinstance(descriptor.encoding, Encoding) and bool(descriptor.encoding.on_flags)


def condition_of(instruction: Instruction) -> VReg | None:
    """The 0 or 1 that an instruction decides on."""
    if instruction.kind is Kind.COND_BRANCH or (takes_flags(instruction) and not instruction.lock):
        return instruction.operands[0]
    return None


def use_counts(function: Function) -> dict[VReg, int]:
    """Value -> operands and edges that name it."""
    counts: dict[VReg, int] = {}
    for block in function.blocks:
        for instruction in block.instructions:
            for value in instruction.operands:
                counts[value] = counts.get(value, 0) + 1
            for edge in instruction.successors:
                for value in edge.args:
                    counts[value] = counts.get(value, 0) + 1
    return counts
