"""The symbol index: what the linker needs to know about each module-level operation without decoding it.

A record is eight integers of 32 bits: name and template family (string numbers, 0 for none), op name (string
number), flags, number of symbols mentioned, length and CRC-32 of the body, and number of operations in it. Behind the
records follow the mentioned symbols of all operations, as words. Bodies lie in the same order.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import gt
from typing import Final, overload

import attrs

from loom.bytecode.failures import Damage
from loom.bytecode.varint import decode_words, encode_words
from loom.ir.core import Op
from loom.transforms.dce import is_exported, is_root

RECORD: Final = struct.Struct("<8I")
_COUNT: Final = struct.Struct("<I")

EXPORTED: Final = 1
DECLARATION: Final = 2
ROOT: Final = 4
CHECK: Final = 8

_PROVIDERS: Final = ("template.def", "template.ukernel")


def flags_of(op: Op) -> int:
    """The flags of a module-level operation."""
    traits = op.spec.traits
    return (
        (EXPORTED if is_exported(op) else 0)
        | (DECLARATION if "declaration" in traits else 0)
        | (ROOT if is_root(op) else 0)
        | (CHECK if "check" in traits else 0)
    )


def family_of(op: Op) -> str | None:
    """The template family that an operation provides, or ``None``."""
    return str(op.attribute("family")) if op.name in _PROVIDERS else None


def names_digest(names: Iterable[str | None]) -> bytes:
    """What tells modules with different symbols apart, whatever the order of these. Most modules differ in it."""
    text = "\n".join(sorted(name for name in names if name is not None)).encode("utf-8", "surrogatepass")
    return struct.pack("<III", len(text), zlib.crc32(text), zlib.adler32(text))


@attrs.frozen
class SymbolEntry:
    """A module-level operation as the index describes it.

    ``name`` is ``None`` for an operation that defines no symbol. ``family`` is the template family that a provider
    belongs to. ``references`` are the symbols that the operation mentions, each once and sorted. ``ordinal`` is its
    position in the module.
    """

    ordinal: int
    name: str | None
    op_name: str
    family: str | None
    flags: int = attrs.field(repr=False)
    references: tuple[str, ...] = attrs.field(repr=False)

    @property
    def is_exported(self) -> bool:
        """Whether the definition is part of its module's interface."""
        return bool(self.flags & EXPORTED)

    @property
    def is_declaration(self) -> bool:
        """Whether the operation is declared to have its definition elsewhere."""
        return bool(self.flags & DECLARATION)

    @property
    def is_root(self) -> bool:
        """Whether reachability starts here: exported, retained, or no symbol at all."""
        return bool(self.flags & ROOT)

    @property
    def is_check(self) -> bool:
        """Whether the operation is a check record."""
        return bool(self.flags & CHECK)


def encode_index(records: Sequence[tuple[int, ...]], references: Sequence[int]) -> bytes:
    """The contents of the section."""
    return _COUNT.pack(len(records)) + b"".join(RECORD.pack(*r) for r in records) + encode_words(list(references))


