"""a*b + c rounded once, on any device: the fused multiply-add from operations that every driver rounds right.

Vulkan lets a driver compute GLSL.std.450 Fma as a multiplication and an addition, each rounded ("Vulkan
Specification", appendix "Precision and Operation of SPIR-V Instructions"), and Mesa's lavapipe does: about a
third of random operands of like magnitude give another last bit.  Two formulations give the exact result.

*In integers* (`FmaMethod.INTEGER`, any format).  Both addends become integers with their highest bit at the
same place in a frame of 64 bits (f16, f32) or 128 bits (f64), which leaves zeros below; the smaller one is
shifted right by the difference of the exponents, and bits pushed out set the lowest bit ("sticky"), which
cannot reach the bits that decide the rounding; the sum or difference is shifted to the place of the result's
last bit, normal or subnormal, with two more bits below, and rounded to nearest, ties to even.  It is right
whatever the device does with denormals, and needs no 64-bit floats.

*In the next wider format* (`FmaMethod.WIDER`, f16 and f32).  The product is exact there; the sum is rounded
to odd, which keeps what the narrowing needs to round as if once (Boldo and Melquiond, "Emulation of a FMA and
Correctly
Rounded Sums: Proved Algorithms Using Rounding to Odd", IEEE Transactions on Computers 57(4), 2008).  Several
    times
faster; it relies on the device for rounding to nearest even and, where the result is subnormal, for
denormals.
"""

from __future__ import annotations

from enum import Enum

import attrs

from loom_target_spirv.errors import SpirvError
from loom_target_spirv.function import FunctionBuilder
from loom_target_spirv.module import Value
from loom_target_spirv.types import BOOL, F32, F64, U32, U64, FloatType, IntType
from loom_target_spirv.wide_integer import Arithmetic, Wide, Words64, Words128

_ABSENT = -(1 << 20)
"""The exponent of a zero addend: far below every other, so that zero never sets the scale."""


@attrs.frozen
class _Format:
    """An IEEE 754 binary format: width, bits of the fraction field, bias of the exponent."""

    width: int
    fraction: int
    bias: int

    @property
    def exponent_mask(self) -> int:
        return (1 << (self.width - 1 - self.fraction)) - 1


_WIDER = {16: F32, 32: F64}

_FORMATS = {16: _Format(16, 10, 15), 32: _Format(32, 23, 127), 64: _Format(64, 52, 1023)}


@attrs.frozen
class _Parts:
    """Sign (0 or 1, 64-bit), exponent (32-bit, at least 1) and significand (64-bit) of a number; and
    finiteness.
    """

    sign: Value
    exponent: Value
    significand: Value
    finite: Value


class FmaMethod(Enum):
    """The formulations of the module docstring."""

    INTEGER = "integer"
    WIDER = "wider"


def fma(
    function: FunctionBuilder, a: Value, b: Value, c: Value, method: FmaMethod = FmaMethod.INTEGER
) -> Value:
    """a*b + c for three floats of one type, correctly rounded to nearest even.

    Raises SpirvError when the operands are no floats, or f64 and the method asks for a wider format.
    """
    type_ = a.type
    if not isinstance(type_, FloatType) or b.type != type_ or c.type != type_:
        raise SpirvError("a fused multiply-add takes three floats of one type")
    if method is FmaMethod.WIDER and type_.width not in _WIDER:
        raise SpirvError(f"there is no format wider than f{type_.width} to compute in")
    write = _write if method is FmaMethod.INTEGER else _write_wider
    name = f"fma_f{type_.width}_{method.value}"
    return function.call(function.module.helper(name, type_, (type_, type_, type_), write), a, b, c)


def _write_wider(function: FunctionBuilder) -> None:
    narrow = function.parameters[0].type
    assert isinstance(narrow, FloatType)
    wide = _WIDER[narrow.width]
    a, b, c = (function.op("OpFConvert", wide, value) for value in function.parameters)
    product = function.exact("OpFMul", wide, a, b)
    total, error = _two_sum(function, product, c)
    odd = _round_to_odd(function, total, error)
    function.ret(function.exact("OpFConvert", narrow, odd))


