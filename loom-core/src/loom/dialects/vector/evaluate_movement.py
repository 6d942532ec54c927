"""Access to lanes and movement between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loom.evaluate.frame import Frame
from loom.evaluate.numeric.formats import Array
from loom.evaluate.rules import evaluates
from loom.evaluate.shapes import (
    as_declared,
    check_position,
    extents_of,
    ranks_of,
    with_lane_axes,
    with_lane_axis,
    without_lane_axis,
)
from loom.evaluate.values import RuntimeValue, vector_rank


def _positions(frame: Frame, op: Any, vector: Array) -> list[Array]:
    """Checked indices of the leading vector axes; ``vector`` has a lane axis."""
    entries = frame.indices(op.indices, op.static_indices)
    return [check_position(frame, op, axis, index, vector.shape[1 + axis]) for axis, index in enumerate(entries)]


def _lane_numbers(*arrays: Array) -> Array:
    """``[n]`` for arrays with a lane axis in front, of extent one or n."""
    return np.arange(max(a.shape[0] for a in arrays))


@evaluates("vector.extract")
def extract(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The lane or trailing sub-vector at the indices."""
    source = with_lane_axis(operands[0], op.source.type.rank)
    positions = [np.atleast_1d(p) for p in _positions(frame, op, source)]
    if not positions:
        return (operands[0],)
    if 0 in source.shape[1 : 1 + len(positions)]:
        # Only lanes whose result is poison anyway come here.
        return (np.zeros(source.shape[1 + len(positions) :], dtype=source.dtype),)
    numbers = _lane_numbers(source, *positions)
    return (without_lane_axis(source[numbers if source.shape[0] > 1 else np.zeros_like(numbers), *positions]),)


@evaluates("vector.insert")
def insert(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The vector with the lane or trailing sub-vector at the indices replaced."""
    value = with_lane_axis(operands[0], vector_rank(op.value.type))
    target = with_lane_axis(operands[1], op.target.type.rank)
    positions = [np.atleast_1d(p) for p in _positions(frame, op, target)]
    if not positions:
        return (operands[0],)
    numbers = _lane_numbers(value, target, *positions)
    result = np.array(np.broadcast_to(target, (numbers.size, *target.shape[1:])))
    if 0 not in target.shape[1 : 1 + len(positions)]:
        result[numbers, *positions] = value
    return (without_lane_axis(result),)


@evaluates("vector.slice")
def slice_(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The lanes from an origin on."""
    source = with_lane_axis(operands[0], op.source.type.rank)
    extents = extents_of(frame, op, op.results[0].type)
    rank = len(extents)
    picked: list[Array] = []
    for axis, index in enumerate(frame.indices(op.offsets, op.static_offsets)):
        origin = check_position(frame, op, axis, index, source.shape[1 + axis], extents[axis])
        steps = np.arange(extents[axis]).reshape((-1,) + (1,) * (rank - 1 - axis))
        picked.append(np.atleast_1d(origin).reshape((-1,) + (1,) * rank) + steps)
    if 0 in extents:
        return (np.zeros(extents, dtype=source.dtype),)
    numbers = np.arange(source.shape[0]).reshape((-1,) + (1,) * rank)
    return (without_lane_axis(source[numbers, *picked]),)


@evaluates("vector.concat")
def concat(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Vectors joined along an axis."""
    parts = with_lane_axes(operands, ranks_of(op))
    return (as_declared(frame, op, without_lane_axis(np.concatenate(parts, axis=1 + op.axis))),)


@evaluates("vector.transpose")
def transpose(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Result axis i is source axis permutation[i]."""
    source = with_lane_axis(operands[0], op.source.type.rank)
    return (without_lane_axis(np.transpose(source, (0, *(1 + axis for axis in op.permutation)))),)


@evaluates("vector.shuffle")
def shuffle(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Result lane i is source lane lanes[i]."""
    return (operands[0][..., np.asarray(op.lanes, dtype=np.intp)],)


@evaluates("vector.interleave")
def interleave(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Along the axis: even coordinates from the first operand, odd ones from the second."""
    even, odd = with_lane_axes(operands, ranks_of(op))
    at = 1 + op.axis
    pairs = np.stack((even, odd), axis=at + 1)
    joined = pairs.reshape(*even.shape[:at], 2 * even.shape[at], *even.shape[at + 1 :])
    return (as_declared(frame, op, without_lane_axis(joined)),)


@evaluates("vector.deinterleave")
def deinterleave(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The even and the odd coordinates along the axis."""
    source = with_lane_axis(operands[0], op.source.type.rank)
    behind = (slice(None),) * (1 + op.axis)
    parts = [without_lane_axis(source[*behind, start::2]) for start in (0, 1)]
    return [as_declared(frame, op, part, result) for result, part in enumerate(parts)]
