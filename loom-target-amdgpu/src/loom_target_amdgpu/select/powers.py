"""Selection of powers, cube roots and remainders on f32.

The logarithm behind a power needs more digits than f32 has: it is formed in f64. A power is off by one or two units
in the last place, a cube root by one; remainders are exact.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from loom.ir.core import Block, Value
from loom.ir.types import F32
from loom_target_amdgpu.select.control import conditional
from loom_target_amdgpu.select.math_functions import bits, in_f32, less, magnitude, negated, with_sign
from loom_target_amdgpu.select.scalar_float import pick
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Mask, Number, Word

_ONE: Final = bits(1.0)
_NAN: Final = 0x7FC00000
_INFINITY: Final = 0x7F800000
_LOG2: Final = [2 / math.log(2) / (2 * n + 1) for n in range(8)]
"""log2((1 + t) / (1 - t)) / t in powers of t^2, for |t| up to (sqrt 2 - 1)^2."""
_CHUNK: Final = 24
"""Bits of quotient that one step of a remainder makes."""


def bits64(value: float) -> int:
    """The pattern of an f64."""
    return int.from_bytes(struct.pack("<d", value), "little")


def _wide(s: Selector, value: float) -> Value:
    return s.emit.constant(bits64(value), True, 2)


def _reciprocal(s: Selector, x: Value) -> Value:
    """1 / x in f64: the estimate and one step of Newton's iteration, for normal results."""
    emit = s.emit
    estimate = emit.op("v_rcp_f64", x)
    error = emit.op("v_fma_f64_neg_a", x, estimate, _wide(s, 1.0))
    return emit.op("v_fma_f64", estimate, error, estimate)


# -- powers ----------------------------------------------------------------------------------------------------------


def _log2(s: Selector, size: Word) -> Value:
    """The logarithm to base 2 of a positive finite f32, in f64."""
    emit, arith = s.emit, s.arith
    mantissa = emit.op("v_frexp_mant_f32", size)
    low = less(s, mantissa, bits(math.sqrt(0.5)))
    mantissa = arith.select(low, emit.op("v_add_f32", mantissa, mantissa), mantissa)  # type: ignore[assignment]  # a register
    exponent = emit.op("v_frexp_exp_i32_f32", size)
    exponent = arith.select(low, arith.binary("add", exponent, -1), exponent)  # type: ignore[assignment]  # a register
    m = emit.op("v_cvt_f64_f32", mantissa)
    below, above = (emit.op("v_add_f64", m, _wide(s, one)) for one in (-1.0, 1.0))
    inverse = _reciprocal(s, above)
    t = emit.op("v_mul_f64", below, inverse)
    rest = emit.op("v_fma_f64_neg_a", above, t, below)
    t = emit.op("v_fma_f64", rest, inverse, t)
    square = emit.op("v_mul_f64", t, t)
    total = _wide(s, _LOG2[-1])
    for coefficient in reversed(_LOG2[:-1]):
        total = emit.op("v_fma_f64", total, square, _wide(s, coefficient))
    return emit.op("v_fma_f64", total, t, emit.op("v_cvt_f64_i32", exponent))


def power(s: Selector, x: Word, y: Word) -> Word:
    """x^y; special cases follow C23 annex F."""
    emit, arith = s.emit, s.arith
    size = magnitude(s, x)
    scaled = emit.op("v_mul_f64", emit.op("v_cvt_f64_f32", y), _log2(s, size))
    scaled = emit.op("v_min_f64", emit.op("v_max_f64", scaled, _wide(s, -400.0)), _wide(s, 400.0))
    whole = emit.op("v_rndne_f64", scaled)
    fraction = emit.op("v_cvt_f32_f64", emit.op("v_add_f64_neg_rhs", scaled, whole))
    found: Word = emit.op("v_ldexp_f32", emit.op("v_exp_f32", fraction), emit.op("v_cvt_i32_f64", whole))
    found = arith.select(Mask(emit.op("v_cmp_eq_f32", _ONE, size)), _ONE, found)
    # Powers of zero and infinity: which of the two depends on the exponent's sign.
    falling = Mask(emit.op("v_cmp_gt_i32", 0, y))
    of_zero = arith.select(falling, _INFINITY, 0)
    found = arith.select(Mask(emit.op("v_cmp_eq_f32", 0, size)), of_zero, found)
    of_infinity = arith.select(falling, 0, _INFINITY)
    found = arith.select(Mask(emit.op("v_cmp_eq_f32", _INFINITY, size)), of_infinity, found)
    # A negative base: an odd exponent keeps its sign, one with a fraction has no power of a finite number.
    half = emit.op("v_mul_f32", bits(0.5), y)
    integral = emit.op("v_cmp_eq_f32", emit.op("v_trunc_f32", y), y)
    not_even = emit.op("v_cmp_lg_f32", emit.op("v_trunc_f32", half), half)
    odd = Mask(emit.op("s_and_b64", integral, not_even))
    sign = arith.select(odd, arith.binary("and", x, 0x80000000), 0)
    found = arith.binary("or", found, sign)
    negative = emit.op("v_cmp_gt_f32", 0, x)
    bounded = emit.op("v_cmp_lg_f32", bits(-math.inf), x)
    fractional = emit.op("s_andn2_b64", emit.op("s_and_b64", negative, bounded), integral)
    found = arith.select(Mask(fractional), _NAN, found)
    found = arith.select(Mask(emit.op("v_cmp_u_f32", x, y)), _NAN, found)
    always = emit.op("s_or_b64", emit.op("v_cmp_eq_f32", _ONE, x), emit.op("v_cmp_eq_f32", 0, y))
    return arith.select(Mask(always), _ONE, found)