def _two_sum(function: FunctionBuilder, a: Value, b: Value) -> tuple[Value, Value]:
    """a + b rounded, and what rounding left: their sum is a + b exactly (Knuth, TAOCP vol. 2, 4.2.2
    theorem B).
    """
    type_ = a.type
    total = function.exact("OpFAdd", type_, a, b)
    b_part = function.exact("OpFSub", type_, total, a)
    a_part = function.exact("OpFSub", type_, total, b_part)
    a_rest = function.exact("OpFSub", type_, a, a_part)
    b_rest = function.exact("OpFSub", type_, b, b_part)
    return total, function.exact("OpFAdd", type_, a_rest, b_rest)


def _round_to_odd(function: FunctionBuilder, total: Value, error: Value) -> Value:
    """total + error as the neighbour of the exact sum whose last bit is set, or the sum itself when it is
    exact.
    """
    type_ = total.type
    assert isinstance(type_, FloatType)
    integer = IntType(type_.width)
    words = Arithmetic(function)
    bits = function.op("OpBitcast", integer, total)
    error_bits = function.op("OpBitcast", integer, error)
    # Ordered comparison: with an infinity or NaN the error is NaN and the sum stays as it is.
    inexact = function.op("OpFOrdNotEqual", BOOL, error, function.module.constant(type_, 0.0))
    even = words.compare("OpIEqual", words.binary("OpBitwiseAnd", bits, 1), 0)
    signs = words.binary(
        "OpShiftRightLogical", words.binary("OpBitwiseXor", bits, error_bits), type_.width - 1
    )
    away = words.compare("OpIEqual", signs, 0)
    step = words.select(away, words.constant(integer, 1), (1 << type_.width) - 1)
    moved = words.binary("OpIAdd", bits, step)
    return function.op("OpBitcast", type_, words.select(words.both(inexact, even), moved, bits))


def _write(function: FunctionBuilder) -> None:
    a, b, c = function.parameters
    assert isinstance(a.type, FloatType)
    form = _FORMATS[a.type.width]
    words = Words128(function) if form.width == 64 else Words64(function)
    parts = [_decode(words, form, value) for value in (a, b, c)]
    rounded = _finite(words, form, *parts)
    bits = function.op("OpUConvert", IntType(form.width), rounded) if form.width != 64 else rounded
    result = function.op("OpBitcast", a.type, bits)
    # With a finite product an infinite or NaN c is the result; rounding the product first could make an
    # infinity of it that c cancels to NaN.
    product = function.exact("OpFMul", a.type, a, b)
    special = words.select(
        words.both(parts[0].finite, parts[1].finite), c, function.exact("OpFAdd", a.type, product, c)
    )
    finite = words.both(words.both(parts[0].finite, parts[1].finite), parts[2].finite)
    function.ret(words.select(finite, result, special))


def _decode(words: Words64 | Words128, form: _Format, value: Value) -> _Parts:
    function = words.function
    bits = words.widen(function.op("OpBitcast", IntType(form.width), value))
    field = words.low(words.binary("OpShiftRightLogical", bits, form.fraction))
    field = words.binary("OpBitwiseAnd", field, form.exponent_mask)
    fraction = words.binary("OpBitwiseAnd", bits, (1 << form.fraction) - 1)
    normal = words.compare("OpINotEqual", field, 0)
    leading = words.select(normal, words.constant(U64, 1 << form.fraction), 0)
    return _Parts(
        sign=words.binary("OpShiftRightLogical", bits, form.width - 1)
        if form.width == 64
        else words.binary("OpBitwiseAnd", words.binary("OpShiftRightLogical", bits, form.width - 1), 1),
        exponent=words.select(normal, field, 1),
        significand=words.binary("OpBitwiseOr", fraction, leading),
        finite=words.compare("OpINotEqual", field, form.exponent_mask),
    )


def _raise_to_top(words: Words64 | Words128, value: Wide, exponent: Value) -> tuple[Wide, Value]:
    """Move the highest bit of `value` two places below the top of the frame, and its exponent with it."""
    zero = words.is_zero(value)
    amount = words.binary("OpISub", words.leading_zero_bits(value), 2)
    moved = words.shift_left(value, amount)
    return moved, words.select(zero, _ABSENT, words.binary("OpISub", exponent, amount))


