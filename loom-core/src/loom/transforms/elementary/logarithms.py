"""Logarithms, powers, roots, and the inverses of the hyperbolic functions."""

from __future__ import annotations

import math
from typing import Final

from loom.transforms.elementary import tables
from loom.transforms.elementary.exponentials import exp_pair
from loom.transforms.elementary.formulas import Bits, Real, polynomial, power_of_two, scaled
from loom.transforms.elementary.pairs import (
    Pair,
    constant_pair,
    exact,
    exact_product,
    exact_sum,
    short_sum,
)

_CARRY: Final = (1 << 52) - (int(math.sqrt(2.0) * (1 << 52)) - (1 << 52))
"""Added to a pattern, it raises the exponent from a significand of sqrt(2) on."""


def _exponent_and_rest(x: Pair) -> tuple[Bits, Pair]:
    """x = m 2^e with m between sqrt(1/2) and sqrt(2), for positive x: e and m - 1."""
    tiny = x.high < 2.0**-1022
    bits = tiny.choose(x.high * 2.0**54, x.high).bits()
    e = ((bits + _CARRY) >> 52) - 1023
    m = (bits - (e << 52)).as_real()
    low = x.low * power_of_two((e.code.bits(0) - e).at_least(-1000).at_most(1000))
    return e - tiny.choose_bits(54, 0), exact_sum(m - 1.0, low)


def _of_mantissa(rest: Pair) -> Pair:
    """ln(1 + rest), for 1 + rest between sqrt(1/2) and sqrt(2): 2 atanh(s) with s = rest / (2 + rest)."""
    s = rest.over(exact_sum(2.0, rest.high).plus(Pair(rest.low, rest.low.code.real(0.0))))
    square = s.high * s.high
    cube = s.high * square
    tail = cube.fused(square.fused(polynomial(square, tables.LOG), tables.TWO_THIRDS[0]), s.low + s.low)
    return short_sum(s.high + s.high, tail)


def _of_mantissa_exactly(rest: Pair) -> Pair:
    """The same to about 65 bits."""
    s = rest.over(exact_sum(2.0, rest.high).plus(Pair(rest.low, rest.low.code.real(0.0))))
    square = s.times(s)
    tail = square.high * square.high * polynomial(square.high, tables.LOG)
    factor = square.times(constant_pair(s.high, tables.TWO_THIRDS)).plus_real(tail)
    return s.scaled(2.0).plus(s.times(factor))


def log_pair(x: Pair) -> Pair:
    """ln x, for positive x."""
    e, rest = _exponent_and_rest(x)
    whole = constant_pair(x.high, tables.LN2).times_real(e.low_number(signed=True))
    return whole.plus(_of_mantissa(rest))


def _special(x: Real, value: Real) -> Real:
    """The logarithm's values where x is no finite positive number."""
    value = (x < 0.0).choose(math.nan, value)
    value = x.equals(0.0).choose(-math.inf, value)
    return (x < math.inf).choose(value, x)


def log(x: Real) -> Real:
    """The natural logarithm, below one unit in the last place."""
    return _special(x, log_pair(exact(x)).rounded())


def log2(x: Real) -> Real:
    """The logarithm to base 2, below one unit in the last place; exact for powers of two."""
    e, rest = _exponent_and_rest(exact(x))
    fraction = _of_mantissa(rest).times(constant_pair(x, tables.INVERSE_LN2))
    return _special(x, exact(e.low_number(signed=True)).plus(fraction).rounded())


def log10(x: Real) -> Real:
    """The logarithm to base 10, below one unit in the last place."""
    e, rest = _exponent_and_rest(exact(x))
    whole = constant_pair(x, tables.LOG10_2).times_real(e.low_number(signed=True))
    return _special(x, whole.plus(_of_mantissa(rest).times(constant_pair(x, tables.INVERSE_LN10))).rounded())


def log1p(x: Real) -> Real:
    """ln(1 + x), below one unit in the last place."""
    value = log_pair(exact_sum(1.0, x)).rounded()
    value = _special(x + 1.0, value)
    return (abs(x) < 2.0**-54).choose(x, value)


def softplus(x: Real) -> Real:
    """ln(1 + e^x), within one unit in the last place: ln(1 + e^-|x|) + max(x, 0)."""
    size = abs(x)
    power, k = exp_pair(exact(-size))
    half = k.arithmetic_shift(1)
    decayed = power.scaled(power_of_two(half)).scaled(power_of_two(k - half))
    total = exact_sum(1.0, decayed.high)
    value = log_pair(short_sum(total.high, total.low + decayed.low))
    # Of a small number the logarithm is the number, and so is its half square gone.
    tiny = decayed.high < 2.0**-60
    value = Pair(tiny.choose(decayed.high, value.high), tiny.choose(decayed.low, value.low))
    raised = value.plus_real((x > 0.0).choose(x, 0.0)).rounded()
    return (x < math.inf).choose(raised, x)


# -- powers and roots ------------------------------------------------------------------------------------------------


