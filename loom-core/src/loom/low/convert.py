"""From Low operations to machine code: the function that scheduling and allocation work on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from loom.dialects.low import ops as low
from loom.ir.core import Block as IrBlock
from loom.ir.core import Op, Value
from loom.ir.diagnostics import fail
from loom.ir.types import RegType
from loom.low.descriptors import DescriptorSet
from loom.low.machine import Block, Edge, Function, Instruction, Kind, MemoryAccess, ScheduleMode, VReg

_CONTROLS: Final = {
    "low.schedule.fence": Kind.FENCE,
    "low.schedule.begin": Kind.SCOPE_BEGIN,
    "low.schedule.phase": Kind.SCOPE_PHASE,
    "low.schedule.end": Kind.SCOPE_END,
}


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
    values: dict[Value, VReg] = {}
    blocks: dict[IrBlock, Block] = {}

    def new(value: Value, unit: int | None = None) -> VReg:
        type_ = value.type
        assert isinstance(type_, RegType)
        vreg = result.new_value(type_.reg_class, type_.count, value.name, unit)
        values[value] = vreg
        return vreg

    for index, ir_block in enumerate(function.body.blocks):
        block = blocks[ir_block] = Block(ir_block.label or f"_bb{index}")
        result.blocks.append(block)
        block.params = [new(arg) for arg in ir_block.args]
    for ir_block in function.body.blocks:
        block = blocks[ir_block]
        for op in ir_block:
            item = _instruction(op, descriptor_set, values, blocks, new, fixed)
            if item is None:
                continue
            item.loc = op.loc
            if memory is not None:
                item.memory = memory.get(op)
            if locks is not None:
                item.lock = locks.get(op, 0)
            block.instructions.append(item)
    return result


def _instruction(
    op: Op,
    descriptor_set: DescriptorSet,
    values: dict[Value, VReg],
    blocks: dict[IrBlock, Block],
    new: Callable[..., VReg],
    fixed: Callable[[Op], int | None],
) -> Instruction | None:
    operands = [values[v] for v in op.operands]
    if isinstance(op, low.Packet | low.Const):
        descriptor = descriptor_set.by_key.get(op.key)
        if descriptor is None:
            raise fail(
                "TARGET/045",
                f"'{op.key}' is not part of {descriptor_set.key}",
                op.loc,
                emitter="low",
                opcode=op.key,
                descriptor_set_key=descriptor_set.key,
            )
        table: dict[str, Any] = {i.name: i.default for i in descriptor.immediates}
        table.update(op.immediates or {})
        return Instruction(Kind.PACKET, descriptor, [new(r) for r in op.results], operands, table)
    if isinstance(op, low.LiveIn):
        named = {**(op.immediates or {}), "key": op.key}
        return Instruction(Kind.LIVE_IN, None, [new(op.result, fixed(op))], (), named)
    if isinstance(op, low.Copy | low.Move):
        return Instruction(Kind.COPY, None, [new(op.result)], operands)
    if isinstance(op, low.Slice):
        return Instruction(Kind.SLICE, None, [new(op.result)], operands, {"offset": op.offset})
    if isinstance(op, low.Concat):
        return Instruction(Kind.CONCAT, None, [new(op.result)], operands)
    if isinstance(op, low.Assume):
        # Facts have been used by now: the register itself goes on.
        values[op.result] = operands[0]
        return None
    if isinstance(op, low.Br):
        return Instruction(Kind.BRANCH, successors=[Edge(blocks[op.dest], operands)])
    if isinstance(op, low.CondBr):
        edges = [Edge(blocks[op.true_dest]), Edge(blocks[op.false_dest])]
        return Instruction(Kind.COND_BRANCH, operands=operands, successors=edges)
    if isinstance(op, low.Return):
        return Instruction(Kind.RETURN, operands=operands)
    control = _CONTROLS.get(op.name)
    if control is not None:
        return Instruction(control)
    raise fail("TARGET/054", f"'{op.name}' has no machine form here", op.loc, emitter="low", subject_kind=op.name)
