"""Joining conditionals that stand next to each other and ask the same (language reference, part 3, section 11)."""

from __future__ import annotations

from typing import Any

from loom.dialects.scf import ops as scf
from loom.ir.core import Block, Op, Region, Value


def fuse_branches(function: Op) -> int:
    """Make one ``scf.if`` of two of the same condition that directly follow each other; how many were joined."""
    joined = 0
    for op in list(function.walk()):
        while op.name == "scf.if" and op.parent is not None:
            following = op.next
            if following is None or following.name != "scf.if" or following.operands[0] is not op.operands[0]:
                break
            op = _fuse(op, following)
            joined += 1
    return joined


def _fuse(first: Any, second: Any) -> Op:
    """Both bodies one behind the other; what the second used of the first comes from the same side."""
    results = [*first.results, *second.results]
    types = [r.type for r in results]
    regions = []
    for side in range(2 if results or len(first.regions) > 1 or len(second.regions) > 1 else 1):
        block = Block()
        mapping: dict[Value, Value] = {}
        ends: list[Value] = []
        for op in (first, second):
            if side < len(op.regions):
                ends += _append(op.regions[side].entry, block, mapping)
                if op is first:
                    mapping.update(zip(first.results, ends, strict=True))
        block.append(scf.Yield(ends, [], segments=(len(ends),), loc=first.loc))
        regions.append(Region([block]))
    fused = scf.If.build(condition=first.condition, result_types=types, regions=regions, loc=first.loc)
    fused.comments, fused.blank_before = first.comments, first.blank_before
    fused.insert_before(first)
    for old, new in zip(results, fused.results, strict=True):
        new.name = old.name
    second.replace_with(fused.results[len(first.results) :])
    first.replace_with(fused.results[: len(first.results)])
    return fused


def _append(source: Block, block: Block, mapping: dict[Value, Value]) -> list[Value]:
    """Copy a side's operations behind what is there; what it yields."""
    end = source.last
    assert end is not None
    for op in source:
        if op is not end:
            block.append(op.clone(mapping))
    return [mapping.get(v, v) for v in end.operands]
