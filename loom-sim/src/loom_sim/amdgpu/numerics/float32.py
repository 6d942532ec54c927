"""f32 arithmetic: add, multiply, fused multiply-add, minimum and maximum."""

from __future__ import annotations

import numpy as np

from loom_sim.amdgpu.numerics.formats import (
    F32,
    Array,
    directed,
    flush,
    has_nan,
    select_nan,
    select_nan_signalling_first,
    signed_zero_sum,
    to_odd,
    two_sum,
)
from loom_sim.amdgpu.numerics.mode import FloatMode

_U32 = np.uint32
_SIGN = np.uint32(0x80000000)
_EXPONENT = np.uint32(0x7F800000)
_LOW29 = np.uint64(0x1FFFFFFF)
_HALFWAY = np.uint64(0x10000000)


def flush_in(mode: FloatMode, x: Array) -> Array:
    """Apply the input side of the denormal mode."""
    return x if mode.denormal32 & 1 else flush(F32, x)


def flush_out(mode: FloatMode, x: Array) -> Array:
    """Apply the result side of the denormal mode."""
    return x if mode.denormal32 & 2 else flush(F32, x)


def add(mode: FloatMode, a: Array, b: Array) -> Array:
    """`a + b` with one rounding."""
    if mode.plain32:
        r = a + b
    else:
        a, b = flush_in(mode, a), flush_in(mode, b)
        if mode.round32:
            x, y = a.astype(np.float64), b.astype(np.float64)
            s, e = two_sum(x, y)
            odd = signed_zero_sum(mode.round32, to_odd(s, e), x, y)
            r = directed(odd.astype(np.float32), odd, mode.round32)
        else:
            r = a + b
        r = flush_out(mode, r)
    return select_nan(F32, r, a, b)


def mul(mode: FloatMode, a: Array, b: Array) -> Array:
    """`a * b` with one rounding."""
    if mode.plain32:
        r = a * b
    else:
        a, b = flush_in(mode, a), flush_in(mode, b)
        if mode.round32:
            exact = a.astype(np.float64) * b.astype(np.float64)
            r = directed(exact.astype(np.float32), exact, mode.round32)
        else:
            r = a * b
        r = flush_out(mode, r)
    return select_nan(F32, r, a, b)


def mul_zero_wins(mode: FloatMode, a: Array, b: Array) -> Array:
    """The DX9 product: zero times anything is +0."""
    return np.where((a == 0) | (b == 0), np.float32(0), mul(mode, a, b))


def fma_zero_wins(mode: FloatMode, a: Array, b: Array, c: Array) -> Array:
    """The DX9 fused multiply-add: `c` itself where a factor is zero."""
    unchanged = select_nan(F32, flush_out(mode, flush_in(mode, c)), c)
    return np.where((a == 0) | (b == 0), unchanged, fma(mode, a, b, c))


def fma(mode: FloatMode, a: Array, b: Array, c: Array) -> Array:
    """`a * b + c` with one rounding.

    The product of two f32 is exact in f64, the sum is rounded to f64. Rounding that again to f32 differs from
    the single rounding only if the f64 sum sits on a midpoint between two f32 (for normal results: its 29
    low bits are 0x10000000) or the result is denormal; exactly those elements are redone with a sum rounded to odd.
    """
    if not mode.plain32:
        a, b, c = flush_in(mode, a), flush_in(mode, b), flush_in(mode, c)
    product = np.multiply(a, b, dtype=np.float64)  # converts piece by piece: no arrays of converted operands
    s = np.add(product, c, dtype=np.float64)
    if mode.round32:
        addend = c.astype(np.float64)
        _, e = two_sum(product, addend)
        odd = signed_zero_sum(mode.round32, to_odd(s, e), product, addend)
        r = directed(odd.astype(np.float32), odd, mode.round32)
    else:
        r = s.astype(np.float32)
        suspect = (s.view(np.uint64) & _LOW29) == _HALFWAY
        suspect |= (r.view(_U32) & _EXPONENT) == 0
        if suspect.any():
            places = np.flatnonzero(suspect)
            p, q = (x if x.shape == r.shape else np.broadcast_to(x, r.shape) for x in (product, c))
            total, e = two_sum(p.reshape(-1)[places], q.reshape(-1)[places].astype(np.float64))
            r.reshape(-1)[places] = to_odd(total, e).astype(np.float32)
    if not mode.plain32:
        r = flush_out(mode, r)
    return select_nan(F32, r, a, b, c)


