"""Placing bundles in registers: one linear scan per bank.

Bundles come in order of their first point. A unit is busy while the segment that covers the current
point lasts (a bit mask), and its later segments wait in a sorted list per unit, so holes in live ranges
are used without rescanning. When nothing fits, the cheapest occupants of one window make room: they are
reported as values to spill, and the scan goes on as if they were gone.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from loom.low.coalesce import Bundle
from loom.low.machine import VReg

NEVER = float("inf")
"""Weight of a bundle that must have a register."""

Piece = tuple[int, int]


class AllocationError(Exception):
    """A value has no register it may live in.

    Attributes:
        reg_class: name of the register class.
        value: the value.
        point: program point (see :mod:`loom.low.liveness`) at which it fails.
        loc: location of the instruction at that point, where known.
    """

    def __init__(self, reg_class: str, value: VReg, point: int, why: str, loc: object = None) -> None:
        super().__init__(f"no {reg_class} register for {value!r} at point {point}: {why}")
        self.reg_class = reg_class
        self.value = value
        self.point = point
        self.why = why
        self.loc = loc


class UnitTable:
    """Occupied segments of every unit of one bank that has any, with their owners (None for a clobber)."""

    __slots__ = ("begins", "ends", "owners")

    def __init__(self) -> None:
        self.begins: dict[int, list[int]] = defaultdict(list)
        self.ends: dict[int, list[int]] = defaultdict(list)
        self.owners: dict[int, list[Bundle | None]] = defaultdict(list)

    def free(self, unit: int, pieces: Iterable[Piece]) -> bool:
        """True when no segment of ``unit`` overlaps any of the pieces."""
        ends = self.ends.get(unit)
        if not ends:
            return True
        last = ends[-1]
        begins = self.begins[unit]
        for begin, end in pieces:
            if begin >= last:
                return True
            index = bisect_left(begins, end)
            if index and ends[index - 1] > begin:
                return False
        return True

    def add(self, unit: int, pieces: Sequence[Piece], owner: Bundle | None) -> None:
        """Record pieces that are known to be free."""
        if not pieces:
            return
        begins, ends, owners = self.begins[unit], self.ends[unit], self.owners[unit]
        for begin, end in pieces:
            if not begins or begin > begins[-1]:
                begins.append(begin)
                ends.append(end)
                owners.append(owner)
            else:
                index = bisect_left(begins, begin)
                begins.insert(index, begin)
                ends.insert(index, end)
                owners.insert(index, owner)

    def rivals(self, unit: int, pieces: Iterable[Piece]) -> list[Bundle | None]:
        """Owners of the segments of ``unit`` that overlap the pieces, with repetitions."""
        begins, ends, owners = self.begins[unit], self.ends[unit], self.owners[unit]
        found: list[Bundle | None] = []
        for begin, end in pieces:
            index = bisect_left(begins, end) - 1
            while index >= 0 and ends[index] > begin:
                found.append(owners[index])
                index -= 1
        return found

    def remove(self, unit: int, owner: Bundle) -> None:
        """Forget what one owner holds of ``unit``."""
        owners = self.owners[unit]
        keep = [index for index, other in enumerate(owners) if other is not owner]
        if len(keep) != len(owners):
            self.begins[unit] = [self.begins[unit][index] for index in keep]
            self.ends[unit] = [self.ends[unit][index] for index in keep]
            self.owners[unit] = [owners[index] for index in keep]


class BankScan:
    """One linear scan over the bundles of one bank.

    After :meth:`run`, every bundle that found a place has its ``base``; ``evicted`` lists (bundle,
    points) of those that did not, with the pieces of the bundle that needed their place.
    """

    def __init__(self, units: int, clobbers: Mapping[int, list[Piece]]) -> None:
        self.units = units
        self.later = UnitTable()
        self.evicted: list[tuple[Bundle, list[Piece]]] = []
        self._mask = 0
        self._busy_until = [0] * units
        self._owner: list[Bundle | None] = [None] * units
        self._heap: list[tuple[int, int]] = []
        for unit, pieces in clobbers.items():
            self.later.add(unit, pieces, None)

    def run(self, bundles: list[Bundle], wide_first: bool = False) -> None:
        """Place the bundles. ``wide_first`` places tuples before single units, against fragmentation.

        Raises:
            AllocationError: two bundles that must both have one register, or too few registers for the
                operands of one instruction.
        """
        starts = {bundle: bundle.start for bundle in bundles}
        free = [bundle for bundle in bundles if not bundle.pinned]
        free.sort(key=starts.__getitem__)
        pinned = [bundle for bundle in bundles if bundle.pinned]
        pinned.sort(key=lambda bundle: (bundle.weight != NEVER, starts[bundle]))
        passes = [pinned]
        if wide_first:
            widths = sorted({len(bundle.lanes) for bundle in free}, reverse=True)
            passes += [[bundle for bundle in free if len(bundle.lanes) == width] for width in widths]
        for group in passes:
            for bundle in group:
                self._place_outside_scan(bundle)
        if not wide_first:
            for bundle in free:
                self._place(bundle, starts[bundle])

    def _expire(self, point: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= point:
            end, unit = heapq.heappop(heap)
            if self._busy_until[unit] == end:
                self._mask &= ~(1 << unit)
                self._owner[unit] = None

    def _place(self, bundle: Bundle, start: int) -> None:
        self._expire(start)
        lanes = [_pieces(lane) for lane in bundle.lanes]
        candidates = bundle.allowed
        for number, lane in enumerate(lanes):
            if lane and lane[0][0] == start:
                candidates &= ~(self._mask >> number)
        base = self._first_fit(bundle, candidates, lanes)
        if base < 0:
            base = self._make_room(bundle, lanes)
            if base < 0:
                return
        bundle.base = base
        for number, lane in enumerate(lanes):
            unit = base + number
            if lane and lane[0][0] == start:
                self._mask |= 1 << unit
                self._busy_until[unit] = lane[0][1]
                self._owner[unit] = bundle
                heapq.heappush(self._heap, (lane[0][1], unit))
                lane = lane[1:]
            self.later.add(unit, lane, bundle)

    def _place_outside_scan(self, bundle: Bundle) -> None:
        lanes = [_pieces(lane) for lane in bundle.lanes]
        base = self._first_fit(bundle, bundle.allowed, lanes)
        if base < 0:
            base = self._make_room(bundle, lanes)
            if base < 0:
                return
        bundle.base = base
        for number, lane in enumerate(lanes):
            self.later.add(base + number, lane, bundle)

    def _first_fit(self, bundle: Bundle, candidates: int, lanes: list[list[Piece]]) -> int:
        for other, distance in bundle.hints:
            base = other.base + distance if other.base >= 0 else -1
            if base >= 0 and candidates >> base & 1 and self._fits(base, lanes):
                return base
        while candidates:
            low = candidates & -candidates
            base = low.bit_length() - 1
            if self._fits(base, lanes):
                return base
            candidates ^= low
        return -1

    def _fits(self, base: int, lanes: list[list[Piece]]) -> bool:
        for number, lane in enumerate(lanes):
            if not lane:
                continue
            unit = base + number
            if self._mask >> unit & 1 and self._busy_until[unit] > lane[0][0]:
                return False
            if not self.later.free(unit, lane):
                return False
        return True

    def _rivals(self, base: int, lanes: list[list[Piece]]) -> list[Bundle | None]:
        """Who is in the way, each once and in a fixed order."""
        found: dict[Bundle | None, None] = {}
        for number, lane in enumerate(lanes):
            if not lane:
                continue
            unit = base + number
            if self._mask >> unit & 1 and self._busy_until[unit] > lane[0][0]:
                found[self._owner[unit]] = None
            found.update(dict.fromkeys(self.later.rivals(unit, lane)))
        return list(found)

    def _make_room(self, bundle: Bundle, lanes: list[list[Piece]]) -> int:
        """Evict the cheapest set of rivals; returns the base, or -1 when the bundle itself must go."""
        best, best_cost = -1, bundle.weight
        candidates = bundle.allowed
        while candidates:
            low = candidates & -candidates
            candidates ^= low
            base = low.bit_length() - 1
            cost = 0.0
            for rival in self._rivals(base, lanes):
                cost += NEVER if rival is None else rival.weight
                if cost >= best_cost:
                    break
            if cost < best_cost:
                best, best_cost = base, cost
        needed = [piece for lane in lanes for piece in lane]
        if best < 0:
            if bundle.weight == NEVER:
                raise self._failure(bundle, lanes)
            self.evicted.append((bundle, needed))
            return -1
        for rival in self._rivals(best, lanes):
            assert rival is not None
            self._evict(rival)
            self.evicted.append((rival, needed))
        return best

    def _evict(self, rival: Bundle) -> None:
        for number in range(len(rival.lanes)):
            unit = rival.base + number
            if self._owner[unit] is rival:
                self._mask &= ~(1 << unit)
                self._owner[unit] = None
                self._busy_until[unit] = 0
            self.later.remove(unit, rival)
        rival.base = -1

    def _failure(self, bundle: Bundle, lanes: list[list[Piece]]) -> AllocationError:
        value, point, why = bundle.members[0][0], bundle.start, "too few registers"
        base = bundle.allowed.bit_length() - 1
        if base < 0:
            why = "its class has no register that fits"
        elif bundle.pinned:
            rivals = self._rivals(base, lanes)
            others = [rival.members[0][0] for rival in rivals if rival is not None]
            if others:
                why = f"{others[0]!r} is live in its register at the same time"
            else:
                point = self._first_clobber(base, lanes)
                why = "its register is overwritten while it is live"
        return AllocationError(value.reg_class, value, point, why)

    def _first_clobber(self, base: int, lanes: list[list[Piece]]) -> int:
        points = []
        for number, lane in enumerate(lanes):
            unit = base + number
            for begin, owner in zip(self.later.begins[unit], self.later.owners[unit], strict=True):
                if owner is None and any(first <= begin < last for first, last in lane):
                    points.append(begin)
        return min(points, default=lanes[0][0][0])


def _pieces(lane: Sequence[tuple[int, int, object]]) -> list[Piece]:
    """Segments without their content, those that touch joined."""
    if len(lane) == 1:
        return [lane[0][:2]]
    pieces: list[Piece] = []
    for begin, end, _ in lane:
        if pieces and pieces[-1][1] >= begin:
            pieces[-1] = (pieces[-1][0], max(end, pieces[-1][1]))
        else:
            pieces.append((begin, end))
    return pieces
