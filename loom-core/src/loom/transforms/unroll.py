"""Full and partial unrolling of counted loops (language reference, part 3, section 10.3)."""

from __future__ import annotations

from typing import Any, Final

from loom.dialects.scf import ops as scf
from loom.facts.analysis import FunctionFacts
from loom.facts.integers import MAX64
from loom.ir.core import Block, Op, Region, Value
from loom.transforms.loops_positions import Cursor, displaced, group_limit, is_below, literal, take_types
from loom.transforms.loops_refusal import refuse
from loom.transforms.loops_report import PolicyDetail, detail
from loom.transforms.unroll_schedule import arrange

MAX_UNROLLED_OPS: Final = 1 << 20
# Positions up to here also fit a 32-bit carrier, so adding to them needs no care on any target.
SMALL_POSITION: Final = (1 << 31) - 1


def unroll(loop: Any, facts: FunctionFacts) -> PolicyDetail:
    """Carry out the unroll clause of a loop, clear it and tell what was done. Raises STRUCTURE/014."""
    lower, upper, step = (facts.integer(v, loop) for v in loop.operands[:3])
    trips = None
    if lower.exact is not None and upper.exact is not None and step.exact is not None and step.exact > 0:
        trips = trip_count(lower.exact, upper.exact, step.exact)
    fields: dict[str, object] = {
        "op": loop.name,
        "schedule": loop.unroll_schedule or "linear",
        "trip_count": trips,
        "step": step.exact,
        "lower_bound_kind": "dynamic" if lower.exact is None else "exact",
        "lower": lower.exact,
    }
    if loop.unroll_policy is not None:
        unroll_fully(loop, facts)
        return detail("scf-unroll", loop, outcome="unrolled", policy="bare", unroll_factor=trips, **fields)
    factor = _unroll_by_factor(loop, facts)
    outcome = "cleared" if factor == 1 else "unrolled"
    return detail("scf-unroll", loop, outcome=outcome, policy="factor", unroll_factor=factor, **fields)


