"""What group operations mean. Importing this module registers the rules of the dialect."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from loom.evaluate.faults import FaultCode
from loom.evaluate.frame import Frame
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue
from loom.ir.core import Op


@attrs.frozen(eq=False)
class Group:
    """A group: how many lanes it has along each axis."""

    extents: tuple[int, ...]


@evaluates("group.create")
def create(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A group of its own."""
    size = frame.uniform(op, operands[0], "the size of the group")
    if size < 1:
        raise frame.fault(FaultCode.BAD_ARGUMENT, op, f"a group of {size} lanes", frame.first_active)
    return (Group((size,)),)
