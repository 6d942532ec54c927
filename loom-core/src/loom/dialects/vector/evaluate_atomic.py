"""Atomics on the lanes of vectors: one after the other in lane order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loom.dialects.vector.evaluate_enabled import at_offsets, by_name
from loom.evaluate import atomics
from loom.evaluate.frame import Frame
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue


@evaluates("vector.atomic.reduce", "vector.atomic.reduce.mask", "vector.atomic.rmw", "vector.atomic.rmw.mask")
def combine(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Combines each enabled lane with the element at its offset; a result holds the old values."""
    given = by_name(op, operands)
    enabled, place = at_offsets(frame, op, op.value.type, "target", given)
    old = atomics.combine(frame, op, place, op.kind, enabled.take(given["value"]))
    frame.machine.synchronization.note(op.ordering, op.scope)
    if not op.results:
        return ()
    return (enabled.put(old, given["passthrough"]) if "passthrough" in given else enabled.put_alone(old),)


@evaluates("vector.atomic.cmpxchg")
def compare_exchange(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Replaces the element of each lane if it has the expected bits; returns the old values."""
    given = by_name(op, operands)
    enabled, place = at_offsets(frame, op, op.value.type, "target", given)
    old = atomics.compare_exchange(frame, op, place, enabled.take(given["expected"]), enabled.take(given["value"]))
    frame.machine.synchronization.note(op.success_ordering, op.scope)
    frame.machine.synchronization.note(op.failure_ordering, op.scope)
    return (enabled.put_alone(old),)
