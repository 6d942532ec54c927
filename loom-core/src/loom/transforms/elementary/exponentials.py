"""Exponentials, and what is made of them: hyperbolic functions and activations."""

from __future__ import annotations

from typing import Final

from loom.transforms.elementary import tables
from loom.transforms.elementary.formulas import Bits, Real, polynomial, power_of_two, scaled
from loom.transforms.elementary.pairs import (
    Pair,
    constant_pair,
    exact,
    exact_product,
    exact_sum,
    odd_series,
    short_sum,
)

_LOWEST: Final = -1400.0
_HIGHEST: Final = 712.0
"""Beyond these, e^x times any number is zero, and half of it is infinite."""


def _series(r: Pair) -> Pair:
    """e^r - 1, for |r| up to half of ln 2."""
    x = r.high
    square = x * x
    rest = (x * square).fused(polynomial(x, tables.EXP), r.low.fused(x, r.low))
    return short_sum(x, square.fused(0.5, rest))


def exp_parts(x: Pair) -> tuple[Pair, Bits]:
    """e^x = (1 + s) 2^k: s and k, for x from -1400 to 712; other arguments give any numbers."""
    k, whole = (x.high * tables.INVERSE_LN2[0]).nearest()
    rest = (-k).fused(tables.LN2_SHORT[0], x.high)
    return _series(exact_sum(rest, (-k).fused(tables.LN2_SHORT[1], x.low))), whole


def one_more(s: Pair) -> Pair:
    """1 + s, for |s| below 1."""
    total = short_sum(s.high.code.real(1.0), s.high)
    return Pair(total.high, total.low + s.low)


def exp_pair(x: Pair) -> tuple[Pair, Bits]:
    """e^x as a pair times 2^k, for any x; NaN counts as a small number."""
    bounded = x.high.clamped(_LOWEST, _HIGHEST)
    same = bounded.equals(x.high)
    s, k = exp_parts(Pair(bounded, same.choose(x.low, 0.0)))
    return one_more(s), k


def exp(x: Real) -> Real:
    """e^x, below one unit in the last place."""
    power, k = exp_pair(exact(x))
    return x.is_nan().choose(x, scaled(power.rounded(), k))


def exp2(x: Real) -> Real:
    """2^x, below one unit in the last place; exact for integral x."""
    bounded = x.clamped(-1076.0, 1025.0)
    k, whole = bounded.nearest()
    fraction = bounded - k
    product = exact_product(fraction, x.code.real(tables.LN2[0]))
    s = _series(short_sum(product.high, fraction.fused(tables.LN2[1], product.low)))
    return x.is_nan().choose(x, scaled(one_more(s).rounded(), whole))


def expm1_pair(x: Real) -> tuple[Pair, Bits]:
    """e^x - 1 as a pair times 2^k, for x up to 712; below -64 it is -1."""
    s, k = exp_parts(exact(x.clamped(-64.0, _HIGHEST)))
    # 1 + s - 2^-k, the large numbers first
    offset = exact_sum(1.0, -power_of_two((k.code.bits(0) - k).at_least(-1000)))
    total = exact_sum(offset.high, s.high)
    sum_ = short_sum(total.high, total.low + (offset.low + s.low))
    unscaled = k.compare("eq", 0)
    return Pair(unscaled.choose(s.high, sum_.high), unscaled.choose(s.low, sum_.low)), k


def expm1(x: Real) -> Real:
    """e^x - 1, below one unit in the last place."""
    value, k = expm1_pair(x)
    return x.is_nan().choose(x, scaled(value.rounded(), k).with_sign_of(x))


# -- hyperbolic functions --------------------------------------------------------------------------------------------


def _halves(size: Real) -> tuple[Pair, Pair, Bits]:
    """e^x / 2 and e^-x / 2 as pairs times 2^(k - 1), for x not below zero."""
    grown, k = exp_pair(exact(size))
    # Far out the second one is nothing beside the first.
    factor = power_of_two(k.code.bits(0) - (k.at_most(500) << 1))
    return grown, exact(size.code.real(1.0)).over(grown).scaled(factor), k - 1


def sinh(x: Real) -> Real:
    """The hyperbolic sine, below one unit in the last place."""
    size = abs(x)
    square = size * size
    near = odd_series(exact(size), square, tables.SINH).rounded()
    grown, decayed, k = _halves(size)
    far = scaled(grown.plus(-decayed).rounded(), k)
    return x.is_nan().choose(x, (size < 1.0).choose(near, far).with_sign_of(x))


def cosh(x: Real) -> Real:
    """The hyperbolic cosine, below one unit in the last place."""
    grown, decayed, k = _halves(abs(x))
    return x.is_nan().choose(x, scaled(grown.plus(decayed).rounded(), k))


def tanh(x: Real) -> Real:
    """The hyperbolic tangent, below one unit in the last place."""
    size = abs(x).clamped(-1.0, 22.0)
    value, k = expm1_pair(size + size)
    value = value.scaled(power_of_two(k))
    ratio = value.over(value.plus_real(2.0))
    tiny = size < 2.0**-500
    return x.is_nan().choose(x, tiny.choose(size, ratio.rounded()).with_sign_of(x))


# -- activations -----------------------------------------------------------------------------------------------------


def logistic_pair(x: Pair) -> tuple[Pair, Bits]:
    """1 / (1 + e^-x) as a pair times 2^k, from an exponential that cannot overflow; for NaN some number."""
    sign = x.high.bits()
    power, k = exp_pair(Pair(-abs(x.high), -x.low.flipped(sign)))
    half = k.arithmetic_shift(1)
    decayed = power.scaled(power_of_two(half)).scaled(power_of_two(k - half))
    negative = sign.compare("slt", 0)
    numerator = Pair(negative.choose(power.high, 1.0), negative.choose(power.low, 0.0))
    beyond = x.high < _LOWEST
    numerator = Pair(beyond.choose(0.0, numerator.high), beyond.choose(0.0, numerator.low))
    one = exact(x.high.code.real(1.0))
    return numerator.over(one.plus(decayed)), negative.choose_bits(k, 0)


def logistic(x: Real) -> Real:
    """1 / (1 + e^-x), below one unit in the last place."""
    value, k = logistic_pair(exact(x))
    return x.is_nan().choose(x, scaled(value.rounded(), k))


def _gated(x: Real, gate: tuple[Pair, Bits]) -> Real:
    """x times a number between zero and one; minus infinity has no product with zero."""
    factor, k = gate
    value = scaled(factor.times_real(x).rounded(), k).with_sign_of(x)
    return x.is_finite().choose(value, (x > 0.0).choose(x, x - x))


def silu(x: Real) -> Real:
    """x / (1 + e^-x), below one unit in the last place."""
    return _gated(x, logistic_pair(exact(x)))


def gelu_tanh(x: Real) -> Real:
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 = x logistic(2 sqrt(2 / pi) (...))."""
    bounded = x.clamped(-1e3, 1e3)
    square = exact_product(bounded, bounded)
    inner = square.times(constant_pair(x, tables.GELU_CUBE)).plus_real(1.0).times_real(bounded)
    return _gated(x, logistic_pair(inner.times(constant_pair(x, tables.GELU_SCALE))))


def gelu_logistic(x: Real, scale: float) -> Real:
    """x logistic(scale x)."""
    bounded = x.clamped(-1e150, 1e150)
    return _gated(x, logistic_pair(exact_product(bounded, x.code.real(scale))))
