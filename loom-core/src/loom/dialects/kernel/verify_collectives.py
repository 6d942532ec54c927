"""Rules of collective operations (language reference, part 2, sections 12.5 and 12.6)."""

from __future__ import annotations

from typing import Any

from loom.dialects.kernel.verify import device_only
from loom.dialects.scf.verify import out_of_contract
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import ERROR, FLOATS, INTEGERS, ShapedType

__all__ = ["clustered", "combining", "device_only"]


def combining(op: Any) -> list[Diagnostic]:
    """Stands in device code, and the kind fits the element type."""
    found = device_only(op) or []
    type_ = op.value.type
    element = type_.element if isinstance(type_, ShapedType) else type_
    wants_float = op.kind.endswith("f")
    if element is not ERROR and element not in (FLOATS if wants_float else INTEGERS):
        wanted = "floating-point" if wants_float else "integer"
        found.append(
            Diagnostic(
                "TYPE/003",
                f"operand 'value' of '{op.name}' is {type_}, but must be {wanted} element type for {op.kind}",
                op.loc,
                {
                    "operand_name": "value",
                    "actual_type": type_,
                    "expected_constraint": f"{wanted} element type for {op.kind}",
                },
            )
        )
    return found


def clustered(op: Any) -> list[Diagnostic]:
    """As :func:`combining`; cluster size and stride are positive, and a stride has a size."""
    found = combining(op)
    for name in ("cluster_size", "cluster_stride"):
        value = op.attribute(name)
        if value is not None and value < 1:
            found.append(out_of_contract(op, name, value, "positive"))
    if op.cluster_stride is not None and op.cluster_size is None:
        found.append(out_of_contract(op, "cluster_size", "absent", "given together with 'cluster_stride'"))
    return found
