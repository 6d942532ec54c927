"""Rules of the ``scalar`` dialect that constraints cannot say (language reference, part 1, section 14)."""

from __future__ import annotations

from typing import Any

from loom.ir.core import Op
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import F16, FLOATS, INTEGERS, ScalarType


def constant(op: Any) -> list[Diagnostic] | None:
    """A literal must be of the kind and in the domain of its type."""
    return check_literal(op, op.value, op.results[0].type, "value")


def check_literal(op: Op, value: object, type_: object, name: str) -> list[Diagnostic] | None:
    """Diagnose a literal that does not suit an integer or float type."""
    if type_ in FLOATS:
        if isinstance(value, float):
            return None
        kind = "bool" if isinstance(value, bool) else "integer"
        hint = f"write '{value}.0'" if kind == "integer" else None
        return [wrong_kind(op, name, kind, "float", hint)]
    assert isinstance(type_, ScalarType)
    if isinstance(value, float) or (isinstance(value, bool) and type_.width != 1):
        return [wrong_kind(op, name, "float" if isinstance(value, float) else "bool", "integer")]
    if isinstance(value, bool):
        return None
    assert isinstance(value, int)
    low, high = (0, 1) if type_.width == 1 else (-(1 << (type_.width - 1)), (1 << (type_.width - 1)) - 1)
    if type_ in INTEGERS and not low <= value <= high:
        message = f"{value} is outside the signed domain of {type_.text} ({low} to {high})"
        return [
            Diagnostic(
                "STRUCTURE/014",
                message,
                op.loc,
                {"attr_name": name, "actual_value": value, "expected_constraint": f"{low} to {high}"},
            )
        ]
    return None


def wrong_kind(op: Op, name: str, actual: str, expected: str, hint: str | None = None) -> Diagnostic:
    """An attribute of the wrong kind."""
    return Diagnostic(
        "TYPE/005",
        f"'{name}' of '{op.name}' is {actual} where {expected} is needed",
        op.loc,
        {"attr_name": name, "actual_kind": actual, "expected_kind": expected},
        hint=hint,
    )


def assume(op: Any) -> list[Diagnostic] | None:
    """One result per operand, of the same type."""
    if len(op.results) != len(op.inputs):
        return [
            Diagnostic(
                "STRUCTURE/013",
                f"{len(op.inputs)} operands, but {len(op.results)} results",
                op.loc,
                {
                    "field_a": "inputs",
                    "actual_count": len(op.inputs),
                    "field_b": "results",
                    "expected_count": len(op.results),
                },
            )
        ]
    found = []
    for i, (value, result) in enumerate(zip(op.inputs, op.results, strict=True)):
        if value.type != result.type:
            found.append(
                Diagnostic(
                    "TYPE/001",
                    f"operand {i} has type {value.type}, its result {result.type}",
                    op.loc,
                    {
                        "field_a": f"inputs[{i}]",
                        "type_a": value.type,
                        "field_b": f"results[{i}]",
                        "type_b": result.type,
                    },
                )
            )
    return found


def gelu(op: Any) -> list[Diagnostic] | None:
    """Only the logistic variant has a scale, and it needs one."""
    if (op.variant == "logistic") == (op.scale is not None):
        return None
    actual, expected = ("absent", "float") if op.scale is None else ("float", "absent")
    return [wrong_kind(op, "scale", actual, expected)]


def _width_error(op: Any, rule: str) -> list[Diagnostic]:
    source, target = op.operands[0].type, op.results[0].type
    return [
        Diagnostic(
            "TYPE/004",
            f"'{op.name}' from {source} needs a {rule} result, not {target}",
            op.loc,
            {"result_name": "result", "actual_type": target, "expected_constraint": rule},
            hint="go through f32" if {source.width, target.width} == {F16.width} and source in FLOATS else None,
        )
    ]


def wider(op: Any) -> list[Diagnostic] | None:
    """The result must be strictly wider."""
    return None if op.results[0].type.width > op.operands[0].type.width else _width_error(op, "strictly wider")


def narrower(op: Any) -> list[Diagnostic] | None:
    """The result must be strictly narrower."""
    return None if op.results[0].type.width < op.operands[0].type.width else _width_error(op, "strictly narrower")


def same_width(op: Any) -> list[Diagnostic] | None:
    """The result must have the same number of bits."""
    return None if op.results[0].type.width == op.operands[0].type.width else _width_error(op, "equally wide")


def bitfield(op: Any) -> list[Diagnostic] | None:
    """The field lies inside the source and fits the result."""
    source, result = op.source.type.width, op.results[0].type.width
    if op.offset < 0 or op.width <= 0 or op.offset + op.width > source:
        return [
            Diagnostic(
                "STRUCTURE/014",
                f"bits {op.offset} to {op.offset + op.width} are not inside {op.source.type}",
                op.loc,
                {
                    "attr_name": "width",
                    "actual_value": op.width,
                    "expected_constraint": f"a field inside {source} bits",
                },
            )
        ]
    if op.width > result:
        return _width_error(op, f"at least {op.width} bits wide")
    return None
