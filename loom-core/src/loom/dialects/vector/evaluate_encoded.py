"""Logical values of encoded payloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loom.evaluate import schemas
from loom.evaluate.faults import unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.numeric import floats
from loom.evaluate.numeric.formats import Kind, wrapped
from loom.evaluate.rules import evaluates
from loom.evaluate.shapes import extents_of, in_lane_order, with_lane_axis, without_lane_axis
from loom.evaluate.values import RuntimeValue, format_of
from loom.ir.attributes import Encoding


@evaluates("vector.decode")
def decode(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Computed in f64 and rounded once."""
    encoding = operands[1]
    if not isinstance(encoding, Encoding):
        raise unsupported(op, "a schema that is not known")
    given = {}
    for key, value, array in zip(op.keys or (), op.aux, operands[2:], strict=True):
        rank = value.type.rank
        given[key] = (format_of(value.type), in_lane_order(with_lane_axis(array, rank), rank))
    rank = op.input.type.rank
    payload = in_lane_order(with_lane_axis(operands[0], rank), rank)
    extents = extents_of(frame, op, op.results[0].type)
    format = format_of(op.results[0].type)
    try:
        schema = schemas.schema_of(encoding)
        values = schemas.decode(schema, format_of(op.input.type), payload, extents, given)
    except schemas.UndefinedSchema as reason:
        raise unsupported(op, f"'vector.decode' has no rule for {reason}") from None
    if format.kind is Kind.FLOAT:
        stored = floats.from_f64(format, values)
    elif schema.scales or (np.trunc(values) != values).any():
        raise unsupported(op, f"decoding scaled or fractional values as {format.name}")
    else:
        stored = wrapped(format, values.astype(np.int64))
    return (without_lane_axis(stored.reshape(stored.shape[0], *extents)),)
