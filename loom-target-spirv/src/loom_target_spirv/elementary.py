"""Elementary functions in f64, to within a few units of its last place.

Vulkan allows the extended instructions of GLSL.std.450 large errors ("Vulkan Specification", appendix "Precision
and Operation of SPIR-V Instructions": sine within 2**-11, exponentials within 3 + 2|x| units) and defines them
for f16 and f32 only.  An f16 or f32 function is computed here in f64 and rounded once, which gives the nearest
value but for exact results within about 2**-46 of the middle between two neighbours.

Method: reduction of the argument to a small interval, then a series short of f64's last place there; special
values follow C23 annex F.
"""

from __future__ import annotations

import math
from typing import Final

from loom_target_spirv.module import Value
from loom_target_spirv.reals import Real, polynomial, real_of_bits, scaled, zero
from loom_target_spirv.types import BOOL, F64, U32
from loom_target_spirv.wide_integer import Arithmetic

LN2_HIGH: Final = float.fromhex("0x1.62e42fee00000p-1")
"""ln 2 to 33 bits, so that products with exponents of f64 are exact."""
LN2_LOW: Final = float.fromhex("0x1.a39ef35793c76p-33")
"""ln 2 - LN2_HIGH."""

_HALF_PI: Final = math.pi / 2
_HALF_PI_LOW: Final = float.fromhex("0x1.1a62633145c07p-54")
"""pi/2 - _HALF_PI."""

_EXP: Final = [1 / math.factorial(n) for n in range(15)]
_LOG: Final = [2 / (2 * n + 1) for n in range(12)]
_SIN: Final = [(-1) ** n / math.factorial(2 * n + 1) for n in range(9)]
_COS: Final = [(-1) ** n / math.factorial(2 * n) for n in range(10)]
_ATAN: Final = [(-1) ** n / (2 * n + 1) for n in range(16)]

_SQRT3: Final = math.sqrt(3.0)
_TAN_15: Final = 2 - _SQRT3


def _is_nan(x: Real) -> Value:
    return x.function.op("OpIsNan", BOOL, x.value)


def _exp_parts(x: Real) -> tuple[Real, Value]:
    """x = k ln 2 + r with |r| <= ln 2 / 2: r and the 32-bit k, for |x| up to 746."""
    k = (x * (1 / math.log(2))).nearest()
    return x - k * LN2_HIGH - k * LN2_LOW, k.integer()


def exp(x: Real) -> Real:
    """e**x"""
    rest, k = _exp_parts(x.clamp(-746.0, 710.0))
    return x.choose(_is_nan(x), scaled(polynomial(rest, _EXP), k))


def exp2(x: Real) -> Real:
    """2**x, exact for integral x."""
    bounded = x.clamp(-1076.0, 1025.0)
    k = bounded.nearest()
    return x.choose(_is_nan(x), scaled(polynomial((bounded - k) * math.log(2), _EXP), k.integer()))


def expm1(x: Real) -> Real:
    """e**x - 1"""
    bounded = x.clamp(-64.0, 710.0)
    rest, k = _exp_parts(bounded)
    # e**r - 1 without the loss of adding the 1: r times the series of (e**r - 1) / r.
    small = rest * polynomial(rest, _EXP[1:])
    power = scaled(x.like(1.0), k)
    whole = scaled(small, k) + (power - 1.0)
    unscaled = Arithmetic(x.function).compare("OpIEqual", k, 0)
    result = small.choose(unscaled, whole)
    # The sign of a zero stays.
    return x.choose(_is_nan(x), result).with_sign_of(x)


def _log_parts(x: Real) -> tuple[Real, Real]:
    """x = m * 2**e with m between sqrt(1/2) and sqrt(2): ln m and e, for finite positive x."""
    function, words = x.function, Arithmetic(x.function)
    tiny = x.less(2.0**-1022)
    bits = (x * 2.0**54).choose(tiny, x).bits()
    # The exponent that leaves m in [sqrt(1/2), sqrt(2)): the field after adding what carries from sqrt(2) on.
    carry = (1 << 52) - (int(math.sqrt(2.0) * (1 << 52)) - (1 << 52))
    raised = words.binary("OpShiftRightLogical", words.binary("OpIAdd", bits, carry), 52)
    exponent = words.binary("OpISub", words.low(raised), 1023)
    shifted = words.binary("OpShiftLeftLogical", words.binary("OpISub", raised, 1023), 52)
    m = real_of_bits(function, words.binary("OpISub", bits, shifted))
    exponent = words.binary("OpISub", exponent, words.select(tiny, words.constant(U32, 54), 0))
    s = (m - 1.0) / (m + 1.0)
    whole = Real(function, function.op("OpConvertSToF", F64, exponent))
    return s * polynomial(s * s, _LOG), whole


