"""Types as words: the number of an entry of the type table, or of a type that names values of the same body.

An odd word is an entry of the file's table, an even one a type that occurred before in the body; 0 announces a new
one of the latter. Its structure, like an entry of the table, is a kind followed by its parts. Types inside a type are
written like any other; those of a table entry stand before it in the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loom.bytecode.cursor import MAX_NESTING, Cursor, Sink
from loom.bytecode.failures import Damage
from loom.ir import types as t

SCALAR: Final = 1
FUNCTION: Final = 5
OPAQUE: Final = 6
ENCODING: Final = 7
BUFFER: Final = 11
REGISTER: Final = 12
STORAGE: Final = 13
NESTED: Final = 14
# Heads with extents, with and without an element.
SHAPED: Final = {"tile": 2, "tensor": 3, "vector": 9, "view": 10}
EXTENTS: Final = {"group": 4, "pool": 8}

MAX_RANK: Final = 255

# Heads of nested types, in the order of their numbers.
_NESTED_HEADS: Final = tuple(t.NESTED_HEADS)

# How an encoding slot is filled.
_NO_ENCODING, _STATIC_ENCODING, _VALUE_ENCODING = range(3)
# An extent: twice a static one, or this followed by a value.
_DYNAMIC_EXTENT: Final = 1


def names_values(type_: t.Type) -> bool:
    """Whether a type mentions a value anywhere."""
    if isinstance(type_, t.FunctionType):
        return any(names_values(part) for part in (*type_.inputs, *type_.outputs))
    if isinstance(type_, t.RegType):
        return type_.payload is not None and names_values(type_.payload)
    if isinstance(type_, t.NestedType):
        return any(names_values(part) for part in type_.parts)
    return not type_.text


def write_type(sink: Sink, type_: t.Type) -> None:
    """Write a reference to a type, entering a static one into the table."""
    words = sink.words
    if not names_values(type_):
        words.append(_enter(sink, type_) << 1 | 1)
        return
    number = sink.local_types.get(type_)
    if number is not None:
        words.append(number << 1)
    else:
        words.append(0)
        write_structure(sink, type_)
        sink.local_types[type_] = len(sink.local_types) + 1


def _enter(sink: Sink, type_: t.Type) -> int:
    number = sink.types.get(type_)
    if number is None:
        for part in _parts(type_):
            _enter(sink, part)
        number = sink.types[type_] = len(sink.types) + 1
    return number


def _parts(type_: t.Type) -> tuple[t.Type, ...]:
    if isinstance(type_, t.FunctionType):
        return (*type_.inputs, *type_.outputs)
    if isinstance(type_, t.RegType) and type_.payload is not None:
        return (type_.payload,)
    if isinstance(type_, t.NestedType):
        return type_.parts
    if isinstance(type_, t.ShapedType) and type_.encoding is not None and not hasattr(type_.encoding, "owner"):
        return _encoding_types(type_.encoding)
    return ()


def _encoding_types(value: object) -> tuple[t.Type, ...]:
    from loom.ir.attributes import Encoding

    if isinstance(value, t.Type):
        return (value,)
    items: tuple[object, ...] = ()
    if isinstance(value, Encoding):
        items = (*value.primary, *(v for _, v in value.params))
    elif isinstance(value, tuple):
        items = value
    elif isinstance(value, dict):
        items = tuple(value.values())
    return tuple(found for item in items for found in _encoding_types(item))


def write_structure(sink: Sink, type_: t.Type) -> None:
    """Write the kind and the parts of a type. Raises ``TypeError`` for a class of types this form has no kind for."""
    words = sink.words
    if isinstance(type_, t.ScalarType):
        words.append(SCALAR)
        sink.string(type_.text)
    elif isinstance(type_, t.ShapedType):
        words.append(SHAPED[type_.kind])
        sink.string(type_.element.text)
        _write_extents(sink, type_.dims)
        _write_encoding_slot(sink, type_)
        words.append(type_.align or 0)
    elif isinstance(type_, t.DimsType):
        words.append(EXTENTS[type_.kind])
        _write_extents(sink, type_.dims)
    elif isinstance(type_, t.BufferType):
        words.append(BUFFER)
    elif isinstance(type_, t.EncodingType):
        words += (ENCODING, 0 if type_.role is None else t.ENCODING_ROLES.index(type_.role) + 1)
    elif isinstance(type_, t.RegType):
        words.append(REGISTER)
        sink.string(type_.reg_class)
        words += (type_.count, type_.payload is not None)
        if type_.payload is not None:
            write_type(sink, type_.payload)
    elif isinstance(type_, t.StorageType):
        words += (STORAGE, t.STORAGE_SPACES.index(type_.space))
    elif isinstance(type_, t.FunctionType):
        words += (FUNCTION, len(type_.inputs), len(type_.outputs))
        for part in (*type_.inputs, *type_.outputs):
            write_type(sink, part)
    elif isinstance(type_, t.NestedType):
        words += (NESTED, _NESTED_HEADS.index(type_.head), type_.mutable)
        for part in type_.parts:
            write_type(sink, part)
    elif isinstance(type_, t.OpaqueType):
        words.append(OPAQUE)
        sink.string(type_.text)
    else:
        raise TypeError(f"type {type_} has no binary form")


def _write_extents(sink: Sink, dims: tuple[Any, ...]) -> None:
    sink.words.append(len(dims))
    for dim in dims:
        if isinstance(dim, int):
            sink.words.append(dim << 1)
        else:
            sink.words.append(_DYNAMIC_EXTENT)
            sink.value(dim)


def _write_encoding_slot(sink: Sink, type_: t.ShapedType) -> None:
    from loom.bytecode.attributes import write_encoding

    encoding: Any = type_.encoding
    if encoding is None:
        sink.words.append(_NO_ENCODING)
    elif hasattr(encoding, "owner"):
        sink.words.append(_VALUE_ENCODING)
        sink.value(encoding)
    else:
        sink.words.append(_STATIC_ENCODING)
        write_encoding(sink, encoding)


def read_type(cursor: Cursor, depth: int = 0) -> t.Type:
    """Read a reference to a type."""
    word = cursor.word()
    if word == 0:
        new = read_structure(cursor, depth + 1)
        cursor.local_types.append(new)
        return new
    number = word >> 1
    if word & 1:
        return cursor.types[number]
    types = cursor.local_types
    found: t.Type | None = types[number] if number < len(types) else None
    if found is None:
        raise Damage(
            "BYTECODE/012",
            f"type {number} of {len(types) - 1}",
            table_name="types",
            ref_id=number,
            table_count=len(types) - 1,
        )
    return found


def read_structure(cursor: Cursor, depth: int = 0) -> t.Type:
    """Read the kind and the parts of a type."""
    if depth > MAX_NESTING:
        raise Damage("BYTECODE/009", "types nest too deep", table_name="types", count=depth, limit=MAX_NESTING)
    at = cursor.at
    kind = cursor.word()
    reader = _READERS.get(kind)
    if reader is None:
        raise Damage("BYTECODE/004", f"kind {kind} at word {at}", type_kind=kind, offset=at)
    return reader(cursor, depth)


def _scalar(cursor: Cursor) -> t.ScalarType:
    at = cursor.at
    name = cursor.string()
    found = t.SCALARS.get(name)
    if found is None:
        raise Damage("BYTECODE/004", f"no scalar type '{name}'", type_kind=name, offset=at)
    return found


def _extents(cursor: Cursor) -> tuple[Any, ...]:
    rank = cursor.count()
    if rank > MAX_RANK:
        raise Damage("BYTECODE/009", f"rank {rank}", table_name="extents", count=rank, limit=MAX_RANK)
    dims: list[Any] = []
    for _ in range(rank):
        word = cursor.word()
        if word == _DYNAMIC_EXTENT:
            dims.append(cursor.value())
        elif word & 1:
            raise Damage("BYTECODE/004", f"extent code {word}", type_kind="extent", offset=cursor.at - 1)
        else:
            dims.append(word >> 1)
    return tuple(dims)


def _shaped(kind: str) -> Callable[[Cursor, int], t.Type]:
    def read(cursor: Cursor, depth: int) -> t.Type:
        element = _scalar(cursor)
        dims = _extents(cursor)
        slot = cursor.word()
        encoding: Any = None
        if slot == _STATIC_ENCODING:
            from loom.bytecode.attributes import read_encoding

            encoding = read_encoding(cursor, depth + 1)
        elif slot == _VALUE_ENCODING:
            encoding = cursor.value()
        elif slot != _NO_ENCODING:
            raise Damage("BYTECODE/004", f"encoding slot {slot}", type_kind=kind, offset=cursor.at - 1)
        return t.ShapedType.get(kind, dims, element, encoding, cursor.word() or None)

    return read


def _with_extents(kind: str) -> Callable[[Cursor, int], t.Type]:
    return lambda cursor, depth: t.DimsType(kind, _extents(cursor))


def _choice(cursor: Cursor, choices: tuple[Any, ...], kind: str) -> Any:
    word = cursor.word()
    if word >= len(choices):
        raise Damage("BYTECODE/011", f"{kind} {word}", field_name=kind, actual_value=word, case_count=len(choices))
    return choices[word]


def _function(cursor: Cursor, depth: int) -> t.Type:
    inputs, outputs = cursor.count(), cursor.count()
    parts = [read_type(cursor, depth) for _ in range(inputs + outputs)]
    return t.FunctionType(tuple(parts[:inputs]), tuple(parts[inputs:]))


def _register(cursor: Cursor, depth: int) -> t.Type:
    reg_class, count = cursor.key(), cursor.word()
    return t.RegType(reg_class, count, read_type(cursor, depth) if cursor.word() else None)


def _nested(cursor: Cursor, depth: int) -> t.Type:
    head = _choice(cursor, _NESTED_HEADS, "nested_head")
    mutable = bool(_choice(cursor, (False, True), "mutable"))
    if mutable and head != "read":
        raise Damage("BYTECODE/004", f"'{head}' is never mutable", type_kind=head, offset=cursor.at - 1)
    return t.NestedType(head, tuple(read_type(cursor, depth) for _ in range(t.NESTED_HEADS[head])), mutable)


_READERS: Final[dict[int, Callable[[Cursor, int], t.Type]]] = {
    SCALAR: lambda cursor, depth: _scalar(cursor),
    BUFFER: lambda cursor, depth: t.BUFFER,
    FUNCTION: _function,
    OPAQUE: lambda cursor, depth: t.OpaqueType(cursor.string()),
    ENCODING: lambda cursor, depth: t.ENCODING_TYPES[_choice(cursor, (None, *t.ENCODING_ROLES), "encoding_role")],
    REGISTER: _register,
    NESTED: _nested,
    STORAGE: lambda cursor, depth: t.StorageType(_choice(cursor, t.STORAGE_SPACES, "storage_space")),
    **{number: _shaped(kind) for kind, number in SHAPED.items()},
    **{number: _with_extents(kind) for kind, number in EXTENTS.items()},
}
