"""Number formats of matrix products: how the oracles read operands and deliver results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from loom.check.errors import CheckError
from loom.check.host_tensor import HostTensor
from loom.evaluate.numeric import floats, minifloat
from loom.evaluate.numeric.formats import FORMATS, Kind, ScalarFormat
from loom.evaluate.numeric.minifloat import MINIFLOATS, MiniFloat, Specials

Array = NDArray[Any]


@frozen
class IntegerFormat:
    """Integers of a width, read as signed or unsigned from bits that carry no sign of their own."""

    name: str
    bits: int
    is_signed: bool

    @property
    def range(self) -> tuple[int, int]:
        """The smallest and the largest value."""
        if self.is_signed:
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of the same width and sign."""
        return np.dtype(f"{'i' if self.is_signed else 'u'}{self.bits // 8}")


@frozen
class NativeFloat:
    """A floating-point format that is a scalar type of its own."""

    element: ScalarFormat

    @property
    def name(self) -> str:
        """The type's name, which is the format's."""
        return self.element.name

    @property
    def bits(self) -> int:
        """Width of a value."""
        return self.element.bits


@frozen
class PackedFloat:
    """An 8-bit floating-point format, stored as its bit pattern."""

    name: str
    layout: MiniFloat

    @property
    def bits(self) -> int:
        """Width of a value."""
        return self.layout.bits


Format = IntegerFormat | NativeFloat | PackedFloat

_EIGHT_BIT_FLOATS = {
    "f8E4M3": "f8e4m3fn",
    "f8E5M2": "f8e5m2",
    **{name: name for name in ("f8e4m3", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "bf8")},
}
"""Format names, of scalar types and of encoding schemas, and the layouts they mean."""

MATRIX_FORMATS: Mapping[str, Format] = {
    **{name: NativeFloat(FORMATS[name]) for name in ("f16", "bf16", "f32", "f64")},
    **{name: PackedFloat(name, MINIFLOATS[layout]) for name, layout in _EIGHT_BIT_FLOATS.items()},
    **{
        name: IntegerFormat(name, int(name[1:]), name[0] == "i")
        for name in ("i8", "u8", "i16", "u16", "i32", "u32", "i64")
    },
}


def holds(element: ScalarFormat, format: Format) -> bool:
    """Whether tensors of an element type can carry a format.

    A float carries itself. An integer carries the integer formats of its width, and 8-bit floats because
    no generator makes tensors of those; wider floats are refused, as integers passed for them are a mistake.
    """
    if element.bits != format.bits:
        return False
    if element.kind is Kind.INTEGER:
        return not isinstance(format, NativeFloat)
    if isinstance(format, PackedFloat):
        return _EIGHT_BIT_FLOATS.get(element.name) == format.layout.name
    return isinstance(format, NativeFloat) and format.element is element


def decode(format: Format, tensor: HostTensor) -> Array:
    """The values of a tensor read in a format that it holds: `float64`, or `int64` for integers."""
    if isinstance(format, NativeFloat):
        return floats.to_f64(format.element, tensor.array)
    if isinstance(format, PackedFloat):
        return minifloat.decode(format.layout, tensor.array).astype(np.float64)
    return tensor.array.view(format.dtype).astype(np.int64)


def encode(format: Format, values: Array) -> Array:
    """Exact integers or `float64` values in the storage of a format, rounded once.

    Raises `CheckError` for a value outside the format's range, which includes an infinity when the format has
    none.
    """
    if isinstance(format, IntegerFormat):
        low, high = format.range
        check_range((values < low) | (values > high), values, format, "result")
        return np.asarray(values.astype(format.dtype))
    with np.errstate(over="ignore", invalid="ignore"):
        overflows = np.isinf(rounded(format, values))
        if isinstance(format, NativeFloat):
            check_range(overflows & np.isfinite(values), values, format, "result")
            return floats.from_f64(format.element, values)
    allowed = np.isinf(values) & (format.layout.specials is Specials.IEEE)
    check_range(overflows & ~allowed, values, format, "result")
    return minifloat.encode(format.layout, values).astype(np.uint8)


def rounded(format: Format, values: Array) -> Array:
    """`float64` values rounded to what a floating-point format has, and to infinity beyond its range.

    Infinity marks the overflow even where the format itself would saturate.
    """
    if isinstance(format, NativeFloat):
        return floats.to_f64(format.element, floats.from_f64(format.element, values))
    if not isinstance(format, PackedFloat):
        raise TypeError(f"{format.name} is not a floating-point format")
    layout = format.layout
    nearest = minifloat.decode(layout, minifloat.encode(layout, values)).astype(np.float64)
    return np.where(_overflows(layout, values), np.copysign(np.inf, values), nearest)


def check_range(outside: Array, values: Array, format: Format, role: str) -> None:
    """Raise `CheckError` naming the first value that is marked as outside of a format."""
    if np.any(outside):
        index = tuple(int(position) for position in np.argwhere(outside)[0])
        raise CheckError(f"{role} {values[index]} at {list(index)} is outside the range of {format.name}")


def _overflows(layout: MiniFloat, values: Array) -> Array:
    """Where rounding to nearest even would leave the finite numbers if the exponent had no end."""
    codes = np.array([layout.largest_code - 1, layout.largest_code])
    previous, largest = minifloat.decode(layout, codes).astype(np.float64)
    midpoint = largest + (largest - previous) / 2
    # At the midpoint, the even neighbour wins: the largest number only if its code is even.
    magnitude = np.abs(values)
    return np.asarray(magnitude > midpoint if layout.largest_code % 2 == 0 else magnitude >= midpoint)
