"""Attribute values that plain Python objects do not express.

Integers, floats, booleans, ``str`` (quoted text, or the word of a declared enum), ``bytes``, tuples and types
are attribute values as they are. This module adds the rest (language reference, part 1, section 2.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loom.ir.records import record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loom.ir.core import Value
    from loom.ir.types import Type


class Keyword(str):
    """A bare word in generic value position."""

    __slots__ = ()


class SymbolRef(str):
    """``@name`` in generic value position; the text excludes the sigil."""

    __slots__ = ()


class Dictionary(dict[str, object]):
    """An attribute dictionary; prints its keys sorted."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]  # frozen by convention once it is an attribute
        return hash(tuple(sorted(self)))


# Aggregates inside of each other that a value may have (section 2.3): arrays, dictionaries, parameters of encodings.
MAX_NESTING: Final = 8


def nests_deeper(value: object, levels: int = MAX_NESTING) -> bool:
    """Whether a value has more aggregates inside of each other than ``levels``."""
    inner: Iterable[object]
    if isinstance(value, tuple):
        inner = value
    elif isinstance(value, Dictionary):
        inner = value.values()
    elif isinstance(value, Encoding):
        inner = (*value.primary, *(item for _, item in value.params))
    else:
        return False
    return levels == 0 or any(nests_deeper(item, levels - 1) for item in inner)


@record
class Ref:
    """Argument of a predicate: position in the operand or signature list that the owner of the list defines."""

    index: int


@record
class Predicate:
    """One entry of a predicate list: ``range(%n, 0, 64)``."""

    name: str
    args: tuple[int | Ref, ...]


# name -> (number of arguments, operand domain)
PREDICATES: Final[dict[str, tuple[int, str]]] = {
    "eq": (2, "any"),
    "ne": (2, "any"),
    "lt": (2, "number"),
    "le": (2, "number"),
    "gt": (2, "number"),
    "ge": (2, "number"),
    "ult": (2, "integer"),
    "ule": (2, "integer"),
    "ugt": (2, "integer"),
    "uge": (2, "integer"),
    "multiple_of": (2, "number"),
    "power_of_two": (1, "number"),
    "range": (3, "number"),
    "not_nan": (1, "float"),
    "not_inf": (1, "float"),
    "finite": (1, "float"),
}


@record(repr=False)
class Encoding:
    """``#family``, ``#family<primary>``, ``#family<name = value>``: a parameterised attribute or static encoding.

    ``tight`` selects the spelling of named parameters: ``name=value`` (encodings) or ``name = value``
    (other attribute families). A file alias is no part of it: the printer of a module puts aliases in.
    """

    family: str
    primary: tuple[object, ...] = ()
    params: tuple[tuple[str, object], ...] = ()
    tight: bool = True

    def param(self, name: str, default: object = None) -> object:
        """Return the named parameter or ``default``."""
        for key, value in self.params:
            if key == name:
                return value
        return default

    def __str__(self) -> str:
        from loom.ir.attribute_text import value_text

        sep = "=" if self.tight else " = "
        items = [value_text(v) for v in self.primary] + [f"{k}{sep}{value_text(v)}" for k, v in self.params]
        return f"#{self.family}<{', '.join(items)}>" if items else f"#{self.family}"

    __repr__ = __str__


@record
class ResultSpec:
    """One entry of a signature's result list.

    ``value`` exists when the result is named, so that sibling types and predicates can mention it. ``tied`` is
    the position of the argument whose storage the result shares.
    """

    type: Type
    value: Value | None = None
    tied: int | None = None
