"""Loop policies: read-ahead first, inner loops before outer ones, then unrolling of what that leaves.

Language reference, part 3, section 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loom.facts.version import Version
from loom.ir.core import Op, symbol_name
from loom.ir.records import evolve
from loom.transforms.loops_report import PolicyDetail


def apply_loop_policies(
    function: Op,
    target_facts: Mapping[str, object],
    symbols: Mapping[str, Op] | None = None,
    *,
    version: Version | None = None,
) -> list[PolicyDetail]:
    """Carry out the policies of every loop, clear them, and tell what was done.

    ``symbols`` are the module's, to know which calls are pure. Raises STRUCTURE/014 at a loop whose request
    cannot be met.
    """
    version = version or Version(function, target_facts)
    pipelined = pipeline_loops(function, target_facts, symbols, version=version)
    return [*pipelined, *unroll_loops(function, target_facts, version=version)]


def pipeline_loops(
    function: Op,
    target_facts: Mapping[str, object],
    symbols: Mapping[str, Op] | None = None,
    *,
    version: Version | None = None,
) -> list[PolicyDetail]:
    """Rebuild every loop that asks for read-ahead, innermost first."""
    details: list[PolicyDetail] = []
    loops = [loop for loop in _innermost_first(function) if loop.pipeline_depth is not None]
    if loops:
        # Few programs have such loops, and what rebuilds them is large.
        from loom.transforms.pipeline import pipeline

        version = version or Version(function, target_facts)
        facts = version.facts
        for loop in loops:
            details += pipeline(loop, facts, symbols or {})
        version.changed()
    return _of(function, details)


def unroll_loops(
    function: Op, target_facts: Mapping[str, object], *, version: Version | None = None
) -> list[PolicyDetail]:
    """Unroll every loop that asks for it, innermost first."""
    details: list[PolicyDetail] = []
    loops = [
        loop
        for loop in _innermost_first(function)
        if loop.unroll_policy is not None or loop.unroll_factor is not None
    ]
    if loops:
        from loom.transforms.unroll import unroll

        version = version or Version(function, target_facts)
        facts = version.facts
        for loop in loops:
            details.append(unroll(loop, facts))
        version.changed()
    return _of(function, details)


def _innermost_first(function: Op) -> list[Any]:
    return [op for op in function.walk() if op.name == "scf.for"][::-1]


def _of(function: Op, details: list[PolicyDetail]) -> list[PolicyDetail]:
    return [evolve(detail, function=symbol_name(function) or "") for detail in details]
