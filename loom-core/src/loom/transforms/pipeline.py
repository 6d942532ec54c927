"""Read-ahead: ``pipeline(%depth)`` on a counted loop (language reference, part 3, section 10.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loom.dialects.buffer.spaces import touched_spaces
from loom.facts.analysis import FunctionFacts
from loom.facts.integers import MAX64
from loom.ir.core import Op
from loom.transforms.loops_refusal import refuse
from loom.transforms.loops_report import PolicyDetail, detail
from loom.transforms.pipeline_build import Bounds, build_pipeline
from loom.transforms.pipeline_guard import separate_guarded_reads
from loom.transforms.pipeline_partition import Partition, partition
from loom.transforms.pipeline_rules import FIXED_OPERANDS, MAX_DEPTH, MAX_OPERANDS, RULES, Role, Roles, broken
from loom.transforms.unroll import MAX_UNROLLED_OPS, unroll_fully


def pipeline(loop: Any, facts: FunctionFacts, symbols: Mapping[str, Op]) -> list[PolicyDetail]:
    """Carry out the read-ahead request of a loop and clear it; unroll clauses pass on to the loops that replace it.

    Policies of inner loops must be carried out before. Returns a row about the loop and, if it reads ahead, one for
    each operation of its body. Raises STRUCTURE/014 with the broken rule.
    """
    depth = facts.exact(loop.pipeline_depth, loop)
    if depth is None or not 1 <= depth <= MAX_DEPTH:
        raise refuse(loop, "pipeline", depth or 0, RULES["depth"])
    if depth == 1:
        loop.pipeline_depth = None
        return [_outcome(loop, depth, None)]
    bounds = _bounds(loop, depth, facts)
    _expand_mixed_loops(loop, facts)
    roles = Roles(loop, depth, symbols)
    _require_exact_bounds(loop, roles, bounds)
    if separate_guarded_reads(loop, roles):
        roles = Roles(loop, depth, symbols)
    parts = partition(loop, roles)
    _require_size(loop, depth, parts)
    ahead = bounds.reaches((depth - 1) * bounds.step) is not False
    details = [_outcome(loop, depth, parts if ahead else None), *(_stages(loop, depth, parts) if ahead else ())]
    build_pipeline(loop, depth, bounds, parts)
    return details


def _outcome(loop: Op, depth: int, parts: Partition | None) -> PolicyDetail:
    """The row of a loop; without parts it stays serial."""
    return detail(
        "scf-pipeline",
        loop,
        outcome="serial" if parts is None else "pipelined",
        schedule="read_ahead",
        depth=depth,
        queue_records=0 if parts is None else depth - 1,
        values_per_record=0 if parts is None else len(parts.queued),
        read_count=0 if parts is None else parts.read_count,
    )


def _stages(loop: Any, depth: int, parts: Partition) -> Iterator[PolicyDetail]:
    """Where each operation of the body goes; an address that both halves compute appears in both."""
    halves = (("producer", depth - 1, set(parts.producer)), ("consumer", 0, set(parts.consumer)))
    for position, op in enumerate(loop.body.entry):
        for stage, lookahead, members in halves:
            if op in members:
                yield detail(
                    "scf-pipeline-stage",
                    loop,
                    position=position,
                    op=op.name,
                    stage=stage,
                    iteration_lookahead=lookahead,
                )


def _bounds(loop: Any, depth: int, facts: FunctionFacts) -> Bounds:
    lower, upper, step = (facts.integer(v, loop) for v in (loop.lower, loop.upper, loop.step))
    if step.exact is None or step.exact < 1:
        raise broken(loop, depth, "step")
    if (depth - 1) * step.exact > MAX64:
        raise broken(loop, depth, "distance")
    return Bounds(lower, upper, step.exact)


def _expand_mixed_loops(loop: Op, facts: FunctionFacts) -> None:
    """Unroll inner loops that ask for it and both read global memory and touch workgroup memory.

    Only then do their loads stand apart from their stores. A partial or reordering schedule keeps them whole.
    """
    for inner in list(loop.walk())[:0:-1]:
        if inner.name != "scf.for" or inner.attribute("unroll_policy") is None:
            continue
        if inner.attribute("unroll_schedule") in (None, "linear") and _is_mixed(inner):
            unroll_fully(inner, facts)


def _is_mixed(loop: Op) -> bool:
    reads_global = touches_workgroup = False
    for op in loop.walk():
        spaces = touched_spaces(op) if op.spec.traits & {"reads", "writes"} else frozenset[str]()
        reads_global |= "reads" in op.spec.traits and "global" in spaces
        touches_workgroup |= "workgroup" in spaces
    return reads_global and touches_workgroup


def _require_exact_bounds(loop: Any, roles: Roles, bounds: Bounds) -> None:
    """Whatever every participant must meet at the same place needs a trip count that is the same for all."""
    if bounds.lower.exact is not None and bounds.upper.exact is not None:
        return
    if roles.ordered is not None:
        raise broken(loop, roles.depth, "ordered_bounds", roles.ordered)
    collective = roles.first(Role.COLLECTIVE)
    if collective is not None:
        raise broken(loop, roles.depth, "convergent_bounds", collective)


def _require_size(loop: Any, depth: int, parts: Partition) -> None:
    operands = len(loop.iter_args) + (depth - 1) * len(parts.queued) + parts.consumer_needs_position + FIXED_OPERANDS
    if operands > MAX_OPERANDS:
        raise broken(loop, depth, "operands")
    if depth * sum(1 for _ in loop.walk()) > MAX_UNROLLED_OPS:
        raise refuse(loop, "pipeline", depth, RULES["size"].format(limit=MAX_UNROLLED_OPS))
