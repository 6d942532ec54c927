"""Element accesses through views: addresses of all lanes at once, with every check of the language.

An access is judged in the order extent, buffer, alignment, initialization, race; the first offending lane is
reported. Only active lanes are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from loom.evaluate.faults import FaultCode
from loom.evaluate.numeric.formats import I1, Array, ScalarFormat
from loom.evaluate.races import Access, Race
from loom.evaluate.storage import Storage
from loom.evaluate.values import Buffer, View, format_of
from loom.ir.core import Op
from loom.ir.diagnostics import Related, SourceLocation
from loom.ir.types import ShapedType, Type

if TYPE_CHECKING:
    from loom.evaluate.frame import Frame

Addresses = npt.NDArray[np.int64]

# Byte offsets beyond this cannot belong to any storage, and sums of offsets below it do not overflow.
_REACH = float(1 << 61)


@attrs.frozen(eq=False)
class Located:
    """Where the elements of one operation lie.

    ``addresses`` are byte offsets in the storage, of shape ``[*extents]`` when all lanes access the same elements
    (``shared``) or ``[active, *extents]``. ``lanes`` are the accessing lanes in order, ``rank`` counts the vector
    axes.
    """

    buffer: Buffer
    addresses: Addresses
    lanes: Array
    shared: bool
    rank: int
    format: ScalarFormat


def locate(
    frame: Frame, op: Op, view: View, view_type: Type, indices: Sequence[Array], footprint: tuple[int, ...] = ()
) -> Located:
    """Find the elements that the active lanes access, and check extents, buffer range and alignment.

    ``indices`` hold one index per view axis (``int64``, ``()`` or ``[lanes]``). ``footprint`` are the extents of a
    vector access; its axes cover the trailing view axes.
    """
    assert isinstance(view_type, ShapedType)
    format = format_of(view_type)
    rank = len(footprint)
    active = frame.active
    lanes = np.arange(frame.machine.lanes.count) if active is None else active
    buffer = view.buffer
    arrays = (*indices, *view.extents, *view.strides, view.origin, buffer.base, buffer.length)
    shared = buffer.which is None and all(a.ndim == 0 for a in arrays)

    def taken(array: Array) -> Array:
        """The active lanes of an array, with room for the vector axes."""
        if array.ndim == 0:
            return array
        if active is not None:
            array = array[active]
        return array.reshape(array.shape + (1,) * rank)

    positions = [taken(index) for index in indices]
    leading = len(view.extents) - rank
    for axis, extent in enumerate(footprint):
        steps = np.arange(extent, dtype=np.int64)
        positions[leading + axis] = positions[leading + axis] + steps.reshape(steps.shape + (1,) * (rank - 1 - axis))
    shape = tuple(footprint) if shared else (lanes.size, *footprint)
    nowhere = Located(buffer, np.zeros(shape, dtype=np.int64), lanes, shared, rank, format)
    return _place_elements(frame, op, view, view_type, positions, taken, nowhere)


def locate_elements(
    frame: Frame, op: Op, view: View, view_type: Type, positions: Sequence[Array], lanes: Array
) -> Located:
    """Find single elements, one for each entry of ``lanes`` (the lane that accesses it), with the same checks.

    ``positions`` hold one index per view axis (``int64``, ``()`` or as long as ``lanes``).
    """
    assert isinstance(view_type, ShapedType)
    nowhere = Located(view.buffer, np.zeros(lanes.size, dtype=np.int64), lanes, False, 0, format_of(view_type))
    return _place_elements(
        frame, op, view, view_type, positions, lambda array: array if array.ndim == 0 else array[lanes], nowhere
    )


def _place_elements(
    frame: Frame,
    op: Op,
    view: View,
    view_type: ShapedType,
    positions: Sequence[Array],
    taken: Callable[[Array], Array],
    nowhere: Located,
) -> Located:
    """``nowhere`` with addresses: the positions by the view's strides, checked. ``taken`` picks the lanes of arrays."""
    if nowhere.addresses.size == 0:
        # An empty vector touches no memory, so nothing about its place can be wrong.
        return nowhere
    lanes, rank, buffer, size = nowhere.lanes, nowhere.rank, nowhere.buffer, nowhere.format.dtype.itemsize
    offset: Any = np.zeros((), dtype=np.int64)
    # Sums of products may leave 64 bits only in views that span more than any storage does.
    estimate: Any = None if _spans_little(view, size) else np.zeros((), dtype=np.float64)
    with np.errstate(over="ignore"):
        for axis, (position, extent, stride) in enumerate(zip(positions, view.extents, view.strides, strict=True)):
            limit = taken(extent)
            outside = (position < 0) | (position >= limit)
            if outside.any():
                raise _outside_extent(frame, op, axis, position, limit, outside, lanes, rank)
            step = taken(stride)
            offset = offset + position * step
            if estimate is not None:
                estimate = estimate + position.astype(np.float64) * step
        start = taken(view.origin)
        addresses = start + offset * size
        length = taken(buffer.length)
        outside = (addresses < 0) | (addresses + size > length)
        if estimate is not None:
            estimate = estimate * size + start
            outside = outside | (estimate > _REACH)
    if np.any(outside):
        raise _outside_buffer(frame, op, addresses, estimate, size, length, outside, lanes, rank)
    addresses = addresses + taken(buffer.base)
    if addresses.shape != nowhere.addresses.shape:
        addresses = np.broadcast_to(addresses, nowhere.addresses.shape)
    located = attrs.evolve(nowhere, addresses=addresses)
    _check_alignment(frame, op, located, view_type.access_alignment)
    return located


