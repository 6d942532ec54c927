"""An exact model of the float formats on rational numbers, independent of the code under test."""

from __future__ import annotations

import struct
from fractions import Fraction

import attrs
import pytest


@attrs.frozen
class ExactFormat:
    """A binary float format: patterns as ints, finite values as fractions, one rounding to nearest even."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    saturates: bool = False  # no infinities: all ones is NaN, overflow gives the largest magnitude

    @property
    def sign(self) -> int:
        return 1 << (self.exponent_bits + self.mantissa_bits)

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def infinity(self) -> int:
        if self.saturates:
            return self.sign - 2
        return self.sign - (1 << self.mantissa_bits)

    @property
    def nan(self) -> int:
        """The canonical NaN."""
        return self.sign - 1 if self.saturates else self.infinity | (1 << (self.mantissa_bits - 1))

    def is_nan(self, pattern: int) -> bool:
        magnitude = pattern & (self.sign - 1)
        return magnitude > self.infinity

    def is_finite(self, pattern: int) -> bool:
        magnitude = pattern & (self.sign - 1)
        return magnitude < self.infinity or (self.saturates and magnitude == self.infinity)

    def value(self, pattern: int) -> Fraction:
        """The value of a finite pattern."""
        exponent = (pattern & (self.sign - 1)) >> self.mantissa_bits
        mantissa = pattern & ((1 << self.mantissa_bits) - 1)
        if exponent:
            mantissa += 1 << self.mantissa_bits
        scale = max(exponent, 1) - self.bias - self.mantissa_bits
        signed = -mantissa if pattern & self.sign else mantissa
        return Fraction(signed << max(scale, 0), 1 << max(-scale, 0))

    def number(self, pattern: int) -> float:
        """The value as a Python float, which is exact for all formats here."""
        if self.is_nan(pattern):
            return float("nan")
        if not self.is_finite(pattern):
            return float("-inf") if pattern & self.sign else float("inf")
        value = float(self.value(pattern))
        return -0.0 if pattern == self.sign else value

    def round(self, value: Fraction, negative_zero: bool = False) -> int:
        """The pattern nearest to a value, ties to even; the sign of an exact zero is given."""
        if value == 0:
            return self.sign if negative_zero else 0
        sign, top, bottom = (self.sign if value < 0 else 0), abs(value.numerator), value.denominator
        exponent = top.bit_length() - bottom.bit_length()
        if top << max(-exponent, 0) < bottom << max(exponent, 0):
            exponent -= 1
        exponent = max(exponent, 1 - self.bias)
        shift = self.mantissa_bits - exponent
        bottom <<= max(-shift, 0)
        significand, rest = divmod(top << max(shift, 0), bottom)
        if 2 * rest > bottom or (2 * rest == bottom and significand % 2):
            significand += 1
        pattern = ((exponent - 1 + self.bias) << self.mantissa_bits) + significand
        return sign | min(pattern, self.infinity)

    def from_float(self, value: float) -> int:
        """The pattern of a Python float, NaN being canonical."""
        if value != value:
            return self.nan
        if value in (float("inf"), float("-inf")):
            return self.infinity | (self.sign if value < 0 else 0)
        return self.round(Fraction(value), negative_zero=struct.pack(">d", value)[0] >= 0x80)


_FORMATS = {
    format.name: format
    for format in (
        ExactFormat("f8E4M3", 4, 3, saturates=True),
        ExactFormat("f8E5M2", 5, 2),
        ExactFormat("f16", 5, 10),
        ExactFormat("bf16", 8, 7),
        ExactFormat("f32", 8, 23),
        ExactFormat("f64", 11, 52),
    )
}


@pytest.fixture(scope="session")
def exact_formats() -> dict[str, ExactFormat]:
    """The exact models by the names of the language."""
    return _FORMATS
