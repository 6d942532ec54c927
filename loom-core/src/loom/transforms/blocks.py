"""Simplifying graphs of blocks: decided branches, blocks that only one other leads to, blocks that none leads to."""

from __future__ import annotations

from loom.dialects.cfg import ops as cfg
from loom.ir.core import Block, Op, Region
from loom.transforms.fold import constant_of


def simplify_blocks(function: Op) -> bool:
    """Simplify the bodies of a function to a fixed point; whether something changed."""
    changed = False
    for region in function.regions:
        if len(region.blocks) > 1:
            while _decide(region) | _drop_unreached(region) | _merge(region):
                changed = True
    return changed


def _decide(region: Region) -> bool:
    """Branches whose condition is known, or that lead to one block either way, become jumps."""
    changed = False
    for block in region.blocks:
        end = block.last
        if not isinstance(end, cfg.CondBr):
            continue
        known = constant_of(end.condition)
        if known is None and end.true_dest is not end.false_dest:
            continue
        target = end.false_dest if known is not None and not known else end.true_dest
        jump = cfg.Br([], [], successors=[target], segments=(0,), loc=end.loc)
        jump.insert_before(end)
        end.erase()
        changed = True
    return changed


def predecessors(region: Region) -> dict[Block, list[Op]]:
    """The branches that lead to each block of a region."""
    found: dict[Block, list[Op]] = {block: [] for block in region.blocks}
    for block in region.blocks:
        if block.last is not None:
            for target in block.last.successors:
                found[target].append(block.last)
    return found


def _drop_unreached(region: Region) -> bool:
    reached = {region.entry}
    pending = [region.entry]
    while pending:
        end = pending.pop().last
        for target in end.successors if end is not None else ():
            if target not in reached:
                reached.add(target)
                pending.append(target)
    dead = [block for block in region.blocks if block not in reached]
    for block in dead:
        for op in block:
            op.drop_references()
    for block in dead:
        region.blocks.remove(block)
        block.parent = None
    return bool(dead)


def _merge(region: Region) -> bool:
    """A block that one jump alone leads to goes where the jump stands; its arguments are the jump's values."""
    leading = predecessors(region)
    for block in region.blocks:
        jump = block.last
        if not isinstance(jump, cfg.Br):
            continue
        target = jump.dest
        if target is block or target is region.entry or len(leading[target]) != 1:
            continue
        for argument, value in zip(target.args, jump.args, strict=True):
            argument.replace_all_uses(value)
        jump.erase()
        for op in list(target):
            op.detach()
            block.append(op)
        region.blocks.remove(target)
        target.parent = None
        return True
    return False
