"""The symbol index: what the linker needs to know about each module-level operation without decoding it.

A record is nine integers of 32 bits: name and template family (string numbers, 0 for none), op name (string
number), flags, number of symbols mentioned, and length and CRC-32 of the body and of its locations. Behind the
records follow the mentioned symbols of all operations, as words. Bodies and locations lie in the same order.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import attrs

from loom.bytecode.failures import Damage
from loom.bytecode.varint import decode_words, encode_words

RECORD: Final = struct.Struct("<9I")
_COUNT: Final = struct.Struct("<I")

EXPORTED: Final = 1
DECLARATION: Final = 2
ROOT: Final = 4
CHECK: Final = 8


@attrs.frozen
class SymbolEntry:
    """A module-level operation as the index describes it.

    ``name`` is ``None`` for an operation that defines no symbol. ``family`` is the template family that a provider
    belongs to. ``references`` are the symbols that the operation mentions, each once. ``ordinal`` is its position
    in the module.
    """

    ordinal: int
    name: str | None
    op_name: str
    family: str | None
    flags: int = attrs.field(repr=False)
    references: tuple[str, ...] = attrs.field(repr=False)
    body: tuple[int, int, int] = attrs.field(repr=False)
    locations: tuple[int, int, int] = attrs.field(repr=False)

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


def read_index(section: bytes, strings: Sequence[str | None], body_size: int, location_size: int) -> list[SymbolEntry]:
    """The entries of the section. Raises :class:`Damage` unless they fit the tables and sections they describe."""
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
    records = list(RECORD.iter_unpack(section[_COUNT.size : end]))
    mentioned = decode_words(section[end:])
    if mentioned and max(mentioned) >= len(strings):
        raise _string(max(mentioned), len(strings))
    mention_ends = list(accumulate(record[4] for record in records))
    body_ends = list(accumulate(record[5] for record in records))
    location_ends = list(accumulate(record[7] for record in records))
    for what, ends, size in (
        ("references", mention_ends, len(mentioned)),
        ("bodies", body_ends, body_size),
        ("locations", location_ends, location_size),
    ):
        if (ends[-1] if ends else 0) != size:
            raise _bad(f"the {what} of all symbols do not add up", count, what)
    entries: list[SymbolEntry] = []
    for ordinal, (name, family, op_name, flags, mentions, body, body_sum, places, places_sum) in enumerate(records):
        if max(name, family, op_name) >= len(strings):
            raise _string(max(name, family, op_name), len(strings))
        op_text = strings[op_name]
        references = tuple([text for k in mentioned[mention_ends[ordinal] - mentions : mention_ends[ordinal]]
                            if (text := strings[k]) is not None])  # fmt: skip
        if op_text is None or len(references) != mentions:
            raise _bad(f"symbol {ordinal} has an unnamed operation or reference", ordinal, "name")
        entries.append(
            SymbolEntry(
                ordinal,
                strings[name],
                op_text,
                strings[family],
                flags,
                references,
                (body_ends[ordinal] - body, body_ends[ordinal], body_sum),
                (location_ends[ordinal] - places, location_ends[ordinal], places_sum),
            )
        )
    return entries


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
