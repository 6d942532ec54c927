"""Rules of the ``vector`` dialect that constraints cannot say (language reference, part 2, sections 6 to 10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loom.dialects.check.verify import literal_kind
from loom.dialects.scf.verify import lengths_differ, out_of_contract
from loom.ir.core import Op
from loom.ir.diagnostics import Diagnostic, did_you_mean
from loom.ir.types import ERROR, FLOATS, I1, INTEGERS, ScalarType, ShapedType, Type
from loom.spec.kinds import DYNAMIC

Findings = list[Diagnostic]

AUX_KEYS: Final = frozenset(
    ["amax", "bias", "centroids", "codebook", "indices", "mask", "metadata", "minimum", "offsets", "outliers", "residual", "scale", "scale2", "scale3", "scale4", "scale5", "scale6", "scale7", "secondary_scale", "signs", "sparsity", "sum_correction", "thresholds", "zero_point"]
)


def operand_error(op: Op, name: str, type_: object, expected: str) -> Diagnostic:
    """An operand outside what the op accepts."""
    return Diagnostic(
        "TYPE/003",
        f"operand '{name}' of '{op.name}' is {type_}, but must be {expected}",
        op.loc,
        {"operand_name": name, "actual_type": type_, "expected_constraint": expected},
    )


def result_error(op: Op, type_: object, expected: str) -> Diagnostic:
    """A result outside what the op produces."""
    return Diagnostic(
        "TYPE/004",
        f"the result of '{op.name}' is {type_}, but must be {expected}",
        op.loc,
        {"result_name": "result", "actual_type": type_, "expected_constraint": expected},
    )


def shapes_differ(op: Op, a: str, b: str) -> Diagnostic:
    """Two fields whose shapes must agree."""
    return Diagnostic(
        "SHAPE/002", f"'{a}' and '{b}' of '{op.name}' differ in shape", op.loc, {"field_a": a, "field_b": b}
    )


def ranks_differ(op: Op, a: str, rank_a: int, b: str, rank_b: int) -> Diagnostic:
    """Two fields whose ranks must agree."""
    return Diagnostic(
        "SHAPE/001",
        f"'{a}' of '{op.name}' has rank {rank_a}, '{b}' has rank {rank_b}",
        op.loc,
        {"operand_a": a, "rank_a": rank_a, "operand_b": b, "rank_b": rank_b},
    )


def elements_differ(op: Op, a: str, element_a: object, b: str, element_b: object) -> Diagnostic:
    """Two fields whose element types must agree."""
    return Diagnostic(
        "TYPE/002",
        f"'{a}' of '{op.name}' has elements {element_a}, '{b}' has {element_b}",
        op.loc,
        {"field_a": a, "element_type_a": element_a, "field_b": b, "element_type_b": element_b},
    )


def _same_dims(a: Any, b: Any) -> bool:
    if len(a.dims) != len(b.dims):
        return False
    return all(x is y or (isinstance(x, int) and x == y) for x, y in zip(a.dims, b.dims, strict=True))


def _known(*types: Type) -> bool:
    return ERROR not in types


def same_shape(op: Any) -> Findings:
    """The result has the operand's shape."""
    a, b = op.operands[0].type, op.results[0].type
    return [] if not _known(a, b) or _same_dims(a, b) else [shapes_differ(op, "input", "result")]


def select(op: Any) -> Findings:
    """The mask has the shape of the values."""
    a, b = op.condition.type, op.true_value.type
    return [] if not _known(a, b) or _same_dims(a, b) else [shapes_differ(op, "condition", "true_value")]


def _cast(rule: Callable[[int, int], bool], expected: str) -> Callable[[Any], Findings]:
    def check(op: Any) -> Findings:
        found = same_shape(op)
        source, target = op.operands[0].type.element, op.results[0].type.element
        if not rule(source.width, target.width):
            found.append(result_error(op, op.results[0].type, expected))
        return found

    return check


def _bitcast(op: Any) -> Findings:
    source, target = op.operands[0].type, op.results[0].type
    a, b = source.static_size, target.static_size
    if a is None or b is None:
        return []
    if a * source.element.width != b * target.element.width:
        return [result_error(op, target, f"{a * source.element.width} bits in all")]
    return []


CASTS: Final[dict[str, Callable[[Any], Findings]]] = {
    "sitofp": same_shape,
    "uitofp": same_shape,
    "fptosi": same_shape,
    "fptoui": same_shape,
    "extf": _cast(lambda a, b: b > a, "a vector of strictly wider elements"),
    "fptrunc": _cast(lambda a, b: b < a, "a vector of strictly narrower elements"),
    "extsi": _cast(lambda a, b: b > a, "a vector of strictly wider elements"),
    "extui": _cast(lambda a, b: b > a, "a vector of strictly wider elements"),
    "trunci": _cast(lambda a, b: b < a, "a vector of strictly narrower elements"),
    "bitcast": _bitcast,
}


