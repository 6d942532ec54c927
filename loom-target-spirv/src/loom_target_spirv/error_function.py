"""The error function for results of f32 precision, in f64.

tools/derive_error_function.py derives the coefficients and measures a relative error below 1e-14.
"""

from __future__ import annotations

import math
from typing import Final

from loom_target_spirv.elementary import exp
from loom_target_spirv.reals import Real, polynomial
from loom_target_spirv.types import BOOL

_MIDDLE: Final = 0.58
_HALF: Final = 0.42
_LARGEST: Final = 10.5
"""From here on erfc is zero in f32."""

_COEFFICIENTS: Final = (
    0.5694087224462934,
    0.3271879313780297,
    0.10352099342819944,
    0.006307919543518696,
    -0.006327342059259013,
    -0.0006719585141822665,
    0.0006251753304013047,
    2.825984475025909e-06,
    -7.116370963326113e-05,
    1.4181841371895746e-05,
    5.681306540744466e-06,
    -3.5026991622738746e-06,
    2.8939963389449536e-07,
    4.1664413313981365e-07,
    -1.9814091388474357e-07,
    1.0440380323688472e-08,
    2.9242856793345835e-08,
    -1.3050600738404322e-08,
    -1.4876148684876776e-10,
    1.724023762991693e-09,
    -3.8734504050687957e-10,
)

_SERIES: Final = tuple(2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(16))
"""erf(x) / x in powers of x**2, for |x| up to 1/2."""


def _erfc_of_magnitude(size: Real) -> Real:
    """erfc(x) for x >= 0."""
    bounded = size.clamp(-1.0, _LARGEST)
    t = 2.0 / (bounded + 2.0)
    u = (t - _MIDDLE) * (1 / _HALF)
    always = size.function.module.constant(BOOL, 1)
    return polynomial(u, _COEFFICIENTS) * t * exp((size * size).flipped(always))


def erf(x: Real) -> Real:
    """The error function: its series near zero, the complement elsewhere."""
    size = x.magnitude()
    near = size * polynomial(size * size, _SERIES)
    far = 1.0 - _erfc_of_magnitude(size)
    return near.choose(size.less(0.5), far).with_sign_of(x)


def erfc(x: Real) -> Real:
    """1 - erf(x), without the loss of the subtraction for positive x."""
    complement = _erfc_of_magnitude(x.magnitude())
    return (2.0 - complement).choose(x.is_negative(), complement)


def gelu(x: Real) -> Real:
    """x (1 + erf(x / sqrt 2)) / 2"""
    always = x.function.module.constant(BOOL, 1)
    scaled = (x * math.sqrt(0.5)).flipped(always)
    return x * 0.5 * erfc(scaled)
