"""Effects of operations and purity of functions (language reference, part 1, sections 5 and 8.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loom.ir.core import Op
from loom.ir.diagnostics import Diagnostic

EFFECTFUL = frozenset({"reads", "writes", "unknown_effects", "convergent", "allocates"})


class Purity:
    """Which functions of a module are pure. Every body is looked at once."""

    __slots__ = ("_counts", "_symbols")

    def __init__(self, symbols: Mapping[str, Op]) -> None:
        self._symbols = symbols
        # ``None`` while a body is looked at: what calls itself is not proven pure.
        self._counts: dict[Op, tuple[int, int, int] | None] = {}

    def of_function(self, function: Op) -> bool:
        """Whether a function is declared pure or its body provably is."""
        if "purity" in function.spec.attribute_index and function.attribute("purity") == "pure":
            return True
        if "declaration" in function.spec.traits:
            return False
        if function in self._counts:
            counts = self._counts[function]
            return counts is not None and not any(counts)
        return not any(self.counts(function))

    def of_call(self, op: Op) -> bool:
        """Whether a call is marked pure or its callee is a pure function."""
        if "purity" in op.spec.attribute_index and op.attribute("purity") == "pure":
            return True
        name = op.attribute("callee") if "callee" in op.spec.attribute_index else op.attribute("family")
        callee = self._symbols.get(name) if isinstance(name, str) else None
        return callee is not None and self.of_function(callee)

    def counts(self, function: Op) -> tuple[int, int, int]:
        """Number of reading, writing and convergent operations in a body; a call counts unless its callee is pure."""
        found = self._counts.get(function)
        if found is not None:
            return found
        self._counts[function] = None
        reads = writes = convergent = 0
        for op in function.walk():
            traits = op.spec.traits
            if op is function or not traits & EFFECTFUL:
                continue
            if "call" in traits:
                if self.of_call(op):
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
        self._counts[function] = (reads, writes, convergent)
        return reads, writes, convergent


def is_pure_call(op: Op, symbols: Mapping[str, Op]) -> bool:
    """Whether a call is marked pure or its callee is a pure function; to ask for many, keep a :class:`Purity`."""
    return Purity(symbols).of_call(op)


def check_purity(op: Any, purity: Purity) -> list[Diagnostic]:
    """A pure function has no effects, and a call marked pure has a pure callee."""
    if (
        "function" in op.spec.traits
        and op.attribute("purity") == "pure"
        and "declaration" not in op.spec.traits
        and "low_function" not in op.spec.traits
    ):
        reads, writes, convergent = purity.counts(op)
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


def check_pure_call(op: Any, symbols: Mapping[str, Op], purity: Purity, boundary: str) -> list[Diagnostic]:
    """``func.call pure`` needs a callee that is declared or proven pure."""
    if op.name not in ("func.call", "template.call") or op.purity != "pure":
        return []
    callee = symbols.get(op.callee)
    if callee is None or purity.of_function(callee):
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
