"""The remainder of C's fmod: x - n*y exactly, n being x/y rounded toward zero; the sign is that of x.

Drivers compute it as x - y*trunc(x/y) with a rounded quotient.  Here the significands are integers: with
x = a * 2**p and y = b * 2**q, p >= q, the remainder is (a * 2**(p - q) mod b) * 2**q, where the power of two is
multiplied in by as many bits at a time as 64 bits allow.
"""

from __future__ import annotations

import attrs

from loom_target_spirv.abi import Root
from loom_target_spirv.enumerants import GLSLstd450
from loom_target_spirv.errors import SpirvError
from loom_target_spirv.function import FunctionBuilder
from loom_target_spirv.module import Value
from loom_target_spirv.structured import Loop
from loom_target_spirv.types import U32, U64, FloatType, IntType
from loom_target_spirv.wide_integer import Arithmetic

_FRACTION = {16: 10, 32: 23, 64: 52}


@attrs.frozen
class _Magnitude:
    """A finite magnitude: significand (64-bit) times 2**(exponent - 1) in units of the least subnormal."""

    significand: Value
    exponent: Value


def remainder(function: FunctionBuilder, root: Root, x: Value, y: Value) -> Value:
    """fmod(x, y) for two floats of one type.  Raises SpirvError when the operands are no floats.

    NaN for a NaN operand, an infinite x and a zero y; x for an infinite y.  A zero result has the sign of x.
    """
    type_ = x.type
    if not isinstance(type_, FloatType) or y.type != type_:
        raise SpirvError("a remainder takes two floats of one type")
    write = function.module.helper(
        f"remainder_f{type_.width}", type_, (type_, type_), lambda helper: _write(helper, root, type_)
    )
    return function.call(write, x, y)


def _write(function: FunctionBuilder, root: Root, type_: FloatType) -> None:
    root.guard_loops(function)
    words = Arithmetic(function)
    integer = IntType(type_.width)
    sign_mask = 1 << (type_.width - 1)
    infinity = (sign_mask - 1) >> _FRACTION[type_.width] << _FRACTION[type_.width]
    bits_x, bits_y = (function.op("OpBitcast", integer, value) for value in function.parameters)
    sign = words.binary("OpBitwiseAnd", bits_x, sign_mask)
    size_x, size_y = (words.binary("OpBitwiseAnd", bits, sign_mask - 1) for bits in (bits_x, bits_y))

    invalid = words.either(
        words.either(
            words.compare("OpUGreaterThanEqual", size_x, infinity),
            words.compare("OpUGreaterThan", size_y, infinity),
        ),
        words.compare("OpIEqual", size_y, 0),
    )
    # A smaller x, or an infinite y, leaves x.  A divisor of 1 stands in wherever the result is chosen otherwise.
    unchanged = words.compare("OpULessThan", size_x, size_y)
    usable = words.select(words.either(invalid, unchanged), 1, size_y)
    dividend = words.select(words.either(invalid, unchanged), 0, size_x)
    reduced = _reduce(function, words, type_, dividend, usable)
    result = words.select(unchanged, size_x, reduced)
    quiet = infinity | 1 << (_FRACTION[type_.width] - 1)
    bits = words.select(invalid, quiet, words.binary("OpBitwiseOr", result, sign))
    function.ret(function.op("OpBitcast", type_, bits))


def _split(words: Arithmetic, type_: FloatType, bits: Value) -> _Magnitude:
    fraction = _FRACTION[type_.width]
    wide = words.widen(bits)
    field = words.low(words.binary("OpShiftRightLogical", wide, fraction))
    normal = words.compare("OpINotEqual", field, 0)
    leading = words.select(normal, words.constant(U64, 1 << fraction), 0)
    low = words.binary("OpBitwiseAnd", wide, (1 << fraction) - 1)
    return _Magnitude(words.binary("OpBitwiseOr", low, leading), words.select(normal, field, 1))


def _reduce(function: FunctionBuilder, words: Arithmetic, type_: FloatType, dividend: Value, divisor: Value) -> Value:
    """The bits of the magnitude of the remainder; the divisor is positive and not above the dividend, or the
    dividend is zero.
    """
    x, y = _split(words, type_, dividend), _split(words, type_, divisor)
    # The divisor has fraction + 1 bits, and so many fewer than 64 can be shifted in at once.
    step = 64 - (_FRACTION[type_.width] + 1)
    difference = words.binary("OpISub", x.exponent, y.exponent)
    positive = words.select(words.compare("OpSGreaterThan", difference, 0), difference, 0)
    start = words.binary("OpUMod", x.significand, y.significand)
    loop = Loop(function, [positive, start])
    left, rest = loop.carried
    loop.body(words.compare("OpINotEqual", left, 0))
    amount = words.select(words.compare("OpULessThan", left, step), left, step)
    shifted = words.binary("OpShiftLeftLogical", rest, amount)
    loop.end([words.binary("OpISub", left, amount), words.binary("OpUMod", shifted, y.significand)])
    return _join(function, words, type_, rest, y.exponent)


def _join(function: FunctionBuilder, words: Arithmetic, type_: FloatType, significand: Value, exponent: Value) -> Value:
    """The bits of significand * 2**(exponent - 1) least subnormals; the significand has at most fraction + 1
    bits, so the result is exact.
    """
    fraction = _FRACTION[type_.width]
    spare = words.binary("OpISub", words.leading_zeros(significand), 64 - (fraction + 1))
    room = words.binary("OpISub", exponent, 1)
    shift = function.glsl(GLSLstd450.UMin, U32, spare, room)
    moved = words.binary("OpShiftLeftLogical", significand, shift)
    # A set leading bit adds one to the exponent field: the field is the exponent less one where it is set.
    scale = words.widen(words.binary("OpISub", room, shift))
    bits = words.binary("OpIAdd", moved, words.binary("OpShiftLeftLogical", scale, fraction))
    bits = words.select(words.compare("OpIEqual", significand, 0), 0, bits)
    return function.op("OpUConvert", IntType(type_.width), bits) if type_.width != 64 else bits
