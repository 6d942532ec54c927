"""Typed buffer elements: the formats by code, and conversion between memory and registers.

Codes: gfx9 has a data format and a number format ("Buffer Resource Descriptor" in the AMD CDNA3 ISA); gfx11 and gfx12
have one code for both ("Buffer Resource Descriptor", "Data Formats" in the AMD RDNA3 and RDNA4 ISA). Names list the
widths from the highest bits down; component X is in the lowest.

Floats that are made narrower are rounded to nearest even. Integers that do not fit the element they are stored in, and
stores whose rounding nothing documents, are refused.
"""

from __future__ import annotations

from functools import cache

import attrs
import numpy as np

from loom_sim.amdgpu.state import Array

_U32 = np.uint32


@attrs.frozen(slots=True)
class Format:
    """Component widths in bits, X first, and how each is read: `unorm`, `snorm`, `uscaled`, ..., `float`."""

    widths: tuple[int, ...]
    kind: str

    @property
    def nbytes(self) -> int:
        """Bytes of an element."""
        return sum(self.widths) // 8


_INTEGERS = ("unorm", "snorm", "uscaled", "sscaled", "uint", "sint")
_PLAIN = ("uint", "sint", "float")
_UNIFIED: tuple[tuple[tuple[int, ...], tuple[str, ...]], ...] = (
    ((8,), _INTEGERS),
    ((16,), (*_INTEGERS, "float")),
    ((8, 8), _INTEGERS),
    ((32,), _PLAIN),
    ((16, 16), (*_INTEGERS, "float")),
    ((11, 11, 10), ("float",)),
    ((10, 11, 11), ("float",)),
    ((2, 10, 10, 10), ("unorm", "snorm", "uint", "sint")),
    ((10, 10, 10, 2), _INTEGERS),
    ((8, 8, 8, 8), _INTEGERS),
    ((32, 32), _PLAIN),
    ((16, 16, 16, 16), (*_INTEGERS, "float")),
    ((32, 32, 32), _PLAIN),
    ((32, 32, 32, 32), _PLAIN),
)
"""Formats of gfx11 and gfx12 in the order of their codes, from 1."""

_DATA: tuple[tuple[int, ...] | None, ...] = (
    None,
    (8,),
    (16,),
    (8, 8),
    (32,),
    (16, 16),
    (11, 11, 10),
    (10, 11, 11),
    (2, 10, 10, 10),
    (10, 10, 10, 2),
    (8, 8, 8, 8),
    (32, 32),
    (16, 16, 16, 16),
    (32, 32, 32),
    (32, 32, 32, 32),
    None,
)
_NUMBER = ("unorm", "snorm", "uscaled", "sscaled", "uint", "sint", "", "float")
"""Data and number formats of gfx9 by code."""


@cache
def _unified() -> tuple[Format, ...]:
    return tuple(Format(widths, kind) for widths, kinds in _UNIFIED for kind in kinds)


def by_code(code: int, unified: bool) -> Format:
    """The format of a code (gfx9: data format and, from bit 4, number format).

    Raises:
        NotImplementedError: the code names none.
    """
    if unified:
        if not 1 <= code <= len(_unified()):
            raise NotImplementedError(f"buffer format {code} is none")
        return _unified()[code - 1]
    widths, kind = _DATA[code & 15], _NUMBER[code >> 4 & 7]
    if widths is None or not any(widths == known and kind in kinds for known, kinds in _UNIFIED):
        raise NotImplementedError(f"buffer data format {code & 15} with number format {code >> 4 & 7} is none")
    return Format(widths, kind)


