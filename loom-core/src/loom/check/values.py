"""The values of one sample: what every SSA value of a case holds, and how devices see it."""

from __future__ import annotations

from typing import Any

import numpy as np

from loom.check.elements import element_type, is_float
from loom.check.errors import CheckError
from loom.check.host_tensor import HostTensor, resolve_shape
from loom.evaluate.numeric import floats
from loom.evaluate.numeric.formats import I1, UNSIGNED, ScalarFormat, from_bits
from loom.ir.core import Value
from loom.ir.types import ScalarType, ShapedType, Type

Scalar = bool | int | float


def format_of(type_: Type) -> ScalarFormat:
    """The element type of a value that a case can hold: a scalar or a dense tensor.

    Raises `CheckError` for any other type.
    """
    if isinstance(type_, ScalarType):
        return element_type(type_.text)
    if isinstance(type_, ShapedType) and type_.kind == "tensor":
        if type_.encoding is not None:
            raise CheckError(f"a case holds dense tensors only, not {type_}")
        return element_type(type_.element.text)
    raise CheckError(f"a case holds scalars and tensors, not {type_}")


def value_id(value: Value) -> str:
    """What a report calls a value: its name, or its position among the results of an unnamed op."""
    if value.name is not None:
        return value.name
    return f"{value.defining_op.name if value.defining_op else 'argument'}#{value.index}"


class Environment:
    """SSA value -> tensor (rank 0 for a scalar), filled in the order in which a sample runs."""

    __slots__ = ("_tensors",)

    def __init__(self) -> None:
        self._tensors: dict[Value, HostTensor] = {}

    def __contains__(self, value: Value) -> bool:
        return value in self._tensors

    def __getitem__(self, value: Value) -> HostTensor:
        return self._tensors[value]

    def __setitem__(self, value: Value, tensor: HostTensor) -> None:
        self._tensors[value] = tensor

    def scalar(self, value: Value) -> Scalar:
        """A scalar as the Python number it stands for; narrow floats are exact in Python's."""
        tensor = self._tensors[value]
        stored = tensor.array[()]
        if tensor.element is I1:
            return bool(stored)
        if is_float(tensor.element):
            return float(floats.values(tensor.element, np.asarray(stored))[()])
        return int(stored)

    def extent(self, entry: int | Value) -> int:
        """An extent that is a number or a value; raises `CheckError` when it is negative."""
        extent = entry if isinstance(entry, int) else int(self.scalar(entry))
        if extent < 0:
            name = f"%{value_id(entry)}" if isinstance(entry, Value) else "it"
            raise CheckError(f"an extent cannot be negative, but {name} is {extent}")
        return extent

    def shape(self, type_: Type) -> tuple[int, ...]:
        """The extents of a type in this sample, `()` for a scalar; raises `CheckError` for impossible ones."""
        dims = type_.dims if isinstance(type_, ShapedType) else ()
        return resolve_shape(format_of(type_), [self.extent(entry) for entry in dims])

    def argument(self, value: Value) -> Any:
        """A value as devices take it: a tensor's array itself, updated in place, or a Python number."""
        return self._tensors[value].array if isinstance(value.type, ShapedType) else self.scalar(value)

    def accept(self, value: Value, returned: Any) -> None:
        """Give a value what a device returned for it: an array or scalar in storage form, or a Python number.

        Raises `CheckError` for anything that the value's type cannot hold.
        """
        element, shape = format_of(value.type), self.shape(value.type)
        if isinstance(returned, np.ndarray | np.generic) and returned.dtype == element.dtype:
            array = np.ascontiguousarray(returned)
        elif isinstance(returned, bool | int | float | np.integer | np.floating | np.bool_):
            array = _stored(element, returned)
        else:
            raise CheckError(f"the device returned {type(returned).__name__} for %{value_id(value)}")
        if array.size != int(np.prod(shape, dtype=np.int64)):
            actual = list(array.shape)
            raise CheckError(f"the device returned shape {actual} for %{value_id(value)}, not {list(shape)}")
        self._tensors[value] = HostTensor(element, array.reshape(shape))


def _stored(element: ScalarFormat, number: Any) -> Any:
    if is_float(element):
        return floats.from_f64(element, np.asarray(float(number)))
    bits = int(number) & ((1 << element.bits) - 1)
    return from_bits(element, np.asarray(bits, dtype=UNSIGNED[element.dtype.itemsize]))
