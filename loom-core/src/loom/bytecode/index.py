"""The symbol index: what the linker needs to know about each module-level operation without decoding it.

The section begins with three counts (32-bit integers: operations, names, providers) and a digest of the names. Then
come a record per operation, the positions of named operations sorted by name, those of template providers sorted by
family, and the symbols that operations mention. A record is eight integers of 32 bits: name and template family
(string numbers, 0 for none), op name (string number), flags, where its mentioned symbols end, where its body ends,
CRC-32 of the body, and how many operations bodies up to this one have. Bodies lie in the same order.

Nothing is decoded in advance: looking up a name reads a few records, whatever the number of symbols.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, overload

import attrs

from loom.bytecode.failures import Damage
from loom.bytecode.tables import Names, Strings, bad_record
from loom.ir.core import Op
from loom.transforms.dce import is_exported, is_root

HEAD: Final = struct.Struct("<III12s")
RECORD: Final = struct.Struct("<8I")
_WORD: Final = struct.Struct("<I")
_NAME, _FAMILY, _OP, _FLAGS, _MENTIONS, _BODY, _SUM, _OPERATIONS = range(8)

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


@attrs.frozen
class IndexRow:
    """A module-level operation for the index: what a record says, ``body`` and ``operations`` by their sizes."""

    name: str | None
    family: str | None
    op_name: str
    flags: int
    mentions: Sequence[str]
    body: bytes
    operations: int


class Place(NamedTuple):
    """What the body of an operation must contain, where it is, and which operations of the file are in it."""

    name: str | None
    op_name: str
    start: int
    end: int
    checksum: int
    first: int
    last: int


def encode_index(rows: Sequence[IndexRow], string: Mapping[str, int]) -> bytes:
    """The contents of the section; ``string`` numbers the strings."""
    mentions: list[int] = []
    records: list[bytes] = []
    body = operations = 0
    for row in rows:
        mentions += [string[mentioned] for mentioned in row.mentions]
        body += len(row.body)
        operations += row.operations
        name = string[row.name] if row.name is not None else 0
        family = string[row.family] if row.family is not None else 0
        checksum = zlib.crc32(row.body)
        records.append(
            RECORD.pack(name, family, string[row.op_name], row.flags, len(mentions), body, checksum, operations)
        )
    names = sorted((row.name, k) for k, row in enumerate(rows) if row.name is not None)
    providers = sorted((row.family, k) for k, row in enumerate(rows) if row.family is not None)
    order = [*(k for _, k in names), *(k for _, k in providers), *mentions]
    digest = names_digest(row.name for row in rows)
    head = HEAD.pack(len(rows), len(names), len(providers), digest)
    return head + b"".join(records) + struct.pack(f"<{len(order)}I", *order)


class Index(Sequence[SymbolEntry]):
    """The entries of a module in order, made when asked for."""

    def __init__(self, section: bytes, strings: Strings, body_size: int) -> None:
        """Raises :class:`Damage` unless the parts of the section fit each other."""
        self._section = section
        self._strings = strings
        self._symbols = Names(strings, "symbol")
        self._body_size = body_size
        if len(section) < HEAD.size:
            raise bad_record("symbols", 0, "count")
        counts: tuple[int, int, int, bytes] = HEAD.unpack_from(section)
        self._count, self._named, self._provided, self._digest = counts
        self._names_at = HEAD.size + RECORD.size * self._count
        self._providers_at = self._names_at + _WORD.size * self._named
        self._mentions_at = self._providers_at + _WORD.size * self._provided
        mentions, rest = divmod(len(section) - self._mentions_at, _WORD.size)
        if mentions < 0 or rest or max(self._named, self._provided) > self._count:
            raise Damage(
                "BYTECODE/009",
                f"{self._count} symbols do not fit {len(section)} bytes",
                table_name="symbols",
                count=self._count,
                limit=(len(section) - HEAD.size) // RECORD.size,
            )
        last = self._record(self._count - 1) if self._count else (0,) * 8
        if last[_MENTIONS] != mentions or last[_BODY] != body_size:
            raise bad_record("symbols", self._count, "length")
        self.operations = last[_OPERATIONS]

    def _record(self, ordinal: int) -> tuple[int, ...]:
        return RECORD.unpack_from(self._section, HEAD.size + RECORD.size * ordinal)

    def _column(self, field: int) -> tuple[int, ...]:
        words = struct.unpack_from(f"<{8 * self._count}I", self._section, HEAD.size)
        return words[field::8]

    def _before(self, ordinal: int) -> tuple[int, ...]:
        return self._record(ordinal - 1) if ordinal else (0,) * 8

    def _sorted(self, at: int, k: int) -> int:
        """The position of an operation at a place of one of the sorted lists."""
        ordinal: int = _WORD.unpack_from(self._section, at + _WORD.size * k)[0]
        if ordinal >= self._count:
            raise bad_record("symbols", ordinal, "order")
        return ordinal

    # -- columns -------------------------------------------------------------------------------------------------

    @property
    def flags(self) -> tuple[int, ...]:
        """The flags of all operations."""
        return self._column(_FLAGS)

    @property
    def names(self) -> list[str | None]:
        """The names of all operations."""
        return [self._symbols[number] if number else None for number in self._column(_NAME)]

    # -- lookups -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._count

    def name(self, ordinal: int) -> str | None:
        """The symbol of an operation."""
        number = self._record(ordinal)[_NAME]
        return self._symbols[number] if number else None

    def op_name(self, ordinal: int) -> str:
        """The kind of an operation."""
        return self._strings[self._record(ordinal)[_OP]]

    def flags_at(self, ordinal: int) -> int:
        """The flags of an operation."""
        return self._record(ordinal)[_FLAGS]

    def find(self, name: str) -> int | None:
        """The position of a name, the first one when there are several."""
        for ordinal in self._equal(self._names_at, self._named, _NAME, name):
            return ordinal
        return None

    def providers(self, family: str) -> Sequence[int]:
        """The positions of a template family's providers, in order."""
        return list(self._equal(self._providers_at, self._provided, _FAMILY, family))

    def _equal(self, at: int, count: int, field: int, wanted: str) -> Iterator[int]:
        """The positions of operations with a name or family, by bisection in a sorted list."""
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            if self._text(self._sorted(at, middle), field) < wanted:
                low = middle + 1
            else:
                high = middle
        while low < count and self._text(ordinal := self._sorted(at, low), field) == wanted:
            yield ordinal
            low += 1

    def _text(self, ordinal: int, field: int) -> str:
        text: str = self._symbols[self._record(ordinal)[field]]
        return text

    @property
    def order(self) -> tuple[str, bytes]:
        """The first name in alphabetical order and :func:`names_digest`."""
        first = self._text(self._sorted(self._names_at, 0), _NAME) if self._named else ""
        return first, self._digest

    def place(self, ordinal: int) -> Place:
        """Where an operation's body is. Raises :class:`Damage` for one outside the bodies or with more than fits."""
        return self._place(ordinal, self._before(ordinal), self._record(ordinal))

    def places(self) -> Iterator[Place]:
        """The places of all operations, in order. Raises as :meth:`place` does."""
        before: tuple[int, ...] = (0,) * 8
        records = self._section[HEAD.size : self._names_at]
        for ordinal, record in enumerate(RECORD.iter_unpack(records)):
            yield self._place(ordinal, before, record)
            before = record

    def _place(self, ordinal: int, before: tuple[int, ...], record: tuple[int, ...]) -> Place:
        name, _, op, _, _, end, checksum, last = record
        start, first = before[_BODY], before[_OPERATIONS]
        # An operation takes a byte at least, so what is announced here is bounded by the size of the file.
        if not start <= end <= self._body_size or not 0 < last - first <= end - start:
            raise bad_record("symbols", ordinal, "body")
        return Place(self._symbols[name] if name else None, self._strings[op], start, end, checksum, first, last)

    @overload
    def __getitem__(self, ordinal: int) -> SymbolEntry: ...
    @overload
    def __getitem__(self, ordinal: slice) -> list[SymbolEntry]: ...
    def __getitem__(self, ordinal: int | slice) -> SymbolEntry | list[SymbolEntry]:
        if isinstance(ordinal, slice):
            return [self[k] for k in range(*ordinal.indices(len(self)))]
        k = range(len(self))[ordinal]
        record = self._record(k)
        start, end = self._before(k)[_MENTIONS], record[_MENTIONS]
        if not start <= end <= (len(self._section) - self._mentions_at) // _WORD.size:
            raise bad_record("symbols", k, "references")
        mentioned = struct.unpack_from(f"<{end - start}I", self._section, self._mentions_at + _WORD.size * start)
        return SymbolEntry(
            k,
            self._symbols[record[_NAME]] if record[_NAME] else None,
            self._strings[record[_OP]],
            self._symbols[record[_FAMILY]] if record[_FAMILY] else None,
            record[_FLAGS],
            tuple([self._symbols[number] for number in mentioned]),
        )


class SymbolTable(Mapping[str, SymbolEntry]):
    """Symbol name -> entry (the first one when a name is defined twice)."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def __getitem__(self, name: str) -> SymbolEntry:
        ordinal = self._index.find(name)
        if ordinal is None:
            raise KeyError(name)
        return self._index[ordinal]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._index.find(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for name in self._index.names if name is not None))

    def __len__(self) -> int:
        return sum(1 for _ in self)
