"""Selection of elementary functions on f32 (and on 16-bit floats through f32).

The hardware's exponential, logarithm and reciprocal root are accurate to about one unit in the last place but flush
denormals: arguments and results near them are scaled by powers of two. Under ``afn`` the bare instruction is used.
Reductions split constants in two parts (Cody and Waite, "Software Manual for the Elementary Functions", 1980).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from loom_target_amdgpu.select.scalar_float import as_f32, divide_f32, kind, narrow_bf16, refuse
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Mask, Number, Word


def bits(value: float) -> int:
    """The pattern of an f32."""
    return int.from_bytes(struct.pack("<f", value), "little")


_LOG2_E: Final = bits(1.4426950408889634)
_LN2_HIGH, _LN2_LOW = bits(0.693145751953125), bits(1.42860682030941723212e-6)
_LOG10_2_HIGH, _LOG10_2_LOW = bits(0.30102920532226562), bits(7.9034151667651e-7)
_SMALLEST_NORMAL: Final = bits(2.0**-126)
_ONE: Final = bits(1.0)
_INFINITY: Final = 0x7F800000
# tanh(x) = x + x^3 * P(x^2) for |x| < 0.625 (minimax polynomial of the Cephes library's single-precision tanh).
_TANH: Final = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)


def approximate_allowed(op: Any) -> bool:
    """Whether the flags of an operation allow approximate functions."""
    flags = op.flags or ()
    return "afn" in flags or "fast" in flags


def less(s: Selector, a: Word, b: Word) -> Mask:
    """Lanes in which ``a < b`` as f32."""
    return Mask(s.emit.op("v_cmp_lt_f32", a, b))


def fma(s: Selector, a: Word, b: Word, c: Word) -> Word:
    """``a * b + c`` as f32, rounded once."""
    emit = s.emit
    registers = [w if not isinstance(w, int) else emit.constant(w, scalar=False) for w in (a, b, c)]
    return emit.op("v_fma_f32", *registers)


def fma_less(s: Selector, a: Word, b: Word, c: Word) -> Word:
    """c - a * b, rounded once."""
    return s.emit.op("v_fma_f32_neg_a", a, b, c)


def negated(s: Selector, x: Word) -> Word:
    """-x."""
    return s.arith.binary("xor", x, 0x80000000)


def magnitude(s: Selector, x: Word) -> Word:
    """|x|."""
    return s.arith.binary("and", x, 0x7FFFFFFF)


def with_sign(s: Selector, size: Word, x: Word) -> Word:
    """A magnitude with the sign of x."""
    return s.arith.binary("or", size, s.arith.binary("and", x, 0x80000000))


def polynomial(s: Selector, x: Word, coefficients: Sequence[float]) -> Word:
    """The sum of coefficients[i] * x^i, by Horner's rule."""
    total: Word = bits(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = fma(s, total, x, bits(coefficient))
    return total


def exp2(s: Selector, x: Word, approximate: bool) -> Word:
    """2^x; results below the normal range are computed 64 binades higher."""
    emit = s.emit
    if approximate:
        return emit.op("v_exp_f32", x)
    small = less(s, x, bits(-126.0))
    shifted = emit.op("v_add_f32", x, s.arith.select(small, bits(64.0), 0))
    return emit.op("v_mul_f32", emit.op("v_exp_f32", shifted), s.arith.select(small, bits(2.0**-64), _ONE))


def exp_parts(s: Selector, x: Word) -> tuple[Word, Word]:
    """e^x = power * 2^n with n the nearest integer to x / ln 2: (power, n), for arguments of moderate size."""
    emit = s.emit
    n = emit.op("v_rndne_f32", emit.op("v_mul_f32", _LOG2_E, x))
    rest = fma_less(s, n, _LN2_LOW, fma_less(s, n, _LN2_HIGH, x))
    return emit.op("v_exp_f32", emit.op("v_mul_f32", _LOG2_E, rest)), emit.op("v_cvt_i32_f32", n)


def exp(s: Selector, x: Word, approximate: bool) -> Word:
    """e^x."""
    emit = s.emit
    if approximate:
        return emit.op("v_exp_f32", emit.op("v_mul_f32", _LOG2_E, x))
    power, n = exp_parts(s, x)
    found: Word = emit.op("v_ldexp_f32", power, n)
    # Far outside, the reduction itself overflows.
    found = s.arith.select(less(s, bits(89.0), x), _INFINITY, found)
    return s.arith.select(less(s, x, bits(-104.0)), 0, found)


def _scaled_log2(s: Selector, x: Word) -> tuple[Word, Word]:
    """(log2 of the scaled argument, what the scaling added)."""
    small = less(s, x, _SMALLEST_NORMAL)
    scaled = s.emit.op("v_mul_f32", x, s.arith.select(small, bits(2.0**32), _ONE))
    return s.emit.op("v_log_f32", scaled), s.arith.select(small, bits(32.0), 0)


def log2(s: Selector, x: Word, approximate: bool) -> Word:
    """Logarithm to base 2."""
    if approximate:
        return s.emit.op("v_log_f32", x)
    found, added = _scaled_log2(s, x)
    return s.emit.op("v_sub_f32", found, added)


def _log_with(high: int, low: int) -> Callable[[Selector, Word, bool], Word]:
    """A logarithm as log2 times a constant of two parts."""

    def apply(s: Selector, x: Word, approximate: bool) -> Word:
        emit = s.emit
        if approximate:
            return emit.op("v_mul_f32", high, emit.op("v_log_f32", x))
        y = log2(s, x, False)
        product = emit.op("v_mul_f32", high, y)
        error = fma(s, y, high, s.arith.binary("xor", product, 0x80000000))
        exact: Word = emit.op("v_add_f32", product, fma(s, y, low, error))
        # An infinite logarithm has no error to correct.
        finite = Mask(emit.op("v_cmp_class_f32", y, 0x1F8))
        return s.arith.select(finite, exact, y)

    return apply


def reciprocal_root(s: Selector, x: Word, approximate: bool) -> Word:
    """1 / sqrt(x)."""
    emit = s.emit
    if approximate:
        return emit.op("v_rsq_f32", x)
    small = less(s, x, _SMALLEST_NORMAL)
    scaled = emit.op("v_mul_f32", x, s.arith.select(small, bits(2.0**24), _ONE))
    return emit.op("v_mul_f32", emit.op("v_rsq_f32", scaled), s.arith.select(small, bits(2.0**12), _ONE))


def logistic(s: Selector, x: Word, approximate: bool) -> Word:
    """1 / (1 + e^-x), from e^-|x|, which cannot overflow."""
    emit = s.emit
    if approximate:
        below = emit.op("v_add_f32", _ONE, exp(s, s.arith.binary("xor", x, 0x80000000), True))
        return emit.op("v_rcp_f32", below)
    power = exp(s, s.arith.binary("or", x, 0x80000000), False)
    numerator = s.arith.select(less(s, x, 0), power, _ONE)
    return divide_f32(s, numerator, emit.op("v_add_f32", _ONE, power))


def _silu(s: Selector, x: Word, approximate: bool) -> Word:
    return s.emit.op("v_mul_f32", x, logistic(s, x, approximate))


def tanh(s: Selector, x: Word, approximate: bool) -> Word:
    """A polynomial near zero, 1 - 2 / (e^2|x| + 1) elsewhere."""
    emit = s.emit
    magnitude = s.arith.binary("and", x, 0x7FFFFFFF)
    power = exp(s, emit.op("v_add_f32", magnitude, magnitude), approximate)
    ratio = divide_f32(s, bits(2.0), emit.op("v_add_f32", _ONE, power))
    large = emit.op("v_sub_f32", _ONE, ratio)
    large_signed = s.arith.binary("or", s.arith.binary("and", large, 0x7FFFFFFF), s.arith.binary("and", x, 0x80000000))
    square = emit.op("v_mul_f32", x, x)
    total: Word = bits(_TANH[0])
    for coefficient in _TANH[1:]:
        total = fma(s, total, square, bits(coefficient))
    small = fma(s, emit.op("v_mul_f32", total, square), x, x)
    return s.arith.select(less(s, magnitude, bits(0.625)), small, large_signed)


def _turns(cosine: bool) -> Callable[[Selector, Word, bool], Word]:
    """Sine or cosine of whole turns, the instruction's own unit: exact at quarter turns, where the rest is zero."""

    def apply(s: Selector, x: Word, approximate: bool) -> Word:
        emit = s.emit
        if approximate:
            return emit.op("v_cos_f32" if cosine else "v_sin_f32", x)
        quarters = emit.op("v_rndne_f32", emit.op("v_mul_f32", bits(4.0), x))
        rest = fma(s, quarters, bits(-0.25), x)
        # Large arguments are whole turns and would not fit an integer: their quarters are counted modulo four first.
        turns = emit.op("v_fract_f32", emit.op("v_mul_f32", bits(0.25), quarters))
        quadrant: Word = emit.op("v_cvt_i32_f32", emit.op("v_mul_f32", bits(4.0), turns))
        if cosine:
            quadrant = s.arith.binary("add", quadrant, 1)
        odd = Mask(emit.op("v_cmp_ne_i32", s.arith.binary("and", quadrant, 1), 0))
        found = s.arith.select(odd, emit.op("v_cos_f32", rest), emit.op("v_sin_f32", rest))
        flip = s.arith.binary("shl", s.arith.binary("and", quadrant, 2), 30)
        return s.arith.binary("xor", found, flip)

    return apply


log: Final = _log_with(_LN2_HIGH, _LN2_LOW)
_FUNCTIONS: Final[dict[str, Callable[[Selector, Word, bool], Word]]] = {
    "scalar.exp2f": exp2,
    "scalar.expf": exp,
    "scalar.log2f": log2,
    "scalar.logf": log,
    "scalar.log10f": _log_with(_LOG10_2_HIGH, _LOG10_2_LOW),
    "scalar.rsqrtf": reciprocal_root,
    "scalar.logisticf": logistic,
    "scalar.siluf": _silu,
    "scalar.tanhf": tanh,
    "scalar.sinturnsf": _turns(False),
    "scalar.costurnsf": _turns(True),
}


def in_f32(s: Selector, op: Any, apply: Callable[..., Word]) -> None:
    """A function of f32 words on operands of at most 32 bits; narrower results are rounded once more."""
    if kind(op.result) not in ("f16", "bf16", "f32"):
        raise refuse(s, op, op.result)
    words = [s.emit.register(as_f32(s, op, v), False) for v in op.operands]
    found = s.emit.register(apply(s, *words), False)
    type_ = kind(op.result)
    if type_ == "f16":
        found = s.emit.op("v_cvt_f16_f32", found)
    s.set(op.result, Number((narrow_bf16(s, found) if type_ == "bf16" else found,)))


def _function(s: Selector, op: Any) -> None:
    approximate = approximate_allowed(op)
    in_f32(s, op, lambda s, x: _FUNCTIONS[op.name](s, x, approximate))


RULES: Final[dict[str, Rule]] = dict.fromkeys(_FUNCTIONS, _function)
