"""Correctly rounded reciprocals, roots, powers, logarithms and circular functions on bits, with integer arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, getcontext
from fractions import Fraction
from functools import cache
from math import isqrt

from amdgpu_model import Float

getcontext().prec = 60
getcontext().Emax, getcontext().Emin = 10**9, -(10**9)


def arctangent_of_inverse(n: int, bits: int) -> int:
    """atan(1/n) times 2**bits, by its power series."""
    term = total = (1 << bits) // n
    k, sign = 3, -1
    while term:
        term //= n * n
        total += sign * (term // k)
        k, sign = k + 2, -sign
    return total


@cache
def pi(bits: int) -> int:
    """pi times 2**bits, by Gauss's formula: 12 atan(1/18) + 8 atan(1/57) - 5 atan(1/239) is a quarter of it."""
    guard = bits + 40
    series = [arctangent_of_inverse(n, guard) for n in (18, 57, 239)]
    return 4 * (12 * series[0] + 8 * series[1] - 5 * series[2]) >> 40


def root(v: Fraction) -> Fraction:
    """The square root with more than 150 significant bits."""
    shift = 300 - (v.numerator.bit_length() - v.denominator.bit_length())
    shift += shift & 1
    scaled = v * Fraction(2) ** shift
    n = isqrt(scaled.numerator // scaled.denominator)
    exact = Fraction(n) * Fraction(2) ** (-shift // 2)
    # A root that is not exact lies strictly above; any small excess rounds the same way.
    return exact if exact * exact == v else exact + Fraction(2) ** (-shift // 2 - 2)


def decimal(v: Fraction) -> Decimal:
    return Decimal(v.numerator) / Decimal(v.denominator)


def sine_of_turns(turns: Fraction) -> Fraction:
    """sin(2 pi t); t is reduced exactly first."""
    turns -= turns.numerator // turns.denominator
    quarter = int(turns * 4)
    rest = turns - Fraction(quarter, 4)
    if quarter & 1:
        rest = Fraction(1, 4) - rest
    if rest == 0:
        return Fraction(0)
    if rest == Fraction(1, 4):
        return Fraction(-1 if quarter > 1 else 1)
    angle = 2 * rest * pi(160) / 2**160
    term = total = angle
    square = Fraction(round(angle * angle * 2**200), 2**200)
    for k in range(3, 60, 2):
        term = Fraction(round(-term * square / (k * (k - 1)) * 2**300), 2**300)
        total += term
    return -total if quarter > 1 else total


def _nan(f: Float) -> int:
    """What an invalid operand gives: the examples of the documents show the negative quiet NaN."""
    return f.sign | f.nan


def reciprocal(f: Float, x: int) -> int:
    sign = x & f.sign
    if f.is_nan(x):
        return x | f.quiet
    if f.is_inf(x):
        return sign
    return sign | f.inf if x == sign else f.round(1 / f.value(x))


def square_root(f: Float, x: int) -> int:
    if f.is_nan(x):
        return x | f.quiet
    if x & (f.sign - 1) == 0 or x == f.inf:
        return x
    return _nan(f) if x & f.sign else f.round(root(f.value(x)))


def reciprocal_root(f: Float, x: int) -> int:
    if f.is_nan(x):
        return x | f.quiet
    if x & (f.sign - 1) == 0:
        return x | f.inf
    if x & f.sign:
        return _nan(f)
    return 0 if x == f.inf else f.round(root(1 / f.value(x)))


def power_of_two(f: Float, x: int) -> int:
    if f.is_nan(x):
        return x | f.quiet
    if f.is_inf(x):
        return 0 if x & f.sign else f.inf
    v = f.value(x)
    if abs(v) > 5000:
        return 0 if v < 0 else f.inf
    whole = v.numerator // v.denominator
    fraction = (decimal(v - whole) * Decimal(2).ln()).exp() if v != whole else Decimal(1)
    return f.round(Fraction(fraction) * Fraction(2) ** whole)


def binary_logarithm(f: Float, x: int) -> int:
    if f.is_nan(x):
        return x | f.quiet
    if x & (f.sign - 1) == 0:
        return f.sign | f.inf
    if x & f.sign:
        return _nan(f)
    return x if x == f.inf else f.round(Fraction(decimal(f.value(x)).ln() / Decimal(2).ln()))


def sine(f: Float, x: int) -> int:
    if f.is_nan(x):
        return x | f.quiet
    return _nan(f) if f.is_inf(x) else f.round(sine_of_turns(f.value(x)), x & f.sign)


def cosine(f: Float, x: int) -> int:
    if f.is_nan(x):
        return x | f.quiet
    return _nan(f) if f.is_inf(x) else f.round(sine_of_turns(f.value(x) + Fraction(1, 4)))


FUNCTIONS: dict[str, Callable[[Float, int], int]] = {
    "rcp": cache(reciprocal),
    "sqrt": cache(square_root),
    "rsq": cache(reciprocal_root),
    "exp": cache(power_of_two),
    "log": cache(binary_logarithm),
    "sin": cache(sine),
    "cos": cache(cosine),
}


@cache
def two_over_pi() -> int:
    """2/pi times 2**1201."""
    return (2 << 1300 + 1201) // pi(1300)


def part_of_two_over_pi(x_exponent: int, segment: int) -> Fraction:
    """V_TRIG_PREOP_F64: 53 bits of 2/pi, which the documents keep to 1201 binary places."""
    shift = 53 * (segment & 31) + max(0, x_exponent - 1077)
    found = (two_over_pi() << shift & (1 << 1201) - 1) >> (1201 - 53)
    scale = -53 - shift + (128 if x_exponent >= 1968 else 0)
    return Fraction(found) * Fraction(2) ** scale
