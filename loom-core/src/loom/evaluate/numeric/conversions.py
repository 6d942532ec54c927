"""Conversions between integer and float formats, each with a single rounding."""

from __future__ import annotations

import numpy as np

from loom.evaluate.numeric import floats
from loom.evaluate.numeric.formats import (
    F64,
    Array,
    Kind,
    ScalarFormat,
    from_bits,
    signed,
    to_bits,
    unsigned,
    wrapped,
)
from loom.evaluate.numeric.operation import NumericOp, ResultRule, table
from loom.evaluate.numeric.outcome import Call, FaultKind


def integers_to_float(format: ScalarFormat, integers: Array) -> Array:
    """Store integers of any NumPy integer dtype as floats, rounded once to nearest even."""
    if format is F64:
        return integers.astype(np.float64)
    if integers.dtype.itemsize < 8:
        return floats.from_f64(format, integers.astype(np.float64))
    # A 64-bit integer may not fit 53 bits. Dropping 11 bits and keeping their disjunction as the last bit is
    # rounding to odd, after which the rounding to a format of at most 24 bits is the only one that counts.
    negative = integers < 0
    patterns = integers.view(np.uint64)
    magnitude = np.where(negative, np.negative(patterns), patterns)
    large = magnitude >= np.uint64(1 << 53)
    sticky = (magnitude & np.uint64(0x7FF) != 0).astype(np.uint64)
    kept = np.where(large, (magnitude >> np.uint64(11)) | sticky, magnitude).astype(np.float64)
    scaled = np.where(large, kept * np.float64(1 << 11), kept)
    return floats.from_f64(format, np.where(negative, -scaled, scaled))


def _sitofp(call: Call, a: Array) -> Array:
    return integers_to_float(call.result, signed(call.format, a))


def _uitofp(call: Call, a: Array) -> Array:
    return integers_to_float(call.result, unsigned(call.format, a))


def _truncate(call: Call, a: Array, minimum: int, end: int) -> Array:
    """Values rounded toward zero within [minimum, end), as float64; reports the others and makes them 0."""
    whole = np.trunc(floats.to_f64(call.format, a))
    # Both bounds are powers of two or zero, hence exact; NaN fails both comparisons.
    fits = (whole >= np.float64(minimum)) & (whole < np.float64(end))
    call.report(FaultKind.FLOAT_TO_INTEGER, ~fits)
    return np.where(fits, whole, 0.0)


def _fptosi(call: Call, a: Array) -> Array:
    whole = _truncate(call, a, call.result.minimum, call.result.maximum + 1)
    return wrapped(call.result, whole.astype(np.int64))


def _fptoui(call: Call, a: Array) -> Array:
    whole = _truncate(call, a, 0, call.result.unsigned_maximum + 1)
    return wrapped(call.result, whole.astype(np.uint64))


def _wider(call: Call) -> None:
    if call.result.bits <= call.format.bits:
        raise TypeError(f"{call.result.name} is not wider than {call.format.name}")


def _narrower(call: Call) -> None:
    if call.result.bits >= call.format.bits:
        raise TypeError(f"{call.result.name} is not narrower than {call.format.name}")


def _extf(call: Call, a: Array) -> Array:
    _wider(call)
    return floats.from_f64(call.result, floats.to_f64(call.format, a))


def _fptrunc(call: Call, a: Array) -> Array:
    _narrower(call)
    return floats.from_f64(call.result, floats.to_f64(call.format, a))


def _extsi(call: Call, a: Array) -> Array:
    _wider(call)
    return wrapped(call.result, signed(call.format, a))


def _extui(call: Call, a: Array) -> Array:
    _wider(call)
    return wrapped(call.result, unsigned(call.format, a))


def _trunci(call: Call, a: Array) -> Array:
    _narrower(call)
    return wrapped(call.result, a)


def _bitcast(call: Call, a: Array) -> Array:
    if call.result.bits != call.format.bits:
        raise TypeError(f"{call.format.name} and {call.result.name} differ in width")
    return from_bits(call.result, to_bits(call.format, a))


_INTEGER = (Kind.INTEGER,)
_FLOAT = (Kind.FLOAT,)
_DECLARED = ResultRule.DECLARED

OPERATIONS = table(
    NumericOp("sitofp", _INTEGER, _sitofp, _DECLARED),
    NumericOp("uitofp", _INTEGER, _uitofp, _DECLARED),
    NumericOp("fptosi", _FLOAT, _fptosi, _DECLARED),
    NumericOp("fptoui", _FLOAT, _fptoui, _DECLARED),
    NumericOp("extf", _FLOAT, _extf, _DECLARED),
    NumericOp("fptrunc", _FLOAT, _fptrunc, _DECLARED),
    NumericOp("extsi", _INTEGER, _extsi, _DECLARED),
    NumericOp("extui", _INTEGER, _extui, _DECLARED),
    NumericOp("trunci", _INTEGER, _trunci, _DECLARED),
    # Elementwise, between types of one width; the vector form that regroups lanes is `lanes.bitcast`.
    NumericOp("bitcast", (Kind.PAYLOAD,), _bitcast, _DECLARED),
)
