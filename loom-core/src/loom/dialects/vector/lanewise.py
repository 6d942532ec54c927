"""Lane-by-lane ops: the scalar families on vectors, selection, comparison, casts, bit fields (part 2, section 7)."""

from __future__ import annotations

from typing import Final

from loom.dialects import words as w
from loom.dialects.scalar import ops as scalar
from loom.dialects.scalar import verify as scalar_rules
from loom.dialects.vector import verify_lanewise as v
from loom.dialects.vector.checks import same_shape
from loom.ir.core import Op, Value
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

INT_VECTOR: Final = c.vector_of("vector of integers", c.INTEGER)
FLOAT_VECTOR: Final = c.vector_of("vector of floats", c.FLOAT)
MASK: Final = c.vector_of("vector of i1", c.I1)

scalar.arithmetic("vector", scalar.INTEGER_BINARY_FLAGGED, scalar.Binary, scalar.BINARY, INT_VECTOR, w.OVERFLOW)
scalar.arithmetic("vector", scalar.INTEGER_BINARY, scalar.Binary, scalar.BINARY, INT_VECTOR, None)
scalar.arithmetic("vector", scalar.INTEGER_UNARY, scalar.Unary, scalar.UNARY, INT_VECTOR, None)
scalar.arithmetic("vector", scalar.INTEGER_TERNARY, scalar.Ternary, scalar.TERNARY, INT_VECTOR, w.OVERFLOW)
scalar.arithmetic("vector", scalar.FLOAT_BINARY, scalar.Binary, scalar.BINARY, FLOAT_VECTOR, w.FASTMATH)
scalar.arithmetic("vector", scalar.FLOAT_BINARY_PLAIN, scalar.Binary, scalar.BINARY, FLOAT_VECTOR, w.FASTMATH)
scalar.arithmetic("vector", scalar.FLOAT_UNARY, scalar.Unary, scalar.UNARY, FLOAT_VECTOR, w.FASTMATH)
scalar.arithmetic("vector", scalar.FLOAT_UNARY_PLAIN, scalar.Unary, scalar.UNARY, FLOAT_VECTOR, None)
scalar.arithmetic("vector", scalar.FLOAT_TERNARY, scalar.Ternary, scalar.TERNARY, FLOAT_VECTOR, w.FASTMATH)


@s.op(
    "vector.clampf",
    "<$mode⟦, $flags⟧> $value, $lower, $upper : type($result)",
    traits=("pure",),
    same_type=(("value", "lower", "upper", "result"),),
)
class ClampF(Op):
    """Clamp every lane between two bounds; the mode says how NaN behaves."""

    mode: str = s.attribute(w.CLAMP_MODE)
    flags: tuple[str, ...] | None = s.optional_attribute(w.FASTMATH)
    value: Value = s.operand(FLOAT_VECTOR)
    lower: Value = s.operand(FLOAT_VECTOR)
    upper: Value = s.operand(FLOAT_VECTOR)
    result: Value = s.result(FLOAT_VECTOR, same_type_as="value")


@s.op(
    "vector.geluf",
    "<$variant⟦, $flags⟧> $input⟦ $<dict scale>⟧ : type($result)",
    traits=("pure",),
    same_type=(("input", "result"),),
    verify=scalar_rules.gelu,
)
class GeluF(Op):
    """Gaussian error linear unit of every lane."""

    variant: str = s.attribute(w.GELU_VARIANT)
    flags: tuple[str, ...] | None = s.optional_attribute(w.FASTMATH)
    input: Value = s.operand(FLOAT_VECTOR)
    scale: float | None = s.optional_attribute(k.FLOAT)
    result: Value = s.result(FLOAT_VECTOR, same_type_as="input")


@s.op(
    "vector.select",
    " $condition, $true_value, $false_value : type($result)",
    traits=("pure",),
    same_type=(("true_value", "false_value", "result"),),
    verify=v.select,
)
class Select(Op):
    """Per lane one of two values."""

    condition: Value = s.operand(MASK)
    true_value: Value = s.operand(c.VECTOR)
    false_value: Value = s.operand(c.VECTOR)
    result: Value = s.result(c.VECTOR, same_type_as="true_value")


