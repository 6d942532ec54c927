"""Type constraint classes used in op tables (language reference, part 1, section 4.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from loom.ir import types as t
from loom.ir.records import record


@record(eq=False)
class Constraint:
    """A named set of types: ``members`` is a finite set, ``test`` decides everything else."""

    name: str
    members: frozenset[t.Type] | None = None
    test: Callable[[t.Type], bool] | None = None

    def accepts(self, type_: t.Type) -> bool:
        """Whether the type belongs to the class. The type of a value that did not parse always does."""
        if self.members is not None and type_ in self.members:
            return True
        if type_ is t.ERROR:
            return True
        return self.members is None and (self.test is None or self.test(type_))


def _one(*types: t.Type) -> frozenset[t.Type]:
    return frozenset(types)


def _head(kind: str) -> Callable[[t.Type], bool]:
    return lambda type_: isinstance(type_, t.ShapedType) and type_.kind == kind


ANY: Final = Constraint("any type")
SCALAR: Final = Constraint("scalar", t.ALL_SCALARS)
INTEGER: Final = Constraint("integer scalar", t.INTEGERS)
FLOAT: Final = Constraint("floating-point scalar", t.FLOATS)
PAYLOAD: Final = Constraint("integer or floating-point scalar", t.PAYLOADS)
INDEX: Final = Constraint("index", _one(t.INDEX))
OFFSET: Final = Constraint("offset", _one(t.OFFSET))
ADDRESS: Final = Constraint("index or offset", t.ADDRESSES)
INTEGER_OR_ADDRESS: Final = Constraint("integer, index or offset", t.INTEGERS | t.ADDRESSES)
I1: Final = Constraint("i1", _one(t.I1))
INDEX_OR_INTEGER: Final = Constraint("index or integer", (t.INTEGERS - {t.I1}) | {t.INDEX})
I8: Final = Constraint("i8", _one(t.I8))
I32: Final = Constraint("i32", _one(t.I32))
F32: Final = Constraint("f32", _one(t.F32))
HALF: Final = Constraint("f16 or bf16", _one(t.F16, t.BF16))
MASK_WORD: Final = Constraint("i32 or i64", _one(t.I32, t.I64))
I64: Final = Constraint("i64", _one(t.I64))
BUFFER: Final = Constraint("buffer", _one(t.BUFFER))
VECTOR: Final = Constraint("vector", None, _head("vector"))
VIEW: Final = Constraint("view", None, _head("view"))
TENSOR: Final = Constraint("tensor", None, _head("tensor"))
TILE: Final = Constraint("tile", None, _head("tile"))
SHAPED: Final = Constraint("shaped type", None, lambda type_: isinstance(type_, t.ShapedType))
REG: Final = Constraint("register", None, lambda type_: isinstance(type_, t.RegType))
STORAGE: Final = Constraint("low storage", None, lambda type_: isinstance(type_, t.StorageType))
ENC: Final = Constraint("encoding", None, lambda type_: isinstance(type_, t.EncodingType))


def _role(role: str) -> Constraint:
    return Constraint(f"encoding<{role}>", _one(t.ENCODING_TYPES[role]))


ENC_LAYOUT: Final = _role("layout")
ENC_SCHEMA: Final = _role("schema")
ENC_TRANSFORM: Final = _role("transform")


def vector_of(name: str, element: Constraint) -> Constraint:
    """Vectors whose element belongs to a class."""
    return Constraint(
        name,
        None,
        lambda type_: isinstance(type_, t.ShapedType) and type_.kind == "vector" and element.accepts(type_.element),
    )


def _extents(kind: str) -> Callable[[t.Type], bool]:
    return lambda type_: isinstance(type_, t.DimsType) and type_.kind == kind


GROUP: Final = Constraint("group", None, _extents("group"))
POOL: Final = Constraint("pool", None, _extents("pool"))


def nested(head: str) -> Constraint:
    """Types with a head around other types, such as ``channel<...>``."""
    return Constraint(head, None, lambda type_: isinstance(type_, t.NestedType) and type_.head == head)


def exactly(type_: t.Type) -> Constraint:
    """The class with one member."""
    return Constraint(type_.text, _one(type_))
