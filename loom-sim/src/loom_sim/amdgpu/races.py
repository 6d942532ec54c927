"""Who touched which memory last: data races between waves, and reads of memory that nothing wrote.

Every word of a writable buffer and of LDS has two stamps: its last write and its last read. A stamp is a number

====== ======================================================================
bits   what
====== ======================================================================
0      reads: another wave read it too, not ordered before this one
1      the access was atomic
2-7    lane
8-29   wave, numbered over the whole launch
30-62  time: the number of the memory instruction, each counted once per issue
====== ======================================================================

so that newer stamps are larger. Two accesses race if different waves make them, at least one writes, not both are
atomic, and nothing orders them. What orders them is a barrier of their workgroup, and any coherent load or atomic that
gives a value back in the later wave: it may read the flag or counter that other waves set after their own accesses, and
which one cannot be told from machine code. So some races are missed. Polling with plain loads, which compilers make of
atomic loads of LDS, is reported.

Words are refined to bytes in memory that is accessed by less than a word or at addresses between words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from loom_sim.amdgpu import memory
from loom_sim.amdgpu.instruction import Instruction
from loom_sim.amdgpu.memory import AccessError, Segment, Space
from loom_sim.amdgpu.state import Array, Group

_MANY, _ATOMIC = np.int64(1), np.int64(2)
_LANE_SHIFT, _WAVE_SHIFT, _TIME_SHIFT = np.int64(2), np.int64(8), np.int64(30)
_WAVES = np.int64((1 << 22) - 1)
_WAVE_BITS = _WAVES << _WAVE_SHIFT
MAX_WAVES = 1 << 22
"""Launches with more waves than stamps have numbers for are not watched."""


Index = Array | slice


class Shadow:
    """Stamps of one piece of memory, made when first needed.

    Reads are entered late: most are ordered before everything that follows, by a barrier or because nothing is ever
    stored there, and then cost nothing.

    Attributes:
        shift: a stamp is for 2 to the power of this many bytes.
        newest: a stamp that no write is newer than.
        low, high: bytes that writes have touched lie between these.
        pending: reads not entered yet, oldest first.
    """

    __slots__ = ("_complete", "_read", "_since", "_written", "high", "low", "newest", "pending", "shift", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.shift = 2
        self.newest = 0
        self.low, self.high = size, 0
        self.pending: list[PendingRead] = []
        self._written: Array | None = None
        self._read: Array | None = None
        self._complete = False
        self._since = 0

    def _empty(self) -> Array:
        return np.zeros((self.size + (1 << self.shift) - 1) >> self.shift, np.int64)

    @property
    def written(self) -> Array:
        """The last write, by unit."""
        if self._written is None:
            self._written = self._empty()
        return self._written

    @property
    def read(self) -> Array | None:
        """The last entered read, by unit; None if there was none."""
        return self._read

    def entered(self) -> Array:
        """As `read`, for entering another."""
        if self._read is None:
            self._read = self._empty()
        return self._read

    def complete(self) -> bool:
        """Whether it is known that all of it has been written."""
        if not self._complete and self._since >= self.written.size:
            self._since = 0  # looked at again after as many writes, so that looking costs no more than writing
            self._complete = bool(self.written.all())
        return self._complete

    def add_write(self, stamp: int, low: int, high: int, count: int) -> None:
        """A write between two bytes changed this many stamps."""
        self.newest = max(self.newest, stamp)
        self.low, self.high = min(self.low, low), max(self.high, high)
        self._since += count

    def refine(self) -> None:
        """From words to bytes."""
        if self.shift:
            self.shift = 0
            self._written = None if self._written is None else np.repeat(self._written, 4)[: self.size]
            self._read = None if self._read is None else np.repeat(self._read, 4)[: self.size]

    def units(self, place: Array, nbytes: int) -> Iterator[Index]:
        """Stamp numbers of an access at flat byte offsets, one index per word (or byte): a slice if one will do."""
        if self.shift and (nbytes < 4 or (place & np.uint32(3)).any()):
            self.refine()
        width = 1 << self.shift
        if nbytes == width:
            start, count = int(place[0]), place.size
            if int(place[-1]) - start == (count - 1) * width and _rises(place, width):
                yield slice(start >> self.shift, (start >> self.shift) + count)
                return
        first = (place >> np.uint32(self.shift)).astype(np.intp)  # what indexing takes without converting
        for k in range(nbytes >> self.shift):
            yield first + k if k else first


def _rises(place: Array, width: int) -> bool:
    return bool((place[1:] - place[:-1] == np.uint32(width)).all())


class PendingRead:
    """A read that may still have to be entered into a shadow."""

    __slots__ = ("_flat", "_span", "mask", "moment", "nbytes", "offset", "place")

    def __init__(self, moment: Moment, place: Array, nbytes: int, mask: Array | None, offset: int) -> None:
        self.moment = moment
        self.place = place
        self.nbytes = nbytes
        self.mask = mask
        self.offset = offset
        self._flat: Array | None = None
        self._span: tuple[int, int] | None = None

    def flat(self) -> Array:
        """Byte offsets of the lanes that read."""
        if self._flat is None:
            flat = self.moment.places(self.place, self.mask)
            self._flat = flat + np.uint32(self.offset) if self.offset else flat
        return self._flat

    def span(self) -> tuple[int, int]:
        """All bytes lie between these."""
        if self._span is None:
            flat = self.flat()
            self._span = (int(flat.min()), int(flat.max()) + self.nbytes) if flat.size else (0, 0)
        return self._span

    def is_replaced_by(self, moment: Moment, flat: Array, nbytes: int, mask: Array | None) -> bool:
        """Whether a store writes what the same lanes read, each to a place of its own.

        Whoever would conflict with the read then conflicts with the store, which is newer.
        """
        own = self.flat()
        return (
            nbytes == self.nbytes
            and mask is self.mask
            and flat.size == own.size
            and np.array_equal(moment.waves, self.moment.waves)
            and bool(own[0] == flat[0])
            and _rises(own, nbytes)
            and bool((own == flat).all())
        )


_PENDING = 64
"""Reads kept per piece of memory; more are entered together."""


class Ordering:
    """Time of one launch, and the buffers' stamps. ``describe`` tells which instruction one is and where it is."""

    def __init__(self, waves_per_workgroup: int, describe: Callable[[Instruction], str]) -> None:
        self.describe = describe
        self.waves_per_workgroup = waves_per_workgroup
        self.sites: list[Instruction | None] = [None]
        self._shadows: dict[int, Shadow] = {}

    def tick(self, site: Instruction | None) -> int:
        """The time of a new memory instruction."""
        self.sites.append(site)
        return len(self.sites) - 1

    def shadow(self, segment: Segment) -> Shadow:
        """The stamps of a buffer."""
        found = self._shadows.get(segment.base)
        if found is None:
            found = self._shadows[segment.base] = Shadow(segment.size)
        return found


