"""Floating-point arithmetic, signs, minimum and maximum, comparisons, tests and rounding to integers.

IEEE 754-2019, round to nearest even, subnormals kept, one rounding for each operation. Fast-math flags are
permissions; the strict result is always a permitted one, so they change nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from loom.evaluate.numeric import floats
from loom.evaluate.numeric.fma import fma
from loom.evaluate.numeric.formats import Array, Kind, from_bits, to_bits
from loom.evaluate.numeric.operation import Function, NumericOp, ResultRule, table
from loom.evaluate.numeric.outcome import Call

Ufunc = Callable[..., Any]


def _computed(function: Ufunc) -> Function:
    """Lift a NumPy function on native floats to stored values: compute, then round once."""

    def apply(call: Call, *operands: Array, flags: int = 0) -> Array:
        return floats.computed(call.format, function(*(floats.computing(call.format, operand) for operand in operands)))

    return apply


def _fmaf(call: Call, a: Array, b: Array, c: Array, flags: int = 0) -> Array:
    return fma(call.format, a, b, c)


def _negf(call: Call, a: Array, flags: int = 0) -> Array:
    return from_bits(call.format, to_bits(call.format, a) ^ floats.sign_bit(call.format))


def _absf(call: Call, a: Array, flags: int = 0) -> Array:
    return from_bits(call.format, to_bits(call.format, a) & ~floats.sign_bit(call.format))


def _copysignf(call: Call, a: Array, b: Array) -> Array:
    sign = floats.sign_bit(call.format)
    return from_bits(call.format, (to_bits(call.format, a) & ~sign) | (to_bits(call.format, b) & sign))


def _sign(x: Array) -> Any:
    # Zero for both zeros and for NaN, as the comparisons are false there.
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def _round_away(x: Array) -> Any:
    """Nearest integer, halves away from zero. x - trunc(x) is exact, so no half is missed."""
    whole = np.trunc(x)
    up = np.abs(x - whole) >= 0.5
    return np.copysign(np.where(up, whole + np.copysign(x.dtype.type(1), x), whole), x)


def extremum(call: Call, a: Array, b: Array, smaller: bool, number_wins: bool) -> Array:
    """Minimum or maximum of stored values with -0 < +0.

    With `number_wins` a single NaN operand is ignored; otherwise any NaN gives NaN. A NaN result is
    canonical; every other result has the bits of an operand.
    """
    format = call.format
    x, y = floats.values(format, a), floats.values(format, b)
    bits_a, bits_b = to_bits(format, a), to_bits(format, b)
    a_first = x < y if smaller else x > y
    # Equal operands differ at most in the sign of zero: the union of the signs is the smaller zero.
    tied = bits_a | bits_b if smaller else bits_a & bits_b
    chosen = np.where(x == y, tied, np.where(a_first, bits_a, bits_b))
    nan_a, nan_b = np.isnan(x), np.isnan(y)
    nan = nan_a & nan_b if number_wins else nan_a | nan_b
    if np.any(nan_a | nan_b):
        chosen = np.where(nan_a, bits_b, np.where(nan_b, bits_a, chosen))
        canonical = to_bits(format, np.atleast_1d(floats.from_f64(format, np.asarray(np.nan))))[0]
        chosen = np.where(nan, canonical, chosen)
    return from_bits(format, chosen)


def _extremum(smaller: bool, number_wins: bool) -> Function:
    def apply(call: Call, a: Array, b: Array, flags: int = 0) -> Array:
        return extremum(call, a, b, smaller, number_wins)

    return apply


def _clamp_ordered(call: Call, value: Array, lower: Array, upper: Array) -> Array:
    format = call.format
    raised = np.where(floats.values(format, value) < floats.values(format, lower), lower, value)
    return np.where(floats.values(format, raised) > floats.values(format, upper), upper, raised)


def _clamp_by(number_wins: bool) -> Function:
    def apply(call: Call, value: Array, lower: Array, upper: Array) -> Array:
        raised = extremum(call, value, lower, smaller=False, number_wins=number_wins)
        return extremum(call, raised, upper, smaller=True, number_wins=number_wins)

    return apply


CLAMP_MODES: Mapping[str, Function] = {
    "ordered": _clamp_ordered,
    "number": _clamp_by(number_wins=True),
    "ieee": _clamp_by(number_wins=False),
}


def _clampf(call: Call, value: Array, lower: Array, upper: Array, mode: str, flags: int = 0) -> Array:
    return CLAMP_MODES[mode](call, value, lower, upper)


def _unordered(x: Array, y: Array) -> Any:
    return np.isnan(x) | np.isnan(y)


def _or_unordered(comparison: Ufunc) -> Ufunc:
    return lambda x, y: comparison(x, y) | _unordered(x, y)


#: Predicates of `cmpf` on native floats; NumPy's comparisons are false on NaN except `not_equal`.
FLOAT_PREDICATES: Mapping[str, Ufunc] = {
    "oeq": np.equal,
    "ogt": np.greater,
    "oge": np.greater_equal,
    "olt": np.less,
    "ole": np.less_equal,
    "one": lambda x, y: np.not_equal(x, y) & ~_unordered(x, y),
    "ord": lambda x, y: ~_unordered(x, y),
    "ueq": _or_unordered(np.equal),
    "ugt": _or_unordered(np.greater),
    "uge": _or_unordered(np.greater_equal),
    "ult": _or_unordered(np.less),
    "ule": _or_unordered(np.less_equal),
    "une": np.not_equal,
    "uno": _unordered,
}


def _cmpf(call: Call, a: Array, b: Array, predicate: str, flags: int = 0) -> Array:
    comparison = FLOAT_PREDICATES[predicate]
    return np.asarray(comparison(floats.values(call.format, a), floats.values(call.format, b)))


def _test(question: Ufunc) -> Function:
    def apply(call: Call, a: Array) -> Array:
        return np.asarray(question(floats.values(call.format, a)))

    return apply


_UNARY = (Kind.FLOAT,)
_BINARY = (Kind.FLOAT, Kind.FLOAT)
_TERNARY = (Kind.FLOAT, Kind.FLOAT, Kind.FLOAT)
_FLAGS = ("flags",)

OPERATIONS = table(
    NumericOp("addf", _BINARY, _computed(np.add), optional=_FLAGS),
    NumericOp("subf", _BINARY, _computed(np.subtract), optional=_FLAGS),
    NumericOp("mulf", _BINARY, _computed(np.multiply), optional=_FLAGS),
    NumericOp("divf", _BINARY, _computed(np.divide), optional=_FLAGS),
    NumericOp("remf", _BINARY, _computed(np.fmod), optional=_FLAGS),
    NumericOp("fmaf", _TERNARY, _fmaf, optional=_FLAGS),
    NumericOp("negf", _UNARY, _negf, optional=_FLAGS),
    NumericOp("absf", _UNARY, _absf, optional=_FLAGS),
    NumericOp("copysignf", _BINARY, _copysignf),
    NumericOp("signf", _UNARY, _computed(_sign)),
    NumericOp("minimumf", _BINARY, _extremum(smaller=True, number_wins=False), optional=_FLAGS),
    NumericOp("maximumf", _BINARY, _extremum(smaller=False, number_wins=False), optional=_FLAGS),
    NumericOp("minnumf", _BINARY, _extremum(smaller=True, number_wins=True), optional=_FLAGS),
    NumericOp("maxnumf", _BINARY, _extremum(smaller=False, number_wins=True), optional=_FLAGS),
    NumericOp("clampf", _TERNARY, _clampf, required=("mode",), optional=_FLAGS),
    NumericOp("sqrtf", _UNARY, _computed(np.sqrt), optional=_FLAGS),
    NumericOp("ceilf", _UNARY, _computed(np.ceil), optional=_FLAGS),
    NumericOp("floorf", _UNARY, _computed(np.floor), optional=_FLAGS),
    NumericOp("truncf", _UNARY, _computed(np.trunc), optional=_FLAGS),
    NumericOp("roundf", _UNARY, _computed(_round_away), optional=_FLAGS),
    NumericOp("roundevenf", _UNARY, _computed(np.rint), optional=_FLAGS),
    NumericOp("cmpf", _BINARY, _cmpf, ResultRule.BOOLEAN, required=("predicate",), optional=_FLAGS),
    NumericOp("isnanf", _UNARY, _test(np.isnan), ResultRule.BOOLEAN),
    NumericOp("isinff", _UNARY, _test(np.isinf), ResultRule.BOOLEAN),
    NumericOp("isfinitef", _UNARY, _test(np.isfinite), ResultRule.BOOLEAN),
)
