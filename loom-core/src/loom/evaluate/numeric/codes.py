"""Values of the codes that encoded payloads hold: integers of odd widths, small floats, scales."""

from __future__ import annotations

import re

import numpy as np

from loom.evaluate.numeric import floats, minifloat
from loom.evaluate.numeric.bits import sign_extended
from loom.evaluate.numeric.formats import FORMATS, Array, from_bits
from loom.evaluate.numeric.minifloat import MINIFLOATS

_INTEGER = re.compile(r"(i|u|quant_i)([1-9]|[12][0-9]|3[0-2])")
_NATIVE = ("f64", "f32", "f16")


def code_bits(name: str) -> int:
    """The width of a code of a format. Raises KeyError for a format whose codes have no value of their own."""
    integer = _INTEGER.fullmatch(name)
    if integer is not None:
        return int(integer[2])
    if name in _NATIVE:
        return FORMATS[name].bits
    if name == "e8m0":
        return 8
    return MINIFLOATS[name].bits + MINIFLOATS[name].padding


def code_values(name: str, codes: Array) -> Array:
    """The `float64` values of `uint64` codes; exact for all formats. Raises KeyError as `code_bits` does."""
    integer = _INTEGER.fullmatch(name)
    if integer is not None:
        width = int(integer[2])
        fields = codes & np.uint64((1 << width) - 1)
        return fields.astype(np.float64) if integer[1] == "u" else sign_extended(fields, width).astype(np.float64)
    if name in _NATIVE:
        format = FORMATS[name]
        return floats.to_f64(format, from_bits(format, codes))
    if name == "e8m0":
        return np.asarray(minifloat.decode_e8m0(codes), dtype=np.float64)
    return minifloat.decode(MINIFLOATS[name], codes).astype(np.float64)
