"""Making two-address instructions allocatable: a tied operand must die where it is overwritten.

The copy goes directly before the instruction, so it runs under the same lane mask. A packet that
merges lanes (its result keeps the tied operand's value in masked-off lanes) relies on there being no
copy: whoever emits it makes the operand's last use, copying earlier if the value is still needed.
"""

from __future__ import annotations

from loom.low.liveness import Liveness, clobbered_early
from loom.low.machine import Function, Instruction, Kind, VReg


def copy_live_tied_operands(function: Function, liveness: Liveness) -> int:
    """Insert copies (or exchange commutative operands) in place; returns the number of copies."""
    copies = 0
    for block in function.blocks:
        if not any(inst.descriptor is not None and inst.descriptor.ties for inst in block.instructions):
            continue
        live = set(liveness.live_out(block))
        reversed_code: list[Instruction] = []
        for instruction in reversed(block.instructions):
            for edge in instruction.successors:
                live.update(edge.args)
            live.difference_update(instruction.results)
            before: list[Instruction] = []
            if instruction.descriptor is not None and instruction.descriptor.ties:
                _commute(instruction, live)
                before = _copies(function, instruction, live)
            live.update(instruction.operands)
            reversed_code.append(instruction)
            for copy in before:
                live.discard(copy.results[0])
                live.update(copy.operands)
                reversed_code.append(copy)
            copies += len(before)
        block.instructions = reversed_code[::-1]
    return copies


def insert_copy(function: Function, instruction: Instruction, operand: int) -> Instruction:
    """A copy of one operand to put before ``instruction``, whose operand now is the copy."""
    value = instruction.operands[operand]
    fresh = function.new_value(value.reg_class, value.units, value.name)
    instruction.operands[operand] = fresh
    return Instruction(Kind.COPY, None, [fresh], [value], loc=instruction.loc, lock=instruction.lock)


def _commute(instruction: Instruction, live: set[VReg]) -> None:
    descriptor = instruction.descriptor
    assert descriptor is not None
    pair = descriptor.commuted
    if pair is None or len(descriptor.ties) != 1 or descriptor.ties[0][1] not in pair:
        return
    tied = descriptor.ties[0][1]
    other = pair[0] if tied == pair[1] else pair[1]
    operands = instruction.operands
    first, second = operands[tied], operands[other]
    if first in live and second not in live and first.reg_class == second.reg_class:
        operands[tied], operands[other] = second, first


def _copies(function: Function, instruction: Instruction, live: set[VReg]) -> list[Instruction]:
    descriptor = instruction.descriptor
    assert descriptor is not None
    kept = live.union(clobbered_early(instruction))
    copies = []
    taken: set[VReg] = set()
    for result, operand in descriptor.ties:
        value = instruction.operands[operand]
        conflict = value.fixed is not None and value.fixed != instruction.results[result].fixed
        if value in kept or value in taken or conflict:
            copies.append(insert_copy(function, instruction, operand))
        else:
            taken.add(value)
    return copies
