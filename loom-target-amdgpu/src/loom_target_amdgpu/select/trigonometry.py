"""Selection of trigonometric functions of radians on f32, for arguments of any size, and of their inverses.

Up to 2^17 the multiple of pi/2 is subtracted in three parts with fused steps (Cody and Waite, "Software Manual for
the Elementary Functions", 1980); beyond, in lanes that need it, the product with 2/pi is formed in integers from the
bits of 2/pi that matter (Payne and Hanek, "Radian Reduction for Trigonometric Functions", ACM SIGNUM Newsletter 18,
1983). Polynomials are those of the single-precision functions of the Cephes library. Errors are a few units in the
last place.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Final

from loom.ir.core import Block
from loom.ir.types import F32, I32
from loom_target_amdgpu.select.control import conditional
from loom_target_amdgpu.select.conversions import scaled_f32
from loom_target_amdgpu.select.math_functions import (
    approximate_allowed,
    bits,
    fma,
    in_f32,
    less,
    magnitude,
    negated,
    polynomial,
    with_sign,
)
from loom_target_amdgpu.select.scalar_float import divide_f32, exact_sqrt
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Mask, Number, Word

_ONE: Final = bits(1.0)
_LARGE: Final = bits(2.0**17)
_TWO_OVER_PI: Final = bits(2 / math.pi)


def _f32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


_HALF_PI: Final = _f32(math.pi / 2)
_HALF_PI_NEXT: Final = _f32(math.pi / 2 - _HALF_PI)
_HALF_PI_LAST: Final = _f32(float.fromhex("0x1.1a62633145c07p-54") + (math.pi / 2 - _HALF_PI - _HALF_PI_NEXT))
"""pi/2 as a sum of three f32; the first constant is pi/2 less its f64."""
_BITS_OF_TWO_OVER_PI: Final = (
    0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB,
)  # fmt: skip
"""The first bits of 2/pi, from 32 places before the point on."""
_SIN: Final = (-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4)
_COS: Final = (4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5)
_TAN: Final = (
    3.33331568548e-1, 1.33387994085e-1, 5.34112807005e-2, 2.44301354525e-2, 3.11992232697e-3, 9.38540185543e-3,
)  # fmt: skip
_ATAN: Final = (-3.33329491539e-1, 1.99777106478e-1, -1.38776856032e-1, 8.05374449538e-2)
_ASIN: Final = (1.6666752422e-1, 7.4953002686e-2, 4.5470025998e-2, 2.4181311049e-2, 4.2163199048e-2)


# -- reduction -------------------------------------------------------------------------------------------------------


def _near(s: Selector, size: Word) -> list[Any]:
    """(rest, quarter) of a magnitude below 2^17."""
    n = s.emit.op("v_rndne_f32", s.emit.op("v_mul_f32", _TWO_OVER_PI, size))
    minus, rest = negated(s, n), size
    for part in (_HALF_PI, _HALF_PI_NEXT, _HALF_PI_LAST):
        rest = fma(s, minus, bits(part), rest)
    return [Number((rest,)), Number((s.emit.op("v_cvt_i32_f32", n),))]


def _far(s: Selector, size: Word) -> list[Any]:
    """The same for a magnitude from 2^17 on: significand * 2^(exponent - 23)."""
    arith, emit = s.arith, s.emit
    significand = arith.binary("or", arith.binary("and", size, 0x7FFFFF), 0x800000)
    exponent = arith.binary("shru", size, 23)
    # Bits of 2/pi that make whole turns drop out: the first (exponent - 23) - 2 after the point.
    dropped = arith.binary("add", exponent, 32 - 127 - 25)
    first, within = arith.binary("shru", dropped, 5), arith.binary("and", dropped, 31)
    starts = [Mask(emit.op("v_cmp_eq_i32", k, emit.register(first, False))) for k in range(4)]
    table: list[Word] = []
    for place in range(4):
        word: Word = _BITS_OF_TWO_OVER_PI[place + 4]
        for k in range(3, -1, -1):
            word = arith.select(starts[k], _BITS_OF_TWO_OVER_PI[place + k], word)
        table.append(word)
    high, middle, low = (arith.shift64("shl", (table[i + 1], table[i]), within)[1] for i in range(3))
    # The upper 64 of the lower 96 bits of significand * window: two of quadrant, then the fraction.
    bottom = arith.binary("mulhu", significand, low)
    product = arith.wide_product(significand, middle)
    product = arith.add64(product, (bottom, 0))
    product = (product[0], arith.binary("add", product[1], arith.binary("mul", significand, high)))
    quarter = arith.binary("shru", arith.binary("add", product[1], 1 << 29), 30)
    fraction = scaled_f32(s, arith.shift64("shl", product, 2), signed=True, to_odd=False)
    return [Number((emit.op("v_mul_f32", bits(math.pi / 2 * 2.0**-64), fraction),)), Number((quarter,))]


def _reduced(s: Selector, op: Any, size: Word) -> tuple[Word, Word]:
    """size - n pi/2 within [-pi/4, pi/4], and n modulo four in the lowest bits; NaN for what is not finite."""
    far = less(s, bits(2.0**17 - 1), size)
    results = [Block([F32]).args[0], Block([I32]).args[0]]
    found = conditional(s, op, far, [lambda: _far(s, size), lambda: _near(s, size)], results)
    rest, quarter = (part.lo for part in found if isinstance(part, Number))
    return s.emit.op("v_add_f32", rest, s.emit.op("v_sub_f32", size, size)), quarter


def _sine(s: Selector, x: Word, square: Word) -> Word:
    return fma(s, s.emit.op("v_mul_f32", x, square), polynomial(s, square, _SIN), x)


def _cosine(s: Selector, square: Word) -> Word:
    inner = fma(s, square, polynomial(s, square, _COS), bits(-0.5))
    return fma(s, square, inner, _ONE)


def _odd(s: Selector, quarter: Word) -> Mask:
    return Mask(s.emit.op("v_cmp_ne_i32", s.arith.binary("and", quarter, 1), 0))


def _circle(s: Selector, op: Any, x: Word, cosine: bool) -> Word:
    """Sine, or cosine as the sine a quarter further."""
    rest, quarter = _reduced(s, op, magnitude(s, x))
    if cosine:
        quarter = s.arith.binary("add", quarter, 1)
    square = s.emit.op("v_mul_f32", rest, rest)
    found = s.arith.select(_odd(s, quarter), _cosine(s, square), _sine(s, rest, square))
    found = s.arith.binary("xor", found, s.arith.binary("shl", s.arith.binary("and", quarter, 2), 30))
    return found if cosine else s.arith.binary("xor", found, s.arith.binary("and", x, 0x80000000))


def _tangent(s: Selector, op: Any, x: Word) -> Word:
    rest, quarter = _reduced(s, op, magnitude(s, x))
    square = s.emit.op("v_mul_f32", rest, rest)
    found = fma(s, s.emit.op("v_mul_f32", rest, square), polynomial(s, square, _TAN), rest)
    found = s.arith.select(_odd(s, quarter), divide_f32(s, bits(-1.0), found), found)
    return s.arith.binary("xor", found, s.arith.binary("and", x, 0x80000000))


def _direct(s: Selector, op: Any) -> None:
    if approximate_allowed(op) and op.name != "scalar.tanf":
        mnemonic = "v_sin_f32" if op.name == "scalar.sinf" else "v_cos_f32"
        turns = bits(1 / (2 * math.pi))
        in_f32(s, op, lambda s, x: s.emit.op(mnemonic, s.emit.op("v_mul_f32", turns, x)))
    elif op.name == "scalar.tanf":
        in_f32(s, op, lambda s, x: _tangent(s, op, x))
    else:
        in_f32(s, op, lambda s, x: _circle(s, op, x, op.name == "scalar.cosf"))


# -- inverses --------------------------------------------------------------------------------------------------------


def _arc_tangent(s: Selector, ratio: Word) -> Word:
    """The arc tangent for 0 <= x <= 1: from tan(pi/8) on, an eighth of a turn less."""
    emit = s.emit
    steep = less(s, bits(0.41421357), ratio)
    moved = divide_f32(s, emit.op("v_add_f32", bits(-1.0), ratio), emit.op("v_add_f32", _ONE, ratio))
    t = s.arith.select(steep, moved, ratio)
    square = emit.op("v_mul_f32", t, t)
    found = fma(s, emit.op("v_mul_f32", t, square), polynomial(s, square, _ATAN), t)
    return s.arith.select(steep, emit.op("v_add_f32", bits(math.pi / 4), found), found)


def _from_half_pi(s: Selector, angle: Word) -> Word:
    """pi/2 - angle, the constant in two parts."""
    rest = s.emit.op("v_sub_f32", angle, s.emit.constant(bits(_HALF_PI_NEXT), False))
    return s.emit.op("v_sub_f32", bits(_HALF_PI), rest)


def arc_tangent(s: Selector, x: Word) -> Word:
    """The arc tangent."""
    size = magnitude(s, x)
    large = less(s, _ONE, size)
    angle = _arc_tangent(s, s.arith.select(large, divide_f32(s, _ONE, size), size))
    angle = s.arith.select(large, _from_half_pi(s, angle), angle)
    found = with_sign(s, magnitude(s, angle), x)
    return s.arith.select(Mask(s.emit.op("v_cmp_u_f32", x, x)), x, found)


def angle_of(s: Selector, y: Word, x: Word) -> Word:
    """The angle of the point (x, y)."""
    emit, arith = s.emit, s.arith
    size_y, size_x = magnitude(s, y), magnitude(s, x)
    swap = less(s, size_x, size_y)
    small, large = arith.select(swap, size_x, size_y), arith.select(swap, size_y, size_x)
    ratio = divide_f32(s, small, large)
    # 0/0 is an angle of 0 here, and infinity over infinity one of 45 degrees.
    ratio = arith.select(Mask(emit.op("v_cmp_eq_f32", 0, emit.register(large, False))), 0, ratio)
    infinite = Mask(emit.op("v_cmp_eq_f32", 0x7F800000, emit.register(small, False)))
    angle = _arc_tangent(s, arith.select(infinite, _ONE, ratio))
    angle = arith.select(swap, _from_half_pi(s, angle), angle)
    rest = emit.op("v_sub_f32", angle, emit.constant(bits(2 * _HALF_PI_NEXT), False))
    opposite = emit.op("v_sub_f32", bits(2 * _HALF_PI), rest)
    angle = arith.select(Mask(emit.op("v_cmp_gt_i32", 0, x)), opposite, angle)
    found = with_sign(s, magnitude(s, angle), y)
    return arith.select(Mask(emit.op("v_cmp_u_f32", x, y)), emit.op("v_add_f32", x, y), found)


def _arc_sine_parts(s: Selector, size: Word) -> tuple[Mask, Word]:
    """Whether |x| is above a half, and the arc sine of |x| or of sqrt((1 - |x|) / 2)."""
    emit = s.emit
    large = less(s, bits(0.5), size)
    half_rest = fma(s, size, bits(-0.5), bits(0.5))
    square = s.arith.select(large, half_rest, emit.op("v_mul_f32", size, size))
    t = s.arith.select(large, exact_sqrt(s, half_rest), size)
    return large, fma(s, emit.op("v_mul_f32", t, square), polynomial(s, square, _ASIN), t)


def arc_sine(s: Selector, x: Word) -> Word:
    """The arc sine; NaN beyond one."""
    large, part = _arc_sine_parts(s, magnitude(s, x))
    found = s.arith.select(large, _from_half_pi(s, s.emit.op("v_add_f32", part, part)), part)
    return with_sign(s, found, x)


def arc_cosine(s: Selector, x: Word) -> Word:
    """The arc cosine; NaN beyond one."""
    emit = s.emit
    size = magnitude(s, x)
    large, part = _arc_sine_parts(s, size)
    twice = emit.op("v_add_f32", part, part)
    rest = emit.op("v_sub_f32", twice, emit.constant(bits(2 * _HALF_PI_NEXT), False))
    negative = Mask(emit.op("v_cmp_gt_i32", 0, x))
    far = s.arith.select(negative, emit.op("v_sub_f32", bits(2 * _HALF_PI), rest), twice)
    return s.arith.select(large, far, _from_half_pi(s, with_sign(s, part, x)))


_INVERSES: Final[dict[str, Callable[..., Word]]] = {
    "scalar.asinf": arc_sine,
    "scalar.acosf": arc_cosine,
    "scalar.atanf": arc_tangent,
    "scalar.atan2f": angle_of,
}
RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("scalar.sinf", "scalar.cosf", "scalar.tanf"), _direct),
    **dict.fromkeys(_INVERSES, lambda s, op: in_f32(s, op, _INVERSES[op.name])),
}
