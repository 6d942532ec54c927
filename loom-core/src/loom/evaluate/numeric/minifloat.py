"""Small binary floating-point formats given by their fields: exact decoding, single-rounding encoding.

Layout, most significant first: sign, exponent (E bits), mantissa (M bits). With exponent field x and mantissa
m:

    x = 0:  (-1)**s * 2**(1 - bias) * m / 2**M
    x > 0:  (-1)**s * 2**(x - bias) * (1 + m / 2**M)       unless the pattern is special

Sources: OCP 8-bit Floating Point Specification (OFP8) 1.0 for E4M3 and E5M2, OCP Microscaling Formats (MX)
1.0 for the 6- and 4-bit formats and E8M0, IEEE 754-2019 section 3.4 for the interchange layout.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cache

import attrs
import numpy as np

from loom.evaluate.numeric.formats import Array


class Specials(enum.Enum):
    """Which patterns are not finite numbers."""

    IEEE = "the top exponent holds infinity (m = 0) and NaN"
    ONE_NAN = "no infinity; all ones below the sign is NaN"
    UNSIGNED_ZERO = "no infinity and no -0; the pattern of -0 is NaN"
    NONE = "every pattern is a finite number"


@attrs.frozen
class MiniFloat:
    """A small floating-point format. `padding` counts unused low bits of the container (`tf32`)."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    specials: Specials
    padding: int = 0

    @property
    def bits(self) -> int:
        """Width of a code, without padding."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def largest_code(self) -> int:
        """The code of the largest finite magnitude, without sign and padding."""
        everything = (1 << (self.exponent_bits + self.mantissa_bits)) - 1
        if self.specials is Specials.IEEE:
            return everything - (1 << self.mantissa_bits)
        return everything - 1 if self.specials is Specials.ONE_NAN else everything


MINIFLOATS: Mapping[str, MiniFloat] = {
    format.name: format
    for format in (
        MiniFloat("f8e4m3", 4, 3, 7, Specials.IEEE),
        MiniFloat("f8e4m3fn", 4, 3, 7, Specials.ONE_NAN),
        MiniFloat("f8e4m3fnuz", 4, 3, 8, Specials.UNSIGNED_ZERO),
        MiniFloat("f8e5m2", 5, 2, 15, Specials.IEEE),
        MiniFloat("f8e5m2fnuz", 5, 2, 16, Specials.UNSIGNED_ZERO),
        MiniFloat("bf8", 5, 2, 15, Specials.IEEE),
        MiniFloat("f6e3m2", 3, 2, 3, Specials.NONE),
        MiniFloat("f6e2m3", 2, 3, 1, Specials.NONE),
        MiniFloat("bf6", 3, 2, 3, Specials.NONE),
        MiniFloat("f4e2m1", 2, 1, 1, Specials.NONE),
        MiniFloat("bf16", 8, 7, 127, Specials.IEEE),
        MiniFloat("tf32", 8, 10, 127, Specials.IEEE, padding=13),
    )
}


def _decode(format: MiniFloat, codes: Array) -> Array:
    """The value rule of the module's docstring, in float64."""
    mantissa_bits, exponent_bits = format.mantissa_bits, format.exponent_bits
    magnitude = codes & ((1 << (exponent_bits + mantissa_bits)) - 1)
    negative = (codes >> (exponent_bits + mantissa_bits)) & 1 != 0
    exponent, mantissa = magnitude >> mantissa_bits, magnitude & ((1 << mantissa_bits) - 1)
    significand = np.where(exponent == 0, mantissa, mantissa + (1 << mantissa_bits)).astype(np.float64)
    values = np.ldexp(significand, np.maximum(exponent, 1) - format.bias - mantissa_bits)
    if format.specials is Specials.UNSIGNED_ZERO:
        values[negative & (magnitude == 0)] = np.nan
    elif format.specials is not Specials.NONE:
        beyond = magnitude > format.largest_code
        infinite = beyond & (mantissa == 0) & (format.specials is Specials.IEEE)
        values[beyond] = np.nan
        values[infinite] = np.inf
    return np.asarray(np.copysign(values, np.where(negative, -1.0, 1.0)))


