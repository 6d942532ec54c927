"""What represents a source value during selection.

| source type | representation |
|---|---|
| `i1` | a 32-bit register that holds 0 or 1 |
| `i8` `i16` `i32` | a 32-bit register; bits above the width are unspecified |
| `i64` `index` `offset` | a 64-bit register |
| `f32` `f64` | an xmm register; elements above the lowest are unspecified |
| `buffer` | `Buffer`: an address |
| `view<…>` | `View`: the address of its first element and a stride per axis |
| `encoding<layout>` | `Layout`: strides |
| `vector<…>` | `Lanes`: the lanes one by one |

Integers and addresses that facts prove exact need no register at all: rules ask for a *word*, which is a register
or a Python integer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from loom.ir import types as t
from loom.ir.core import Value
from loom.ir.types import RegType, Type

GPR32: Final = RegType("x86.gpr32")
GPR64: Final = RegType("x86.gpr64")
XMM: Final = RegType("x86.xmm")

Word = Value | int
"""A register, or a known integer in the signed domain of its type."""

Stride = Value | int
"""Elements from one index of an axis to the next: a 64-bit register or a number."""

REGISTER_TYPES: Final[dict[Type, RegType]] = {
    t.I1: GPR32,
    t.I8: GPR32,
    t.I16: GPR32,
    t.I32: GPR32,
    t.I64: GPR64,
    t.INDEX: GPR64,
    t.OFFSET: GPR64,
    t.BUFFER: GPR64,
    t.F32: XMM,
    t.F64: XMM,
}


@attrs.frozen(eq=False)
class Buffer:
    """A storage root: the address in `base` plus `disp` bytes.

    `root` identifies storage that is known to be apart from any other identified storage.
    """

    base: Value
    disp: int = 0
    root: str | None = None


@attrs.frozen(eq=False)
class View:
    """A window: its first element lies at `base` plus `disp` bytes; strides count elements.

    `plain` says that the strides are those of the row-major layout of its type.
    """

    base: Value
    disp: int
    strides: tuple[Stride, ...]
    root: str | None = None
    plain: bool = False


@attrs.frozen(eq=False)
class Layout:
    """Strides in elements; None is row-major over the extents of whatever view uses the layout."""

    strides: tuple[Stride, ...] | None


@attrs.frozen(eq=False)
class Lanes:
    """The lanes of a static vector in row-major order."""

    values: tuple[Value, ...]


Bundle = Value | Buffer | View | Layout | Lanes


def register_type(type_: Type) -> RegType | None:
    """The register type of a scalar or buffer; None for a type without one."""
    return REGISTER_TYPES.get(type_)


def is_float(type_: Type) -> bool:
    """Whether values of the type live in vector registers."""
    return type_ is t.F32 or type_ is t.F64


def width_of(type_: Type) -> int:
    """Bits of the register that holds an integer or address."""
    return 64 if REGISTER_TYPES[type_] is GPR64 else 32


def float_suffix(type_: Type) -> str:
    """`ss` or `sd`."""
    return "ss" if type_ is t.F32 else "sd"


def same_form(a: Bundle, b: Bundle) -> bool:
    """Whether two carried bundles consist of the same registers."""
    if type(a) is not type(b):
        return False
    if isinstance(a, View) and isinstance(b, View):
        return _fixed(a.strides) == _fixed(b.strides)
    if isinstance(a, Layout) and isinstance(b, Layout):
        if a.strides is None or b.strides is None:
            return a.strides is b.strides
        return len(a.strides) == len(b.strides)
    if isinstance(a, Lanes) and isinstance(b, Lanes):
        return len(a.values) == len(b.values)
    return True


def _fixed(strides: tuple[Stride, ...]) -> list[int | None]:
    return [stride if isinstance(stride, int) else None for stride in strides]


def flatten(bundle: Bundle) -> list[Value]:
    """The registers of a carried bundle (see `Context.carried`)."""
    if isinstance(bundle, Value):
        return [bundle]
    if isinstance(bundle, Lanes):
        return list(bundle.values)
    if isinstance(bundle, Layout):
        return [stride for stride in bundle.strides or () if not isinstance(stride, int)]
    registers = [bundle.base]
    if isinstance(bundle, View):
        registers += [stride for stride in bundle.strides if not isinstance(stride, int)]
    return registers


def rebuild(like: Bundle, registers: Iterator[Value]) -> Bundle:
    """A bundle of the form of `like` made of other registers. What was known of its storage is gone."""
    if isinstance(like, Value):
        return next(registers)
    if isinstance(like, Lanes):
        return Lanes(tuple(next(registers) for _ in like.values))
    if isinstance(like, Layout):
        return like if like.strides is None else Layout(_restride(like.strides, registers))
    base = next(registers)
    if isinstance(like, Buffer):
        return Buffer(base, like.disp)
    return View(base, like.disp, _restride(like.strides, registers), plain=like.plain)


def _restride(strides: tuple[Stride, ...], registers: Iterator[Value]) -> tuple[Stride, ...]:
    return tuple(stride if isinstance(stride, int) else next(registers) for stride in strides)
