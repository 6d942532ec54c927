"""Declarations of the ``index`` dialect (language reference, part 1, section 15)."""

from __future__ import annotations

from typing import Final

from loom.dialects import words as w
from loom.dialects.index import verify as v
from loom.dialects.scalar.ops import BINARY, COMMUTATIVE, PURE, TERNARY, UNARY, Binary, Ternary, Unary, arithmetic
from loom.dialects.scalar.verify import assume
from loom.ir.attributes import Predicate
from loom.ir.core import Op, Value
from loom.ir.types import I1, OFFSET
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

ADDRESS_BINARY: Final = {
    "add": (COMMUTATIVE, "Sum."),
    "sub": (PURE, "Difference; on offsets it must not go below zero."),
}
INDEX_BINARY: Final = {
    "mul": (COMMUTATIVE, "Product."),
    "div": (PURE, "Quotient of a non-negative dividend and a positive divisor."),
    "rem": (PURE, "Remainder of a non-negative dividend and a positive divisor."),
    "min": (COMMUTATIVE, "Signed minimum."),
    "max": (COMMUTATIVE, "Signed maximum."),
    "andi": (COMMUTATIVE, "Bitwise and."),
    "ori": (COMMUTATIVE, "Bitwise or."),
    "xori": (COMMUTATIVE, "Bitwise exclusive or."),
    "shli": (PURE, "Left shift."),
    "shrsi": (PURE, "Right shift; copies of the sign enter."),
    "shrui": (PURE, "Right shift; zeros enter."),
    "rotli": (PURE, "Rotate left in 64 bits."),
    "rotri": (PURE, "Rotate right in 64 bits."),
}
INDEX_TERNARY: Final = {"madd": (PURE, "a * b + c.")}
INDEX_UNARY: Final = {
    "ctlzi": (PURE, "Leading zero bits of 64."),
    "cttzi": (PURE, "Trailing zero bits; 64 for 0."),
    "ctpopi": (PURE, "Number of set bits."),
}

arithmetic("index", ADDRESS_BINARY, Binary, BINARY, c.ADDRESS, None)
arithmetic("index", INDEX_BINARY, Binary, BINARY, c.INDEX, None)
arithmetic("index", INDEX_UNARY, Unary, UNARY, c.INDEX, None)
arithmetic("index", INDEX_TERNARY, Ternary, TERNARY, c.INDEX, None)


@s.op("index.constant", " $value : type($result)", traits=("pure", "constant"), verify=v.constant)
class Constant(Op):
    """A constant coordinate or byte distance."""

    value: int = s.attribute(k.LITERAL)
    result: Value = s.result(c.ADDRESS)


@s.op("index.cast", " $input : type($input) to type($result)", traits=PURE, verify=v.cast)
class Cast(Op):
    """Conversion between addresses and integers, or between the two address types."""

    input: Value = s.operand(c.INTEGER_OR_ADDRESS)
    result: Value = s.result(c.INTEGER_OR_ADDRESS)


@s.op(
    "index.assume",
    " $inputs $<predicates mentioned predicates> : type($results)",
    traits=("pure", "fact_identity"),
    verify=assume,
)
class Assume(Op):
    """Result i is value i with the stated facts; false facts make the program invalid."""

    inputs: list[Value] = s.operands(c.ADDRESS)
    mentioned: list[Value] = s.operands(c.SCALAR)
    predicates: tuple[Predicate, ...] = s.attribute(k.PREDICATES)
    results: list[Value] = s.results(c.ADDRESS)


@s.op("index.scale", " $input, $stride : type($input), type($stride) -> type($result)", traits=PURE)
class Scale(Op):
    """A logical count times a byte stride, in bytes."""

    input: Value = s.operand(c.INDEX)
    stride: Value = s.operand(c.OFFSET)
    result: Value = s.result(c.OFFSET, fixed=OFFSET)


@s.op("index.cmp", " $predicate, $lhs, $rhs : type($lhs)", traits=PURE, same_type=(("lhs", "rhs"),))
class Cmp(Op):
    """Comparison; unsigned predicates read the carrier's bits."""

    predicate: str = s.attribute(w.INTEGER_PREDICATE)
    lhs: Value = s.operand(c.ADDRESS)
    rhs: Value = s.operand(c.ADDRESS)
    result: Value = s.result(c.I1, fixed=I1)
