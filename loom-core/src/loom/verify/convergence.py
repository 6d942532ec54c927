"""Control flow that leads to a rendezvous is the same for all who meet there (language reference, part 2, 12.7)."""

from __future__ import annotations

from typing import Any, Final

from loom.facts.uniformity import varying_values
from loom.ir.core import Op, Value
from loom.ir.diagnostics import Diagnostic, Related

# Rendezvous whose participants the op itself does not name.
WORKGROUP: Final = frozenset(
    {
        "kernel.barrier.arrive",
        "kernel.barrier.wait",
        "kernel.workgroup.reduce",
        "kernel.workgroup.scan",
        "kernel.workgroup.vote.any",
        "kernel.workgroup.vote.all",
        "kernel.workgroup.vote.count",
    }
)
MEETINGS: Final = WORKGROUP | {"kernel.barrier"}
# Structured op -> what kind of control it is, and how many leading operands decide it.
CONTROL: Final = {
    "scf.if": ("branch", 1),
    "scf.switch": ("branch", 1),
    "scf.for": ("loop", 3),
}


def check_convergence(function: Op) -> list[Diagnostic]:
    """Findings for rendezvous under control that differs between the invocations that meet.

    Structured control flow only: on a graph of blocks invocations may meet again anywhere.
    """
    found: list[Diagnostic] = []
    varying: dict[str, set[Value]] = {}
    for op in function.walk():
        if op.name not in MEETINGS:
            continue
        scope = "workgroup" if op.name in WORKGROUP else str(op.attribute("scope"))
        for control in op.ancestors():
            if control is function:
                break
            deciding = _deciding(control)
            if not deciding:
                continue
            if scope not in varying:
                varying[scope] = varying_values(function, scope)
            culprit = next((value for value in deciding if value in varying[scope]), None)
            if culprit is not None:
                found.append(_finding(op, control, culprit, scope))
                break
    return found


def _deciding(control: Any) -> list[Value]:
    if control.name in CONTROL:
        return list(control.operands[: CONTROL[control.name][1]])
    if control.name == "scf.while":
        condition = control.regions[0].entry.last
        return list(condition.operands[:1]) if condition is not None else []
    return []


def _finding(op: Op, control: Op, value: Value, scope: str) -> Diagnostic:
    kind = CONTROL.get(control.name, ("loop", 1))[0]
    name = value.name or "?"
    return Diagnostic(
        "STRUCTURE/038",
        f"'{op.name}' needs all invocations of the {scope}, but '{control.name}' depends on %{name}, "
        f"which differs between them",
        op.loc,
        {"op_name": op.name, "control_kind": kind, "control_value": name, "control_op_name": control.name},
        related=(Related(f"the {kind} is here", control.loc),),
    )
