"""f64 arithmetic written as formulas, for functions that SPIR-V does not compute precisely enough.

A `Real` is an f64 value inside a function under construction; the operators append instructions that round on
their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from loom_target_spirv.enumerants import GLSLstd450
from loom_target_spirv.function import FunctionBuilder
from loom_target_spirv.module import Value
from loom_target_spirv.types import BOOL, F64, U32, U64
from loom_target_spirv.wide_integer import Arithmetic

Number: TypeAlias = "Real | float"

SIGN_BIT = 1 << 63


class Real:
    """An f64 value.  A plain number on the other side of an operator is a constant; it must not be zero, with
    which some drivers simplify (see `Root.opaque_zero`).
    """

    __slots__ = ("function", "value")

    def __init__(self, function: FunctionBuilder, value: Value) -> None:
        self.function = function
        self.value = value

    def like(self, number: Number) -> Real:
        """A number as a `Real` of the same function."""
        if isinstance(number, Real):
            return number
        return Real(self.function, self.function.module.constant(F64, number))

    def _binary(self, name: str, a: Number, b: Number) -> Real:
        first, second = self.like(a), self.like(b)
        return Real(self.function, self.function.exact(name, F64, first.value, second.value))

    def __add__(self, other: Number) -> Real:
        return self._binary("OpFAdd", self, other)

    def __radd__(self, other: float) -> Real:
        return self._binary("OpFAdd", other, self)

    def __sub__(self, other: Number) -> Real:
        return self._binary("OpFSub", self, other)

    def __rsub__(self, other: float) -> Real:
        return self._binary("OpFSub", other, self)

    def __mul__(self, other: Number) -> Real:
        return self._binary("OpFMul", self, other)

    def __rmul__(self, other: float) -> Real:
        return self._binary("OpFMul", other, self)

    def __truediv__(self, other: Number) -> Real:
        return self._binary("OpFDiv", self, other)

    def __rtruediv__(self, other: float) -> Real:
        return self._binary("OpFDiv", other, self)

    def less(self, other: Number) -> Value:
        """self < other; false for NaN."""
        return self.function.op("OpFOrdLessThan", BOOL, self.value, self.like(other).value)

    def equals(self, other: Number) -> Value:
        """self == other; false for NaN."""
        return self.function.op("OpFOrdEqual", BOOL, self.value, self.like(other).value)

    def choose(self, condition: Value, other: Number) -> Real:
        """self where the condition holds, other elsewhere."""
        chosen = self.function.op("OpSelect", F64, condition, self.value, self.like(other).value)
        return Real(self.function, chosen)

    def clamp(self, low: float, high: float) -> Real:
        """self within [low, high]; NaN stays."""
        raised = self.like(low).choose(self.less(low), self)
        return self.like(high).choose(self.like(high).less(raised), raised)

    def bits(self) -> Value:
        """The pattern as a 64-bit integer."""
        return self.function.op("OpBitcast", U64, self.value)

    def magnitude(self) -> Real:
        """|self|"""
        words = Arithmetic(self.function)
        return real_of_bits(self.function, words.binary("OpBitwiseAnd", self.bits(), SIGN_BIT - 1))

    def with_sign_of(self, other: Real) -> Real:
        """|self| with the sign of other."""
        words = Arithmetic(self.function)
        sign = words.binary("OpBitwiseAnd", other.bits(), SIGN_BIT)
        bits = words.binary("OpBitwiseAnd", self.bits(), SIGN_BIT - 1)
        return real_of_bits(self.function, words.binary("OpBitwiseOr", bits, sign))

    def flipped(self, condition: Value) -> Real:
        """-self where the condition holds."""
        words = Arithmetic(self.function)
        mask = words.select(condition, words.constant(U64, SIGN_BIT), 0)
        return real_of_bits(self.function, words.binary("OpBitwiseXor", self.bits(), mask))

    def floor(self) -> Real:
        """The largest integral value not above self."""
        return Real(self.function, self.function.glsl(GLSLstd450.Floor, F64, self.value))

    def nearest(self) -> Real:
        """An integral value at most half away, for magnitudes far below 2**52."""
        return (self + 0.5).floor()

    def root(self) -> Real:
        """The square root."""
        return Real(self.function, self.function.glsl(GLSLstd450.Sqrt, F64, self.value))

    def integer(self) -> Value:
        """An integral value as a signed 32-bit integer."""
        return self.function.op("OpConvertFToS", U32, self.value)

    def is_negative(self) -> Value:
        """Whether the sign bit is set."""
        return self.function.op("OpSLessThan", BOOL, self.bits(), self.function.module.constant(U64, 0))


def real_of_bits(function: FunctionBuilder, bits: Value) -> Real:
    """The f64 of a 64-bit pattern."""
    return Real(function, function.op("OpBitcast", F64, bits))


def zero(x: Real) -> Real:
    """0 in the function of `x`, for comparisons only: drivers simplify arithmetic with a constant zero."""
    return Real(x.function, x.function.module.null(F64))


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """The sum of coefficients[i] * x**i, by Horner's rule."""
    result: Number = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        result = x * result + coefficient
    return x.like(result)


def power_of_two(function: FunctionBuilder, exponent: Value) -> Real:
    """2**exponent for a signed 32-bit exponent of a normal number."""
    words = Arithmetic(function)
    field = words.widen(words.binary("OpIAdd", exponent, 1023))
    return real_of_bits(function, words.binary("OpShiftLeftLogical", field, 52))


def scaled(x: Real, exponent: Value) -> Real:
    """x * 2**exponent, for |exponent| up to 2044; a subnormal result is rounded once more."""
    words = Arithmetic(x.function)
    half = words.binary("OpShiftRightArithmetic", exponent, 1)
    rest = words.binary("OpISub", exponent, half)
    return x * power_of_two(x.function, half) * power_of_two(x.function, rest)
