"""Loop policies: full and partial unrolling, and the checks of read-ahead requests.

Language reference, part 3, sections 10.2 and 10.3. Read-ahead above depth one is refused with a diagnostic at
the loop that asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loom.dialects.index import ops as index_ops
from loom.dialects.scf import ops as scf
from loom.facts.analysis import FunctionFacts
from loom.ir.core import Block, Op, Region, Value
from loom.ir.diagnostics import LoomError, Related, fail
from loom.ir.types import INDEX
from loom.spec.registry import lookup
from loom.transforms.fold import make_constant

MAX_PIPELINE_DEPTH = 65_535
MAX_UNROLLED_OPS = 1 << 20


def apply_loop_policies(function: Op, target_facts: Mapping[str, object]) -> None:
    """Carry out the policies of every loop, inner loops first, and clear them."""
    loops = [op for op in function.walk() if op.name == "scf.for"]
    for loop in reversed(loops):
        if loop.parent is None:
            continue
        facts = FunctionFacts(function, target_facts)
        _pipeline(loop, facts)
        _unroll(loop, facts)


def _refuse(loop: Op, name: str, value: object, expected: str, related: tuple[Related, ...] = ()) -> LoomError:
    return fail(
        "STRUCTURE/014",
        f"{name} of this loop: {expected}",
        loop.loc,
        related=related,
        emitter="loop-policies",
        attr_name=name,
        actual_value=value,
        expected_constraint=expected,
    )


def _pipeline(loop: Any, facts: FunctionFacts) -> None:
    depth_value = loop.pipeline_depth
    if depth_value is None:
        return
    depth = facts.exact(depth_value, loop)
    if depth is None or not 1 <= depth <= MAX_PIPELINE_DEPTH:
        raise _refuse(
            loop,
            "pipeline",
            depth if depth is not None else 0,
            f"the depth must be an exact value from 1 to {MAX_PIPELINE_DEPTH}",
        )
    if depth > 1:
        for op in loop.walk():
            if op.name == "scf.schedule.fence":
                raise _refuse(
                    loop,
                    "pipeline",
                    depth,
                    "a depth above one admits no source fence in the body",
                    (Related("the fence", op.loc),),
                )
        raise _refuse(loop, "pipeline", depth, "read-ahead above depth one is not available yet; use depth one")
    loop.pipeline_depth = None


def _unroll(loop: Any, facts: FunctionFacts) -> None:
    if loop.unroll_policy is None and loop.unroll_factor is None:
        return
    lower, upper, step = (facts.integer(v, loop) for v in loop.operands[:3])
    if loop.unroll_policy is not None:
        _unroll_fully(loop, lower.exact, upper.exact, step.exact)
        return
    factor = facts.exact(loop.unroll_factor, loop)
    if factor is None or factor < 1:
        raise _refuse(
            loop, "unroll_factor", factor if factor is not None else 0, "the factor must be an exact positive value"
        )
    if step.exact is None or step.exact < 1:
        raise _refuse(loop, "step", step.exact or 0, "the step must be an exact positive value")
    loop.unroll_factor = None
    loop.unroll_schedule = None
    if factor > 1:
        exact = (
            lower.exact is not None
            and upper.exact is not None
            and (upper.exact - lower.exact) % (factor * step.exact) == 0
        )
        _unroll_partially(loop, factor, step.exact, exact)


def _unroll_fully(loop: Any, lower: int | None, upper: int | None, step: int | None) -> None:
    missing = [name for name, v in (("lower bound", lower), ("upper bound", upper), ("step", step)) if v is None]
    if missing or step is None or lower is None or upper is None:
        raise _refuse(loop, "unroll", 0, f"a full unroll needs an exact {', '.join(missing)}")
    if step < 1:
        raise _refuse(loop, "step", step, "the step must be positive")
    trips = max(0, -(-(upper - lower) // step))
    if trips * len(loop.body.entry) > MAX_UNROLLED_OPS:
        raise _refuse(
            loop, "unroll", trips, f"unrolling {trips} iterations makes more than {MAX_UNROLLED_OPS} operations"
        )
    values = list(loop.iter_args)
    for trip in range(trips):
        position = make_constant(loop.operands[0].type, lower + trip * step, loop.loc)
        position.insert_before(loop)
        values = _copy_body(loop, position.results[0], values)
    loop.replace_with(values)


def _copy_body(
    loop: Any, position: Value, carried: list[Value], before: Op | None = None, into: Block | None = None
) -> list[Value]:
    """Copy one iteration in front of ``before`` (default: the loop) or to the end of a block; return what it yields."""
    block = loop.body.entry
    mapping: dict[Value, Value] = dict(zip(block.args, [position, *carried], strict=True))
    for op in block:
        if op.next is None:
            return [mapping.get(v, v) for v in op.operands]
        copy = op.clone(mapping)
        if into is not None:
            into.append(copy)
        else:
            copy.insert_before(before or loop)
    return []


def _unroll_partially(loop: Any, factor: int, step: int, exact: bool) -> None:
    """Scale the step by the factor; copies behind the first are guarded unless the trip count divides evenly."""
    lower, upper = loop.operands[0], loop.operands[1]
    wide = make_constant(lower.type, factor * step, loop.loc)
    wide.insert_before(loop)
    body = Block()
    position = body.add_argument(lower.type, loop.body.entry.args[0].name)
    carried = []
    for arg in loop.body.entry.args[1:]:
        carried.append(body.add_argument(arg.type, arg.name))
    mapping = dict(zip(loop.body.entry.args, body.args, strict=True))
    for arg in body.args:
        if not arg.type.text:
            arg.set_type(arg.type.substitute(mapping))
    values = list(carried)
    for copy in range(factor):
        at = position
        if copy:
            distance = make_constant(lower.type, copy * step, loop.loc)
            body.append(distance)
            add: Any = lookup("index.add")
            addition = add([position, distance.results[0]], [], [lower.type], loc=loop.loc)
            body.append(addition)
            at = addition.results[0]
        if copy == 0 or exact:
            values = _copy_body(loop, at, values, into=body)
        else:
            values = _guarded_copy(loop, at, upper, values, body)
    body.append(scf.Yield(values, [], segments=(len(values),), loc=loop.loc))
    new = scf.For.build(
        lower=lower,
        upper=upper,
        step=wide.results[0],
        iter_args=loop.iter_args,
        result_types=[r.type for r in loop.results],
        regions=[Region([body])],
        loc=loop.loc,
    )
    new.insert_before(loop)
    for old, fresh in zip(loop.results, new.results, strict=True):
        fresh.name = old.name
    results = dict(zip(loop.results, new.results, strict=True))
    for fresh in new.results:
        if not fresh.type.text:
            fresh.set_type(fresh.type.substitute(results))
    loop.replace_with(new.results)


def _guarded_copy(loop: Any, at: Value, upper: Value, values: list[Value], body: Block) -> list[Value]:
    predicate = "slt" if at.type is INDEX else "ult"
    guard = index_ops.Cmp.build(predicate=predicate, lhs=at, rhs=upper, loc=loop.loc)
    body.append(guard)
    then_block, else_block = Block(), Block()
    yielded = _copy_body(loop, at, values, into=then_block)
    then_block.append(scf.Yield(yielded, [], segments=(len(yielded),), loc=loop.loc))
    regions = [Region([then_block])]
    if values:
        else_block.append(scf.Yield(list(values), [], segments=(len(values),), loc=loop.loc))
        regions.append(Region([else_block]))
    conditional = scf.If.build(
        condition=guard.results[0], result_types=[v.type for v in values], regions=regions, loc=loop.loc
    )
    results = dict(zip(values, conditional.results, strict=True))
    for result in conditional.results:
        if not result.type.text:
            result.set_type(result.type.substitute(results))
    body.append(conditional)
    return list(conditional.results)
