"""f64 arithmetic: add, multiply, fused multiply-add, minimum and maximum."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from loom_sim.amdgpu.numerics.formats import (
    F64,
    Array,
    flush,
    has_nan,
    select_nan,
    select_nan_signalling_first,
    to_odd,
    two_sum,
)
from loom_sim.amdgpu.numerics.mode import MINUS_INFINITY, PLUS_INFINITY, TOWARD_ZERO, FloatMode

_U64 = np.uint64
_SPLIT = np.float64(134217729.0)


def _flushed(mode: FloatMode, *values: Array) -> tuple[Array, ...]:
    return values if mode.denormal64 & 1 else tuple(flush(F64, v) for v in values)


def _out(mode: FloatMode, r: Array) -> Array:
    return r if mode.denormal64 & 2 else flush(F64, r)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Error-free product (Dekker, Veltkamp splitting); exact while no part over- or underflows."""
    p = a * b
    t = a * _SPLIT
    ah = t - (t - a)
    al = a - ah
    t = b * _SPLIT
    bh = t - (t - b)
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def round_fraction(value: Fraction, rounding: int = 0) -> float:
    """Round an exact rational to f64 in the given rounding mode (never a NaN; overflow as IEEE 754 says)."""
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    if rounding == 0 or (math.isfinite(nearest) and Fraction(nearest) == value):
        return nearest
    above = nearest > value
    if rounding == PLUS_INFINITY:
        return nearest if above else math.nextafter(nearest, math.inf)
    if rounding == MINUS_INFINITY:
        return math.nextafter(nearest, -math.inf) if above else nearest
    assert rounding == TOWARD_ZERO
    away = above if value > 0 else not above
    return math.nextafter(nearest, 0.0) if away else nearest


def exact_fma(rounding: int, a: Array, b: Array, c: Array, scale: int = 0) -> Array:
    """`(a * b + c) * 2**scale` with one rounding, for flat arrays of finite operands, through exact rationals."""
    factor = Fraction(2) ** scale
    out = np.empty(a.shape, np.float64)
    for i, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
        total = (Fraction(x) * Fraction(y) + Fraction(z)) * factor
        if total == 0:
            product_sign = math.copysign(1.0, x) * math.copysign(1.0, y)
            same = product_sign == math.copysign(1.0, z) and (x * y == 0 or z == 0) and (x == 0 or y == 0)
            negative = product_sign < 0 if same else rounding == MINUS_INFINITY
            out[i] = -0.0 if negative else 0.0
        else:
            out[i] = round_fraction(total, rounding)
            if out[i] == 0 and total < 0:
                out[i] = -0.0
    return out


def _exponent(x: Array) -> Array:
    return (x.view(_U64) >> _U64(52) & _U64(0x7FF)).astype(np.int64)


def fma(mode: FloatMode, a: Array, b: Array, c: Array) -> Array:
    """`a * b + c` with one rounding, by error-free transformations.

    Boldo and Melquiond: with (uh, ul) = a*b exactly, (th, tl) = c + ul, (vh, vl) = uh + th, the result is
    RN(vh + RO(tl + vl)). Elements whose exponents could over- or underflow on the way are computed with rationals.
    """
    a, b, c = _flushed(mode, a, b, c)
    a, b, c = np.broadcast_arrays(a, b, c)
    uh, ul = _two_product(a, b)
    th, tl = two_sum(c, ul)
    vh, vl = two_sum(uh, th)
    z, e = two_sum(tl, vl)
    r = vh + to_odd(z, e)
    ea, eb, ec = _exponent(a), _exponent(b), _exponent(c)
    finite = (ea < 0x7FF) & (eb < 0x7FF) & (ec < 0x7FF)
    # Without rounding twice: an infinite c absorbs a product that overflows, a zero c leaves the sign of one that
    # vanishes.
    direct = np.where((ec == 0x7FF) & (ea < 0x7FF) & (eb < 0x7FF), c, a * b + c)
    direct = np.where((c == 0) & (a != 0) & (b != 0), a * b, direct)
    if mode.round64:
        slow = finite & (a != 0) & (b != 0)
        if mode.round64 == MINUS_INFINITY:  # the sign of a zero depends on the direction too
            slow |= finite & (c == 0)
        r = np.where(slow, r, direct)
    else:
        product = ea + eb - 1023  # biased exponent of the product, one too low at most
        zero = (a == 0) | (b == 0) | (c == 0)
        # Nothing to round but the product or the sum: an operand is zero or special, or the product overflows.
        simple = ~finite | zero | (product > 0x7FF + 8)
        absorbed = ~simple & (product < 60) & (ec > 200)  # a product far below the last bit of c
        safe = (product > 120) & (product < 2030) & (np.maximum(ea, eb) < 2010) & (ec < 2030)
        safe &= _exponent(r) > 120
        slow = ~(simple | absorbed | safe)
        r = np.where(simple, direct, np.where(absorbed, c, r))
    if slow.any():
        r[slow] = exact_fma(mode.round64, a[slow], b[slow], c[slow])
    return select_nan(F64, _out(mode, r), a, b, c)


