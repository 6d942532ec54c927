"""Rules of the flow form of pipelines (language reference, part 2, section 14.4; part 1, section 19)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loom.dialects.constants import index_constant
from loom.dialects.pipeline.verify import needs_pipeline
from loom.dialects.scf.verify import out_of_contract
from loom.dialects.vector.checks import (
    Findings,
    elements_differ,
    operand_error,
    ranks_differ,
    result_error,
    shapes_differ,
)
from loom.dialects.vector.verify_lanewise import kind_fits
from loom.ir.core import Op, Value
from loom.ir.diagnostics import Diagnostic, Related
from loom.ir.types import ERROR, INDEX, NestedType, ShapedType, Type


def record_of(type_: Type) -> Type:
    """The record type of a flow; the error type for anything that did not parse."""
    return type_.parts[0] if isinstance(type_, NestedType) else ERROR


def _records_of_tiles(op: Op, name: str, type_: Type) -> Findings:
    record = record_of(type_)
    if record is ERROR or (isinstance(record, ShapedType) and record.kind == "tile"):
        return []
    if name == "result":
        return [result_error(op, type_, "a flow of tiles")]
    return [operand_error(op, name, type_, "a flow of tiles")]


def _view_holds(op: Op, view_name: str, view: Any, flow_name: str, flow: Type, lead: int) -> Findings:
    """The trailing axes of a view are the flow's tile, behind at least ``lead`` others."""
    found = _records_of_tiles(op, flow_name, flow)
    tile: Any = record_of(flow)
    if found or ERROR in (view, tile):
        return found
    if view.element is not tile.element:
        return [elements_differ(op, view_name, view.element, flow_name, tile.element)]
    if view.rank < tile.rank + lead:
        return [ranks_differ(op, view_name, view.rank, flow_name, tile.rank + lead)]
    trailing = view.dims[view.rank - tile.rank :]
    if all(a is b or (isinstance(a, int) and a == b) for a, b in zip(trailing, tile.dims, strict=True)):
        return []
    return [shapes_differ(op, view_name, flow_name)]


def scatter(op: Any) -> Findings:
    """The view has an axis for the lanes, as long as the group where both are known, in front of the tile."""
    found = [*needs_pipeline(op), *_view_holds(op, "source", op.source.type, "result", op.result.type, 1)]
    view, group = op.source.type, op.members.type
    if found or ERROR in (view, group) or len(group.dims) != 1:
        return found
    lanes, members = view.dims[0], group.dims[0]
    if isinstance(lanes, int) and isinstance(members, int) and lanes != members:
        return [shapes_differ(op, "source", "members")]
    return found


def read(op: Any) -> Findings:
    """The view ends in the tile."""
    return [*needs_pipeline(op), *_view_holds(op, "source", op.source.type, "result", op.result.type, 0)]


def write(op: Any) -> Findings:
    """The view ends in the tile."""
    return [*needs_pipeline(op), *_view_holds(op, "target", op.target.type, "flow", op.flow.type, 0)]


def buffer(op: Any) -> Findings:
    """Room for at least one record."""
    capacity = index_constant(op.capacity)
    found = needs_pipeline(op)
    if capacity is not None and capacity < 1:
        found.append(out_of_contract(op, "capacity", capacity, "at least 1"))
    return found


def fold(op: Any) -> Findings:
    """The kind combines elements of the tile's type."""
    found = [*needs_pipeline(op), *_records_of_tiles(op, "source", op.source.type)]
    tile: Any = record_of(op.source.type)
    if found or tile is ERROR:
        return found
    return kind_fits(op, tile.element)


def stage(op: Any) -> Findings:
    """Stands in a definition; symbol rules check the function."""
    return needs_pipeline(op)


def reduce(op: Any) -> Findings:
    """Stands in a definition; symbol rules find the function."""
    return needs_pipeline(op)


def check_stage(op: Any, function: Any) -> Findings:
    """The function takes one record of each input and returns one of each result."""
    where = (Related(f"'@{function.callee}' is declared here", function.loc),)
    found: Findings = []
    sides: tuple[tuple[str, str, Sequence[Value], Sequence[Type]], ...] = (
        ("input", "STRUCTURE/001", op.inputs, [a.type for a in function.body.entry.args]),
        ("result", "STRUCTURE/002", op.results, [r.type for r in function.result_specs]),
    )
    for role, code, flows, declared in sides:
        if len(flows) != len(declared):
            found.append(
                Diagnostic(
                    code,
                    f"'{op.name}' has {len(flows)} {role} flows, but '@{function.callee}' {len(declared)} {role}s",
                    op.loc,
                    {"op_name": op.name, "actual_count": len(flows), "expected_count": len(declared)},
                    related=where,
                )
            )
            continue
        found += [
            Diagnostic(
                "TYPE/001",
                f"{role} {i} carries records {record_of(flow.type)}, but '@{function.callee}' declares {type_}",
                op.loc,
                {
                    "field_a": f"{role}s[{i}]",
                    "type_a": record_of(flow.type),
                    "field_b": function.callee,
                    "type_b": type_,
                },
                related=where,
            )
            for i, (flow, type_) in enumerate(zip(flows, declared, strict=True))
            if record_of(flow.type) not in (type_, ERROR)
        ]
    return found


def place(op: Any) -> Findings:
    """The result names both groups; without ``cyclic`` each logical member has a physical one of its own."""
    found = needs_pipeline(op)
    logical, physical, result = op.logical.type, op.physical.type, op.result.type
    if ERROR in (logical, physical, result):
        return found
    if result.parts != (logical, physical):
        return [*found, result_error(op, result, f"pipeline.placement<{logical}, {physical}>")]
    if len(logical.dims) != len(physical.dims):
        return [*found, ranks_differ(op, "logical", len(logical.dims), "physical", len(physical.dims))]
    if op.mapping is None and any(
        isinstance(a, int) and isinstance(b, int) and a > b for a, b in zip(logical.dims, physical.dims, strict=True)
    ):
        found.append(shapes_differ(op, "logical", "physical"))
    return found


def execute(op: Any) -> Findings:
    """The body takes an index for each axis of the logical group and each input as it is."""
    found = needs_pipeline(op)
    placement: Any = op.placement.type
    if placement is ERROR:
        return found
    logical: Any = placement.parts[0]
    # A group without extents in its type, as of older texts, has one axis.
    expected = [INDEX] * max(len(getattr(logical, "dims", ())), 1) + [v.type for v in op.inputs]
    actual = [a.type for a in op.body.entry.args]
    if len(actual) != len(expected):
        return [
            *found,
            Diagnostic(
                "STRUCTURE/007",
                f"the body of '{op.name}' takes {len(actual)} arguments, not {len(expected)}",
                op.loc,
                {"actual_count": len(actual), "expected_count": len(expected)},
            ),
        ]
    return [
        *found,
        *(
            Diagnostic(
                "TYPE/013",
                f"argument {i} of the body of '{op.name}' is {a}, not {b}",
                op.loc,
                {"arg_index": i, "arg_type": a, "expected_type": b},
            )
            for i, (a, b) in enumerate(zip(actual, expected, strict=True))
            if a != b and ERROR not in (a, b)
        ),
    ]
