"""Channels at run time: which records are in flight, who has them, and where they lie.

A record has a number, counted from 0 in the order in which records are reserved; it lies in slot ``number % slots``.
Reading takes numbers in the same order, whether the record exists already or not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import numpy as np

from loom.evaluate.faults import FaultCode, fault, unsupported
from loom.evaluate.numeric.formats import Array
from loom.evaluate.storage import Storage
from loom.evaluate.strands import Clock, join
from loom.evaluate.values import Buffer, View, integer
from loom.ir.core import Op

if TYPE_CHECKING:
    from loom.evaluate.frame import Frame


@attrs.frozen(eq=False)
class Slots:
    """Where records lie: the first axis of the extents counts slots, the rest are the record.

    ``origin`` is the byte of the first element in the storage, ``element`` the size of one; strides are in elements.
    """

    storage: Storage
    origin: int
    element: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, frame: Frame, op: Op, view: View, element: int) -> Slots:
        """The slots of a view. Raises a located diagnostic when they lie outside their buffer or share bytes."""
        lane = frame.first_active

        def one(array: Array) -> int:
            return int(array if array.ndim == 0 else array[lane])

        buffer = view.buffer
        storage = buffer.storages[0 if buffer.which is None else one(buffer.which)]
        extents, strides = tuple(map(one, view.extents)), tuple(map(one, view.strides))
        origin, length = one(view.origin), one(buffer.length)
        places = _offsets(extents, strides)
        if places.size:
            first, last = origin + int(places.min()) * element, origin + (int(places.max()) + 1) * element
            if first < 0 or last > length:
                raise frame.fault(
                    FaultCode.OUT_OF_BOUNDS,
                    op,
                    f"the slots take bytes {first} to {last - 1} of a buffer of {length} bytes",
                    lane,
                    address=first if first < 0 else last,
                    bound=length,
                )
            if np.unique(places).size != places.size:
                raise frame.fault(FaultCode.BAD_ARGUMENT, op, "elements of the slots share bytes", lane)
        return cls(storage, one(buffer.base) + origin, element, extents, strides)

    @property
    def count(self) -> int:
        """How many records there is room for."""
        return self.extents[0]

    def of_record(self) -> Array:
        """The place of each element of a record, in elements from its first (``int64[count]``, row-major)."""
        return _offsets(self.extents[1:], self.strides[1:])

    def bytes_of(self, slot: int) -> tuple[Storage, int]:
        """Storage of its own over the bytes of a slot, with nothing written, and where its first element is in it."""
        places = self.of_record()
        start = self.origin + slot * self.strides[0] * self.element
        low, high = (int(places.min()), int(places.max()) + 1) if places.size else (0, 0)
        begin, end = start + low * self.element, start + high * self.element
        whole = self.storage
        return Storage(whole.space, whole.data[begin:end], address=whole.address + begin, fresh=True), start - begin


def _offsets(extents: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    places: Array = np.zeros(1, dtype=np.int64)
    for extent, stride in zip(extents, strides, strict=True):
        places = (places[:, None] + np.arange(extent, dtype=np.int64) * stride).reshape(-1)
    return places


class Record:
    """One record from the time when it is reserved or accepted, whichever is first, until all are done with it.

    ``storage`` are its bytes, ``origin`` where its first element is in them; both are there once it is reserved.
    ``clock`` is what its writer knew when it was published. ``readers`` counts those who still have to release it.
    """

    __slots__ = ("accepted", "channel", "clock", "mutable", "number", "origin", "published", "readers", "storage")

    storage: Storage
    origin: int

    def __init__(self, channel: Channel, number: int) -> None:
        self.channel = channel
        self.number = number
        self.published = False
        self.accepted = False
        self.mutable = False
        self.readers = 0
        self.clock: Clock = {}

    @property
    def text(self) -> str:
        """What messages call the record."""
        return f"record {self.number} of {self.channel.name}"

    def view(self) -> View:
        """The elements of the record."""
        slots = self.channel.slots
        buffer = Buffer((self.storage,), integer(0), integer(self.storage.data.size))
        return View(
            buffer,
            integer(self.origin),
            tuple(map(integer, slots.extents[1:])),
            tuple(map(integer, slots.strides[1:])),
        )

    def lend(self, why_ended: str) -> None:
        """Give the bytes to new storage, so that views of before are of no use any more."""
        old, data = self.storage, self.storage.data
        old.ended = why_ended
        if self.accepted and not self.mutable:
            data = data.view()
            data.flags.writeable = False
        self.storage = Storage(old.space, data, address=old.address)
        self.storage.written = old.written


class Channel:
    """Records over slots; ``room`` is how many are admitted at a time."""

    def __init__(self, name: str, slots: Slots, room: int) -> None:
        self.name = name
        self.slots = slots
        # What those knew who released records: whoever gets a slot after them does so behind them.
        self.freed: Clock = {}
        self._room = room
        self._live: dict[int, Record] = {}
        self._reserved = 0
        self._accepted = 0
        self._admitted = 0

    def has_room(self) -> bool:
        """Whether the next record can be reserved: few enough are admitted, and its slot is free."""
        return self._admitted < self._room and self._reserved - self.slots.count not in self._live

    def reserve(self) -> Record:
        """The next record, its bytes not written yet. There must be room."""
        record = self._record(self._reserved)
        self._reserved += 1
        self._admitted += 1
        record.storage, record.origin = self.slots.bytes_of(record.number % self.slots.count)
        return record

    def publish(self, record: Record, clock: Clock) -> None:
        """Hand a record to its reader, with what its writer knows."""
        record.published = True
        record.clock = clock
        whole, written = self.slots.storage, record.storage.written
        if whole.written is not None and written is not None:
            start = record.storage.address - whole.address
            whole.written[start : start + written.size] |= written
        record.lend(f"{record.text}, which is published")
        self._finish(record)

    def accept(self, mutable: bool) -> Record:
        """The next record to read."""
        record = self._record(self._accepted)
        self._accepted += 1
        record.accepted, record.mutable, record.readers = True, mutable, 1
        if record.published:
            record.lend("")
        return record

    def release(self, record: Record, clock: Clock) -> None:
        """One reader is done with a record; what it knows, those know who reserve behind it."""
        record.readers -= 1
        join(self.freed, clock)
        self._finish(record)

    def _finish(self, record: Record) -> None:
        """Free the slot of a record that is published and released by all."""
        if record.published and record.accepted and record.readers == 0:
            record.storage.ended = f"{record.text}, which is released"
            del self._live[record.number]
            self._admitted -= 1

    def _record(self, number: int) -> Record:
        found = self._live.get(number)
        if found is None:
            found = self._live[number] = Record(self, number)
        return found


def copy_record(source: Record, target: Record) -> None:
    """Move the elements of a published record, with what is known of their bytes, into one that is being written."""
    take, put = (
        (record.channel.slots.of_record() * record.channel.slots.element + record.origin)[:, None]
        + np.arange(record.channel.slots.element)
        for record in (source, target)
    )
    target.storage.data[put] = source.storage.data[take]
    known, marks = source.storage.written, target.storage.written
    if marks is not None:
        marks[put] = True if known is None else known[take]


def wait_until(frame: Frame, op: Op, ready: Callable[[], bool], what: str) -> None:
    """Let other strands run until the condition holds. In a host function, which has none beside it, it must hold."""
    machine = frame.machine
    machine.program.step(op)
    if machine.strands is not None:
        machine.strands.wait(op, ready, what)
    elif not ready():
        raise fault(FaultCode.DEADLOCK, op, f"nothing can go on: the function waits for {what}", waiting=1)


def require_one_lane(frame: Frame, op: Op) -> None:
    """Channels belong to pipelines and host code, not to dispatches of work-items."""
    if frame.machine.lanes.geometry is not None:
        raise unsupported(op, f"'{op.name}' in a kernel: channels connect strands of a pipeline")
