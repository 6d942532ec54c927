"""Checks of construction and of movement between lanes."""

from __future__ import annotations

import math
from typing import Any

from loom.dialects.check.verify import literal_kind
from loom.dialects.scf.verify import lengths_differ, out_of_contract
from loom.dialects.vector.checks import (
    elements_differ,
    known,
    offset_count,
    operand_error,
    ranks_differ,
    result_error,
    same_dims,
    shapes_differ,
)
from loom.ir.core import Value
from loom.ir.diagnostics import Diagnostic, Related
from loom.ir.types import ERROR, I1, INTEGERS, ShapedType, Type
from loom.spec.kinds import DYNAMIC

Findings = list[Diagnostic]


def not_empty(op: Any) -> Findings:
    """Poison has lanes."""
    return [result_error(op, op.results[0].type, "a vector with lanes")] if 0 in op.results[0].type.dims else []


def is_empty(op: Any) -> Findings:
    """A static extent is zero."""
    return [] if 0 in op.results[0].type.dims else [result_error(op, op.results[0].type, "a vector without lanes")]


def constant(op: Any) -> Findings:
    """The literal suits the element and lies in its domain."""
    type_ = op.results[0].type
    found = literal_kind(op, "value", op.value, type_)
    element = type_.element
    if not found and element in INTEGERS and element is not I1:
        low, high = -(1 << (element.width - 1)), (1 << (element.width - 1)) - 1
        if not low <= op.value <= high:
            found.append(out_of_contract(op, "value", op.value, f"{low} to {high}"))
    return found


def splat(op: Any) -> Findings:
    """The scalar has the element type."""
    element = op.results[0].type.element
    return (
        [] if op.scalar.type in (element, ERROR) else [elements_differ(op, "scalar", op.scalar.type, "result", element)]
    )


def iota(op: Any) -> Findings:
    """Base and step have the element type."""
    element = op.results[0].type.element
    return [] if op.base.type in (element, ERROR) else [elements_differ(op, "base", op.base.type, "result", element)]


def broadcast(op: Any) -> Findings:
    """Source axes align with the last result axes and have extent one or the result's."""
    source, result = op.source.type, op.results[0].type
    if not known(source, result):
        return []
    if source.element is not result.element:
        return [elements_differ(op, "source", source.element, "result", result.element)]
    if source.rank > result.rank:
        return [ranks_differ(op, "source", source.rank, "result", result.rank)]
    found = []
    skip = result.rank - source.rank
    for axis, (a, b) in enumerate(zip(source.dims, result.dims[skip:], strict=True)):
        if isinstance(a, int) and isinstance(b, int) and a not in (1, b):
            found.append(
                Diagnostic(
                    "SHAPE/004",
                    f"axis {axis} of extent {a} does not broadcast to {b}",
                    op.loc,
                    {"source_axis": axis, "source_size": a, "result_axis": axis + skip, "result_size": b},
                )
            )
    return found


def from_elements(op: Any) -> Findings:
    """One scalar of the element type per lane of a static vector."""
    type_ = op.results[0].type
    size = type_.static_size
    if size is None:
        return [result_error(op, type_, "a vector of static extents")]
    if size != len(op.elements):
        return [lengths_differ(op, "elements", len(op.elements), "lanes", size)]
    return [
        operand_error(op, f"elements[{i}]", e.type, type_.element.text)
        for i, e in enumerate(op.elements)
        if e.type not in (type_.element, ERROR)
    ]


def _sub_type(vector: ShapedType, count: int) -> Type:
    if count == vector.rank:
        return vector.element
    return ShapedType.get("vector", vector.dims[count:], vector.element)


def _static_range(op: Any, static: tuple[int, ...], vector: ShapedType) -> Findings:
    if len(static) > vector.rank:
        return [lengths_differ(op, "indices", len(static), "axes", vector.rank)]
    return [
        Diagnostic(
            "SUBRANGE/004",
            f"index {i} of axis {axis} is outside the extent {d}",
            op.loc,
            {"dim_index": axis, "offset": i, "size": 1, "total": i + 1, "bound": str(d)},
        )
        for axis, (i, d) in enumerate(zip(static, vector.dims, strict=False))
        if i != DYNAMIC and (i < 0 or (isinstance(d, int) and i >= d))
    ]


