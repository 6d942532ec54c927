"""Packing spill slots into memory: slots that are never needed at the same time share their place."""

from __future__ import annotations

from loom.ir.records import record
from loom.low.linear_scan import UnitTable
from loom.low.liveness import backward_flow
from loom.low.machine import Block, Function, Instruction, Kind


@record
class Slot:
    """A place in spill memory.

    Attributes:
        number: what SPILL and RELOAD name.
        reg_class: class of the values it holds.
        units: size in units of that class.
        offset: first unit within the memory of the class's bank, counted in units of the bank's
            widest class.
    """

    number: int
    reg_class: str
    units: int
    offset: int


def pack_slots(function: Function, shapes: list[tuple[str, int]]) -> tuple[list[Slot], dict[str, int]]:
    """Assign offsets; returns the slots by number and bank -> units of memory needed."""
    if not shapes:
        return [], {}
    registers = function.descriptor_set.registers
    pieces = _slot_segments(function, len(shapes))
    tables: dict[str, UnitTable] = {}
    sizes: dict[str, int] = {}
    slots = []
    for number, (reg_class, units) in enumerate(shapes):
        bank = registers[reg_class].bank
        table = tables.setdefault(bank, UnitTable())
        offset = 0
        while not all(table.free(unit, pieces[number]) for unit in range(offset, offset + units)):
            offset += 1
        for unit in range(offset, offset + units):
            table.add(unit, pieces[number], None)
        if pieces[number]:
            sizes[bank] = max(sizes.get(bank, 0), offset + units)
        slots.append(Slot(number, reg_class, units, offset))
    return slots, sizes


def _slot_access(instruction: Instruction) -> tuple[int, int]:
    """(slot written, slot read), -1 for none."""
    if instruction.kind is Kind.SPILL and "slot" in instruction.immediates:
        return instruction.slot, -1
    if instruction.kind is Kind.RELOAD and "slot" in instruction.immediates:
        return -1, instruction.slot
    return -1, -1


def _slot_segments(function: Function, count: int) -> list[list[tuple[int, int]]]:
    """Per slot, ascending segments of instruction numbers during which it holds a value still read."""
    upward: dict[Block, int] = {}
    written: dict[Block, int] = {}
    for block in function.blocks:
        reads = writes = 0
        for instruction in block.instructions:
            target, source = _slot_access(instruction)
            if source >= 0 and not writes >> source & 1:
                reads |= 1 << source
            if target >= 0:
                writes |= 1 << target
        upward[block], written[block] = reads, writes
    _, live_out = backward_flow(function, upward, written)
    segments: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    number = sum(len(block.instructions) + 1 for block in function.blocks)
    for block in reversed(function.blocks):
        ends = {slot: number for slot in range(count) if live_out[block] >> slot & 1}
        for instruction in reversed(block.instructions):
            number -= 1
            target, source = _slot_access(instruction)
            if target >= 0:
                segments[target].append((number, ends.pop(target, number + 1)))
            if source >= 0:
                ends.setdefault(source, number)
        number -= 1
        for slot, end in ends.items():
            segments[slot].append((number, end))
    for pieces in segments:
        pieces.reverse()
    return segments