def cube_root(s: Selector, x: Word) -> Word:
    """An estimate from logarithm and exponential, and a step of Newton's iteration with a fused residual."""
    emit, arith = s.emit, s.arith
    size = magnitude(s, x)
    small = less(s, size, bits(2.0**-100))
    scaled = emit.op("v_mul_f32", size, arith.select(small, bits(2.0**60), _ONE))
    third = emit.op("v_mul_f32", bits(1 / 3), emit.op("v_log_f32", scaled))
    estimate = emit.op("v_exp_f32", third)
    square = emit.op("v_mul_f32", estimate, estimate)
    # (scaled - estimate^3) / (3 estimate^2), the cube's rounding taken into account
    square_rest = emit.op("v_fma_f32", estimate, estimate, negated(s, square))
    residual = emit.op("v_fma_f32", negated(s, square), estimate, scaled)
    residual = emit.op("v_fma_f32", negated(s, square_rest), estimate, residual)
    slope = emit.op("v_rcp_f32", emit.op("v_mul_f32", bits(3.0), square))
    root: Word = emit.op("v_fma_f32", residual, slope, estimate)
    root = emit.op("v_mul_f32", root, arith.select(small, bits(2.0**-20), _ONE))
    # Zeros, infinities and NaN are their own cube roots.
    plain = emit.op("v_cmp_class_f32", x, 0x198)
    subnormal = emit.op("v_cmp_class_f32", x, 0x090)
    finite = Mask(emit.op("s_or_b64", plain, subnormal))
    return arith.select(finite, with_sign(s, root, x), x)


# -- remainder -------------------------------------------------------------------------------------------------------


def _modulo(s: Selector, value: Value, divisor: Value, inverse: Value) -> Value:
    """A whole number below 2^48 modulo one below 2^24, in f64: the estimated quotient is off by one at most."""
    emit = s.emit
    quotient = emit.op("v_trunc_f64", emit.op("v_mul_f64", value, inverse))
    rest = emit.op("v_fma_f64_neg_a", divisor, quotient, value)
    zero = emit.constant(0, True, 2)
    raised = pick(s, Mask(emit.op("v_cmp_gt_f64", zero, rest)), emit.op("v_add_f64", rest, divisor), rest)
    lowered = emit.op("v_add_f64_neg_rhs", raised, divisor)
    chosen = pick(s, Mask(emit.op("v_cmp_ge_f64", raised, divisor)), lowered, raised)
    assert isinstance(chosen, Value)
    return chosen


def _remainder(s: Selector, op: Any, x: Word, y: Word) -> Word:
    """x - trunc(x / y) y, exactly: significands modulo each other, 24 bits of quotient at a time."""
    emit, arith = s.emit, s.arith
    sizes = [magnitude(s, w) for w in (x, y)]
    whole, divisor = (
        emit.op("v_ldexp_f64", emit.op("v_cvt_f64_f32", emit.op("v_frexp_mant_f32", size)), 24) for size in sizes
    )
    exponents = [emit.op("v_frexp_exp_i32_f32", size) for size in sizes]
    gap = arith.sub(exponents[0], exponents[1])
    inverse = _reciprocal(s, divisor)
    chunks = arith.binary("mulhu", arith.binary("maxs", gap, 0), (1 << 32) // _CHUNK + 1)
    first = arith.sub(gap, arith.binary("mul", chunks, _CHUNK))
    rest = _modulo(s, whole, divisor, inverse)
    rest = _modulo(s, emit.op("v_ldexp_f64", rest, first), divisor, inverse)

    def narrowed(value: Value) -> Number:
        scaled = emit.op("v_ldexp_f64", value, arith.binary("add", exponents[1], -24))
        return Number((emit.op("v_cvt_f32_f64", scaled),))

    def long() -> list[Any]:
        current: Word = rest
        for step in range(1, (128 + 149) // _CHUNK + 1):
            assert isinstance(current, Value)
            more = _modulo(s, emit.op("v_ldexp_f64", current, _CHUNK), divisor, inverse)
            wanted = Mask(emit.op("v_cmp_le_u32", step, emit.register(chunks, False)))
            current = pick(s, wanted, more, current)
        assert isinstance(current, Value)
        return [narrowed(current)]

    several = Mask(emit.op("v_cmp_lt_u32", 0, emit.register(chunks, False)))
    (made,) = conditional(s, op, several, [long, lambda: [narrowed(rest)]], [Block([F32]).args[0]])
    assert isinstance(made, Number)
    found = with_sign(s, made.lo, x)
    found = arith.select(less(s, sizes[0], sizes[1]), x, found)
    # No remainder of infinity, nor by zero.
    undefined = emit.op("v_cmp_eq_f32", _INFINITY, emit.register(sizes[0], False))
    by_zero = emit.op("v_cmp_eq_f32", 0, y)
    nan = emit.op("s_or_b64", emit.op("s_or_b64", undefined, by_zero), emit.op("v_cmp_u_f32", x, y))
    return arith.select(Mask(nan), _NAN, found)


def _remainder_rule(s: Selector, op: Any) -> None:
    in_f32(s, op, lambda s, x, y: _remainder(s, op, x, y))


RULES: Final[dict[str, Rule]] = {
    "scalar.powf": lambda s, op: in_f32(s, op, power),
    "scalar.cbrtf": lambda s, op: in_f32(s, op, cube_root),
    "scalar.remf": _remainder_rule,
}
