"""Values of the codes that encoded payloads hold: integers of odd widths, small floats, scales."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np

from loom.evaluate.numeric import floats, minifloat
from loom.evaluate.numeric.bits import sign_extended
from loom.evaluate.numeric.formats import FORMATS, Array, from_bits, to_bits
from loom.evaluate.numeric.minifloat import MINIFLOATS, Specials

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


def _exactly(values: Array) -> Array:
    return values


def _half_away(values: Array) -> Array:
    whole = np.trunc(values)
    return np.asarray(np.where(np.abs(values - whole) >= 0.5, whole + np.copysign(1.0, values), whole))


#: Rounding words of schemas for integer codes; `satfinite` rounds to nearest even and clamps.
_ROUNDINGS: Mapping[str, Callable[[Array], Array]] = {
    "none": _exactly,
    "nearest_even": np.rint,
    "nearest_away": _half_away,
    "toward_zero": np.trunc,
    "down": np.floor,
    "up": np.ceil,
    "satfinite": np.rint,
}


def nearest_codes(name: str, values: Array, rounding: str) -> tuple[Array, Array]:
    """The `uint64` codes of `float64` values, and which values have none (their code is 0).

    With the rounding `none` only values of codes have one. Small floats round to nearest even only. Raises KeyError
    for other roundings and formats.
    """
    integer = _INTEGER.fullmatch(name)
    if integer is not None:
        return _integer_codes(int(integer[2]), integer[1] == "u", values, rounding)
    if rounding not in ("none", "nearest_even", "satfinite"):
        raise KeyError(rounding)
    undefined = np.isnan(values) if _lacks_nan(name) else np.zeros(values.shape, dtype=np.bool_)
    kept = np.where(undefined, 0.0, values)
    if rounding == "satfinite":
        largest = _largest(name)
        kept = np.where(np.isnan(kept), kept, np.clip(kept, -largest, largest))
    if name in _NATIVE:
        format = FORMATS[name]
        codes = to_bits(format, floats.from_f64(format, kept)).astype(np.uint64)
    else:
        codes = minifloat.encode(MINIFLOATS[name], kept).astype(np.uint64)
    if rounding == "none":
        undefined = undefined | ((code_values(name, codes) != kept) & ~np.isnan(kept))
    return np.where(undefined, np.uint64(0), codes), undefined


def _lacks_nan(name: str) -> bool:
    return name not in _NATIVE and MINIFLOATS[name].specials is Specials.NONE


def _largest(name: str) -> float:
    if name in _NATIVE:
        return float(np.finfo(FORMATS[name].dtype).max)
    format = MINIFLOATS[name]
    code = np.asarray([format.largest_code << format.padding], dtype=np.uint64)
    return float(minifloat.decode(format, code)[0])


def _integer_codes(width: int, is_unsigned: bool, values: Array, rounding: str) -> tuple[Array, Array]:
    low, high = (0, (1 << width) - 1) if is_unsigned else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    whole = np.asarray(_ROUNDINGS[rounding](values))
    if rounding == "satfinite":
        whole = np.where(np.isnan(whole), whole, np.clip(whole, low, high))
    defined = (whole >= low) & (whole <= high) & (whole == np.trunc(whole))
    fields = np.where(defined, whole, 0.0).astype(np.int64).view(np.uint64) & np.uint64((1 << width) - 1)
    return fields, ~defined