def _fields(words: list[Array], widths: tuple[int, ...]) -> list[Array]:
    found, position = [], 0
    for width in widths:
        word = words[position // 32] >> _U32(position % 32)
        found.append(word if width == 32 else word & _U32((1 << width) - 1))
        position += width
    return found


def _sign_extended(field: Array, width: int) -> Array:
    if width == 32:
        return field
    top = _U32(1 << (width - 1))
    return (field ^ top) - top


def _small_float(field: Array, width: int) -> Array:
    """An unsigned float of 10 or 11 bits with five of exponent: a half without sign and lowest bits."""
    return (field << _U32(15 - width)).astype(np.uint16).view(np.float16).astype(np.float64)


def _number(field: Array, width: int, kind: str) -> Array:
    """The value as float64."""
    if kind == "float":
        if width == 32:
            return field.view(np.float32).astype(np.float64)
        if width == 16:
            return field.astype(np.uint16).view(np.float16).astype(np.float64)
        return _small_float(field, width)
    if kind in ("unorm", "uscaled"):
        value = field.astype(np.float64)
        return value / ((1 << width) - 1) if kind == "unorm" else value
    value = _sign_extended(field, width).view(np.int32).astype(np.float64)
    return np.maximum(value / ((1 << (width - 1)) - 1), -1.0) if kind == "snorm" else value


def load(words: list[Array], fmt: Format, half: bool) -> list[Array]:
    """Register contents of an element's components: 32 bits each, or with `half` 16.

    Raises:
        NotImplementedError: 32-bit integers into 16 bits.
    """
    result = []
    for field, width in zip(_fields(words, fmt.widths), fmt.widths, strict=True):
        if fmt.kind in ("uint", "sint"):
            if half and width == 32:
                raise NotImplementedError("a 32-bit integer format into 16-bit registers")
            word = field if fmt.kind == "uint" else _sign_extended(field, width)
            result.append(word & _U32(0xFFFF) if half else word)
        elif fmt.kind == "float" and width == (16 if half else 32):
            result.append(field)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                value = _number(field, width, fmt.kind).astype(np.float16 if half else np.float32)
            result.append(value.view(np.uint16).astype(_U32) if half else value.view(_U32))
    return result


def _stored(word: Array, width: int, kind: str, half: bool, active: Array) -> Array:
    if kind in ("uint", "sint"):
        low, high = (0, (1 << width) - 1) if kind == "uint" else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
        if kind == "uint":
            value = (word & _U32(0xFFFF) if half else word).astype(np.int64)
        else:
            value = (word.astype(np.int16) if half else word.view(np.int32)).astype(np.int64)
        if (((value < low) | (value > high)) & active).any():
            raise NotImplementedError(f"an integer that does not fit {width} bits is stored")
        return value.astype(_U32)
    if kind == "float" and width == (16 if half else 32):
        return word
    number = word.astype(np.uint16).view(np.float16) if half else word.view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        if kind == "float" and width == 32:
            return number.astype(np.float32).view(_U32)
        if kind == "float" and width == 16:
            return number.astype(np.float16).view(np.uint16).astype(_U32)
        if kind not in ("unorm", "snorm"):
            raise NotImplementedError(f"a store of {width}-bit {kind} components")
        scale = (1 << (width - (kind == "snorm"))) - 1
        exact = np.nan_to_num(number.astype(np.float64), nan=0.0)
        value = np.rint(np.clip(exact, -1.0 if kind == "snorm" else 0.0, 1.0) * scale)
    return value.astype(np.int64).astype(_U32)


def store(values: list[Array], fmt: Format, half: bool, active: Array) -> list[Array]:
    """Memory words of an element from registers, a component each, in the low 16 bits with `half`.

    Raises:
        NotImplementedError: what the module's comment says.
    """
    if len(values) < len(fmt.widths):
        raise NotImplementedError("a store of fewer components than the buffer's format has")
    words = [np.zeros((1, 1), _U32) for _ in range(max(1, fmt.nbytes // 4))]
    position = 0
    for value, width in zip(values, fmt.widths, strict=False):
        field = _stored(value, width, fmt.kind, half, active) & _U32((1 << width) - 1)
        words[position // 32] = words[position // 32] | field << _U32(position % 32)
        position += width
    return words
