"""Rules of pipelines and strands (language reference, part 2, section 14.6)."""

from __future__ import annotations

from typing import Any, Final

from loom.dialects.kernel.verify import check_pipeline_arguments
from loom.dialects.scf.verify import lengths_differ, out_of_contract
from loom.dialects.vector.checks import Findings, result_error
from loom.ir.core import Op
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import ERROR
from loom.spec.kinds import DYNAMIC

# What the arguments of a run are called -> how the body ends.
ENDS: Final = {"run": "pipeline.finish", "launch": "pipeline.return"}

# Ops whose bodies run for each worker or member, apart from the definition around them.
WORKERS: Final = ("pipeline.strand", "pipeline.execute")


def definition(op: Any) -> Findings:
    """The body ends as the name of its arguments says."""
    end = op.body.entry.last
    expected = ENDS[op.entry]
    if end.name == expected:
        return []
    return [
        Diagnostic(
            "STRUCTURE/018",
            f"a pipeline with '{op.entry}' arguments ends in '{expected}', not '{end.name}'",
            end.loc,
            {
                "op_name": op.name,
                "region_index": 0,
                "expected_terminator": expected,
                "actual_terminator": end.name,
            },
        )
    ]


def misplaced(op: Op, kind: str, ancestor: str, message: str) -> Diagnostic:
    """An op below a forbidden ancestor, or not below the one it needs."""
    around = op.parent_op
    return Diagnostic(
        "STRUCTURE/029",
        f"'{op.name}' {message}",
        op.loc,
        {
            "op_name": op.name,
            "constraint_kind": kind,
            "ancestor_name": ancestor,
            "actual_ancestor": around.name if around is not None else "module",
        },
    )


def pipeline_of(op: Op) -> Any:
    """The definition around an op, or ``None``."""
    return next((a for a in op.ancestors() if a.name == "pipeline.def"), None)


def needs_pipeline(op: Op) -> Findings:
    """Stands in a definition."""
    return [] if pipeline_of(op) is not None else [misplaced(op, "ancestor", "pipeline.def", "needs a 'pipeline.def'")]


def _outside_workers(op: Op) -> Findings:
    """Stands in a definition, but not in what its workers do. Strand form: no part of a command program."""
    found = needs_pipeline(op)
    if found:
        return found
    worker = next((a for a in op.ancestors() if a.name in WORKERS), None)
    if worker is not None:
        return [misplaced(op, "no_ancestor", worker.name, f"belongs to the definition, not into a '{worker.name}'")]
    if pipeline_of(op).unit == "command":
        return [misplaced(op, "ancestor", "pipeline.def", "is no part of a command program, which takes the flow form")]
    return []


def strand(op: Any) -> Findings:
    """One origin, count and stride per axis; coordinates and counts are not negative."""
    found = _outside_workers(op)
    axes = len(op.static_origins)
    for name in ("counts", "strides"):
        entries = len(op.attribute(f"static_{name}"))
        if entries != axes:
            found.append(lengths_differ(op, name, entries, "origins", axes))
    if axes == 0:
        found.append(out_of_contract(op, "workers", "[]", "at least one axis"))
    for name in ("origins", "counts"):
        found += [
            out_of_contract(op, name, entry, "not negative")
            for entry in op.attribute(f"static_{name}")
            if entry < 0 and entry != DYNAMIC
        ]
    if found:
        return found
    for origin, count, stride in zip(op.static_origins, op.static_counts, op.static_strides, strict=True):
        if DYNAMIC in (count, stride):
            continue
        if count > 1 and stride == 0:
            found.append(out_of_contract(op, "strides", 0, "something else: it selects one worker several times"))
        elif count > 1 and origin != DYNAMIC and origin + (count - 1) * stride < 0:
            found.append(out_of_contract(op, "strides", stride, "such that no coordinate is negative"))
    return found


def compose(op: Op) -> Findings:
    """Stands in a definition, outside strands."""
    return _outside_workers(op)


def check_compose(op: Any, target: Any) -> Findings:
    """Operands match the pipeline's specializations and run arguments."""
    return check_pipeline_arguments(op, target, op.specializations)


def memory(op: Any) -> Findings:
    """Stands in a kernel's definition, outside strands; a concrete space, coordinates that are not negative."""
    found = _outside_workers(op)
    if not found and pipeline_of(op).unit != "kernel":
        found.append(misplaced(op, "ancestor", "pipeline.def", "needs a 'pipeline.def<kernel>'"))
    if op.space == "unknown":
        found.append(out_of_contract(op, "memory_space", op.space, "a concrete space"))
    if not op.static_coordinates:
        found.append(out_of_contract(op, "coordinates", "[]", "at least one axis"))
    found += [
        out_of_contract(op, "coordinates", entry, "not negative")
        for entry in op.static_coordinates
        if entry < 0 and entry != DYNAMIC
    ]
    type_ = op.result.type
    if type_ is not ERROR and type_.dims:
        found.append(result_error(op, type_, "pool"))
    return found
