"""Declarations of the ``buffer`` dialect (language reference, part 2, section 4)."""

from __future__ import annotations

from loom.dialects import words as w
from loom.dialects.buffer import verify as v
from loom.ir.core import Op, Value
from loom.ir.types import BUFFER, OFFSET
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s


@s.op(
    "buffer.alloca",
    "<$space> align($alignment) $byte_size : type($result)",
    traits=("allocates", "unique_identity"),
    verify=v.alloca,
)
class Alloca(Op):
    """A fresh scratch root of a byte extent."""

    space: str = s.attribute(w.MEMORY_SPACE)
    alignment: int = s.attribute(k.INT)
    byte_size: Value = s.operand(c.OFFSET)
    result: Value = s.result(c.BUFFER, fixed=BUFFER)


@s.op("buffer.pack", " $<aligned sizes alignments> : type($results)", traits=("pure",), verify=v.pack)
class Pack(Op):
    """Aligned, disjoint offsets of byte ranges that live together, after their total stride."""

    sizes: list[Value] = s.operands(c.OFFSET)
    alignments: tuple[int, ...] = s.attribute(k.INT_ARRAY)
    results: list[Value] = s.results(c.OFFSET)


@s.op(
    "buffer.assume.alignment",
    " $inputs $<dict minimum_alignment> : type($results)",
    traits=("pure", "fact_identity"),
    verify=v.alignment,
)
class AssumeAlignment(Op):
    """The base address of each root is a multiple of the alignment."""

    inputs: list[Value] = s.operands(c.BUFFER)
    minimum_alignment: int = s.attribute(k.INT)
    results: list[Value] = s.results(c.BUFFER)


@s.op(
    "buffer.assume.memory_space",
    "<$space> $input : type($result)",
    traits=("pure", "fact_identity"),
    verify=v.memory_space,
)
class AssumeMemorySpace(Op):
    """The root lies in a memory space."""

    space: str = s.attribute(w.MEMORY_SPACE)
    input: Value = s.operand(c.BUFFER)
    result: Value = s.result(c.BUFFER, fixed=BUFFER)


@s.op("buffer.assume.noalias", " $inputs : type($results)", traits=("pure", "fact_identity"), verify=v.one_result_each)
class AssumeNoAlias(Op):
    """The roots are pairwise disjoint."""

    inputs: list[Value] = s.operands(c.BUFFER)
    results: list[Value] = s.results(c.BUFFER)


@s.op("buffer.assume.same_root", " $input, $root : type($result)", traits=("pure",))
class AssumeSameRoot(Op):
    """Two handles of one allocation."""

    input: Value = s.operand(c.BUFFER)
    root: Value = s.operand(c.BUFFER)
    result: Value = s.result(c.BUFFER, fixed=BUFFER)


@s.op("buffer.view", " $source[$byte_offset] : type($source) -> type($result)", traits=("pure",))
class View(Op):
    """A typed window whose first element starts at a byte offset of the root."""

    source: Value = s.operand(c.BUFFER)
    byte_offset: Value = s.operand(c.OFFSET)
    result: Value = s.result(c.VIEW)


@s.op("buffer.length", " $source", traits=("pure", "speculatable"))
class Length(Op):
    """Byte length of the root."""

    source: Value = s.operand(c.BUFFER)
    result: Value = s.result(c.OFFSET, fixed=OFFSET)
