"""Values of the codes that encoded payloads hold: integers of odd widths, small floats, scales."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

import attrs
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
    if name == "e8m0":
        return np.asarray(minifloat.decode_e8m0(codes), dtype=np.float64)
    # Widening makes signaling NaNs quiet, which is no matter here.
    with np.errstate(invalid="ignore"):
        if name in _NATIVE:
            format = FORMATS[name]
            return floats.to_f64(format, from_bits(format, codes))
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

    With the rounding `none` only values of codes have one. Small floats round in every direction, formats of more
    than 8 bits to nearest even only. Beyond the largest magnitude lies infinity where the format has it, and
    otherwise (as always with `satfinite`) that magnitude itself. Raises KeyError for other roundings and formats.
    """
    integer = _INTEGER.fullmatch(name)
    if integer is not None:
        return _integer_codes(int(integer[2]), integer[1] == "u", values, rounding)
    if name == "e8m0" or rounding in ("nearest_away", "toward_zero", "down", "up"):
        return _listed_codes(name, values, rounding)
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


@attrs.frozen(eq=False)
class _Listing:
    """The finite values of a format in ascending order with their codes, and the codes of what is not finite.

    ``positive`` and ``negative`` are infinities (``None`` where there are none, as are the codes of NaN and -0).
    """

    values: Array
    codes: Array
    nan: int | None
    positive: int | None
    negative: int | None
    minus_zero: int | None


@cache
def _listing(name: str) -> _Listing:
    if code_bits(name) > 8:
        raise KeyError(name)
    codes = np.arange(1 << code_bits(name), dtype=np.uint64)
    values = code_values(name, codes)

    def code(where: Array) -> int | None:
        return int(codes[np.argmax(where)]) if where.any() else None

    minus_zero = (values == 0) & np.signbit(values)
    finite = np.flatnonzero(np.isfinite(values) & ~minus_zero)
    order = finite[np.argsort(values[finite], kind="stable")]
    return _Listing(
        values[order],
        codes[order],
        code(np.isnan(values)),
        code(np.isposinf(values)),
        code(np.isneginf(values)),
        code(minus_zero),
    )


def _half_even(below: Array, above: Array, values: Array, even: Array) -> Array:
    middle = below + (above - below) / 2
    return np.asarray((values > middle) | ((values == middle) & even))


#: Whether values between two neighbours go to the one above; the last argument tells whether its code is even.
_UPWARD: Mapping[str, Callable[[Array, Array, Array, Array], Array]] = {
    "none": lambda below, above, values, even: np.zeros(values.shape, dtype=np.bool_),
    "nearest_even": _half_even,
    "satfinite": _half_even,
    "nearest_away": lambda below, above, values, even: _half_even(below, above, values, values > 0),
    "toward_zero": lambda below, above, values, even: values < 0,
    "down": lambda below, above, values, even: np.zeros(values.shape, dtype=np.bool_),
    "up": lambda below, above, values, even: np.ones(values.shape, dtype=np.bool_),
}


def _listed_codes(name: str, values: Array, rounding: str) -> tuple[Array, Array]:
    """Codes by search among all values of a format of at most 8 bits."""
    listing, upward = _listing(name), _UPWARD[rounding]
    known, codes = listing.values, listing.codes
    nan = np.isnan(values)
    last = known.size - 1
    at = np.clip(np.searchsorted(known, np.where(nan, 0.0, values), side="right") - 1, 0, last)
    after = np.minimum(at + 1, last)
    with np.errstate(all="ignore"):
        between = (values > known[at]) & (values < known[after])
        at = np.where(between & upward(known[at], known[after], values, codes[after] % 2 == 0), after, at)
    result = codes[at]
    if listing.minus_zero is not None:
        result = np.where((known[at] == 0) & np.signbit(values), np.uint64(listing.minus_zero), result)
    if listing.positive is not None and listing.negative is not None and rounding != "satfinite":
        result = np.where(_reaches_infinity(listing, rounding, values), np.uint64(listing.positive), result)
        mirrored = {"up": "down", "down": "up"}.get(rounding, rounding)
        result = np.where(_reaches_infinity(listing, mirrored, -values), np.uint64(listing.negative), result)
    if listing.nan is not None:
        result = np.where(nan, np.uint64(listing.nan), result)
    # What has no sign has nothing for values below its smallest one either.
    undefined = (nan & (listing.nan is None)) | ((known[0] > 0) & (values < known[0]))
    if rounding == "none":
        undefined = undefined | (~nan & (code_values(name, result) != values))
    return np.where(undefined, np.uint64(0), result), undefined


def _reaches_infinity(listing: _Listing, rounding: str, values: Array) -> Array:
    """Whether values round to infinity: the nearest ones from half a step beyond the largest value on."""
    largest, before = listing.values[-1], listing.values[-2]
    if rounding in ("nearest_even", "nearest_away"):
        return np.asarray(values >= largest + (largest - before) / 2)
    return np.asarray(values > largest if rounding == "up" else np.isposinf(values))


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