class Watch:
    """The waves of one batch: what each has been ordered after."""

    def __init__(self, ordering: Ordering, first_wave: int, slot: Array, lanes: int, lds_bytes: int) -> None:
        self.ordering = ordering
        self.lds = Shadow(lds_bytes)
        self.first_wave = first_wave
        self.lanes = lanes
        self.slot = slot
        self.acquired = np.zeros(len(slot), np.int64)
        self.passed = np.zeros(int(slot.max()) + 1, np.int64)

    def barrier(self, slots: Array) -> None:
        """Workgroups have passed a barrier: their reads of LDS are ordered before all that follows."""
        self.passed[slots] = len(self.ordering.sites) - 1
        if len(slots) == len(self.passed):
            self.lds.pending.clear()
        elif self.lds.pending:
            released = np.zeros(len(self.passed), bool)
            released[slots] = True
            self.lds.pending = [p for p in self.lds.pending if not released[self.slot[p.moment.waves]].all()]

    def begin(self, group: Group, site: Instruction | None, kind: str = "") -> Moment:
        """A memory instruction of a group starts. `kind` is empty, `atomic`, `coherent` or `scalar`.

        An atomic that gives nothing back tells its wave nothing about others.
        """
        time = self.ordering.tick(site)
        moment = Moment(self, group.waves, time, kind)
        if kind == "coherent" or (kind == "atomic" and site is not None and site.results):
            self.acquired[group.waves] = time
        return moment

    def horizon(self, prior: Array, mine: Array) -> Array:
        """The last time each lane is ordered after, for an access of another wave."""
        wave = mine >> _WAVE_SHIFT & _WAVES
        rows = wave - self.first_wave
        acquired = self.acquired[rows]
        size = self.ordering.waves_per_workgroup
        same = (prior >> _WAVE_SHIFT & _WAVES) // size == wave // size
        result: Array = np.where(same, np.maximum(acquired, self.passed[self.slot[rows]]), acquired)
        return result


