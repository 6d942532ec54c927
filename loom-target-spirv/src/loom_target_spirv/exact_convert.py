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


def round_to_integral(function: FunctionBuilder, name: GLSLstd450, value: Value) -> Value:
    """Trunc, RoundEven, Floor or Ceil with the sign of the operand kept on a zero result, as IEEE 754 asks.

    lavapipe gives +0.0 for f64 operands between -1 and 0.  Raises SpirvError for another instruction.
    """
    if name not in _INTEGRAL or not isinstance(value.type, FloatType):
        raise SpirvError("only Trunc, RoundEven, Floor and Ceil of a float round to an integral value")
    rounded = function.glsl(name, value.type, value)
    words = Arithmetic(function)
    integer = IntType(value.type.width)
    sign = words.binary("OpBitwiseAnd", function.op("OpBitcast", integer, value), 1 << (value.type.width - 1))
    bits = words.binary("OpBitwiseOr", function.op("OpBitcast", integer, rounded), sign)
    return function.op("OpBitcast", value.type, bits)


def _magnitude(function: FunctionBuilder, value: Value) -> Value:
    return function.glsl(GLSLstd450.FAbs, value.type, value)
