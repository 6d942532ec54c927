"""Making vectors and moving lanes (language reference, part 2, sections 6.4 to 6.9)."""

from __future__ import annotations

from typing import Final

from loom.dialects.vector import verify_construct as v
from loom.ir.core import Op, Value
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

COUNTER: Final = c.vector_of("vector of index or integers", c.INDEX_OR_INTEGER)
OFFSETS: Final = COUNTER
MASK: Final = c.vector_of("vector of i1", c.I1)
FLOAT_VECTOR: Final = c.vector_of("vector of floats", c.FLOAT)


@s.op("vector.poison", " : type($result)", traits=("pure", "poison"), verify=v.not_empty)
class Poison(Op):
    """A lane grid that must not be observed."""

    result: Value = s.result(c.VECTOR)


@s.op("vector.constant", " $value : type($result)", traits=("pure", "constant"), verify=v.constant)
class Constant(Op):
    """The same literal in every lane."""

    value: object = s.attribute(k.LITERAL)
    result: Value = s.result(c.VECTOR)


@s.op("vector.empty", " : type($result)", traits=("pure", "constant"), verify=v.is_empty)
class Empty(Op):
    """The aggregate without lanes."""

    result: Value = s.result(c.VECTOR)


@s.op("vector.splat", " $scalar : type($result)", traits=("pure",), verify=v.splat)
class Splat(Op):
    """A scalar in every lane."""

    scalar: Value = s.operand(c.SCALAR)
    result: Value = s.result(c.VECTOR)


@s.op(
    "vector.iota", " $base step $step : type($result)", traits=("pure",), same_type=(("base", "step"),), verify=v.iota
)
class Iota(Op):
    """base + i * step over the row-major lane index, wrapping."""

    base: Value = s.operand(c.INDEX_OR_INTEGER)
    step: Value = s.operand(c.INDEX_OR_INTEGER)
    result: Value = s.result(COUNTER)


@s.op(
    "vector.mask.range",
    " [$lower to $upper step $step] : type($lower) -> type($result)",
    traits=("pure",),
    same_type=(("lower", "upper", "step"),),
)
class MaskRange(Op):
    """Lane i is true while lower + i * step is below upper, signed."""

    lower: Value = s.operand(c.INDEX_OR_INTEGER)
    upper: Value = s.operand(c.INDEX_OR_INTEGER)
    step: Value = s.operand(c.INDEX_OR_INTEGER)
    result: Value = s.result(MASK)


@s.op("vector.broadcast", " $source : type($source) -> type($result)", traits=("pure",), verify=v.broadcast)
class Broadcast(Op):
    """Repeats along missing axes and axes of extent one."""

    source: Value = s.operand(c.VECTOR)
    result: Value = s.result(c.VECTOR)


@s.op("vector.from_elements", " $elements : type($result)", traits=("pure",), verify=v.from_elements)
class FromElements(Op):
    """Scalars in lane order."""

    elements: list[Value] = s.operands(c.SCALAR)
    result: Value = s.result(c.VECTOR)


@s.op(
    "vector.extract", " $source$<indices indices> : type($source) -> type($result)", traits=("pure",), verify=v.extract
)
class Extract(Op):
    """A lane, or a trailing sub-vector."""

    source: Value = s.operand(c.VECTOR)
    indices: list[Value] = s.operands(c.INDEX)
    static_indices: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    result: Value = s.result(c.ANY)


@s.op(
    "vector.insert",
    " $value into $target$<indices indices> : type($value), type($target)",
    traits=("pure",),
    verify=v.insert,
)
class Insert(Op):
    """The vector with a lane or trailing sub-vector replaced."""

    value: Value = s.operand(c.ANY)
    target: Value = s.operand(c.VECTOR)
    indices: list[Value] = s.operands(c.INDEX)
    static_indices: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    result: Value = s.result(c.VECTOR, same_type_as="target")