def _spans_little(view: View, size: int) -> bool:
    """Whether byte offsets of all elements are far below the range of 64-bit arithmetic."""
    if any(a.ndim for a in (view.origin, *view.extents, *view.strides)):
        return False
    span = sum((int(e) - 1) * int(s) for e, s in zip(view.extents, view.strides, strict=True))
    return int(view.origin) + abs(span) * size < _REACH


def from_memory(format: ScalarFormat, raw: Array) -> Array:
    """Values from stored elements; an ``i1`` is the low bit of a byte."""
    return np.asarray(raw & np.uint8(1) != 0) if format is I1 else raw


def to_memory(format: ScalarFormat, values: Array) -> Array:
    """Elements to store for values; see :func:`from_memory`."""
    return values.astype(np.uint8) if format is I1 else values


def read(frame: Frame, op: Op, located: Located, access: Access = Access.READ) -> Array:
    """The elements, in the shape of the addresses."""
    format = located.format
    values = np.zeros(located.addresses.shape, dtype=memory_dtype(format))
    for storage, picked in parts(frame, located):
        addresses = located.addresses if picked is None else located.addresses[picked]
        lanes = located.lanes if picked is None else located.lanes[picked]
        check_written(frame, op, storage, addresses, lanes, located)
        watch(frame, op, storage, addresses, lanes, located, access)
        found = storage.load(addresses, values.dtype)
        if picked is None:
            values = found
        else:
            values[picked] = found
    return from_memory(format, values)


def load(frame: Frame, op: Op, located: Located) -> Array:
    """The elements, in the shape of a value: ``[*extents]`` or ``[lanes, *extents]``."""
    stored = read(frame, op, located)
    if located.shared or located.lanes.size == frame.machine.lanes.count:
        return stored
    return spread(frame, located.lanes, stored)


def spread(frame: Frame, lanes: Array, values: Array) -> Array:
    """Values of some lanes (``[len(lanes), ...]``) as values of all lanes, zero in the others."""
    result = np.zeros((frame.machine.lanes.count, *values.shape[1:]), dtype=values.dtype)
    result[lanes] = values
    return result


def store(frame: Frame, op: Op, located: Located, value: Array, access: Access = Access.WRITE) -> None:
    """Write a value (``[*extents]`` or ``[lanes, *extents]``) to the elements.

    For elements located one by one the value holds one entry for each.
    """
    if value.ndim > located.rank and located.lanes.size != value.shape[0]:
        value = value[located.lanes]
    value = to_memory(located.format, value)
    for storage, picked in parts(frame, located):
        addresses = located.addresses if picked is None else located.addresses[picked]
        lanes = located.lanes if picked is None else located.lanes[picked]
        check_writable(frame, op, storage, lanes)
        watch(frame, op, storage, addresses, lanes, located, access)
        # Without a race detector a shared address means a single lane, whose value is the one to store.
        values = np.broadcast_to(
            value[-1] if located.shared and value.ndim > located.rank else value, located.addresses.shape
        )
        storage.store(addresses, values if picked is None else values[picked])


