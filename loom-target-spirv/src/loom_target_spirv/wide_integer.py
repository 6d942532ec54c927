"""Unsigned integers of 64 and 128 bits inside a SPIR-V function, with the operations exact arithmetic needs.

Both classes offer the same operations on values of their own kind, so an algorithm is written once for either
width. Shift amounts are 32-bit values below the width.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from loom_target_spirv.enumerants import GLSLstd450
from loom_target_spirv.function import FunctionBuilder
from loom_target_spirv.module import Value
from loom_target_spirv.types import BOOL, U32, U64, Type

Operand: TypeAlias = Value | int


class Arithmetic:
    """Appends integer instructions; a plain number stands for a constant of the other operand's type."""

    def __init__(self, function: FunctionBuilder) -> None:
        self.function = function

    def constant(self, type_: Type, value: int) -> Value:
        """An integer constant."""
        return self.function.module.constant(type_, value)

    def binary(self, name: str, a: Value, b: Operand) -> Value:
        """An instruction whose operands and result share a type."""
        return self.function.op(name, a.type, a, self._like(a, b))

    def compare(self, name: str, a: Value, b: Operand) -> Value:
        """A comparison."""
        return self.function.op(name, BOOL, a, self._like(a, b))

    def both(self, a: Value, b: Value) -> Value:
        """Logical and."""
        return self.function.op("OpLogicalAnd", BOOL, a, b)

    def either(self, a: Value, b: Value) -> Value:
        """Logical or."""
        return self.function.op("OpLogicalOr", BOOL, a, b)

    def select(self, condition: Value, a: Operand, b: Operand) -> Value:
        """`a` where the condition holds, `b` elsewhere; one of them is a value."""
        if isinstance(a, int):
            assert isinstance(b, Value)
            a = self._like(b, a)
        return self.function.op("OpSelect", a.type, condition, a, self._like(a, b))

    def widen(self, value: Value) -> Value:
        """Zero-extend a narrower integer to 64 bits."""
        return value if value.type == U64 else self.function.op("OpUConvert", U64, value)

    def low(self, value: Value) -> Value:
        """The low 32 bits of a 64-bit integer."""
        return self.function.op("OpUConvert", U32, value)

    def leading_zeros(self, value: Value) -> Value:
        """The number of zero bits above the highest one of a 64-bit integer, 64 for zero; as 32 bits."""
        # FindUMsb is defined for 32 bits only, and gives -1 for zero.
        glsl = self.function.glsl
        high = self.low(self.binary("OpShiftRightLogical", value, 32))
        in_high = self.binary("OpISub", self.constant(U32, 31), glsl(GLSLstd450.FindUMsb, U32, high))
        in_low = self.binary(
            "OpISub", self.constant(U32, 63), glsl(GLSLstd450.FindUMsb, U32, self.low(value))
        )
        return self.select(self.compare("OpINotEqual", high, 0), in_high, in_low)

    def _like(self, a: Value, b: Operand) -> Value:
        return b if isinstance(b, Value) else self.constant(a.type, b)


@attrs.frozen
class Wide:
    """An integer of 64 bits (`high` is None) or 128 bits."""

    low: Value
    high: Value | None = None


class Words64(Arithmetic):
    """Integers of one 64-bit word."""

    width = 64

    def product(self, a: Value, b: Value) -> Wide:
        """The product of two 64-bit words, which fits 64 bits."""
        return Wide(self.binary("OpIMul", a, b))

    def word(self, value: Value) -> Wide:
        """A 64-bit word as it is."""
        return Wide(value)

    def leading_zero_bits(self, a: Wide) -> Value:
        """As `leading_zeros`, over the whole width."""
        return self.leading_zeros(a.low)

    def is_zero(self, a: Wide) -> Value:
        """Whether every bit is zero."""
        return self.compare("OpIEqual", a.low, 0)

    def less(self, a: Wide, b: Wide) -> Value:
        """a < b."""
        return self.compare("OpULessThan", a.low, b.low)

    def add(self, a: Wide, b: Wide) -> Wide:
        """The sum, which fits."""
        return Wide(self.binary("OpIAdd", a.low, b.low))

    def subtract(self, a: Wide, b: Wide) -> Wide:
        """The difference modulo the width."""
        return Wide(self.binary("OpISub", a.low, b.low))

    def choose(self, condition: Value, a: Wide, b: Wide) -> Wide:
        """`a` where the condition holds, `b` elsewhere."""
        return Wide(self.select(condition, a.low, b.low))

    def shift_left(self, a: Wide, amount: Value) -> Wide:
        """Shift; bits pushed out are lost."""
        return Wide(self.binary("OpShiftLeftLogical", a.low, amount))

    def shift_right_sticky(self, a: Wide, amount: Value) -> Wide:
        """Shift; the lowest bit of the result is set too when a one was pushed out."""
        kept = self.binary("OpShiftRightLogical", a.low, amount)
        lost = self.compare("OpINotEqual", self.binary("OpShiftLeftLogical", kept, amount), a.low)
        return Wide(self.binary("OpBitwiseOr", kept, self.select(lost, self.constant(U64, 1), 0)))