def power(x: Real, y: Real) -> Real:
    """x^y, within one unit in the last place."""
    size = abs(x)
    e, rest = _exponent_and_rest(exact(size))
    whole = constant_pair(x, tables.LN2).times_real(e.low_number(signed=True))
    logarithm = whole.plus(_of_mantissa_exactly(rest))
    product = exact_product(y, logarithm.high)
    low = y.fused(logarithm.low, product.low)
    # Beyond the range of exponents only the size of the product matters.
    bounded = product.high.clamped(-800.0, 800.0)
    low = bounded.equals(product.high).choose(low, 0.0)
    grown, k = exp_pair(Pair(bounded, low))
    value = scaled(grown.rounded(), k)
    code = x.code
    falling = y < 0.0
    value = size.equals(0.0).choose(falling.choose(math.inf, 0.0), value)
    value = size.equals(math.inf).choose(falling.choose(0.0, math.inf), value)
    # An infinite exponent.
    endless = abs(y).equals(math.inf)
    grows = (size > 1.0).choose(y, -y)
    of_endless = (grows > 0.0).choose(math.inf, 0.0)
    value = endless.choose(of_endless, value)
    value = size.equals(1.0).choose(1.0, value)
    # A negative base: an odd exponent keeps its sign, one with a fraction has no power of a finite number.
    half = y * 0.5
    odd = y.equals(y.floor()) & half.compare("one", half.floor())
    value = value.flipped(odd.choose_bits(x.bits(), 0))
    fractional = (x < 0.0) & (x > -math.inf) & y.compare("one", y.floor())
    value = fractional.choose(math.nan, value)
    value = (x.is_nan() | y.is_nan()).choose(x + y, value)
    always = x.equals(1.0) | y.equals(0.0)
    return always.choose(code.real(1.0), value)


_ROOTS: Final = (2.0 ** (1 / 3), 2.0 ** (2 / 3))


def cbrt(x: Real) -> Real:
    """The cube root, below one unit in the last place: an estimate, and Newton's iteration."""
    size = abs(x)
    tiny = size < 2.0**-1022
    bits = tiny.choose(size * 2.0**54, size).bits()
    # The biased exponent is 3 third + left, and so is e, as the bias is a multiple of three; 43691 / 2^17 is a third.
    field = bits >> 52
    third = (field * 43691) >> 17
    left = field - third * 3
    m = ((bits & ((1 << 52) - 1)) | (1023 << 52)).as_real()
    one, two = left.compare("eq", 1), left.compare("eq", 2)
    a = m * one.choose(2.0, two.choose(4.0, 1.0))
    y = polynomial(m, tables.CBRT) * one.choose(_ROOTS[0], two.choose(_ROOTS[1], 1.0))
    for _ in range(2):
        y = y - (y - a / (y * y)) * (1 / 3)
    square = exact_product(y, y)
    residual = y.fused(square.low, y.fused(square.high, -a))
    y = y - residual / (square.high * 3.0)
    value = y * power_of_two(third - 341 - tiny.choose_bits(18, 0))
    finite = (size < math.inf) & (size > 0.0)
    return finite.choose(value.with_sign_of(x), x)


# -- inverses of the hyperbolic functions ----------------------------------------------------------------------------


def asinh(x: Real) -> Real:
    """The inverse hyperbolic sine, below one unit in the last place: ln(|x| + sqrt(x^2 + 1))."""
    size = abs(x)
    large = size > 2.0**30
    bounded = large.choose(1.0, size)
    square = exact_product(bounded, bounded)
    total = square.plus_real(1.0).root().plus_real(bounded)
    argument = Pair(large.choose(size, total.high), large.choose(0.0, total.low))
    doubled = large.choose(1.0, 0.0)
    value = constant_pair(x, tables.LN2).times_real(doubled).plus(log_pair(argument)).rounded()
    near = (size * size * size).fused(-1 / 6, size)
    value = (size < 2.0**-26).choose(near, value)
    return x.is_finite().choose(value.with_sign_of(x), x)


def acosh(x: Real) -> Real:
    """The inverse hyperbolic cosine, below one unit in the last place: ln(x + sqrt(x^2 - 1))."""
    large = x > 2.0**30
    bounded = large.choose(2.0, x)
    square = exact_product(bounded, bounded)
    above = exact_sum(-1.0, square.high)
    above = short_sum(above.high, above.low + square.low)
    total = above.root().plus_real(bounded)
    argument = Pair(large.choose(x, total.high), large.choose(0.0, total.low))
    doubled = large.choose(1.0, 0.0)
    value = constant_pair(x, tables.LN2).times_real(doubled).plus(log_pair(argument)).rounded()
    value = x.equals(1.0).choose(0.0, value)
    value = (x < 1.0).choose(math.nan, value)
    return (x < math.inf).choose(value, x)


def atanh(x: Real) -> Real:
    """The inverse hyperbolic tangent, below one unit in the last place: ln((1 + x) / (1 - x)) / 2."""
    size = abs(x)
    ratio = exact_sum(1.0, size).over(exact_sum(1.0, -size))
    value = log_pair(ratio).rounded() * 0.5
    near = (size * size * size).fused(1 / 3, size)
    value = (size < 2.0**-26).choose(near, value)
    value = size.equals(1.0).choose(math.inf, value)
    value = (size > 1.0).choose(math.nan, value)
    return x.is_nan().choose(x, value.with_sign_of(x))
