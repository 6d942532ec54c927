"""Floating-point operations on f16, f32 and f64: one rounding to nearest even, and IEEE results for NaN,
infinities and the sign of zero.

What drivers may simplify (signs, tests, minimum and maximum) is written with integer operations on the bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from loom.ir.core import Op
from loom_target_spirv.enumerants import GLSLstd450
from loom_target_spirv.exact_convert import round_to_integral
from loom_target_spirv.exact_fma import FmaMethod, fma
from loom_target_spirv.exact_remainder import remainder
from loom_target_spirv.module import Value
from loom_target_spirv.select.context import Context
from loom_target_spirv.types import BOOL, F64, FloatType, IntType

FloatRule = Callable[[Context, Op, Sequence[Value]], Value]
"""rule(context, operation, operands of one lane) -> result of the lane"""

_FRACTION: Final = {16: 10, 32: 23, 64: 52}


def float_of(value: Value) -> FloatType:
    """The type of a float value."""
    assert isinstance(value.type, FloatType)
    return value.type


def sign_mask(type_: FloatType) -> int:
    """The pattern of the sign bit."""
    return 1 << (type_.width - 1)


def infinity_bits(type_: FloatType) -> int:
    """The pattern of positive infinity."""
    return (sign_mask(type_) - 1) >> _FRACTION[type_.width] << _FRACTION[type_.width]


def bits_of(context: Context, value: Value) -> Value:
    """The pattern of a float as an integer."""
    return context.function.op("OpBitcast", IntType(float_of(value).width), value)


def from_bits(context: Context, bits: Value, type_: FloatType) -> Value:
    """The float of a pattern."""
    return context.function.op("OpBitcast", type_, bits)


def _magnitude_bits(context: Context, value: Value) -> Value:
    return context.integers.binary("OpBitwiseAnd", bits_of(context, value), sign_mask(float_of(value)) - 1)


def is_nan(context: Context, value: Value) -> Value:
    """Whether a float is a NaN."""
    return context.integers.compare("OpUGreaterThan", _magnitude_bits(context, value), infinity_bits(float_of(value)))


def _is_infinite(context: Context, op: Op, operands: Sequence[Value]) -> Value:
    infinity = infinity_bits(float_of(operands[0]))
    return context.integers.compare("OpIEqual", _magnitude_bits(context, operands[0]), infinity)


def _is_finite(context: Context, op: Op, operands: Sequence[Value]) -> Value:
    infinity = infinity_bits(float_of(operands[0]))
    return context.integers.compare("OpULessThan", _magnitude_bits(context, operands[0]), infinity)


def _rounded(name: str) -> FloatRule:
    """A SPIR-V instruction whose result is rounded on its own."""

    def apply(context: Context, op: Op, operands: Sequence[Value]) -> Value:
        return context.function.exact(name, operands[0].type, *operands)

    return apply


def _remainder(context: Context, op: Op, operands: Sequence[Value]) -> Value:
    return remainder(context.function, context.root, *operands)


def _negate(context: Context, op: Op, operands: Sequence[Value]) -> Value:
    type_ = float_of(operands[0])
    flipped = context.integers.binary("OpBitwiseXor", bits_of(context, operands[0]), sign_mask(type_))
    return from_bits(context, flipped, type_)


def _absolute(context: Context, op: Op, operands: Sequence[Value]) -> Value:
    return from_bits(context, _magnitude_bits(context, operands[0]), float_of(operands[0]))


def with_sign(context: Context, magnitude: Value, sign: Value) -> Value:
    """The magnitude of one float with the sign of another."""
    words, type_ = context.integers, float_of(magnitude)
    sign_bit = words.binary("OpBitwiseAnd", bits_of(context, sign), sign_mask(type_))
    bits = words.binary("OpBitwiseOr", _magnitude_bits(context, magnitude), sign_bit)
    return from_bits(context, bits, type_)


def _copy_sign(context: Context, op: Op, operands: Sequence[Value]) -> Value:
    return with_sign(context, *operands)


def _sign(context: Context, op: Op, operands: Sequence[Value]) -> Value:
    """-1, 0 or 1 as bits: 0 for both zeros and for NaN, where both comparisons are false."""
    words, type_ = context.integers, float_of(operands[0])
    one = _one_bits(type_)
    integer = IntType(type_.width)
    zero = context.float_constant(type_, 0.0)
    above = context.function.op("OpFOrdGreaterThan", BOOL, operands[0], zero)
    below = context.function.op("OpFOrdLessThan", BOOL, operands[0], zero)
    bits = words.select(above, words.constant(integer, one), 0)
    return from_bits(context, words.select(below, one | sign_mask(type_), bits), type_)


def _one_bits(type_: FloatType) -> int:
    exponent_bits = type_.width - 1 - _FRACTION[type_.width]
    return ((1 << (exponent_bits - 1)) - 1) << _FRACTION[type_.width]


def extremum(context: Context, a: Value, b: Value, smaller: bool, number_wins: bool) -> Value:
    """Minimum or maximum with -0 < +0; with `number_wins` a single NaN operand is ignored."""
    function, words, type_ = context.function, context.integers, float_of(a)
    bits_a, bits_b = bits_of(context, a), bits_of(context, b)
    first = function.op("OpFOrdLessThan" if smaller else "OpFOrdGreaterThan", BOOL, a, b)
    # Equal operands differ at most in the sign of zero: the union of the signs is the smaller zero.
    tied = words.binary("OpBitwiseOr" if smaller else "OpBitwiseAnd", bits_a, bits_b)
    equal = function.op("OpFOrdEqual", BOOL, a, b)
    chosen = words.select(equal, tied, words.select(first, bits_a, bits_b))
    nan_a, nan_b = is_nan(context, a), is_nan(context, b)
    if number_wins:
        chosen = words.select(nan_a, bits_b, words.select(nan_b, bits_a, chosen))
    else:
        quiet = infinity_bits(type_) | 1 << (_FRACTION[type_.width] - 1)
        chosen = words.select(words.either(nan_a, nan_b), quiet, chosen)
    return from_bits(context, chosen, type_)


def _extremum(smaller: bool, number_wins: bool) -> FloatRule:
    return lambda context, op, operands: extremum(context, operands[0], operands[1], smaller, number_wins)


def _clamp(context: Context, op: Op, operands: Sequence[Value]) -> Value:
    value, lower, upper = operands
    mode = op.attribute("mode")
    if mode == "ordered":
        function, words = context.function, context.integers
        below = function.op("OpFOrdLessThan", BOOL, value, lower)
        raised = words.select(below, lower, value)
        above = function.op("OpFOrdGreaterThan", BOOL, raised, upper)
        return words.select(above, upper, raised)
    number_wins = mode == "number"
    raised = extremum(context, value, lower, smaller=False, number_wins=number_wins)
    return extremum(context, raised, upper, smaller=True, number_wins=number_wins)


def fused_multiply_add(context: Context, op: Op, operands: Sequence[Value]) -> Value:
    """a*b + c rounded once, or as the device likes it where `afn` allows that."""
    if "afn" in fast_flags(op):
        return context.function.glsl(GLSLstd450.Fma, operands[0].type, *operands)
    method = FmaMethod.INTEGER if operands[0].type == F64 else context.fma_method
    a, b, c = operands
    return fma(context.function, a, b, c, method)


def fast_flags(op: Op) -> frozenset[str]:
    """The fast-math flags of an operation."""
    flags = op.attribute("flags") if "flags" in op.spec.attribute_index else None
    if not isinstance(flags, tuple):
        return frozenset()
    every = ("reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn")
    return frozenset(every if "fast" in flags else flags)


def _integral(name: GLSLstd450) -> FloatRule:
    return lambda context, op, operands: round_to_integral(context.function, name, operands[0])


def _round_away(context: Context, op: Op, operands: Sequence[Value]) -> Value:
    """Nearest integer, halves away from zero; x - trunc(x) is exact, so no half is missed."""
    function, type_ = context.function, float_of(operands[0])
    whole = round_to_integral(function, GLSLstd450.Trunc, operands[0])
    rest = _absolute(context, op, [function.exact("OpFSub", type_, operands[0], whole)])
    step = with_sign(context, context.constant(type_, 1.0), operands[0])
    # An infinity leaves NaN, and the comparison is false.
    up = function.op("OpFOrdGreaterThanEqual", BOOL, rest, context.constant(type_, 0.5))
    moved = function.exact("OpFAdd", type_, whole, step)
    return context.integers.select(up, moved, whole)


FLOAT_RULES: Final[dict[str, FloatRule]] = {
    "addf": _rounded("OpFAdd"),
    "subf": _rounded("OpFSub"),
    "mulf": _rounded("OpFMul"),
    "divf": _rounded("OpFDiv"),
    "remf": _remainder,
    "negf": _negate,
    "absf": _absolute,
    "copysignf": _copy_sign,
    "signf": _sign,
    "fmaf": fused_multiply_add,
    "minimumf": _extremum(smaller=True, number_wins=False),
    "maximumf": _extremum(smaller=False, number_wins=False),
    "minnumf": _extremum(smaller=True, number_wins=True),
    "maxnumf": _extremum(smaller=False, number_wins=True),
    "clampf": _clamp,
    "ceilf": _integral(GLSLstd450.Ceil),
    "floorf": _integral(GLSLstd450.Floor),
    "truncf": _integral(GLSLstd450.Trunc),
    "roundevenf": _integral(GLSLstd450.RoundEven),
    "roundf": _round_away,
    "isnanf": lambda context, op, operands: is_nan(context, operands[0]),
    "isinff": _is_infinite,
    "isfinitef": _is_finite,
}
"""Float operations of `scalar` and of vector lanes, by bare name."""

_PREDICATES: Final[dict[str, str]] = {
    "oeq": "OpFOrdEqual",
    "ogt": "OpFOrdGreaterThan",
    "oge": "OpFOrdGreaterThanEqual",
    "olt": "OpFOrdLessThan",
    "ole": "OpFOrdLessThanEqual",
    "one": "OpFOrdNotEqual",
    "ueq": "OpFUnordEqual",
    "ugt": "OpFUnordGreaterThan",
    "uge": "OpFUnordGreaterThanEqual",
    "ult": "OpFUnordLessThan",
    "ule": "OpFUnordLessThanEqual",
    "une": "OpFUnordNotEqual",
}


def compare(context: Context, op: Op, operands: Sequence[Value]) -> Value:
    """`cmpf`."""
    predicate = str(op.attribute("predicate"))
    if predicate in _PREDICATES:
        return context.function.op(_PREDICATES[predicate], BOOL, *operands)
    either = context.integers.either(is_nan(context, operands[0]), is_nan(context, operands[1]))
    return either if predicate == "uno" else context.function.op("OpLogicalNot", BOOL, either)


FLOAT_RULES["cmpf"] = compare