def trip_count(lower: int, upper: int, step: int) -> int:
    """Iterations from ``lower`` by a positive step strictly below ``upper``; a last step may be cut short."""
    return max(0, -(-(upper - lower) // step))


def unroll_fully(loop: Any, facts: FunctionFacts) -> None:
    """Replace a loop by copies of its body. Raises STRUCTURE/014 when the trip count is not exact."""
    lower, upper, step = (facts.integer(v, loop).exact for v in loop.operands[:3])
    missing = [name for name, v in (("lower bound", lower), ("upper bound", upper), ("step", step)) if v is None]
    if lower is None or upper is None or step is None:
        raise refuse(loop, "unroll", 0, f"a full unroll needs an exact {', '.join(missing)}")
    if step < 1:
        raise refuse(loop, "step", step, "the step must be positive")
    trips = trip_count(lower, upper, step)
    if trips * sum(1 for _ in loop.walk()) > MAX_UNROLLED_OPS:
        raise refuse(
            loop, "unroll", trips, f"unrolling {trips} iterations makes more than {MAX_UNROLLED_OPS} operations"
        )
    cursor = Cursor(before=loop)
    values = list(loop.iter_args)
    copies = []
    for trip in range(trips):
        position = literal(cursor, loop.lower.type, lower + trip * step, loop.loc)
        ops, values = copy_iteration(loop, position, values)
        copies.append(ops)
    for op in arrange(copies, loop.body.entry, loop.unroll_schedule):
        cursor.add(op)
    loop.replace_with(values)


def copy_iteration(loop: Any, position: Value, carried: list[Value]) -> tuple[list[Op], list[Value]]:
    """Detached copies of the operations of one iteration, and the values that it yields."""
    block = loop.body.entry
    mapping: dict[Value, Value] = dict(zip(block.args, [position, *carried], strict=True))
    end = block.last
    copies = [op.clone(mapping) for op in block if op is not end]
    return copies, [mapping.get(v, v) for v in end.operands]


def _unroll_by_factor(loop: Any, facts: FunctionFacts) -> int:
    """Returns the factor."""
    factor = facts.exact(loop.unroll_factor, loop)
    if factor is None or factor < 1:
        raise refuse(loop, "unroll_factor", factor or 0, "the factor must be an exact positive value")
    step = facts.integer(loop.step, loop)
    if step.exact is None or step.exact < 1:
        raise refuse(loop, "step", step.exact or 0, "the step must be an exact positive value")
    if factor * step.exact > MAX64:
        raise refuse(loop, "unroll_factor", factor, "the factor times the step must fit the type of the positions")
    if factor * sum(1 for _ in loop.walk()) > MAX_UNROLLED_OPS:
        raise refuse(loop, "unroll_factor", factor, f"the copies must not make more than {MAX_UNROLLED_OPS} operations")
    if factor > 1:
        _Group(loop, factor, step.exact, facts).build()
    else:
        loop.unroll_factor = None
        loop.unroll_schedule = None
    return factor


class _Group:
    """A loop rebuilt with several iterations per trip."""

    def __init__(self, loop: Any, factor: int, step: int, facts: FunctionFacts) -> None:
        self.loop = loop
        self.factor = factor
        self.step = step
        self.lower = facts.integer(loop.lower, loop)
        self.upper = facts.integer(loop.upper, loop)

    @property
    def divides(self) -> bool:
        """Whether every trip of the new loop has a full group."""
        if self.lower.exact is None or self.upper.exact is None:
            return False
        return trip_count(self.lower.exact, self.upper.exact, self.step) % self.factor == 0

    def build(self) -> None:
        """Replace the loop."""
        loop = self.loop
        outside = Cursor(before=loop)
        wide = literal(outside, loop.lower.type, self.factor * self.step, loop.loc)
        body = Block()
        for arg in loop.body.entry.args:
            body.add_argument(arg.type)
        take_types(body.args, loop.body.entry.args)
        position, values = body.args[0], list(body.args[1:])
        inside = Cursor(block=body)
        if self.divides:
            copies = []
            for copy in range(self.factor):
                at = displaced(inside, position, copy * self.step, None, loop.loc)
                ops, values = copy_iteration(loop, at, values)
                copies.append(ops)
            for op in arrange(copies, loop.body.entry, loop.unroll_schedule):
                body.append(op)
        else:
            for copy in range(self.factor):
                values = self._guarded(outside, inside, position, copy * self.step, values)
        body.append(scf.Yield(values, [], segments=(len(values),), loc=loop.loc))
        new = scf.For.build(
            lower=loop.lower,
            upper=loop.upper,
            step=wide,
            iter_args=loop.iter_args,
            result_types=[r.type for r in loop.results],
            regions=[Region([body])],
            loc=loop.loc,
        )
        outside.add(new)
        take_types(new.results, loop.results)
        loop.replace_with(new.results)

    def _guarded(
        self, outside: Cursor, inside: Cursor, position: Value, distance: int, values: list[Value]
    ) -> list[Value]:
        """One copy; behind the first it runs only where its position lies below the bound."""
        loop = self.loop
        if distance == 0:
            ops, yielded = copy_iteration(loop, position, values)
            for op in arrange([ops], loop.body.entry, loop.unroll_schedule):
                inside.add(op)
            return yielded
        then = Block()
        if self.upper.hi + distance <= SMALL_POSITION:
            at = displaced(inside, position, distance, None, loop.loc)
            condition = is_below(inside, at, loop.upper, loop.loc)
        else:
            limit = group_limit(outside, loop.upper, distance, self.lower.lo, self.upper, loop.loc)
            condition = is_below(inside, position, limit, loop.loc)
            at = displaced(Cursor(block=then), position, distance, None, loop.loc)
        ops, yielded = copy_iteration(loop, at, values)
        for op in arrange([ops], loop.body.entry, loop.unroll_schedule):
            then.append(op)
        return conditional(inside, condition, then, yielded, Block(), values, loop)


def conditional(
    cursor: Cursor, condition: Value, then: Block, taken: list[Value], other: Block, skipped: list[Value], like: Op
) -> list[Value]:
    """Build an ``scf.if`` whose sides yield ``taken`` and ``skipped``; its results have the types of ``like``'s."""
    then.append(scf.Yield(list(taken), [], segments=(len(taken),), loc=like.loc))
    regions = [Region([then])]
    if like.results or other.first is not None:
        other.append(scf.Yield(list(skipped), [], segments=(len(skipped),), loc=like.loc))
        regions.append(Region([other]))
    choice = scf.If.build(
        condition=condition, result_types=[r.type for r in like.results], regions=regions, loc=like.loc
    )
    cursor.add(choice)
    take_types(choice.results, like.results)
    return list(choice.results)
