"""Every word of the language, collected from the declarations."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

import attrs

from loom.editor.syntax import syntax_words
from loom.ir.attributes import PREDICATES
from loom.ir.types import BUFFER, ENCODING_ROLES, NESTED_HEADS, SCALARS, SHAPED_KINDS, STORAGE_SPACES
from loom.spec.kinds import EnumKind, FlagsKind
from loom.spec.model import OpSpec
from loom.spec.registry import CORE_DIALECTS, all_ops, known_names, load_dialect, lookup
from loom.text.older.spellings import PREDICATES as OLDER_PREDICATES

# Values of attributes of any kind.
CONSTANTS: Final = ("true", "false", "inf", "nan")
# The form of byte strings, ``bytes("...")``.
BYTES: Final = "bytes"
# Heads of types that take parameters in angle brackets.
TYPE_HEADS: Final = (*SHAPED_KINDS, "group", "pool", "reg", "encoding", *NESTED_HEADS)


@attrs.frozen
class Vocabulary:
    """The words by what they are; each tuple is sorted. A word may be several things in different places."""

    operations: tuple[str, ...]
    keywords: tuple[str, ...]
    predicates: tuple[str, ...]
    scalar_types: tuple[str, ...]
    type_heads: tuple[str, ...]
    constants: tuple[str, ...]


@cache
def core_vocabulary() -> Vocabulary:
    """The words of core's own dialects; the same whatever is installed beside it, which is not even loaded."""
    for dialect in CORE_DIALECTS:
        load_dialect(dialect)
    found = (lookup(name) for name in known_names() if name.partition(".")[0] in CORE_DIALECTS)
    return _collect(cls.spec for cls in found if cls is not None)


@cache
def installed_vocabulary() -> Vocabulary:
    """The words of core's dialects and of those of all installed plugins. Raises `PluginError` if one is broken."""
    return _collect(cls.spec for cls in all_ops().values())


def _collect(specs: Iterable[OpSpec]) -> Vocabulary:
    names: set[str] = set()
    words: set[str] = {BYTES, *ENCODING_ROLES, *STORAGE_SPACES}
    for spec in specs:
        names.add(spec.name)
        words |= syntax_words(spec)
        for attribute in spec.attributes:
            kind = attribute.kind
            if isinstance(kind, EnumKind | FlagsKind):
                words.update(kind.words)
            if isinstance(kind, FlagsKind) and kind.all_word is not None:
                words.add(kind.all_word)
    return Vocabulary(
        operations=tuple(sorted(names)),
        keywords=tuple(sorted(words)),
        predicates=tuple(sorted({*PREDICATES, *OLDER_PREDICATES})),
        scalar_types=tuple(sorted({*SCALARS, BUFFER.text})),
        type_heads=tuple(sorted(TYPE_HEADS)),
        constants=tuple(sorted(CONSTANTS)),
    )
