"""Rules of the ``pass`` dialect: placement, names, counts.

Whether a pass or predicate of a name exists is known only to the tool that runs the pipeline.
"""

from __future__ import annotations

import re
from typing import Any, Final

from loom.dialects.scf.verify import out_of_contract
from loom.ir.core import Op
from loom.ir.diagnostics import Diagnostic

NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*(?:\.[A-Za-z0-9_$][A-Za-z0-9_$-]*)*\Z")


def pipeline(op: Any) -> list[Diagnostic] | None:
    """A pipeline is a symbol of the module and holds only steps."""
    if op.parent_op is not None:
        return [_misplaced(op, "parent", "module")]
    return _only_steps(op)


def placed(op: Op) -> list[Diagnostic] | None:
    """A step stands in a pipeline; a region of steps holds nothing else."""
    parent = op.parent_op
    if parent is None or parent.spec.dialect != "pass":
        return [_misplaced(op, "parent", "pass.pipeline")]
    return _only_steps(op)


def run(op: Any) -> list[Diagnostic] | None:
    """The key of a pass is a dotted name."""
    return [*(placed(op) or ()), *_name(op, "key", op.key)]


def where(op: Any) -> list[Diagnostic] | None:
    """The predicate is a dotted name."""
    return [*(placed(op) or ()), *_name(op, "predicate", op.predicate)]


def repeat(op: Any) -> list[Diagnostic] | None:
    """``fixed`` has a count, ``until_converged`` a limit, both positive."""
    found = list(placed(op) or ())
    wanted, other = ("count", "max_iterations") if op.mode == "fixed" else ("max_iterations", "count")
    value = op.attribute(wanted)
    if value is None or value < 1:
        found.append(out_of_contract(op, wanted, "absent" if value is None else value, "a positive number"))
    if op.attribute(other) is not None:
        found.append(out_of_contract(op, other, op.attribute(other), f"absent when the mode is '{op.mode}'"))
    return found


def _only_steps(op: Op) -> list[Diagnostic] | None:
    return [
        _misplaced(inner, "region", "a function")
        for region in op.regions
        for inner in region.ops()
        if inner.spec.dialect != "pass"
    ]


def _name(op: Op, field: str, name: str) -> list[Diagnostic]:
    if NAME.match(name):
        return []
    return [
        Diagnostic(
            "STRUCTURE/027",
            f"{field} of '{op.name}' is {name!r}, but must be a dotted name",
            op.loc,
            {"attr_name": field, "actual_value": name, "expected_constraint": "dotted name"},
        )
    ]


def _misplaced(op: Op, kind: str, wanted: str) -> Diagnostic:
    parent = op.parent_op
    where = parent.name if parent is not None else "module"
    return Diagnostic(
        "STRUCTURE/029",
        f"'{op.name}' stands in '{where}', but belongs in {wanted if ' ' in wanted else repr(wanted)}",
        op.loc,
        {"op_name": op.name, "constraint_kind": kind, "ancestor_name": wanted, "actual_ancestor": where},
    )
