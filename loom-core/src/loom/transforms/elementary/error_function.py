"""The error function, its complement, and the activation made of them."""

from __future__ import annotations

import math
from typing import Final

from loom.transforms.elementary import tables
from loom.transforms.elementary.exponentials import exp_pair
from loom.transforms.elementary.formulas import Bits, Real, polynomial, scaled
from loom.transforms.elementary.pairs import Pair, constant_pair, exact, exact_product, short_sum

_LARGEST: Final = 28.0
"""From here on the complement is zero."""


def _near(x: Real) -> Pair:
    """erf(x), for |x| up to 1."""
    square = x * x
    first = constant_pair(x, tables.ERF_SCALE).times_real(x)
    return short_sum(first.high, (x * square).fused(polynomial(square, tables.ERF), first.low))


def _far(size: Real, square: Pair) -> tuple[Pair, Bits]:
    """erfc(x) as a pair times 2^k, for x from 0.4 to 28, with its square."""
    t = (size - 4.0) / (size + 4.0)
    values = polynomial(t, tables.ERFC)
    below = exact(size + size).plus_real(1.0)
    decayed, k = exp_pair(-square)
    return decayed.times_real(values).over(below), k


def erf(x: Real) -> Real:
    """The error function, within one and a half units in the last place."""
    size = abs(x)
    near = _near(size.clamped(-1.0, 1.0)).rounded()
    bounded = size.clamped(0.5, 8.0)
    far, k = _far(bounded, exact_product(bounded, bounded))
    complement = scaled(far.rounded(), k)
    value = (size < 1.0).choose(near, 1.0 - complement).with_sign_of(x)
    return x.is_nan().choose(x, value)


def erfc(x: Real) -> Real:
    """1 - erf(x), within two units in the last place, also where the result is small."""
    size = abs(x)
    near = _near(x.clamped(-1.0, 1.0))
    bounded = size.clamped(0.4375, _LARGEST)
    far, k = _far(bounded, exact_product(bounded, bounded))
    complement = scaled(far.rounded(), k)
    value = x.is_negative().choose(2.0 - complement, complement)
    middle = short_sum(x.code.real(1.0), -near.high)
    value = (size < 0.46875).choose(middle.high + (middle.low - near.low), value)
    return x.is_nan().choose(x, value)


def gelu(x: Real) -> Real:
    """x (1 + erf(x / sqrt 2)) / 2, within three units in the last place."""
    bounded = abs(x).clamped(-1.0, 40.0)
    # The square of x / sqrt 2 is exactly half of that of x; the argument itself matters less.
    square = exact_product(bounded, bounded).scaled(0.5)
    ratio = constant_pair(x, tables.ROOT_HALF).times_real(bounded).rounded()
    far, k = _far(ratio.clamped(0.4375, _LARGEST), square)
    near = _near(ratio.clamped(-1.0, 1.0))
    small = ratio < 0.46875
    tail = far.times_real(bounded * 0.5)
    lower = scaled(tail.rounded(), k)
    # Positive numbers lose what their mirror images have.
    value = x.is_negative().choose(-lower, bounded - lower)
    half = x * 0.5
    middle = half + half * near.rounded().with_sign_of(x)
    value = small.choose(middle, value)
    value = (abs(x) < 40.0).choose(value, (x > 0.0).choose(x, 0.0)).with_sign_of(x)
    # As for a number times zero, minus infinity has no result.
    return (x > -math.inf).choose(value, x - x)
