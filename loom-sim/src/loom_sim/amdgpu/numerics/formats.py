"""Bit-level helpers shared by the float widths: NaN selection, denormal flushing, exact sums."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from loom_sim.amdgpu.numerics.mode import MINUS_INFINITY, NEAREST_EVEN, PLUS_INFINITY, TOWARD_ZERO

Array = npt.NDArray[Any]


@attrs.frozen(slots=True)
class FloatFormat:
    """One IEEE binary format: NumPy types and the constants arithmetic needs."""

    dtype: Any
    bits: Any
    sign: int
    exponent: int
    quiet: int
    default_nan: int
    exponent_bias: int
    mantissa_bits: int


F16 = FloatFormat(np.dtype(np.float16), np.dtype(np.uint16), 0x8000, 0x7C00, 0x0200, 0x7E00, 15, 10)
F32 = FloatFormat(np.dtype(np.float32), np.dtype(np.uint32), 1 << 31, 0x7F800000, 1 << 22, 0x7FC00000, 127, 23)
F64 = FloatFormat(np.dtype(np.float64), np.dtype(np.uint64), 1 << 63, 0x7FF << 52, 1 << 51, 0x7FF8 << 48, 1023, 52)


def flush(fmt: FloatFormat, x: Array) -> Array:
    """Replace denormals by zeros of the same sign."""
    bits = x.view(fmt.bits)
    tiny = (bits & fmt.bits.type(fmt.exponent)) == 0
    found: Array = np.where(tiny, bits & fmt.bits.type(fmt.sign), bits).view(fmt.dtype)
    return found


def has_nan(x: Array) -> bool:
    """True when any element is a NaN. `max` propagates NaN and is one vectorized pass."""
    m = x.max() if x.size else 0.0
    return bool(m != m)


def select_nan(fmt: FloatFormat, result: Array, *sources: Array) -> Array:
    """Give NaN results the bits the GPU gives them.

    The first source that is a NaN is returned with its quiet bit set; a NaN made by the operation itself is
    the positive default NaN (a CPU would make a negative one). `result` is returned unchanged when it has no NaN.
    """
    if not has_nan(result):
        return result
    bits = np.full(result.shape, fmt.default_nan, fmt.bits)
    for source in reversed(sources):
        bits = np.where(np.isnan(source), source.view(fmt.bits) | fmt.bits.type(fmt.quiet), bits)
    return np.where(np.isnan(result), bits, result.view(fmt.bits)).view(fmt.dtype)


def select_nan_signalling_first(fmt: FloatFormat, result: Array, a: Array, b: Array) -> Array:
    """NaN results of IEEE 754-2019 minimum and maximum: a signalling operand, quieted, comes before a quiet one
    (AMD "RDNA4 Instruction Set Architecture", V_MINIMUM_F32)."""
    if not has_nan(result):
        return result
    quiet = fmt.bits.type(fmt.quiet)
    found = select_nan(fmt, result, a, b)
    for source in (b, a):
        bits = source.view(fmt.bits)
        signalling = np.isnan(source) & ((bits & quiet) == 0)
        found = np.where(signalling, bits | quiet, found.view(fmt.bits)).view(fmt.dtype)
    return found


def signed_zero_sum(rounding: int, exact: Array, x: Array, y: Array) -> Array:
    """`exact`, the sum of two doubles, where rounding down makes a zero negative unless both terms are +0."""
    if rounding != MINUS_INFINITY:
        return exact
    return np.where((exact == 0) & (np.signbit(x) | np.signbit(y)), -0.0, exact)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Error-free sum (Knuth): the rounded sum and its exact error."""
    s = a + b
    bb = s - a
    return s, (a - (s - bb)) + (b - bb)


def to_odd(value: Array, error: Array) -> Array:
    """Round-to-odd of `value + error`, where `value` is the nearest double and `error` the exact rest.

    A value rounded to odd keeps the information "inexact" in its last bit, so that a later rounding to a
    format with at least two bits less is the correct single rounding (Boldo and Melquiond, "Emulation of a
    FMA and correctly rounded sums", IEEE TC 2008).
    """
    bits = value.view(np.int64)
    step = np.where((error > 0) == (value > 0), np.int64(1), np.int64(-1))
    inexact = (error != 0) & ((bits & 1) == 0) & np.isfinite(value)
    # A zero `value` with a non-zero rest cannot occur: the sum would have been exact.
    return np.where(inexact, bits + step, bits).view(np.float64)


def directed(narrow: Array, exact: Array, rounding: int) -> Array:
    """Turn `narrow`, the nearest value to `exact` (a double, possibly rounded to odd), into a directed rounding."""
    if rounding == NEAREST_EVEN:
        return narrow
    wide = narrow.astype(np.float64)
    kind = narrow.dtype.type
    up = wide < exact
    down = wide > exact
    if rounding == PLUS_INFINITY:
        return np.where(up, np.nextafter(narrow, kind(np.inf)), narrow)
    if rounding == MINUS_INFINITY:
        return np.where(down, np.nextafter(narrow, kind(-np.inf)), narrow)
    assert rounding == TOWARD_ZERO
    return np.where(np.where(exact > 0, down, up), np.nextafter(narrow, kind(0)), narrow)
