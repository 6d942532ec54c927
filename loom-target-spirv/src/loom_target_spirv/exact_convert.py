"""Float operations that drivers get wrong in a corner, put right with integer operations.

Measured on Mesa 22.3 lavapipe; each formulation is right on any device that rounds conversions to nearest
even.
"""

from __future__ import annotations

from loom_target_spirv.enumerants import GLSLstd450
from loom_target_spirv.errors import SpirvError
from loom_target_spirv.function import FunctionBuilder
from loom_target_spirv.module import Value
from loom_target_spirv.types import BOOL, F16, F32, F64, U32, FloatType, IntType
from loom_target_spirv.wide_integer import Arithmetic

_INTEGRAL = frozenset({GLSLstd450.Trunc, GLSLstd450.RoundEven, GLSLstd450.Floor, GLSLstd450.Ceil})


def narrow_f64_to_f16(function: FunctionBuilder, value: Value) -> Value:
    """An f64 rounded once to f16.

    Drivers convert by way of f32 and round twice.  Here the f32 is the odd one of the two neighbours of an
    inexact value, so that the second rounding sees that something lies below its last bit.
    """
    words = Arithmetic(function)
    near = function.exact("OpFConvert", F32, value)
    back = function.exact("OpFConvert", F64, near)
    bits = function.op("OpBitcast", U32, near)
    # Ordered comparisons: a NaN stays as it is.
    inexact = function.op("OpFOrdNotEqual", BOOL, back, value)
    even = words.compare("OpIEqual", words.binary("OpBitwiseAnd", bits, 1), 0)
    beyond = function.op("OpFOrdGreaterThan", BOOL, _magnitude(function, back), _magnitude(function, value))
    step = words.select(beyond, words.constant(U32, 0xFFFFFFFF), 1)
    odd = words.select(words.both(inexact, even), words.binary("OpIAdd", bits, step), bits)
    return function.exact("OpFConvert", F16, function.op("OpBitcast", F32, odd))


_F16_BEYOND = 1 << 17
"""An integer of this magnitude rounds to an infinite f16, and all smaller ones are exact in f32."""


def integer_to_float(function: FunctionBuilder, value: Value, type_: FloatType, signed: bool) -> Value:
    """An integer of 8 to 64 bits rounded once to a float.

    Drivers convert to f16 by way of f32 and may round twice, so large integers are cut to where f16 is infinite
    before.  Raises SpirvError when the value is no integer.
    """
    if not isinstance(value.type, IntType):
        raise SpirvError("only an integer converts to a float")
    name = "OpConvertSToF" if signed else "OpConvertUToF"
    if type_ != F16:
        return function.exact(name, type_, value)
    if value.type.width > 16:
        words = Arithmetic(function)
        top = words.constant(value.type, _F16_BEYOND)
        value = words.select(words.compare("OpSLessThan" if signed else "OpULessThan", top, value), top, value)
        if signed:
            bottom = words.constant(value.type, -_F16_BEYOND)
            value = words.select(words.compare("OpSLessThan", value, bottom), bottom, value)
    return function.exact("OpFConvert", F16, function.op(name, F32, value))


def round_to_integral(function: FunctionBuilder, name: GLSLstd450, value: Value) -> Value:
    """Trunc, RoundEven, Floor or Ceil with the sign of the operand kept on a zero result, as IEEE 754 asks.

    lavapipe gives +0.0 for f64 operands between -1 and 0, rounds f64 ties such as 3.5 to odd, and truncates no
    f64 from 2**51 on.  Raises SpirvError for another instruction.
    """
    if name not in _INTEGRAL or not isinstance(value.type, FloatType):
        raise SpirvError("only Trunc, RoundEven, Floor and Ceil of a float round to an integral value")
    if name is GLSLstd450.RoundEven and value.type == F64:
        rounded = _round_even_f64(function, value)
    elif name is GLSLstd450.Trunc:
        rounded = function.glsl(GLSLstd450.Floor, value.type, _magnitude(function, value))
    else:
        rounded = function.glsl(name, value.type, value)
    words = Arithmetic(function)
    integer = IntType(value.type.width)
    sign = words.binary("OpBitwiseAnd", function.op("OpBitcast", integer, value), 1 << (value.type.width - 1))
    bits = words.binary("OpBitwiseOr", function.op("OpBitcast", integer, rounded), sign)
    return function.op("OpBitcast", value.type, bits)


def _round_even_f64(function: FunctionBuilder, value: Value) -> Value:
    """|value| rounded to an integral f64: the addition of 2**52 leaves no place for a fraction."""
    magnitude = _magnitude(function, value)
    large = function.module.constant(F64, 2.0**52)
    shifted = function.exact("OpFAdd", F64, magnitude, large)
    rounded = function.exact("OpFSub", F64, shifted, large)
    # Larger values are integral already; the comparison is false for a NaN, which stays too.
    fractional = function.op("OpFOrdLessThan", BOOL, magnitude, large)
    return function.op("OpSelect", F64, fractional, rounded, magnitude)


def _magnitude(function: FunctionBuilder, value: Value) -> Value:
    return function.glsl(GLSLstd450.FAbs, value.type, value)
