"""Selection of bodies made of several blocks with ``cfg`` branches between them; conditions must be uniform."""

from __future__ import annotations

from typing import Any

from loom.ir.core import Block, Op, Region, Value
from loom.ir.types import I1, RegType
from loom_target_amdgpu.select.control import start
from loom_target_amdgpu.select.loops import loop_test
from loom_target_amdgpu.select.merge import Shape, rebuild, registers_of, types_of
from loom_target_amdgpu.select.selector import Selector
from loom_target_amdgpu.select.values import S2, Mask


def select_cfg(s: Selector, region: Region) -> None:
    """Blocks with branches between them. Conditions must be uniform."""
    builder = s.emit.builder
    targets: dict[Block, Block] = {region.entry: builder.block}
    shapes: dict[Block, list[Shape]] = {}
    for block in region.blocks[1:]:
        kinds = [_block_argument_shape(s, arg) for arg in block.args]
        shapes[block] = kinds
        targets[block] = builder.new_block([t for shape in kinds for t in types_of(shape)])
    _terminate(s, _end_of(s, region.entry), targets, shapes)
    entry = builder.block
    for block in region.blocks[1:]:
        # Only what the entry computes is certain to be there in every other block.
        s.emit.enter_scope(False, entry)
        start(s, targets[block])
        registers = [s.emit.define(arg) for arg in targets[block].args]
        for value, shape in zip(block.args, shapes[block], strict=True):
            s.set(value, rebuild(s, shape, registers))
        _terminate(s, _end_of(s, block), targets, shapes)
        s.emit.leave_scope()


def _end_of(s: Selector, block: Block) -> Op:
    end = s.block(block)
    assert end is not None
    return end


def _block_argument_shape(s: Selector, arg: Value) -> Shape:
    type_ = arg.type
    if type_ is I1:
        return Shape("mask", (S2,))
    if type_.text in ("index", "offset"):
        count, signed = s.shape_of(s.facts.integer(arg))
        return Shape("number", (RegType("amdgpu.vgpr"),) * count, signed)
    return Shape("number", (RegType("amdgpu.vgpr"),) * (2 if getattr(type_, "width", 32) == 64 else 1))


def _terminate(s: Selector, end: Any, targets: dict[Block, Block], shapes: dict[Block, list[Shape]]) -> None:
    builder = s.emit.builder
    if end.name == "cfg.br":
        dest = end.successors[0]
        values = [s.get(v) for v in end.operands]
        builder.branch(
            targets[dest], [r for v, p in zip(values, shapes[dest], strict=True) for r in registers_of(s, v, p)]
        )
    elif end.name == "cfg.cond_br":
        condition = s.condition(end.operands[0])
        if isinstance(condition, Mask) and not s.facts.is_uniform(end.operands[0]):
            raise s.unsupported(end, "a branch whose condition differs between lanes is not supported; use scf.if")
        then, other = (targets[b] for b in end.successors)
        builder.cond_branch(loop_test(s, condition, False), then, other)
    elif "return" not in end.spec.traits:
        raise s.unsupported(end, f"'{end.name}' is not supported on {s.processor.name}")
