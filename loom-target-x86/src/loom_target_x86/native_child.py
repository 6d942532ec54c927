"""The child process in which the native runner executes machine code.

Started as `python -m loom_target_x86.native_child`.

It serves requests from its standard input until that closes. A crash of the code it runs ends this process
and nothing else. It imports the standard library only, so that it starts quickly.

Messages in both directions: length of the rest (u32, little-endian), one byte of kind, payload.

| kind | payload |
|---|---|
| `L` load | code size u64, offset of the data u64, number of base fixups u32, fixups u64 each, bytes |
| `C` call | `RUN`, block, fixups, then each buffer: its size u64 and bytes |
| `G` launch | `RUN`, block, fixups, dispatch block, buffers |
| `K` loaded | image number u32 |
| `R` done | block, buffers as after the run |
| `B` wrote next to a buffer | text |
| `E` error | text |
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import struct
import sys
from typing import BinaryIO

HEADER = struct.Struct("<IB")
LOAD = struct.Struct("<QQI")
RUN = struct.Struct("<IQIQIII")  # routine image, offset; entry image, offset; block size, fixups, buffers
FIXUP = struct.Struct("<II")  # offset in the block, buffer number
SIZE = struct.Struct("<Q")

#: Buffers start at a multiple of this and end within as many bytes of an inaccessible page.
BUFFER_ALIGNMENT = 64
CANARY = 0xA5

_PAGE = mmap.PAGESIZE
_PR_SET_PDEATHSIG = 1


class _Memory:
    """Anonymous pages with an inaccessible page on either side."""

    def __init__(self, libc: ctypes.CDLL, size: int) -> None:
        self.length = -(-max(size, 1) // _PAGE) * _PAGE
        self.map = mmap.mmap(-1, self.length + 2 * _PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._anchor = ctypes.c_char.from_buffer(self.map)
        self.base = ctypes.addressof(self._anchor) + _PAGE
        self._libc = libc
        self.protect(-_PAGE, _PAGE, 0)
        self.protect(self.length, _PAGE, 0)

    def protect(self, offset: int, size: int, protection: int) -> None:
        address = ctypes.c_void_p(self.base + offset)
        if size and self._libc.mprotect(address, ctypes.c_size_t(size), ctypes.c_int(protection)) != 0:
            raise OSError(ctypes.get_errno(), "mprotect failed")

    def write(self, offset: int, data: bytes | memoryview) -> None:
        self.map[_PAGE + offset : _PAGE + offset + len(data)] = data

    def read(self, offset: int, size: int) -> bytes:
        return self.map[_PAGE + offset : _PAGE + offset + size]

    def close(self) -> None:
        del self._anchor
        self.map.close()


class _Buffer:
    """A buffer as close to the end of its pages as its alignment allows, the slack filled with canaries."""

    def __init__(self, libc: ctypes.CDLL, data: memoryview) -> None:
        self.size = len(data)
        self.memory = _Memory(libc, self.size)
        self.offset = (self.memory.length - self.size) // BUFFER_ALIGNMENT * BUFFER_ALIGNMENT
        self.tail = self.memory.length - self.offset - self.size
        if self.size == 0:
            # The address of nothing: the first access faults.
            self.offset = self.memory.length
            return
        self.memory.write(0, bytes((CANARY,)) * self.offset)
        self.memory.write(self.offset, data)
        self.memory.write(self.offset + self.size, bytes((CANARY,)) * self.tail)

    @property
    def address(self) -> int:
        return self.memory.base + self.offset

    def damaged(self) -> bool:
        """True when something outside the buffer was overwritten."""
        if self.size == 0:
            return False
        around = self.memory.read(0, self.offset) + self.memory.read(self.offset + self.size, self.tail)
        return around.count(CANARY) != len(around)


class OutsideBuffer(Exception):
    """The code wrote next to a buffer."""


class _Server:
    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._images: list[_Memory] = []
        # Also when the parent is killed while the code below is in an endless loop.
        self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    def serve(self) -> None:
        while True:
            header = self._source.read(HEADER.size)
            if len(header) < HEADER.size:
                return
            size, kind = HEADER.unpack(header)
            payload = memoryview(self._source.read(size - 1))
            try:
                if kind == ord("L"):
                    self._reply("K", struct.pack("<I", self._load(payload)))
                elif kind in (ord("C"), ord("G")):
                    self._reply("R", *self._run(payload, launch=kind == ord("G")))
                else:
                    self._reply("E", f"unknown request {kind}".encode())
            except OutsideBuffer as error:
                self._reply("B", str(error).encode())
            except (OSError, ValueError, struct.error) as error:
                self._reply("E", str(error).encode())

    def _reply(self, kind: str, *parts: bytes) -> None:
        self._sink.write(HEADER.pack(1 + sum(map(len, parts)), ord(kind)))
        for part in parts:
            self._sink.write(part)
        self._sink.flush()

    def _load(self, payload: memoryview) -> int:
        text_size, data_offset, count = LOAD.unpack_from(payload)
        at = LOAD.size
        fixups = struct.unpack_from(f"<{count}Q", payload, at)
        data = bytearray(payload[at + 8 * count :])
        memory = _Memory(self._libc, len(data))
        for offset in fixups:
            (value,) = struct.unpack_from("<Q", data, offset)
            struct.pack_into("<Q", data, offset, (value + memory.base) & (1 << 64) - 1)
        memory.write(0, bytes(data))
        # Never writable and executable at once; the data after the code is neither.
        code_pages = -(-text_size // _PAGE) * _PAGE
        memory.protect(0, code_pages, mmap.PROT_READ | mmap.PROT_EXEC)
        memory.protect(data_offset, memory.length - data_offset, mmap.PROT_READ)
        self._images.append(memory)
        return len(self._images) - 1

    def _run(self, payload: memoryview, *, launch: bool) -> list[bytes]:
        routine_image, routine, entry_image, entry, block_size, fixup_count, buffer_count = RUN.unpack_from(payload)
        at = RUN.size
        block = bytearray(payload[at : at + block_size])
        at += block_size
        fixups = [FIXUP.unpack_from(payload, at + FIXUP.size * number) for number in range(fixup_count)]
        at += FIXUP.size * fixup_count
        dispatch = bytearray(36)
        if launch:
            dispatch = bytearray(payload[at : at + 36])
            at += 36
        buffers: list[_Buffer] = []
        for _number in range(buffer_count):
            (size,) = SIZE.unpack_from(payload, at)
            at += SIZE.size
            buffers.append(_Buffer(self._libc, payload[at : at + size]))
            at += size
        memory = _Memory(self._libc, len(block))
        for offset, buffer in fixups:
            # No buffer means the block itself (the hidden result struct of a call).
            address = buffers[buffer].address if buffer < buffer_count else memory.base
            address += struct.unpack_from("<Q", block, offset)[0]
            struct.pack_into("<Q", block, offset, address)
        target = self._images[entry_image].base + entry
        code = self._images[routine_image].base + routine
        if launch:
            memory.write(0, bytes(block))
            grid = _Memory(self._libc, len(dispatch))
            grid.write(0, bytes(dispatch))
            function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(code)
            function(target, memory.base, grid.base)
            grid.close()
        else:
            struct.pack_into("<Q", block, 0, target)
            memory.write(0, bytes(block))
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code)(memory.base)
        damaged = [number for number, buffer in enumerate(buffers) if buffer.damaged()]
        results = [memory.read(0, block_size)] + [buffer.memory.read(buffer.offset, buffer.size) for buffer in buffers]
        memory.close()
        for buffer in buffers:
            buffer.memory.close()
        if damaged:
            raise OutsideBuffer(f"the code wrote outside buffer {damaged[0]}")
        return results


def main() -> None:
    """Serve requests; the standard streams are moved out of reach of the code that runs here."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    with open(source, "rb") as requests, open(sink, "wb") as answers:
        _Server(requests, answers).serve()
    sys.exit(0)


if __name__ == "__main__":
    main()
