"""Device memory: a 64-bit address space of separate buffers, and vectorized loads and stores over all lanes.

Every mapped segment lives in a 4 GiB window of its own and starts 16 MiB into it, so that any address outside of it
(up to gigabytes away, on both sides) hits nothing: the whole rest of the window is a red zone. It also means that
the high address word selects the segment and the low word the place, with no carry between the two for any
instruction offset (at most 24 bits signed).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

WINDOW_START = 0x0100_0000
MAX_SEGMENT = 0xFE00_0000
SHARED_APERTURE, PRIVATE_APERTURE = 0x0001_0000, 0x0002_0000
"""High address words that mean LDS and scratch in flat addressing (the value of src_shared_base, src_private_base)."""

_FIRST_WINDOW = 0x0100


class AccessError(Exception):
    """An access that hits no mapped memory or is misaligned.

    Attributes:
        kind, reason: for the fault record.
        rows, lanes: position of the offending accesses in the group's arrays.
        address: the first offending address.
    """

    def __init__(self, kind: str, reason: str, bad: Array | None = None, address: Array | int | None = None) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.row = self.lane = None
        self.address: int | None = None
        if bad is not None and bad.any():
            row, lane = np.argwhere(bad)[0]
            self.row, self.lane = int(row), int(lane)
            if isinstance(address, np.ndarray):
                wide = np.broadcast_to(address, bad.shape)
                self.address = int(wide[row, lane])
            else:
                self.address = address
        elif isinstance(address, np.ndarray):
            self.address = int(address.flat[0])
        else:
            self.address = address


class Segment:
    """One mapped buffer: base address, bytes, and word views of them."""

    __slots__ = ("base", "bytes", "name", "shorts", "size", "words", "writable")

    def __init__(self, base: int, data: Array, name: str, writable: bool) -> None:
        self.base = base
        self.size = data.size
        self.name = name
        self.writable = writable
        self.place(data)

    def place(self, data: Array) -> None:
        """Keep the contents in other memory of the same size."""
        self.bytes = data
        self.words = data[: data.size & ~3].view(np.uint32)
        self.shorts = data[: data.size & ~1].view(np.uint16)


class Space(Protocol):
    """Byte-addressed memory behind flat indices: a segment, LDS or scratch."""

    bytes: Array
    words: Array
    shorts: Array


class Watched(Protocol):
    """Somebody who keeps book of accesses, piece by piece (see `races`)."""

    def load(self, space: Space, place: Array, nbytes: int, mask: Array | None) -> bool:
        """Before lanes read; whether all of it has been written."""

    def store(self, space: Space, place: Array, nbytes: int, mask: Array | None, data: list[Array]) -> None:
        """Before lanes store."""

    def stored(self, space: Space, place: Array, nbytes: int, mask: Array | None, data: list[Array]) -> None:
        """After lanes have stored."""

    def atomic(self, space: Space, place: Array, nbytes: int, mask: Array) -> None:
        """Before lanes do atomics."""


_ARANGE: dict[int, Array] = {}


def contiguous(index: Array) -> int:
    """The first index if the elements are consecutive numbers in order, else -1."""
    n = index.size
    if n < 64:
        return -1
    first = int(index[0, 0])
    if int(index[-1, -1]) - first != n - 1 or int(index[0, 1 % index.shape[1]]) - first != 1:
        return -1
    ramp = _ARANGE.get(n)
    if ramp is None:
        if len(_ARANGE) > 16:
            _ARANGE.clear()
        ramp = _ARANGE[n] = np.arange(n, dtype=np.uint32)
    if not index.flags.c_contiguous:
        return -1
    return first if bool((index.reshape(-1) == ramp + np.uint32(first)).all()) else -1


def _positions(offset: Array) -> Array:
    """Word numbers of byte offsets in the type that indexing takes without converting; they are below 2^30."""
    result: Array = (offset >> np.uint32(2)).view(np.int32).astype(np.intp)
    return result


def _take_words(words: Array, offset: Array) -> Array:
    start = contiguous(offset >> np.uint32(2))
    if start >= 0:
        return words[start : start + offset.size].reshape(offset.shape).copy()
    result: Array = words.take(_positions(offset), mode="clip")  # in range already: the check would cost as much
    return result


def read(space: Space, offset: Array, nbytes: int) -> list[Array]:
    """Gather little-endian words at byte offsets already known to be in range.

    Returns uint32 arrays of the offsets' shape: one zero-extended word for 1 and 2 bytes, else `nbytes / 4` words.
    """
    if nbytes == 1:
        return [space.bytes[offset].astype(np.uint32)]
    if nbytes == 2:
        if not (offset & np.uint32(1)).any():
            return [space.shorts[offset >> np.uint32(1)].astype(np.uint32)]
        low, high = space.bytes[offset], space.bytes[offset + np.uint32(1)]
        return [low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(8)]
    count = nbytes // 4
    if not (offset & np.uint32(3)).any():
        if count == 1:
            return [_take_words(space.words, offset)]
        index = _positions(offset)
        return [space.words.take(index + k, mode="clip") for k in range(count)]
    result = []
    for k in range(count):
        word = space.bytes[offset + np.uint32(4 * k)].astype(np.uint32)
        for byte in range(1, 4):
            word |= space.bytes[offset + np.uint32(4 * k + byte)].astype(np.uint32) << np.uint32(8 * byte)
        result.append(word)
    return result


def write(space: Space, offset: Array, mask: Array | None, nbytes: int, data: list[Array]) -> None:
    """Scatter words; among lanes that hit the same place the last one in wave and lane order wins.

    Args:
        offset: byte offsets in range, uint32; must have the full (waves, lanes) shape.
        mask: lanes that store, or None for all.
        nbytes: 1, 2 or a multiple of 4 bytes per lane.
        data: uint32 arrays that broadcast to the shape, one per word.
    """
    shape = offset.shape
    if mask is not None:
        offset = offset[mask]
        if not offset.size:
            return

    def values(word: Array) -> Array:
        wide = word if word.shape == shape else np.broadcast_to(word, shape)
        return wide if mask is None else wide[mask]

    if nbytes == 1:
        space.bytes[offset] = values(data[0])  # uint32 to uint8 keeps the low byte
        return
    if nbytes == 2:
        word = values(data[0])
        if not (offset & np.uint32(1)).any():
            space.shorts[offset >> np.uint32(1)] = word
        else:
            space.bytes[offset] = word
            space.bytes[offset + np.uint32(1)] = word >> np.uint32(8)
        return
    if not (offset & np.uint32(3)).any():
        if len(data) == 1 and offset.ndim == 2:
            start = contiguous(offset >> np.uint32(2))
            if start >= 0:
                space.words[start : start + offset.size] = values(data[0]).reshape(-1)
                return
        index = _positions(offset)
        for k, word in enumerate(data):
            space.words[index + k if k else index] = values(word)
        return
    for k, word in enumerate(data):
        word = values(word)
        for byte in range(4):
            space.bytes[offset + np.uint32(4 * k + byte)] = word >> np.uint32(8 * byte)


class AddressSpace:
    """The segments by address window."""

    def __init__(self) -> None:
        self._windows: dict[int, Segment] = {}
        self._next = _FIRST_WINDOW

    def map(self, data: Array, name: str, writable: bool = True, offset: int = 0) -> Segment:
        """Map a one-dimensional uint8 array (not copied) at a new address.

        Args:
            offset: distance of the data's first byte from the window's usual start; the code object's image keeps
                its own addresses this way.
        """
        if data.size > MAX_SEGMENT - offset:
            raise ValueError(f"{name}: {data.size} bytes are more than the emulator maps in one piece ({MAX_SEGMENT})")
        base = (self._next << 32) + WINDOW_START + offset
        self._next += 1
        segment = self._windows[base >> 32] = Segment(base, data, name, writable)
        return segment

    def describe(self, address: int) -> str:
        """What is near an address, for messages."""
        segment = self._windows.get(address >> 32)
        if segment is None:
            return "no buffer is near"
        if address >= segment.base + segment.size:
            return (
                f"{address - segment.base - segment.size} bytes past the end of {segment.name} ({segment.size} bytes)"
            )
        if address < segment.base:
            return f"{segment.base - address} bytes before {segment.name}"
        return f"{address - segment.base} bytes into {segment.name} ({segment.size} bytes)"

    def segments(self) -> list[Segment]:
        """Everything that is mapped."""
        return list(self._windows.values())

    def peek(self, address: int, size: int) -> bytes:
        """Bytes at an address.

        Raises:
            AccessError: they are not all in one buffer.
        """
        segment = self._windows.get(address >> 32)
        start = 0 if segment is None else address - segment.base
        if segment is None or not 0 <= start <= segment.size - size:
            raise AccessError(
                "out_of_bounds", f"{size} bytes outside every buffer: {self.describe(address)}", None, address
            )
        data: bytes = segment.bytes[start : start + size].tobytes()
        return data

    def _segment(self, high: int, low: Array, offset: int, nbytes: int, mask: Array | None) -> tuple[Segment, Array]:
        segment = self._windows.get(high)
        if segment is None:
            bad = (
                np.ones(low.shape, bool)
                if mask is None
                else np.broadcast_to(mask, np.broadcast_shapes(low.shape, mask.shape))
            )
            address = low.astype(np.uint64) + np.uint64((high << 32) + offset & (1 << 64) - 1)
            raise AccessError("out_of_bounds", "the address is not mapped: no buffer is near", bad, address)
        place = low + np.uint32(offset - (segment.base & 0xFFFFFFFF) & 0xFFFFFFFF)
        if mask is not None:
            place = np.where(mask, place, np.uint32(0))
        # Both sides at once: a place before the buffer has wrapped around to a huge one.
        if segment.size < nbytes or int(place.max()) > segment.size - nbytes:
            bad = place > max(segment.size - nbytes, -1) if segment.size >= nbytes else np.ones(place.shape, bool)
            if mask is not None:
                bad = bad & mask
            if bad.any():
                address = low.astype(np.uint64) + np.uint64((high << 32) + offset & (1 << 64) - 1)
                error = AccessError("out_of_bounds", "", bad, address)
                error.reason = (
                    f"the access of {nbytes} bytes is outside every buffer: {self.describe(error.address or 0)}"
                )
                raise error
        return segment, place

    def pieces(
        self, low: Array, high: Array, offset: int, nbytes: int, mask: Array | None
    ) -> Iterator[tuple[Segment, Array, Array | None]]:
        """Resolve addresses to segments.

        Yields (segment, byte offsets, lanes) with every active lane in exactly one piece; lanes is None when
        all lanes are. Offsets of lanes that are not in the piece are valid but meaningless.

        Raises:
            AccessError: an active lane's address is outside every buffer.
        """
        if mask is None:
            first = int(high.flat[0])
            uniform = high.size == 1 or bool((high == high.flat[0]).all())
        else:
            wide = np.broadcast_to(high, np.broadcast_shapes(high.shape, mask.shape))
            active = wide[mask] if high.size > 1 else high
            if not mask.any():
                return
            first = int(active.flat[0])
            uniform = bool((active == active.flat[0]).all())
        if uniform:
            segment, place = self._segment(first, low, offset, nbytes, mask)
            yield segment, place, mask
            return
        wide = np.broadcast_to(high, np.broadcast_shapes(high.shape, low.shape))
        values = np.unique(wide if mask is None else wide[mask] if mask.shape == wide.shape else wide)
        for value in values.tolist():
            here = wide == np.uint32(value) if mask is None else (wide == np.uint32(value)) & mask
            segment, place = self._segment(value, low, offset, nbytes, here)
            yield segment, place, here

    def load(
        self, low: Array, high: Array, offset: int, nbytes: int, mask: Array | None, watched: Watched | None = None
    ) -> list[Array]:
        """Gather `nbytes` per lane from `high:low + offset`; inactive lanes read as unspecified values."""
        result: list[Array] | None = None
        for segment, place, here in self.pieces(low, high, offset, nbytes, mask):
            if watched is not None and segment.writable:
                watched.load(segment, place, nbytes, here)
            words = read(segment, place, nbytes)
            if result is None or here is None:
                result = words
            else:
                result = [np.where(here, w, old) for w, old in zip(words, result, strict=True)]
        return result if result is not None else [np.zeros((1, 1), np.uint32)] * max(1, nbytes // 4)

    def store(
        self,
        low: Array,
        high: Array,
        offset: int,
        nbytes: int,
        mask: Array | None,
        data: list[Array],
        shape: tuple[int, int],
        watched: Watched | None = None,
    ) -> None:
        """Scatter `nbytes` per lane to `high:low + offset`."""
        for segment, place, here in self.pieces(low, high, offset, nbytes, mask):
            if not segment.writable:
                raise AccessError(
                    "out_of_bounds",
                    f"{segment.name} is read-only",
                    np.ones(shape, bool) if here is None else here,
                    segment.base,
                )
            if watched is not None:
                watched.store(segment, place, nbytes, here, data)
            write(segment, np.broadcast_to(place, shape), here, nbytes, data)
            if watched is not None:
                watched.stored(segment, place, nbytes, here, data)

    def atomic(
        self,
        low: Array,
        high: Array,
        offset: int,
        nbytes: int,
        mask: Array | None,
        shape: tuple[int, int],
        operation: Callable[[Space, Array, Array], list[Array]],
        watched: Watched | None = None,
    ) -> list[Array]:
        """Run an atomic over the active lanes in wave and lane order.

        `operation(space, offsets, lanes)` gets flat offsets and the lane mask, and returns the old words, flat.
        """
        count = nbytes // 4
        result = [np.zeros(shape, np.uint32) for _ in range(count)]
        for segment, place, here in self.pieces(low, high, offset, nbytes, mask):
            lanes = np.ones(shape, bool) if here is None else np.broadcast_to(here, shape)
            wide = np.broadcast_to(place, shape)
            check_alignment(wide, nbytes, lanes, np.uint64(segment.base))
            if not segment.writable:
                raise AccessError("out_of_bounds", f"{segment.name} is read-only", lanes, segment.base)
            if watched is not None:
                watched.atomic(segment, wide, nbytes, lanes)
            for target, old in zip(result, operation(segment, wide[lanes], lanes), strict=True):
                target[lanes] = old
        return result


def check_alignment(offset: Array, nbytes: int, lanes: Array, base: Any = 0) -> None:
    """Atomics need natural alignment.

    Raises:
        AccessError: an active lane's offset is not a multiple of `nbytes`.
    """
    bad = ((offset & np.uint32(nbytes - 1)) != 0) & lanes
    if bad.any():
        raise AccessError(
            "misaligned",
            f"an atomic of {nbytes} bytes needs an address that is a multiple of {nbytes}",
            bad,
            offset.astype(np.uint64) + base,
        )
