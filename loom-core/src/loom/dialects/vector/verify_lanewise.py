"""Checks of lane-wise operations, casts, bit fields and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loom.dialects.scf.verify import out_of_contract
from loom.dialects.vector.checks import (
    elements_differ,
    known,
    operand_error,
    result_error,
    same_dims,
    same_shape,
    shapes_differ,
)
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import ERROR, FLOATS, ScalarType, ShapedType

Findings = list[Diagnostic]


def select(op: Any) -> Findings:
    """The mask has the shape of the values."""
    a, b = op.condition.type, op.true_value.type
    return [] if not known(a, b) or same_dims(a, b) else [shapes_differ(op, "condition", "true_value")]


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
    if not same_dims(op.field.type, op.base.type):
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


def kind_fits(op: Any, element: ScalarType) -> Findings:
    """The combining kind suits the elements of the source, and so do its flags."""
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
    return kind_fits(op, element)


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
    return kind_fits(op, source.element)


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
    return [] if same_dims(op.lhs.type, op.acc.type) else [shapes_differ(op, "lhs", "acc")]
