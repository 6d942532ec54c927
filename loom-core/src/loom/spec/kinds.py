"""Attribute kinds: what an attribute holds. How each kind reads and prints is in :mod:`loom.text.attributes`.

An enum value is stored as its word (``str``); the ordinal matters only to the binary form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from loom.ir.records import record


@record(eq=False)
class AttributeKind:
    """A kind of attribute value; ``name`` selects its syntax."""

    name: str


@record(eq=False)
class EnumKind(AttributeKind):
    """One word of a closed set; an open enum also takes ``<N>`` for a raw byte (stored as ``int``)."""

    label: str
    words: Mapping[str, int]
    open: bool = False


@record(eq=False)
class FlagsKind(AttributeKind):
    """A set of flags, stored as the tuple of words in bit order. ``all_word`` implies every flag."""

    label: str
    words: Mapping[str, int]
    all_word: str | None = None


INT: Final = AttributeKind("int")
FLOAT: Final = AttributeKind("float")
BOOL: Final = AttributeKind("bool")
STRING: Final = AttributeKind("string")
SYMBOL: Final = AttributeKind("symbol")
SYMBOL_NAME: Final = AttributeKind("symbol_name")
TYPE: Final = AttributeKind("type")
KEY: Final = AttributeKind("key")
INT_ARRAY: Final = AttributeKind("int_array")
SYMBOL_ARRAY: Final = AttributeKind("symbol_array")
DICT: Final = AttributeKind("dict")
PREDICATES: Final = AttributeKind("predicates")
ENCODING: Final = AttributeKind("encoding")
CONDITIONS: Final = AttributeKind("conditions")
LITERAL: Final = AttributeKind("literal")
LITERAL_ARRAY: Final = AttributeKind("literal_array")
ANY: Final = AttributeKind("any")
BYTES: Final = AttributeKind("bytes")
RESULTS: Final = AttributeKind("results")
STATIC_INDICES: Final = AttributeKind("static_indices")


def enum(label: str, words: Iterable[str] | Mapping[str, int], *, open: bool = False) -> EnumKind:
    """An enum; a plain list of words numbers them from 0."""
    table = dict(words) if isinstance(words, Mapping) else {w: i for i, w in enumerate(words)}
    return EnumKind("enum", label, table, open)


def flags(label: str, words: Mapping[str, int], *, all_word: str | None = None) -> FlagsKind:
    """A flag set with the bit value of each word."""
    return FlagsKind("flags", label, dict(words), all_word)


# Placeholder in a static index array where the entry is an operand (language reference, part 2, section 1.2).
DYNAMIC: Final = -(1 << 63)
