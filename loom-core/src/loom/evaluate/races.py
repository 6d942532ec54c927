"""Finding data races: conflicting accesses by different work-items that nothing orders.

Two accesses conflict when they touch one byte, different work-items make them, at least one writes and not both are
atomic in a scope that holds both work-items. Barriers order them: within a workgroup all accesses before a barrier
precede all accesses after it. Work-items of different workgroups are never ordered by barriers.

For every granule (the widest unit that all accesses so far respect) a few slots are kept: the last plain writer,
and two accesses of each other kind. They suffice to find a conflict if there is one: of the readers since the last
write only those count that are in the latest epoch of a workgroup or in different workgroups, and two
representatives differ from any writer exactly when some reader does. The same holds of atomic accesses.

A slot packs ``work-item << 32 | workgroup barriers << 12 | subgroup barriers``; -1 is empty. The barrier counts
wrap, so accesses exactly 2^20 workgroup barriers apart could be taken for concurrent ones. Beside each slot stands
the site of its access: the number of the operation that made it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt

Slots = npt.NDArray[np.int64]
EMPTY = -1
_ITEM = 32
_EPOCH = 12
_EPOCH_MASK = (1 << 20) - 1
_SUBGROUP_MASK = (1 << 12) - 1


class Access(enum.Enum):
    """How work-items access bytes; the value is the verb in messages."""

    READ = "reads"
    WRITE = "writes"
    ATOMIC_READ = "reads atomically"
    ATOMIC_WRITE = "changes atomically"


#: The earlier accesses that an access conflicts with, whatever the scopes of atomic ones.
CONFLICTS: Final[Mapping[Access, tuple[Access, ...]]] = {
    Access.READ: (Access.WRITE, Access.ATOMIC_WRITE),
    Access.WRITE: (Access.WRITE, Access.READ, Access.ATOMIC_READ, Access.ATOMIC_WRITE),
    Access.ATOMIC_READ: (Access.WRITE,),
    Access.ATOMIC_WRITE: (Access.WRITE, Access.READ),
}


# How far apart two work-items may be for an atomic access of a scope to be atomic to the other (see `_distance`).
_REACH: Final[Mapping[str, int]] = {"thread": 0, "subgroup": 1, "workgroup": 2, "device": 3, "system": 3}
_EVERYWHERE: Final = 3


@attrs.frozen
class Race:
    """Two unordered accesses: the position of the later one among the accesses given; item, kind and site of the other.
    """

    position: int
    other_item: int
    other: Access
    other_site: int = 0


@attrs.frozen(eq=False)
class _Column:
    """One slot of every granule: the packed words, and the site of each."""

    stamps: Slots
    sites: npt.NDArray[np.int32]

    @classmethod
    def empty(cls, length: int) -> _Column:
        return cls(np.full(length, EMPTY, dtype=np.int64), np.zeros(length, dtype=np.int32))

    def put(self, granules: npt.NDArray[np.int64], stamps: Slots, site: int) -> None:
        self.stamps[granules] = stamps
        self.sites[granules] = site

    def refined(self, factor: int) -> _Column:
        return _Column(np.repeat(self.stamps, factor), np.repeat(self.sites, factor))


class Clock:
    """Barriers that each lane of a batch has passed, per memory space that barriers name.

    Between the halves of a split barrier a lane is on both sides of it: what it does there is ordered neither with
    what others did before they arrived nor with what they do after they waited.
    """

    def __init__(self, items: npt.NDArray[np.int64]) -> None:
        self._items = items
        self._workgroup = np.zeros(items.size, dtype=np.int64)
        self._subgroup = np.zeros(items.size, dtype=np.int64)
        self._arrived: npt.NDArray[np.bool_] | None = None
        self.stamp: Slots = items << _ITEM

    def advance(self, lanes: npt.NDArray[np.intp], scope: str) -> None:
        """The lanes passed a barrier of the scope (``workgroup`` or ``subgroup``)."""
        if self._arrived is not None:
            self._arrived[lanes] = False
            if not self._arrived.any():
                self._arrived = None
        if scope == "workgroup":
            self._workgroup[lanes] += 1
            self._subgroup[lanes] = 0
        else:
            self._subgroup[lanes] += 1
        self.stamp = self._packed(self._workgroup, self._subgroup)

    def arrive(self, lanes: npt.NDArray[np.intp]) -> None:
        """The lanes arrived at a split barrier of their workgroup, which they will pass later."""
        if self._arrived is None:
            self._arrived = np.zeros(self._items.size, dtype=np.bool_)
        self._arrived[lanes] = True

    def stamps(self, lanes: npt.NDArray[np.intp]) -> tuple[Slots, ...]:
        """The words of accesses by lanes: one for each side of a barrier that the accesses are on."""
        now = self.stamp[lanes]
        if self._arrived is None or not self._arrived[lanes].any():
            return (now,)
        later = self._packed(self._workgroup + self._arrived, np.where(self._arrived, 0, self._subgroup))
        return now, later[lanes]

    def _packed(self, workgroup: npt.NDArray[np.int64], subgroup: npt.NDArray[np.int64]) -> Slots:
        return self._items << _ITEM | (workgroup & _EPOCH_MASK) << _EPOCH | subgroup & _SUBGROUP_MASK


class Synchronization:
    """Orders between work-items that atomics make in one dispatch.

    An atomic that acquires may order what any work-item did before an atomic that releases. Which accesses it
    orders depends on the values seen, so detectors then forget all that they know: no ordered program is called
    racy, at the price of races that are not found.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._released = False

    def note(self, ordering: str, scope: str) -> None:
        """Work-items performed an atomic or a fence of the ordering and scope."""
        if scope == "thread":
            return
        self._released |= ordering in ("release", "acq_rel", "seq_cst")
        if self._released and ordering in ("acquire", "acq_rel", "seq_cst"):
            self.generation += 1


