"""Rules of the ``buffer`` dialect."""

from __future__ import annotations

from typing import Any

from loom.dialects.scf.verify import lengths_differ, out_of_contract
from loom.dialects.vector.checks import operand_error
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import ERROR

ALLOCATABLE = ("global", "workgroup", "private", "host", "generic")


def is_power_of_two(value: int) -> bool:
    """Whether a value is a positive power of two."""
    return value > 0 and value & (value - 1) == 0


def alloca(op: Any) -> list[Diagnostic] | None:
    """An allocatable space and a power-of-two alignment."""
    found = []
    if op.space not in ALLOCATABLE:
        found.append(out_of_contract(op, "memory_space", op.space, f"one of {', '.join(ALLOCATABLE)}"))
    if not is_power_of_two(op.alignment):
        found.append(out_of_contract(op, "alignment", op.alignment, "a positive power of two"))
    return [*found, *_pool(op)]


def _pool(op: Any) -> list[Diagnostic]:
    """Space comes out of a borrowed memory, which is one of the same memory space."""
    if op.pool is None or op.pool.type is ERROR:
        return []
    if op.pool.type.dims:
        return [operand_error(op, "pool", op.pool.type, "a borrowed memory, of type pool")]
    memory = op.pool.defining_op
    if memory is not None and memory.name == "pipeline.memory" and memory.space != op.space:
        return [out_of_contract(op, "memory_space", op.space, f"'{memory.space}', which the pool is of")]
    return []


def pack(op: Any) -> list[Diagnostic] | None:
    """One result more than ranges; power-of-two alignments."""
    found = [
        out_of_contract(op, "align", a, "a positive power of two") for a in op.alignments if not is_power_of_two(a)
    ]
    if len(op.results) != len(op.sizes) + 1:
        found.append(lengths_differ(op, "results", len(op.results), "ranges and a total", len(op.sizes) + 1))
    return found


def one_result_each(op: Any) -> list[Diagnostic] | None:
    """One result per operand."""
    if len(op.results) != len(op.inputs):
        return [lengths_differ(op, "operands", len(op.inputs), "results", len(op.results))]
    return None


def alignment(op: Any) -> list[Diagnostic] | None:
    """A power of two, one result per operand."""
    found = one_result_each(op) or []
    if not is_power_of_two(op.minimum_alignment):
        found.append(out_of_contract(op, "minimum_alignment", op.minimum_alignment, "a positive power of two"))
    return found


def memory_space(op: Any) -> list[Diagnostic] | None:
    """Never ``unknown``."""
    return [out_of_contract(op, "memory_space", "unknown", "a concrete space")] if op.space == "unknown" else None


def fence(op: Any) -> list[Diagnostic] | None:
    """A fence orders something."""
    return [out_of_contract(op, "ordering", "relaxed", "an ordering")] if op.ordering == "relaxed" else None
