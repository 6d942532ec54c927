"""Rewriting a function so that chosen values live in memory, or are computed again where needed.

A spilled value is saved directly after its definition and reloaded directly before the instructions
that read it, so save and reload run under the same lane mask as definition and use. Uses close to each
other, or to the definition, share a register as long as the lane mask stays; should that register be
wanted again, the second time every use gets its own. A spilled block parameter has no register at
all: each predecessor stores its argument before branching.

A value that only stands in the way because it is fixed to one register is copied out of it instead.
"""

from __future__ import annotations

from loom.ir.records import field, mutable_record
from loom.low.machine import Block, Edge, Function, Instruction, Kind, VReg
from loom.low.parallel_copy import sequentialize

_NEAR = 8
"""Instructions between two uses that may share one reload."""


@mutable_record
class SpillSlots:
    """Slots handed out so far.

    Attributes:
        shapes: slot number -> (register class, units).
        saved: value that has a register for now -> slot that holds it as well.
    """

    shapes: list[tuple[str, int]] = field(factory=list)
    saved: dict[VReg, int] = field(factory=dict)

    def new(self, reg_class: str, units: int) -> int:
        """A fresh slot for one value of this shape."""
        self.shapes.append((reg_class, units))
        return len(self.shapes) - 1


def rematerializable(function: Function) -> dict[VReg, Instruction]:
    """Values that can be computed again anywhere: results of flagged packets without any inputs."""
    found = {}
    for block in function.blocks:
        for instruction in block.instructions:
            descriptor = instruction.descriptor
            if (
                descriptor is not None
                and descriptor.rematerializable
                and len(instruction.results) == 1
                and not instruction.operands
                and not descriptor.effects.implicit_writes
                and not descriptor.effects.side_effects
                and instruction.results[0].fixed is None
            ):
                found[instruction.results[0]] = instruction
    return found


