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

from collections.abc import Iterator

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
    """Stamps of one piece of memory. Arrays start as zeros and cost real memory only where they are touched."""

    __slots__ = ("read", "shift", "size", "written")

    def __init__(self, size: int) -> None:
        self.size = size
        self.shift = 2
        self.written = np.zeros((size + 3) // 4, np.int64)
        self.read = np.zeros((size + 3) // 4, np.int64)

    def refine(self) -> None:
        """From words to bytes."""
        if self.shift:
            self.shift = 0
            self.written = np.repeat(self.written, 4)
            self.read = np.repeat(self.read, 4)

    def units(self, place: Array, nbytes: int) -> Iterator[Index]:
        """Stamp numbers of an access at flat byte offsets, one index per word (or byte): a slice if one will do."""
        if self.shift and (nbytes < 4 or (place & np.uint32(3)).any()):
            self.refine()
        width = 1 << self.shift
        if nbytes == width:
            start, count = int(place[0]), place.size
            step = np.uint32(width)
            if int(place[-1]) - start == (count - 1) * width and bool((place[1:] - place[:-1] == step).all()):
                yield slice(start >> self.shift, (start >> self.shift) + count)
                return
        first = (place >> np.uint32(self.shift)).astype(np.intp)  # what indexing takes without converting
        for k in range(nbytes >> self.shift):
            yield first + k if k else first


class Ordering:
    """Time of one launch, and the buffers' stamps."""

    def __init__(self, waves_per_workgroup: int) -> None:
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
        self._slot = slot
        self._acquired = np.zeros(len(slot), np.int64)
        self._barrier = np.zeros(int(slot.max()) + 1, np.int64)
        wave = np.arange(first_wave, first_wave + len(slot), dtype=np.int64) << _WAVE_SHIFT
        self._base = wave[:, None] | np.arange(lanes, dtype=np.int64)[None, :] << _LANE_SHIFT

    def barrier(self, slots: Array) -> None:
        """Workgroups have passed a barrier."""
        self._barrier[slots] = len(self.ordering.sites) - 1

    def begin(self, group: Group, site: Instruction | None, kind: str = "") -> Moment:
        """A memory instruction of a group starts. `kind` is empty, `atomic`, `coherent` or `scalar`.

        An atomic that gives nothing back tells its wave nothing about others.
        """
        now = self.ordering.tick(site) << int(_TIME_SHIFT) | (int(_ATOMIC) if kind == "atomic" else 0)
        whole = len(group.waves) == len(self._slot) and bool((group.waves[1:] > group.waves[:-1]).all())
        base = self._base if whole else self._base[group.waves]
        if kind == "scalar":
            base = base[:, :1]
        acquired = self._acquired if whole else self._acquired[group.waves]
        passed = self._barrier[self._slot if whole else self._slot[group.waves]]
        floors = _floor(acquired), _floor(np.maximum(acquired, passed))
        if kind == "coherent" or (kind == "atomic" and site is not None and site.results):
            self._acquired[group.waves] = len(self.ordering.sites) - 1
        return Moment(self, base + np.int64(now), floors, kind == "coherent")

    def horizon(self, prior: Array, mine: Array) -> Array:
        """The last time each lane is ordered after, for an access of another wave."""
        wave = mine >> _WAVE_SHIFT & _WAVES
        rows = wave - self.first_wave
        acquired = self._acquired[rows]
        size = self.ordering.waves_per_workgroup
        same = (prior >> _WAVE_SHIFT & _WAVES) // size == wave // size
        result: Array = np.where(same, np.maximum(acquired, self._barrier[self._slot[rows]]), acquired)
        return result


def _floor(times: Array) -> int:
    """The largest stamp that is ordered before every lane of waves with these horizons."""
    return ((int(times.min()) + 1) << int(_TIME_SHIFT)) - 1


def _other_wave(stamps: Array, mine: Array) -> Array:
    result: Array = (stamps ^ mine) & _WAVE_BITS != 0
    return result


class Moment:
    """One memory instruction of a group of waves, as it touches one piece of memory after another."""

    __slots__ = ("_coherent", "_floors", "_stamps", "_watch")

    def __init__(self, watch: Watch, stamps: Array, floors: tuple[int, int], coherent: bool) -> None:
        self._watch = watch
        self._stamps = stamps
        self._floors = floors
        self._coherent = coherent

    def _shadow(self, space: Space) -> tuple[Shadow, int]:
        """The stamps of a buffer or of LDS, and the largest of them that is ordered before every lane."""
        if isinstance(space, Segment):
            return self._watch.ordering.shadow(space), self._floors[0]
        return self._watch.lds, self._floors[1]  # only the workgroup gets here, so its barriers order everything

    def load(self, space: Space, place: Array, nbytes: int, mask: Array | None) -> bool:
        """Check and record reads. Whether somebody wrote all that is read (it matters for LDS only).

        Raises:
            Race: another wave's write is not ordered before one of them.
        """
        complete = True
        if self._coherent:
            return True
        flat, mine = self._active(place, mask)
        if not flat.size:
            return True
        shadow, floor = self._shadow(space)
        for index in shadow.units(flat, nbytes):
            written = shadow.written[index]
            complete = complete and bool(written.all())
            if int(written.max()) > floor:
                self._require(self._unordered(written, mine), written, mine, index, shadow, ("reads", "wrote"))
            seen = shadow.read[index]
            if int(seen.max()) > floor:
                shadow.read[index] = mine | self._unordered_reads(seen, mine)
            else:
                shadow.read[index] = mine
            if not isinstance(index, slice):
                together = _other_wave(shadow.read[index], mine)  # read by several waves in this very instruction
                if together.any():
                    shadow.read[index[together]] |= _MANY
        return complete

    def store(self, space: Space, place: Array, nbytes: int, mask: Array | None, data: list[Array]) -> None:
        """Check accesses of others against a store that comes next. Storing what is there already harms nobody.

        Raises:
            Race: another wave's access is not ordered before one of them.
        """
        flat, mine = self._active(place, mask)
        if not flat.size:
            return
        shadow, floor = self._shadow(space)
        for index in shadow.units(flat, nbytes):
            for prior, verb, find in (
                (shadow.written[index], "wrote", self._unordered),
                (shadow.read[index], "read", self._unordered_reads),
            ):
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
        flat, mine = self._active(place, mask)
        if not flat.size:
            return
        shadow, _ = self._shadow(space)
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
        flat, mine = self._active(place, mask)
        if not flat.size:
            return
        shadow, floor = self._shadow(space)
        for index in shadow.units(flat, nbytes):
            written, seen = shadow.written[index], shadow.read[index]
            if int(written.max()) > floor:
                bad = self._unordered(written, mine) & (written & _ATOMIC == 0)
                self._require(bad, written, mine, index, shadow, ("changes", "wrote"))
            if int(seen.max()) > floor:
                self._require(self._unordered_reads(seen, mine), seen, mine, index, shadow, ("changes", "read"))
            shadow.written[index] = mine

    # --- reading stamps ---

    def _active(self, place: Array, mask: Array | None) -> tuple[Array, Array]:
        """Byte offsets and stamps of the lanes that take part, flat."""
        shape = self._stamps.shape
        if mask is None:
            return np.broadcast_to(place, shape).reshape(-1), self._stamps.reshape(-1)
        here = np.broadcast_to(mask, shape)
        return np.broadcast_to(place, shape)[here], self._stamps[here]

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
        shape = self._stamps.shape
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
        what = "an instruction" if site is None else f"`{site.text}` at {site.address:#x}"
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
