"""f16 and bf16 arithmetic, through wider formats with a single final rounding."""

from __future__ import annotations

import attrs
import numpy as np

from loom_sim.amdgpu.numerics.formats import (
    F16,
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

_U16 = np.uint16


def _flushed(mode: FloatMode, *values: Array) -> tuple[Array, ...]:
    return values if mode.denormal64 & 1 else tuple(flush(F16, v) for v in values)


def narrow(mode: FloatMode, exact: Array) -> Array:
    """Round a double (exact, or rounded to odd) to f16 in the current rounding mode."""
    r = directed(exact.astype(np.float16), exact, mode.round64)
    return r if mode.denormal64 & 2 else flush(F16, r)


def add(mode: FloatMode, a: Array, b: Array) -> Array:
    """`a + b`: the sum of two f16 is exact in f64."""
    a, b = _flushed(mode, a, b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    return select_nan(F16, narrow(mode, signed_zero_sum(mode.round64, x + y, x, y)), a, b)


def mul(mode: FloatMode, a: Array, b: Array) -> Array:
    """`a * b`: the product of two f16 is exact in f64."""
    a, b = _flushed(mode, a, b)
    return select_nan(F16, narrow(mode, a.astype(np.float64) * b.astype(np.float64)), a, b)


def fma(mode: FloatMode, a: Array, b: Array, c: Array) -> Array:
    """`a * b + c` with one rounding."""
    a, b, c = _flushed(mode, a, b, c)
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    s, e = two_sum(product, addend)
    return select_nan(F16, narrow(mode, signed_zero_sum(mode.round64, to_odd(s, e), product, addend)), a, b, c)


def multiply_add(mode: FloatMode, a: Array, b: Array, c: Array) -> Array:
    """`a * b + c` with both operations rounded and denormals always flushed (gfx942's V_MAD_F16 and its relatives; LLVM
    "User Guide for AMDGPU Backend" and its use of them only where f16 denormals are off)."""
    mode = attrs.evolve(mode, denormal64=0)
    return add(mode, mul(mode, a, b), c)


def _quiet_other(mode: FloatMode, r: Array, a: Array, b: Array) -> Array:
    if not has_nan(r):
        return r
    ab, bb = np.broadcast_arrays(a.view(_U16), b.view(_U16))
    na, nb = np.isnan(a), np.isnan(b)
    quiet = _U16(F16.quiet)
    bits = np.where(na, np.where(nb, ab | quiet, bb), np.where(nb, ab, r.view(_U16)))
    if mode.ieee:
        bits = np.where(nb & ((bb & quiet) == 0), bb | quiet, bits)
        bits = np.where(na & ((ab & quiet) == 0), ab | quiet, bits)
    return bits.view(np.float16)


def maximum_number(mode: FloatMode, a: Array, b: Array) -> Array:
    """Larger operand, +0 above -0, a NaN loses against a number."""
    a, b = _flushed(mode, a, b)
    r = np.where((a == 0) & (b == 0), (a.view(_U16) & b.view(_U16)).view(np.float16), np.maximum(a, b))
    return _quiet_other(mode, r, a, b)


def minimum_number(mode: FloatMode, a: Array, b: Array) -> Array:
    """Smaller operand, -0 below +0, a NaN loses against a number."""
    a, b = _flushed(mode, a, b)
    r = np.where((a == 0) & (b == 0), (a.view(_U16) | b.view(_U16)).view(np.float16), np.minimum(a, b))
    return _quiet_other(mode, r, a, b)


def maximum(mode: FloatMode, a: Array, b: Array) -> Array:
    """IEEE 754-2019 maximum: a NaN operand wins."""
    a, b = _flushed(mode, a, b)
    r = np.where((a == 0) & (b == 0), (a.view(_U16) & b.view(_U16)).view(np.float16), np.maximum(a, b))
    return select_nan_signalling_first(F16, r, a, b)


def minimum(mode: FloatMode, a: Array, b: Array) -> Array:
    """IEEE 754-2019 minimum: a NaN operand wins."""
    a, b = _flushed(mode, a, b)
    r = np.where((a == 0) & (b == 0), (a.view(_U16) | b.view(_U16)).view(np.float16), np.minimum(a, b))
    return select_nan_signalling_first(F16, r, a, b)


def median3(mode: FloatMode, a: Array, b: Array, c: Array) -> Array:
    """Middle one of three; with a NaN operand the minimum of the three."""
    upper = maximum_number(mode, a, b)
    top = maximum_number(mode, upper, c)
    # Equal as numbers, so that of two zeros of different sign the first one counts as the largest.
    without_a, without_b = maximum_number(mode, b, c), maximum_number(mode, a, c)
    r = np.where(top == a, without_a, np.where(top == b, without_b, upper))
    any_nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
    return np.where(any_nan, minimum_number(mode, minimum_number(mode, a, b), c), r)


def clamp(mode: FloatMode, x: Array) -> Array:
    """Output clamp to [0, 1]; a NaN becomes +0 under DX10 clamping."""
    r = np.where(x > 0, np.minimum(x, np.float16(1)), np.float16(0))
    return r if mode.dx10_clamp else np.where(np.isnan(x), x, r)


def bf16_to_f32(x: Array) -> Array:
    """Widen bf16 bit patterns (uint16)."""
    return (x.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(x: Array) -> Array:
    """Round f32 to bf16 bit patterns (uint16), nearest even, NaNs quieted."""
    bits = x.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), bits >> np.uint32(16) | np.uint32(0x40), rounded).astype(np.uint16)
