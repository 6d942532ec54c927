"""Logical values of encoded payloads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from loom.evaluate import schemas
from loom.evaluate.faults import FaultCode, unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.numeric import floats
from loom.evaluate.numeric.formats import Array, Kind, ScalarFormat, wrapped
from loom.evaluate.rules import evaluates
from loom.evaluate.shapes import extents_of, in_lane_order, with_lane_axis, without_lane_axis
from loom.evaluate.values import RuntimeValue, format_of
from loom.facts.schemas import Schema, UndefinedSchema
from loom.ir.attributes import Encoding


@contextmanager
def _schema_of(op: Any, encoding: RuntimeValue) -> Iterator[Schema]:
    """The schema; what it does not define inside the block becomes a located diagnostic."""
    if not isinstance(encoding, Encoding):
        raise unsupported(op, "a schema that is not known")
    try:
        yield schemas.schema_of(encoding)
    except UndefinedSchema as reason:
        raise unsupported(op, f"'{op.name}' has no rule for {reason}") from None


def _flat(array: Array, type_: Any) -> Array:
    """The lanes of a vector as ``[n, lanes]``."""
    return in_lane_order(with_lane_axis(array, type_.rank), type_.rank)


def _auxiliaries(op: Any, arrays: Sequence[RuntimeValue]) -> dict[str, tuple[ScalarFormat, Array]]:
    return {
        key: (format_of(value.type), _flat(array, value.type))
        for key, value, array in zip(op.keys or (), op.aux, arrays, strict=True)
    }


def _require(frame: Frame, op: Any, undefined: Array, reason: str) -> None:
    lane = frame.offender(without_lane_axis(undefined), 1)
    if lane is not None:
        raise frame.fault(FaultCode.UNDEFINED_RESULT, op, f"'{op.name}': {reason}", lane, reason=reason)


@evaluates("vector.decode")
def decode(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Computed in f64 and rounded once."""
    extents = extents_of(frame, op, op.results[0].type)
    format = format_of(op.results[0].type)
    with _schema_of(op, operands[1]) as schema:
        payload = _flat(operands[0], op.input.type)
        values, undefined = schemas.decode(
            schema, format_of(op.input.type), payload, extents, _auxiliaries(op, operands[2:])
        )
    _require(frame, op, undefined, "a code outside of the code book")
    if format.kind is Kind.FLOAT:
        stored = floats.from_f64(format, values)
    elif schema.scales or (np.trunc(values) != values).any():
        raise unsupported(op, f"decoding scaled or fractional values as {format.name}")
    else:
        stored = wrapped(format, values.astype(np.int64))
    return (without_lane_axis(stored.reshape(stored.shape[0], *extents)),)


@evaluates("vector.encode")
def encode(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Computed in f64 and rounded once to a code; a value without one is a fault."""
    source, target = op.input.type, op.results[0].type
    format = format_of(source)
    flat = _flat(operands[0], source)
    values = floats.to_f64(format, flat) if format.kind is Kind.FLOAT else flat.astype(np.float64)
    extents, lanes = extents_of(frame, op, source), extents_of(frame, op, target)
    with _schema_of(op, operands[1]) as schema:
        stored, undefined = schemas.encode(
            schema, format_of(target), math.prod(lanes), values, extents, _auxiliaries(op, operands[2:])
        )
    _require(frame, op, undefined, f"a value that is none of {schema.element_format}")
    return (without_lane_axis(stored.reshape(stored.shape[0], *lanes)),)