def _field(op: Any, storage: ScalarType) -> Findings:
    if op.offset < 0 or op.width <= 0 or op.offset + op.width > storage.width:
        return [out_of_contract(op, "width", op.width, f"a field inside {storage.width} bits")]
    return []


def bitfield_extract(op: Any) -> Findings:
    """The field lies inside the lane and fits the result."""
    found = same_shape(op) + _field(op, op.source.type.element)
    if op.results[0].type.element.width < op.width:
        found.append(result_error(op, op.results[0].type, f"elements of at least {op.width} bits"))
    return found


def bitfield_insert(op: Any) -> Findings:
    """The field lies inside the lane and the inserted value is wide enough."""
    found = _field(op, op.base.type.element)
    if not _same_dims(op.field.type, op.base.type):
        found.append(shapes_differ(op, "field", "base"))
    if op.field.type.element.width < op.width:
        found.append(operand_error(op, "field", op.field.type, f"elements of at least {op.width} bits"))
    return found


def bit_stream(op: Any) -> Findings:
    """Fields and storage have the same number of bits."""
    if op.width < 1:
        return [out_of_contract(op, "width", op.width, "at least 1")]
    packs = op.name == "vector.bitpack"
    fields, storage = (op.source.type, op.results[0].type) if packs else (op.results[0].type, op.source.type)
    if fields.element.width < op.width:
        expected = f"elements of at least {op.width} bits"
        return [operand_error(op, "source", fields, expected) if packs else result_error(op, fields, expected)]
    lanes, words = fields.static_size, storage.static_size
    if lanes is not None and words is not None and lanes * op.width != words * storage.element.width:
        return [result_error(op, op.results[0].type, f"as many bits as {lanes} fields of {op.width}")]
    return []


# -- construction and movement -----------------------------------------------------------------------------


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
    if not _known(source, result):
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
        return [_offset_count(op, len(op.static_offsets), source.rank)]
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


def _offset_count(op: Any, count: int, rank: int) -> Diagnostic:
    return Diagnostic(
        "SUBRANGE/001",
        f"{count} indices for rank {rank}",
        op.loc,
        {"operand_name": "indices", "offset_count": count, "rank": rank},
    )


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
    if not _same_dims(indices, result):
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
    if not _same_dims(source, result):
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
    return found


# -- dots and reductions -----------------------------------------------------------------------------------


def _kind_fits(op: Any, element: ScalarType) -> Findings:
    is_float = element in FLOATS
    if op.kind.endswith("f") != is_float:
        wanted = "floating-point" if op.kind.endswith("f") else "integer"
        return [operand_error(op, "source", op.source.type, f"{wanted} element type for {op.kind}")]
    if op.flags and not is_float:
        return [operand_error(op, "source", op.source.type, "floating-point elements for fast-math flags")]
    return []


def reduce(op: Any) -> Findings:
    """The initial value has the element type, and the kind fits it."""
    element = op.source.type.element
    if op.init.type not in (element, ERROR):
        return [elements_differ(op, "source", element, "init", op.init.type)]
    return _kind_fits(op, element)


def reduce_axes(op: Any) -> Findings:
    """Strictly increasing axes; the initial value has what remains."""
    source = op.source.type
    axes = op.axes
    if not axes or list(axes) != sorted(set(axes)) or axes[0] < 0 or axes[-1] >= source.rank:
        return [out_of_contract(op, "axes", list(axes), f"increasing axes of rank {source.rank}")]
    rest = tuple(d for i, d in enumerate(source.dims) if i not in axes)
    expected = ShapedType.get("vector", rest, source.element) if rest else source.element
    if op.init.type != expected:
        return [result_error(op, op.init.type, str(expected))]
    return _kind_fits(op, source.element)


def dotf(op: Any) -> Findings:
    """The accumulator has the element type."""
    element = op.lhs.type.element
    return [] if op.acc.type in (element, ERROR) else [elements_differ(op, "lhs", element, "acc", op.acc.type)]


def _grouped(op: Any, group: int) -> Findings:
    source, acc = op.lhs.type, op.acc.type
    if source.rank != acc.rank or any(
        a is not b and a != b for a, b in zip(source.dims[:-1], acc.dims[:-1], strict=True)
    ):
        return [shapes_differ(op, "lhs", "acc")]
    a, b = source.dims[-1], acc.dims[-1]
    if isinstance(a, int) and a % group:
        return [operand_error(op, "lhs", source, f"a last extent divisible by {group}")]
    if isinstance(a, int) and isinstance(b, int) and a != b * group:
        return [result_error(op, acc, f"last extent {a // group}")]
    return []


