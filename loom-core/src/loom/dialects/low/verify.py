"""Rules of the ``low`` dialect (language reference, part 3, sections 4.2 to 4.7)."""

from __future__ import annotations

from typing import Any

from loom.ir.core import Op
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import ERROR, RegType, StorageType


def low_function(op: Any) -> list[Diagnostic] | None:
    """Signature types are register types."""
    found = []
    types = [(f"%{a.name}", a.type) for a in op.body.entry.args]
    if op.spec.result_spec_attributes:
        types += [(f"result {i}", r.type) for i, r in enumerate(op.result_specs)]
    for name, type_ in types:
        if not isinstance(type_, RegType | StorageType) and type_ is not ERROR:
            found.append(
                Diagnostic(
                    "TYPE/014",
                    f"{name} of a Low function must be a register, not {type_}",
                    op.loc,
                    {"argument_name": name, "actual_type": type_, "expected_constraint": "register"},
                )
            )
    return found


def slice_(op: Any) -> list[Diagnostic] | None:
    """Units offset ... offset + count of the same class."""
    source, result = op.input.type, op.results[0].type
    if ERROR in (source, result):
        return None
    if source.reg_class != result.reg_class or op.offset < 0 or op.offset + result.count > source.count:
        return [
            Diagnostic(
                "TYPE/004",
                f"{result} is no part of {source} at unit {op.offset}",
                op.loc,
                {"result_name": "result", "actual_type": result, "expected_constraint": f"units of {source}"},
            )
        ]
    return None


def concat(op: Any) -> list[Diagnostic] | None:
    """One class; unit counts add up."""
    result = op.results[0].type
    parts = [a.type for a in op.args]
    if ERROR in (result, *parts):
        return None
    if any(p.reg_class != result.reg_class for p in parts) or sum(p.count for p in parts) != result.count:
        return [
            Diagnostic(
                "TYPE/004",
                f"{', '.join(map(str, parts))} do not make {result}",
                op.loc,
                {"result_name": "result", "actual_type": result, "expected_constraint": "the sum of the parts"},
            )
        ]
    return None


def live_in(op: Any) -> list[Diagnostic] | None:
    """Only in the entry block, before other instructions."""
    block = op.parent
    before = op.prev
    while before is not None and "live_in" in before.spec.traits:
        before = before.prev
    if before is None and block.parent.blocks[0] is block:
        return None
    return [
        Diagnostic(
            "STRUCTURE/030",
            "'low.live_in' stands at the start of the entry block",
            op.loc,
            {"op_name": op.name, "placement": "before", "reference_name": before.name if before else "entry"},
        )
    ]


def schedule_control(op: Op) -> list[Diagnostic] | None:
    """Directly in the body of a Low function."""
    parent = op.parent_op
    if parent is None or "low_function" in parent.spec.traits:
        return None
    return [
        Diagnostic(
            "STRUCTURE/029",
            f"'{op.name}' stands only in the blocks of a Low function's body",
            op.loc,
            {
                "op_name": op.name,
                "constraint_kind": "parent",
                "ancestor_name": "low.func.def",
                "actual_ancestor": parent.name,
            },
        )
    ]