class Words128(Arithmetic):
    """Integers of two 64-bit words; the operations are those of `Words64`."""

    width = 128

    def product(self, a: Value, b: Value) -> Wide:
        """The product of two 64-bit words of at most 62 bits each."""
        mask = 0xFFFFFFFF
        a_low, a_high = self.binary("OpBitwiseAnd", a, mask), self.binary("OpShiftRightLogical", a, 32)
        b_low, b_high = self.binary("OpBitwiseAnd", b, mask), self.binary("OpShiftRightLogical", b, 32)
        first = self.binary("OpIMul", a_low, b_low)
        # Two products below 2^62 and a carry below 2^32: the sum cannot wrap.
        middle = self.binary(
            "OpIAdd", self.binary("OpIMul", a_high, b_low), self.binary("OpIMul", a_low, b_high)
        )
        middle = self.binary("OpIAdd", middle, self.binary("OpShiftRightLogical", first, 32))
        low = self.binary(
            "OpBitwiseOr",
            self.binary("OpShiftLeftLogical", middle, 32),
            self.binary("OpBitwiseAnd", first, mask),
        )
        high = self.binary(
            "OpIAdd", self.binary("OpIMul", a_high, b_high), self.binary("OpShiftRightLogical", middle, 32)
        )
        return Wide(low, high)

    def word(self, value: Value) -> Wide:
        """A 64-bit word, extended with zeros."""
        return Wide(value, self.constant(U64, 0))

    def leading_zero_bits(self, a: Wide) -> Value:
        """As `leading_zeros`, over the whole width."""
        high = _high(a)
        below = self.binary("OpIAdd", self.leading_zeros(a.low), 64)
        return self.select(self.compare("OpINotEqual", high, 0), self.leading_zeros(high), below)

    def is_zero(self, a: Wide) -> Value:
        """Whether every bit is zero."""
        return self.compare("OpIEqual", self.binary("OpBitwiseOr", a.low, _high(a)), 0)

    def less(self, a: Wide, b: Wide) -> Value:
        """a < b."""
        high_equal = self.compare("OpIEqual", _high(a), _high(b))
        low_less = self.compare("OpULessThan", a.low, b.low)
        return self.either(self.compare("OpULessThan", _high(a), _high(b)), self.both(high_equal, low_less))

    def add(self, a: Wide, b: Wide) -> Wide:
        """The sum, which fits."""
        low = self.binary("OpIAdd", a.low, b.low)
        carry = self.select(self.compare("OpULessThan", low, a.low), self.constant(U64, 1), 0)
        return Wide(low, self.binary("OpIAdd", self.binary("OpIAdd", _high(a), _high(b)), carry))

    def subtract(self, a: Wide, b: Wide) -> Wide:
        """The difference modulo the width."""
        borrow = self.select(self.compare("OpULessThan", a.low, b.low), self.constant(U64, 1), 0)
        high = self.binary("OpISub", self.binary("OpISub", _high(a), _high(b)), borrow)
        return Wide(self.binary("OpISub", a.low, b.low), high)

    def choose(self, condition: Value, a: Wide, b: Wide) -> Wide:
        """`a` where the condition holds, `b` elsewhere."""
        return Wide(self.select(condition, a.low, b.low), self.select(condition, _high(a), _high(b)))

    def shift_left(self, a: Wide, amount: Value) -> Wide:
        """Shift; bits pushed out are lost."""
        within, short = self._split(amount)
        low = self.binary("OpShiftLeftLogical", a.low, within)
        high = self.binary(
            "OpBitwiseOr",
            self.binary("OpShiftLeftLogical", _high(a), within),
            self.binary(
                "OpShiftRightLogical", self.binary("OpShiftRightLogical", a.low, 1), self._rest(within)
            ),
        )
        return Wide(self.select(short, low, 0), self.select(short, high, low))

    def shift_right_sticky(self, a: Wide, amount: Value) -> Wide:
        """Shift; the lowest bit of the result is set too when a one was pushed out."""
        within, short = self._split(amount)
        high = self.binary("OpShiftRightLogical", _high(a), within)
        low = self.binary(
            "OpBitwiseOr",
            self.binary("OpShiftRightLogical", a.low, within),
            self.binary(
                "OpShiftLeftLogical", self.binary("OpShiftLeftLogical", _high(a), 1), self._rest(within)
            ),
        )
        ones = self.binary("OpShiftLeftLogical", self.constant(U64, 1), within)
        mask = self.binary("OpISub", ones, 1)
        lost_short = self.binary("OpBitwiseAnd", a.low, mask)
        lost_long = self.binary("OpBitwiseOr", a.low, self.binary("OpBitwiseAnd", _high(a), mask))
        lost = self.compare("OpINotEqual", self.select(short, lost_short, lost_long), 0)
        kept = self.select(short, low, high)
        sticky = self.binary("OpBitwiseOr", kept, self.select(lost, self.constant(U64, 1), 0))
        return Wide(sticky, self.select(short, high, 0))

    def _split(self, amount: Value) -> tuple[Value, Value]:
        """The shift within a word, and whether the whole shift is below 64."""
        return self.binary("OpBitwiseAnd", amount, 63), self.compare("OpULessThan", amount, 64)

    def _rest(self, within: Value) -> Value:
        """63 - `within`: after a shift by one more, what crosses between the words (SPIR-V has no shift by
        64).
        """
        return self.binary("OpISub", self.constant(U32, 63), within)


def _high(a: Wide) -> Value:
    assert a.high is not None
    return a.high
