"""The values that cross a call: their sizes and their bytes in memory."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

_INTEGERS = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "index": 8, "offset": 8}
_FLOATS = {"f16": ("e", 2), "bf16": ("", 2), "f32": ("f", 4), "f64": ("d", 8)}
_VECTOR = re.compile(r"vector<(\d+)x(\w+)>$")


class AbiError(ValueError):
    """A type or value that the calling convention has no place for."""


def value_size(type_name: str) -> int:
    """Size in bytes of a value in memory. Raises `AbiError` for a type that cannot be passed."""
    if type_name == "buffer":
        return 8
    if type_name in _INTEGERS:
        return _INTEGERS[type_name]
    if type_name in _FLOATS:
        return _FLOATS[type_name][1]
    match = _VECTOR.match(type_name)
    if match is not None and match[2] in {**_INTEGERS, **_FLOATS} and match[2] != "i1":
        size = int(match[1]) * value_size(match[2])
        if size in (8, 16):
            return size
    raise AbiError(f"a value of type {type_name} cannot be passed on x86")


def is_vector_class(type_name: str) -> bool:
    """True for values that travel in vector registers."""
    return type_name in _FLOATS or type_name.startswith("vector<")


def pack_value(type_name: str, value: object) -> bytes:
    """The bytes of a scalar or vector in memory.

    Accepts Python (or NumPy) numbers, sequences of them for vectors, and `bytes` of the right size as raw
    bits.
    Integers may be given signed or unsigned. Raises `AbiError` when the value does not fit.
    """
    size = value_size(type_name)
    if isinstance(value, bytes):
        if len(value) != size:
            raise AbiError(f"{type_name} takes {size} bytes, not {len(value)}")
        return value
    match = _VECTOR.match(type_name)
    if match is not None:
        if not isinstance(value, Sequence) or len(value) != int(match[1]):
            raise AbiError(f"{type_name} takes a sequence of {match[1]} numbers")
        return b"".join(pack_value(match[2], element) for element in value)
    try:
        if type_name in _FLOATS:
            if isinstance(value, str):
                raise TypeError
            number = float(value)  # type: ignore[arg-type]
            if type_name == "bf16":
                return _round_to_bf16(number)
            return struct.pack("<" + _FLOATS[type_name][0], number)
        # NumPy's truth values are no indices.
        integer = int(value) if type_name == "i1" else value.__index__()  # type: ignore[attr-defined,call-overload]
        if integer != value:
            raise TypeError
    except (TypeError, AttributeError):
        raise AbiError(f"{type_name} takes a number, not {value!r}") from None
    except OverflowError:
        raise AbiError(f"{value!r} does not fit {type_name}") from None
    bits = 1 if type_name == "i1" else size * 8
    if not -(1 << (bits - 1)) <= integer < 1 << bits:
        raise AbiError(f"{value!r} does not fit {type_name}")
    return int(integer & ((1 << bits) - 1)).to_bytes(size, "little")


def unpack_value(type_name: str, data: bytes) -> int | float | bool | tuple[int | float | bool, ...]:
    """A Python value from its bytes; integers come out signed, `i1` as bool."""
    match = _VECTOR.match(type_name)
    if match is not None:
        step = value_size(match[2])
        elements = [
            unpack_value(match[2], data[at : at + step]) for at in range(0, value_size(type_name), step)
        ]
        return tuple(element for element in elements if not isinstance(element, tuple))
    data = data[: value_size(type_name)]
    if type_name == "i1":
        return bool(data[0] & 1)
    if type_name == "bf16":
        return float(struct.unpack("<f", b"\0\0" + data)[0])
    if type_name in _FLOATS:
        return float(struct.unpack("<" + _FLOATS[type_name][0], data)[0])
    return int.from_bytes(data, "little", signed=True)


def _round_to_bf16(number: float) -> bytes:
    """Nearest even, through the f32 bits rounded to odd first so that it rounds once."""
    if number != number:
        return struct.pack("<H", 0x7FC0)
    try:
        single = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        single = float("inf") if number > 0 else float("-inf")
    bits = int(struct.unpack("<I", struct.pack("<f", single))[0])
    if single != number and abs(single) != float("inf"):
        if abs(single) > abs(number):
            bits -= 1
        bits |= 1
    return struct.pack("<H", ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF)
