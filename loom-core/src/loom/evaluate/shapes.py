"""Axes of runtime vectors: the lane axis in front, and extents that types promise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from loom.evaluate.faults import FaultCode
from loom.evaluate.numeric.formats import Array
from loom.evaluate.values import vector_rank
from loom.ir.core import Op
from loom.ir.types import ShapedType, Type

if TYPE_CHECKING:
    from loom.evaluate.frame import Frame


def extents_of(frame: Frame, op: Op, type_: Type) -> tuple[int, ...]:
    """The extents of a vector type as they are now.

    Raises a located diagnostic when a dynamic extent is negative, differs between active lanes, or makes the value
    too large.
    """
    assert isinstance(type_, ShapedType)
    extents = tuple(frame.uniform(op, frame.extent(d), "the extent of a vector") for d in type_.dims)
    for axis, extent in enumerate(extents):
        if extent < 0:
            raise frame.fault(
                FaultCode.FALSE_PREDICATE,
                op,
                f"extent {axis} of {type_} is {extent}",
                frame.first_active,
                value_name=str(type_),
            )
    # Addresses and their checks take several words per element.
    frame.machine.program.reserve(op, frame.machine.lanes.count * math.prod(extents) * 32)
    return extents


def with_lane_axis(value: Array, rank: int) -> Array:
    """The value with a lane axis, of extent one when all lanes share the value."""
    return value if value.ndim > rank else value[None]


def without_lane_axis(value: Array) -> Array:
    """Drop a lane axis of extent one: the value is the same in all lanes."""
    return value.reshape(value.shape[1:]) if value.shape[0] == 1 else value


def with_lane_axes(values: Sequence[Array], ranks: Sequence[int]) -> list[Array]:
    """The values with lane axes of one common extent."""
    led = [with_lane_axis(v, r) for v, r in zip(values, ranks, strict=True)]
    count = max((v.shape[0] for v in led), default=1)
    return [v if v.shape[0] == count else np.broadcast_to(v, (count, *v.shape[1:])) for v in led]


def ranks_of(op: Op) -> list[int]:
    """The number of vector axes of each operand."""
    return [vector_rank(v.type) for v in op.operands]


def in_lane_order(value: Array, rank: int) -> Array:
    """The last ``rank`` axes as one, row-major: ``[lanes of the vector]`` behind the leading axes."""
    leading = value.shape[: value.ndim - rank]
    return value.reshape(*leading, math.prod(value.shape[value.ndim - rank :]))


def as_declared(frame: Frame, op: Op, value: Array, result: int = 0) -> Array:
    """The value, whose last axes must have the extents that the type of the result promises.

    Dynamic extents can promise what the operands do not keep; that is a fault.
    """
    type_ = op.results[result].type
    extents = extents_of(frame, op, type_)
    actual = value.shape[value.ndim - len(extents) :]
    if actual != extents:
        raise frame.fault(
            FaultCode.FALSE_PREDICATE,
            op,
            f"'{op.name}' makes extents {list(actual)}, but its type {type_} has {list(extents)}",
            frame.first_active,
            value_name=str(op.results[result].name),
        )
    return value


def check_position(frame: Frame, op: Op, axis: int, index: Array, extent: int, size: int = 1) -> Array:
    """Indices (``()`` or ``[lanes]``) of ``size`` lanes of a vector axis, with 0 in inactive lanes that are outside.

    Raises a located diagnostic when an active lane is outside.
    """
    outside = (index < 0) | (index > extent - size)
    if not outside.any():
        return index
    lane = frame.offender(outside)
    if lane is not None:
        at = int(index if index.ndim == 0 else index[lane])
        raise frame.fault(
            FaultCode.OUT_OF_BOUNDS,
            op,
            f"'{op.name}': index {at} of axis {axis} is outside the extent {extent}",
            lane,
            dim_index=axis,
            offset=at,
            bound=extent,
        )
    return np.where(outside, 0, index)