def _finite(words: Words64 | Words128, form: _Format, a: _Parts, b: _Parts, c: _Parts) -> Value:
    """The bits of the rounded result as 64 bits, for finite operands.

    Exponents count in units of the last place of the smallest normal number: a significand m with exponent e
    is m * 2**(e - bias - fraction).
    """
    sign_product = words.binary("OpBitwiseXor", a.sign, b.sign)
    exponent = words.binary(
        "OpISub", words.binary("OpIAdd", a.exponent, b.exponent), form.bias + form.fraction
    )
    product, e_product = _raise_to_top(words, words.product(a.significand, b.significand), exponent)
    addend, e_addend = _raise_to_top(words, words.word(c.significand), c.exponent)

    swap = words.compare("OpSGreaterThan", e_addend, e_product)
    large, small = words.choose(swap, addend, product), words.choose(swap, product, addend)
    e_large, e_small = words.select(swap, e_addend, e_product), words.select(swap, e_product, e_addend)
    sign_large, sign_small = (
        words.select(swap, c.sign, sign_product),
        words.select(swap, sign_product, c.sign),
    )
    small = words.shift_right_sticky(small, _clamp(words, words.binary("OpISub", e_large, e_small)))

    same = words.compare("OpIEqual", sign_product, c.sign)
    below = words.less(large, small)
    difference = words.choose(below, words.subtract(small, large), words.subtract(large, small))
    total = words.choose(same, words.add(large, small), difference)
    zero = words.is_zero(total)
    sign = words.select(
        zero, words.select(same, sign_product, 0), words.select(below, sign_small, sign_large)
    )
    magnitude = words.select(zero, 0, _round(words, form, total, e_large))
    return words.binary("OpBitwiseOr", magnitude, words.binary("OpShiftLeftLogical", sign, form.width - 1))


def _clamp(words: Words64 | Words128, amount: Value) -> Value:
    """A shift amount, negative ones as 0 and those past the frame as one that empties it."""
    positive = words.select(words.compare("OpSGreaterThan", amount, 0), amount, 0)
    last = words.width - 1
    return words.select(words.compare("OpULessThan", positive, last), positive, last)


def _round(words: Words64 | Words128, form: _Format, total: Wide, exponent: Value) -> Value:
    """The bits without sign of total * 2**(exponent - bias - fraction), rounded to nearest even; total is
    not 0.
    """
    highest = words.binary("OpISub", words.constant(U32, words.width - 1), words.leading_zero_bits(total))
    field = words.binary("OpISub", words.binary("OpIAdd", highest, exponent), form.fraction)
    field = words.select(words.compare("OpSGreaterThan", field, 1), field, 1)
    right = words.binary("OpISub", words.binary("OpISub", field, exponent), 2)
    left = words.binary("OpISub", words.constant(U32, 0), right)
    quarter = words.shift_left(words.shift_right_sticky(total, _clamp(words, right)), _clamp(words, left)).low
    kept = words.binary("OpShiftRightLogical", quarter, 2)
    rest = words.binary("OpBitwiseAnd", quarter, 3)
    odd = words.compare("OpINotEqual", words.binary("OpBitwiseAnd", kept, 1), 0)
    tie = words.both(words.compare("OpIEqual", rest, 2), odd)
    up = words.either(words.compare("OpUGreaterThan", rest, 2), tie)
    kept = words.binary("OpIAdd", kept, words.select(up, words.constant(U64, 1), 0))
    # The leading bit of a normal significand adds one to the exponent field, and so does a carry out of it.
    scale = words.widen(words.binary("OpISub", field, 1))
    bits = words.binary("OpIAdd", words.binary("OpShiftLeftLogical", scale, form.fraction), kept)
    infinity = form.exponent_mask << form.fraction
    overflow = words.either(
        words.compare("OpSGreaterThanEqual", field, form.exponent_mask),
        words.compare("OpUGreaterThanEqual", bits, infinity),
    )
    return words.select(overflow, infinity, bits)