class Index(Sequence[SymbolEntry]):
    """The entries of a file in order. They are kept as columns; entries are made when asked for.

    ``names``, ``op_names``, ``families`` and ``flags`` are the columns that are wanted of all symbols at once;
    ``body_ends`` and ``op_ends`` say where the body of each and its operations end, after a first 0.
    """

    def __init__(self, section: bytes, strings: Sequence[str | None], body_size: int) -> None:
        """Raises :class:`Damage` unless the records fit the tables and sections they describe."""
        if len(section) < _COUNT.size:
            raise _bad("the count is missing", 0, "count")
        (count,) = _COUNT.unpack_from(section)
        end = _COUNT.size + count * RECORD.size
        if end > len(section):
            raise Damage(
                "BYTECODE/009",
                f"{count} symbols do not fit {len(section)} bytes",
                table_name="symbols",
                count=count,
                limit=(len(section) - _COUNT.size) // RECORD.size,
            )
        fields = RECORD.size // 4
        flat = struct.unpack_from(f"<{count * fields}I", section, _COUNT.size)
        names, families, ops, self.flags, mentions, bodies, self.body_sums, sizes = (
            flat[k::fields] for k in range(fields)
        )
        self._strings = strings
        self._mentioned = decode_words(section[end:])
        for column in (names, families, ops, self._mentioned):
            if column and max(column) >= len(strings):
                raise _string(max(column), len(strings))
        self._mention_ends = list(accumulate(mentions, initial=0))
        self.body_ends = list(accumulate(bodies, initial=0))
        self.op_ends = list(accumulate(sizes, initial=0))
        for what, ends, size in (
            ("references", self._mention_ends, len(self._mentioned)),
            ("bodies", self.body_ends, body_size),
        ):
            if ends[-1] != size:
                raise _bad(f"the {what} of all symbols do not add up", count, what)
        # An operation takes a byte at least, so what is announced here is bounded by the size of the file.
        if any(map(gt, sizes, bodies)) or 0 in sizes:
            raise _bad("a body is too short for its operations", 0, "operations")
        if 0 in ops or 0 in self._mentioned:
            raise _bad("an operation or a reference has no name", 0, "name")
        self.names = [strings[k] for k in names]
        self.families = [strings[k] for k in families]
        self.op_names = [strings[k] or "" for k in ops]

    def __len__(self) -> int:
        return len(self.names)

    def name(self, ordinal: int) -> str | None:
        """The symbol of an operation."""
        name: str | None = self.names[ordinal]
        return name

    def op_name(self, ordinal: int) -> str:
        """The kind of an operation."""
        return self.op_names[ordinal]

    def find(self, name: str) -> int | None:
        """The position of a name, the first one when there are several."""
        try:
            return self.names.index(name)
        except ValueError:
            return None

    def providers(self, family: str) -> Sequence[int]:
        """The positions of a template family's providers."""
        return [k for k, found in enumerate(self.families) if found == family]

    @property
    def order(self) -> tuple[str, bytes]:
        """The first name in alphabetical order and :func:`names_digest`."""
        return min((name for name in self.names if name is not None), default=""), names_digest(self.names)

    @overload
    def __getitem__(self, ordinal: int) -> SymbolEntry: ...
    @overload
    def __getitem__(self, ordinal: slice) -> list[SymbolEntry]: ...
    def __getitem__(self, ordinal: int | slice) -> SymbolEntry | list[SymbolEntry]:
        if isinstance(ordinal, slice):
            return [self[k] for k in range(*ordinal.indices(len(self)))]
        k = range(len(self))[ordinal]
        mentioned = self._mentioned[self._mention_ends[k] : self._mention_ends[k + 1]]
        return SymbolEntry(
            k,
            self.names[k],
            self.op_names[k],
            self.families[k],
            self.flags[k],
            tuple([self._strings[number] or "" for number in mentioned]),
        )


class SymbolTable(Mapping[str, SymbolEntry]):
    """Symbol name -> entry (the first one when a name is defined twice)."""

    def __init__(self, index: Index) -> None:
        self._index = index
        # Later pairs win in a dictionary, and the first definition is wanted.
        pairs = zip(reversed(index.names), range(len(index) - 1, -1, -1), strict=True)
        self._ordinals = {name: ordinal for name, ordinal in pairs if name is not None}

    def __getitem__(self, name: str) -> SymbolEntry:
        return self._index[self._ordinals[name]]

    def __contains__(self, name: object) -> bool:
        return name in self._ordinals

    def __iter__(self) -> Iterator[str]:
        return reversed(self._ordinals)

    def __len__(self) -> int:
        return len(self._ordinals)


def _string(number: int, count: int) -> Damage:
    return Damage(
        "BYTECODE/010",
        f"string {number} of {count - 1}",
        field_name="symbols",
        string_id=number,
        string_count=count - 1,
    )


def _bad(detail: str, record: int, field: str) -> Damage:
    return Damage(
        "BYTECODE/006",
        f"symbols: {detail}",
        section_name="symbols",
        table_name="symbols",
        record_index=record,
        field_name=field,
        offset=0,
        failure_code=field,
    )