def _floor(times: Array) -> int:
    """The largest stamp that is ordered before every lane of waves with these horizons."""
    return ((int(times.min()) + 1) << int(_TIME_SHIFT)) - 1


def _other_wave(stamps: Array, mine: Array) -> Array:
    result: Array = (stamps ^ mine) & _WAVE_BITS != 0
    return result


class Moment:
    """One memory instruction of a group of waves, as it touches one piece of memory after another."""

    __slots__ = ("_floors", "_now", "_shape", "_watch", "kind", "waves")

    def __init__(self, watch: Watch, waves: Array, time: int, kind: str) -> None:
        self._watch = watch
        self.waves = waves
        self.kind = kind
        self._now = time << int(_TIME_SHIFT) | (int(_ATOMIC) if kind == "atomic" else 0)
        self._shape = (len(waves), 1 if kind == "scalar" else watch.lanes)
        self._floors: tuple[int, int] | None = None

    def _shadow(self, space: Space) -> tuple[Shadow, int]:
        """The stamps of a buffer or of LDS, and the largest of them that is ordered before every lane."""
        watch = self._watch
        if self._floors is None:
            acquired = watch.acquired[self.waves]
            passed = watch.passed[watch.slot[self.waves]]
            self._floors = _floor(acquired), _floor(np.maximum(acquired, passed))
        if isinstance(space, Segment):
            return watch.ordering.shadow(space), self._floors[0]
        return watch.lds, self._floors[1]  # only the workgroup gets here, so its barriers order everything

    def load(self, space: Space, place: Array, nbytes: int, mask: Array | None, offset: int = 0) -> bool:
        """Check and record reads at `place + offset`. Whether somebody wrote all of it (it matters for LDS only).

        Raises:
            Race: another wave's write is not ordered before one of them.
        """
        if self.kind == "coherent":
            return True
        shadow, floor = self._shadow(space)
        local = shadow is self._watch.lds
        read = PendingRead(self, place, nbytes, mask, offset)
        recent = shadow.newest > floor and (local or self._meets(read.span(), shadow))
        complete = not local or shadow.complete()
        if recent or not complete:
            flat = read.flat()
            if not flat.size:
                return True
            mine = self._stamps(mask)
            complete = True
            for index in shadow.units(flat, nbytes):
                written = shadow.written[index]
                complete = complete and bool(written.all())
                if int(written.max()) > floor:
                    self._require(self._unordered(written, mine), written, mine, index, shadow, ("reads", "wrote"))
        shadow.pending.append(read)
        if len(shadow.pending) > _PENDING:
            self._enter(shadow)
        return complete

    @staticmethod
    def _meets(span: tuple[int, int], shadow: Shadow) -> bool:
        return span[0] < shadow.high and shadow.low < span[1]

    @staticmethod
    def _enter(shadow: Shadow) -> None:
        """Enter all pending reads, oldest first."""
        for read in shadow.pending:
            read.moment._enter_read(shadow, read)
        shadow.pending.clear()

    def _enter_read(self, shadow: Shadow, read: PendingRead) -> None:
        flat = read.flat()
        if not flat.size:
            return
        mine = self._stamps(read.mask)
        for index in shadow.units(flat, read.nbytes):
            entered = shadow.entered()
            seen = entered[index]
            entered[index] = mine | self._unordered_reads(seen, mine) if seen.any() else mine
            if not isinstance(index, slice):
                together = _other_wave(entered[index], mine)  # read by several waves in this very instruction
                if together.any():
                    entered[index[together]] |= _MANY

    def _enter_before(self, shadow: Shadow, flat: Array, nbytes: int, mask: Array | None) -> tuple[int, int]:
        """Enter the pending reads that a write may conflict with; returns the bytes between which it lies."""
        span = int(flat.min()), int(flat.max()) + nbytes
        if shadow.pending:
            shadow.pending = [p for p in shadow.pending if not p.is_replaced_by(self, flat, nbytes, mask)]
            if any(p.span()[0] < span[1] and span[0] < p.span()[1] for p in shadow.pending):
                self._enter(shadow)
        return span

    def store(self, space: Space, place: Array, nbytes: int, mask: Array | None, data: list[Array]) -> None:
        """Check accesses of others against a store that comes next. Storing what is there already harms nobody.

        Raises:
            Race: another wave's access is not ordered before one of them.
        """
        flat = self.places(place, mask)
        if not flat.size:
            return
        shadow, floor = self._shadow(space)
        span = self._enter_before(shadow, flat, nbytes, mask)
        written = shadow.newest > floor and self._meets(span, shadow)
        if not written and shadow.read is None:
            return
        mine = self._stamps(mask)
        for index in shadow.units(flat, nbytes):
            checks = [(shadow.written[index], "wrote", self._unordered)] if written else []
            if shadow.read is not None:
                checks.append((shadow.read[index], "read", self._unordered_reads))
            for prior, verb, find in checks:
                if int(prior.max()) > floor:
                    bad = find(prior, mine)
                    if bad.any():
                        bad = bad & ~self._same(space, flat, nbytes, mask, data)
                        self._require(bad, prior, mine, index, shadow, ("overwrites", verb))

    def stored(self, space: Space, place: Array, nbytes: int, mask: Array | None, data: list[Array]) -> None:
        """Record a store that has been carried out.

        Raises:
            Race: two waves stored different values to one place in this very instruction.
        """
        flat = self.places(place, mask)
        if not flat.size:
            return
        mine = self._stamps(mask)
        shadow, _ = self._shadow(space)
        shadow.add_write(int(mine.max()), int(flat.min()), int(flat.max()) + nbytes, flat.size)
        for index in shadow.units(flat, nbytes):
            shadow.written[index] = mine
            if isinstance(index, slice):
                continue  # as many places as lanes
            last = shadow.written[index]
            bad = _other_wave(last, mine)
            if bad.any():
                bad &= ~self._same(space, flat, nbytes, mask, data)
                self._require(bad, last, mine, index, shadow, ("overwrites", "wrote"))

    def atomic(self, space: Space, place: Array, nbytes: int, mask: Array) -> None:
        """Check and record atomics.

        Raises:
            Race: a plain access of another wave is not ordered before one of them.
        """
        flat = self.places(place, mask)
        if not flat.size:
            return
        mine = self._stamps(mask)
        shadow, floor = self._shadow(space)
        span = self._enter_before(shadow, flat, nbytes, mask)
        for index in shadow.units(flat, nbytes):
            written = shadow.written[index]
            if int(written.max()) > floor:
                bad = self._unordered(written, mine) & (written & _ATOMIC == 0)
                self._require(bad, written, mine, index, shadow, ("changes", "wrote"))
            seen = None if shadow.read is None else shadow.read[index]
            if seen is not None and int(seen.max()) > floor:
                self._require(self._unordered_reads(seen, mine), seen, mine, index, shadow, ("changes", "read"))
            shadow.written[index] = mine
        shadow.add_write(int(mine.max()), *span, flat.size)

    # --- reading stamps ---

    def places(self, place: Array, mask: Array | None) -> Array:
        """Byte offsets of the lanes that take part, flat."""
        wide = place if place.shape == self._shape else np.broadcast_to(place, self._shape)
        return wide.reshape(-1) if mask is None else wide[np.broadcast_to(mask, self._shape)]

    def _stamps(self, mask: Array | None) -> Array:
        """Stamps of the lanes that take part, flat."""
        waves = (self.waves.astype(np.int64) + self._watch.first_wave) << _WAVE_SHIFT
        lanes = np.arange(self._shape[1], dtype=np.int64) << _LANE_SHIFT
        wide: Array = (waves + np.int64(self._now))[:, None] | lanes[None, :]
        return wide.reshape(-1) if mask is None else wide[np.broadcast_to(mask, self._shape)]

    def _recent(self, prior: Array, mine: Array) -> Array:
        result: Array = prior >> _TIME_SHIFT > self._watch.horizon(prior, mine)
        return result

    def _unordered(self, prior: Array, mine: Array) -> Array:
        """Accesses of other waves that nothing orders before."""
        result: Array = _other_wave(prior, mine) & (prior != 0) & self._recent(prior, mine)
        return result

    def _unordered_reads(self, prior: Array, mine: Array) -> Array:
        """As `_unordered`, also where the last of several reads was this wave's own."""
        result: Array = self._unordered(prior, mine) | ((prior & _MANY != 0) & self._recent(prior, mine))
        return result

    def _same(self, space: Space, flat: Array, nbytes: int, mask: Array | None, data: list[Array]) -> Array:
        """Lanes whose data is already in memory."""
        shape = self._shape
        found = memory.read(space, flat.reshape(1, -1), nbytes)
        keep = np.uint32(0xFFFFFFFF if nbytes >= 4 else (1 << 8 * nbytes) - 1)
        result = np.ones(flat.shape, bool)
        for there, new in zip(found, data, strict=True):
            wide = np.broadcast_to(new, shape)
            lanes = wide.reshape(-1) if mask is None else wide[np.broadcast_to(mask, shape)]
            result &= (there.reshape(-1) & keep) == (lanes & keep)
        return result

    def _require(
        self, bad: Array, prior: Array, mine: Array, index: Index, shadow: Shadow, verbs: tuple[str, str]
    ) -> None:
        if not bad.any():
            return
        watch = self._watch
        k = int(np.flatnonzero(bad)[0])
        stamp, own = int(prior[k]), int(mine[k])
        site = watch.ordering.sites[stamp >> int(_TIME_SHIFT)]
        what = "an instruction" if site is None else watch.ordering.describe(site)
        size = watch.ordering.waves_per_workgroup
        wave, own_wave = (number >> int(_WAVE_SHIFT) & int(_WAVES) for number in (stamp, own))
        who = f"lane {stamp >> int(_LANE_SHIFT) & 63} of wave {wave % size}"
        if wave == own_wave:
            who = "another wave"
        elif wave // size != own_wave // size:
            who += f" of workgroup number {wave // size}"
        raise Race(
            f"{verbs[0]} what {who} {verbs[1]} with {what}, and neither a barrier nor an atomic orders the two",
            own_wave - watch.first_wave,
            own >> int(_LANE_SHIFT) & 63,
            (index.start + k if isinstance(index, slice) else int(index[k])) << shadow.shift,
        )


class Race(AccessError):
    """Two accesses that nothing orders.

    Attributes:
        wave: within the batch.
    """

    def __init__(self, reason: str, wave: int, lane: int, place: int) -> None:
        super().__init__("race", reason, address=place)
        self.wave = wave
        self.lane = lane


def undefined_words(shadow: Shadow, place: Array, nbytes: int, mask: Array | None) -> list[Array]:
    """Bits that nothing wrote, as uint32 of the offsets' shape, one per loaded word."""
    count = max(1, nbytes // 4)
    words = np.zeros((count, place.size), np.uint32)
    for k, index in enumerate(shadow.units(place.reshape(-1), nbytes)):
        missing = shadow.written[index] == 0
        if shadow.shift:
            words[k][missing] = 0xFFFFFFFF
        else:
            words[k // 4][missing] |= np.uint32(0xFF << 8 * (k % 4))
    shaped = [word.reshape(place.shape) for word in words]
    return shaped if mask is None else [np.where(mask, word, np.uint32(0)) for word in shaped]
