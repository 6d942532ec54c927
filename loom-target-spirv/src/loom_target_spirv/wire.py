"""Frames between the Vulkan runner and its child process.

A frame is a fixed head (magic, lengths), a JSON object and raw bytes.  Nothing in it can make the receiver
execute code.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

_HEAD = struct.Struct("<4sIQ")
_MAGIC = b"LVK1"
_JSON_LIMIT = 1 << 24


class ProtocolError(RuntimeError):
    """The other side sent something that is no frame."""


def write_frame(
    stream: BinaryIO, record: Mapping[str, object], payload: Sequence[bytes | memoryview] = ()
) -> None:
    """Write a frame; `payload` parts are sent one after the other as one run of bytes.

    Raises OSError when the pipe is closed.
    """
    text = json.dumps(record).encode()
    parts = [memoryview(part).cast("B") for part in payload if len(part)]
    stream.write(_HEAD.pack(_MAGIC, len(text), sum(part.nbytes for part in parts)))
    stream.write(text)
    for part in parts:
        stream.write(part)
    stream.flush()


def read_frame(stream: BinaryIO) -> tuple[dict[str, Any], bytearray] | None:
    """The next frame, or None when the stream ended between frames.

    Raises ProtocolError when the stream ends inside a frame or does not hold one.
    """
    head = _read(stream, _HEAD.size)
    if not head:
        return None
    if len(head) < _HEAD.size:
        raise ProtocolError("the stream ended inside a frame")
    magic, text_size, payload_size = _HEAD.unpack(head)
    if magic != _MAGIC or text_size > _JSON_LIMIT:
        raise ProtocolError("the stream does not hold a frame")
    text, payload = _read(stream, text_size), _read(stream, payload_size)
    if len(text) < text_size or len(payload) < payload_size:
        raise ProtocolError("the stream ended inside a frame")
    record = json.loads(text)
    if not isinstance(record, dict):
        raise ProtocolError("the record of a frame is no object")
    return record, payload


def _read(stream: BinaryIO, size: int) -> bytearray:
    """Up to `size` bytes; fewer only at the end of the stream."""
    data = bytearray(size)
    view, filled = memoryview(data), 0
    while filled < size:
        count = stream.readinto(view[filled:])  # type: ignore[attr-defined]
        if not count:
            break
        filled += count
    view.release()
    del data[filled:]
    return data