@s.op(
    "vector.cmpi",
    " $predicate, $lhs, $rhs : type($lhs) -> type($result)",
    traits=("pure",),
    same_type=(("lhs", "rhs"),),
    verify=same_shape,
)
class CmpI(Op):
    """Integer comparison of every lane."""

    predicate: str = s.attribute(w.INTEGER_PREDICATE)
    lhs: Value = s.operand(INT_VECTOR)
    rhs: Value = s.operand(INT_VECTOR)
    result: Value = s.result(MASK)


@s.op(
    "vector.cmpf",
    "⟦<$flags>⟧ $predicate, $lhs, $rhs : type($lhs) -> type($result)",
    traits=("pure",),
    same_type=(("lhs", "rhs"),),
    verify=same_shape,
)
class CmpF(Op):
    """Float comparison of every lane."""

    flags: tuple[str, ...] | None = s.optional_attribute(w.FASTMATH)
    predicate: str = s.attribute(w.FLOAT_PREDICATE)
    lhs: Value = s.operand(FLOAT_VECTOR)
    rhs: Value = s.operand(FLOAT_VECTOR)
    result: Value = s.result(MASK)


class Test(Op):
    """A yes-or-no question about every lane."""

    __slots__ = ()
    input: Value = s.operand(FLOAT_VECTOR)
    result: Value = s.result(MASK)


for _name, _summary in (
    ("isnanf", "Which lanes are NaN."),
    ("isinff", "Which lanes are infinite."),
    ("isfinitef", "Which lanes are neither NaN nor infinite."),
):
    s.define(
        Test,
        f"vector.{_name}",
        " $input : type($input) -> type($result)",
        traits=("pure",),
        summary=_summary,
        class_name=f"vector.{_name}",
        verify=same_shape,
    )

_CLASSES: Final = {c.INTEGER: INT_VECTOR, c.FLOAT: FLOAT_VECTOR, c.PAYLOAD: c.VECTOR}

for _name, (_from, _to, _, _summary) in scalar.CONVERSIONS.items():
    _base = type(
        "Conversion",
        (scalar.Conversion,),
        {
            "__slots__": (),
            "__module__": __name__,
            "input": s.operand(_CLASSES[_from]),
            "result": s.result(_CLASSES[_to]),
        },
    )
    s.define(
        _base,
        f"vector.{_name}",
        " $input : type($input) to type($result)",
        traits=("pure",),
        verify=v.CASTS[_name],
        summary=_summary,
        class_name=f"vector.{_name}",
    )


class BitfieldExtract(Op):
    """Bits [offset, offset + width) of every lane."""

    __slots__ = ()
    source: Value = s.operand(INT_VECTOR)
    offset: int = s.attribute(k.INT)
    width: int = s.attribute(k.INT)
    result: Value = s.result(INT_VECTOR)


for _name, _summary in (("extractu", "Bit field, zero-extended."), ("extracts", "Bit field, sign-extended.")):
    s.define(
        BitfieldExtract,
        f"vector.bitfield.{_name}",
        " $source $<dict offset width> : type($source) -> type($result)",
        traits=("pure",),
        verify=v.bitfield_extract,
        summary=_summary,
        class_name=f"vector.bitfield.{_name}",
    )


@s.op(
    "vector.bitfield.insert",
    " $field into $base $<dict offset width> : type($field), type($base)",
    traits=("pure",),
    verify=v.bitfield_insert,
)
class BitfieldInsert(Op):
    """Low bits of the field replace a bit field of every lane."""

    field: Value = s.operand(INT_VECTOR)
    base: Value = s.operand(INT_VECTOR)
    offset: int = s.attribute(k.INT)
    width: int = s.attribute(k.INT)
    result: Value = s.result(INT_VECTOR, same_type_as="base")


class BitStream(Op):
    """Fields of a fixed width packed into or taken from a little-endian bit string."""

    __slots__ = ()
    width: int = s.attribute(k.INT)
    source: Value = s.operand(INT_VECTOR)
    result: Value = s.result(INT_VECTOR)


for _name, _summary in (
    ("bitpack", "Packs the low bits of every lane."),
    ("bitunpacku", "Unpacks fields, zero-extended."),
    ("bitunpacks", "Unpacks fields, sign-extended."),
):
    s.define(
        BitStream,
        f"vector.{_name}",
        "<$width> $source : type($source) -> type($result)",
        traits=("pure",),
        verify=v.bit_stream,
        summary=_summary,
        class_name=f"vector.{_name}",
    )
