"""Sequences of unsigned integers in LEB128, converted whole sequences at a time.

Most integers of a module are below 128 and take one byte. Such bytes are taken over without a loop of Python
code; only the longer integers between them are computed one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from loom.bytecode.failures import Damage

MAX_WORD: Final = (1 << 64) - 1
MAX_BYTES: Final = 10

_LONG: Final = re.compile(rb"([\x80-\xff]+[\x00-\x7f]?)")


def encode_words(words: Iterable[int]) -> bytes:
    """The bytes of unsigned integers. Raises ``ValueError`` for one outside 64 bits."""
    words = words if isinstance(words, list) else list(words)
    try:
        packed = bytes(words)
    except ValueError:
        packed = b"\xff"
    if packed.isascii():
        return packed
    out = bytearray()
    for word in words:
        if not 0 <= word <= MAX_WORD:
            raise ValueError(f"{word} is no unsigned 64-bit integer")
        while word > 127:
            out.append(word & 127 | 128)
            word >>= 7
        out.append(word)
    return bytes(out)


def decode_words(data: bytes) -> list[int]:
    """The integers of a byte sequence. Raises :class:`Damage` for a cut off, oversized or overlong one."""
    if data.isascii():
        return list(data)
    # Alternately bytes that are integers of their own, and one longer integer; the former come last, too.
    pieces = _LONG.split(data)
    words = list(pieces[0])
    for k in range(1, len(pieces), 2):
        long = pieces[k]
        if len(long) == 2 and 0 < long[1] < 128:
            words.append(long[0] & 127 | long[1] << 7)
        else:
            words.append(_decode_long(long))
        words += pieces[k + 1]
    return words


def _decode_long(data: bytes) -> int:
    failure = None
    word = 0
    if data[-1] > 127:
        failure = "cut_off"
    elif data[-1] == 0:
        failure = "overlong"
    elif len(data) <= MAX_BYTES:
        for byte in reversed(data):
            word = word << 7 | byte & 127
    if len(data) > MAX_BYTES or word > MAX_WORD:
        failure = failure or "too_large"
    if failure is not None:
        raise Damage("BYTECODE/008", f"{data[:12].hex()} ({failure.replace('_', ' ')})", offset=0, failure_code=failure)
    return word


def zigzag(value: int) -> int:
    """Map a signed integer to an unsigned one that is small when the magnitude is."""
    return value << 1 if value >= 0 else ~(value << 1)


def unzigzag(word: int) -> int:
    """The inverse of :func:`zigzag`."""
    return word >> 1 if not word & 1 else ~(word >> 1)


def leading_word(data: bytes, at: int) -> tuple[int, int]:
    """One integer in front of other data, and the position behind it. Raises :class:`Damage`."""
    end = at
    while data[end : end + 1] > b"\x7f":
        end += 1
    if end == len(data):
        raise Damage("BYTECODE/008", "cut off", offset=at, failure_code="cut_off")
    return (data[at] if end == at else _decode_long(data[at : end + 1])), end + 1