def memory_dtype(format: ScalarFormat) -> np.dtype[Any]:
    """How an element lies in memory."""
    return np.dtype(np.uint8) if format is I1 else format.dtype


def check_written(frame: Frame, op: Op, storage: Storage, addresses: Addresses, lanes: Array, located: Located) -> None:
    """Fault when a lane reads bytes of scratch that nothing has written."""
    missing = storage.unwritten(addresses, memory_dtype(located.format).itemsize)
    if missing is not None:
        lane, at = _first(missing, lanes, located.rank, located.shared)
        raise frame.fault(
            FaultCode.UNINITIALIZED,
            op,
            f"'{op.name}' reads byte {_place(addresses, at)} of {storage.space} scratch, which was never written",
            lane,
            address=_place(addresses, at),
        )


def check_writable(frame: Frame, op: Op, storage: Storage, lanes: Array) -> None:
    """Fault when the storage may only be read."""
    if not storage.data.flags.writeable:
        raise frame.fault(FaultCode.BAD_ARGUMENT, op, "the storage is read-only", int(lanes[0]))


def parts(frame: Frame, located: Located) -> list[tuple[Storage, Array | None]]:
    """The storages accessed, each with the positions of the accesses to it (``None``: all)."""
    buffer = located.buffer
    if located.addresses.size == 0:
        return []
    if buffer.which is None:
        return [(buffer.storages[0], None)]
    which = buffer.which[located.lanes]
    return [(storage, np.flatnonzero(which == i)) for i, storage in enumerate(buffer.storages) if (which == i).any()]


def _check_alignment(frame: Frame, op: Op, located: Located, alignment: int) -> None:
    if alignment == 1:
        return
    for storage, picked in parts(frame, located):
        addresses = located.addresses if picked is None else located.addresses[picked]
        lanes = located.lanes if picked is None else located.lanes[picked]
        bad = (addresses + storage.address) % alignment != 0
        if bad.any():
            lane, at = _first(bad, lanes, located.rank, located.shared)
            raise frame.fault(
                FaultCode.MISALIGNED,
                op,
                f"'{op.name}' of {located.format.name} needs alignment {alignment}, but byte "
                f"{_place(addresses, at)} of the storage does not have it",
                lane,
                address=_place(addresses, at),
                alignment=alignment,
            )


def watch(
    frame: Frame, op: Op, storage: Storage, addresses: Addresses, lanes: Array, located: Located, access: Access
) -> None:
    """Tell the race detector of the storage, if it has one, about an access; faults on a conflict that it finds."""
    if storage.ended:
        raise frame.fault(FaultCode.ENDED_LOAN, op, f"'{op.name}' {access.value} {storage.ended}", int(lanes[0]))
    if storage.races is None:
        return
    clock = frame.machine.clocks["workgroup" if storage.space == "workgroup" else "global"]
    if located.shared:
        # All lanes access the same elements: the first and the last stand for all, being the farthest apart.
        lanes = lanes[[0, -1]] if lanes.size > 1 else lanes
        addresses = np.broadcast_to(addresses, (lanes.size, *addresses.shape))
    per_lane = addresses.size // lanes.size
    who = lanes if per_lane == 1 else np.repeat(lanes, per_lane)
    flat = addresses.reshape(-1)
    if storage.transfers:
        _check_transfers(frame, op, storage, flat, who, located, access)
    site = frame.machine.program.site(op)
    given = op.attribute("scope") if "scope" in op.spec.attribute_index else None
    scope = str(given) if given is not None else "system"
    for stamps in clock.stamps(who):
        race = storage.races.note(access, flat, located.format.dtype.itemsize, stamps, site, scope)
        if race is not None:
            address, lane = int(flat[race.position]), int(who[race.position])
            raise _racing(frame, op, storage, access, address, lane, race)


