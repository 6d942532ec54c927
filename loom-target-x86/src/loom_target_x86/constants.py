"""Read-only constants of generated code: the symbol's name is the contents.

`const32_3f800000` is the four bytes of the number 0x3f800000, little-endian; `data16_00010203` are bytes in their order
that begin at a multiple of 16. A function that names such a symbol needs nothing else to be assembled, so Low text with
constants in it can be read back and compiled.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from loom_target_x86.object import Constant

_NAME: Final = re.compile(r"const(32|64)_([0-9a-f]{8}|[0-9a-f]{16})$")
_DATA: Final = re.compile(r"data([1-9][0-9]*)_((?:[0-9a-f]{2})*)$")


def constant_symbol(bits: int, width: int) -> str:
    """The symbol of a 32- or 64-bit pattern."""
    return f"const{width}_{bits:0{width // 4}x}"


def data_symbol(data: bytes, alignment: int) -> str:
    """The symbol of constant data."""
    return f"data{alignment}_{data.hex()}"


def constant_of_symbol(name: str) -> Constant | None:
    """The constant that a symbol names; None for any other symbol."""
    if data := _DATA.match(name):
        return Constant(name, bytes.fromhex(data[2]), int(data[1]))
    match = _NAME.match(name)
    if match is None or len(match[2]) * 4 != int(match[1]):
        return None
    size = int(match[1]) // 8
    return Constant(name, int(match[2], 16).to_bytes(size, "little"), size)


def float_bits(value: float, width: int) -> int:
    """The pattern of a number rounded to f32 or f64; too large becomes infinity."""
    if width == 64:
        return int.from_bytes(struct.pack("<d", value), "little")
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return 0x7F800000 if value > 0 else 0xFF800000
