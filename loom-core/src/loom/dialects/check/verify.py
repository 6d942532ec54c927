"""Rules of the ``check`` dialect."""

from __future__ import annotations

from typing import Any

from loom.dialects.scalar.verify import wrong_kind
from loom.ir.core import Op
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import FLOATS, I1, element_type


def in_case(op: Op) -> list[Diagnostic] | None:
    """Stands in a check case or scenario."""
    if any(a.name in ("check.case", "check.scenario") for a in op.ancestors()):
        return None
    return [
        Diagnostic(
            "STRUCTURE/029",
            f"'{op.name}' stands only in a 'check.case'",
            op.loc,
            {
                "op_name": op.name,
                "constraint_kind": "ancestor",
                "ancestor_name": "check.case",
                "actual_ancestor": op.parent_op.name if op.parent_op else "module",
            },
        )
    ]


def literal_kind(op: Any, name: str, value: object, type_: Any) -> list[Diagnostic]:
    """A literal suits the element type: a float for floats, an integer otherwise."""
    element = element_type(type_)
    if value is None:
        return []
    if element in FLOATS:
        ok, expected = isinstance(value, float), "float"
    elif element is I1:
        ok, expected = isinstance(value, bool) or value in (0, 1), "bool"
    else:
        ok, expected = isinstance(value, int) and not isinstance(value, bool), "integer"
    if ok:
        return []
    actual = "bool" if isinstance(value, bool) else "float" if isinstance(value, float) else "integer"
    return [
        wrong_kind(
            op, name, actual, expected, f"write '{value}.0'" if expected == "float" and actual == "integer" else None
        )
    ]


def literal(op: Any) -> list[Diagnostic] | None:
    """The value suits the type."""
    return (in_case(op) or []) + literal_kind(op, "value", op.value, op.results[0].type)


def generator(op: Any) -> list[Diagnostic] | None:
    """Literals suit the element type."""
    found = in_case(op) or []
    for name in ("offset", "step", "value", "lower", "upper"):
        if name in op.spec.attribute_index:
            found += literal_kind(op, name, op.attribute(name), op.results[0].type)
    return found
