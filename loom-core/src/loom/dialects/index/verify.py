"""Rules of the ``index`` dialect that constraints cannot say."""

from __future__ import annotations

from typing import Any

from loom.dialects.scalar.verify import wrong_kind
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import ADDRESSES, OFFSET


def constant(op: Any) -> list[Diagnostic] | None:
    """Only an integer literal, not below zero for an offset."""
    if isinstance(op.value, bool | float):
        return [wrong_kind(op, "value", "bool" if isinstance(op.value, bool) else "float", "integer")]
    if op.results[0].type is OFFSET and op.value < 0:
        return [
            Diagnostic(
                "STRUCTURE/014",
                f"an offset is not negative, {op.value} is",
                op.loc,
                {"attr_name": "value", "actual_value": op.value, "expected_constraint": ">= 0"},
            )
        ]
    return None


def cast(op: Any) -> list[Diagnostic] | None:
    """At least one side is an address."""
    source, target = op.input.type, op.results[0].type
    if source in ADDRESSES or target in ADDRESSES:
        return None
    return [
        Diagnostic(
            "TYPE/004",
            f"'index.cast' needs an address on one side, not {source} to {target}",
            op.loc,
            {"result_name": "result", "actual_type": target, "expected_constraint": "index or offset"},
        )
    ]
