"""Sine, cosine and tangent of arguments of any size.

The argument is reduced to a pair of magnitude up to pi/4 and a quadrant. Up to 2^30 the multiple of pi/2, which has
three parts, is subtracted (Cody and Waite, "Software Manual for the Elementary Functions", 1980). Beyond, where a
branch leads, the product with 2/pi is formed in integers from the bits of 2/pi that matter (Payne and Hanek, "Radian
Reduction for Trigonometric Functions", ACM SIGNUM Newsletter 18, 1983).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from loom.transforms.elementary import tables
from loom.transforms.elementary.formulas import Bits, Code, Real, polynomial
from loom.transforms.elementary.pairs import Pair, constant_pair, exact, exact_product, exact_sum, odd_series, short_sum

_LARGE: Final = 2.0**30
_HALF_WORD: Final = (1 << 32) - 1


def _small_reduction(size: Real) -> tuple[Pair, Bits]:
    """The rest and the quadrant of a magnitude up to ``_LARGE``."""
    first, second, third = tables.HALF_PI
    quarters, whole = (size * (1 / first)).nearest()
    product = exact_product(quarters, size.code.real(first))
    next_product = exact_product(quarters, size.code.real(second))
    # The difference is exact, whatever cancels.
    left = exact_sum(size - product.high, -product.low)
    rest = exact_sum(left.high, -next_product.high)
    low = (-quarters).fused(third, (left.low + rest.low) - next_product.low)
    return short_sum(rest.high, low), whole


def _window(code: Code, place: Bits) -> list[Bits]:
    """192 bits of 2/pi in words of 64, from a place on that counts from 64 zeros in front of the point."""
    words = [code.bits(_signed(word)) for word in (0, *tables.TWO_OVER_PI, 0, 0)]
    number = place >> 6
    # Words are moved down by 16, 8, 4, 2 and 1, as the bits of their number say; only those that matter in the end.
    for step in (16, 8, 4, 2, 1):
        wanted = number.has(step)
        moved = [wanted.choose_bits(later, word) for word, later in zip(words, words[step:], strict=False)]
        words = [*moved, *words[len(moved) :]][: 3 + step]
    within = place & 63
    rest = within ^ 63
    return [(high << within) | ((low >> 1) >> rest) for high, low in pairwise(words)]


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _large_reduction(code: Code, size: Real) -> list[Real | Bits]:
    """High and low part of the rest, and the quadrant, of a finite magnitude from ``_LARGE`` on."""
    bits = size.bits()
    significand = (bits & ((1 << 52) - 1)) | (1 << 52)
    # size = significand 2^e; bits of 2/pi that make multiples of 4 drop out: the first e - 2 of them.
    e = (bits >> 52) - (1023 + 52)
    window = _window(code, e - 2 + 64)
    product = _low_product(significand, window)
    # Two bits of quadrant, then the fraction; the nearest quadrant leaves a signed one.
    quarter = (product[0] + (1 << 61)) >> 62
    high = (product[0] << 2) | (product[1] >> 62)
    low = (product[1] << 2) | (product[2] >> 62)
    total = exact_sum(
        high.arithmetic_shift(32).low_number(signed=True) * 2.0**-32,
        (high & _HALF_WORD).low_number(signed=False) * 2.0**-64,
    )
    more = exact_sum(
        (low >> 32).low_number(signed=False) * 2.0**-96, (low & _HALF_WORD).low_number(signed=False) * 2.0**-128
    )
    fraction = total.plus(more)
    rest = fraction.times(constant_pair(fraction.high, tables.HALF_PI[:2]))
    return [rest.high, rest.low, quarter]


def _low_product(factor: Bits, words: list[Bits]) -> list[Bits]:
    """The low 192 bits of a number below 2^53 times three words, the highest first: a schoolbook product of halves."""
    low, high = factor & _HALF_WORD, factor >> 32
    halves = [half for word in reversed(words) for half in (word & _HALF_WORD, word >> 32)]
    carry: Bits | None = None
    columns: list[Bits] = []
    above: Bits | None = None
    for half in halves:
        first = low * half
        column = first & _HALF_WORD
        for part in (carry, above):
            if part is not None:
                column = column + part
        second = high * half
        columns.append(column & _HALF_WORD)
        carry = (column >> 32) + (first >> 32)
        # The second factor is below 2^21: no sum of these overflows.
        above = second
    return [(columns[at + 1] << 32) | columns[at] for at in (4, 2, 0)]


def _sine_of_rest(r: Pair) -> Pair:
    square = r.high * r.high
    cube = r.high * square
    # The low part weighs as much as the cosine says.
    low = r.low.fused(square * -0.5, r.low)
    return short_sum(r.high, cube.fused(polynomial(square, tables.SIN), low))


def _cosine_of_rest(r: Pair) -> Pair:
    square = r.high * r.high
    half = square * 0.5
    first = 1.0 - half
    lost = (1.0 - first) - half
    # Half of the square's own rounding counts too.
    lost = r.high.fused(r.high, -square).fused(-0.5, lost)
    rest = (square * square).fused(polynomial(square, tables.COS), lost)
    return short_sum(first, (-r.high).fused(r.low, rest))


def _reduced(size: Real) -> tuple[Pair, Bits]:
    """The rest and the quadrant of a magnitude."""

    def near(code: Code) -> list[Real | Bits]:
        rest, quarter = _small_reduction(Real(code, size.value))
        return [rest.high, rest.low, quarter]

    def far(code: Code) -> list[Real | Bits]:
        return _large_reduction(code, Real(code, size.value))

    high, low, quarter = (size < _LARGE).branch(near, far)
    code = size.code
    return Pair(Real(code, high), Real(code, low)), Bits(code, quarter)


def _turned(rest: Pair, quarter: Bits) -> Pair:
    """sin(rest + quarter pi/2)."""
    sine, cosine = _sine_of_rest(rest), _cosine_of_rest(rest)
    odd = quarter.has(1)
    sign = quarter << 62
    return Pair(odd.choose(cosine.high, sine.high).flipped(sign), odd.choose(cosine.low, sine.low).flipped(sign))


def sin(x: Real) -> Real:
    """The sine of an angle in radians, below one unit in the last place; a zero keeps its sign."""
    value = _turned(*_reduced(abs(x))).rounded().flipped(x.bits())
    value = x.equals(0.0).choose(x, value)
    return x.is_finite().choose(value, x - x)


def cos(x: Real) -> Real:
    """The cosine of an angle in radians, below one unit in the last place."""
    rest, quarter = _reduced(abs(x))
    return x.is_finite().choose(_turned(rest, quarter + 1).rounded(), x - x)


def tan(x: Real) -> Real:
    """The tangent of an angle in radians, below one unit in the last place; a zero keeps its sign."""
    rest, quarter = _reduced(abs(x))
    sine, cosine = _sine_of_rest(rest), _cosine_of_rest(rest)
    odd = quarter.has(1)
    top = Pair(odd.choose(-cosine.high, sine.high), odd.choose(-cosine.low, sine.low))
    below = Pair(odd.choose(sine.high, cosine.high), odd.choose(sine.low, cosine.low))
    value = top.over(below).rounded().flipped(x.bits())
    value = (abs(x) < 2.0**-500).choose(x, value)
    return x.is_finite().choose(value, x - x)


def _turns(x: Real) -> tuple[Pair, Bits]:
    """The angle that is left of |x| turns after whole quarters, and the quarters."""
    size = abs(x)
    part = size - size.floor()
    quarters, whole = (part * 4.0).nearest()
    rest = quarters.fused(-0.25, part)
    return exact(rest).times(constant_pair(x, tables.TWO_PI)), whole


def sin_turns(x: Real) -> Real:
    """sin(2 pi x), below one unit in the last place; exact at quarter turns, where zeros have the sign of x."""
    value = _turned(*_turns(x)).rounded().flipped(x.bits())
    value = value.equals(0.0).choose(value.with_sign_of(x), value)
    return x.is_finite().choose(value, x - x)


def cos_turns(x: Real) -> Real:
    """cos(2 pi x), below one unit in the last place; exact at quarter turns, where zeros are positive."""
    rest, quarter = _turns(x)
    value = _turned(rest, quarter + 1).rounded()
    value = value.equals(0.0).choose(0.0, value)
    return x.is_finite().choose(value, x - x)


# -- inverses --------------------------------------------------------------------------------------------------------


def _angle(rise: Pair, run: Pair) -> Pair:
    """The angle of a point with coordinates that are not below zero, and not both zero or infinite."""
    steep = rise.high > run.high
    small = Pair(steep.choose(run.high, rise.high), steep.choose(run.low, rise.low))
    large = Pair(steep.choose(rise.high, run.high), steep.choose(rise.low, run.low))
    # From an eighth of a turn less some on, the tangent of the angle beyond atan(1/2).
    moved = small.high * 4.0 > large.high
    half = moved.choose(0.5, 0.0)
    top = small.plus(Pair(-(large.high * half), -(large.low * half)))
    below = large.plus(Pair(small.high * half, small.low * half))
    ratio = top.over(below)
    angle = odd_series(ratio, ratio.high * ratio.high, tables.ATAN)
    offset = constant_pair(small.high, tables.ATAN_HALF)
    angle = angle.plus(Pair(moved.choose(offset.high, 0.0), moved.choose(offset.low, 0.0)))
    right = constant_pair(small.high, tables.HALF_PI[:2]).plus(-angle)
    return Pair(steep.choose(right.high, angle.high), steep.choose(right.low, angle.low))


def _turned_back(angle: Pair, backward: Real) -> Real:
    """The angle, or half a turn less it where a number has its sign bit set."""
    other = constant_pair(angle.high, tables.PI).plus(-angle)
    return backward.is_negative().choose(other.rounded(), angle.rounded())


def atan(x: Real) -> Real:
    """The arc tangent, below one unit in the last place."""
    size = abs(x)
    bounded = size.clamped(-1.0, 2.0**80)
    value = _angle(exact(bounded), exact(x.code.real(1.0))).rounded()
    value = (size < 2.0**-500).choose(size, value)
    return x.is_nan().choose(x, value.with_sign_of(x))


def atan2(y: Real, x: Real) -> Real:
    """The angle of the point (x, y), below one unit in the last place."""
    code = x.code
    rise, run = abs(y), abs(x)
    largest = (rise > run).choose(rise, run)
    # Both are scaled, so that neither the larger one nor its reciprocal leaves the normal range.
    exponent = ((largest.bits() >> 52) - 1023).at_least(-1000).at_most(1000)
    factor = _power(code, exponent)
    # 0/0 is an angle of 0 here, and infinity over infinity one of 45 degrees.
    null, endless = largest.equals(0.0), largest.equals(float("inf"))
    bounded_rise = null.choose(0.0, endless.choose((rise < run).choose(0.0, 1.0), rise * factor))
    bounded_run = null.choose(1.0, endless.choose((run < rise).choose(0.0, 1.0), run * factor))
    value = _turned_back(_angle(exact(bounded_rise), exact(bounded_run)), x).with_sign_of(y)
    return (x.is_nan() | y.is_nan()).choose(x + y, value)


def _power(code: Code, exponent: Bits) -> Real:
    return ((code.bits(1023) - exponent) << 52).as_real()


def _complement(size: Real) -> Pair:
    """sqrt(1 - x^2), for x from 0 to 1."""
    square = exact_product(size, size)
    left = exact_sum(1.0, -square.high)
    left = short_sum(left.high, left.low - square.low)
    root = left.root()
    null = left.high.equals(0.0)
    return Pair(null.choose(0.0, root.high), null.choose(0.0, root.low))


def asin(x: Real) -> Real:
    """The arc sine, below one unit in the last place."""
    size = abs(x)
    value = _angle(exact(size), _complement(size)).rounded()
    value = (size < 2.0**-500).choose(size, value).with_sign_of(x)
    return (size <= 1.0).choose(value, (x - x) / (x - x))


def acos(x: Real) -> Real:
    """The arc cosine, below one unit in the last place."""
    size = abs(x)
    value = _turned_back(_angle(_complement(size), exact(size)), x)
    return (size <= 1.0).choose(value, (x - x) / (x - x))