# What an access may meet of a pending transfer, by the transfer's own access, and the fault that this is.
_PENDING: Final = {
    Access.READ: ((Access.WRITE, FaultCode.PENDING_READ, "is still to be written"),),
    Access.WRITE: (
        (Access.WRITE, FaultCode.PENDING_WRITE, "is still to be written"),
        (Access.READ, FaultCode.DATA_RACE, "may still be read"),
    ),
}
_PENDING_OF: Final = {Access.ATOMIC_READ: Access.READ, Access.ATOMIC_WRITE: Access.WRITE}


def _check_transfers(
    frame: Frame, op: Op, storage: Storage, flat: Addresses, who: Array, located: Located, access: Access
) -> None:
    """Fault when an access meets bytes that a pending transfer may still access itself."""
    size = memory_dtype(located.format).itemsize
    for other, code, what in _PENDING[_PENDING_OF.get(access, access)]:
        marks = storage.transfers.get(other.value)
        if marks is None:
            continue
        numbers = marks[flat[:, None] + np.arange(size)].max(axis=1)
        if numbers.any():
            at = int(np.argmax(numbers > 0))
            transfer = frame.machine.stream.transfers[int(numbers[at]) - 1].op
            if code is FaultCode.PENDING_WRITE and op.name.startswith("kernel.async."):
                code = FaultCode.PENDING_OVERLAP
            raise frame.fault(
                code,
                op,
                f"'{op.name}' {access.value} byte {int(flat[at])}, which {what} by a pending transfer",
                int(who[at]),
                related=(Related(f"the transfer: '{transfer.name}'", transfer.loc),),
                address=int(flat[at]),
            )


def _racing(
    frame: Frame, op: Op, storage: Storage, access: Access, address: int, lane: int, race: Race
) -> Exception:
    other = frame.machine.lanes.describe_item(race.other_item)
    first = frame.machine.program.sites[race.other_site]
    place = SourceLocation.of(first.loc) if first is not op else None
    where = f" at {place}" if place is not None else ""
    if {access, race.other} <= {Access.ATOMIC_READ, Access.ATOMIC_WRITE}:
        why = "in a scope that does not hold both"
    else:
        why = f"without {'a barrier' if frame.machine.strands is None else 'a record'} between them"
    return frame.fault(
        FaultCode.DATA_RACE,
        op,
        f"data race: '{op.name}' {access.value} byte {address}, which {other} {race.other.value}{where} {why}",
        lane,
        related=(Related(f"the other access: '{first.name}' by {other}", first.loc),),
        address=address,
        other_workitem=other,
        other_op=first.name,
        memory=storage.space,
    )


def _first(bad: Array, lanes: Array, rank: int, shared: bool) -> tuple[int, tuple[int, ...]]:
    """The first offending lane and the position of its first offending element."""
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape)) if bad.ndim else ()
    return int(lanes[0] if shared or bad.ndim <= rank else lanes[at[0]]), at


def _place(addresses: Addresses, at: tuple[int, ...]) -> int:
    return int(addresses[at])


def _at(array: Array, at: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(array, shape)[at]


def _outside_extent(
    frame: Frame, op: Op, axis: int, position: Array, limit: Array, outside: Array, lanes: Array, rank: int
) -> Exception:
    lane, at = _first(outside, lanes, rank, shared=False)
    index, extent = int(_at(position, at, outside.shape)), int(_at(limit, at, outside.shape))
    return frame.fault(
        FaultCode.OUT_OF_BOUNDS,
        op,
        f"'{op.name}': index {index} of axis {axis} is outside the extent {extent}",
        lane,
        dim_index=axis,
        offset=index,
        bound=extent,
    )


def _outside_buffer(
    frame: Frame,
    op: Op,
    addresses: Array,
    estimate: Array,
    size: int,
    length: Array,
    outside: Array,
    lanes: Array,
    rank: int,
) -> Exception:
    lane, at = _first(outside, lanes, rank, shared=False)
    byte = int(_at(addresses, at, outside.shape))
    far = 0.0 if estimate is None else float(_at(estimate, at, outside.shape))
    extent = int(_at(length, at, outside.shape))
    where = f"bytes {byte} to {byte + size - 1}" if far <= _REACH else f"bytes around {far:.3g}"
    return frame.fault(
        FaultCode.OUT_OF_BOUNDS,
        op,
        f"'{op.name}': {where} are outside the buffer of {extent} bytes",
        lane,
        address=byte,
        bound=extent,
    )