def extract(op: Any) -> Findings:
    """The result is the lane or trailing sub-vector that the indices select."""
    vector = op.source.type
    if vector is ERROR:
        return []
    found = _static_range(op, op.static_indices, vector)
    if not found and op.results[0].type != _sub_type(vector, len(op.static_indices)):
        found.append(result_error(op, op.results[0].type, str(_sub_type(vector, len(op.static_indices)))))
    return found


def insert(op: Any) -> Findings:
    """The value is the lane or trailing sub-vector that the indices select."""
    vector = op.target.type
    if vector is ERROR:
        return []
    found = _static_range(op, op.static_indices, vector)
    if not found and op.value.type not in (_sub_type(vector, len(op.static_indices)), ERROR):
        found.append(operand_error(op, "value", op.value.type, str(_sub_type(vector, len(op.static_indices)))))
    return found


def slice_(op: Any) -> Findings:
    """Same element and rank; static origin and extent inside the source."""
    source, result = op.source.type, op.results[0].type
    if source.element is not result.element:
        return [elements_differ(op, "source", source.element, "result", result.element)]
    if source.rank != result.rank:
        return [ranks_differ(op, "source", source.rank, "result", result.rank)]
    if len(op.static_offsets) != source.rank:
        return [offset_count(op, len(op.static_offsets), source.rank)]
    found = []
    for axis, (offset, size, bound) in enumerate(zip(op.static_offsets, result.dims, source.dims, strict=True)):
        if offset == DYNAMIC or not isinstance(size, int) or not isinstance(bound, int):
            continue
        if offset < 0 or offset + size > bound:
            found.append(
                Diagnostic(
                    "SUBRANGE/004",
                    f"lanes {offset} to {offset + size} of axis {axis} leave extent {bound}",
                    op.loc,
                    {"dim_index": axis, "offset": offset, "size": size, "total": offset + size, "bound": bound},
                )
            )
    return found


def _axis(op: Any, rank: int) -> Findings:
    if 0 <= op.axis < rank:
        return []
    return [Diagnostic("SUBRANGE/002", f"axis {op.axis} of rank {rank}", op.loc, {"dim_index": op.axis, "rank": rank})]


def concat(op: Any) -> Findings:
    """Equal ranks and other extents; extents along the axis add up."""
    result = op.results[0].type
    found = _axis(op, result.rank)
    if found or not op.parts:
        return found or [lengths_differ(op, "parts", 0, "at least", 1)]
    total = 0
    for i, part in enumerate(op.parts):
        type_ = part.type
        if type_.rank != result.rank:
            return [ranks_differ(op, f"parts[{i}]", type_.rank, "result", result.rank)]
        if type_.element is not result.element:
            return [elements_differ(op, f"parts[{i}]", type_.element, "result", result.element)]
        rest = [(a, b) for k, (a, b) in enumerate(zip(type_.dims, result.dims, strict=True)) if k != op.axis]
        if any(a is not b and a != b for a, b in rest):
            return [shapes_differ(op, f"parts[{i}]", "result")]
        extent = type_.dims[op.axis]
        total = total + extent if isinstance(extent, int) and total >= 0 else -1
    if total >= 0 and isinstance(result.dims[op.axis], int) and result.dims[op.axis] != total:
        return [result_error(op, result, f"extent {total} along axis {op.axis}")]
    return []


def transpose(op: Any) -> Findings:
    """The list is a permutation and permutes the extents."""
    source, result = op.source.type, op.results[0].type
    order = op.permutation
    if len(order) != source.rank:
        return [lengths_differ(op, "permutation", len(order), "axes", source.rank)]
    if any(not 0 <= p < source.rank for p in order):
        bad = next(p for p in order if not 0 <= p < source.rank)
        return [
            Diagnostic(
                "SUBRANGE/002", f"axis {bad} of rank {source.rank}", op.loc, {"dim_index": bad, "rank": source.rank}
            )
        ]
    if len(set(order)) != len(order):
        return [out_of_contract(op, "permutation", list(order), "a permutation")]
    expected = ShapedType.get("vector", tuple(source.dims[p] for p in order), source.element)
    return [] if result == expected else [result_error(op, result, str(expected))]


