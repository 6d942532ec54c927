"""Tables of a file whose entries are decoded when asked for, by their number from 1.

A table of records holds their number, where each ends (32-bit integers), and the records; strings are records of
UTF-8. So opening a file costs the same whatever is in it, and a body pays for the entries that it mentions.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from operator import le
from typing import Any, Final, TypeVar

from loom.bytecode.failures import Damage

T = TypeVar("T")

_U32: Final = struct.Struct("<I")
_PAIR: Final = struct.Struct("<II")

# What names in a program may look like (language reference, part 1, section 1): tokens of the text form.
_DOTTED: Final = r"[A-Za-z_$][A-Za-z0-9_$-]*(?:\.[A-Za-z0-9_$][A-Za-z0-9_$-]*)*"
NAME_KINDS: Final = {
    "value": re.compile(r"[A-Za-z0-9_$][A-Za-z0-9_$-]*"),
    "symbol": re.compile(_DOTTED),
    "key": re.compile(_DOTTED + r"(?:\+[A-Za-z0-9_$.-]+)*"),
    # As in text, where a carriage return at the end of a comment belongs to the line end.
    "comment": re.compile(r"(?:[^\n]*[^\n\r])?"),
}


def encode_records(records: Sequence[bytes]) -> bytes:
    """The contents of a table's section."""
    ends = list(accumulate(map(len, records)))
    return _U32.pack(len(records)) + struct.pack(f"<{len(ends)}I", *ends) + b"".join(records)


class Records:
    """The records of a section as bytes. Raises :class:`Damage` unless their number fits the section."""

    def __init__(self, section: bytes, name: str) -> None:
        self.name = name
        self.section = section
        if len(section) < _U32.size:
            raise bad_record(name, 0, "count")
        (self.count,) = _U32.unpack_from(section)
        self._base = _U32.size * (self.count + 1)
        if self._base > len(section):
            raise Damage(
                "BYTECODE/009",
                f"{self.count} {name} do not fit {len(section)} bytes",
                table_name=name,
                count=self.count,
                limit=len(section) // _U32.size,
            )
        last = _U32.unpack_from(section, self._base - _U32.size)[0] if self.count else 0
        if self._base + last != len(section):
            raise bad_record(name, self.count, "length")

    def __getitem__(self, number: int) -> bytes:
        """The record of a number from 1. Raises :class:`Damage` for one that the table does not have."""
        if not 0 < number <= self.count:
            raise Damage(
                "BYTECODE/012",
                f"entry {number} of {self.count} {self.name}",
                table_name=self.name,
                ref_id=number,
                table_count=self.count,
            )
        start, end = _PAIR.unpack_from(self.section, _U32.size * (number - 1))
        if number == 1:
            # In front of the first end stands the count.
            start = 0
        if start > end or self._base + end > len(self.section):
            raise bad_record(self.name, number, "length")
        return self.section[self._base + start : self._base + end]


class Lazy(dict[int, T]):
    """Entries made by a function of their number when first asked for."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[int], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, number: int) -> T:
        self[number] = made = self._make(number)
        return made


class Strings(Lazy[str]):
    """The strings of a file."""

    __slots__ = ("count", "records")

    def __init__(self, section: bytes) -> None:
        super().__init__(self._decode)
        self.records = Records(section, "strings")
        self.count = self.records.count

    def _decode(self, number: int) -> str:
        if not 0 < number <= self.count:
            raise Damage(
                "BYTECODE/010",
                f"string {number} of {self.count}",
                field_name="string",
                string_id=number,
                string_count=self.count,
            )
        try:
            return self.records[number].decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise bad_record("strings", number, "utf8") from None

    def load(self) -> None:
        """Decode all strings at once, for those who will need most of them."""
        section, count = self.records.section, self.count
        base = _U32.size * (count + 1)
        text = section[base:]
        ends = struct.unpack_from(f"<{count}I", section, _U32.size) if count else ()
        if text.isascii() and all(map(le, ends, ends[1:])):
            whole = text.decode()
            pieces = [whole[start:end] for start, end in pairwise((0, *ends))]
            self.update(zip(range(1, count + 1), pieces, strict=True))


def encode_strings(strings: Iterable[str]) -> bytes:
    """The contents of the section of strings."""
    # A lone surrogate is legal in memory; text refuses it later.
    return encode_records([text.encode("utf-8", "surrogatepass") for text in strings])


class Names(Lazy[Any]):
    """The strings of a file that are names of a kind; others are refused, as text could not spell them.

    With ``optional`` the number 0 stands for no name.
    """

    __slots__ = ("_kind", "_pattern", "_strings")

    def __init__(self, strings: Strings, kind: str, *, optional: bool = False) -> None:
        super().__init__(self._check)
        if optional:
            self[0] = None
        self._strings = strings
        self._kind = kind
        self._pattern = NAME_KINDS[kind]

    def _check(self, number: int) -> str:
        text = self._strings[number]
        if self._pattern.fullmatch(text) is None:
            raise Damage(
                "BYTECODE/015",
                f"{text[:60]!r} cannot be a {self._kind}" + (" name" if self._kind != "comment" else ""),
                offset=number,
                failure_code="name",
            )
        return text


def bad_record(table: str, index: int, field: str) -> Damage:
    """A record that does not fit its table."""
    return Damage(
        "BYTECODE/006",
        f"{table}: record {index}, {field}",
        section_name=table,
        table_name=table,
        record_index=index,
        field_name=field,
        offset=0,
        failure_code=field,
    )
