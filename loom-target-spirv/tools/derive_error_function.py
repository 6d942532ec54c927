"""Derive the coefficients of `loom_target_spirv.error_function` and measure their error.

erfc(x) = t exp(-x**2) p(u) with t = 2 / (2 + x) and u = (t - MIDDLE) / HALF in [-1, 1] for 0 <= x <= 10.5: p
interpolates at Chebyshev nodes in 140 digits, is cut at a degree, and written in powers of u.

Run: python tools/derive_error_function.py
"""

from __future__ import annotations

import math
import random
from decimal import Decimal, getcontext

DIGITS, NODES, DEGREE = 140, 26, 20
LOW, HIGH = Decimal(2) / Decimal("12.5"), Decimal(1)
MIDDLE, HALF = (HIGH + LOW) / 2, (HIGH - LOW) / 2


def _arctan_of_inverse(n: int) -> Decimal:
    total = term = Decimal(1) / n
    k = 1
    while abs(term) > Decimal(10) ** -DIGITS:
        term = -term / (n * n)
        k += 2
        total += term / k
    return total


getcontext().prec = DIGITS
PI = 4 * (4 * _arctan_of_inverse(5) - _arctan_of_inverse(239))


def erfc(x: Decimal) -> Decimal:
    """The complementary error function, from the series of the error function."""
    total = term = x
    n = 0
    while abs(term) > Decimal(10) ** (10 - DIGITS) or n <= x * x:
        n += 1
        term = -term * x * x / n
        total += term / (2 * n + 1)
    return 1 - 2 / PI.sqrt() * total


def cosine(x: Decimal) -> Decimal:
    """The cosine, from its series."""
    total = term = Decimal(1)
    n = 0
    while abs(term) > Decimal(10) ** (10 - DIGITS):
        n += 2
        term = -term * x * x / (n * (n - 1))
        total += term
    return total


def interpolate() -> list[Decimal]:
    """Chebyshev coefficients of p."""

    def p(u: Decimal) -> Decimal:
        t = MIDDLE + HALF * u
        x = 2 / t - 2
        return erfc(x) * (x * x).exp() / t

    angles = [PI * (2 * k + 1) / (2 * NODES) for k in range(NODES)]
    values = [p(cosine(angle)) for angle in angles]
    sums = [sum((v * cosine(j * a) for v, a in zip(values, angles, strict=True)), Decimal(0)) for j in range(NODES)]
    return [sums[0] / NODES, *(2 * s / NODES for s in sums[1:])]


def powers(chebyshev: list[Decimal]) -> list[Decimal]:
    """Coefficients of u**i of a Chebyshev series cut at DEGREE."""
    basis = [[Decimal(1)], [Decimal(0), Decimal(1)]]
    while len(basis) <= DEGREE:
        following = [Decimal(0), *(2 * v for v in basis[-1])]
        for i, value in enumerate(basis[-2]):
            following[i] -= value
        basis.append(following)
    result = [Decimal(0)] * (DEGREE + 1)
    for coefficient, polynomial in zip(chebyshev, basis, strict=False):
        for i, value in enumerate(polynomial):
            result[i] += coefficient * value
    return result


def worst_error(coefficients: list[float]) -> float:
    """The largest relative error of an evaluation in double precision, over random arguments."""
    rng = random.Random(1)
    worst = 0.0
    for _ in range(1000):
        x = rng.uniform(0, 10.5)
        t = 2 / (2 + x)
        u = (t - float(MIDDLE)) / float(HALF)
        p = 0.0
        for coefficient in reversed(coefficients):
            p = p * u + coefficient
        exact = erfc(Decimal(x))
        worst = max(worst, abs(float((Decimal(p * t * math.exp(-x * x)) - exact) / exact)))
    return worst


if __name__ == "__main__":
    found = [float(c) for c in powers(interpolate())]
    for coefficient in found:
        print(coefficient)
    print("relative error", worst_error(found))