def shuffle(op: Any) -> Findings:
    """A lane number per lane of a static rank-1 vector."""
    type_ = op.source.type
    size = type_.static_size
    if type_.rank != 1 or size is None:
        return [operand_error(op, "source", type_, "a static vector of rank 1")]
    if len(op.lanes) != size:
        return [lengths_differ(op, "lanes", len(op.lanes), "lanes of the vector", size)]
    return [
        Diagnostic(
            "SUBRANGE/004",
            f"lane {lane} of {size}",
            op.loc,
            {"dim_index": 0, "offset": lane, "size": 1, "total": lane + 1, "bound": size},
        )
        for lane in op.lanes
        if not 0 <= lane < size
    ]


def _scaled_axis(op: Any, narrow: ShapedType, wide: ShapedType) -> bool:
    if narrow.rank != wide.rank or narrow.element is not wide.element:
        return False
    for axis, (a, b) in enumerate(zip(narrow.dims, wide.dims, strict=True)):
        if axis == op.axis:
            if isinstance(a, int) and isinstance(b, int) and b != 2 * a:
                return False
        elif a is not b and a != b:
            return False
    return True


def interleave(op: Any) -> Findings:
    """The axis extent doubles."""
    source, result = op.even.type, op.results[0].type
    found = _axis(op, source.rank)
    return found or (
        [] if _scaled_axis(op, source, result) else [result_error(op, result, "twice the extent along the axis")]
    )


def deinterleave(op: Any) -> Findings:
    """The axis extent is even and halves."""
    source, result = op.source.type, op.results[0].type
    found = _axis(op, source.rank)
    if found:
        return found
    extent = source.dims[op.axis]
    if not isinstance(extent, int) or extent % 2:
        return [operand_error(op, "source", source, "an even static extent along the axis")]
    return [] if _scaled_axis(op, result, source) else [result_error(op, result, "half the extent along the axis")]


def table_lookup(op: Any) -> Findings:
    """A rank-1 table; the result has the index shape and the table's element."""
    table, indices, result = op.table.type, op.indices.type, op.results[0].type
    found = []
    if table.rank != 1:
        found.append(operand_error(op, "table", table, "a vector of rank 1"))
    if not same_dims(indices, result):
        found.append(shapes_differ(op, "indices", "result"))
    if table.element is not result.element:
        found.append(elements_differ(op, "table", table.element, "result", result.element))
    return found


def table_quantize(op: Any) -> Findings:
    """Thresholds of the source's element; codes wide enough for their count."""
    source, thresholds, result = op.source.type, op.thresholds.type, op.results[0].type
    found = []
    if thresholds.rank != 1:
        found.append(operand_error(op, "thresholds", thresholds, "a vector of rank 1"))
    if source.element is not thresholds.element:
        found.append(elements_differ(op, "source", source.element, "thresholds", thresholds.element))
    if not same_dims(source, result):
        found.append(shapes_differ(op, "source", "result"))
    count = thresholds.static_size
    if count is not None and count >= 1 << result.element.width:
        found.append(
            Diagnostic(
                "TYPE/011",
                f"{result.element} cannot hold the codes of {count} thresholds",
                op.loc,
                {"result_name": "result", "actual_type": result, "threshold_count": count, "max_code": count},
            )
        )
    return found + _threshold_order(op)


def _threshold_order(op: Any) -> Findings:
    """Thresholds that are constants do not descend and are no NaN."""
    maker = op.thresholds.defining_op
    if maker is None or maker.name not in ("vector.from_elements", "vector.constant"):
        return []
    scalars = [maker.attributes[0]] if maker.name == "vector.constant" else [_literal(v) for v in maker.operands]
    before: float | None = None
    before_index = 0
    for index, value in enumerate(scalars):
        if value is None:
            continue
        if math.isnan(value) or (before is not None and value < before):
            what = "is NaN" if math.isnan(value) else f"is below threshold {before_index}, {before}"
            return [
                Diagnostic(
                    "STRUCTURE/015",
                    f"threshold {index} of '{op.name}' {what}",
                    op.loc,
                    {"field_name": "thresholds", "left_index": before_index, "right_index": index},
                    related=(Related("the thresholds are made here", maker.loc),),
                )
            ]
        before, before_index = value, index
    return []


def _literal(value: Value) -> Any:
    maker = value.defining_op
    return maker.attributes[0] if maker is not None and maker.name == "scalar.constant" else None
