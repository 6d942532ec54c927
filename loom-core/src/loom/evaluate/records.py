"""Block-quantized records: where the codes of their elements lie, and what their headers say.

The layouts are those of the language reference, part 2, section 11.8. A record is a little-endian byte string. Its
codes are one run of bytes, in which ``positions`` finds each bit of each code; the rest is a header of scales and
offsets. A payload holds whole records, or only the codes, when the terms of the header come as operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs
import numpy as np

from loom.evaluate.numeric.formats import Array

#: Header terms by the name of the operand that stands for them: ``float64[..., values of one record]``.
Header = dict[str, Array]


@attrs.frozen(eq=False)
class Record:
    """One kind of record.

    ``elements`` have ``size`` bytes; the codes begin at byte ``codes``. ``positions`` (``int64[elements, width]``)
    are bits of the code bytes, least significant first; bit ``k`` of byte ``b`` is ``8 * b + k``. ``groups`` tells for
    each term how many elements share a value of it, and ``header`` reads the terms of record bytes
    (``uint8[..., size]``). A code stands for itself less ``excess``, read as signed if ``is_signed``.
    """

    elements: int
    size: int
    codes: int
    positions: Array
    groups: Mapping[str, int]
    header: Callable[[Array], Header]
    excess: int = 0
    is_signed: bool = False

    @property
    def width(self) -> int:
        """Bits of a code."""
        return int(self.positions.shape[1])

    @property
    def code_bytes(self) -> int:
        """Bytes that hold the codes of one record."""
        return self.elements * self.width // 8

    def split(self, payload: Array) -> tuple[Array, Header]:
        """The code bytes and the header terms of record bytes ``uint8[n, records * size]``.

        Returns ``uint8[n, records * code_bytes]`` and ``float64[n, values]`` for each term.
        """
        records = payload.reshape(payload.shape[0], -1, self.size)
        codes = records[:, :, self.codes : self.codes + self.code_bytes]
        terms = {name: term.reshape(payload.shape[0], -1) for name, term in self.header(records).items()}
        return codes.reshape(payload.shape[0], -1), terms


def _half(records: Array, at: int) -> Array:
    """The IEEE half at a byte of each record, ``float64[..., 1]``."""
    pair = np.ascontiguousarray(records[..., at : at + 2])
    return pair.view("<f2").astype(np.float64)


def _bits(places: list[list[tuple[int, int]]]) -> Array:
    """Bit positions of each element from the (byte, lowest bit, ...) runs of its code, lowest run first."""
    return np.asarray([[8 * byte + bit for byte, bit in runs] for runs in places], dtype=np.int64)


def _run(byte: int, low: int, count: int) -> list[tuple[int, int]]:
    return [(byte, low + k) for k in range(count)]


def _six_bits(records: Array) -> tuple[Array, Array]:
    """Scales and minima of the eight groups of a record, packed into bytes 4 to 15."""
    b = records.astype(np.int64)
    first, second, third = b[..., 4:8], b[..., 8:12], b[..., 12:16]
    scales = (first & 63, (third & 15) | (first >> 6 << 4))
    minima = (second & 63, (third >> 4) | (second >> 6 << 4))
    return np.concatenate(scales, axis=-1).astype(np.float64), np.concatenate(minima, axis=-1).astype(np.float64)


def _scale(at: int) -> Callable[[Array], Header]:
    return lambda records: {"scale": _half(records, at)}


def _k_header(records: Array) -> Header:
    scales, minima = _six_bits(records)
    return {
        "scale": _half(records, 0),
        "secondary_scale": scales,
        "minimum": _half(records, 2) * minima,
    }


def _q6_header(records: Array) -> Header:
    scales = np.ascontiguousarray(records[..., 192:208]).view(np.int8).astype(np.float64)
    return {"scale": _half(records, 208), "secondary_scale": scales}


def _x4_header(records: Array) -> Header:
    pairs = np.ascontiguousarray(records[..., :16]).view("<f2").astype(np.float64)
    return {"scale": pairs[..., 0::2], "sum_correction": pairs[..., 1::2]}


_K_GROUPS: Final = {"scale": 256, "secondary_scale": 32, "minimum": 32}

RECORDS: Final[Mapping[str, Record]] = {
    "ggml.q4_0": Record(
        32, 18, 2, _bits([_run(e % 16, e // 16 * 4, 4) for e in range(32)]), {"scale": 32}, _scale(0), excess=8
    ),
    "ggml.q8_0": Record(32, 34, 2, _bits([_run(e, 0, 8) for e in range(32)]), {"scale": 32}, _scale(0), is_signed=True),
    "ggml.q4_k": Record(
        256,
        144,
        16,
        _bits([_run(e // 64 * 32 + e % 32, e % 64 // 32 * 4, 4) for e in range(256)]),
        _K_GROUPS,
        _k_header,
    ),
    # The high bits come first: bit g of byte i belongs to element i of group g.
    "ggml.q5_k": Record(
        256,
        176,
        16,
        _bits([_run(32 + e // 64 * 32 + e % 32, e % 64 // 32 * 4, 4) + _run(e % 32, e // 32, 1) for e in range(256)]),
        _K_GROUPS,
        _k_header,
    ),
    # Two halves of 128 elements; the rows r = 0 to 3 of 32 share their bytes of low and of high bits.
    "ggml.q6_k": Record(
        256,
        210,
        0,
        _bits(
            [
                _run(e // 128 * 64 + e // 32 % 2 * 32 + e % 32, e % 128 // 64 * 4, 4)
                + _run(128 + e // 128 * 32 + e % 32, e % 128 // 32 * 2, 2)
                for e in range(256)
            ]
        ),
        {"scale": 256, "secondary_scale": 16},
        _q6_header,
        excess=32,
    ),
    "ggml.q8_1_x4": Record(
        128,
        144,
        16,
        _bits([_run(e, 0, 8) for e in range(128)]),
        {"scale": 32, "sum_correction": 32},
        _x4_header,
        is_signed=True,
    ),
}
