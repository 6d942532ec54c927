"""Poison: values that may be computed with but not observed (language reference, part 1, section 5.4).

Values that the language calls unspecified, such as what a shuffle gives for a lane that is not there, are poison too:
every use that could make a difference would show something that was made up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from loom.evaluate.faults import FaultCode
from loom.evaluate.numeric.formats import Array
from loom.evaluate.values import Poisoned, RuntimeValue

if TYPE_CHECKING:
    from loom.evaluate.frame import Frame
    from loom.evaluate.rules import Rule
    from loom.ir.core import Op

# These hand values on without looking at them, and check their own conditions.
_TRANSPARENT: Final = frozenset(
    {
        *("scf.if", "scf.for", "scf.while", "scf.switch", "scf.select", "scf.lookup", "vector.select"),
        *("func.call", "template.call"),
        *("kernel.subgroup.shuffle", "kernel.subgroup.broadcast", "kernel.subgroup.broadcast.first"),
    }
)


def may_make_poison(op: Op) -> bool:
    """Whether results of an operation can be poison although its operands are not."""
    return "poison" in op.spec.traits or op.name == "kernel.subgroup.shuffle"


def split(value: RuntimeValue) -> tuple[RuntimeValue, Array]:
    """A value as it is stored, and the lanes in which it is poison."""
    return (value.value, value.lanes) if isinstance(value, Poisoned) else (value, _NOWHERE)


_NOWHERE: Final[Array] = np.asarray(False)


def poisoned(frame: Frame, value: RuntimeValue, lanes: Array) -> RuntimeValue:
    """The value, which is poison in some lanes; just the value when none of those is active."""
    return value if frame.offender(lanes) is None else Poisoned(value, lanes)


def evaluate_with_poison(frame: Frame, rule: Rule, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Apply a rule to operands that may be poison: pure operations spread it, observing ones fault."""
    tainted = [v for v in operands if isinstance(v, Poisoned)]
    if not tainted or op.name in _TRANSPARENT:
        return rule(frame, op, operands)
    lanes: Array = np.asarray(False)
    for value in tainted:
        lanes = lanes | value.lanes
    plain = [v.value if isinstance(v, Poisoned) else v for v in operands]
    if "pure" not in op.spec.traits:
        observe(frame, op, operands, "effectful operation")
        return rule(frame, op, plain)
    # Faults of a poisoned lane are no faults: its result is poison.
    frame.mask = np.broadcast_to(~lanes if frame.mask is None else frame.mask & ~lanes, (frame.machine.lanes.count,))
    return [Poisoned(result, lanes) for result in rule(frame, op, plain)]


def observe(frame: Frame, op: Op, values: Sequence[RuntimeValue], boundary: str) -> None:
    """Fault if an active lane observes poison among the operands ``values`` of ``op``."""
    for operand, value in zip(op.operands, values, strict=True):
        if isinstance(value, Poisoned):
            lane = frame.offender(value.lanes)
            if lane is not None:
                raise frame.fault(
                    FaultCode.POISON,
                    op,
                    f"%{operand.name} is poison at '{op.name}'",
                    lane,
                    value_name=str(operand.name),
                    boundary_kind=boundary,
                )