def dot2f(op: Any) -> Findings:
    """Two lanes make one."""
    return _grouped(op, 2)


def dot4i(op: Any) -> Findings:
    """Four lanes make one."""
    return _grouped(op, 4)


def same_shape_as_acc(op: Any) -> Findings:
    """Operands and accumulator have one shape."""
    return [] if _same_dims(op.lhs.type, op.acc.type) else [shapes_differ(op, "lhs", "acc")]


# -- memory ------------------------------------------------------------------------------------------------


def _sides(op: Any) -> tuple[Any, Any]:
    """The view and the vector of an access."""
    if "target" in op.spec.operand_index:
        return op.target.type, op.value.type
    return op.source.type, op.results[0].type


def _origin(op: Any, view: Any, extents: tuple[Any, ...]) -> Findings:
    """One index per axis; a static footprint stays inside static extents. ``extents`` belong to the last axes."""
    static = op.static_indices
    if view.rank < 1:
        return [operand_error(op, "view", view, "a view of rank >= 1")]
    if len(static) != view.rank:
        return [_offset_count(op, len(static), view.rank)]
    found = []
    skip = view.rank - len(extents)
    for axis, (index, bound) in enumerate(zip(static, view.dims, strict=True)):
        size = extents[axis - skip] if axis >= skip else 1
        if index == DYNAMIC or not isinstance(bound, int) or not isinstance(size, int):
            continue
        if index < 0 or index + size > bound:
            found.append(
                Diagnostic(
                    "SUBRANGE/004",
                    f"{index} to {index + size} of axis {axis} leave extent {bound}",
                    op.loc,
                    {"dim_index": axis, "offset": index, "size": size, "total": index + size, "bound": bound},
                )
            )
    return found


def _cache(op: Any) -> Findings:
    if (op.cache_scope is None) != (op.cache_temporal is None):
        return [out_of_contract(op, "cache_scope", str(op.cache_scope), "given together with 'cache_temporal'")]
    return []


def _transfer(op: Any, footprint: bool) -> Findings:
    view, vector = _sides(op)
    if not _known(view, vector):
        return []
    if view.element is not vector.element:
        return [elements_differ(op, "view", view.element, "vector", vector.element)]
    if footprint and vector.rank > view.rank:
        return [ranks_differ(op, "vector", vector.rank, "view", view.rank)]
    return _origin(op, view, vector.dims if footprint else ()) + _cache(op)


def _masked(op: Any) -> Findings:
    _, vector = _sides(op)
    found = []
    if "mask" in op.spec.operand_index and not _same_dims(op.mask.type, vector):
        found.append(shapes_differ(op, "mask", "vector"))
    return found


def access(op: Any) -> Findings:
    """A plain footprint."""
    return _transfer(op, True)


def masked_access(op: Any) -> Findings:
    """A footprint under a mask."""
    return _transfer(op, True) + _masked(op)


def packed_access(op: Any) -> Findings:
    """Expand and compress work on rank 1."""
    _, vector = _sides(op)
    if vector is not ERROR and vector.rank != 1:
        expected = "a vector of rank 1"
        return [result_error(op, vector, expected) if op.results else operand_error(op, "value", vector, expected)]
    return _transfer(op, False) + _masked(op)


def indexed_access(op: Any) -> Findings:
    """Offsets have the vector's shape."""
    _, vector = _sides(op)
    found = _transfer(op, False) + _masked(op)
    if _known(op.offsets.type, vector) and not _same_dims(op.offsets.type, vector):
        found.append(shapes_differ(op, "offsets", "vector"))
    return found


def fragment_access(op: Any) -> Findings:
    """One index per view axis."""
    view, _ = _sides(op)
    found = [] if view is ERROR else _origin(op, view, ())
    if "keys" in op.spec.attribute_index:
        found += auxiliary(op)
    return found


def auxiliary(op: Any) -> Findings:
    """Auxiliary operands have known names; in a fragment they need a schema."""
    keys = op.keys or ()
    allowed = AUX_KEYS | ({"schema"} if "role" in op.spec.attribute_index else set())
    found = [
        Diagnostic(
            "ENCODING/015",
            f"unknown auxiliary operand '{key}'",
            op.loc,
            {"op_name": op.name, "key_name": key},
            hint=did_you_mean(key, allowed),
        )
        for key in keys
        if key not in allowed
    ]
    if "role" in op.spec.attribute_index and keys and "schema" not in keys and not found:
        found.append(
            Diagnostic(
                "ENCODING/016",
                "auxiliary operands of a fragment need a 'schema'",
                op.loc,
                {"op_name": op.name, "key_name": "schema"},
            )
        )
    return found
