"""The elements that the vector of a fragment stands for: as they are, repacked, or encoded.

A fragment that says ``using {schema = ...}`` holds a payload, whose values are those of the schema. Repacking changes
how the bits of a work-item are cut, not what they mean, so it is undone before anything is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import attrs
import numpy as np

from loom.evaluate import schemas
from loom.evaluate.faults import unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.numeric import floats, lanes
from loom.evaluate.numeric.formats import FORMATS, Array, Kind, ScalarFormat, wrapped
from loom.evaluate.shapes import extents_of, in_lane_order, with_lane_axis, without_lane_axis
from loom.evaluate.values import RuntimeValue, format_of
from loom.facts.schemas import LINEAR, UndefinedSchema
from loom.ir.attributes import Encoding
from loom.ir.core import Op, Value

#: Element types of the tiles that hold codes of a format.
_PLACED: Final[Mapping[str, str]] = {
    **{name: name for name in ("f16", "bf16", "f32", "f64", "i8", "i16", "i32")},
    "f8e4m3fn": "f8E4M3",
    "f8e5m2": "f8E5M2",
    "bf8": "f8E5M2",
}


@attrs.frozen(eq=False)
class Logical:
    """Elements ``[n, length]`` in storage of a format; ``placed_as`` is the format that tiles are found by."""

    elements: Array
    format: ScalarFormat
    placed_as: ScalarFormat


def recut(frame: Frame, op: Op, value: Array, source: Any, target: Any) -> Array:
    """The bits of a vector end to end, as a vector of another type. Raises a diagnostic for another number of bits."""
    extents = extents_of(frame, op, target)
    from_format, to_format = format_of(source), format_of(target)
    flat = in_lane_order(with_lane_axis(value, source.rank), source.rank)
    if flat.shape[-1] * from_format.bits != math.prod(extents) * to_format.bits:
        raise unsupported(op, f"repacking {source} as {target}")
    cut = flat if from_format is to_format else lanes.bitcast(from_format, to_format, flat)
    return without_lane_axis(cut.reshape(cut.shape[0], *extents))


def logical_elements(frame: Frame, op: Op, value: Value, array: Array, accumulator: ScalarFormat) -> Logical:
    """The elements of a fragment in lane order.

    Encoded ones are rounded once to the format in which their products accumulate. Raises a located diagnostic for
    schemas without a rule.
    """
    maker: Any = value.defining_op
    if maker is not None and maker.name == "vector.fragment.repack":
        original = recut(frame, op, array, value.type, maker.data.type)
        return logical_elements(frame, op, maker.data, original, accumulator)
    flat = in_lane_order(with_lane_axis(array, value.type.rank), value.type.rank)  # type: ignore[attr-defined]
    format = format_of(value.type)
    if maker is None or maker.name != "vector.fragment" or not maker.aux:
        return Logical(flat, format, format)
    given = dict(zip(maker.keys, maker.aux, strict=True))
    encoding = frame.env[given.pop("schema")]
    if not isinstance(encoding, Encoding):
        raise unsupported(op, "a schema that is not known")
    try:
        return _decoded(frame, op, maker, encoding, format, flat, given, accumulator)
    except UndefinedSchema as reason:
        raise unsupported(op, f"'{op.name}' has no rule for {reason}") from None


def _decoded(
    frame: Frame,
    op: Op,
    maker: Any,
    encoding: Encoding,
    carrier: ScalarFormat,
    payload: Array,
    given: Mapping[str, Value],
    accumulator: ScalarFormat,
) -> Logical:
    schema = schemas.schema_of(encoding)
    count = schemas.element_count(schema, carrier, payload.shape[-1])
    rows, columns = (frame.uniform(op, frame.extent(v), "the shape of a fragment") for v in (maker.rows, maker.columns))
    blocks = 1 if maker.blocks is None else frame.uniform(op, frame.extent(maker.blocks), "the shape of a fragment")
    alone = blocks * rows * columns == count
    if not alone and schema.topology not in LINEAR:
        raise UndefinedSchema(f"the scale topology '{schema.topology}' in a part of a matrix")
    auxiliaries = {name: _auxiliary(frame, value) for name, value in given.items()}
    extents = (blocks * rows, columns) if alone else (count,)
    values, undefined = schemas.decode(schema, carrier, payload, extents, auxiliaries)
    if undefined.any():
        raise UndefinedSchema("codes outside of the code book")
    if accumulator.kind is Kind.FLOAT:
        elements = floats.from_f64(accumulator, values)
    elif schema.scales or (np.trunc(values) != values).any():
        raise UndefinedSchema(f"scaled or fractional values in products of {accumulator.name}")
    else:
        elements = wrapped(accumulator, values.astype(np.int64))
    placed = _PLACED.get(schema.element_format)
    if placed is None and not alone:
        raise UndefinedSchema(f"values of {schema.element_format} in a part of a matrix")
    return Logical(elements, accumulator, FORMATS[placed] if placed is not None else accumulator)


def _auxiliary(frame: Frame, value: Value) -> tuple[ScalarFormat, Array]:
    array: RuntimeValue = frame.env[value]
    rank = value.type.rank  # type: ignore[attr-defined]  # a vector by the verifier
    return format_of(value.type), in_lane_order(with_lane_axis(array, rank), rank)
