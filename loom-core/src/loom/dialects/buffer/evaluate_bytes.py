"""Byte accesses of buffers without a view, and fences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
import numpy as np

from loom.evaluate import accesses
from loom.evaluate.accesses import Located
from loom.evaluate.faults import FaultCode
from loom.evaluate.frame import Frame
from loom.evaluate.numeric.formats import Array, to_bits
from loom.evaluate.rules import evaluates
from loom.evaluate.values import Buffer, RuntimeValue, View, format_of, integer, overlap
from loom.ir.core import Op
from loom.ir.types import I8, ShapedType

_BYTES: Final = ShapedType.get("view", (1,), I8)


@attrs.frozen(eq=False)
class Ranges:
    """Byte ranges of the active work-items, spelled out byte by byte.

    ``items`` are the work-items, ``holders`` that of each byte, and ``steps`` how many bytes of its range come before
    each.
    """

    items: Array
    holders: Array
    steps: Array

    @classmethod
    def of(cls, frame: Frame, op: Op, length: Array) -> Ranges:
        """Ranges of a length (``()`` or ``[lanes]``), which must not be negative."""
        items = np.arange(frame.machine.lanes.count) if frame.active is None else frame.active
        lengths = np.broadcast_to(length, items.shape) if length.ndim == 0 else length[items]
        if (lengths < 0).any():
            at = int(np.argmax(lengths < 0))
            raise frame.fault(
                FaultCode.OUT_OF_BOUNDS, op, f"'{op.name}': a length of {int(lengths[at])} bytes", int(items[at])
            )
        total = float(lengths.astype(np.float64).sum())
        # Each byte takes a few words for its place and checks.
        frame.machine.program.reserve(op, int(total) * 32)
        starts = np.cumsum(lengths) - lengths
        return cls(items, np.repeat(items, lengths), np.arange(int(total)) - np.repeat(starts, lengths))

    def locate(self, frame: Frame, op: Op, buffer: Buffer, offset: Array) -> Located:
        """The bytes of a buffer from an offset on."""
        view = View(buffer, integer(0), (buffer.length,), (integer(1),))
        start = offset if offset.ndim == 0 else offset[self.holders]
        return accesses.locate_elements(frame, op, view, _BYTES, [np.asarray(start + self.steps)], self.holders)


@evaluates("buffer.load.i8.u")
def load_byte(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """One byte, zero-extended."""
    ranges = Ranges.of(frame, op, integer(1))
    read = accesses.read(frame, op, ranges.locate(frame, op, *operands))
    return (accesses.spread(frame, ranges.items, read.view(np.uint8).astype(np.int32)),)


@evaluates("buffer.store.i8")
def store_byte(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Writes the low byte."""
    value, target, offset = operands
    ranges = Ranges.of(frame, op, integer(1))
    words = np.broadcast_to(value, (frame.machine.lanes.count,))[ranges.holders]
    accesses.store(frame, op, ranges.locate(frame, op, target, offset), words.astype(np.int8))
    return ()


@evaluates("buffer.copy")
def copy(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Copies bytes between ranges that do not overlap."""
    source, source_offset, target, target_offset, length = operands
    ranges = Ranges.of(frame, op, length)
    read = accesses.read(frame, op, ranges.locate(frame, op, source, source_offset))
    place = ranges.locate(frame, op, target, target_offset)
    windows = (
        attrs.evolve(buffer, base=np.asarray(buffer.base + offset), length=length)
        for buffer, offset in ((source, source_offset), (target, target_offset))
    )
    lane = frame.offender(overlap(*windows))
    if lane is not None:
        reason = "the ranges overlap"
        raise frame.fault(FaultCode.UNDEFINED_RESULT, op, f"'{op.name}': {reason}", lane, reason=reason)
    accesses.store(frame, op, place, read)
    return ()


@evaluates("buffer.fill")
def fill(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Repeats the little-endian bytes of a scalar."""
    pattern, target, offset, length = operands
    ranges = Ranges.of(frame, op, length)
    words = np.broadcast_to(to_bits(format_of(op.pattern.type), pattern), (frame.machine.lanes.count,))
    table = np.ascontiguousarray(words)[:, None].view(np.int8)
    values = table[ranges.holders, ranges.steps % table.shape[1]]
    accesses.store(frame, op, ranges.locate(frame, op, target, offset), values)
    return ()


@evaluates("buffer.compare")
def compare(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Compares unsigned bytes in order: -1, 0 or 1."""
    left, left_offset, right, right_offset, length = operands
    ranges = Ranges.of(frame, op, length)
    a, b = (
        accesses.read(frame, op, ranges.locate(frame, op, buffer, offset)).view(np.uint8).astype(np.int32)
        for buffer, offset in ((left, left_offset), (right, right_offset))
    )
    differ = np.flatnonzero(a != b)
    items, first = np.unique(ranges.holders[differ], return_index=True)
    order = np.zeros(frame.machine.lanes.count, dtype=np.int32)
    order[items] = np.sign(a - b)[differ[first]]
    return (order,)


@evaluates("buffer.fence")
def fence(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Orders the accesses of the executing work-items; atomics around it make the order hold between them."""
    frame.machine.synchronization.note(op.ordering, op.scope)
    return ()
