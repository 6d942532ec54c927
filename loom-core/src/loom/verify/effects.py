"""Effects of operations and purity of functions (language reference, part 1, sections 5 and 8.1)."""

from __future__ import annotations

from typing import Any

from loom.ir.core import Op
from loom.ir.diagnostics import Diagnostic

EFFECTFUL = frozenset({"reads", "writes", "unknown_effects", "convergent", "allocates"})


def is_pure_function(function: Op, symbols: dict[str, Op], pending: frozenset[Op] = frozenset()) -> bool:
    """Whether a function is declared pure or its body provably is."""
    if "purity" in function.spec.attribute_index and function.attribute("purity") == "pure":
        return True
    if "declaration" in function.spec.traits or function in pending:
        return False
    counts = effect_counts(function, symbols, pending | {function})
    return not any(counts)


def effect_counts(function: Op, symbols: dict[str, Op], pending: frozenset[Op] = frozenset()) -> tuple[int, int, int]:
    """Number of reading, writing and convergent operations in a body; a call counts unless its callee is pure."""
    reads = writes = convergent = 0
    for op in function.walk():
        traits = op.spec.traits
        if op is function or not traits & EFFECTFUL:
            continue
        if "call" in traits:
            if is_pure_call(op, symbols, pending):
                continue
            reads += 1
            writes += 1
            continue
        if "allocates" in traits:
            # Fresh private storage cannot be observed outside; what is done to it counts by itself.
            continue
        reads += "reads" in traits or "unknown_effects" in traits
        writes += "writes" in traits or "unknown_effects" in traits
        convergent += "convergent" in traits
    return reads, writes, convergent


def is_pure_call(op: Op, symbols: dict[str, Op], pending: frozenset[Op] = frozenset()) -> bool:
    """Whether a call is marked pure or its callee is a pure function."""
    if "purity" in op.spec.attribute_index and op.attribute("purity") == "pure":
        return True
    name = op.attribute("callee") if "callee" in op.spec.attribute_index else op.attribute("family")
    callee = symbols.get(name) if isinstance(name, str) else None
    return callee is not None and is_pure_function(callee, symbols, pending)


def check_purity(op: Any, symbols: dict[str, Op]) -> list[Diagnostic]:
    """A pure function has no effects, and a call marked pure has a pure callee."""
    if (
        "function" in op.spec.traits
        and op.attribute("purity") == "pure"
        and "declaration" not in op.spec.traits
        and "low_function" not in op.spec.traits
    ):
        reads, writes, convergent = effect_counts(op, symbols)
        if reads or writes or convergent:
            return [
                Diagnostic(
                    "STRUCTURE/017",
                    f"'@{op.callee}' is marked pure, but its body has effects",
                    op.loc,
                    {"op_name": op.name, "read_count": reads, "write_count": writes, "convergent_count": convergent},
                )
            ]
    return []


def check_pure_call(op: Any, symbols: dict[str, Op], boundary: str) -> list[Diagnostic]:
    """``func.call pure`` needs a callee that is declared or proven pure."""
    if op.name not in ("func.call", "template.call") or op.purity != "pure":
        return []
    callee = symbols.get(op.callee)
    if callee is None or is_pure_function(callee, symbols):
        return []
    return [
        Diagnostic(
            "STRUCTURE/034",
            f"the call is marked pure, but '@{op.callee}' is not",
            op.loc,
            {"callee_name": op.callee, "boundary_name": boundary},
        )
    ]


def check_poison(op: Op) -> list[Diagnostic]:
    """A value made by a poison op must not reach an observable boundary."""
    traits = op.spec.traits
    boundary = "poison_boundary" in traits
    if not boundary and not traits & {"reads", "writes", "unknown_effects"}:
        return []
    kind = "observation boundary" if boundary else "effectful operation"
    return [
        Diagnostic(
            "TYPE/012",
            f"poison '%{v.name}' reaches '{op.name}'",
            op.loc,
            {"value_name": v.name or "?", "boundary_kind": kind, "op_name": op.name},
        )
        for v in op.operands
        if isinstance(v.owner, Op) and "poison" in v.owner.spec.traits
    ]
