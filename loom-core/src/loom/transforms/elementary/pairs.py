"""Numbers as unevaluated sums of two f64.

Dekker, "A floating-point technique for extending the available precision", Numerische Mathematik 18, 1971; Knuth, "The
Art of Computer Programming", volume 2, section 4.2.2. Products take their error from a fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Sequence

from loom.ir.records import record
from loom.transforms.elementary.formulas import Real, polynomial


@record
class Pair:
    """high + low, where low is at most about half a unit in the last place of high."""

    high: Real
    low: Real

    def rounded(self) -> Real:
        """The sum as one number."""
        return self.high + self.low

    def __neg__(self) -> Pair:
        return Pair(-self.high, -self.low)

    def plus(self, other: Pair) -> Pair:
        """The sum."""
        total = exact_sum(self.high, other.high)
        return short_sum(total.high, total.low + (self.low + other.low))

    def plus_real(self, other: Real | float) -> Pair:
        """The sum with one number."""
        total = exact_sum(self.high, self.high.code.real(other))
        return short_sum(total.high, total.low + self.low)

    def times(self, other: Pair) -> Pair:
        """The product."""
        product = exact_product(self.high, other.high)
        rest = self.high.fused(other.low, product.low)
        return short_sum(product.high, self.low.fused(other.high, rest))

    def times_real(self, other: Real | float) -> Pair:
        """The product with one number."""
        product = exact_product(self.high, self.high.code.real(other))
        return short_sum(product.high, self.low.fused(other, product.low))

    def scaled(self, factor: Real | float) -> Pair:
        """The product with a power of two."""
        return Pair(self.high * factor, self.low * factor)

    def over(self, other: Pair) -> Pair:
        """The quotient: that of the high parts, and what is left of the dividend over the same divisor."""
        inverse = 1.0 / other.high
        quotient = self.high * inverse
        rest = (-quotient).fused(other.high, self.high)
        rest = (-quotient).fused(other.low, rest + self.low)
        return short_sum(quotient, rest * inverse)

    def root(self) -> Pair:
        """The square root of a positive number."""
        root = self.high.root()
        rest = (-root).fused(root, self.high) + self.low
        return short_sum(root, rest * (0.5 / root))


def exact(x: Real) -> Pair:
    """A number as a pair."""
    return Pair(x, x.code.real(0.0))


def constant_pair(like: Real, parts: tuple[float, float]) -> Pair:
    """A constant of two parts."""
    return Pair(like.code.real(parts[0]), like.code.real(parts[1]))


def exact_sum(a: Real | float, b: Real) -> Pair:
    """a + b without error."""
    first = b.code.real(a)
    total = first + b
    back = total - first
    return Pair(total, (first - (total - back)) + (b - back))


def short_sum(a: Real, b: Real) -> Pair:
    """a + b without error where a is not the smaller one."""
    total = a + b
    return Pair(total, b - (total - a))


def exact_product(a: Real, b: Real) -> Pair:
    """a * b without error."""
    product = a * b
    return Pair(product, a.fused(b, -product))


def odd_series(x: Pair, square: Real, coefficients: Sequence[float]) -> Pair:
    """x + x^3 (c0 + c1 x^2 + ...), where the second term is much smaller than the first."""
    cube = x.high * square
    return short_sum(x.high, cube.fused(polynomial(square, coefficients), x.low))
