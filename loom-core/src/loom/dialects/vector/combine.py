"""Dot products and reductions (language reference, part 2, section 8)."""

from __future__ import annotations

from typing import Final

from loom.dialects import words as w
from loom.dialects.vector import verify_lanewise as v
from loom.ir.core import Op, Value
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

DOT4_SIGNS: Final = k.enum("dot4i signedness", ("s8s8", "u8s8", "s8u8", "u8u8"))
DOT8_SIGNS: Final = k.enum("dot8i4 signedness", ("s4s4", "u4s4", "s4u4", "u4u4"))
DOT4_FORMATS: Final = k.enum("dot4f8 formats", ("fp8bf8", "bf8fp8", "fp8fp8", "bf8bf8"))

FLOAT_VECTOR: Final = c.vector_of("vector of floats", c.FLOAT)
HALF_VECTOR: Final = c.vector_of("vector of f16 or bf16", c.HALF)
F32_VECTOR: Final = c.vector_of("vector of f32", c.F32)
I8_VECTOR: Final = c.vector_of("vector of i8", c.I8)
I32_VECTOR: Final = c.vector_of("vector of i32", c.I32)


@s.op(
    "vector.reduce",
    "<$kind⟦, $flags⟧> $source, $init : type($source), type($init)",
    traits=("pure",),
    verify=v.reduce,
)
class Reduce(Op):
    """Combines all lanes with an initial value, in lane order."""

    kind: str = s.attribute(w.COMBINING)
    flags: tuple[str, ...] | None = s.optional_attribute(w.FASTMATH)
    source: Value = s.operand(c.VECTOR)
    init: Value = s.operand(c.SCALAR)
    result: Value = s.result(c.SCALAR, same_type_as="init")


@s.op(
    "vector.reduce.axes",
    "<$kind⟦, $flags⟧> $source, $init axes $axes : type($source), type($init)",
    traits=("pure",),
    verify=v.reduce_axes,
)
class ReduceAxes(Op):
    """Combines the lanes along the listed axes."""

    kind: str = s.attribute(w.COMBINING)
    flags: tuple[str, ...] | None = s.optional_attribute(w.FASTMATH)
    source: Value = s.operand(c.VECTOR)
    init: Value = s.operand(c.ANY)
    axes: tuple[int, ...] = s.attribute(k.INT_ARRAY)
    result: Value = s.result(c.ANY, same_type_as="init")


@s.op(
    "vector.dotf",
    "⟦<$flags>⟧ $lhs, $rhs, $acc : type($lhs), type($rhs), type($acc)",
    traits=("pure",),
    same_type=(("lhs", "rhs"),),
    verify=v.dotf,
)
class DotF(Op):
    """A chain of fused multiply-adds over all lanes."""

    flags: tuple[str, ...] | None = s.optional_attribute(w.FASTMATH)
    lhs: Value = s.operand(FLOAT_VECTOR)
    rhs: Value = s.operand(FLOAT_VECTOR)
    acc: Value = s.operand(c.FLOAT)
    result: Value = s.result(c.FLOAT, same_type_as="acc")


@s.op(
    "vector.dot2f",
    " $lhs, $rhs, $acc : type($lhs), type($rhs), type($acc)",
    traits=("pure",),
    same_type=(("lhs", "rhs"),),
    verify=v.dot2f,
)
class Dot2F(Op):
    """Pairs of half-precision products added to f32 lanes."""

    lhs: Value = s.operand(HALF_VECTOR)
    rhs: Value = s.operand(HALF_VECTOR)
    acc: Value = s.operand(F32_VECTOR)
    result: Value = s.result(F32_VECTOR, same_type_as="acc")


@s.op(
    "vector.dot4i",
    "<$signs> $lhs, $rhs, $acc : type($lhs), type($rhs), type($acc)",
    traits=("pure",),
    same_type=(("lhs", "rhs"),),
    verify=v.dot4i,
)
class Dot4I(Op):
    """Four byte products added to each i32 lane."""

    signs: str = s.attribute(DOT4_SIGNS)
    lhs: Value = s.operand(I8_VECTOR)
    rhs: Value = s.operand(I8_VECTOR)
    acc: Value = s.operand(I32_VECTOR)
    result: Value = s.result(I32_VECTOR, same_type_as="acc")


@s.op(
    "vector.dot8i4",
    "<$signs> $lhs, $rhs, $acc : type($result)",
    traits=("pure",),
    same_type=(("lhs", "rhs", "acc", "result"),),
)
class Dot8I4(Op):
    """Eight nibble products added to each i32 lane."""

    signs: str = s.attribute(DOT8_SIGNS)
    lhs: Value = s.operand(I32_VECTOR)
    rhs: Value = s.operand(I32_VECTOR)
    acc: Value = s.operand(I32_VECTOR)
    result: Value = s.result(I32_VECTOR, same_type_as="acc")


@s.op(
    "vector.dot4f8",
    "<$formats> $lhs, $rhs, $acc : type($lhs), type($acc)",
    traits=("pure",),
    same_type=(("lhs", "rhs"),),
    verify=v.same_shape_as_acc,
)
class Dot4F8(Op):
    """Four 8-bit float products added to each f32 lane."""

    formats: str = s.attribute(DOT4_FORMATS)
    lhs: Value = s.operand(I32_VECTOR)
    rhs: Value = s.operand(I32_VECTOR)
    acc: Value = s.operand(F32_VECTOR)
    result: Value = s.result(F32_VECTOR, same_type_as="acc")
