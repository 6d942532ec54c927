"""Atomics on single elements, and prefetches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loom.evaluate import accesses, atomics
from loom.evaluate.accesses import Located
from loom.evaluate.frame import Frame
from loom.evaluate.numeric.formats import Array
from loom.evaluate.races import Access
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue, View


def _place(frame: Frame, op: Any, view: View, operand: str) -> Located:
    """The element of each active lane, one by one even when lanes share it."""
    lanes = np.arange(frame.machine.lanes.count) if frame.active is None else frame.active
    positions = [p if p.ndim == 0 else p[lanes] for p in frame.indices(op.indices, op.static_indices)]
    return accesses.locate_elements(frame, op, view, getattr(op, operand).type, positions, lanes)


def _of_lanes(value: Array, place: Located) -> Array:
    """The value of each accessing lane."""
    return np.broadcast_to(value, place.lanes.shape) if value.ndim == 0 else value[place.lanes]


@evaluates("view.atomic.reduce")
def reduce(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Combines atomically."""
    place = _place(frame, op, operands[1], "target")
    atomics.combine(frame, op, place, op.kind, _of_lanes(operands[0], place))
    frame.machine.synchronization.note(op.ordering, op.scope)
    return ()


@evaluates("view.atomic.rmw")
def rmw(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Combines atomically and returns the old value."""
    place = _place(frame, op, operands[1], "target")
    old = atomics.combine(frame, op, place, op.kind, _of_lanes(operands[0], place))
    frame.machine.synchronization.note(op.ordering, op.scope)
    return (accesses.spread(frame, place.lanes, old),)


@evaluates("view.atomic.cmpxchg")
def cmpxchg(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Replaces the element if it has the expected bits; returns the old value."""
    place = _place(frame, op, operands[2], "target")
    old = atomics.compare_exchange(frame, op, place, *(_of_lanes(v, place) for v in operands[:2]))
    frame.machine.synchronization.note(op.success_ordering, op.scope)
    frame.machine.synchronization.note(op.failure_ordering, op.scope)
    return (accesses.spread(frame, place.lanes, old),)


@evaluates("view.atomic.load")
def load(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Reads the element atomically."""
    place = _place(frame, op, operands[0], "source")
    value = accesses.read(frame, op, place, Access.ATOMIC_READ)
    frame.machine.synchronization.note(op.ordering, op.scope)
    return (accesses.spread(frame, place.lanes, value),)


@evaluates("view.atomic.store")
def store(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Writes the element atomically; of lanes that share it the last one wins."""
    place = _place(frame, op, operands[1], "target")
    accesses.store(frame, op, place, _of_lanes(operands[0], place), Access.ATOMIC_WRITE)
    frame.machine.synchronization.note(op.ordering, op.scope)
    return ()


@evaluates("view.prefetch")
def prefetch(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A hint without meaning; it makes no access that could be wrong."""
    return ()
