"""Conversions between integers, floats and truth values, each rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from loom.ir.core import Op
from loom_target_spirv.exact_convert import integer_to_float, narrow_f64_to_f16
from loom_target_spirv.module import Value
from loom_target_spirv.select.context import Context
from loom_target_spirv.select.floats import bits_of
from loom_target_spirv.types import BOOL, F16, F64, U8, U32, BoolType, FloatType, IntType

ConversionRule = Callable[[Context, Op, Value, "BoolType | IntType | FloatType"], Value]
"""rule(context, operation, operand of one lane, result type) -> result of the lane"""


def from_truth(context: Context, value: Value, type_: IntType, signed: bool) -> Value:
    """A truth value as an integer: true is 1, or -1 where it is read as signed."""
    words = context.integers
    true = (1 << type_.width) - 1 if signed else 1
    return words.select(value, words.constant(type_, true), 0)


def to_truth(context: Context, value: Value) -> Value:
    """The lowest bit of an integer as a truth value."""
    words = context.integers
    return words.compare("OpINotEqual", words.binary("OpBitwiseAnd", value, 1), 0)


def resize(context: Context, value: Value, type_: IntType, signed: bool) -> Value:
    """An integer in another width, extended by its sign or by zeros."""
    if value.type == type_:
        return value
    return context.function.op("OpSConvert" if signed else "OpUConvert", type_, value)


def _integer_to_float(signed: bool) -> ConversionRule:
    def convert(context: Context, op: Op, value: Value, type_: BoolType | IntType | FloatType) -> Value:
        assert isinstance(type_, FloatType)
        if value.type == BOOL:
            one = context.constant(type_, -1.0 if signed else 1.0)
            return context.integers.select(value, one, context.float_constant(type_, 0.0))
        return integer_to_float(context.function, value, type_, signed)

    return convert


def _float_to_integer(signed: bool) -> ConversionRule:
    name = "OpConvertFToS" if signed else "OpConvertFToU"

    def convert(context: Context, op: Op, value: Value, type_: BoolType | IntType | FloatType) -> Value:
        if isinstance(type_, BoolType):
            # The values that fit are 0 and -1 (signed) or 0 and 1.
            return to_truth(context, context.function.op("OpConvertFToS", U32, value))
        if isinstance(type_, IntType) and type_.width < 32:
            # Conversions to narrow integers are rare in shaders; every value that fits fits 32 bits.
            return context.function.op("OpUConvert", type_, context.function.op(name, U32, value))
        return context.function.op(name, type_, value)

    return convert


def _widen_float(context: Context, op: Op, value: Value, type_: BoolType | IntType | FloatType) -> Value:
    return context.function.exact("OpFConvert", type_, value)


def _narrow_float(context: Context, op: Op, value: Value, type_: BoolType | IntType | FloatType) -> Value:
    if value.type == F64 and type_ == F16:
        return narrow_f64_to_f16(context.function, value)
    return context.function.exact("OpFConvert", type_, value)


def _extend(signed: bool) -> ConversionRule:
    def convert(context: Context, op: Op, value: Value, type_: BoolType | IntType | FloatType) -> Value:
        assert isinstance(type_, IntType)
        if value.type == BOOL:
            return from_truth(context, value, type_, signed)
        return resize(context, value, type_, signed)

    return convert


def _truncate(context: Context, op: Op, value: Value, type_: BoolType | IntType | FloatType) -> Value:
    if isinstance(type_, BoolType):
        return to_truth(context, value)
    assert isinstance(type_, IntType)
    return resize(context, value, type_, signed=False)


def _same_bits(context: Context, op: Op, value: Value, type_: BoolType | IntType | FloatType) -> Value:
    return value if value.type == type_ else context.function.op("OpBitcast", type_, value)


def _field(signed: bool) -> ConversionRule:
    """Bits [offset, offset + width) of an integer, extended or cut to the result."""

    def extract(context: Context, op: Op, value: Value, type_: BoolType | IntType | FloatType) -> Value:
        words = context.integers
        offset, width = op.attribute("offset"), op.attribute("width")
        assert isinstance(offset, int)
        assert isinstance(width, int)
        if value.type == BOOL:
            value = from_truth(context, value, U8, signed=False)
        assert isinstance(value.type, IntType)
        total = value.type.width
        raised = words.binary("OpShiftLeftLogical", value, total - offset - width)
        name = "OpShiftRightArithmetic" if signed else "OpShiftRightLogical"
        field = words.binary(name, raised, total - width)
        if isinstance(type_, BoolType):
            return to_truth(context, field)
        assert isinstance(type_, IntType)
        return resize(context, field, type_, signed)

    return extract


CONVERSION_RULES: Final[dict[str, ConversionRule]] = {
    "sitofp": _integer_to_float(signed=True),
    "uitofp": _integer_to_float(signed=False),
    "fptosi": _float_to_integer(signed=True),
    "fptoui": _float_to_integer(signed=False),
    "extf": _widen_float,
    "fptrunc": _narrow_float,
    "extsi": _extend(signed=True),
    "extui": _extend(signed=False),
    "trunci": _truncate,
    "bitcast": _same_bits,
    "bitfield.extractu": _field(signed=False),
    "bitfield.extracts": _field(signed=True),
}
"""Conversions of `scalar` and of vector lanes, by bare name."""


def as_pattern(context: Context, value: Value) -> Value:
    """A scalar as an unsigned integer of its storage width; a truth value takes a byte."""
    if value.type == BOOL:
        return from_truth(context, value, U8, signed=False)
    if isinstance(value.type, FloatType):
        return bits_of(context, value)
    return value


def of_pattern(context: Context, bits: Value, type_: BoolType | IntType | FloatType) -> Value:
    """The inverse of `as_pattern`; any byte but 0 is true."""
    if isinstance(type_, BoolType):
        return context.integers.compare("OpINotEqual", bits, 0)
    if isinstance(type_, FloatType):
        return context.function.op("OpBitcast", type_, bits)
    return bits
