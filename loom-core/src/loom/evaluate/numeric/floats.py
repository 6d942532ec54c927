"""Stored floating-point values to and from NumPy's native precisions.

All formats up to 16 bits compute in float64 and round once. This is the correctly rounded result for the four
basic operations and the square root: with p bits of precision, an intermediate of at least 2p + 2 bits makes
the second rounding innocuous (S. Figueroa, "When is double rounding innocuous?", 1995), and float64 has 53 >=
2 * 11 + 2; its exponent range holds every intermediate of these formats, so that subnormal results round only
in the second step.

NaN: an operation that computes gives the canonical quiet NaN (sign clear, quiet bit only) whatever the
operands' payloads, so that results do not depend on the machine. Conversions between formats keep the sign
and the upper payload bits and set the quiet bit. Sign and selection operations keep bits untouched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from loom.evaluate.numeric import minifloat
from loom.evaluate.numeric.formats import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    UNSIGNED,
    Array,
    ScalarFormat,
    from_bits,
    to_bits,
)
from loom.evaluate.numeric.minifloat import MINIFLOATS, MiniFloat

#: The value types that are stored as bit patterns, and how to read them.
PATTERN_FORMATS: Mapping[ScalarFormat, MiniFloat] = {
    BF16: MINIFLOATS["bf16"],
    F8E4M3: MINIFLOATS["f8e4m3fn"],
    F8E5M2: MINIFLOATS["f8e5m2"],
}

#: Bits of the significand that are stored (without the hidden one).
MANTISSA_BITS: Mapping[ScalarFormat, int] = {F8E4M3: 3, F8E5M2: 2, F16: 10, BF16: 7, F32: 23, F64: 52}

_COMPUTE: Mapping[ScalarFormat, np.dtype[Any]] = {F32: np.dtype(np.float32)}
_FLOAT64 = np.dtype(np.float64)


def values(format: ScalarFormat, stored: Array) -> Array:
    """Stored values as exact native floats for comparing and testing (the narrowest dtype at hand)."""
    pattern = PATTERN_FORMATS.get(format)
    return stored if pattern is None else minifloat.decode(pattern, stored)


def to_f64(format: ScalarFormat, stored: Array) -> Array:
    """Stored values of any float format as `float64`; exact."""
    return values(format, stored).astype(np.float64, copy=False)


def to_f32(format: ScalarFormat, stored: Array) -> Array:
    """Stored values of any float format but f64 as `float32`; exact. Raises TypeError for f64."""
    if format is F64:
        raise TypeError("f64 values do not fit float32 exactly")
    return values(format, stored).astype(np.float32, copy=False)


def from_f64(format: ScalarFormat, exact: Array) -> Array:
    """Store `float64` values, rounded once to nearest even.

    Overflow gives infinity, but in `f8E4M3` finite overflow and infinities saturate to +-448.
    """
    exact = np.asarray(exact, dtype=np.float64)
    pattern = PATTERN_FORMATS.get(format)
    if pattern is not None:
        return minifloat.encode(pattern, exact).astype(format.dtype)
    return _with_nan_payloads(format, exact, np.asarray(exact.astype(format.dtype)))


def from_f32(format: ScalarFormat, exact: Array) -> Array:
    """Store `float32` values, rounded once to nearest even; see `from_f64`."""
    return from_f64(format, np.asarray(exact, dtype=np.float32).astype(np.float64))


def _with_nan_payloads(format: ScalarFormat, exact: Array, stored: Array) -> Array:
    """The cast values with NaNs built by rule, because casts differ in what they make of payloads."""
    nan = np.isnan(exact)
    if not np.any(nan):
        return stored
    mantissa_bits = MANTISSA_BITS[format]
    source = to_bits(F64, exact)
    payload = (source & np.uint64((1 << 52) - 1)) >> np.uint64(52 - mantissa_bits)
    above_mantissa = ((1 << (format.bits - 1)) - 1) >> mantissa_bits << mantissa_bits
    pattern = payload | np.uint64(above_mantissa | 1 << (mantissa_bits - 1))
    pattern |= (source >> np.uint64(63)) << np.uint64(format.bits - 1)
    return np.where(nan, from_bits(format, pattern), stored)


def computing(format: ScalarFormat, stored: Array) -> Array:
    """Stored values in the precision that computes the format's arithmetic (f32 and f64 in their own)."""
    return values(format, stored).astype(_COMPUTE.get(format, _FLOAT64), copy=False)


def computed(format: ScalarFormat, results: Array) -> Array:
    """Store what was computed from `computing` operands: NaNs become canonical, then one rounding."""
    results = np.asarray(results)
    nan = np.isnan(results)
    if np.any(nan):
        results = np.where(nan, results.dtype.type(np.nan), results)
    return results if results.dtype == format.dtype else from_f64(format, results)


def sign_bit(format: ScalarFormat) -> Any:
    """The pattern of the sign bit as a NumPy scalar of the storage's unsigned dtype."""
    return UNSIGNED[format.dtype.itemsize].type(1 << (format.bits - 1))
