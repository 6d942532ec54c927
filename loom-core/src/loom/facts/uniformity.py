"""Which values are the same in all invocations that execute together.

A value is varying when it depends on a lane coordinate, on memory at a varying address, or on a choice that
differs between lanes. Inside a loop, lanes that are still active have run the same number of iterations, so
the induction variable and carried values may be uniform there although the results behind the loop are not. Of loops
made of blocks nothing is uniform once lanes may leave them in different iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from loom.ir.core import Block, Op, Value

# Ops whose result differs between lanes whatever their operands are.
VARYING: Final = frozenset(
    {
        "kernel.workitem.id",
        "kernel.workitem.dispatch.id",
        "kernel.subgroup.lane.id",
        "kernel.subgroup.shuffle",
        "kernel.subgroup.scan",
        "kernel.workgroup.scan",
        "kernel.subgroup.match.any",
        "kernel.subgroup.match.all",
        # The order in which lanes get at one location decides what each of them sees.
        "view.atomic.rmw",
        "view.atomic.cmpxchg",
        "view.atomic.load",
        "vector.atomic.rmw",
        "vector.atomic.rmw.mask",
        "vector.atomic.cmpxchg",
        # Each lane of a subgroup holds elements of its own.
        "vector.fragment.load",
        "vector.fragment.repack",
        "vector.mma",
    }
)
# Ops whose result is one value for the whole workgroup or the whole subgroup.
WORKGROUP_UNIFORM: Final = frozenset(
    {
        "kernel.workgroup.id",
        "kernel.workgroup.size",
        "kernel.workgroup.count",
        "kernel.subgroup.size",
        "kernel.subgroup.count",
        "kernel.workgroup.reduce",
        "kernel.workgroup.vote.any",
        "kernel.workgroup.vote.all",
        "kernel.workgroup.vote.count",
    }
)
SUBGROUP_UNIFORM: Final = frozenset(
    {
        "kernel.subgroup.id",
        "kernel.subgroup.broadcast",
        "kernel.subgroup.broadcast.first",
        "kernel.subgroup.reduce",
        "kernel.subgroup.vote.any",
        "kernel.subgroup.vote.all",
        "kernel.subgroup.vote.ballot",
        "kernel.subgroup.active.mask",
    }
)

UNIFORM: Final = WORKGROUP_UNIFORM | SUBGROUP_UNIFORM


def varying_values(function: Op, scope: str = "subgroup") -> set[Value]:
    """The values of a kernel or function body that differ within a ``subgroup`` or ``workgroup``.

    Parameters are uniform.
    """
    varying: set[Value] = set()
    always = VARYING if scope == "subgroup" else VARYING | SUBGROUP_UNIFORM
    # What hands values on in ways of its own, with its rule, and what computes values from operands.
    work: list[tuple[_Rule | None, Op]] = []
    controls = False
    for op in function.walk():
        name = op.name
        if name in always:
            varying.update(op.results)
        elif name in UNIFORM:
            if _is_clustered(op):
                varying.update(op.results)
        elif op is function:
            continue
        elif (rule := _RULES.get(name)) is not None:
            work.append((rule, op))
            controls = True
        elif "allocates" in op.spec.traits:
            # Each lane has its own private storage: equal addresses, different contents.
            if op.attribute("space") == "private":
                varying.update(op.results)
        elif op.operands and op.results:
            work.append((None, op))
    behind = _Behind()
    changed = True
    while changed:
        before = len(varying)
        for rule, op in work:
            if rule is not None:
                rule(op, varying, behind)
            elif not varying.isdisjoint(op.operands):
                varying.update(op.results)
        changed = controls and len(varying) != before
    return varying


class _Behind:
    """What depends on which side of a branch a lane took."""

    def __init__(self) -> None:
        self._found: dict[Op, list[Value]] = {}

    def values(self, branch: Op) -> list[Value]:
        """Values that differ between lanes which a branch separates.

        These are the arguments of blocks behind it where paths meet, and, if the branch is part of a loop, whatever
        that loop computes: lanes leave it in different iterations.
        """
        found = self._found.get(branch)
        if found is None:
            assert branch.parent is not None
            behind = _reachable(branch.successors, _successors)
            found = [argument for block in behind for argument in block.args]
            if branch.parent in behind:
                leading: dict[Block, list[Block]] = {}
                for block in behind:
                    for following in _successors(block):
                        leading.setdefault(following, []).append(block)
                around = _reachable([branch.parent], lambda block: leading.get(block, []))
                found += [r for block in around for outer in block for op in outer.walk() for r in op.results]
            self._found[branch] = found
        return found


def _successors(block: Block) -> Sequence[Block]:
    return block.last.successors if block.last is not None else []


def _reachable(blocks: Sequence[Block], following: Callable[[Block], Sequence[Block]]) -> set[Block]:
    found = set(blocks)
    pending = list(found)
    while pending:
        for block in following(pending.pop()):
            if block not in found:
                found.add(block)
                pending.append(block)
    return found


def _is_clustered(op: Op) -> bool:
    """Whether a reduction has one result for each of several clusters in a subgroup."""
    return op.name == "kernel.subgroup.reduce" and op.attribute("cluster_size") is not None


def _choice(op: Op, varying: set[Value], behind: _Behind) -> None:
    if op.operands[0] in varying:
        varying.update(op.results)
        return
    for region in op.regions:
        end = region.entry.last
        if end is not None:
            _flow(end.operands, op.results, varying)


def _jump(op: Op, varying: set[Value], behind: _Behind) -> None:
    _flow(op.operands, op.successors[0].args, varying)


def _branch(op: Op, varying: set[Value], behind: _Behind) -> None:
    if op.operands[0] in varying:
        varying.update(behind.values(op))


def _flow(sources: list[Value], targets: list[Value], varying: set[Value]) -> None:
    for source, target in zip(sources, targets, strict=False):
        if source in varying:
            varying.add(target)


def _loop(op: Op, varying: set[Value], behind: _Behind) -> None:
    lower, upper, step = op.operands[:3]
    block = op.regions[0].entry
    if lower in varying or step in varying:
        varying.add(block.args[0])
    carried = block.args[1:]
    inits = op.operands[3 : 3 + len(carried)]
    _flow(inits, carried, varying)
    end = block.last
    if end is not None:
        _flow(end.operands, carried, varying)
    _flow(carried, op.results, varying)
    if lower in varying or upper in varying or step in varying:
        varying.update(op.results)


def _while(op: Op, varying: set[Value], behind: _Behind) -> None:
    first, second = op.regions[0].entry, op.regions[1].entry
    _flow(op.operands, first.args, varying)
    condition = first.last
    if condition is None or not condition.operands:
        return
    _flow(condition.operands[1:], second.args, varying)
    _flow(condition.operands[1:], op.results, varying)
    if second.last is not None:
        _flow(second.last.operands, first.args, varying)
    if condition.operands[0] in varying:
        varying.update(op.results)


_Rule = Callable[[Op, set[Value], _Behind], None]
_RULES: Final[dict[str, _Rule]] = {
    "scf.for": _loop,
    "scf.while": _while,
    "scf.if": _choice,
    "scf.switch": _choice,
    "cfg.br": _jump,
    "low.br": _jump,
    "cfg.cond_br": _branch,
}
