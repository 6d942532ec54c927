"""Declarations of the ``buffer`` dialect (language reference, part 2, section 4)."""

from __future__ import annotations

from loom.dialects import words as w
from loom.dialects.buffer import verify as v
from loom.ir.core import Op, Value
from loom.ir.types import BUFFER, I1, I32, OFFSET, PAYLOADS
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

PATTERN = c.Constraint("integer or float of 8, 16, 32 or 64 bits", PAYLOADS - {I1})


@s.op(
    "buffer.alloca",
    "<$space>⟦ pool($pool)⟧ align($alignment) $byte_size : type($result)",
    traits=("allocates", "unique_identity"),
    verify=v.alloca,
)
class Alloca(Op):
    """A fresh scratch root of a byte extent; with a pool, in the memory of a worker of a pipeline."""

    space: str = s.attribute(w.MEMORY_SPACE)
    alignment: int = s.attribute(k.INT)
    byte_size: Value = s.operand(c.OFFSET)
    pool: Value | None = s.optional_operand(c.POOL)
    result: Value = s.result(c.BUFFER, fixed=BUFFER)


@s.op("buffer.pack", " $<aligned sizes alignments> : $<packed_types sizes results>", traits=("pure",), verify=v.pack)
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


@s.op("buffer.load.i8.u", " $source[$byte_offset]", traits=("reads",))
class LoadByte(Op):
    """One byte, zero-extended."""

    source: Value = s.operand(c.BUFFER)
    byte_offset: Value = s.operand(c.OFFSET)
    result: Value = s.result(c.I32, fixed=I32)


@s.op("buffer.store.i8", " $value, $target[$byte_offset]", traits=("writes",))
class StoreByte(Op):
    """Writes the low byte of a word."""

    value: Value = s.operand(c.I32)
    target: Value = s.operand(c.BUFFER)
    byte_offset: Value = s.operand(c.OFFSET)


@s.op("buffer.copy", " $source[$source_offset], $target[$target_offset], $length", traits=("reads", "writes"))
class Copy(Op):
    """Copies bytes between ranges that do not overlap."""

    source: Value = s.operand(c.BUFFER)
    source_offset: Value = s.operand(c.OFFSET)
    target: Value = s.operand(c.BUFFER)
    target_offset: Value = s.operand(c.OFFSET)
    length: Value = s.operand(c.OFFSET)


@s.op("buffer.fill", " $pattern, $target[$byte_offset], $length : type($pattern)", traits=("writes",))
class Fill(Op):
    """Repeats the little-endian bytes of a scalar; a last partial repetition writes its low bytes."""

    pattern: Value = s.operand(PATTERN)
    target: Value = s.operand(c.BUFFER)
    byte_offset: Value = s.operand(c.OFFSET)
    length: Value = s.operand(c.OFFSET)


@s.op("buffer.compare", " $lhs[$lhs_offset], $rhs[$rhs_offset], $length", traits=("reads",))
class Compare(Op):
    """Compares unsigned bytes in order: -1, 0 or 1."""

    lhs: Value = s.operand(c.BUFFER)
    lhs_offset: Value = s.operand(c.OFFSET)
    rhs: Value = s.operand(c.BUFFER)
    rhs_offset: Value = s.operand(c.OFFSET)
    length: Value = s.operand(c.OFFSET)
    result: Value = s.result(c.I32, fixed=I32)


@s.op(
    "buffer.fence",
    " scope($scope) ordering($ordering)",
    traits=("unknown_effects", "fence"),
    verify=v.fence,
)
class Fence(Op):
    """Orders the executing thread's accesses to all storage."""

    scope: str = s.attribute(w.SCOPE)
    ordering: str = s.attribute(w.ORDERING)
