"""What calls mean: the callee's body runs with the lanes that call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loom.evaluate.assumptions import check_predicates
from loom.evaluate.faults import unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue, constant_root
from loom.ir.core import Op, Value


def call_function(frame: Frame, op: Op, callee: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Call a function-like operation; its ``where`` predicates are obligations of the caller."""
    parameters: list[Value] = callee.body.entry.args
    about_arguments = [p for p in callee.predicates if all(_index(a) < len(parameters) for a in p.args)]
    about_results = [p for p in callee.predicates if p not in about_arguments]
    check_predicates(frame, op, about_arguments, parameters, operands, "required")
    results = frame.machine.call(op, callee, operands, frame.mask)
    if about_results:
        named = [spec.value or value for spec, value in zip(callee.result_specs, op.results, strict=True)]
        check_predicates(frame, op, about_results, [*parameters, *named], [*operands, *results], "promised")
    return results


def _index(argument: object) -> int:
    return getattr(argument, "index", 0) if not isinstance(argument, int) else 0


def find_callee(frame: Frame, op: Op, name: str) -> Op:
    """The definition that a symbol names. Raises a located diagnostic when there is no body to run."""
    callee = frame.machine.program.symbols.get(name)
    if callee is None or "declaration" in callee.spec.traits:
        raise unsupported(op, f"'@{name}' has no body here", hint="link the module that defines it")
    if "low_function" in callee.spec.traits:
        raise unsupported(
            op,
            f"'@{name}' is written in Low, which only its target can run",
            hint="run the check on 'sim' or on a device of that target",
        )
    return callee


@evaluates("func.call")
def call(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Calls one exact function."""
    return call_function(frame, op, find_callee(frame, op, op.callee), operands)


@evaluates("func.location")
def location(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The text of the nodes as constant bytes."""
    return (constant_root(f"[{', '.join(map(str, op.nodes))}]".encode()),)
