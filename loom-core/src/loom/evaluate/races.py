"""Finding data races: conflicting plain accesses by different work-items that nothing orders.

Two accesses conflict when they touch one byte, at least one writes, and different work-items make them. Barriers
order them: within a workgroup all accesses before a barrier precede all accesses after it. Work-items of
different workgroups are never ordered by barriers.

For every granule (the widest unit that all accesses so far respect) three slots are kept: the last writer and
two readers. They suffice to find a conflict if there is one: of the readers since the last write only those count
that are in the latest epoch of a workgroup or in different workgroups, and two representatives differ from any
writer exactly when some reader does.

A slot packs ``work-item << 32 | workgroup barriers << 12 | subgroup barriers``; -1 is empty. The barrier counts
wrap, so accesses exactly 2^20 workgroup barriers apart could be taken for concurrent ones.
"""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt

Slots = npt.NDArray[np.int64]
EMPTY = -1
_ITEM = 32
_EPOCH = 12
_EPOCH_MASK = (1 << 20) - 1
_SUBGROUP_MASK = (1 << 12) - 1


@attrs.frozen
class Race:
    """Two unordered accesses: the position of the later one among the accesses given, and the other work-item."""

    position: int
    other_item: int
    other_wrote: bool


class Clock:
    """Barriers that each lane of a batch has passed, per memory space that barriers name."""

    def __init__(self, items: npt.NDArray[np.int64]) -> None:
        self._items = items
        self._workgroup = np.zeros(items.size, dtype=np.int64)
        self._subgroup = np.zeros(items.size, dtype=np.int64)
        self.stamp: Slots = items << _ITEM

    def advance(self, lanes: npt.NDArray[np.intp], scope: str) -> None:
        """The lanes passed a barrier of the scope (``workgroup`` or ``subgroup``)."""
        if scope == "workgroup":
            self._workgroup[lanes] += 1
            self._subgroup[lanes] = 0
        else:
            self._subgroup[lanes] += 1
        self.stamp = self._items << _ITEM | (self._workgroup & _EPOCH_MASK) << _EPOCH | self._subgroup & _SUBGROUP_MASK


