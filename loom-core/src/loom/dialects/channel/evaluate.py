"""What channel operations mean. Importing this module registers the rules of the dialect.

A wait lets the other strands of the pipeline run; when none can go on, that is a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loom.evaluate.accesses import memory_dtype
from loom.evaluate.channels import Channel, Record, Slots, copy_record, require_one_lane, wait_until
from loom.evaluate.faults import FaultCode, unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.layouts import strides_of
from loom.evaluate.rules import evaluates
from loom.evaluate.strands import Clock, Strand, join
from loom.evaluate.values import RuntimeValue, View, format_of
from loom.ir.core import Op, Value


def _strand(frame: Frame) -> Strand | None:
    strands = frame.machine.strands
    return strands.current if strands is not None else None


def _sent(frame: Frame) -> Clock:
    """What the strand knows, handed over."""
    strand = _strand(frame)
    return strand.send() if strand is not None else {}


def _view(frame: Frame, op: Op, record: Record, result: Value) -> View:
    """The record as the view that the operation promises, which has to place elements as the slots do."""
    view = record.view()
    type_: Any = result.type
    stated = strides_of(frame, op, type_, view.extents)
    for axis, (extent, a, b) in enumerate(zip(view.extents, stated, view.strides, strict=True)):
        if int(extent) > 1 and int(np.reshape(a, -1)[0]) != int(b):
            raise frame.fault(
                FaultCode.FALSE_PREDICATE,
                op,
                f"%{result.name or '?'} of type {type_} steps {int(np.reshape(a, -1)[0])} elements along axis {axis}, "
                f"but the slots of {record.channel.name} step {int(b)}",
                frame.first_active,
                value_name=result.name or "?",
            )
    return view


@evaluates("channel.bind")
def bind(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A channel of its own over the slots."""
    require_one_lane(frame, op)
    slots = Slots.of(frame, op, operands[0], memory_dtype(format_of(op.slots.type)).itemsize)
    capacity = frame.uniform(op, operands[1], "the capacity")
    room = min(capacity, slots.count)
    if room < 1:
        raise frame.fault(
            FaultCode.BAD_ARGUMENT,
            op,
            f"a channel of {slots.count} slots with a capacity of {capacity} never admits a record",
            frame.first_active,
        )
    return (Channel(f"%{op.result.name or '?'}", slots, room),)


@evaluates("channel.reserve")
def reserve(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The next record, once there is room for it."""
    channel: Channel = operands[0]
    wait_until(frame, op, channel.has_room, f"a free slot of {channel.name}")
    strand = _strand(frame)
    if strand is not None:
        strand.receive(channel.freed)
    record = channel.reserve()
    return record, _view(frame, op, record, op.results[1])


@evaluates("channel.publish")
def publish(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The record is there for its reader."""
    record: Record = operands[0]
    record.channel.publish(record, _sent(frame))
    return ()


@evaluates("channel.accept")
def accept(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The next record to be read, which may be still to come."""
    return (operands[0].accept(op.access == "mutable"),)


def _await(frame: Frame, op: Op, record: Record, result: Value) -> View:
    wait_until(frame, op, lambda: record.published, record.text)
    strand = _strand(frame)
    if strand is not None:
        strand.receive(record.clock)
    return _view(frame, op, record, result)


@evaluates("channel.wait")
def wait(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The view of the record, once it is published."""
    return (_await(frame, op, operands[0], op.results[0]),)


@evaluates("channel.acquire")
def acquire(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The next record, once it is published."""
    record = operands[0].accept(op.access == "mutable")
    return record, _await(frame, op, record, op.results[1])


@evaluates("channel.release")
def release(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """One reader less; the last one frees the slot."""
    record: Record = operands[0]
    record.channel.release(record, _sent(frame))
    return ()


@evaluates("channel.fanout")
def fanout(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The same record for several readers."""
    record: Record = operands[0]
    record.readers += len(op.results) - 1
    return [record] * len(op.results)


@evaluates("channel.copy")
def copy(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A transport copies the record when it is published; the strand does not wait for it."""
    source, target = operands
    strands = frame.machine.strands
    clock = _sent(frame)

    def transport() -> None:
        join(clock, source.clock)
        copy_record(source, target)
        target.channel.publish(target, clock)
        source.channel.release(source, clock)

    if strands is not None:
        strands.defer(op, lambda: source.published, transport, source.text)
    else:
        wait_until(frame, op, lambda: source.published, source.text)
        transport()
    return ()


@evaluates("channel.select")
def select(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Refused: nothing makes the channel of a group of producers."""
    raise unsupported(op, f"'{op.name}' needs a channel with a group of producers, which no operation makes")
