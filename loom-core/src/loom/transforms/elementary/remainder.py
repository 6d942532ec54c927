"""The exact remainder: significands modulo each other, fifty bits of quotient at a time."""

from __future__ import annotations

import math
from typing import Final

from loom.transforms.elementary.formulas import Bits, Code, Real, power_of_two, repeated

_CHUNK: Final = 50
_FRACTION: Final = (1 << 52) - 1


def _parts(size: Real) -> tuple[Real, Bits]:
    """size = m 2^e with m a whole number of 53 bits: m and e, for finite numbers but zero."""
    tiny = size < 2.0**-1022
    bits = tiny.choose(size * 2.0**54, size).bits()
    significand = ((bits & _FRACTION) | (1075 << 52)).as_real()
    return significand, (bits >> 52) - 1075 - tiny.choose_bits(54, 0)


def _modulo(value: Real, divisor: Real, inverse: Real) -> Real:
    """A whole number below 2^50 divisors modulo the divisor: the estimated quotient is off by one at most."""
    quotient = (value * inverse).floor()
    rest = (-quotient).fused(divisor, value)
    rest = (rest < 0.0).choose(rest + divisor, rest)
    return (rest >= divisor).choose(rest - divisor, rest)


def remainder(x: Real, y: Real) -> Real:
    """x - trunc(x / y) y without any error, with the sign of x."""
    sizes = abs(x), abs(y)
    (whole, e), (divisor, least) = _parts(sizes[0]), _parts(sizes[1])
    gap = (e - least).at_least(0).at_most(2100)
    # The first chunk takes what the others leave; 1311 / 2^16 is a fiftieth.
    chunks = ((gap + (_CHUNK - 1)) * 1311) >> 16
    first = gap - (chunks.at_least(1) - 1) * _CHUNK
    inverse = 1.0 / divisor
    start = _modulo(_modulo(whole, divisor, inverse) * power_of_two(first), divisor, inverse)

    def step(code: Code, _: Bits, values: list[Real]) -> list[Real]:
        inner = Real(code, divisor.value)
        return [_modulo(values[0] * 2.0**_CHUNK, inner, Real(code, inverse.value))]

    (rest,) = repeated(x.code, chunks.at_least(1) - 1, [start], step)
    half = least.arithmetic_shift(1)
    value = (rest * power_of_two(half) * power_of_two(least - half)).with_sign_of(x)
    value = (sizes[0] < sizes[1]).choose(x, value)
    defined = (sizes[0] < math.inf) & (sizes[1] > 0.0)
    return defined.choose(value, (x - x) / (x - x))