def add(mode: FloatMode, a: Array, b: Array) -> Array:
    """`a + b` with one rounding."""
    a, b = _flushed(mode, a, b)
    if mode.round64:
        return fma(mode, np.ones((1, 1)), a, b)
    return select_nan(F64, _out(mode, a + b), a, b)


def mul(mode: FloatMode, a: Array, b: Array) -> Array:
    """`a * b` with one rounding."""
    a, b = _flushed(mode, a, b)
    r = a * b
    if mode.round64:
        x, y = np.broadcast_arrays(a, b)
        finite = np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)
        if finite.any():
            r = np.array(r)
            r[finite] = exact_fma(mode.round64, x[finite], y[finite], np.copysign(0.0, r[finite]))
    return select_nan(F64, _out(mode, r), a, b)


def _quiet_other(mode: FloatMode, r: Array, a: Array, b: Array) -> Array:
    if not has_nan(r):
        return r
    ab, bb = np.broadcast_arrays(a.view(_U64), b.view(_U64))
    na, nb = np.isnan(a), np.isnan(b)
    quiet = _U64(F64.quiet)
    bits = np.where(na, np.where(nb, ab | quiet, bb), np.where(nb, ab, r.view(_U64)))
    if mode.ieee:
        bits = np.where(nb & ((bb & quiet) == 0), bb | quiet, bits)
        bits = np.where(na & ((ab & quiet) == 0), ab | quiet, bits)
    return bits.view(np.float64)


def maximum_number(mode: FloatMode, a: Array, b: Array) -> Array:
    """Larger operand, +0 above -0, a NaN loses against a number."""
    a, b = _flushed(mode, a, b)
    r = np.maximum(a, b)
    r = np.where((a == 0) & (b == 0), (a.view(_U64) & b.view(_U64)).view(np.float64), r)
    return _quiet_other(mode, r, a, b)


def minimum_number(mode: FloatMode, a: Array, b: Array) -> Array:
    """Smaller operand, -0 below +0, a NaN loses against a number."""
    a, b = _flushed(mode, a, b)
    r = np.minimum(a, b)
    r = np.where((a == 0) & (b == 0), (a.view(_U64) | b.view(_U64)).view(np.float64), r)
    return _quiet_other(mode, r, a, b)


def maximum(mode: FloatMode, a: Array, b: Array) -> Array:
    """IEEE 754-2019 maximum: a NaN operand wins."""
    a, b = _flushed(mode, a, b)
    r = np.where((a == 0) & (b == 0), (a.view(_U64) & b.view(_U64)).view(np.float64), np.maximum(a, b))
    return select_nan_signalling_first(F64, r, a, b)


def minimum(mode: FloatMode, a: Array, b: Array) -> Array:
    """IEEE 754-2019 minimum: a NaN operand wins."""
    a, b = _flushed(mode, a, b)
    r = np.where((a == 0) & (b == 0), (a.view(_U64) | b.view(_U64)).view(np.float64), np.minimum(a, b))
    return select_nan_signalling_first(F64, r, a, b)


def clamp(mode: FloatMode, x: Array) -> Array:
    """Output clamp to [0, 1]; a NaN becomes +0 under DX10 clamping."""
    r = np.where(x > 0, np.minimum(x, 1.0), 0.0)
    return r if mode.dx10_clamp else np.where(np.isnan(x), x, r)