def _log_special(x: Real, result: Real) -> Real:
    """The logarithm's values where x is no finite positive number."""
    null = zero(x)
    result = x.like(-math.inf).choose(x.equals(null), result)
    negative = x.less(null)
    result = x.like(math.nan).choose(negative, result)
    result = x.choose(x.equals(math.inf), result)
    return x.choose(_is_nan(x), result)


def log(x: Real) -> Real:
    """The natural logarithm."""
    fraction, e = _log_parts(x)
    return _log_special(x, e * LN2_HIGH + (e * LN2_LOW + fraction))


def log2(x: Real) -> Real:
    """The logarithm to base 2, exact for powers of two."""
    fraction, e = _log_parts(x)
    return _log_special(x, e + fraction * (1 / math.log(2)))


def log10(x: Real) -> Real:
    """The logarithm to base 10."""
    fraction, e = _log_parts(x)
    high = float.fromhex("0x1.34413509f0000p-2")
    low = float.fromhex("0x1.e7fbcc47c4acdp-40")
    return _log_special(x, e * high + (e * low + fraction * (1 / math.log(10))))


def log1p(x: Real) -> Real:
    """ln(1 + x): the logarithm of the rounded sum, corrected by what rounding took."""
    total = x + 1.0
    correct = log(total) * (x / (total - 1.0))
    result = x.choose(total.equals(1.0), correct)
    return total.choose(total.equals(math.inf), result)


def rsqrt(x: Real) -> Real:
    """1 / sqrt(x)"""
    return 1.0 / x.root()


def cbrt(x: Real) -> Real:
    """The cube root: an estimate, and a step of Newton's method."""
    size = x.magnitude()
    fraction, e = _log_parts(size)
    y = exp(e * (math.log(2) / 3) + fraction * (1 / 3))
    y = y - (y - size / (y * y)) * (1 / 3)
    finite = size.less(math.inf)
    null = zero(x)
    return x.choose(size.equals(null), y.choose(finite, x)).with_sign_of(x)


def sin_cos(x: Real) -> tuple[Real, Real]:
    """Sine and cosine for |x| up to pi/4."""
    square = x * x
    return x * polynomial(square, _SIN), polynomial(square, _COS)


def quadrant(sine: Real, cosine: Real, quarter: Value) -> Real:
    """sin(rest + quarter * pi/2) from the sine and cosine of the rest."""
    words = Arithmetic(sine.function)
    odd = words.compare("OpINotEqual", words.binary("OpBitwiseAnd", quarter, 1), 0)
    negative = words.compare("OpINotEqual", words.binary("OpBitwiseAnd", quarter, 2), 0)
    return cosine.choose(odd, sine).flipped(negative)


def _turns(x: Real) -> tuple[Real, Real, Value]:
    """Sine and cosine of what is left of x turns after whole quarters, and the quarters; all exact but the
    functions.
    """
    size = x.magnitude()
    part = (size - size.floor()).with_sign_of(x)
    quarter = (part * 4.0).nearest()
    sine, cosine = sin_cos((part - quarter * 0.25) * (2 * math.pi))
    return sine, cosine, quarter.integer()


def sin_turns(x: Real) -> Real:
    """sin(2 pi x); zeros have the sign of x."""
    value = quadrant(*_turns(x))
    return value.with_sign_of(x).choose(value.equals(zero(x)), value)


def cos_turns(x: Real) -> Real:
    """cos(2 pi x); zeros are positive."""
    sine, cosine, quarter = _turns(x)
    value = quadrant(sine, cosine, Arithmetic(x.function).binary("OpIAdd", quarter, 1))
    return value.magnitude().choose(value.equals(zero(x)), value)


def _atan_small(x: Real) -> Real:
    """The arc tangent for 0 <= x <= 1: from 15 degrees on, 30 degrees less."""
    steep = x.like(_TAN_15).less(x)
    moved = (x * _SQRT3 - 1.0) / (x + _SQRT3)
    t = moved.choose(steep, x)
    value = t * polynomial(t * t, _ATAN)
    return (value + math.pi / 6).choose(steep, value)


def atan(x: Real) -> Real:
    """The arc tangent."""
    size = x.magnitude()
    large = size.like(1.0).less(size)
    value = _atan_small((1.0 / size).choose(large, size))
    return (_HALF_PI - (value - _HALF_PI_LOW)).choose(large, value).with_sign_of(x)