class RaceDetector:
    """The shadow of one storage during one dispatch.

    ``group_items`` is the number of work-items of a workgroup, ``subgroup_items`` of a subgroup (or ``None``).
    """

    def __init__(self, size: int, group_items: int, subgroup_items: int | None) -> None:
        self._size = size
        self._group_items = group_items
        self._subgroup_items = subgroup_items
        self._granule = 0
        self._writer: Slots = np.empty(0, dtype=np.int64)
        self._first: Slots | None = None
        self._second: Slots | None = None

    def read(self, addresses: npt.NDArray[np.int64], size: int, stamps: Slots) -> Race | None:
        """Note reads of ``size`` bytes at byte offsets by the stamped work-items (arrays of one length)."""
        granules, stamps, positions = self._granules(addresses, size, stamps)
        race = self._conflict(self._writer[granules], stamps, positions, other_wrote=True)
        if race is None:
            self._note_readers(granules, stamps)
        return race

    def write(self, addresses: npt.NDArray[np.int64], size: int, stamps: Slots) -> Race | None:
        """Note writes; see :meth:`read`. Two writes of one call to one granule conflict as well."""
        granules, stamps, positions = self._granules(addresses, size, stamps)
        race = self._conflict(self._writer[granules], stamps, positions, other_wrote=True)
        for slots in (self._first, self._second):
            if race is None and slots is not None:
                race = self._conflict(slots[granules], stamps, positions, other_wrote=False)
        if race is None:
            self._writer[granules] = stamps
            race = self._conflict(self._writer[granules], stamps, positions, other_wrote=True)
        return race

    def _conflict(self, other: Slots, mine: Slots, positions: npt.NDArray[np.intp], other_wrote: bool) -> Race | None:
        differ = np.flatnonzero((other != EMPTY) & ((other ^ mine) >> _ITEM != 0))
        if differ.size == 0:
            return None
        unordered = ~self._ordered(other[differ], mine[differ])
        if not unordered.any():
            return None
        at = int(differ[np.argmax(unordered)])
        return Race(int(positions[at]), int(other[at] >> _ITEM), other_wrote)

    def _ordered(self, a: Slots, b: Slots) -> npt.NDArray[np.bool_]:
        """Whether a barrier separates the accesses of two work-items."""
        differ = a ^ b
        ordered = (differ >> _EPOCH) & _EPOCH_MASK != 0
        if self._subgroup_items is not None:
            ordered |= self._same_subgroup(a, b) & (differ & _SUBGROUP_MASK != 0)
        return np.asarray(self._same_group(a, b) & ordered)

    def _note_readers(self, granules: npt.NDArray[np.int64], stamps: Slots) -> None:
        if self._first is None or self._second is None:
            self._first = np.full(self._writer.size, EMPTY, dtype=np.int64)
            self._second = np.full(self._writer.size, EMPTY, dtype=np.int64)
        # A reader takes the first slot when that is empty, its own, or ordered before it: whatever the ordered
        # reader could conflict with in the same scope, the new one conflicts with too.
        first = self._first[granules]
        take = (first == EMPTY) | ((first ^ stamps) >> _ITEM == 0)
        rest = np.flatnonzero(~take)
        if rest.size:
            take[rest] = self._ordered(first[rest], stamps[rest])
        self._first[granules[take]] = stamps[take]
        first = self._first[granules]
        others = np.flatnonzero((first ^ stamps) >> _ITEM)
        if others.size == 0:
            return
        granules, stamps, first = granules[others], stamps[others], first[others]
        second = self._second[granules]
        held = np.where((second == EMPTY) | self._ordered(second, first), 0, self._distance(first, second))
        distance = self._distance(first, stamps)
        # Lanes of one call may share a granule; assigning by growing distance lets the farthest one stay.
        for level in (1, 2, 3):
            put = (distance == level) & (held <= level)
            self._second[granules[put]] = stamps[put]

    def _distance(self, a: Slots, b: Slots) -> npt.NDArray[np.int64]:
        """How far apart two work-items are: 1 in a subgroup, 2 in a workgroup, 3 in different workgroups.

        The second slot keeps the reader that is farthest from the first: the fewest barriers order that one.
        """
        if self._subgroup_items is None:
            return np.where(self._same_group(a, b), 2, 3)
        near = np.where(self._same_subgroup(a, b), 1, 2)
        return np.where(self._same_group(a, b), near, 3)

    def _same_subgroup(self, a: Slots, b: Slots) -> npt.NDArray[np.bool_]:
        assert self._subgroup_items is not None
        local_a, local_b = (a >> _ITEM) % self._group_items, (b >> _ITEM) % self._group_items
        return np.asarray(local_a // self._subgroup_items == local_b // self._subgroup_items)

    def _same_group(self, a: Slots, b: Slots) -> npt.NDArray[np.bool_]:
        return np.asarray((a >> _ITEM) // self._group_items == (b >> _ITEM) // self._group_items)

    def _granules(
        self, addresses: npt.NDArray[np.int64], size: int, stamps: Slots
    ) -> tuple[npt.NDArray[np.int64], Slots, npt.NDArray[np.intp]]:
        """Split accesses into granules; also returns the stamp and the position of the access of each."""
        # The largest power of two that divides every address and the size.
        bits = int(np.bitwise_or.reduce(addresses, axis=None)) | size
        unit = min(bits & -bits, size)
        if self._granule == 0:
            self._granule = unit
            self._writer = np.full(-(-self._size // unit), EMPTY, dtype=np.int64)
        elif unit < self._granule:
            self._refine(self._granule // unit)
            self._granule = unit
        count = size // self._granule
        positions = np.arange(addresses.size)
        granules = addresses // self._granule
        if count == 1:
            return granules, stamps, positions
        spread = (granules[:, None] + np.arange(count)).reshape(-1)
        return spread, np.repeat(stamps, count), np.repeat(positions, count)

    def _refine(self, factor: int) -> None:
        self._writer = np.repeat(self._writer, factor)
        if self._first is not None and self._second is not None:
            self._first, self._second = np.repeat(self._first, factor), np.repeat(self._second, factor)
