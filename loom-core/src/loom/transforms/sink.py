"""Moving pure operations into the only branch that uses them (language reference, part 3, section 11).

An operation then runs less often, never more: that is always allowed, but for crossing a source fence. Nothing sinks
into a loop, where it would run more often.
"""

from __future__ import annotations

from loom.ir.core import Block, Op, Region
from loom.transforms.hoist import FENCE

BRANCHES = frozenset({"scf.if", "scf.switch"})


def sink_into_branches(function: Op) -> int:
    """Move operations of a function into the branches that alone use them; how many moved."""
    moved = 0
    for region in function.regions:
        for block in region.blocks:
            moved += _block(block)
    return moved


def _block(block: Block) -> int:
    """Last operations first: what an operation used may follow it. Branches are entered with what sank into them."""
    ops = list(block)
    fences = 0
    # How many fences stand in front of each operation of the block.
    before: dict[Op, int] = {}
    for op in ops:
        before[op] = fences
        fences += op.name == FENCE
    moved = 0
    for op in reversed(ops):
        target = _only_branch(op, block)
        if target is not None and target.parent is not None and before[op] == before[target.parent]:
            op.detach()
            first = target.entry.first
            assert first is not None
            op.insert_before(first)
            moved += 1
    for op in ops:
        if op.parent is block:
            for region in op.regions:
                for inner in region.blocks:
                    moved += _block(inner)
    return moved


def _only_branch(op: Op, block: Block) -> Region | None:
    """The branch of an operation of the same block that holds every use, if there is one."""
    if "pure" not in op.spec.traits or op.regions or not op.results:
        return None
    if "constant" in op.spec.traits or any(result.dependents for result in op.results):
        # A constant is everywhere at no cost; a type that names a value may be anywhere.
        return None
    found: Region | None = None
    for result in op.results:
        for user in result.uses:
            region = _branch_of(user, block)
            if region is None or (found is not None and region is not found):
                return None
            found = region
    return found


def _branch_of(user: Op, block: Block) -> Region | None:
    """The region of a branch operation of a block that an operation stands in, at any depth but for loops' bodies."""
    op = user
    while op.parent is not None and op.parent is not block:
        region = op.parent.parent
        if region is None or region.parent is None:
            return None
        if region.parent.parent is block:
            return region if region.parent.name in BRANCHES else None
        op = region.parent
    return None
