"""The values of one sample: what every SSA value of a case holds, and how devices see it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loom.check.elements import element_type, is_float
from loom.check.entropy import Entropy
from loom.check.errors import CheckError
from loom.check.host_tensor import HostTensor, resolve_shape
from loom.evaluate.numeric import floats
from loom.evaluate.numeric.formats import FORMATS, I1, UNSIGNED, ScalarFormat, from_bits
from loom.ir.core import Op, Value
from loom.ir.types import BUFFER, ScalarType, ShapedType, Type

Scalar = bool | int | float


def format_of(type_: Type) -> ScalarFormat:
    """The element type of a value that a case can hold: a scalar, a dense tensor, or a buffer, which holds bytes.

    Raises `CheckError` for any other type.
    """
    if type_ is BUFFER:
        return FORMATS["i8"]
    if isinstance(type_, ScalarType):
        return element_type(type_.text)
    if isinstance(type_, ShapedType) and type_.kind == "tensor":
        if type_.encoding is not None:
            raise CheckError(f"a case holds dense tensors only, not {type_}")
        return element_type(type_.element.text)
    raise CheckError(f"a case holds scalars, tensors and buffers, not {type_}")


def value_id(value: Value) -> str:
    """What a report calls a value: its name, or its position among the results of an unnamed op."""
    if value.name is not None:
        return value.name
    return f"{value.defining_op.name if value.defining_op else 'argument'}#{value.index}"


class Environment:
    """SSA value -> tensor (rank 0 for a scalar) or entropy, filled in the order in which a sample runs.

    `sides` holds, for each comparison that has run, what its expectations see on the actual and the expected side.
    """

    __slots__ = ("_entropy", "_tensors", "sides")

    def __init__(self) -> None:
        self._tensors: dict[Value, HostTensor] = {}
        self._entropy: dict[Value, Entropy] = {}
        self.sides: dict[Op, tuple[Environment, Environment]] = {}

    def child(self) -> Environment:
        """An environment that starts with the same values, in the same storage."""
        made = Environment()
        made._tensors.update(self._tensors)
        made._entropy.update(self._entropy)
        return made

    def separate(self) -> Environment:
        """An environment that starts with the same values in storage of its own."""
        made = self.child()
        made.copy_storage()
        return made

    def copy_storage(self, values: Iterable[Value] | None = None) -> None:
        """Give values (by default all) storage of their own; those that shared storage still share it."""
        copies: dict[int, NDArray[Any]] = {}
        for value in self._tensors if values is None else dict.fromkeys(values):
            tensor = self[value]
            owner = _owner(tensor.array)
            if id(owner) not in copies:
                copies[id(owner)] = owner.copy()
            window = copies[id(owner)].reshape(-1).view(np.uint8)
            start = tensor.array.ctypes.data - owner.ctypes.data if tensor.array.size else 0
            array = window[start : start + tensor.array.nbytes].view(tensor.array.dtype)
            self._tensors[value] = HostTensor(tensor.element, array.reshape(tensor.shape))

    def entropy(self, value: Value) -> Entropy:
        """The entropy that a value stands for."""
        return self._entropy[value]

    def __contains__(self, value: Value) -> bool:
        return value in self._tensors

    def __getitem__(self, value: Value) -> HostTensor:
        try:
            return self._tensors[value]
        except KeyError:
            raise CheckError(f"%{value_id(value)} has no value: what makes it was not carried out") from None

    def __setitem__(self, value: Value, held: HostTensor | Entropy) -> None:
        if isinstance(held, Entropy):
            self._entropy[value] = held
        else:
            self._tensors[value] = held

    def scalar(self, value: Value) -> Scalar:
        """A scalar as the Python number it stands for; narrow floats are exact in Python's."""
        tensor = self[value]
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
        """The extents of a tensor or scalar type in this sample; raises `CheckError` for impossible ones."""
        dims = type_.dims if isinstance(type_, ShapedType) else ()
        return resolve_shape(format_of(type_), [self.extent(entry) for entry in dims])

    def argument(self, value: Value) -> Any:
        """A value as devices take it: the array of a tensor or buffer itself, updated in place, or a Python number."""
        stored = isinstance(value.type, ShapedType) or value.type is BUFFER
        return self[value].array if stored else self.scalar(value)

    def accept(self, value: Value, returned: Any) -> None:
        """Give a value what a device returned for it: an array or scalar in storage form, or a Python number.

        Raises `CheckError` for anything that the value's type cannot hold.
        """
        element = format_of(value.type)
        if value.type is BUFFER:
            if not isinstance(returned, np.ndarray) or not returned.flags.c_contiguous:
                raise CheckError(f"the device returned {type(returned).__name__} for the buffer %{value_id(value)}")
            self._tensors[value] = HostTensor(element, returned.reshape(-1).view(element.dtype))
            return
        shape = self.shape(value.type)
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


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    """The array whose storage another one is a part of."""
    owner = array
    while isinstance(owner.base, np.ndarray) and owner.base.flags.c_contiguous:
        owner = owner.base
    return owner


def _stored(element: ScalarFormat, number: Any) -> Any:
    if is_float(element):
        return floats.from_f64(element, np.asarray(float(number)))
    bits = int(number) & ((1 << element.bits) - 1)
    return from_bits(element, np.asarray(bits, dtype=UNSIGNED[element.dtype.itemsize]))