def _quiet_other(mode: FloatMode, r: Array, a: Array, b: Array) -> Array:
    """NaN rules of the number-preferring minimum and maximum: the other operand wins, two NaNs give the first.

    With IEEE mode a signalling NaN operand is returned quieted (AMD "RDNA3 Instruction Set Architecture", V_MIN_F32).
    """
    if not has_nan(r):
        return r
    ab, bb = np.broadcast_arrays(a.view(_U32), b.view(_U32))
    na, nb = np.isnan(a), np.isnan(b)
    quiet = _U32(F32.quiet)
    bits = np.where(na, np.where(nb, ab | quiet, bb), np.where(nb, ab, r.view(_U32)))
    if mode.ieee:
        bits = np.where(nb & ((bb & quiet) == 0), bb | quiet, bits)
        bits = np.where(na & ((ab & quiet) == 0), ab | quiet, bits)
    return bits.view(np.float32)


def maximum_number(mode: FloatMode, a: Array, b: Array) -> Array:
    """Larger operand, +0 above -0, a NaN loses against a number."""
    if not mode.denormal32 & 1:
        a, b = flush(F32, a), flush(F32, b)
    r = np.maximum(a, b)
    if (r == 0).any():
        r = np.where((a == 0) & (b == 0), (a.view(_U32) & b.view(_U32)).view(np.float32), r)
    return _quiet_other(mode, r, a, b)


def minimum_number(mode: FloatMode, a: Array, b: Array) -> Array:
    """Smaller operand, -0 below +0, a NaN loses against a number."""
    if not mode.denormal32 & 1:
        a, b = flush(F32, a), flush(F32, b)
    r = np.minimum(a, b)
    if (r == 0).any():
        r = np.where((a == 0) & (b == 0), (a.view(_U32) | b.view(_U32)).view(np.float32), r)
    return _quiet_other(mode, r, a, b)


def maximum(mode: FloatMode, a: Array, b: Array) -> Array:
    """IEEE 754-2019 maximum: a NaN operand wins."""
    a, b = flush_in(mode, a), flush_in(mode, b)
    r = np.maximum(a, b)
    r = np.where((a == 0) & (b == 0), (a.view(_U32) & b.view(_U32)).view(np.float32), r)
    return select_nan_signalling_first(F32, r, a, b)


def minimum(mode: FloatMode, a: Array, b: Array) -> Array:
    """IEEE 754-2019 minimum: a NaN operand wins."""
    a, b = flush_in(mode, a), flush_in(mode, b)
    r = np.minimum(a, b)
    r = np.where((a == 0) & (b == 0), (a.view(_U32) | b.view(_U32)).view(np.float32), r)
    return select_nan_signalling_first(F32, r, a, b)


def median3(mode: FloatMode, a: Array, b: Array, c: Array) -> Array:
    """Middle one of three; with a NaN operand the minimum of the three (AMD ISA, V_MED3_F32)."""
    upper = maximum_number(mode, a, b)
    top = maximum_number(mode, upper, c)
    # Equal as numbers, so that of two zeros of different sign the first one counts as the largest.
    without_a, without_b = maximum_number(mode, b, c), maximum_number(mode, a, c)
    r = np.where(top == a, without_a, np.where(top == b, without_b, upper))
    if has_nan(a) or has_nan(b) or has_nan(c):
        any_nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
        r = np.where(any_nan, minimum_number(mode, minimum_number(mode, a, b), c), r)
    return r


def clamp(mode: FloatMode, x: Array) -> Array:
    """Output clamp to [0, 1]; a NaN becomes +0 under DX10 clamping."""
    r = np.where(x > 0, np.minimum(x, np.float32(1)), np.float32(0))
    return r if mode.dx10_clamp or not has_nan(x) else np.where(np.isnan(x), x, r)
