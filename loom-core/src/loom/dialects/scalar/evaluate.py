"""What scalar operations mean: the numeric operations of the same names, lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from loom.evaluate.arithmetic import apply_numeric
from loom.evaluate.assumptions import check_predicates
from loom.evaluate.frame import Frame
from loom.evaluate.numeric import OPERATIONS
from loom.evaluate.rules import evaluates
from loom.evaluate.values import Poisoned, RuntimeValue, format_of, literal
from loom.ir.core import Op
from loom.spec.registry import lookup

# Parameters of numeric operations that attributes of the same or another name carry.
PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "cmp": ("predicate",),
    "cmpi": ("predicate",),
    "cmpf": ("predicate",),
    "clampf": ("mode",),
    "geluf": ("variant", "scale"),
    "bitfield.extractu": ("offset", "width"),
    "bitfield.extracts": ("offset", "width"),
    "bitfield.insert": ("offset", "width"),
}


def numeric_rule(name: str) -> Callable[[Frame, Op, Sequence[RuntimeValue]], Sequence[RuntimeValue]]:
    """The rule of an operation that is a numeric operation on its operands."""
    operation = OPERATIONS[name]
    parameters = PARAMETERS.get(name, ())

    def rule(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
        given = {key: op.attribute(key) for key in parameters}
        return (apply_numeric(frame, op, operation, operands, given),)

    return rule


for _name in OPERATIONS:
    if lookup(f"scalar.{_name}") is not None:
        evaluates(f"scalar.{_name}")(numeric_rule(_name))


@evaluates("scalar.constant", "index.constant")
def constant(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The literal in the type of the result."""
    return (literal(op.results[0].type, op.attribute("value")),)


@evaluates("scalar.assume", "index.assume")
def assume(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The values themselves; a predicate that is false in an active lane is a fault."""
    inputs = len(op.results)
    check_predicates(frame, op, op.predicates, op.mentioned, operands[inputs:])
    return operands[:inputs]


@evaluates("scalar.poison")
def poison(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A value that no lane may observe."""
    placeholder = np.zeros((), dtype=format_of(op.results[0].type).dtype)
    return (Poisoned(placeholder, np.asarray(True)),)
