"""Tensors in host memory: an element type and a dense NumPy array, with aliasing views and value text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from loom.check.elements import is_float
from loom.check.errors import CheckError
from loom.evaluate.numeric import floats
from loom.evaluate.numeric.formats import F32, F64, I1, ScalarFormat, to_bits
from loom.ir.types import MAX_RANK

MAX_TENSOR_BYTES = 1 << 32
"""Largest tensor a check may hold. Refusing early beats an allocation that the system kills later."""


def resolve_shape(element: ScalarFormat, shape: Sequence[int]) -> tuple[int, ...]:
    """`shape` as a tuple; raises `CheckError` for a negative extent, a high rank or an excessive size."""
    extents = tuple(int(extent) for extent in shape)
    if len(extents) > MAX_RANK:
        raise CheckError(f"rank {len(extents)} exceeds the largest supported rank {MAX_RANK}")
    for axis, extent in enumerate(extents):
        if extent < 0:
            raise CheckError(f"extent {extent} of axis {axis} is negative")
    # An empty tensor may still carry extents that no array could be indexed with.
    if math.prod(max(extent, 1) for extent in extents) * element.dtype.itemsize > MAX_TENSOR_BYTES:
        text = "x".join((*map(str, extents), element.name))
        raise CheckError(f"tensor<{text}> is larger than the limit of {MAX_TENSOR_BYTES} bytes")
    return extents


@frozen(eq=False)
class HostTensor:
    """A dense tensor (rank 0 is a scalar) in C order; `array` has the storage type of `element`.

    The array is the storage: what a device writes to it is what the case sees.
    """

    element: ScalarFormat
    array: NDArray[Any] = field()

    @array.validator
    def _check_array(self, _attribute: object, value: NDArray[Any]) -> None:
        if value.dtype != self.element.dtype:
            raise TypeError(f"{self.element.name} is stored as {self.element.dtype}, not {value.dtype.str}")
        if not value.flags.c_contiguous:
            raise ValueError("a host tensor needs a dense array in C order")

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, outermost first."""
        return self.array.shape

    def copy(self) -> HostTensor:
        """The same values in storage of their own."""
        return HostTensor(self.element, self.array.copy())

    def bytes_view(self) -> NDArray[np.uint8]:
        """The storage as bytes; writes through it change the tensor."""
        return self.array.reshape(-1).view(np.uint8)


def tensor_view(source: HostTensor, offset: int, element: ScalarFormat, shape: Sequence[int]) -> HostTensor:
    """A dense alias of `source`'s storage that starts `offset` bytes in (`check.tensor.view`).

    Raises `CheckError` when the result does not fit in the source.
    """
    extents = resolve_shape(element, shape)
    size = math.prod(extents) * element.dtype.itemsize
    available = source.array.nbytes
    if offset < 0 or offset + size > available:
        raise CheckError(f"a view of {size} bytes at byte offset {offset} leaves its source of {available} bytes")
    window = source.bytes_view()[offset : offset + size]
    return HostTensor(element, window.view(element.dtype).reshape(extents))


def round_floats(element: ScalarFormat, exact: NDArray[np.float64]) -> NDArray[Any]:
    """`exact` in the storage of a float element type.

    Every type but `f64` goes through `f32`, and from there to the narrower one, to nearest even at
    each step: that is the order the generator formulas prescribe. Too large becomes infinity.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if element in (F64, F32):
            return floats.from_f64(element, exact)
        return floats.from_f32(element, floats.from_f64(F32, exact))


def value_text(tensor: HostTensor, index: tuple[int, ...]) -> str:
    """One element as text that reads back as the same value: the shortest such text for a float."""
    element = tensor.element
    stored = tensor.array[index]
    if element is I1:
        return "true" if stored else "false"
    if is_float(element):
        return str(floats.values(element, np.asarray(stored))[()])
    return str(int(stored))


def bits_text(tensor: HostTensor, index: tuple[int, ...]) -> str:
    """One element's bytes as a hexadecimal number, most significant digit first."""
    element = tensor.element
    pattern = to_bits(element, np.asarray(tensor.array[index]))[()]
    return f"0x{int(pattern):0{element.dtype.itemsize * 2}x}"
