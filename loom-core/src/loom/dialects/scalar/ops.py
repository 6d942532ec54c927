"""Declarations of the ``scalar`` dialect (language reference, part 1, section 14)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loom.dialects import words as w
from loom.dialects.scalar import verify as v
from loom.ir.attributes import Predicate
from loom.ir.core import Op, Value
from loom.ir.types import I1
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s
from loom.spec.constraints import Constraint

PURE: Final = ("pure",)
SAFE: Final = ("pure", "speculatable")
COMMUTATIVE: Final = ("pure", "commutative")
SAFE_COMMUTATIVE: Final = ("pure", "commutative", "speculatable")


class Unary(Op):
    """One operand, result of the same type."""

    __slots__ = ()
    flags: tuple[str, ...] | None
    input: Value


class Binary(Op):
    """Two operands and a result of one type."""

    __slots__ = ()
    flags: tuple[str, ...] | None
    lhs: Value
    rhs: Value


class Ternary(Op):
    """Three operands and a result of one type."""

    __slots__ = ()
    flags: tuple[str, ...] | None
    a: Value
    b: Value
    c: Value


def _shape(base: type[Op], operands: tuple[str, ...], constraint: Constraint, flags: k.FlagsKind | None) -> type[Op]:
    """A subclass of ``base`` with its fields bound to a constraint and a flag set."""
    fields: dict[str, object] = {"__slots__": (), "__module__": __name__, "__doc__": base.__doc__}
    if flags is not None:
        fields["flags"] = s.optional_attribute(flags)
    for name in operands:
        fields[name] = s.operand(constraint)
    fields["result"] = s.result(constraint, same_type_as=operands[0])
    return type(base.__name__, (base,), fields)


def arithmetic(
    dialect: str,
    table: Mapping[str, tuple[tuple[str, ...], str]],
    base: type[Op],
    operands: tuple[str, ...],
    constraint: Constraint,
    flags: k.FlagsKind | None,
) -> None:
    """Declare a family of ops of one shape: name -> (traits, meaning)."""
    shape = _shape(base, operands, constraint, flags)
    glued = "⟦<$flags>⟧" if flags is not None else ""
    text = f"{glued} {', '.join('$' + o for o in operands)} : type($result)"
    for name, (traits, summary) in table.items():
        s.define(
            shape,
            f"{dialect}.{name}",
            text,
            traits=traits,
            summary=summary,
            same_type=((*operands, "result"),),
            class_name=f"{dialect}.{name}",
        )


UNARY: Final = ("input",)
BINARY: Final = ("lhs", "rhs")
TERNARY: Final = ("a", "b", "c")

INTEGER_BINARY_FLAGGED: Final = {
    "addi": (COMMUTATIVE, "Sum, wrapping modulo 2^width."),
    "subi": (PURE, "Difference, wrapping modulo 2^width."),
    "muli": (COMMUTATIVE, "Product, low bits."),
    "shli": (PURE, "Left shift; zeros enter. The amount must lie in 0 ... width - 1."),
}
INTEGER_BINARY: Final = {
    "divsi": (PURE, "Signed quotient toward zero."),
    "divui": (PURE, "Unsigned quotient."),
    "remsi": (PURE, "Signed remainder with the sign of the dividend."),
    "remui": (PURE, "Unsigned remainder."),
    "ceildivsi": (PURE, "Signed quotient toward positive infinity."),
    "ceildivui": (PURE, "Unsigned quotient rounded up."),
    "floordivsi": (PURE, "Signed quotient toward negative infinity."),
    "minsi": (SAFE_COMMUTATIVE, "Signed minimum."),
    "maxsi": (SAFE_COMMUTATIVE, "Signed maximum."),
    "minui": (SAFE_COMMUTATIVE, "Unsigned minimum."),
    "maxui": (SAFE_COMMUTATIVE, "Unsigned maximum."),
    "andi": (COMMUTATIVE, "Bitwise and."),
    "ori": (COMMUTATIVE, "Bitwise or."),
    "xori": (COMMUTATIVE, "Bitwise exclusive or."),
    "shrsi": (PURE, "Right shift; copies of the sign enter."),
    "shrui": (PURE, "Right shift; zeros enter."),
    "rotli": (PURE, "Rotate left; the count is taken modulo the width."),
    "rotri": (PURE, "Rotate right; the count is taken modulo the width."),
}
INTEGER_UNARY: Final = {
    "negi": (("pure", "involution"), "0 - a; the minimum maps to itself."),
    "absi": (("pure", "idempotent"), "Magnitude; the minimum maps to itself."),
    "signi": (PURE, "-1, 0 or 1."),
    "ctlzi": (PURE, "Leading zero bits; the width for 0."),
    "cttzi": (PURE, "Trailing zero bits; the width for 0."),
    "ctpopi": (PURE, "Number of set bits."),
}
FLOAT_BINARY: Final = {
    "addf": (COMMUTATIVE, "Sum, rounded to nearest even."),
    "subf": (PURE, "Difference, rounded to nearest even."),
    "mulf": (COMMUTATIVE, "Product, rounded to nearest even."),
    "divf": (SAFE, "Quotient, rounded to nearest even."),
    "remf": (PURE, "Exact remainder with the sign of the dividend (C fmod)."),
    "minimumf": (COMMUTATIVE, "Minimum; NaN if either is NaN; -0 below +0."),
    "maximumf": (COMMUTATIVE, "Maximum; NaN if either is NaN; -0 below +0."),
    "minnumf": (COMMUTATIVE, "Minimum; a NaN operand is ignored."),
    "maxnumf": (COMMUTATIVE, "Maximum; a NaN operand is ignored."),
    "powf": (PURE, "lhs raised to rhs."),
    "atan2f": (PURE, "Angle of the point (rhs, lhs)."),
}
FLOAT_UNARY: Final = {
    "negf": (("pure", "involution"), "Flips the sign bit, also of a NaN."),
    "absf": (("pure", "idempotent"), "Clears the sign bit."),
    "expf": (PURE, "e^x."),
    "exp2f": (PURE, "2^x."),
    "expm1f": (PURE, "e^x - 1."),
    "logf": (PURE, "Natural logarithm."),
    "log2f": (PURE, "Base-2 logarithm."),
    "log10f": (PURE, "Base-10 logarithm."),
    "log1pf": (PURE, "ln(1 + x)."),
    "sqrtf": (PURE, "Square root."),
    "rsqrtf": (PURE, "1 / square root."),
    "cbrtf": (PURE, "Cube root."),
    "sinf": (PURE, "Sine of an angle in radians."),
    "cosf": (PURE, "Cosine of an angle in radians."),
    "tanf": (PURE, "Tangent of an angle in radians."),
    "asinf": (PURE, "Arc sine."),
    "acosf": (PURE, "Arc cosine."),
    "atanf": (PURE, "Arc tangent."),
    "sinturnsf": (PURE, "sin(2 pi x), exact at quarter turns."),
    "costurnsf": (PURE, "cos(2 pi x), exact at quarter turns."),
    "sinhf": (PURE, "Hyperbolic sine."),
    "coshf": (PURE, "Hyperbolic cosine."),
    "tanhf": (PURE, "Hyperbolic tangent."),
    "asinhf": (PURE, "Inverse hyperbolic sine."),
    "acoshf": (PURE, "Inverse hyperbolic cosine."),
    "atanhf": (PURE, "Inverse hyperbolic tangent."),
    "erff": (PURE, "Error function."),
    "erfcf": (PURE, "Complementary error function."),
    "logisticf": (PURE, "1 / (1 + e^-x)."),
    "siluf": (PURE, "x * logistic(x)."),
    "softplusf": (PURE, "ln(1 + e^x), as log1p(e^-|x|) + max(x, 0)."),
    "ceilf": (("pure", "idempotent"), "Toward positive infinity."),
    "floorf": (("pure", "idempotent"), "Toward negative infinity."),
    "truncf": (("pure", "idempotent"), "Toward zero."),
    "roundf": (("pure", "idempotent"), "To nearest, ties away from zero."),
    "roundevenf": (("pure", "idempotent"), "To nearest, ties to even."),
}

INTEGER_TERNARY: Final = {"fmai": (PURE, "a * b + c, wrapping.")}
FLOAT_BINARY_PLAIN: Final = {"copysignf": (PURE, "Magnitude of lhs with the sign of rhs.")}
FLOAT_UNARY_PLAIN: Final = {"signf": (PURE, "-1.0, 0.0 or 1.0; NaN and zero give 0.0.")}
FLOAT_TERNARY: Final = {"fmaf": (PURE, "a * b + c with one rounding.")}

arithmetic("scalar", INTEGER_BINARY_FLAGGED, Binary, BINARY, c.INTEGER, w.OVERFLOW)
arithmetic("scalar", INTEGER_BINARY, Binary, BINARY, c.INTEGER, None)
arithmetic("scalar", INTEGER_UNARY, Unary, UNARY, c.INTEGER, None)
arithmetic("scalar", INTEGER_TERNARY, Ternary, TERNARY, c.INTEGER, w.OVERFLOW)
arithmetic("scalar", FLOAT_BINARY, Binary, BINARY, c.FLOAT, w.FASTMATH)
arithmetic("scalar", FLOAT_BINARY_PLAIN, Binary, BINARY, c.FLOAT, None)
arithmetic("scalar", FLOAT_UNARY, Unary, UNARY, c.FLOAT, w.FASTMATH)
arithmetic("scalar", FLOAT_UNARY_PLAIN, Unary, UNARY, c.FLOAT, None)
arithmetic("scalar", FLOAT_TERNARY, Ternary, TERNARY, c.FLOAT, w.FASTMATH)


@s.op("scalar.constant", " $value : type($result)", traits=("pure", "constant"), verify=v.constant)
class Constant(Op):
    """A constant. Integers lie in the signed domain of the type; floats are rounded to it."""

    value: object = s.attribute(k.LITERAL)
    result: Value = s.result(c.PAYLOAD)


@s.op(
    "scalar.assume",
    " $inputs $<predicates mentioned predicates> : type($results)",
    traits=("pure", "fact_identity"),
    verify=v.assume,
)
class Assume(Op):
    """Result i is value i with the stated facts; false facts make the program invalid."""

    inputs: list[Value] = s.operands(c.PAYLOAD)
    mentioned: list[Value] = s.operands(c.SCALAR)
    predicates: tuple[Predicate, ...] = s.attribute(k.PREDICATES)
    results: list[Value] = s.results(c.PAYLOAD)


@s.op("scalar.poison", " : type($result)", traits=("pure", "poison"))
class Poison(Op):
    """A value that must not be observed."""

    result: Value = s.result(c.PAYLOAD)


@s.op(
    "scalar.clampf",
    "<$mode⟦, $flags⟧> $value, $lower, $upper : type($result)",
    traits=PURE,
    same_type=(("value", "lower", "upper", "result"),),
)
class ClampF(Op):
    """Clamp between two bounds; the mode says how NaN behaves."""

    mode: str = s.attribute(w.CLAMP_MODE)
    flags: tuple[str, ...] | None = s.optional_attribute(w.FASTMATH)
    value: Value = s.operand(c.FLOAT)
    lower: Value = s.operand(c.FLOAT)
    upper: Value = s.operand(c.FLOAT)
    result: Value = s.result(c.FLOAT, same_type_as="value")


@s.op(
    "scalar.geluf",
    "<$variant⟦, $flags⟧> $input⟦ $<dict scale>⟧ : type($result)",
    traits=PURE,
    same_type=(("input", "result"),),
    verify=v.gelu,
)
class GeluF(Op):
    """Gaussian error linear unit in one of three variants."""

    variant: str = s.attribute(w.GELU_VARIANT)
    flags: tuple[str, ...] | None = s.optional_attribute(w.FASTMATH)
    input: Value = s.operand(c.FLOAT)
    scale: float | None = s.optional_attribute(k.FLOAT)
    result: Value = s.result(c.FLOAT, same_type_as="input")


@s.op("scalar.cmpi", " $predicate, $lhs, $rhs : type($lhs)", traits=PURE, same_type=(("lhs", "rhs"),))
class CmpI(Op):
    """Integer comparison."""

    predicate: str = s.attribute(w.INTEGER_PREDICATE)
    lhs: Value = s.operand(c.INTEGER)
    rhs: Value = s.operand(c.INTEGER)
    result: Value = s.result(c.I1, fixed=I1)


@s.op("scalar.cmpf", "⟦<$flags>⟧ $predicate, $lhs, $rhs : type($lhs)", traits=PURE, same_type=(("lhs", "rhs"),))
class CmpF(Op):
    """Float comparison; ``o...`` predicates are false and ``u...`` ones true when either side is NaN."""

    flags: tuple[str, ...] | None = s.optional_attribute(w.FASTMATH)
    predicate: str = s.attribute(w.FLOAT_PREDICATE)
    lhs: Value = s.operand(c.FLOAT)
    rhs: Value = s.operand(c.FLOAT)
    result: Value = s.result(c.I1, fixed=I1)


class Test(Op):
    """A yes-or-no question about one float."""

    __slots__ = ()
    input: Value = s.operand(c.FLOAT)
    result: Value = s.result(c.I1, fixed=I1)


for _name, _summary in (
    ("isnanf", "Whether the value is a NaN."),
    ("isinff", "Whether the value is an infinity."),
    ("isfinitef", "Whether the value is neither NaN nor infinite."),
):
    s.define(
        Test, f"scalar.{_name}", " $input : type($input)", traits=PURE, summary=_summary, class_name=f"scalar.{_name}"
    )


class Conversion(Op):
    """A value of one type made into another."""

    __slots__ = ()
    input: Value


# name -> (from, to, verify, meaning)
CONVERSIONS: Final = {
    "sitofp": (c.INTEGER, c.FLOAT, None, "Signed integer to float, nearest even; i1 true is -1.0."),
    "uitofp": (c.INTEGER, c.FLOAT, None, "Unsigned integer to float, nearest even."),
    "fptosi": (c.FLOAT, c.INTEGER, None, "Float to signed integer toward zero."),
    "fptoui": (c.FLOAT, c.INTEGER, None, "Float to unsigned integer toward zero."),
    "extf": (c.FLOAT, c.FLOAT, v.wider, "Float to a strictly wider one, exact."),
    "fptrunc": (c.FLOAT, c.FLOAT, v.narrower, "Float to a strictly narrower one, nearest even."),
    "extsi": (c.INTEGER, c.INTEGER, v.wider, "Sign extension to a strictly wider integer."),
    "extui": (c.INTEGER, c.INTEGER, v.wider, "Zero extension to a strictly wider integer."),
    "trunci": (c.INTEGER, c.INTEGER, v.narrower, "Low bits, in a strictly narrower integer."),
    "bitcast": (c.PAYLOAD, c.PAYLOAD, v.same_width, "The same bits as another type of equal width."),
}

for _name, (_from, _to, _verify, _summary) in CONVERSIONS.items():
    _base = type(
        "Conversion",
        (Conversion,),
        {
            "__slots__": (),
            "__module__": __name__,
            "input": s.operand(_from),
            "result": s.result(_to),
        },
    )
    s.define(
        _base,
        f"scalar.{_name}",
        " $input : type($input) to type($result)",
        traits=PURE,
        verify=_verify,
        summary=_summary,
        class_name=f"scalar.{_name}",
    )


class BitfieldExtract(Op):
    """Bits [offset, offset + width) of the source."""

    __slots__ = ()
    source: Value = s.operand(c.INTEGER)
    offset: int = s.attribute(k.INT)
    width: int = s.attribute(k.INT)
    result: Value = s.result(c.INTEGER)


for _name, _summary in (("extractu", "Bit field, zero-extended."), ("extracts", "Bit field, sign-extended.")):
    s.define(
        BitfieldExtract,
        f"scalar.bitfield.{_name}",
        " $source $<dict offset width> : type($source) -> type($result)",
        traits=PURE,
        verify=v.bitfield,
        summary=_summary,
        class_name=f"scalar.bitfield.{_name}",
    )
