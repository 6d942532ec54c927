"""Joining neighbouring counted loops that visit the same positions (language reference, part 3, section 11).

Two loops become one only when nothing can tell: the bounds and steps are the same, the second takes nothing that the
first makes, no policy or source fence asks for anything about either, and of their effects at most reads stand on both
sides. Iterations of the second would otherwise come in front of effects of the first that they must follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from loom.dialects.scf import ops as scf
from loom.facts.analysis import FunctionFacts
from loom.facts.version import Version
from loom.ir.core import Block, Op, Region, Value
from loom.transforms.loops_positions import take_types
from loom.transforms.unroll_schedule import effect_of, mentioned_values

# What keeps a loop as it is: a fence orders its surroundings, and other loops may never end.
_FIXED: Final = frozenset({"scf.schedule.fence", "scf.while"})


def fuse_loops(function: Op, target_facts: Mapping[str, object], *, version: Version | None = None) -> int:
    """Make one ``scf.for`` of two that can be; how many were joined.

    Outer loops come first: those inside become neighbours when their loops are joined. Pure operations between two
    loops move in front of both.
    """
    version = version or Version(function, target_facts)
    joined = 0
    # The bodies of a joined loop are copies, so what stands inside is looked for again.
    pending = [op for region in function.regions for block in region.blocks for op in block]
    while pending:
        op: Any = pending.pop(0)
        while op.name == "scf.for" and (found := _partner(op, version.facts)) is not None:
            following, between = found
            for moved in between:
                moved.detach()
                moved.insert_before(op)
            op = _fuse(op, following, pending)
            version.changed()
            joined += 1
        pending[:0] = [inner for region in op.regions for block in region.blocks for inner in block]
    return joined


def _partner(first: Any, facts: FunctionFacts) -> tuple[Any, list[Op]] | None:
    """The loop behind that may join, and the pure operations between them."""
    made: set[Value] = set(first.results)
    between: list[Op] = []
    op = first.next
    while op is not None and op.name != "scf.for":
        if not op.spec.traits & {"pure", "constant"} or op.regions or any(v in made for v in mentioned_values(op)):
            return None
        between.append(op)
        op = op.next
    if op is None or not _same_positions(first, op, facts):
        return None
    if any(_is_fixed(loop) for loop in (first, op)) or any(v in made for v in mentioned_values(op)):
        return None
    effects = {effect_of(first), effect_of(op)}
    return (op, between) if "none" in effects or effects == {"read"} else None


def _same_positions(first: Any, second: Any, facts: FunctionFacts) -> bool:
    if first.lower.type is not second.lower.type:
        return False
    for one, other in zip(first.operands[:3], second.operands[:3], strict=True):
        if one is not other:
            value = facts.exact(one, first)
            if value is None or value != facts.exact(other, second):
                return False
    return True


def _is_fixed(loop: Any) -> bool:
    policies = (loop.pipeline_depth, loop.unroll_factor, loop.unroll_policy, loop.unroll_schedule)
    return any(policy is not None for policy in policies) or any(op.name in _FIXED for op in loop.walk())


def _fuse(first: Any, second: Any, pending: list[Op]) -> Op:
    """One loop that carries the values of both; the second's body follows the first's in each iteration."""
    body = Block()
    old = [*first.body.entry.args, *second.body.entry.args[1:]]
    for argument in old:
        body.add_argument(argument.type)
    take_types(body.args, old)
    position = body.args[0]
    mapping: dict[Value, Value] = dict(zip(old, body.args, strict=True))
    mapping[second.body.entry.args[0]] = position
    yielded: list[Value] = []
    for loop in (first, second):
        end = loop.body.entry.last
        for op in loop.body.entry:
            if op is not end:
                body.append(op.clone(mapping))
        yielded += [mapping.get(v, v) for v in end.operands]
    body.append(scf.Yield(yielded, [], segments=(len(yielded),), loc=first.loc))
    results = [*first.results, *second.results]
    fused = scf.For.build(
        lower=first.lower,
        upper=first.upper,
        step=first.step,
        iter_args=[*first.iter_args, *second.iter_args],
        result_types=[r.type for r in results],
        regions=[Region([body])],
        loc=first.loc,
    )
    fused.comments, fused.blank_before = first.comments, first.blank_before
    fused.insert_before(first)
    take_types(fused.results, results)
    if second in pending:
        pending.remove(second)
    second.replace_with(fused.results[len(first.results) :])
    first.replace_with(fused.results[: len(first.results)])
    return fused
