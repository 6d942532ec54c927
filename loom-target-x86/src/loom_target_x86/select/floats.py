"""Floating-point arithmetic of the `scalar` dialect (language reference, part 1, sections 14.6, 14.7 and 14.9).

Scalars are the lowest element of an xmm register. The processor's own minimum and maximum are not the language's:
`minss a, b` gives b when the two are equal (zeros of either sign) or either is NaN, hence the combinations here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loom.ir import types as t
from loom.ir.core import Op, Value
from loom.ir.types import ScalarType
from loom_target_x86.fma import FMA32_SEQUENCE
from loom_target_x86.select.context import Context
from loom_target_x86.select.rules import selects
from loom_target_x86.select.values import float_suffix

Form = Callable[[Context, ScalarType, Value, Value], Value]

_NO_NAN: Final = frozenset({"nnan", "fast"})

# Modes of the rounding instructions, with the inexact exception suppressed (Intel SDM, ROUNDSD, table 4-18).
_ROUNDINGS: Final[dict[str, int]] = {"roundevenf": 8, "floorf": 9, "ceilf": 10, "truncf": 11}


def number(c: Context, type_: ScalarType, value: float) -> Value:
    """A float constant."""
    from loom_target_x86.constants import float_bits

    return c.float_constant(float_bits(value, type_.width), type_.width)


def _sign_mask(c: Context, type_: ScalarType) -> Value:
    return c.float_constant(1 << (type_.width - 1), type_.width)


def _magnitude_mask(c: Context, type_: ScalarType) -> Value:
    return c.float_constant((1 << (type_.width - 1)) - 1, type_.width)


def negate(c: Context, type_: ScalarType, a: Value) -> Value:
    """The other sign, also of a NaN."""
    return c.fp("xorps", a, _sign_mask(c, type_))


def magnitude(c: Context, type_: ScalarType, a: Value) -> Value:
    """The sign bit cleared."""
    return c.fp("andps", a, _magnitude_mask(c, type_))


def copy_sign(c: Context, type_: ScalarType, a: Value, b: Value) -> Value:
    """Magnitude of a with the sign of b."""
    return c.fp("orps", magnitude(c, type_, a), c.fp("andps", b, _sign_mask(c, type_)))


def _instruction(name: str) -> Form:
    return lambda c, type_, a, b: c.fp(name + float_suffix(type_), a, b)


def minimum(c: Context, type_: ScalarType, a: Value, b: Value) -> Value:
    """NaN if either is NaN; -0 below +0.

    The two orders give both operands where they are equal or one is NaN: the union of their bits is the smaller
    zero, and a NaN stays one.
    """
    name = "min" + float_suffix(type_)
    return c.fp("orps", c.fp(name, a, b), c.fp(name, b, a))


def maximum(c: Context, type_: ScalarType, a: Value, b: Value) -> Value:
    """NaN if either is NaN; -0 below +0. Common bits give the larger zero; where a NaN is, all bits are set."""
    suffix = float_suffix(type_)
    common = c.fp("andps", c.fp("max" + suffix, a, b), c.fp("max" + suffix, b, a))
    return c.fp("orps", common, c.fp(f"cmp{suffix}.unord", a, b))


def _numbers(c: Context, type_: ScalarType, a: Value, b: Value) -> tuple[Value, Value]:
    """The operands with a NaN replaced by the other one; two NaNs change places."""
    unordered = f"cmp{float_suffix(type_)}.unord"

    def or_else(value: Value, other: Value) -> Value:
        nan = c.fp(unordered, value, value)
        return c.fp("orps", c.fp("andps", nan, other), c.fp("andnps", nan, value))

    return or_else(a, b), or_else(b, a)


def _minimum_number(c: Context, type_: ScalarType, a: Value, b: Value) -> Value:
    return minimum(c, type_, *_numbers(c, type_, a, b))


def _maximum_number(c: Context, type_: ScalarType, a: Value, b: Value) -> Value:
    return maximum(c, type_, *_numbers(c, type_, a, b))


def _remainder(c: Context, type_: ScalarType, a: Value, b: Value) -> Value:
    """Exact remainder by a routine on f64; the remainder of two f32 is an f32."""
    if type_ is t.F64:
        return c.fp("fmod64.soft", a, b)
    return c.fp("cvtsd2ss", c.fp("fmod64.soft", c.fp("cvtss2sd", a), c.fp("cvtss2sd", b)))


BINARY: Final[dict[str, Form]] = {
    "addf": _instruction("add"),
    "subf": _instruction("sub"),
    "mulf": _instruction("mul"),
    "divf": _instruction("div"),
    "remf": _remainder,
    "minimumf": minimum,
    "maximumf": maximum,
    "minnumf": _minimum_number,
    "maxnumf": _maximum_number,
    "copysignf": copy_sign,
}
"""Operation of the scalar dialect (and of reductions) -> form."""

#: Forms for operands that are promised not to be NaN.
_WITHOUT_NAN: Final[dict[str, Form]] = {"minnumf": minimum, "maxnumf": maximum}


def binary_form(name: str, flags: tuple[str, ...] | None) -> Form:
    """The form of an operation under fast-math flags."""
    if flags is not None and not _NO_NAN.isdisjoint(flags):
        return _WITHOUT_NAN.get(name) or BINARY[name]
    return BINARY[name]


def fused(c: Context, type_: ScalarType, a: Value, b: Value, addend: Value) -> Value:
    """a * b + addend with one rounding."""
    suffix = float_suffix(type_)
    if c.vex:
        return c.fp(f"fmadd231{suffix}", addend, a, b)
    if type_ is t.F64:
        return c.fp("fma64.soft", a, b, addend)
    values = {"a": a, "b": b, "c": addend}
    for step in FMA32_SEQUENCE:
        operands = [values[name] for name in step.operands]
        values[step.result] = c.op(step.mnemonic, *operands, **dict(step.immediates))
    return values["result"]


def _root(c: Context, type_: ScalarType, a: Value) -> Value:
    return c.fp("sqrt" + float_suffix(type_), a)


def _reciprocal_root(c: Context, type_: ScalarType, a: Value) -> Value:
    """f32 in f64, where quotient and root are exact enough for one rounding."""
    if type_ is t.F64:
        return c.fp("divsd", number(c, t.F64, 1.0), c.fp("sqrtsd", a))
    root = c.fp("sqrtsd", c.fp("cvtss2sd", a))
    return c.fp("cvtsd2ss", c.fp("divsd", number(c, t.F64, 1.0), root))


def _nearest_away(c: Context, type_: ScalarType, a: Value) -> Value:
    """Halves away from zero: truncate after adding the number just below a half, with the sign of the operand.

    The sum reaches the next integer exactly when the fraction is a half or more: for smaller fractions it stays
    below, and for a half it lies midway between the integer and its predecessor, a tie that goes to the integer.
    """
    below_half = number(c, type_, 0.5 - 2.0 ** (-25 if type_ is t.F32 else -54))
    half = c.fp("orps", c.fp("andps", a, _sign_mask(c, type_)), below_half)
    total = c.fp("add" + float_suffix(type_), a, half)
    return c.fp("round" + float_suffix(type_), total, control=_ROUNDINGS["truncf"])


def _sign(c: Context, type_: ScalarType, a: Value) -> Value:
    """Comparisons as masks over 1 and -1; both are false for zeros and NaN, which leaves +0."""
    suffix = float_suffix(type_)
    zero = c.fp("zero")
    above = c.fp("andps", c.fp(f"cmp{suffix}.lt", zero, a), number(c, type_, 1.0))
    below = c.fp("andps", c.fp(f"cmp{suffix}.lt", a, zero), number(c, type_, -1.0))
    return c.fp("orps", above, below)


def _rounding(name: str) -> Callable[[Context, ScalarType, Value], Value]:
    control = _ROUNDINGS[name]
    return lambda c, type_, a: c.fp("round" + float_suffix(type_), a, control=control)


UNARY: Final[dict[str, Callable[[Context, ScalarType, Value], Value]]] = {
    "negf": negate,
    "absf": magnitude,
    "sqrtf": _root,
    "rsqrtf": _reciprocal_root,
    "signf": _sign,
    "roundf": _nearest_away,
    **{name: _rounding(name) for name in _ROUNDINGS},
}


def compare_floats(c: Context, type_: ScalarType, predicate: str, a: Value, b: Value) -> Value:
    """0 or 1."""
    return c.fp(f"ucomi{float_suffix(type_)}.{predicate}", a, b)


# -- rules ----------------------------------------------------------------------------------------


def _float_type(c: Context, op: Op, type_: Any) -> ScalarType:
    """The type of an operation that has a form for f32 and f64 only."""
    return c.scalar_type(op, type_)


@selects(*(f"scalar.{name}" for name in BINARY))
def _binary(c: Context, op: Any) -> None:
    type_ = _float_type(c, op, op.result.type)
    name = op.name.removeprefix("scalar.")
    flags = op.flags if "flags" in op.spec.attribute_index else None
    c.bind(op.result, binary_form(name, flags)(c, type_, c.value(op.lhs), c.value(op.rhs)))


@selects(*(f"scalar.{name}" for name in UNARY))
def _unary(c: Context, op: Any) -> None:
    type_ = _float_type(c, op, op.result.type)
    c.bind(op.result, UNARY[op.name.removeprefix("scalar.")](c, type_, c.value(op.input)))


@selects("scalar.fmaf")
def _fma(c: Context, op: Any) -> None:
    type_ = _float_type(c, op, op.result.type)
    c.bind(op.result, fused(c, type_, c.value(op.a), c.value(op.b), c.value(op.c)))


@selects("scalar.clampf")
def _clamp(c: Context, op: Any) -> None:
    type_ = _float_type(c, op, op.result.type)
    value, lower, upper = c.value(op.value), c.value(op.lower), c.value(op.upper)
    suffix = float_suffix(type_)
    if op.mode == "ordered":
        # Here the instructions are just right: the second operand wins unless the first is strictly beyond it.
        result = c.fp("min" + suffix, upper, c.fp("max" + suffix, lower, value))
    elif op.mode == "number":
        result = binary_form("minnumf", op.flags)(
            c, type_, binary_form("maxnumf", op.flags)(c, type_, value, lower), upper
        )
    else:
        result = minimum(c, type_, maximum(c, type_, value, lower), upper)
    c.bind(op.result, result)


@selects("scalar.cmpf")
def _compare(c: Context, op: Any) -> None:
    type_ = _float_type(c, op, op.lhs.type)
    if not c.is_known(op.result):
        c.bind(op.result, compare_floats(c, type_, op.predicate, c.value(op.lhs), c.value(op.rhs)))


@selects("scalar.isnanf", "scalar.isinff", "scalar.isfinitef")
def _test(c: Context, op: Any) -> None:
    type_ = _float_type(c, op, op.input.type)
    if c.is_known(op.result):
        return
    value = c.value(op.input)
    if op.name == "scalar.isnanf":
        c.bind(op.result, compare_floats(c, type_, "uno", value, value))
        return
    predicate = "oeq" if op.name == "scalar.isinff" else "olt"
    infinity = number(c, type_, float("inf"))
    c.bind(op.result, compare_floats(c, type_, predicate, magnitude(c, type_, value), infinity))