class SpillRewriter:
    """Moves the values of ``plan`` (value -> slot, -1 to compute again) to memory, in place.

    ``again`` maps values to the packets that can compute them anew; copies made here are added to it.
    """

    def __init__(
        self,
        function: Function,
        plan: dict[VReg, int],
        again: dict[VReg, Instruction],
        slots: SpillSlots,
    ) -> None:
        self._function = function
        self._plan = plan
        self._again = again
        self._slots = slots
        self._masks = {name: cls.mask for name, cls in function.descriptor_set.registers.items() if cls.mask}
        self._mask_names = frozenset(self._masks.values())
        self._tight = {value for value in plan if value in slots.saved}
        """values whose second turn it is: no more sharing"""
        self._near: dict[VReg, tuple[VReg, int]] = {}
        self._position = 0
        self._needed: set[VReg] = set()

    def run(self) -> set[VReg]:
        """Rewrite every block; returns the values that must have a register from now on."""
        entry = self._function.blocks[0]
        dropped = {
            block: [number for number, param in enumerate(block.params) if param in self._plan]
            for block in self._function.blocks
            if block is not entry
        }
        targets = {block: [block.params[number] for number in numbers] for block, numbers in dropped.items()}
        for block in self._function.blocks:
            block.instructions = self._block(block, dropped, targets)
        for block, numbers in dropped.items():
            block.params = [param for number, param in enumerate(block.params) if number not in numbers]
        for value, slot in self._plan.items():
            if value in self._tight:
                self._needed.add(value)
            elif slot >= 0:
                self._slots.saved[value] = slot
        return self._needed

    def _block(
        self, block: Block, dropped: dict[Block, list[int]], targets: dict[Block, list[VReg]]
    ) -> list[Instruction]:
        code: list[Instruction] = []
        saves: list[Instruction] = []
        self._near.clear()
        if block is self._function.blocks[0]:
            saves = [self._save(param, param) for param in block.params if self._must_save(param)]
        for position, instruction in enumerate(block.instructions):
            self._position = position
            if instruction.kind is not Kind.LIVE_IN and saves:
                code += saves
                saves = []
            if self._vanishes(instruction):
                continue
            self._load_operands(instruction, code)
            for edge in instruction.successors:
                if edge.args:
                    self._edge(edge, code, dropped[edge.block], targets[edge.block])
            code.append(instruction)
            self._end_of_mask(instruction)
            for value in instruction.results:
                if self._must_save(value):
                    saves.append(self._save(value, value))
                if value in self._plan and value not in self._tight:
                    self._near[value] = (value, position)
            if instruction.kind is not Kind.LIVE_IN:
                code += saves
                saves = []
        return code

    def _must_save(self, value: VReg) -> bool:
        return value in self._plan and value not in self._tight

    def _vanishes(self, instruction: Instruction) -> bool:
        """Definitions nobody needs any more: packets computed again, reloads done again."""
        if len(instruction.results) != 1 or instruction.results[0] not in self._plan:
            return False
        value = instruction.results[0]
        return value in self._again or (value in self._tight and instruction.kind is Kind.RELOAD)

    def _end_of_mask(self, instruction: Instruction) -> None:
        """Registers loaded under one lane mask do not serve under another."""
        if instruction.descriptor is None or not self._near:
            return
        written = instruction.descriptor.effects.implicit_writes
        if written and not self._mask_names.isdisjoint(written):
            self._near = {
                value: entry for value, entry in self._near.items() if self._masks.get(value.reg_class) not in written
            }

    def _load_operands(self, instruction: Instruction, code: list[Instruction]) -> None:
        """Reload spilled operands; a tied operand dies in the instruction, so its register ends there."""
        loaded: dict[VReg, VReg] = {}
        descriptor = instruction.descriptor
        tied = {operand for _, operand in descriptor.ties} if descriptor is not None else set()
        ending = {instruction.operands[number] for number in tied}
        for number, value in enumerate(instruction.operands):
            if value not in self._plan or self._saves_itself(instruction, value):
                continue
            if value not in loaded:
                loaded[value] = self._nearby(value, code, instruction, value not in ending)
            instruction.operands[number] = loaded[value]

    def _saves_itself(self, instruction: Instruction, value: VReg) -> bool:
        """The save of an earlier turn stays as it is, next to the definition."""
        if value not in self._tight or instruction.kind is not Kind.SPILL or instruction.origin is not None:
            return False
        return instruction.slot == self._plan[value]

    def _nearby(self, value: VReg, code: list[Instruction], user: Instruction, keep: bool) -> VReg:
        """A register that holds ``value``: one of a use or definition nearby, or a new one."""
        known = self._near.pop(value, None)
        if known is not None and self._position - known[1] <= _NEAR and (keep or known[0] is not value):
            fresh = known[0]
            if fresh is not value:
                self._share(value, fresh)
        else:
            fresh = self._load(value, code, user)
        # A value that can be computed again costs so little that every use computes its own.
        if keep and value not in self._tight and value not in self._again:
            self._near[value] = (fresh, self._position)
        return fresh

    def _share(self, value: VReg, fresh: VReg) -> None:
        """``fresh`` has a second use, so it may be taken apart later."""
        self._needed.discard(fresh)
        self._slots.saved[fresh] = self._plan[value]

    def _load(self, value: VReg, code: list[Instruction], user: Instruction) -> VReg:
        fresh = self._function.new_value(value.reg_class, value.units, value.name)
        self._needed.add(fresh)
        source = self._again.get(value)
        if source is None:
            code.append(Instruction(Kind.RELOAD, None, [fresh], [], {"slot": self._plan[value]}, user.loc))
        else:
            code.append(
                Instruction(
                    Kind.PACKET,
                    source.descriptor,
                    [fresh],
                    [],
                    dict(source.immediates),
                    source.loc,
                    memory=source.memory,
                    origin=source.origin,
                )
            )
        return fresh

    def _save(self, value: VReg, owner: VReg) -> Instruction:
        return Instruction(Kind.SPILL, None, [], [value], {"slot": self._plan[owner]})

    def _edge(self, edge: Edge, code: list[Instruction], dropped: list[int], targets: list[VReg]) -> None:
        """Pass arguments: reload those that stay in registers, then store those that do not."""
        stay = [arg for number, arg in enumerate(edge.args) if number not in dropped]
        stored = [edge.args[number] for number in dropped]
        terminator = Instruction(Kind.BRANCH)
        loaded: dict[VReg, VReg] = {}
        for number, arg in enumerate(stay):
            if arg in self._plan:
                if arg not in loaded:
                    loaded[arg] = self._load(arg, code, terminator)
                stay[number] = loaded[arg]
        edge.args = stay
        in_memory = []
        late: list[tuple[VReg, VReg]] = []
        for param, arg in zip(targets, stored, strict=True):
            if arg in self._plan and arg not in self._again:
                in_memory.append((self._plan[param], self._plan[arg]))
            else:
                late.append((param, arg))
        for step in sequentialize(in_memory, self._spare_slot, lambda slot: False):
            reg_class, units = self._slots.shapes[step.target]
            fresh = self._function.new_value(reg_class, units)
            self._needed.add(fresh)
            code.append(Instruction(Kind.RELOAD, None, [fresh], [], {"slot": step.source}))
            code.append(Instruction(Kind.SPILL, None, [], [fresh], {"slot": step.target}))
        for param, arg in late:
            value = self._load(arg, code, terminator) if arg in self._again else arg
            code.append(self._save(value, param))

    def _spare_slot(self, slot: int) -> int:
        return self._slots.new(*self._slots.shapes[slot])


def copy_out(function: Function, fixed: list[VReg]) -> dict[VReg, VReg]:
    """Copy values out of the registers they are fixed to, directly after their definitions.

    Returns:
        fixed value -> the value that now takes its place in every use.
    """
    moved = {value: function.new_value(value.reg_class, value.units, value.name) for value in fixed}

    def copies(values: list[VReg]) -> list[Instruction]:
        return [Instruction(Kind.COPY, None, [moved[v]], [v]) for v in values if v in moved]

    for block in function.blocks:
        code: list[Instruction] = []
        waiting = copies(block.params)
        for instruction in block.instructions:
            if instruction.kind is not Kind.LIVE_IN:
                code += waiting
                waiting = []
            instruction.operands = [moved.get(value, value) for value in instruction.operands]
            for edge in instruction.successors:
                edge.args = [moved.get(value, value) for value in edge.args]
            code.append(instruction)
            waiting += copies(instruction.results)
            if instruction.kind is not Kind.LIVE_IN:
                code += waiting
                waiting = []
        block.instructions = code
    return moved
