"""How a source value is represented while its kernel becomes SPIR-V.

A scalar is one SPIR-V value.  Everything else is a small record of SPIR-V values: a view is a byte position and
its strides, a vector its lanes.  Structured control flow carries records as flat lists of SPIR-V values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import attrs

from loom_target_spirv import types as t
from loom_target_spirv.module import Value

Stride: TypeAlias = "int | Value"
"""Elements between neighbours along an axis: known, or an integer of the view's width."""


@attrs.frozen(eq=False)
class LocalStorage:
    """Workgroup or private memory: an array variable of `count` units.

    SPIR-V addresses such memory by element, not by byte, so a unit is as wide as the narrowest access to it.
    """

    variable: Value
    unit: t.IntType | t.FloatType
    count: int


@attrs.frozen
class GlobalBuffer:
    """Device memory at a 64-bit address."""

    address: Value


@attrs.frozen
class LocalBuffer:
    """A scratch root of `size` bytes (64-bit)."""

    storage: LocalStorage
    size: Value


@attrs.frozen
class View:
    """A window: `position` is an address (64 bits), or the byte offset in `storage` (32 bits).

    Strides and offsets inside the window are computed in `width` bits, 32 where every element is known to lie
    within 4 GiB.
    """

    position: Value
    strides: tuple[Stride, ...]
    width: int
    storage: LocalStorage | None = None


@attrs.frozen
class Layout:
    """A layout value: 64-bit strides, or None for row-major over the extents of the view that uses it."""

    strides: tuple[Stride, ...] | None


@attrs.frozen
class Vector:
    """The lanes of a vector in row-major order."""

    lanes: tuple[Value, ...]


Bundle: TypeAlias = Value | GlobalBuffer | LocalBuffer | View | Layout | Vector


def flatten(bundle: Bundle) -> list[Value]:
    """The SPIR-V values that a construct carries for a source value whose strides are all values."""
    match bundle:
        case GlobalBuffer(address=address):
            return [address]
        case LocalBuffer(size=size):
            return [size]
        case View(position=position, strides=strides):
            return [position, *map(_value, strides)]
        case Layout(strides=strides):
            return [_value(stride) for stride in strides or ()]
        case Vector(lanes=lanes):
            return list(lanes)
        case _:
            return [bundle]


def rebuild(like: Bundle, values: Iterator[Value]) -> Bundle:
    """The inverse of `flatten` for a value of the form of `like`; takes what it needs from `values`."""
    match like:
        case GlobalBuffer():
            return GlobalBuffer(next(values))
        case LocalBuffer(storage=storage):
            return LocalBuffer(storage, next(values))
        case View(strides=strides, width=width, storage=storage):
            position = next(values)
            return View(position, tuple(next(values) for _ in strides), width, storage)
        case Layout(strides=None):
            return like
        case Layout(strides=strides):
            assert strides is not None
            return Layout(tuple(next(values) for _ in strides))
        case Vector(lanes=lanes):
            return Vector(tuple(next(values) for _ in lanes))
        case _:
            return next(values)


def same_form(a: Bundle, b: Bundle) -> bool:
    """Whether two values can arrive at one place: the same records over the same scratch root."""
    match a, b:
        case View(), View():
            return a.storage is b.storage and len(a.strides) == len(b.strides) and a.width == b.width
        case LocalBuffer(), LocalBuffer():
            return a.storage is b.storage
        case Layout(strides=None), Layout(strides=None):
            return True
        case Layout(strides=None), _:
            return False
        case Layout(), Layout(strides=strides):
            assert a.strides is not None
            return strides is not None and len(strides) == len(a.strides)
        case Vector(), Vector():
            return len(a.lanes) == len(b.lanes)
        case Value(), Value():
            return a.type == b.type
        case _:
            return type(a) is type(b)


def _value(stride: Stride) -> Value:
    assert isinstance(stride, Value)
    return stride
