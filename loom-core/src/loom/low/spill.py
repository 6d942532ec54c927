"""Rewriting a function so that chosen values live in memory, or are computed again where needed.

A spilled value is saved directly after its definition and reloaded directly before each instruction
that reads it, so save and reload run under the same lane mask as definition and use. A spilled block
parameter has no register at all: each predecessor stores its argument before branching.
"""

from __future__ import annotations

from attrs import define, field

from loom.low.machine import Block, Edge, Function, Instruction, Kind, VReg
from loom.low.parallel_copy import sequentialize


@define
class SpillSlots:
    """Slots handed out so far: slot number -> (register class, units)."""

    shapes: list[tuple[str, int]] = field(factory=list)

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
    """Moves the values of ``plan`` (value -> slot) to memory, in place.

    ``temporaries`` collects the values that must have a register from now on.
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
        self._again = {value: inst for value, inst in again.items() if value in plan}
        self._slots = slots
        self.temporaries: set[VReg] = set(plan)

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
        return self.temporaries

    def _block(
        self, block: Block, dropped: dict[Block, list[int]], targets: dict[Block, list[VReg]]
    ) -> list[Instruction]:
        code: list[Instruction] = []
        saves: list[Instruction] = []
        if block is self._function.blocks[0]:
            saves = [self._save(param, param) for param in block.params if param in self._plan]
        for instruction in block.instructions:
            if instruction.kind is not Kind.LIVE_IN and saves:
                code += saves
                saves = []
            if any(value in self._again for value in instruction.results):
                continue
            self._load_operands(instruction, code)
            for edge in instruction.successors:
                if edge.args:
                    self._edge(edge, code, dropped[edge.block], targets[edge.block])
            code.append(instruction)
            saves += [self._save(value, value) for value in instruction.results if value in self._plan]
            if instruction.kind is not Kind.LIVE_IN:
                code += saves
                saves = []
        return code

    def _load_operands(self, instruction: Instruction, code: list[Instruction]) -> None:
        loaded: dict[VReg, VReg] = {}
        for number, value in enumerate(instruction.operands):
            if value in self._plan:
                if value not in loaded:
                    loaded[value] = self._load(value, code, instruction)
                instruction.operands[number] = loaded[value]

    def _load(self, value: VReg, code: list[Instruction], user: Instruction) -> VReg:
        fresh = self._function.new_value(value.reg_class, value.units, value.name)
        self.temporaries.add(fresh)
        source = self._again.get(value)
        if source is not None:
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
        else:
            code.append(
                Instruction(Kind.RELOAD, None, [fresh], [], {"slot": self._plan[value]}, user.loc)
            )
        return fresh

    def _save(self, value: VReg, owner: VReg) -> Instruction:
        return Instruction(Kind.SPILL, None, [], [value], {"slot": self._plan[owner]})

    def _edge(
        self, edge: Edge, code: list[Instruction], dropped: list[int], targets: list[VReg]
    ) -> None:
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
            self.temporaries.add(fresh)
            code.append(Instruction(Kind.RELOAD, None, [fresh], [], {"slot": step.source}))
            code.append(Instruction(Kind.SPILL, None, [], [fresh], {"slot": step.target}))
        for param, arg in late:
            value = self._load(arg, code, terminator) if arg in self._again else arg
            code.append(self._save(value, param))

    def _spare_slot(self, slot: int) -> int:
        return self._slots.new(*self._slots.shapes[slot])
