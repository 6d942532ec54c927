"""What vector operations mean. A vector's axes stand behind the lane axis of its array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from loom.dialects.view.evaluate import index_values
from loom.evaluate import accesses
from loom.evaluate.frame import Frame
from loom.evaluate.numeric import COMBINING_KINDS, fold
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue, format_of
from loom.ir.core import Op
from loom.ir.types import ShapedType, Type


def footprint(frame: Frame, op: Op, type_: Type) -> tuple[int, ...]:
    """The extents of a vector type; a dynamic one must be the same in all active lanes."""
    assert isinstance(type_, ShapedType)
    extents = tuple(frame.uniform(op, frame.extent(d), "the extent of a vector") for d in type_.dims)
    # Addresses and their checks take several words per element.
    frame.machine.program.reserve(op, frame.machine.lanes.count * math.prod(extents) * 32)
    return extents


@evaluates("vector.load")
def load(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Reads a footprint whose axes are the trailing axes of the view."""
    shape = footprint(frame, op, op.results[0].type)
    place = accesses.locate(frame, op, operands[0], op.source.type, index_values(frame, op), shape)
    return (accesses.load(frame, op, place),)


@evaluates("vector.store")
def store(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Writes a footprint whose axes are the trailing axes of the view."""
    shape = footprint(frame, op, op.value.type)
    place = accesses.locate(frame, op, operands[1], op.target.type, index_values(frame, op), shape)
    accesses.store(frame, op, place, operands[0])
    return ()


@evaluates("vector.reduce")
def reduce(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Combines all lanes with an initial value, in lane order; `reassoc` permits that order too."""
    source, initial = operands
    rank = op.source.type.rank
    leading = source.shape[: source.ndim - rank]
    lanes = source.reshape(*leading, math.prod(source.shape[source.ndim - rank :]))
    if initial.ndim and not leading:
        lanes = np.broadcast_to(lanes, (*initial.shape, *lanes.shape))
    return (fold(COMBINING_KINDS[op.kind], format_of(op.source.type), initial, lanes),)
