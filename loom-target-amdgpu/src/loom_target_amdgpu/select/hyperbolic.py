"""Selection of functions around the exponential and the logarithm on f32: accurate ones near zero, and hyperbolic ones.

Errors are a few units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from loom_target_amdgpu.select.math_functions import (
    bits,
    exp,
    exp_parts,
    fma,
    in_f32,
    less,
    log,
    magnitude,
    negated,
    polynomial,
    with_sign,
)
from loom_target_amdgpu.select.scalar_float import divide_f32
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Mask, Word

ONE: Final = bits(1.0)
_HALF: Final = bits(0.5)
_LN2: Final = bits(math.log(2))
_INFINITY: Final = 0x7F800000
_NAN: Final = 0x7FC00000
_LOG2_E: Final = bits(1 / math.log(2))
_LN2_HIGH, _LN2_LOW = bits(0.693145751953125), bits(1.42860682030941723212e-6)
_EXPM1: Final = [1 / math.factorial(n) for n in range(1, 9)]
"""(e^r - 1) / r in powers of r, for |r| up to ln 2 / 2."""
_SINH: Final = [1 / math.factorial(2 * n + 1) for n in range(1, 6)]
"""(sinh(x) - x) / x^3 in powers of x^2, for |x| up to 1."""
_LARGE: Final = bits(4096.0)
"""From here on squares outweigh one: inverse hyperbolic functions are logarithms of 2 x."""


def expm1(s: Selector, x: Word) -> Word:
    """e^x - 1 = 2^n (e^r - 1) + (2^n - 1)."""
    emit = s.emit
    n = emit.op("v_rndne_f32", emit.op("v_mul_f32", _LOG2_E, x))
    minus = negated(s, n)
    rest = fma(s, minus, _LN2_LOW, fma(s, minus, _LN2_HIGH, x))
    small = emit.op("v_mul_f32", rest, polynomial(s, rest, _EXPM1))
    power = emit.op("v_ldexp_f32", emit.constant(ONE, False), emit.op("v_cvt_i32_f32", n))
    found: Word = fma(s, power, small, emit.op("v_add_f32", bits(-1.0), power))
    # Without a power of two nothing is added: the sign of a zero stays.
    found = s.arith.select(Mask(emit.op("v_cmp_eq_f32", 0, n)), small, found)
    found = s.arith.select(less(s, x, bits(-18.0)), bits(-1.0), found)
    found = s.arith.select(less(s, bits(18.0), x), exp(s, x, False), found)
    return s.arith.select(Mask(emit.op("v_cmp_eq_f32", 0, x)), x, found)


def log1p(s: Selector, x: Word) -> Word:
    """ln(1 + x): the logarithm of the rounded sum, corrected by what rounding took."""
    emit = s.emit
    total = emit.op("v_add_f32", ONE, x)
    kept = emit.op("v_add_f32", bits(-1.0), total)
    ratio = divide_f32(s, x, kept)
    found: Word = emit.op("v_mul_f32", log(s, total, False), ratio)
    found = s.arith.select(Mask(emit.op("v_cmp_eq_f32", 0, kept)), x, found)
    return s.arith.select(Mask(emit.op("v_cmp_eq_f32", _INFINITY, total)), total, found)


def _half_exp(s: Selector, size: Word) -> Word:
    """e^size / 2, which does not overflow where hyperbolic functions do not; size >= 0."""
    power, n = exp_parts(s, size)
    found = s.emit.op("v_ldexp_f32", power, s.arith.binary("add", n, -1))
    return s.arith.select(less(s, bits(90.0), size), _INFINITY, found)


def _quarter_over(s: Selector, half: Word) -> Word:
    """e^-size / 2 from e^size / 2, to be added to something at least as large."""
    return s.emit.op("v_mul_f32", bits(0.25), s.emit.op("v_rcp_f32", half))


def sinh(s: Selector, x: Word) -> Word:
    """A series up to one, exponentials beyond."""
    emit = s.emit
    size = magnitude(s, x)
    half = _half_exp(s, size)
    far = emit.op("v_sub_f32", half, _quarter_over(s, half))
    square = emit.op("v_mul_f32", x, x)
    near = fma(s, emit.op("v_mul_f32", size, square), polynomial(s, square, _SINH), size)
    found = s.arith.select(less(s, size, ONE), near, far)
    return with_sign(s, magnitude(s, found), x)


def cosh(s: Selector, x: Word) -> Word:
    """The mean of e^x and e^-x."""
    half = _half_exp(s, magnitude(s, x))
    return s.emit.op("v_add_f32", half, _quarter_over(s, half))


def asinh(s: Selector, x: Word) -> Word:
    """ln(x + sqrt(x^2 + 1)) as log1p, so that small arguments keep their digits."""
    emit = s.emit
    size = magnitude(s, x)
    square = emit.op("v_mul_f32", x, x)
    root = emit.op("v_sqrt_f32", emit.op("v_add_f32", ONE, square))
    term = divide_f32(s, square, emit.op("v_add_f32", ONE, root))
    near = log1p(s, emit.op("v_add_f32", size, term))
    return with_sign(s, magnitude(s, _or_large(s, size, near)), x)


def _or_large(s: Selector, size: Word, near: Word) -> Word:
    """ln(2 size) for large magnitudes, the given value for others."""
    far = s.emit.op("v_add_f32", _LN2, log(s, size, False))
    return s.arith.select(less(s, _LARGE, size), far, near)


def acosh(s: Selector, x: Word) -> Word:
    """ln(x + sqrt(x^2 - 1)) as log1p of x - 1 and a root; NaN below one."""
    emit = s.emit
    above = emit.op("v_add_f32", bits(-1.0), x)
    root = emit.op("v_sqrt_f32", fma(s, above, above, emit.op("v_add_f32", above, above)))
    found = _or_large(s, x, log1p(s, emit.op("v_add_f32", above, root)))
    return s.arith.select(less(s, x, ONE), _NAN, found)


def atanh(s: Selector, x: Word) -> Word:
    """log1p(2 x / (1 - x)) / 2."""
    emit = s.emit
    size = magnitude(s, x)
    ratio = divide_f32(s, emit.op("v_add_f32", size, size), emit.op("v_sub_f32", ONE, size))
    found = emit.op("v_mul_f32", _HALF, log1p(s, ratio))
    # Beyond one the logarithm is NaN, whose sign does not matter.
    return with_sign(s, found, x)


def softplus(s: Selector, x: Word) -> Word:
    """ln(1 + e^x) = log1p(e^-|x|) + max(x, 0)."""
    decayed = exp(s, s.arith.binary("or", x, 0x80000000), False)
    above = s.arith.select(less(s, 0, x), x, 0)
    found = s.emit.op("v_add_f32", log1p(s, decayed), above)
    return s.arith.select(Mask(s.emit.op("v_cmp_u_f32", x, x)), x, found)


_FUNCTIONS: Final[dict[str, Callable[[Selector, Word], Word]]] = {
    "scalar.expm1f": expm1,
    "scalar.log1pf": log1p,
    "scalar.sinhf": sinh,
    "scalar.coshf": cosh,
    "scalar.asinhf": asinh,
    "scalar.acoshf": acosh,
    "scalar.atanhf": atanh,
    "scalar.softplusf": softplus,
}
RULES: Final[dict[str, Rule]] = dict.fromkeys(_FUNCTIONS, lambda s, op: in_f32(s, op, _FUNCTIONS[op.name]))
