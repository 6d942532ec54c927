"""Integer division: exact for every pair of operands inside the contract (divisor not zero).

By a constant: multiplication by a scaled reciprocal (Granlund and Montgomery, "Division by Invariant Integers using
Multiplication", PLDI 1994). Otherwise a floating-point estimate of 2^n / d, refined in integers until the quotient
is at most two too small, then corrected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loom_target_amdgpu.select.compare import compare_words
from loom_target_amdgpu.select.values import MASK32, Word, is_scalar

if TYPE_CHECKING:
    from loom_target_amdgpu.select.selector import Selector

Pair = tuple[Word, Word]

# f32 bit patterns. The scale is the largest float below 2^32 (2^64) that keeps the estimate from being too large.
_SCALE32: Final = 0x4F7FFFFE
_SCALE64: Final = 0x5F7FFFFC
_TWO_32: Final = 0x4F800000
_MINUS_TWO_32: Final = 0xCF800000
_TWO_MINUS_32: Final = 0x2F800000


def divide32(s: Selector, kind: str, a: Word, b: Word) -> Word:
    """``divui``, ``remui``, ``ceildivui``, ``divsi``, ``remsi``, ``ceildivsi`` or ``floordivsi`` of 32-bit words."""
    uniform = is_scalar(a) and is_scalar(b)
    result = _divide32(s, kind, a, b)
    return s.emit.to_scalar(result) if uniform and not isinstance(result, int) else result


def _divide32(s: Selector, kind: str, a: Word, b: Word) -> Word:
    arith = s.arith
    if kind in ("divui", "remui", "ceildivui"):
        quotient, remainder = _unsigned32(s, a, b)
        if kind == "divui":
            return quotient
        if kind == "remui":
            return remainder
        return arith.binary("add", quotient, arith.binary("minu", remainder, 1))
    sign_a, sign_b = arith.sign(a), arith.sign(b)
    magnitude_a = arith.sub(arith.binary("xor", a, sign_a), sign_a)
    magnitude_b = arith.sub(arith.binary("xor", b, sign_b), sign_b)
    quotient, remainder = _unsigned32(s, magnitude_a, magnitude_b)
    sign = arith.binary("xor", sign_a, sign_b)
    if kind == "remsi":
        return arith.sub(arith.binary("xor", remainder, sign_a), sign_a)
    truncated = arith.sub(arith.binary("xor", quotient, sign), sign)
    if kind == "divsi":
        return truncated
    inexact = arith.binary("minu", remainder, 1)
    if kind == "floordivsi":
        return arith.sub(truncated, arith.binary("and", inexact, sign))
    return arith.binary("add", truncated, arith.binary("and", inexact, arith.invert(sign)))


def _unsigned32(s: Selector, a: Word, b: Word) -> tuple[Word, Word]:
    """Quotient and remainder."""
    arith, emit = s.arith, s.emit
    if isinstance(b, int) and b & MASK32:
        quotient = _by_constant(s, a, b & MASK32)
        return quotient, arith.sub(a, arith.binary("mul", quotient, b & MASK32))
    if isinstance(a, int) and isinstance(b, int):
        return 0, a
    estimate = emit.op("v_rcp_iflag_f32", emit.op("v_cvt_f32_u32", emit.register(b, True) if isinstance(b, int) else b))
    z: Word = emit.op("v_cvt_u32_f32", emit.op("v_mul_f32", _SCALE32, estimate))
    z = arith.binary("add", z, arith.binary("mulhu", z, arith.binary("mul", arith.sub(0, b), z)))
    quotient = arith.binary("mulhu", a, z)
    remainder = arith.sub(a, arith.binary("mul", quotient, b))
    for _ in range(2):
        more = compare_words(s, "uge", (remainder,), (b,))
        assert not isinstance(more, bool)
        quotient = arith.select(more, arith.binary("add", quotient, 1), quotient)
        remainder = arith.select(more, arith.sub(remainder, b), remainder)
    return quotient, remainder


def _by_constant(s: Selector, a: Word, d: int) -> Word:
    """a / d for a 32-bit a: (a * m) >> (32 + shift), with one more bit of m where 32 are not enough."""
    arith = s.arith
    if d & (d - 1) == 0:
        return arith.binary("shru", a, d.bit_length() - 1)
    trailing = (d & -d).bit_length() - 1
    shift = d.bit_length()
    multiplier = -(-(1 << (32 + shift)) // d)
    if multiplier >> 32 and trailing:
        # Dividing the even part away first leaves a bit to spare.
        odd = d >> trailing
        shift = odd.bit_length()
        multiplier = -(-(1 << (32 - trailing + shift)) // odd)
        if multiplier >> 32 == 0:
            high = arith.binary("mulhu", arith.binary("shru", a, trailing), multiplier)
            return (
                arith.binary("shru", high, shift - trailing)
                if shift >= trailing
                else arith.binary("shl", high, trailing - shift)
            )
        shift = d.bit_length()
        multiplier = -(-(1 << (32 + shift)) // d)
    if multiplier >> 32 == 0:
        return arith.binary("shru", arith.binary("mulhu", a, multiplier), shift)
    high = arith.binary("mulhu", a, multiplier & MASK32)
    # (a + high) / 2 without overflow, then the rest of the shift.
    half = arith.binary("shru", arith.sub(a, high), 1)
    return arith.binary("shru", arith.binary("add", half, high), shift - 1)


def divide64(s: Selector, kind: str, a: Pair, b: Pair) -> Pair:
    """The same operations on 64-bit pairs."""
    uniform = all(is_scalar(w) for w in (*a, *b))
    result = _divide64(s, kind, a, b)
    if not uniform:
        return result
    lo, hi = (w if isinstance(w, int) else s.emit.to_scalar(w) for w in result)
    return lo, hi


def _divide64(s: Selector, kind: str, a: Pair, b: Pair) -> Pair:
    arith = s.arith
    if kind in ("divui", "remui", "ceildivui"):
        quotient, remainder = _unsigned64(s, a, b)
        if kind == "divui":
            return quotient
        return remainder if kind == "remui" else arith.add64(quotient, (_nonzero(s, remainder), 0))
    sign_a, sign_b = arith.sign(a[1]), arith.sign(b[1])
    quotient, remainder = _unsigned64(s, _apply_sign(s, a, sign_a), _apply_sign(s, b, sign_b))
    if kind == "remsi":
        return _apply_sign(s, remainder, sign_a)
    sign = arith.binary("xor", sign_a, sign_b)
    truncated = _apply_sign(s, quotient, sign)
    if kind == "divsi":
        return truncated
    inexact = _nonzero(s, remainder)
    if kind == "floordivsi":
        return arith.sub64(truncated, (arith.binary("and", inexact, sign), 0))
    return arith.add64(truncated, (arith.binary("and", inexact, arith.invert(sign)), 0))


def _nonzero(s: Selector, value: Pair) -> Word:
    """1 where a pair is not zero."""
    return s.arith.binary("minu", s.arith.binary("or", value[0], value[1]), 1)


def _apply_sign(s: Selector, value: Pair, sign: Word) -> Pair:
    """The negative of a pair where ``sign`` is all ones."""
    return s.arith.sub64(s.arith.logic64("xor", value, (sign, sign)), (sign, sign))


def _unsigned64(s: Selector, a: Pair, b: Pair) -> tuple[Pair, Pair]:
    arith, emit = s.arith, s.emit
    low, high = (emit.op("v_cvt_f32_u32", emit.register(w, False)) for w in b)
    two32 = emit.constant(_TWO_32, scalar=True)
    scaled = emit.op("v_mul_f32", _SCALE64, emit.op("v_rcp_f32", emit.op("v_fma_f32", high, two32, low)))
    upper = emit.op("v_trunc_f32", emit.op("v_mul_f32", _TWO_MINUS_32, scaled))
    lower = emit.op("v_fma_f32", upper, emit.constant(_MINUS_TWO_32, scalar=True), scaled)
    z: Pair = (emit.op("v_cvt_u32_f32", lower), emit.op("v_cvt_u32_f32", upper))
    negative = arith.sub64((0, 0), b)
    for _ in range(2):
        z = arith.add64(z, _high64(s, z, arith.mul64(negative, z)))
    quotient = _high64(s, a, z)
    remainder = arith.sub64(a, arith.mul64(b, quotient))
    for _ in range(2):
        more = compare_words(s, "uge", remainder, b)
        assert not isinstance(more, bool)
        next_quotient, next_remainder = arith.add64(quotient, (1, 0)), arith.sub64(remainder, b)
        quotient = arith.select(more, next_quotient[0], quotient[0]), arith.select(more, next_quotient[1], quotient[1])
        remainder = (
            arith.select(more, next_remainder[0], remainder[0]),
            arith.select(more, next_remainder[1], remainder[1]),
        )
    return quotient, remainder


def _high64(s: Selector, a: Pair, b: Pair) -> Pair:
    """The upper half of a 64 x 64 bit product."""
    arith = s.arith
    cross = arith.add64(arith.wide_product(a[0], b[1]), (arith.binary("mulhu", a[0], b[0]), 0))
    other = arith.add64(arith.wide_product(a[1], b[0]), (cross[0], 0))
    total = arith.add64(arith.wide_product(a[1], b[1]), (cross[1], 0))
    return arith.add64(total, (other[1], 0))
