"""What encoding operations mean: layouts are stride tuples, other encodings their static specification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loom.evaluate.faults import FaultCode, unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.layouts import static_layout
from loom.evaluate.rules import evaluates
from loom.evaluate.values import DENSE, Layout, RuntimeValue, integer
from loom.ir.core import Op
from loom.text.directives import index_entries


@evaluates("encoding.layout.dense")
def dense(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Row-major over the extents of the view that uses it."""
    return (DENSE,)


@evaluates("encoding.layout.strided")
def strided(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """One stride in elements per axis."""
    strides = [integer(e) if isinstance(e, int) else frame.env[e] for e in index_entries(op.strides, op.static_strides)]
    for stride in strides:
        lane = frame.offender(stride < 0)
        if lane is not None:
            raise frame.fault(FaultCode.UNDEFINED_RESULT, op, "a stride is negative", lane, reason="stride")
    return (Layout(np.asarray(False), tuple(strides)),)


@evaluates("encoding.define")
def define(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The specification itself; a static layout becomes a layout value."""
    if operands:
        raise unsupported(op, "an encoding with run-time parameters")
    if op.definition.family.startswith("encoding.layout."):
        return (static_layout(op, op.definition),)
    return (op.definition,)
