"""Host values as arguments and results: arrays become storage roots, numbers become uniform scalars.

Arrays are bound, not copied: what the program stores shows in them. Arrays that share memory become roots in one
storage, so that aliasing is seen as such.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loom.evaluate.faults import FaultCode, fault
from loom.evaluate.numeric.formats import Array, Kind
from loom.evaluate.pools import Pool
from loom.evaluate.races import RaceDetector
from loom.evaluate.storage import Storage
from loom.evaluate.values import Buffer, RuntimeValue, View, format_of, integer, literal, vector_rank
from loom.ir.attributes import Encoding
from loom.ir.core import Op, Value
from loom.ir.types import BUFFER, DimsType, EncodingType, ScalarType, ShapedType, Type

# Allocations of real devices start at addresses with at least this alignment.
_ALLOCATION_ALIGNMENT = 256


class Binder:
    """Turns the arguments of one launch or call into runtime values.

    ``space`` is where their storage lies: ``global`` for a kernel, ``generic`` (anywhere) for a function. ``races``
    makes the race detector of a storage of a size, or nothing.
    """

    def __init__(self, op: Op, space: str, races: Callable[[int], RaceDetector | None]) -> None:
        self._op = op
        self._space = space
        self._races = races
        self._storages: list[tuple[Array, Storage]] = []

    def bind(self, parameters: Sequence[Value], arguments: Sequence[Any]) -> list[RuntimeValue]:
        """The runtime value of each parameter. View parameters stay roots until :func:`form_parameters`.

        Raises a located diagnostic for a count or value that does not suit the signature.
        """
        if len(parameters) != len(arguments):
            raise fault(
                FaultCode.BAD_ARGUMENT,
                self._op,
                f"takes {len(parameters)} arguments, not {len(arguments)}",
                actual_count=len(arguments),
                expected_count=len(parameters),
            )
        return [self._value(p, p.type, a) for p, a in zip(parameters, arguments, strict=True)]

    def _value(self, parameter: Value, type_: Type, argument: Any) -> RuntimeValue:
        if isinstance(type_, ScalarType):
            return self._scalar(parameter, type_, argument)
        if vector_rank(type_):
            assert isinstance(type_, ShapedType)
            array = np.asarray(argument)
            if array.dtype != format_of(type_).dtype or array.ndim != type_.rank:
                raise self._refused(parameter, type_, argument)
            return array.copy()
        if isinstance(argument, Buffer | View | Pool):
            return argument
        if isinstance(type_, EncodingType) and isinstance(argument, Encoding):
            return argument
        pool = isinstance(type_, DimsType) and type_.kind == "pool" and bool(type_.dims)
        if pool or type_ is BUFFER or (isinstance(type_, ShapedType) and type_.kind == "view"):
            if not isinstance(argument, np.ndarray) or not argument.flags.c_contiguous or argument.dtype.hasobject:
                raise self._refused(parameter, type_, argument)
            return Pool(self._root(argument)) if pool else self._root(argument)
        raise self._refused(parameter, type_, argument)

    def _refused(self, parameter: Value, type_: Type, argument: Any) -> Exception:
        shown = repr(argument)
        if isinstance(argument, np.ndarray):
            shown = f"an array {argument.dtype}{list(argument.shape)}"
        return fault(
            FaultCode.BAD_ARGUMENT,
            self._op,
            f"%{parameter.name or '?'} of type {type_} cannot be {shown}",
            value_name=str(parameter.name),
        )

    def _scalar(self, parameter: Value, type_: ScalarType, argument: Any) -> Array:
        format = format_of(type_)
        array = np.asarray(argument)
        if array.ndim:
            raise self._refused(parameter, type_, argument)
        if isinstance(argument, np.ndarray | np.generic) and array.dtype == format.dtype:
            return array.copy()
        number = array.item()
        if format.kind is Kind.FLOAT:
            if not isinstance(number, float | int):
                raise self._refused(parameter, type_, argument)
            return literal(type_, float(number))
        low, high = (0, 1) if format.bits == 1 else (format.minimum, format.maximum)
        if not isinstance(number, int) or not low <= number <= high:
            raise self._refused(parameter, type_, argument)
        return np.asarray(number, dtype=format.dtype)

    def _root(self, array: Array) -> Buffer:
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if not owner.flags.c_contiguous:
            owner = array
        storage = next((known for memory, known in self._storages if memory is owner), None)
        if storage is None:
            data = np.asarray(owner).reshape(-1).view(np.uint8) if owner.size else np.zeros(0, dtype=np.uint8)
            storage = Storage(self._space, data, address=_ALLOCATION_ALIGNMENT, races=self._races(data.size))
            self._storages.append((owner, storage))
        base = array.ctypes.data - owner.ctypes.data if array.size else 0
        return Buffer((storage,), integer(base), integer(array.nbytes))


def to_host(value: RuntimeValue, type_: Type, lane: int = 0) -> Any:
    """A result of a host function: a NumPy scalar, an array of a vector, or the elements of a view as an array."""
    if isinstance(value, np.ndarray):
        array = value[lane] if value.ndim > vector_rank(type_) else value
        return array[()]
    if isinstance(value, Buffer):
        return _bytes(value, lane)
    if isinstance(value, View):
        return _elements(value, type_, lane)
    return value


def _bytes(buffer: Buffer, lane: int) -> Array:
    storage = buffer.storages[0 if buffer.which is None else int(buffer.which[lane])]
    base, length = (int(a if a.ndim == 0 else a[lane]) for a in (buffer.base, buffer.length))
    return storage.data[base : base + length]


def _elements(view: View, type_: Type, lane: int) -> Array:
    """An array over the same storage; extents that leave the root are cut off by NumPy's own checks."""
    dtype = format_of(type_).dtype
    origin, *rest = (int(a if a.ndim == 0 else a[lane]) for a in (view.origin, *view.extents, *view.strides))
    extents, strides = rest[: len(view.extents)], rest[len(view.extents) :]
    if math.prod(extents) == 0:
        return np.zeros(extents, dtype=dtype)
    return np.ndarray(
        tuple(extents),
        dtype,
        buffer=_bytes(view.buffer, lane),
        offset=origin,
        strides=tuple(s * dtype.itemsize for s in strides),
    )
