"""Rules of the ``command`` dialect."""

from __future__ import annotations

from typing import Any

from loom.dialects.kernel.verify import check_arguments
from loom.dialects.scf.verify import lengths_differ
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import BUFFER, ERROR


def program(op: Any) -> list[Diagnostic] | None:
    """Bindings are buffers."""
    return [
        Diagnostic(
            "TYPE/014",
            f"binding %{arg.name} must be a buffer, not {arg.type}",
            op.loc,
            {"argument_name": arg.name, "actual_type": arg.type, "expected_constraint": "buffer"},
        )
        for arg in op.body.entry.args[op.specialization_count :]
        if arg.type is not BUFFER and arg.type is not ERROR
    ]


def check_program_launch(op: Any, target: Any) -> list[Diagnostic]:
    """Operands match the program's specializations and bindings."""
    args, count = target.body.entry.args, target.specialization_count
    return [
        *check_arguments(op, target, "specializations", op.specializations, args[:count]),
        *check_arguments(op, target, "bindings", op.args, args[count:]),
    ]


def parameter(op: Any) -> list[Diagnostic] | None:
    """One index per ``{}`` of the key."""
    holes = op.key.count("{}")
    return (
        None if holes == len(op.indices) else [lengths_differ(op, "indices", len(op.indices), "'{}' in the key", holes)]
    )
