"""Reductions and dot products, in lane order; fast-math flags permit that order too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from loom.evaluate.arithmetic import check_float_promises
from loom.evaluate.frame import Frame
from loom.evaluate.numeric import COMBINING_KINDS, dots, fold
from loom.evaluate.numeric.formats import Array
from loom.evaluate.rules import evaluates
from loom.evaluate.shapes import in_lane_order, ranks_of, with_lane_axes, without_lane_axis
from loom.evaluate.values import RuntimeValue, format_of


@evaluates("vector.reduce")
def reduce(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Combines all lanes with an initial value."""
    source, initial = with_lane_axes(operands, ranks_of(op))
    flat = in_lane_order(source, op.source.type.rank)
    return (_kept(frame, op, operands, fold(COMBINING_KINDS[op.kind], format_of(op.source.type), initial, flat)),)


def _kept(frame: Frame, op: Any, operands: Sequence[RuntimeValue], value: Array) -> Array:
    """The result, for which the promises of flags must hold."""
    result = without_lane_axis(value)
    check_float_promises(frame, op, operands, (result,))
    return result


@evaluates("vector.reduce.axes")
def reduce_axes(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Combines the lanes along the listed axes at each position of the others."""
    source, initial = with_lane_axes(operands, ranks_of(op))
    behind = np.moveaxis(source, [1 + axis for axis in op.axes], range(-len(op.axes), 0))
    flat = in_lane_order(behind, len(op.axes))
    return (_kept(frame, op, operands, fold(COMBINING_KINDS[op.kind], format_of(op.source.type), initial, flat)),)


@evaluates("vector.dotf")
def dotf(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A chain of fused multiply-adds over all lanes."""
    left, right, accumulator = with_lane_axes(operands, ranks_of(op))
    rank = op.lhs.type.rank
    value = dots.dotf(format_of(op.lhs.type), in_lane_order(left, rank), in_lane_order(right, rank), accumulator)
    return (_kept(frame, op, operands, value),)


# Dot products of groups of lanes along the last axis, by operands and operation.
GROUPED: Final[dict[str, Callable[[Any, Array, Array, Array], Array]]] = {
    "vector.dot2f": lambda op, left, right, acc: dots.dot2f(format_of(op.lhs.type), left, right, acc),
    "vector.dot4i": lambda op, left, right, acc: dots.dot4i(op.signs, left, right, acc),
    "vector.dot8i4": lambda op, left, right, acc: dots.dot8i4(op.signs, left, right, acc),
    "vector.dot4f8": lambda op, left, right, acc: dots.dot4f8(op.formats, left, right, acc),
}


@evaluates(*GROUPED)
def grouped_dot(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Products of groups of lanes added to each accumulator lane."""
    left, right, accumulator = with_lane_axes(operands, ranks_of(op))
    return (without_lane_axis(GROUPED[op.name](op, left, right, accumulator)),)