@s.op("vector.slice", " $source$<indices offsets> : type($source) -> type($result)", traits=("pure",), verify=v.slice_)
class Slice(Op):
    """The lanes from an origin on."""

    source: Value = s.operand(c.VECTOR)
    offsets: list[Value] = s.operands(c.INDEX)
    static_offsets: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    result: Value = s.result(c.VECTOR)


@s.op("vector.concat", "<$axis> $parts : type($parts) -> type($result)", traits=("pure",), verify=v.concat)
class Concat(Op):
    """Vectors joined along one axis."""

    axis: int = s.attribute(k.INT)
    parts: list[Value] = s.operands(c.VECTOR)
    result: Value = s.result(c.VECTOR)


@s.op(
    "vector.transpose", "<$permutation> $source : type($source) -> type($result)", traits=("pure",), verify=v.transpose
)
class Transpose(Op):
    """Result axis i is source axis permutation[i]."""

    permutation: tuple[int, ...] = s.attribute(k.INT_ARRAY)
    source: Value = s.operand(c.VECTOR)
    result: Value = s.result(c.VECTOR)


@s.op(
    "vector.shuffle",
    "<$lanes> $source : type($result)",
    traits=("pure",),
    same_type=(("source", "result"),),
    verify=v.shuffle,
)
class Shuffle(Op):
    """Result lane i is source lane lanes[i]."""

    lanes: tuple[int, ...] = s.attribute(k.INT_ARRAY)
    source: Value = s.operand(c.VECTOR)
    result: Value = s.result(c.VECTOR, same_type_as="source")


@s.op(
    "vector.interleave",
    "<$axis> $even, $odd : type($even), type($odd) -> type($result)",
    traits=("pure",),
    same_type=(("even", "odd"),),
    verify=v.interleave,
)
class Interleave(Op):
    """Alternates two vectors along an axis."""

    axis: int = s.attribute(k.INT)
    even: Value = s.operand(c.VECTOR)
    odd: Value = s.operand(c.VECTOR)
    result: Value = s.result(c.VECTOR)


@s.op(
    "vector.deinterleave",
    "<$axis> $source : type($source) -> type($even), type($odd)",
    traits=("pure",),
    same_type=(("even", "odd"),),
    verify=v.deinterleave,
)
class Deinterleave(Op):
    """Even and odd coordinates along an axis."""

    axis: int = s.attribute(k.INT)
    source: Value = s.operand(c.VECTOR)
    even: Value = s.result(c.VECTOR)
    odd: Value = s.result(c.VECTOR)


@s.op(
    "vector.table.lookup",
    " $table[$indices] : type($table), type($indices) -> type($result)",
    traits=("pure",),
    verify=v.table_lookup,
)
class TableLookup(Op):
    """The table entry of every index."""

    table: Value = s.operand(c.VECTOR)
    indices: Value = s.operand(OFFSETS)
    result: Value = s.result(c.VECTOR)


NAN_RULE: Final = k.enum("NaN rule", ("zero", "max"))
TIE_RULE: Final = k.enum("tie rule", ("lower", "upper"))


@s.op(
    "vector.table.quantize",
    " $source, $thresholds $<dict nan tie> : type($source), type($thresholds) -> type($result)",
    traits=("pure",),
    verify=v.table_quantize,
)
class TableQuantize(Op):
    """How many thresholds lie below each lane."""

    source: Value = s.operand(FLOAT_VECTOR)
    thresholds: Value = s.operand(FLOAT_VECTOR)
    nan: str = s.attribute(NAN_RULE)
    tie: str = s.attribute(TIE_RULE)
    result: Value = s.result(c.vector_of("vector of integers", c.INTEGER))


@s.op(
    "vector.transform",
    " $source, $transform : type($source), type($transform) -> type($result)",
    traits=("pure",),
    same_type=(("source", "result"),),
)
class Transform(Op):
    """A numeric transform along the last axis."""

    source: Value = s.operand(FLOAT_VECTOR)
    transform: Value = s.operand(c.ENC_TRANSFORM)
    result: Value = s.result(FLOAT_VECTOR)
