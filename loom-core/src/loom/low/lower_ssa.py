"""Leaving SSA: COPY, SLICE, CONCAT and block arguments become physical moves, or nothing.

Moves for block arguments stand directly before the branch, where the lanes that define the arguments
are active; no move is ever taken across another instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from loom.ir.records import field, record
from loom.low.descriptors import RegisterClass
from loom.low.liveness import Liveness
from loom.low.machine import Block, Function, Instruction, Kind, Move, Swap, VReg
from loom.low.parallel_copy import Step, sequentialize

Item = Instruction | Move | Swap
Unit = tuple[str, int]
"""(bank, unit)"""

_TRANSFERS = frozenset({Kind.COPY, Kind.ASSUME, Kind.SLICE, Kind.CONCAT})
_SILENT = frozenset({Kind.FENCE, Kind.SCOPE_BEGIN, Kind.SCOPE_PHASE, Kind.SCOPE_END})


@record
class FinalBlock:
    """What a target emits for one block: packets with allocated values, and moves between them.

    ``causes`` says of every move or exchange, in order, what asked for it: ``block-argument``, the kind of transfer, or
    ``constraint`` for a copy that allocation itself put in front of an instruction.
    """

    label: str
    block: Block
    items: list[Item]
    causes: list[str] = field(factory=list)


def final_blocks(
    function: Function,
    liveness: Liveness,
    assign: Mapping[VReg, int],
    free_unit: Callable[[str, int, Collection[int]], int | None],
    can_swap: Collection[str],
) -> list[FinalBlock]:
    """Replace every structural transfer by moves.

    ``free_unit(class, number, not_these)`` finds a unit nothing occupies while instruction ``number``
    executes; ``can_swap`` names the register classes whose units the target can exchange.

    Raises:
        NoScratch: a cycle of moves has neither.
    """
    registers = function.descriptor_set.registers
    result = []
    for block in function.blocks:
        items: list[Item] = []
        causes: list[str] = []
        number = liveness.start[block]
        for instruction in block.instructions:
            number += 1
            kind = instruction.kind
            if kind in _SILENT:
                continue
            pairs: list[tuple[VReg, VReg, int, int]] = []
            if kind in _TRANSFERS:
                pairs = _transfers(instruction)
            for edge in instruction.successors:
                pairs += [(param, arg, 0, 0) for param, arg in zip(edge.block.params, edge.args, strict=True)]
            if any(_moves(registers, assign, *pair) for pair in pairs):
                mover = _Mover(registers, assign, can_swap)
                moves = mover.moves(pairs, partial(_free_at, free_unit, number))
                items += moves
                causes += [_cause(instruction)] * len(moves)
            if kind not in _TRANSFERS:
                items.append(instruction)
        result.append(FinalBlock(block.label, block, items, causes))
    return result


def _cause(instruction: Instruction) -> str:
    if instruction.kind not in _TRANSFERS:
        return "block-argument"
    return instruction.kind.name.lower() if instruction.origin is not None else "constraint"


def _moves(
    registers: Mapping[str, RegisterClass],
    assign: Mapping[VReg, int],
    target: VReg,
    source: VReg,
    target_offset: int,
    source_offset: int,
) -> bool:
    """Whether a transfer takes more than leaving the value where it is."""
    if target not in assign or source not in assign:
        return False
    if assign[target] + target_offset != assign[source] + source_offset:
        return True
    return target.reg_class != source.reg_class and registers[target.reg_class].bank != registers[source.reg_class].bank


def _free_at(
    free_unit: Callable[[str, int, Collection[int]], int | None],
    number: int,
    reg_class: str,
    busy: Collection[int],
) -> int | None:
    return free_unit(reg_class, number, busy)


def _transfers(instruction: Instruction) -> list[tuple[VReg, VReg, int, int]]:
    """(target, source, first target unit, first source unit) of a structural transfer."""
    result = instruction.results[0]
    if instruction.kind is Kind.SLICE:
        return [(result, instruction.operands[0], 0, instruction.offset)]
    pairs = []
    offset = 0
    for operand in instruction.operands:
        pairs.append((result, operand, offset, 0))
        offset += operand.units
    return pairs


class _Mover:
    """Orders the moves of one point. Moves between banks cannot be part of a cycle."""

    def __init__(
        self,
        registers: Mapping[str, RegisterClass],
        assign: Mapping[VReg, int],
        can_swap: Collection[str],
    ) -> None:
        self._registers = registers
        self._assign = assign
        self._can_swap = can_swap
        self._classes: dict[Unit, str] = {}

    def moves(
        self,
        pairs: list[tuple[VReg, VReg, int, int]],
        free_unit: Callable[[str, Collection[int]], int | None],
    ) -> list[Item]:
        wanted: list[tuple[Unit, Unit]] = []
        for target, source, target_offset, source_offset in pairs:
            if target not in self._assign or source not in self._assign:
                continue
            to, to_first = self._place(target, target_offset)
            come, come_first = self._place(source, source_offset)
            for unit in range(min(target.units, source.units)):
                wanted.append(((to, to_first + unit), (come, come_first + unit)))
                self._classes[to, to_first + unit] = target.reg_class
                self._classes.setdefault((come, come_first + unit), source.reg_class)

        def scratch(unit: Unit) -> Unit | None:
            busy = {number for bank, number in self._classes if bank == unit[0]}
            free = free_unit(self._classes[unit], busy)
            if free is None:
                return None
            self._classes[unit[0], free] = self._classes[unit]
            return unit[0], free

        steps = sequentialize(wanted, scratch, lambda unit: self._classes[unit] in self._can_swap)
        return self._items(steps)

    def _place(self, value: VReg, offset: int) -> Unit:
        return self._registers[value.reg_class].bank, self._assign[value] + offset

    def _items(self, steps: list[Step[Unit]]) -> list[Item]:
        """Steps as moves; neighbours that move neighbouring units become one wider move."""
        items: list[Item] = []
        for step in steps:
            target_class, source_class = self._classes[step.target], self._classes[step.source]
            if step.swap:
                items.append(Swap(target_class, step.target[1], step.source[1]))
                continue
            last = items[-1] if items else None
            if isinstance(last, Move) and self._extends(last, step, target_class, source_class):
                last.units += 1
            else:
                items.append(Move(target_class, step.target[1], source_class, step.source[1]))
        return items

    def _extends(self, last: Move, step: Step[Unit], target_class: str, source_class: str) -> bool:
        if (last.reg_class, last.src_class) != (target_class, source_class):
            return False
        if (last.dst_unit + last.units, last.src_unit + last.units) != (step.target[1], step.source[1]):
            return False
        different = step.target[0] != step.source[0]
        return different or abs(last.dst_unit - last.src_unit) > last.units
