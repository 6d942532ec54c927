"""The simulated address space: code, stack, argument blocks and buffers, each between unmapped pages.

A buffer ends as close to an unmapped page as its alignment allows, and the mapped bytes around it are
watched, so every access outside a buffer is caught, however small the step.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

PAGE = 4096
BUFFER_ALIGNMENT = 64
MAX_ACCESS = 16  # bytes; the widest access of an SSE instruction

STOP = 0x0000_0100_0000
ROUTINES = 0x0000_0200_0000
IMAGE = 0x0000_1000_0000
BUFFERS = 0x2000_0000_0000
BLOCK = 0x6000_0000_0000
DISPATCH = 0x6100_0000_0000
STACK_TOP = 0x7000_0000_0000
STACK_SIZE = 1 << 20

# Unmapped space after each buffer; large, so that a wild index rarely reaches a neighbour.
_GAP = 1 << 24


def pages(size: int) -> int:
    """`size` rounded up to whole pages, at least one."""
    return max(1, -(-size // PAGE)) * PAGE


@frozen
class Region:
    """A mapped buffer: pages `[base, base + length)`, data from `start`, `size` bytes long."""

    number: int
    base: int
    length: int
    start: int
    size: int

    def watched(self) -> list[tuple[int, int]]:
        """Inclusive address ranges in which an access may reach outside the data."""
        ranges = []
        if self.start > self.base:
            ranges.append((self.base, self.start - 1))
        end = self.start + self.size
        ranges.append((max(self.start, end - MAX_ACCESS + 1), self.base + self.length - 1))
        return ranges


class BufferSpace:
    """Maps argument buffers for one run and copies them back."""

    def __init__(self, uc: Any) -> None:
        self._uc = uc
        self._next = BUFFERS
        self.regions: list[Region] = []

    def add(self, data: memoryview) -> Region:
        """Map one buffer; an empty one gets an address where nothing is mapped."""
        length = 0 if len(data) == 0 else pages(len(data))
        offset = (length - len(data)) // BUFFER_ALIGNMENT * BUFFER_ALIGNMENT
        region = Region(len(self.regions), self._next, length, self._next + offset, len(data))
        if length:
            self._uc.mem_map(region.base, length)
            self._uc.mem_write(region.start, bytes(data))
        self.regions.append(region)
        self._next += length + _GAP + -length % _GAP
        return region

    def read(self, region: Region) -> bytes:
        """The data as it is now."""
        return bytes(self._uc.mem_read(region.start, region.size)) if region.size else b""

    def nearest(self, address: int) -> Region | None:
        """The buffer whose pages or following gap contain the address; also the one just after it."""
        for region in self.regions:
            if region.base - PAGE <= address < region.base + region.length + _GAP:
                return region
        return None

    def clear(self) -> None:
        """Unmap everything."""
        for region in self.regions:
            if region.length:
                self._uc.mem_unmap(region.base, region.length)
        self.regions.clear()
        self._next = BUFFERS