@cache
def _decoding_table(format: MiniFloat) -> Array:
    codes = np.arange(1 << format.bits, dtype=np.int64)
    values = _decode(format, codes).astype(np.float32)
    if format.specials is Specials.IEEE:
        # A NaN keeps its payload in the upper mantissa bits; NumPy's own NaN is quiet already.
        payload = (codes & ((1 << format.mantissa_bits) - 1)) << (23 - format.mantissa_bits)
        with_payload = (values.view(np.uint32) | payload.astype(np.uint32)).view(np.float32)
        values = np.where(np.isnan(values), with_payload, values)
    return values


def decode(format: MiniFloat, codes: Array) -> Array:
    """The exact `float32` value of each code; bits of the integer codes above the width are ignored."""
    if format.bits <= 8:
        return np.asarray(_decoding_table(format)[codes.astype(np.int64) & ((1 << format.bits) - 1)])
    # The wide formats share the exponent field of binary32, so that their codes are its upper bits.
    above = 32 - format.bits - format.padding
    kept = np.uint32(((1 << format.bits) - 1) << (32 - format.bits))
    return ((codes.astype(np.uint32) << np.uint32(above)) & kept).view(np.float32)


def encode(format: MiniFloat, values: Array) -> Array:
    """Codes (`int64`) of `float64` values, rounded once to nearest even.

    What is too large becomes infinity where the format has it, and otherwise the largest magnitude of its
    sign (which is also where infinities go). NaN keeps its sign; IEEE formats keep the upper payload bits and
    set the quiet bit. Raises ValueError for a NaN if the format has none.
    """
    mantissa_bits = format.mantissa_bits
    sign_code = 1 << (format.exponent_bits + mantissa_bits)
    values = np.asarray(values, dtype=np.float64)
    negative, nan, infinite = np.signbit(values), np.isnan(values), np.isinf(values)
    magnitude = np.where(nan | infinite, 0.0, np.abs(values))
    smallest_exponent = 1 - format.bias
    # frexp gives zero the exponent 0, which is above the smallest one of every format here.
    unbiased = np.where(magnitude == 0, smallest_exponent, np.frexp(magnitude)[1].astype(np.int64) - 1)
    exponent = np.maximum(unbiased, smallest_exponent)
    # Scaling by a power of two is exact here, so the one rounding is that of rint (to nearest even). A
    # significand that rounds up to the next power of two carries into the exponent field by itself.
    significand = np.rint(np.ldexp(magnitude, mantissa_bits - exponent)).astype(np.int64)
    codes = ((exponent - smallest_exponent) << mantissa_bits) + significand
    has_infinity = format.specials is Specials.IEEE
    limit = format.largest_code + (1 if has_infinity else 0)
    codes = np.where(infinite, limit, np.minimum(codes, limit))
    codes = np.where(negative, codes | sign_code, codes)
    if format.specials is Specials.UNSIGNED_ZERO:
        codes = np.where(codes == sign_code, 0, codes)
    if np.any(nan):
        codes = np.where(nan, _nan_codes(format, values, negative), codes)
    return np.asarray(codes << format.padding)


def _nan_codes(format: MiniFloat, values: Array, negative: Array) -> Array:
    sign_code = 1 << (format.exponent_bits + format.mantissa_bits)
    if format.specials is Specials.NONE:
        raise ValueError(f"{format.name} cannot represent NaN")
    if format.specials is Specials.UNSIGNED_ZERO:
        return np.full(values.shape, sign_code, dtype=np.int64)
    if format.specials is Specials.ONE_NAN:
        pattern = np.full(values.shape, sign_code - 1, dtype=np.int64)
    else:
        payload = (values.view(np.uint64) >> np.uint64(52 - format.mantissa_bits)).astype(np.int64)
        quiet = 1 << (format.mantissa_bits - 1)
        pattern = (format.largest_code + 1) | quiet | (payload & ((1 << format.mantissa_bits) - 1))
    return np.where(negative, pattern | sign_code, pattern)


def decode_e8m0(codes: Array) -> Array:
    """The scales 2**(code - 127) as `float64` for the low 8 bits of integer codes; 255 is NaN."""
    exponent = codes.astype(np.int64) & 0xFF
    return np.where(exponent == 0xFF, np.nan, np.ldexp(1.0, exponent - 127))
