"""Sine, cosine and tangent of f16 and f32 arguments of any size, in f64.

The argument is reduced to |r| <= pi/4 and a quadrant.  Up to 2**25 the multiple of pi/2 is subtracted in three
parts, the first two short enough for exact products (Cody and Waite, "Software Manual for the Elementary
Functions", 1980).  Beyond, the product with 2/pi is formed in integers from the bits of 2/pi that matter (Payne
and Hanek, "Radian Reduction for Trigonometric Functions", ACM SIGNUM Newsletter 18, 1983).
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

from loom_target_spirv.elementary import quadrant, sin_cos
from loom_target_spirv.module import Value
from loom_target_spirv.reals import Real, zero
from loom_target_spirv.types import BOOL, F64, U64
from loom_target_spirv.wide_integer import Arithmetic

_HALF_PI: Final = (
    float.fromhex("0x1.921fb54p+0"),
    float.fromhex("0x1.10b461p-30"),
    float.fromhex("0x1.a62633145c06ep-58"),
)
"""pi/2 as a sum: two parts of at most 28 bits, and the rest."""

_TWO_OVER_PI: Final = (0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB)
"""The first bits of 2/pi after the point, in words of 32."""

_LARGE: Final = 2.0**25


def _small_reduction(size: Real) -> tuple[Real, Value]:
    """The rest and the 64-bit quadrant of a magnitude below `_LARGE`."""
    quarters = (size * (2 / math.pi)).nearest()
    rest = size
    for part in _HALF_PI:
        rest = rest - quarters * part
    return rest, Arithmetic(size.function).widen(quarters.integer())


def _large_reduction(size: Real) -> tuple[Real, Value]:
    """The same for a magnitude from `_LARGE` on that f32 has: 24 bits times 2**scale, 2 <= scale <= 104."""
    function, words = size.function, Arithmetic(size.function)
    bits = size.bits()
    fraction = words.binary("OpBitwiseAnd", words.binary("OpShiftRightLogical", bits, 29), (1 << 23) - 1)
    significand = words.binary("OpBitwiseOr", fraction, 1 << 23)
    exponent = words.binary("OpShiftRightLogical", bits, 52)
    # Bits of 2/pi that make multiples of 4 (whole turns) drop out: the first scale - 2 of them.
    dropped = words.binary("OpISub", exponent, 1023 + 23 + 2)
    first, within = words.binary("OpShiftRightLogical", dropped, 5), words.binary("OpBitwiseAnd", dropped, 31)
    table = []
    for place in range(4):
        word = words.constant(U64, _TWO_OVER_PI[place + 3])
        for start in (2, 1, 0):
            here = words.compare("OpIEqual", first, start)
            word = words.select(here, words.constant(U64, _TWO_OVER_PI[place + start]), word)
        table.append(word)
    window = []
    for high, low in pairwise(table):
        pair = words.binary("OpBitwiseOr", words.binary("OpShiftLeftLogical", high, 32), low)
        moved = words.binary("OpShiftLeftLogical", pair, within)
        window.append(words.binary("OpShiftRightLogical", moved, 32))
    # The upper 64 of the lower 96 bits of significand * window: two of quadrant, then the fraction.
    top, middle, bottom = (words.binary("OpIMul", significand, word) for word in window)
    product = words.binary("OpIAdd", words.binary("OpShiftLeftLogical", top, 32), middle)
    product = words.binary("OpIAdd", product, words.binary("OpShiftRightLogical", bottom, 32))
    quarter = words.binary("OpShiftRightLogical", words.binary("OpIAdd", product, 1 << 61), 62)
    rest = function.op("OpConvertSToF", F64, words.binary("OpShiftLeftLogical", product, 2))
    return Real(function, rest) * (math.pi / 2 * 2.0**-64), quarter


def _reduced(x: Real) -> tuple[Real, Real, Value]:
    """Sine and cosine of the rest of |x|, and the quadrant in 32 bits; NaN for what is not finite."""
    words = Arithmetic(x.function)
    size = x.magnitude()
    near = size.less(_LARGE)
    small, small_quarter = _small_reduction(size)
    large, large_quarter = _large_reduction(size)
    rest = small.choose(near, large)
    rest = (size - size).choose(x.function.op("OpLogicalNot", BOOL, size.less(math.inf)), rest)
    sine, cosine = sin_cos(rest)
    return sine, cosine, words.low(words.select(near, small_quarter, large_quarter))


def sin(x: Real) -> Real:
    """The sine of an angle in radians; sin(-0) is -0."""
    value = quadrant(*_reduced(x)).flipped(x.is_negative())
    return x.choose(x.equals(zero(x)), value)


def cos(x: Real) -> Real:
    """The cosine of an angle in radians."""
    sine, cosine, quarter = _reduced(x)
    return quadrant(sine, cosine, Arithmetic(x.function).binary("OpIAdd", quarter, 1))


def tan(x: Real) -> Real:
    """The tangent of an angle in radians; tan(-0) is -0."""
    words = Arithmetic(x.function)
    sine, cosine, quarter = _reduced(x)
    odd = words.compare("OpINotEqual", words.binary("OpBitwiseAnd", quarter, 1), 0)
    value = (cosine / sine).flipped(words.constant(BOOL, 1)).choose(odd, sine / cosine)
    return x.choose(x.equals(zero(x)), value.flipped(x.is_negative()))
