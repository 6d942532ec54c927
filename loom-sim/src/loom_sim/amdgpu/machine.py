"""What generated code talks to: memory, LDS and scratch of the waves of a batch."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from loom_sim.amdgpu import memory
from loom_sim.amdgpu.banks import BankUse
from loom_sim.amdgpu.instruction import Instruction
from loom_sim.amdgpu.memory import AccessError, AddressSpace
from loom_sim.amdgpu.races import MAX_WAVES, Moment, Ordering, Watch, undefined_words
from loom_sim.amdgpu.state import Array, Group

_U32 = np.uint32
_LDS_ADDRESSES = 4
Operation = Callable[[memory.Space, Array, Array], list[Array]]


@attrs.define(slots=True)
class Bytes:
    """A byte array with word views: LDS or scratch of all waves."""

    bytes: Array
    words: Array
    shorts: Array

    @classmethod
    def zeros(cls, size: int) -> Bytes:
        """Zeroed memory; `size` is a multiple of 8."""
        data = np.zeros(size, np.uint8)
        return cls(data, data.view(_U32), data.view(np.uint16))


@attrs.define(slots=True)
class Traffic:
    """Bytes moved by active lanes."""

    global_loaded: int = 0
    global_stored: int = 0
    lds_loaded: int = 0
    lds_stored: int = 0
    scratch: int = 0


@attrs.frozen(slots=True, eq=False)
class LdsAddress:
    """An address register and where in all LDS it points for the waves that hold it.

    Attributes:
        address, waves: what it was made of; both are never changed, so being the same objects is enough.
        top: the largest address.
        place: byte offsets.
        words: word numbers for indexing; None if an address is not a multiple of four.
    """

    address: Array
    waves: Array
    top: int
    place: Array
    words: Array | None


class UndefinedLoad(Exception):
    """A load of memory that nothing wrote, by code that does not follow undefined bits: run it again in code that does.

    The load has had no effect; everything before it has.
    """


def is_coherent(site: Instruction | None) -> bool:
    """Whether a load asks for what other waves wrote: how compilers load flags and atomics (memory model of LLVM)."""
    if site is None:
        return False
    modifiers = site.modifiers
    return bool(modifiers.get("glc") or modifiers.get("sc0") or modifiers.get("sc1") or modifiers.get("scope"))


class Machine:
    """Memory of one batch of workgroups.

    Attributes:
        banks: counts the use of LDS banks, if anybody wants to know.
        site: the instruction that may raise next.
        code_address: difference between addresses of the code object and of the address space.
        slot: workgroup number within the batch, by wave.
    """

    def __init__(
        self,
        space: AddressSpace,
        code_address: int,
        wave_size: int,
        slot: Array,
        workgroups: int,
        lds_size: int,
        scratch_size: int,
        ordering: Ordering | None = None,
        first_wave: int = 0,
    ) -> None:
        self.space = space
        self.code_address = np.uint64(code_address)
        self.wave_size = wave_size
        self.slot = slot
        self.site: Instruction | None = None
        self.traffic = Traffic()
        self.lds_size = lds_size
        self._lds_stride = (lds_size + 7) // 8 * 8
        self._lds = Bytes.zeros(self._lds_stride * workgroups)
        self.scratch_size = scratch_size
        self._scratch_stride = (scratch_size + 7) // 8 * 8
        waves = len(slot)
        self._waves_of_slot = np.bincount(slot, minlength=workgroups)
        self._signalled = np.zeros(workgroups, bool)
        self._scratch = Bytes.zeros(self._scratch_stride * waves * wave_size)
        self.banks: BankUse | None = None
        self._ticks = 0
        self._lds_addresses: list[LdsAddress] = []
        self._watch: Watch | None = None
        if ordering is not None and first_wave + waves <= MAX_WAVES:
            self._watch = Watch(ordering, first_wave, slot, wave_size, self._lds.bytes.size)
        self._scratch_written = np.zeros(self._scratch.bytes.size if self._watch else 0, bool)
        self.tracking = False
        self._undefined: list[Array] | None = None

    def lds_of(self, wave: int) -> bytes:
        """All LDS of a wave's workgroup."""
        start = int(self.slot[wave]) * self._lds_stride
        data: bytes = self._lds.bytes[start : start + self.lds_size].tobytes()
        return data

    def pass_barrier(self, slots: Array) -> None:
        """Workgroups go on after a barrier."""
        self._signalled[slots] = False
        if self._watch is not None:
            self._watch.barrier(slots)

    def signal_barrier(self, g: Group) -> None:
        """Waves signal the barrier of their workgroup."""
        self._signalled[self.slot[g.waves]] = True

    def signal_barrier_first(self, g: Group) -> Array:
        """Waves signal the barrier of their workgroup: which are the first ones since it was passed, (waves, 1).

        Of waves that signal together, the one with the lowest number is first.

        Raises:
            NotImplementedError: a workgroup of one wave, which has no barrier that could be signalled.
        """
        slots = self.slot[g.waves]
        if (self._waves_of_slot[slots] == 1).any():
            raise NotImplementedError(
                "what SCC becomes in a workgroup of one wave, which has no barrier, is not documented"
            )
        order = np.argsort(g.waves, kind="stable")
        _, lowest = np.unique(slots[order], return_index=True)
        first = np.zeros((len(slots), 1), bool)
        first[order[lowest], 0] = True
        first[self._signalled[slots]] = False
        self.signal_barrier(g)
        return first

    def _moment(self, g: Group, kind: str = "") -> Moment | None:
        return None if self._watch is None else self._watch.begin(g, self.site, kind)

    def undefined(self, word: int) -> Array | None:
        """Undefined bits of a word of the last load from LDS or scratch."""
        return None if self._undefined is None else self._undefined[word]

    def _loaded(self, undefined: list[Array] | None) -> None:
        """Remember what a load found that nothing wrote.

        Raises:
            UndefinedLoad: the running code does not follow undefined bits.
        """
        if undefined is not None and not self.tracking:
            raise UndefinedLoad
        self._undefined = undefined

    def clock(self) -> Array:
        """A time stamp that grows with every read."""
        self._ticks += 1
        return np.full((1, 1), self._ticks, np.uint64)

    def _lanes(self, group: Group, mask: Array | None) -> int:
        return len(group.waves) * self.wave_size if mask is None else int(np.count_nonzero(mask))

    # --- global memory ---------------------------------------------------------------------------------------------

    def global_load(
        self, g: Group, low: Array, high: Array, offset: int, nbytes: int, mask: Array | None
    ) -> list[Array]:
        """Load per lane."""
        self.traffic.global_loaded += nbytes * self._lanes(g, mask)
        moment = self._moment(g, "coherent" if is_coherent(self.site) else "")
        return self.space.load(low, high, offset, nbytes, mask, moment)

    def global_store(
        self, g: Group, low: Array, high: Array, offset: int, nbytes: int, mask: Array | None, data: list[Array]
    ) -> None:
        """Store per lane."""
        self.traffic.global_stored += nbytes * self._lanes(g, mask)
        shape = (len(g.waves), self.wave_size)
        self.space.store(low, high, offset, nbytes, mask, data, shape, self._moment(g))

    def global_atomic(
        self, g: Group, low: Array, high: Array, offset: int, nbytes: int, mask: Array | None, operation: Operation
    ) -> list[Array]:
        """Atomic per lane; returns the old words."""
        self.traffic.global_stored += nbytes * self._lanes(g, mask)
        shape = (len(g.waves), self.wave_size)
        return self.space.atomic(low, high, offset, nbytes, mask, shape, operation, self._moment(g, "atomic"))

    # --- scalar memory ---------------------------------------------------------------------------------------------

    def scalar_load(self, g: Group, low: Array, high: Array, nbytes: int) -> list[Array]:
        """Load once per wave."""
        alignment = min(nbytes, 4)
        if (low & _U32(alignment - 1)).any():
            bad = (low & _U32(alignment - 1)) != 0
            raise AccessError(
                "misaligned",
                f"a scalar load of {nbytes} bytes needs an address that is a multiple of {alignment}",
                bad,
                low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32),
            )
        return self.space.load(low, high, 0, nbytes, None, self._moment(g, "scalar"))

    def scalar_buffer_load(
        self, low: Array, high: Array, stride: Array, records: Array, extra: Array | None, offset: int, nbytes: int
    ) -> list[Array]:
        """Load from a buffer resource once per wave; words outside of it are zero."""
        place = np.full((1, 1), offset, np.int64) + (0 if extra is None else extra.astype(np.int64))
        step = (stride >> _U32(16) & _U32(0x3FFF)).astype(np.int64)
        size = records.astype(np.int64) * np.where(step == 0, 1, step)
        base = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
        result = []
        unit = min(nbytes, 4)
        for k in range(max(1, nbytes // 4)):
            at = place + 4 * k
            inside = np.asarray((at >= 0) & (at + unit <= size))
            address = base + at.astype(np.uint64)
            inside, address = np.broadcast_arrays(inside, address)
            words = self.space.load(address.astype(_U32), (address >> np.uint64(32)).astype(_U32), 0, unit, inside)
            result.append(np.where(inside, words[0], _U32(0)))
        return result

    # --- LDS -------------------------------------------------------------------------------------------------------

    def _lds_place(self, g: Group, address: Array, offset: int, nbytes: int, mask: Array | None) -> Array:
        total = address + _U32(offset)  # wraps: compilers fold negative indices this way
        place = total if mask is None else np.where(mask, total, _U32(0))
        limit = self.lds_size - nbytes
        if limit < 0 or int(place.max()) > limit:
            bad = np.ones(place.shape, bool) if limit < 0 else place > _U32(limit)
            bad = bad if mask is None else bad & mask
            raise AccessError(
                "lds_out_of_range", f"{nbytes} bytes of LDS beyond the workgroup's {self.lds_size}", bad, total
            )
        base = self.slot[g.waves][:, None] * self._lds_stride
        return place + base.astype(_U32)

    def _lds_address(self, g: Group, address: Array) -> LdsAddress:
        """Kept for the last few registers: compilers load a tile through few registers and many offsets."""
        known = self._lds_addresses
        for found in known:
            if found.address is address and found.waves is g.waves:
                return found
        base = (self.slot[g.waves] * self._lds_stride).astype(_U32)[:, None]
        place = address + base
        aligned = not (address & _U32(3)).any()
        words = (place >> _U32(2)).view(np.int32).astype(np.intp) if aligned else None
        made = LdsAddress(address, g.waves, int(address.max()), place, words)
        known.insert(0, made)
        del known[_LDS_ADDRESSES:]
        return made

    def _count_banks(self, g: Group, address: Array, offset: int, nbytes: int, mask: Array | None) -> None:
        if self.banks is not None:
            self.banks.count(address + _U32(offset), nbytes, mask, (len(g.waves), self.wave_size))

    def lds_load(self, g: Group, address: Array, offset: int, nbytes: int, mask: Array | None) -> list[Array]:
        """Load from the workgroup's LDS."""
        self.traffic.lds_loaded += nbytes * self._lanes(g, mask)
        if mask is not None and not mask.any():
            self._undefined = None
            return [np.zeros((1, 1), _U32)] * max(1, nbytes // 4)
        self._count_banks(g, address, offset, nbytes, mask)
        moment = self._moment(g)
        if nbytes >= 4 and not offset & 3:
            known = self._lds_address(g, address)
            if known.words is not None and known.top + offset + nbytes <= self.lds_size:
                self._check_lds_load(moment, known.place, offset, nbytes, mask)
                first = offset // 4
                words = self._lds.words
                return [words[first + k :].take(known.words, mode="clip") for k in range(nbytes // 4)]
        place = self._lds_place(g, address, offset, nbytes, mask)
        self._check_lds_load(moment, place, 0, nbytes, mask)
        return memory.read(self._lds, place, nbytes)

    def _check_lds_load(
        self, moment: Moment | None, place: Array, offset: int, nbytes: int, mask: Array | None
    ) -> None:
        if moment is None or self._watch is None:
            return
        complete = moment.load(self._lds, place, nbytes, mask, offset)
        missing = None if complete else undefined_words(self._watch.lds, place + _U32(offset), nbytes, mask)
        self._loaded(missing)

    def lds_store(
        self, g: Group, address: Array, offset: int, nbytes: int, mask: Array | None, data: list[Array]
    ) -> None:
        """Store to the workgroup's LDS."""
        self.traffic.lds_stored += nbytes * self._lanes(g, mask)
        if mask is not None and not mask.any():
            return
        self._count_banks(g, address, offset, nbytes, mask)
        place = self._lds_place(g, address, offset, nbytes, mask)
        moment = self._moment(g)
        if moment is not None:
            moment.store(self._lds, place, nbytes, mask, data)
        memory.write(self._lds, np.broadcast_to(place, (len(g.waves), self.wave_size)), mask, nbytes, data)
        if moment is not None:
            moment.stored(self._lds, place, nbytes, mask, data)

    def lds_atomic(
        self, g: Group, address: Array, offset: int, nbytes: int, mask: Array | None, operation: Operation
    ) -> list[Array]:
        """Atomic on the workgroup's LDS; returns the old words."""
        shape = (len(g.waves), self.wave_size)
        self.traffic.lds_stored += nbytes * self._lanes(g, mask)
        result = [np.zeros(shape, _U32) for _ in range(nbytes // 4)]
        if mask is not None and not mask.any():
            return result
        self._count_banks(g, address, offset, nbytes, mask)
        lanes = np.ones(shape, bool) if mask is None else mask
        place = np.broadcast_to(self._lds_place(g, address, offset, nbytes, mask), shape)
        memory.check_alignment(place, nbytes, lanes)
        moment = self._moment(g, "atomic")
        if moment is not None and self._watch is not None:
            missing = undefined_words(self._watch.lds, place, nbytes, lanes)[0] != 0
            if missing.any():
                raise AccessError("uninitialized", "an atomic on LDS that nothing wrote", missing, place)
            moment.atomic(self._lds, place, nbytes, lanes)
        for target, old in zip(result, operation(self._lds, place[lanes], lanes), strict=True):
            target[lanes] = old
        return result

    # --- scratch ---------------------------------------------------------------------------------------------------

    def _scratch_place(self, g: Group, offset: Array, nbytes: int, mask: Array | None) -> Array:
        shape = (len(g.waves), self.wave_size)
        limit = self.scratch_size - nbytes
        bad = offset > _U32(max(limit, 0)) if limit >= 0 else np.ones(offset.shape, bool)
        if mask is not None:
            bad = bad & mask
        if bad.any():
            raise AccessError(
                "scratch_out_of_range",
                f"{nbytes} bytes beyond the work-item's {self.scratch_size} bytes of scratch",
                bad,
                offset,
            )
        lane = np.arange(self.wave_size, dtype=_U32)[None, :]
        base = (g.waves.astype(_U32)[:, None] * _U32(self.wave_size) + lane) * _U32(self._scratch_stride)
        place = base + offset
        return np.where(mask, place, _U32(0)) if mask is not None else np.broadcast_to(place, shape)

    def scratch_load(self, g: Group, offset: Array, nbytes: int, mask: Array | None) -> list[Array]:
        """Load from each work-item's scratch."""
        self.traffic.scratch += nbytes * self._lanes(g, mask)
        if mask is not None and not mask.any():
            self._undefined = None
            return [np.zeros((1, 1), _U32)] * max(1, nbytes // 4)
        place = self._scratch_place(g, offset, nbytes, mask)
        if self._watch is not None:
            self._loaded(self._missing_scratch(place, nbytes, mask))
        return memory.read(self._scratch, place, nbytes)

    def _missing_scratch(self, place: Array, nbytes: int, mask: Array | None) -> list[Array] | None:
        missing = [~self._scratch_written[place + _U32(k)] for k in range(nbytes)]
        if mask is not None:
            missing = [m & mask for m in missing]
        if not any(m.any() for m in missing):
            return None
        words = [np.zeros(place.shape, _U32) for _ in range(max(1, nbytes // 4))]
        for k, m in enumerate(missing):
            words[k // 4] |= np.where(m, _U32(0xFF << 8 * (k % 4)), _U32(0))
        return words

    def scratch_store(self, g: Group, offset: Array, nbytes: int, mask: Array | None, data: list[Array]) -> None:
        """Store to each work-item's scratch."""
        self.traffic.scratch += nbytes * self._lanes(g, mask)
        if mask is not None and not mask.any():
            return
        place = self._scratch_place(g, offset, nbytes, mask)
        memory.write(self._scratch, place, mask, nbytes, data)
        if self._watch is not None:
            here = place if mask is None else place[mask]
            for k in range(nbytes):
                self._scratch_written[here + _U32(k)] = True

    # --- flat ------------------------------------------------------------------------------------------------------

    def _flat_parts(self, g: Group, low: Array, high: Array, mask: Array | None) -> list[tuple[str, Array | None]]:
        """Lanes by the memory their address means, most common case first."""
        shape = (len(g.waves), self.wave_size)
        shared, private = high == _U32(memory.SHARED_APERTURE), high == _U32(memory.PRIVATE_APERTURE)
        parts: list[tuple[str, Array | None]] = []
        for name, lanes in (("lds", shared), ("scratch", private), ("global", ~(shared | private))):
            if not lanes.any():
                continue
            if lanes.all() and mask is None:
                return [(name, None)]
            here = np.broadcast_to(lanes, shape)
            here = here if mask is None else here & mask
            if here.any():
                parts.append((name, here))
        return parts

    def flat_load(self, g: Group, low: Array, high: Array, offset: int, nbytes: int, mask: Array | None) -> list[Array]:
        """Load from whichever memory each lane's address is in."""
        result: list[Array] | None = None
        undefined: list[Array] | None = None
        for name, here in self._flat_parts(g, low, high, mask):
            self._undefined = None
            if name == "global":
                words = self.global_load(g, low, high, offset, nbytes, here)
            elif name == "lds":
                words = self.lds_load(g, low + _U32(offset & 0xFFFFFFFF), 0, nbytes, here)
            else:
                words = self.scratch_load(g, low + _U32(offset & 0xFFFFFFFF), nbytes, here)
            if self._undefined is not None:
                parts = self._undefined
                undefined = parts if undefined is None else [a | b for a, b in zip(undefined, parts, strict=True)]
            result = (
                words
                if result is None or here is None
                else [np.where(here, w, old) for w, old in zip(words, result, strict=True)]
            )
        self._undefined = undefined
        return result if result is not None else [np.zeros((1, 1), _U32)] * max(1, nbytes // 4)

    def flat_store(
        self, g: Group, low: Array, high: Array, offset: int, nbytes: int, mask: Array | None, data: list[Array]
    ) -> None:
        """Store to whichever memory each lane's address is in."""
        for name, here in self._flat_parts(g, low, high, mask):
            if name == "global":
                self.global_store(g, low, high, offset, nbytes, here, data)
            elif name == "lds":
                self.lds_store(g, low + _U32(offset & 0xFFFFFFFF), 0, nbytes, here, data)
            else:
                self.scratch_store(g, low + _U32(offset & 0xFFFFFFFF), nbytes, here, data)

    def flat_atomic(
        self, g: Group, low: Array, high: Array, offset: int, nbytes: int, mask: Array | None, operation: Operation
    ) -> list[Array]:
        """Atomic on whichever memory each lane's address is in."""
        result: list[Array] | None = None
        for name, here in self._flat_parts(g, low, high, mask):
            if name == "global":
                words = self.global_atomic(g, low, high, offset, nbytes, here, operation)
            elif name == "lds":
                words = self.lds_atomic(g, low + _U32(offset & 0xFFFFFFFF), 0, nbytes, here, operation)
            else:
                bad = np.ones((1, 1), bool)
                raise AccessError("out_of_bounds", "an atomic on scratch memory", bad, int(low.flat[0]))
            result = words if result is None else [a | b for a, b in zip(result, words, strict=True)]
        return result if result is not None else [np.zeros((1, 1), _U32)] * (nbytes // 4)