def atan2(y: Real, x: Real) -> Real:
    """The angle of the point (x, y)."""
    words = Arithmetic(x.function)
    size_y, size_x = y.magnitude(), x.magnitude()
    swap = size_x.less(size_y)
    small, large = size_x.choose(swap, size_y), size_y.choose(swap, size_x)
    ratio = small / large
    # 0/0 is an angle of 0 here, and infinity over infinity one of 45 degrees.
    ratio = small.choose(large.equals(zero(x)), ratio)
    ratio = x.like(1.0).choose(small.equals(math.inf), ratio)
    angle = _atan_small(ratio)
    angle = (_HALF_PI - (angle - _HALF_PI_LOW)).choose(swap, angle)
    angle = (math.pi - (angle - 2 * _HALF_PI_LOW)).choose(x.is_negative(), angle)
    nan = words.either(_is_nan(x), _is_nan(y))
    return (x + y).choose(nan, angle.with_sign_of(y))


def asin(x: Real) -> Real:
    """The arc sine."""
    return atan2(x, ((1.0 - x) * (1.0 + x)).root())


def acos(x: Real) -> Real:
    """The arc cosine."""
    return atan2(((1.0 - x) * (1.0 + x)).root(), x)


def sinh(x: Real) -> Real:
    """The hyperbolic sine."""
    u = expm1(x.magnitude())
    value = (u + u / (u + 1.0)) * 0.5
    return u.choose(u.equals(math.inf), value).with_sign_of(x)


def cosh(x: Real) -> Real:
    """The hyperbolic cosine."""
    e = exp(x.magnitude())
    return (e + 1.0 / e) * 0.5


def tanh(x: Real) -> Real:
    """The hyperbolic tangent."""
    u = expm1(x.magnitude().clamp(-1.0, 20.0) * 2.0)
    return (u / (u + 2.0)).with_sign_of(x)


def asinh(x: Real) -> Real:
    """The inverse hyperbolic sine."""
    size = x.magnitude()
    square = size * size
    value = log1p(size + square / ((square + 1.0).root() + 1.0))
    return size.choose(size.equals(math.inf), value).with_sign_of(x)


def acosh(x: Real) -> Real:
    """The inverse hyperbolic cosine."""
    t = x - 1.0
    # Below 1 the first root is NaN, as it shall be.
    return log1p(t + t.root() * (t + 2.0).root())


def atanh(x: Real) -> Real:
    """The inverse hyperbolic tangent."""
    size = x.magnitude()
    return (log1p((size + size) / (1.0 - size)) * 0.5).with_sign_of(x)


def logistic(x: Real) -> Real:
    """1 / (1 + e**-x), with an exponential that does not overflow."""
    decayed = exp(x.magnitude().flipped(x.function.module.constant(BOOL, 1)))
    negative = x.is_negative()
    return decayed.choose(negative, 1.0) / (decayed + 1.0)


def silu(x: Real) -> Real:
    """x * logistic(x)"""
    return x * logistic(x)


def softplus(x: Real) -> Real:
    """ln(1 + e**x)"""
    decayed = exp(x.magnitude().flipped(x.function.module.constant(BOOL, 1)))
    null = zero(x)
    above = null.less(x)
    value = log1p(decayed)
    return x.choose(_is_nan(x), (value + x).choose(above, value))


def power(x: Real, y: Real) -> Real:
    """x**y for results of f32 precision: the exponent's error grows with y ln x."""
    function, words = x.function, Arithmetic(x.function)
    null = zero(x)
    size = x.magnitude()
    value = exp(y * log(size))
    value = x.like(1.0).choose(size.equals(1.0), value)
    integral = y.equals(y.floor())
    half = y * 0.5
    odd = words.both(integral, function.op("OpLogicalNot", BOOL, half.equals(half.floor())))
    value = value.flipped(words.both(odd, x.is_negative()))
    # A negative base has powers with integral exponents only; zero and infinity do not count as negative.
    base = words.both(x.less(null), function.op("OpFOrdGreaterThan", BOOL, x.value, x.like(-math.inf).value))
    finite = y.magnitude().less(math.inf)
    fractional = words.both(finite, function.op("OpLogicalNot", BOOL, integral))
    value = x.like(math.nan).choose(words.both(base, fractional), value)
    value = (x + y).choose(words.either(_is_nan(x), _is_nan(y)), value)
    always = words.either(x.equals(1.0), y.equals(null))
    return x.like(1.0).choose(always, value)


def gelu_tanh(x: Real) -> Real:
    """x (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3))) / 2"""
    inner = (x + x * 0.044715 * x * x) * (2 * math.sqrt(2 / math.pi))
    return x * logistic(inner)
