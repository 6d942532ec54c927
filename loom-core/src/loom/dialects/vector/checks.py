"""Findings shared by the checks of vector operations."""

from __future__ import annotations

from typing import Any

from loom.ir.core import Op
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import ERROR, Type

Findings = list[Diagnostic]


def operand_error(op: Op, name: str, type_: object, expected: str) -> Diagnostic:
    """An operand outside what the op accepts."""
    return Diagnostic(
        "TYPE/003",
        f"operand '{name}' of '{op.name}' is {type_}, but must be {expected}",
        op.loc,
        {"operand_name": name, "actual_type": type_, "expected_constraint": expected},
    )


def result_error(op: Op, type_: object, expected: str) -> Diagnostic:
    """A result outside what the op produces."""
    return Diagnostic(
        "TYPE/004",
        f"the result of '{op.name}' is {type_}, but must be {expected}",
        op.loc,
        {"result_name": "result", "actual_type": type_, "expected_constraint": expected},
    )


def shapes_differ(op: Op, a: str, b: str) -> Diagnostic:
    """Two fields whose shapes must agree."""
    return Diagnostic(
        "SHAPE/002", f"'{a}' and '{b}' of '{op.name}' differ in shape", op.loc, {"field_a": a, "field_b": b}
    )


def ranks_differ(op: Op, a: str, rank_a: int, b: str, rank_b: int) -> Diagnostic:
    """Two fields whose ranks must agree."""
    return Diagnostic(
        "SHAPE/001",
        f"'{a}' of '{op.name}' has rank {rank_a}, '{b}' has rank {rank_b}",
        op.loc,
        {"operand_a": a, "rank_a": rank_a, "operand_b": b, "rank_b": rank_b},
    )


def elements_differ(op: Op, a: str, element_a: object, b: str, element_b: object) -> Diagnostic:
    """Two fields whose element types must agree."""
    return Diagnostic(
        "TYPE/002",
        f"'{a}' of '{op.name}' has elements {element_a}, '{b}' has {element_b}",
        op.loc,
        {"field_a": a, "element_type_a": element_a, "field_b": b, "element_type_b": element_b},
    )


def same_dims(a: Any, b: Any) -> bool:
    if len(a.dims) != len(b.dims):
        return False
    return all(x is y or (isinstance(x, int) and x == y) for x, y in zip(a.dims, b.dims, strict=True))


def known(*types: Type) -> bool:
    return ERROR not in types


def same_shape(op: Any) -> Findings:
    """The result has the operand's shape."""
    a, b = op.operands[0].type, op.results[0].type
    return [] if not known(a, b) or same_dims(a, b) else [shapes_differ(op, "input", "result")]


def offset_count(op: Any, count: int, rank: int) -> Diagnostic:
    return Diagnostic(
        "SUBRANGE/001",
        f"{count} indices for rank {rank}",
        op.loc,
        {"operand_name": "indices", "offset_count": count, "rank": rank},
    )
