"""From Low operations to machine code: the function that scheduling and allocation work on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from loom.dialects.low import ops as low
from loom.ir.core import Block as IrBlock
from loom.ir.core import Op, Value
from loom.ir.diagnostics import fail
from loom.ir.types import RegType
from loom.low.descriptors import Descriptor, DescriptorSet
from loom.low.machine import Block, Edge, Function, Instruction, Kind, MemoryAccess, ScheduleMode, VReg


def to_machine(
    function: Op,
    descriptor_set: DescriptorSet,
    *,
    fixed: Callable[[Op], int | None] = lambda op: None,
    memory: Mapping[Op, MemoryAccess] | None = None,
    locks: Mapping[Op, int] | None = None,
) -> Function:
    """Convert a Low function or kernel.

    ``fixed`` gives the physical unit of a live-in (or ``None``); ``memory`` and ``locks`` say what selection knows
    about addresses and locked sequences. Raises :class:`~loom.ir.diagnostics.LoomError` for an op without a
    machine form.
    """
    assert isinstance(function, low.LowFunction)
    mode = ScheduleMode(function.schedule or "free")
    result = Function(function.callee, descriptor_set, (), mode)
    converter = _Converter(result, fixed)
    for index, ir_block in enumerate(function.body.blocks):
        block = converter.blocks[ir_block] = Block(ir_block.label or f"_bb{index}")
        result.blocks.append(block)
        block.params = [converter.new(arg) for arg in ir_block.args]
    for ir_block in function.body.blocks:
        instructions = converter.blocks[ir_block].instructions
        for op in ir_block:
            item = converter.instruction(op)
            if item is None:
                continue
            item.loc = op.loc
            if memory is not None:
                item.memory = memory.get(op)
            if locks is not None:
                item.lock = locks.get(op, 0)
            instructions.append(item)
    return result


class _Converter:
    """Makes the instructions of one function."""

    def __init__(self, function: Function, fixed: Callable[[Op], int | None]) -> None:
        self._function = function
        self._set = function.descriptor_set
        self._fixed = fixed
        self._values: dict[Value, VReg] = {}
        self.blocks: dict[IrBlock, Block] = {}
        self._defaults: dict[str, tuple[Descriptor, dict[str, object]]] = {}

    def new(self, value: Value, unit: int | None = None) -> VReg:
        """The register of a value that is defined here."""
        type_ = value.type
        assert isinstance(type_, RegType)
        vreg = self._values[value] = self._function.new_value(type_.reg_class, type_.count, value.name, unit)
        return vreg

    def instruction(self, op: Op) -> Instruction | None:
        """The instruction of an operation; None for one that only says something of a register."""
        make = _MAKERS.get(op.name)
        if make is None:
            raise fail(
                "TARGET/054", f"'{op.name}' has no machine form here", op.loc, emitter="low", subject_kind=op.name
            )
        values = self._values
        return make(self, op, [values[v] for v in op.operands])

    def packet(self, op: Any, operands: list[VReg]) -> Instruction:
        key = op.key
        known = self._defaults.get(key)
        if known is None:
            known = self._defaults[key] = self._descriptor(op)
        descriptor, table = known
        immediates = op.immediates
        named = {**table, **immediates} if immediates else table.copy()
        return Instruction(Kind.PACKET, descriptor, [self.new(r) for r in op.results], operands, named)

    def _descriptor(self, op: Any) -> tuple[Descriptor, dict[str, object]]:
        """The descriptor of a packet, and what its immediates are where they are not given."""
        descriptor = self._set.by_key.get(op.key)
        if descriptor is None:
            raise fail(
                "TARGET/045",
                f"'{op.key}' is not part of {self._set.key}",
                op.loc,
                emitter="low",
                opcode=op.key,
                descriptor_set_key=self._set.key,
            )
        return descriptor, {i.name: i.default for i in descriptor.immediates}

    def live_in(self, op: Any, operands: list[VReg]) -> Instruction:
        named = {**(op.immediates or {}), "key": op.key}
        return Instruction(Kind.LIVE_IN, None, [self.new(op.result, self._fixed(op))], (), named)

    def copy(self, op: Any, operands: list[VReg]) -> Instruction:
        return Instruction(Kind.COPY, None, [self.new(op.result)], operands)

    def slice(self, op: Any, operands: list[VReg]) -> Instruction:
        return Instruction(Kind.SLICE, None, [self.new(op.result)], operands, {"offset": op.offset})

    def concat(self, op: Any, operands: list[VReg]) -> Instruction:
        return Instruction(Kind.CONCAT, None, [self.new(op.result)], operands)

    def assume(self, op: Any, operands: list[VReg]) -> None:
        # Facts have been used by now: the register itself goes on.
        self._values[op.result] = operands[0]

    def branch(self, op: Any, operands: list[VReg]) -> Instruction:
        return Instruction(Kind.BRANCH, successors=[Edge(self.blocks[op.dest], operands)])

    def conditional_branch(self, op: Any, operands: list[VReg]) -> Instruction:
        edges = [Edge(self.blocks[op.true_dest]), Edge(self.blocks[op.false_dest])]
        return Instruction(Kind.COND_BRANCH, operands=operands, successors=edges)

    def return_(self, op: Any, operands: list[VReg]) -> Instruction:
        return Instruction(Kind.RETURN, operands=operands)

    def fence(self, op: Any, operands: list[VReg]) -> Instruction:
        return Instruction(Kind.FENCE)

    def scope_begin(self, op: Any, operands: list[VReg]) -> Instruction:
        return Instruction(Kind.SCOPE_BEGIN)

    def scope_phase(self, op: Any, operands: list[VReg]) -> Instruction:
        return Instruction(Kind.SCOPE_PHASE)

    def scope_end(self, op: Any, operands: list[VReg]) -> Instruction:
        return Instruction(Kind.SCOPE_END)


_MAKERS: Final[Mapping[str, Callable[[_Converter, Any, list[VReg]], Instruction | None]]] = {
    "low.op": _Converter.packet,
    "low.const": _Converter.packet,
    "low.live_in": _Converter.live_in,
    "low.copy": _Converter.copy,
    "low.move": _Converter.copy,
    "low.slice": _Converter.slice,
    "low.concat": _Converter.concat,
    "low.assume": _Converter.assume,
    "low.br": _Converter.branch,
    "low.cond_br": _Converter.conditional_branch,
    "low.return": _Converter.return_,
    "low.schedule.fence": _Converter.fence,
    "low.schedule.begin": _Converter.scope_begin,
    "low.schedule.phase": _Converter.scope_phase,
    "low.schedule.end": _Converter.scope_end,
}
