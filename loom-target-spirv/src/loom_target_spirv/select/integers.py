"""Integer operations on SPIR-V integers of 8 to 64 bits, and on truth values for `i1`.

Every function takes the arithmetic of the function under construction and operands of one type.  Undefined
results of the language (division by zero, oversized shifts) are whatever the device makes of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from loom_target_spirv.enumerants import GLSLstd450
from loom_target_spirv.module import Value
from loom_target_spirv.types import BOOL, U32, IntType
from loom_target_spirv.wide_integer import Arithmetic

IntegerRule = Callable[..., Value]
"""rule(arithmetic, operand, ...) -> result"""


def width_of(value: Value) -> int:
    """The bits of an integer value."""
    assert isinstance(value.type, IntType)
    return value.type.width


def _native(name: str) -> IntegerRule:
    return lambda w, a, b: w.binary(name, a, b)


def _chosen(comparison: str) -> IntegerRule:
    return lambda w, a, b: w.select(w.compare(comparison, a, b), a, b)


def _remainder(w: Arithmetic, a: Value, b: Value) -> Value:
    # The least value by -1 overflows in SPIR-V, while every value by -1 leaves 0, as by 1.
    all_ones = (1 << width_of(b)) - 1
    divisor = w.select(w.compare("OpIEqual", b, all_ones), 1, b)
    return w.binary("OpSRem", a, divisor)


def _rounded_quotient(up: bool) -> IntegerRule:
    """The signed quotient rounded toward positive (`up`) or negative infinity."""

    def divide(w: Arithmetic, a: Value, b: Value) -> Value:
        quotient = w.binary("OpSDiv", a, b)
        rest = w.binary("OpISub", a, w.binary("OpIMul", quotient, b))
        signs_differ = w.compare("OpSLessThan", w.binary("OpBitwiseXor", a, b), 0)
        inexact = w.compare("OpINotEqual", rest, 0)
        if up:
            adjust = w.both(inexact, w.function.op("OpLogicalNot", BOOL, signs_differ))
            return w.binary("OpIAdd", quotient, w.select(adjust, w.constant(a.type, 1), 0))
        return w.binary("OpISub", quotient, w.select(w.both(inexact, signs_differ), w.constant(a.type, 1), 0))

    return divide


def _ceiling_unsigned(w: Arithmetic, a: Value, b: Value) -> Value:
    quotient = w.binary("OpUDiv", a, b)
    inexact = w.compare("OpINotEqual", w.binary("OpIMul", quotient, b), a)
    return w.binary("OpIAdd", quotient, w.select(inexact, w.constant(a.type, 1), 0))


def _rotate(left: bool) -> IntegerRule:
    """SPIR-V leaves a shift by the width open, so both amounts are taken modulo the width."""

    def rotate(w: Arithmetic, a: Value, count: Value) -> Value:
        mask = width_of(a) - 1
        near = w.binary("OpBitwiseAnd", count, mask)
        far = w.binary("OpBitwiseAnd", w.function.op("OpSNegate", a.type, count), mask)
        up, down = (near, far) if left else (far, near)
        return w.binary("OpBitwiseOr", w.binary("OpShiftLeftLogical", a, up), w.binary("OpShiftRightLogical", a, down))

    return rotate


def _negate(w: Arithmetic, a: Value) -> Value:
    return w.function.op("OpSNegate", a.type, a)


def _magnitude(w: Arithmetic, a: Value) -> Value:
    return w.select(w.compare("OpSLessThan", a, 0), _negate(w, a), a)


def _sign(w: Arithmetic, a: Value) -> Value:
    minus_one = (1 << width_of(a)) - 1
    positive = w.select(w.compare("OpSGreaterThan", a, 0), w.constant(a.type, 1), 0)
    return w.select(w.compare("OpSLessThan", a, 0), minus_one, positive)


def _resized(w: Arithmetic, value: Value, type_: IntType) -> Value:
    return value if value.type == type_ else w.function.op("OpUConvert", type_, value)


def population_count(w: Arithmetic, a: Value) -> Value:
    """Set bits.  Vulkan defines OpBitCount for 32 bits only."""
    width = width_of(a)
    if width == 64:
        high = w.low(w.binary("OpShiftRightLogical", a, 32))
        parts = [w.function.op("OpBitCount", U32, part) for part in (w.low(a), high)]
        return w.widen(w.binary("OpIAdd", *parts))
    return _resized(w, w.function.op("OpBitCount", U32, _resized(w, a, U32)), IntType(width))


def _leading_zeros(w: Arithmetic, a: Value) -> Value:
    width = width_of(a)
    if width == 64:
        return w.widen(w.leading_zeros(a))
    # FindUMsb gives -1 for zero, which makes the count the width.
    highest = w.function.glsl(GLSLstd450.FindUMsb, U32, _resized(w, a, U32))
    return _resized(w, w.binary("OpISub", w.constant(U32, width - 1), highest), IntType(width))


def _trailing_zeros(w: Arithmetic, a: Value) -> Value:
    below = w.binary("OpBitwiseAnd", w.function.op("OpNot", a.type, a), w.binary("OpISub", a, 1))
    return population_count(w, below)


def _multiply_add(w: Arithmetic, a: Value, b: Value, c: Value) -> Value:
    return w.binary("OpIAdd", w.binary("OpIMul", a, b), c)


INTEGER_RULES: Final[dict[str, IntegerRule]] = {
    "addi": _native("OpIAdd"),
    "subi": _native("OpISub"),
    "muli": _native("OpIMul"),
    "fmai": _multiply_add,
    "divsi": _native("OpSDiv"),
    "divui": _native("OpUDiv"),
    "remsi": _remainder,
    "remui": _native("OpUMod"),
    "ceildivsi": _rounded_quotient(up=True),
    "floordivsi": _rounded_quotient(up=False),
    "ceildivui": _ceiling_unsigned,
    "minsi": _chosen("OpSLessThan"),
    "maxsi": _chosen("OpSGreaterThan"),
    "minui": _chosen("OpULessThan"),
    "maxui": _chosen("OpUGreaterThan"),
    "andi": _native("OpBitwiseAnd"),
    "ori": _native("OpBitwiseOr"),
    "xori": _native("OpBitwiseXor"),
    "shli": _native("OpShiftLeftLogical"),
    "shrsi": _native("OpShiftRightArithmetic"),
    "shrui": _native("OpShiftRightLogical"),
    "rotli": _rotate(left=True),
    "rotri": _rotate(left=False),
    "negi": _negate,
    "absi": _magnitude,
    "signi": _sign,
    "ctlzi": _leading_zeros,
    "cttzi": _trailing_zeros,
    "ctpopi": population_count,
}
"""Integer operations of `scalar` and of vector lanes, by bare name."""


def _first(w: Arithmetic, a: Value, *rest: Value) -> Value:
    return a


def _and(w: Arithmetic, a: Value, b: Value) -> Value:
    return w.both(a, b)


def _or(w: Arithmetic, a: Value, b: Value) -> Value:
    return w.either(a, b)


def _differs(w: Arithmetic, a: Value, b: Value) -> Value:
    return w.function.op("OpLogicalNotEqual", BOOL, a, b)


def _complement(w: Arithmetic, a: Value) -> Value:
    return w.function.op("OpLogicalNot", BOOL, a)


def _false(w: Arithmetic, a: Value, b: Value) -> Value:
    return w.constant(BOOL, 0)


TRUTH_RULES: Final[dict[str, IntegerRule]] = {
    "addi": _differs,
    "subi": _differs,
    "muli": _and,
    "fmai": lambda w, a, b, c: _differs(w, w.both(a, b), c),
    # The only divisor is 1 (unsigned) or -1 (signed); -1 by -1 does not fit.
    "divsi": _first,
    "divui": _first,
    "remsi": _false,
    "remui": _false,
    "ceildivsi": _first,
    "floordivsi": _first,
    "ceildivui": _first,
    # True reads as -1 where the operation is signed.
    "minsi": _or,
    "maxsi": _and,
    "minui": _and,
    "maxui": _or,
    "andi": _and,
    "ori": _or,
    "xori": _differs,
    # The only shift amount is 0, and a rotation of one bit changes nothing.
    "shli": _first,
    "shrsi": _first,
    "shrui": _first,
    "rotli": _first,
    "rotri": _first,
    # 0 - a is a modulo 2; 1 does not fit a signed bit and reads as true.
    "negi": _first,
    "absi": _first,
    "signi": _first,
    "ctlzi": _complement,
    "cttzi": _complement,
    "ctpopi": _first,
}
"""The same operations on `i1`, whose values are 0 and 1 modulo 2."""

COMPARISONS: Final[dict[str, str]] = {
    "eq": "OpIEqual",
    "ne": "OpINotEqual",
    "slt": "OpSLessThan",
    "sle": "OpSLessThanEqual",
    "sgt": "OpSGreaterThan",
    "sge": "OpSGreaterThanEqual",
    "ult": "OpULessThan",
    "ule": "OpULessThanEqual",
    "ugt": "OpUGreaterThan",
    "uge": "OpUGreaterThanEqual",
}
"""Integer predicates."""

UNSIGNED: Final[dict[str, str]] = {"slt": "ult", "sle": "ule", "sgt": "ugt", "sge": "uge"}
"""The unsigned predicate that decides the same where both sides are non-negative."""


def compare(w: Arithmetic, predicate: str, a: Value, b: Value) -> Value:
    """Compare integers or truth values (true is -1 to a signed predicate)."""
    if a.type != BOOL:
        return w.compare(COMPARISONS[predicate], a, b)
    if predicate in ("eq", "ne"):
        return w.function.op("OpLogicalEqual" if predicate == "eq" else "OpLogicalNotEqual", BOOL, a, b)
    strict, less = predicate[1:] in ("lt", "gt"), predicate[1] == "l"
    smaller, larger = (a, b) if less else (b, a)
    if predicate[0] == "s":
        smaller, larger = larger, smaller
    # smaller < larger as bits: 0 < 1.
    if strict:
        return w.both(_complement(w, smaller), larger)
    return w.either(_complement(w, smaller), larger)
