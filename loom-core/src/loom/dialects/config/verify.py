"""Rules of the ``config`` dialect (language reference, part 1, section 10)."""

from __future__ import annotations

from typing import Any

from loom.dialects.scalar.verify import check_literal, wrong_kind
from loom.ir.attributes import Encoding
from loom.ir.core import Op
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import ADDRESSES, OFFSET, EncodingType, ScalarType, Type

Findings = list[Diagnostic]


def declared(op: Any) -> Findings | None:
    """A choice is a scalar or an encoding."""
    if isinstance(op.type, ScalarType | EncodingType):
        return None
    return [
        Diagnostic(
            "TYPE/004",
            f"a configuration value is a scalar or an encoding, not {op.type}",
            op.loc,
            {"result_name": "type", "actual_type": op.type, "expected_constraint": "a scalar or an encoding"},
        )
    ]


def defined(op: Any) -> Findings | None:
    """The value is of the kind and in the domain of its type."""
    return declared(op) or value_faults(op, op.value, op.type)


def value_faults(op: Op, value: object, type_: Type) -> Findings | None:
    """What keeps a literal from being a value of a configuration type; ``op`` says where it stands."""
    if isinstance(type_, EncodingType):
        return _encoding_faults(op, value, type_)
    kind = _kind(value)
    if type_ in ADDRESSES:
        if kind != "integer":
            return [wrong_kind(op, "value", kind, "integer")]
        assert isinstance(value, int)
        if type_ is OFFSET and value < 0:
            return [
                Diagnostic(
                    "STRUCTURE/014",
                    f"an offset is not negative, {value} is",
                    op.loc,
                    {"attr_name": "value", "actual_value": value, "expected_constraint": ">= 0"},
                )
            ]
        return None
    if kind not in ("integer", "float", "bool"):
        return [wrong_kind(op, "value", kind, f"a value of type {type_}")]
    return check_literal(op, value, type_, "value")


def _encoding_faults(op: Op, value: object, type_: EncodingType) -> Findings | None:
    from loom.dialects.encoding.parameters import role_of
    from loom.dialects.encoding.verify import specification

    if not isinstance(value, Encoding):
        return [wrong_kind(op, "value", _kind(value), "encoding")]
    found = specification(op, value)
    role = role_of(value)
    if not found and type_.role not in (None, role):
        found = [
            Diagnostic(
                "ENCODING/012",
                f"'#{value.family}' is an encoding<{role}>, not {type_}",
                op.loc,
                {"encoding_name": value.family, "actual_type": type_, "expected_type": f"encoding<{role}>"},
            )
        ]
    return found or None


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "float"
    return "encoding" if isinstance(value, Encoding) else "string" if isinstance(value, str) else "other data"
