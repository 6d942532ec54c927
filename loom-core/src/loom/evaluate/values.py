"""Values of the evaluator, and choosing between them lane by lane.

A scalar value is an array of shape ``()`` when all lanes hold the same (uniform), or ``[lanes]``. A vector has its
own axes behind that: ``[*extents]`` or ``[lanes, *extents]``. Storage of each scalar type is that of
``loom.evaluate.numeric.formats``. Buffers, views and layouts are records of such arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from loom.evaluate.numeric.formats import FORMATS, Array, ScalarFormat
from loom.evaluate.storage import Storage
from loom.ir.attributes import Encoding
from loom.ir.types import ScalarType, ShapedType, Type

#: An Array, Buffer, View, Layout, or an opaque static value (an encoding specification).
RuntimeValue: TypeAlias = Any


@attrs.frozen(eq=False)
class Buffer:
    """A storage root: bytes ``[base, base + length)`` of a storage.

    ``base`` and ``length`` are byte counts, ``int64`` of shape ``()`` or ``[lanes]``. ``storages`` usually has one
    member; when lanes selected between roots, ``which`` (``int64[lanes]``) tells which storage each lane means.
    """

    storages: tuple[Storage, ...]
    base: Array
    length: Array
    which: Array | None = None


@attrs.frozen(eq=False)
class View:
    """A typed window: a root, the byte offset of element (0, ..., 0) in it, extents, and strides in elements.

    All members are ``int64`` arrays of shape ``()`` or ``[lanes]``.
    """

    buffer: Buffer
    origin: Array
    extents: tuple[Array, ...]
    strides: tuple[Array, ...]


@attrs.frozen(eq=False)
class Layout:
    """A layout value. Lanes where ``dense`` holds take the view's own extents, the others ``strides`` (elements).

    ``strides`` is empty for a value that is dense everywhere. Where ``promised`` holds the program has promised that
    the strides are row-major for the extents of every view that uses them.
    """

    dense: Array
    strides: tuple[Array, ...] = ()
    promised: Array = attrs.field(factory=lambda: np.asarray(False))


@attrs.frozen
class StorageFormat:
    """A storage value made from run-time parts: where elements lie, and the static schema of their payloads."""

    layout: Layout
    schema: Encoding


@attrs.frozen(eq=False)
class Poisoned:
    """A value that must not be observed in some lanes (``bool`` of shape ``()`` or ``[lanes]``).

    ``value`` holds a placeholder there.
    """

    value: RuntimeValue
    lanes: Array


DENSE = Layout(np.asarray(True))


def format_of(type_: Type) -> ScalarFormat:
    """The storage format of a scalar type, or of the elements of a shaped one."""
    if isinstance(type_, ShapedType):
        type_ = type_.element
    assert isinstance(type_, ScalarType)
    return FORMATS[type_.text]


def vector_rank(type_: Type) -> int:
    """The number of axes behind the lane axis: the rank of a vector or tile type, 0 for all others."""
    return type_.rank if isinstance(type_, ShapedType) and type_.kind in ("vector", "tile") else 0


def integer(value: int) -> Array:
    """A uniform index or offset."""
    return np.asarray(value, dtype=np.int64)


def per_lane(array: Array, lanes: int, rank: int) -> Array:
    """The array with its lane axis spelled out: ``[lanes, *extents]``."""
    return array if array.ndim > rank else np.broadcast_to(array, (lanes, *array.shape))


def choose(type_: Type, condition: Array, a: RuntimeValue, b: RuntimeValue) -> RuntimeValue:
    """``a`` where the condition (``bool[lanes]``) holds, ``b`` elsewhere.

    Raises ``TypeError`` for opaque values that differ; those cannot vary by lane.
    """
    if a is b:
        return a
    if isinstance(a, Poisoned) or isinstance(b, Poisoned):
        value_a, lanes_a = (a.value, a.lanes) if isinstance(a, Poisoned) else (a, np.asarray(False))
        value_b, lanes_b = (b.value, b.lanes) if isinstance(b, Poisoned) else (b, np.asarray(False))
        return Poisoned(choose(type_, condition, value_a, value_b), _choose_array(condition, lanes_a, lanes_b))
    if isinstance(a, np.ndarray):
        rank = vector_rank(type_)
        return np.where(condition.reshape(condition.shape + (1,) * rank), a, b)
    if isinstance(a, Buffer):
        return _choose_buffer(condition, a, b)
    if isinstance(a, View):
        return View(
            _choose_buffer(condition, a.buffer, b.buffer),
            _choose_array(condition, a.origin, b.origin),
            _choose_each(condition, a.extents, b.extents),
            _choose_each(condition, a.strides, b.strides),
        )
    if isinstance(a, Layout):
        rank = max(len(a.strides), len(b.strides))
        return Layout(
            _choose_array(condition, a.dense, b.dense),
            _choose_each(condition, _padded(a.strides, rank), _padded(b.strides, rank)),
            _choose_array(condition, a.promised, b.promised),
        )
    if isinstance(a, StorageFormat) and isinstance(b, StorageFormat) and a.schema == b.schema:
        return StorageFormat(choose(type_, condition, a.layout, b.layout), a.schema)
    if isinstance(a, frozenset):
        # Transfers and groups know their work-items themselves.
        return a | b
    if a == b or condition.all():
        return a
    if not condition.any():
        return b
    raise TypeError(f"lanes hold different values of type {type_}")


def _choose_array(condition: Array, a: Array, b: Array) -> Array:
    return a if a is b or (a.ndim == b.ndim == 0 and a == b) else np.where(condition, a, b)


def _choose_each(condition: Array, a: Sequence[Array], b: Sequence[Array]) -> tuple[Array, ...]:
    return tuple(_choose_array(condition, x, y) for x, y in zip(a, b, strict=True))


def _padded(strides: tuple[Array, ...], rank: int) -> tuple[Array, ...]:
    if strides and len(strides) != rank:
        raise TypeError(f"layouts of {len(strides)} and {rank} axes")
    return strides or (integer(0),) * rank


def _choose_buffer(condition: Array, a: Buffer, b: Buffer) -> Buffer:
    if a is b:
        return a
    base, length = _choose_array(condition, a.base, b.base), _choose_array(condition, a.length, b.length)
    storages = a.storages + tuple(s for s in b.storages if s not in a.storages)
    if len(storages) == 1:
        return Buffer(storages, base, length)
    positions = np.asarray([storages.index(s) for s in b.storages], dtype=np.int64)
    which_a = a.which if a.which is not None else integer(0)
    which_b = positions[b.which] if b.which is not None else integer(int(positions[0]))
    return Buffer(storages, base, length, np.where(condition, which_a, which_b))


def literal(type_: Type, value: object) -> Array:
    """A uniform scalar from an attribute value: integers in the signed domain, floats rounded to the type."""
    from loom.evaluate.numeric import floats
    from loom.evaluate.numeric.formats import Kind

    format = format_of(type_)
    if format.kind is Kind.FLOAT:
        return floats.from_f64(format, np.asarray(value, dtype=np.float64))
    return np.asarray(value, dtype=format.dtype)


def constant_root(data: bytes) -> Buffer:
    """Bytes that nothing may write as a storage root."""
    storage = Storage("constant", np.frombuffer(data, dtype=np.uint8))
    return Buffer((storage,), integer(0), integer(len(data)))


def overlap(a: Buffer, b: Buffer) -> Array:
    """Lanes in which two roots share a byte."""
    shared = [s for s in a.storages if s in b.storages]
    result: Array = np.asarray(False)
    for storage in shared:
        same: Array = np.asarray(True)
        for buffer in (a, b):
            if buffer.which is not None:
                same = same & (buffer.which == buffer.storages.index(storage))
        meets = (a.base < b.base + b.length) & (b.base < a.base + a.length)
        result = result | (same & meets & (a.length > 0) & (b.length > 0))
    return result
