"""What view operations mean. Importing this module registers the rules of the dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loom.dialects.view import evaluate_atomic  # noqa: F401
from loom.evaluate import accesses
from loom.evaluate.faults import FaultCode
from loom.evaluate.frame import Frame
from loom.evaluate.layouts import strides_of
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue, View, format_of


@evaluates("view.subview")
def subview(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The same root and strides from another origin; extents come from the result type."""
    source: View = operands[0]
    size = format_of(op.source.type).dtype.itemsize
    origin = source.origin
    with np.errstate(over="ignore"):
        for index, stride in zip(frame.indices(op.indices, op.static_indices), source.strides, strict=True):
            origin = np.asarray(origin + index * stride * size)
    extents = tuple(frame.extent(d) for d in op.results[0].type.dims)
    return (View(source.buffer, origin, extents, source.strides),)


@evaluates("view.refine")
def refine(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The same bytes under another description, whose extents must be true of them.

    Only a changed layout slot changes the strides.
    """
    source: View = operands[0]
    old, new = op.source.type, op.results[0].type
    extents = tuple(frame.extent(d) for d in new.dims)
    for axis, (extent, actual) in enumerate(zip(extents, source.extents, strict=True)):
        lane = frame.offender(np.asarray(extent != actual))
        if lane is not None:
            promised, real = (int(e if e.ndim == 0 else e[lane]) for e in (extent, actual))
            raise frame.fault(
                FaultCode.FALSE_PREDICATE,
                op,
                f"'{op.name}' promises extent {promised} of axis {axis}, but it is {real}",
                lane,
                dim_index=axis,
            )
    strides = source.strides if old.encoding == new.encoding else strides_of(frame, op, new, extents)
    return (View(source.buffer, source.origin, extents, strides),)


@evaluates("view.load")
def load(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Reads one element."""
    place = accesses.locate(frame, op, operands[0], op.source.type, frame.indices(op.indices, op.static_indices))
    return (accesses.load(frame, op, place),)


@evaluates("view.store")
def store(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Writes one element."""
    place = accesses.locate(frame, op, operands[1], op.target.type, frame.indices(op.indices, op.static_indices))
    accesses.store(frame, op, place, operands[0])
    return ()
