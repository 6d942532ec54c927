"""Storage: a block of bytes with an identity, and what is known about each byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from loom.evaluate.races import RaceDetector

Bytes = npt.NDArray[np.uint8]


class Storage:
    """One allocation: bytes, and for fresh scratch which of them have been written.

    ``space`` is the memory space word. ``data`` are the bytes (``uint8[size]``); scratch of several instances (one
    per lane or per workgroup) lies in one array. ``written`` (``bool[size]``) is ``None`` when every byte has a value
    from the start. ``address`` is the storage's notional address: what alignment is judged by. ``races`` watches
    accesses of storage that work-items share. ``transfers`` tells for each kind of access which pending transfer may
    still make it to each byte (``int32[size]``, its number + 1, or 0 for none). ``ended`` says why nobody may access
    the bytes through this storage any more; it is empty until then.
    """

    __slots__ = ("__weakref__", "address", "data", "ended", "races", "space", "transfers", "typed", "written")

    def __init__(
        self, space: str, data: Bytes, *, address: int = 0, fresh: bool = False, races: RaceDetector | None = None
    ) -> None:
        self.space = space
        self.data = data
        self.address = address
        self.ended = ""
        self.written: npt.NDArray[np.bool_] | None = np.zeros(data.size, dtype=np.bool_) if fresh else None
        self.races = races
        self.transfers: dict[str, npt.NDArray[np.int32]] = {}
        self.typed: dict[np.dtype[Any], npt.NDArray[Any]] = {}

    def elements(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """The bytes read as elements of a type (a trailing part that does not fill one is left out)."""
        found = self.typed.get(dtype)
        if found is None:
            size = self.data.size - self.data.size % dtype.itemsize
            found = self.typed[dtype] = self.data[:size].view(dtype)
        return found

    def load(self, addresses: npt.NDArray[np.int64], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Gather elements at byte offsets (any shape). Offsets must be in range; any alignment will do."""
        size = dtype.itemsize
        if size == 1 or not (addresses % size).any():
            return np.asarray(self.elements(dtype)[addresses // size])
        gathered = self.data[addresses[..., None] + np.arange(size)]
        return np.ascontiguousarray(gathered).view(dtype)[..., 0]

    def store(self, addresses: npt.NDArray[np.int64], values: npt.NDArray[Any]) -> None:
        """Scatter elements to byte offsets of the same shape; of equal offsets the last one wins."""
        size = values.dtype.itemsize
        if size == 1 or not (addresses % size).any():
            self.elements(values.dtype)[addresses // size] = values
        else:
            raw = np.ascontiguousarray(values)[..., None].view(np.uint8)
            self.data[addresses[..., None] + np.arange(size)] = raw
        if self.written is not None:
            self.written[addresses[..., None] + np.arange(size)] = True

    def forget(self, addresses: npt.NDArray[np.int64], size: int) -> None:
        """Elements of ``size`` bytes hold nothing defined from now on, where the storage keeps account of that."""
        if self.written is not None:
            self.written[addresses[..., None] + np.arange(size)] = False

    def transfer_marks(self, access: str) -> npt.NDArray[np.int32]:
        """The marks of pending transfers that make a kind of access."""
        found = self.transfers.get(access)
        if found is None:
            found = self.transfers[access] = np.zeros(self.data.size, dtype=np.int32)
        return found

    def unwritten(self, addresses: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.bool_] | None:
        """Which elements of ``size`` bytes hold a byte that was never written; ``None`` when there is none."""
        if self.written is None:
            return None
        if size > 1 and not (addresses % size).any():
            # Every byte of the element is marked with 1 exactly when the element reads as 0x01...01.
            marks = self.written[: self.written.size - self.written.size % size].view(f"u{size}")
            known = marks[addresses // size] == int.from_bytes(b"\x01" * size, "little")
        else:
            known = self.written[addresses[..., None] + np.arange(size)].all(axis=-1)
        return None if known.all() else ~known
