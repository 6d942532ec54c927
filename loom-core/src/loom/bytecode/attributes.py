"""Attribute values as words: one writer and one reader per declared attribute kind.

The kind is known from the op's declaration and is not stored, except inside generic values, where a tag tells
what follows. Words of enumerations are stored as strings: their ordinals may change from release to release.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from loom.bytecode.cursor import MAX_NESTING, Cursor, Sink
from loom.bytecode.failures import Damage
from loom.bytecode.types import names_values as type_names_values
from loom.bytecode.types import read_type, write_type
from loom.bytecode.varint import unzigzag, zigzag
from loom.ir.attributes import PREDICATES, Dictionary, Encoding, Keyword, Predicate, Ref, ResultSpec, SymbolRef
from loom.ir.types import Type
from loom.spec.kinds import DYNAMIC, AttributeKind, EnumKind, FlagsKind

# Tags of generic values, numbered like the language reference where it has them.
INTEGER: Final = 0
FLOAT: Final = 1
STRING: Final = 2
BOOLEAN: Final = 3
KEYWORD: Final = 4
ARRAY: Final = 5
SYMBOL: Final = 6
TYPE: Final = 7
DICTIONARY: Final = 9
ENCODING: Final = 10
BYTES: Final = 11

INT_RANGE: Final = range(-(1 << 63), 1 << 63)


def names_values(value: object) -> bool:
    """Whether an attribute value mentions a value of the program."""
    if isinstance(value, ResultSpec):
        # The argument that a result is tied to is one as well.
        return value.value is not None or value.tied is not None or type_names_values(value.type)
    if isinstance(value, Type):
        return type_names_values(value)
    if isinstance(value, tuple):
        return any(names_values(item) for item in value)
    if isinstance(value, dict):
        return any(names_values(item) for item in value.values())
    return False


def _bad(cursor: Cursor, detail: str, failure: str) -> Damage:
    return Damage("BYTECODE/015", detail, offset=cursor.at, failure_code=failure)


# -- plain values ------------------------------------------------------------------------------------------


def _write_int(sink: Sink, value: Any) -> None:
    if value not in INT_RANGE:
        raise ValueError(f"integer {value} does not fit signed 64 bits")
    sink.words.append(zigzag(int(value)))


def _read_int(cursor: Cursor) -> int:
    return unzigzag(cursor.word())


def _write_float(sink: Sink, value: float) -> None:
    # Read backwards, the bytes of a short fraction are a small integer.
    sink.words.append(int.from_bytes(struct.pack(">d", value), "little"))


def _read_float(cursor: Cursor) -> float:
    value: float = struct.unpack(">d", cursor.word().to_bytes(8, "little"))[0]
    return value


def _read_bool(cursor: Cursor) -> bool:
    word = cursor.word()
    if word > 1:
        raise Damage("BYTECODE/011", f"boolean {word}", field_name="boolean", actual_value=word, case_count=2)
    return word == 1


def _write_bytes(sink: Sink, value: bytes) -> None:
    # As characters of the string table: bulk conversions instead of a word per byte.
    sink.string(value.decode("latin-1"))


def _read_bytes(cursor: Cursor) -> bytes:
    try:
        return cursor.string().encode("latin-1")
    except UnicodeEncodeError:
        raise _bad(cursor, "a byte string holds a character above 255", "bytes") from None


def _write_all(write: Callable[[Sink, Any], None]) -> Callable[[Sink, Any, Any], None]:
    def run(sink: Sink, kind: Any, values: Any) -> None:
        sink.words.append(len(values))
        for value in values:
            write(sink, value)

    return run


def _read_all(read: Callable[[Cursor], object]) -> Callable[[Cursor, Any], object]:
    return lambda cursor, kind: tuple([read(cursor) for _ in range(cursor.count())])


# -- generic values ----------------------------------------------------------------------------------------


def write_value(sink: Sink, value: object, depth: int = 0) -> None:
    """Write a tagged value. Raises ``TypeError`` for one that no attribute can hold."""
    words = sink.words
    if depth > MAX_NESTING:
        raise ValueError(f"attributes nest deeper than {MAX_NESTING} levels")
    if isinstance(value, bool):
        words += (BOOLEAN, int(value))
    elif isinstance(value, int):
        words.append(INTEGER)
        _write_int(sink, value)
    elif isinstance(value, float):
        words.append(FLOAT)
        _write_float(sink, value)
    elif isinstance(value, str):
        words.append(KEYWORD if isinstance(value, Keyword) else SYMBOL if isinstance(value, SymbolRef) else STRING)
        sink.string(str(value))
    elif isinstance(value, bytes):
        words.append(BYTES)
        _write_bytes(sink, value)
    elif isinstance(value, tuple):
        words += (ARRAY, len(value))
        for item in value:
            write_value(sink, item, depth + 1)
    elif isinstance(value, dict):
        words.append(DICTIONARY)
        _write_dictionary(sink, value, depth)
    elif isinstance(value, Type):
        words.append(TYPE)
        write_type(sink, value)
    elif isinstance(value, Encoding):
        words.append(ENCODING)
        write_encoding(sink, value, depth)
    else:
        raise TypeError(f"attribute value {value!r} has no binary form")


def read_value(cursor: Cursor, depth: int = 0) -> object:
    """Read a tagged value."""
    if depth > MAX_NESTING:
        raise _bad(cursor, f"values nest deeper than {MAX_NESTING} levels", "nesting")
    tag = cursor.word()
    reader = _VALUE_READERS.get(tag)
    if reader is None:
        raise Damage("BYTECODE/005", f"tag {tag} at word {cursor.at - 1}", attr_kind=tag, offset=cursor.at - 1)
    return reader(cursor, depth + 1)


def _write_dictionary(sink: Sink, value: dict[str, object], depth: int = 0) -> None:
    sink.words.append(len(value))
    for key in sorted(value):
        sink.string(key)
        write_value(sink, value[key], depth + 1)


def _read_dictionary(cursor: Cursor, depth: int = 0) -> Dictionary:
    found = Dictionary()
    count = cursor.count()
    for _ in range(count):
        key = cursor.key()
        found[key] = read_value(cursor, depth)
    if len(found) != count:
        raise _bad(cursor, "a dictionary gives a key twice", "duplicate_key")
    return found


def write_encoding(sink: Sink, encoding: Encoding, depth: int = 0) -> None:
    """Write a parameterised attribute or a static encoding."""
    words = sink.words
    sink.string(encoding.family)
    words.append(int(encoding.tight))
    words.append(len(encoding.primary))
    for item in encoding.primary:
        write_value(sink, item, depth + 1)
    words.append(len(encoding.params))
    for key, value in encoding.params:
        sink.string(key)
        write_value(sink, value, depth + 1)


def read_encoding(cursor: Cursor, depth: int = 0) -> Encoding:
    """Read what :func:`write_encoding` wrote."""
    family, tight = cursor.key(), _read_bool(cursor)
    primary = tuple([read_value(cursor, depth + 1) for _ in range(cursor.count())])
    params = tuple([(cursor.key(), read_value(cursor, depth + 1)) for _ in range(cursor.count())])
    if len({key for key, _ in params}) != len(params):
        raise Damage(
            "BYTECODE/015", "an encoding gives a parameter twice", offset=cursor.at, failure_code="duplicate_key"
        )
    return Encoding(family, primary, params, tight)


_VALUE_READERS: Final[dict[int, Callable[[Cursor, int], object]]] = {
    INTEGER: lambda cursor, depth: _read_int(cursor),
    FLOAT: lambda cursor, depth: _read_float(cursor),
    STRING: lambda cursor, depth: cursor.string(),
    BOOLEAN: lambda cursor, depth: _read_bool(cursor),
    KEYWORD: lambda cursor, depth: Keyword(cursor.key()),
    ARRAY: lambda cursor, depth: tuple([read_value(cursor, depth) for _ in range(cursor.count())]),
    SYMBOL: lambda cursor, depth: SymbolRef(cursor.symbol()),
    TYPE: lambda cursor, depth: read_type(cursor, depth),
    DICTIONARY: _read_dictionary,
    ENCODING: read_encoding,
    BYTES: lambda cursor, depth: _read_bytes(cursor),
}


def _read_literal(cursor: Cursor) -> object:
    tag = cursor.words[cursor.at]
    if tag == INTEGER:
        # By far the commonest, and constants are many.
        cursor.at += 2
        return unzigzag(cursor.words[cursor.at - 1])
    if tag not in (FLOAT, BOOLEAN):
        raise _bad(cursor, "a literal is a number or a boolean", "literal")
    return read_value(cursor)


# -- kinds with a structure of their own -------------------------------------------------------------------


def _write_predicate(sink: Sink, predicate: Predicate) -> None:
    sink.string(predicate.name)
    sink.words.append(len(predicate.args))
    for arg in predicate.args:
        if isinstance(arg, Ref):
            sink.words.append(arg.index + 1)
        else:
            sink.words.append(0)
            _write_int(sink, arg)


def _read_predicate(cursor: Cursor) -> Predicate:
    name = cursor.string()
    args: list[int | Ref] = []
    for _ in range(cursor.count()):
        word = cursor.word()
        args.append(Ref(word - 1) if word else _read_int(cursor))
    if name not in PREDICATES or len(args) != PREDICATES[name][0]:
        raise _bad(cursor, f"no predicate '{name}' with {len(args)} arguments", "predicate")
    return Predicate(name, tuple(args))


def _write_static_index(sink: Sink, value: int) -> None:
    # The placeholder of a dynamic entry is the lowest integer, which would take ten bytes.
    if value == DYNAMIC:
        sink.words.append(0)
    else:
        sink.words.append(zigzag(value) + 1)


def _read_static_index(cursor: Cursor) -> int:
    word = cursor.word()
    return unzigzag(word - 1) if word else DYNAMIC


def _write_enum(sink: Sink, kind: EnumKind, value: Any) -> None:
    if isinstance(value, str):
        sink.string(value)
    else:
        sink.words += (0, value)


def _word(cursor: Cursor, words: Any, label: str) -> str:
    word = cursor.string()
    if word not in words:
        raise Damage(
            "BYTECODE/011", f"no {label} is called '{word}'", field_name=label, actual_value=word, case_count=len(words)
        )
    return word


def _read_enum(cursor: Cursor, kind: EnumKind) -> object:
    if cursor.words[cursor.at]:
        return _word(cursor, kind.words, kind.label)
    cursor.at += 1
    value = cursor.word()
    if value > 255 or not kind.open:
        raise Damage(
            "BYTECODE/011",
            f"{kind.label} {value}",
            field_name=kind.label,
            actual_value=value,
            case_count=len(kind.words),
        )
    return value


def _read_flags(cursor: Cursor, kind: FlagsKind) -> object:
    words = {*kind.words, *([kind.all_word] if kind.all_word is not None else [])}
    return tuple([_word(cursor, words, kind.label) for _ in range(cursor.count())])


_TEXT: Final = ("string", "symbol", "symbol_name", "key")
_TEXTS: Final = ("symbol_array", "flags")

WRITERS: Final[dict[str, Callable[[Sink, Any, Any], None]]] = {
    **{name: lambda sink, kind, value: sink.string(str(value)) for name in _TEXT},
    **{name: _write_all(lambda sink, value: sink.string(str(value))) for name in _TEXTS},
    "int": lambda sink, kind, value: _write_int(sink, value),
    "float": lambda sink, kind, value: _write_float(sink, value),
    "bool": lambda sink, kind, value: sink.words.append(int(value)),
    "type": lambda sink, kind, value: write_type(sink, value),
    "int_array": _write_all(_write_int),
    "static_indices": _write_all(_write_static_index),
    "literal": lambda sink, kind, value: write_value(sink, value),
    "literal_array": _write_all(write_value),
    "any": lambda sink, kind, value: write_value(sink, value),
    "dict": lambda sink, kind, value: _write_dictionary(sink, value),
    "bytes": lambda sink, kind, value: _write_bytes(sink, value),
    "encoding": lambda sink, kind, value: write_encoding(sink, value),
    "conditions": _write_all(write_encoding),
    "predicates": _write_all(_write_predicate),
    # Only lists whose entries are no more than types; :mod:`loom.bytecode.body` has all others.
    "results": _write_all(lambda sink, spec: write_type(sink, spec.type)),
    "enum": _write_enum,
}

READERS: Final[dict[str, Callable[[Cursor, Any], object]]] = {
    "string": lambda cursor, kind: cursor.string(),
    "symbol": lambda cursor, kind: cursor.symbol(),
    "symbol_name": lambda cursor, kind: cursor.symbol(),
    "key": lambda cursor, kind: cursor.key(),
    "symbol_array": _read_all(Cursor.symbol),
    "flags": _read_flags,
    "int": lambda cursor, kind: _read_int(cursor),
    "float": lambda cursor, kind: _read_float(cursor),
    "bool": lambda cursor, kind: _read_bool(cursor),
    "type": lambda cursor, kind: read_type(cursor),
    "int_array": _read_all(_read_int),
    "static_indices": _read_all(_read_static_index),
    "literal": lambda cursor, kind: _read_literal(cursor),
    "literal_array": _read_all(_read_literal),
    "any": lambda cursor, kind: read_value(cursor),
    "dict": lambda cursor, kind: _read_dictionary(cursor),
    "bytes": lambda cursor, kind: _read_bytes(cursor),
    "encoding": lambda cursor, kind: read_encoding(cursor),
    "conditions": _read_all(read_encoding),
    "predicates": _read_all(_read_predicate),
    "results": _read_all(lambda cursor: ResultSpec(read_type(cursor))),
    "enum": _read_enum,
}


def write_attribute(sink: Sink, kind: AttributeKind, value: object) -> None:
    """Write a value of a kind. Raises ``TypeError`` or ``ValueError`` when the value does not belong to it."""
    WRITERS[kind.name](sink, kind, value)


def read_attribute(cursor: Cursor, kind: AttributeKind) -> object:
    """Read a value of a kind."""
    return READERS[kind.name](cursor, kind)