class RaceDetector:
    """The shadow of one storage during one dispatch.

    ``group_items`` is the number of work-items of a workgroup, ``subgroup_items`` of a subgroup (or ``None``).
    ``synchronization`` is that of the dispatch.
    """

    def __init__(
        self, size: int, group_items: int, subgroup_items: int | None, synchronization: Synchronization | None = None
    ) -> None:
        self._size = size
        self._group_items = group_items
        self._subgroup_items = subgroup_items
        self._synchronization = synchronization or Synchronization()
        self._generation = self._synchronization.generation
        self._granule = 0
        self._last: dict[tuple[Access, int], list[_Column]] = {}

    def note(
        self,
        access: Access,
        addresses: npt.NDArray[np.int64],
        size: int,
        stamps: Slots,
        site: int = 0,
        scope: str = "system",
    ) -> Race | None:
        """Note accesses of ``size`` bytes at byte offsets by the stamped work-items (arrays of one length).

        ``site`` is the operation that accesses, ``scope`` that of an atomic access. Returns a conflict with an earlier
        access if there is one. Plain writes of one call to one granule by different work-items conflict as well, and so
        do atomic changes by work-items that their scope does not hold.
        """
        if self._generation != self._synchronization.generation:
            self._generation = self._synchronization.generation
            self._last.clear()
        reach = self._reach(access, scope)
        granules, stamps, positions = self._granules(addresses, size, stamps)
        for (other, other_reach), columns in self._last.items():
            least = self._least_distance(access, reach, other, other_reach)
            for column in columns if least is not None else ():
                race = self._conflict(column, granules, stamps, positions, other, least)
                if race is not None:
                    return race
        if access is Access.WRITE:
            (writer,) = self._columns(access, reach, 1)
            writer.put(granules, stamps, site)
            return self._conflict(writer, granules, stamps, positions, access)
        self._note_pair(access, reach, granules, stamps, site)
        if access is Access.ATOMIC_WRITE and reach < _EVERYWHERE:
            for column in self._columns(access, reach, 2):
                race = self._conflict(column, granules, stamps, positions, access, reach)
                if race is not None:
                    return race
        return None

    def _reach(self, access: Access, scope: str) -> int:
        if access in (Access.READ, Access.WRITE):
            return 0
        # Where subgroups are not known, nobody can say who is in another one.
        return max(_REACH[scope], 2) if scope == "subgroup" and self._subgroup_items is None else _REACH[scope]

    @staticmethod
    def _least_distance(access: Access, reach: int, other: Access, other_reach: int) -> int | None:
        """The distance above which two work-items' accesses conflict unless they are ordered; ``None``: at none."""
        if other in CONFLICTS[access]:
            return 0
        writes = Access.ATOMIC_WRITE in (access, other)
        common = min(reach, other_reach)
        atomic = {access, other} <= {Access.ATOMIC_READ, Access.ATOMIC_WRITE}
        return common if atomic and writes and common < _EVERYWHERE else None

    def _columns(self, access: Access, reach: int, count: int) -> list[_Column]:
        found = self._last.get((access, reach))
        if found is None:
            length = -(-self._size // self._granule)
            found = self._last[access, reach] = [_Column.empty(length) for _ in range(count)]
        return found

    def _conflict(
        self,
        column: _Column,
        granules: npt.NDArray[np.int64],
        mine: Slots,
        positions: npt.NDArray[np.intp],
        kind: Access,
        least: int | None = 0,
    ) -> Race | None:
        other = column.stamps[granules]
        differ = np.flatnonzero((other != EMPTY) & ((other ^ mine) >> _ITEM != 0))
        if differ.size == 0:
            return None
        unordered = ~self._ordered(other[differ], mine[differ])
        if least:
            unordered &= self._distance(other[differ], mine[differ]) > least
        if not unordered.any():
            return None
        at = int(differ[np.argmax(unordered)])
        return Race(int(positions[at]), int(other[at] >> _ITEM), kind, int(column.sites[granules[at]]))

    def _ordered(self, a: Slots, b: Slots) -> npt.NDArray[np.bool_]:
        """Whether a barrier separates the accesses of two work-items."""
        differ = a ^ b
        ordered = (differ >> _EPOCH) & _EPOCH_MASK != 0
        if self._subgroup_items is not None:
            ordered |= self._same_subgroup(a, b) & (differ & _SUBGROUP_MASK != 0)
        return np.asarray(self._same_group(a, b) & ordered)

    def _note_pair(
        self, access: Access, reach: int, granules: npt.NDArray[np.int64], stamps: Slots, site: int
    ) -> None:
        one, two = self._columns(access, reach, 2)
        # An access takes the first slot when that is empty, its own, or ordered before it: whatever the ordered
        # one could conflict with in the same scope, the new one conflicts with too.
        first = one.stamps[granules]
        take = (first == EMPTY) | ((first ^ stamps) >> _ITEM == 0)
        rest = np.flatnonzero(~take)
        if rest.size:
            take[rest] = self._ordered(first[rest], stamps[rest])
        one.put(granules[take], stamps[take], site)
        first = one.stamps[granules]
        others = np.flatnonzero((first ^ stamps) >> _ITEM)
        if others.size == 0:
            return
        granules, stamps, first = granules[others], stamps[others], first[others]
        second = two.stamps[granules]
        held = np.where((second == EMPTY) | self._ordered(second, first), 0, self._distance(first, second))
        distance = self._distance(first, stamps)
        # Lanes of one call may share a granule; assigning by growing distance lets the farthest one stay.
        for level in (1, 2, 3):
            put = (distance == level) & (held <= level)
            two.put(granules[put], stamps[put], site)

    def _distance(self, a: Slots, b: Slots) -> npt.NDArray[np.int64]:
        """How far apart two work-items are: 1 in a subgroup, 2 in a workgroup, 3 in different workgroups.

        The second slot keeps the access that is farthest from the first: the fewest barriers order that one.
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
        for kind, columns in self._last.items():
            self._last[kind] = [column.refined(factor) for column in columns]
