"""Read line tables: which line of which file an instruction of a code object comes from, whoever compiled it.

DWARF versions 2 to 5 are read. Like the reader of code objects this trusts nothing: every offset is checked.

Source: DWARF Debugging Information Format, versions 4 and 5, section 6.2 (line number information); System V gABI,
section Compressed Sections.
"""

from __future__ import annotations

import bisect
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from loom.ir.records import record
from loom_target_amdgpu.code_object import elf_format as elf
from loom_target_amdgpu.code_object.debug_lines import SourcePlace

_VERSIONS: Final = range(2, 6)
_MAX_SECTION: Final = 1 << 28
_MAX_NAME: Final = 4096
"""Bytes of a name, as many as a path of Linux has: damaged tables may name one long text thousands of times."""
_COMPRESSION_HEADER: Final = 24
_ZLIB: Final = 1
_PATH, _DIRECTORY_INDEX = 1, 2
_STRING, _BLOCK, _UDATA, _STRP, _LINE_STRP = 0x08, 0x09, 0x0F, 0x0E, 0x1F
_FIXED: Final = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16}
"""Sizes of the forms ``data1`` to ``data16``."""


class LineTableError(ValueError):
    """Debug information that cannot be read; ``offset`` is where, in its section or in the file."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"line table, offset {offset:#x}: {reason}")
        self.offset = offset


@record
class Row:
    """Instructions from an address on come from a place, up to the next row; ``None`` for no place."""

    address: int
    place: SourcePlace | None


class LineTable:
    """The rows of a code object.

    Args:
        sequences: each a run of rows by rising address, the last of which only ends it. Linkers move the rows of code
            that they leave out to address 0, where no code can be, or let them run into others; such are left out.
    """

    def __init__(self, sequences: Sequence[Sequence[Row]] = ()) -> None:
        rows: list[Row] = []
        for sequence in sorted(sequences, key=lambda s: s[0].address):
            if sequence[0].address and (not rows or rows[-1].address <= sequence[0].address):
                rows += sequence
        self._rows = rows
        self._addresses = [row.address for row in rows]

    def __bool__(self) -> bool:
        return bool(self._rows)

    def rows(self) -> Sequence[Row]:
        """The rows by rising address."""
        return self._rows

    def at(self, address: int) -> SourcePlace | None:
        """Where the instruction at an address comes from, if that is known."""
        number = bisect.bisect_right(self._addresses, address) - 1
        return self._rows[number].place if number >= 0 else None

    def addresses(self, file: str, line: int) -> tuple[int, ...]:
        """Where runs of instructions of a line start.

        ``file`` is a name as the table has it, or the last parts of one (``kernel.loom`` for ``lib/kernel.loom``).
        """
        found = []
        before: tuple[str, int] | None = None
        for row in self._rows:
            here = None if row.place is None else (row.place.file, row.place.line)
            if here != before and here is not None and here[1] == line and _names(here[0], file):
                found.append(row.address)
            before = here
        return tuple(found)

    def files(self) -> tuple[str, ...]:
        """The files that instructions come from, as the table names them."""
        return tuple(dict.fromkeys(row.place.file for row in self._rows if row.place is not None))


def _names(name: str, wanted: str) -> bool:
    return name == wanted or name.endswith("/" + wanted)


def read_line_table(data: bytes) -> LineTable:
    """The line table of an ELF file; empty where it has none.

    Raises:
        LineTableError: the debug sections are damaged or of an unknown form.
    """
    sections = _sections(data)
    lines = sections.get(".debug_line")
    if lines is None:
        return LineTable()
    sequences: list[list[Row]] = []
    cursor = _Cursor(lines, 0, len(lines))
    while cursor.at < cursor.end:
        sequences += _Unit(cursor, sections).sequences()
    return LineTable(sequences)


def _sections(data: bytes) -> Mapping[str, bytes]:
    """The debug sections of an ELF file by name, uncompressed."""
    if len(data) < elf.ELF_HEADER.size:
        raise LineTableError(len(data), "the file ends inside the ELF header")
    header = elf.ELF_HEADER.unpack_from(data)
    start, size, count, names_number = header[6], header[11], header[12], header[13]
    if not count:
        return {}
    if size != elf.SECTION_HEADER.size or start + count * size > len(data) or names_number >= count:
        raise LineTableError(start, "the section headers are damaged")
    headers = [elf.SECTION_HEADER.unpack_from(data, start + number * size) for number in range(count)]
    names = data[headers[names_number][4] : headers[names_number][4] + headers[names_number][5]]
    found: dict[str, bytes] = {}
    for name_at, kind, flags, _, offset, length, *_ in headers:
        name = names[name_at : names.find(b"\0", name_at)].decode("utf-8", "replace")
        if kind != elf.SHT_PROGBITS or not name.startswith(".debug_"):
            continue
        if offset + length > len(data):
            raise LineTableError(offset, f"the section {name} runs past the end of the file")
        content = data[offset : offset + length]
        found[name] = _uncompressed(content, offset) if flags & elf.SHF_COMPRESSED else content
    return found


def _uncompressed(content: bytes, offset: int) -> bytes:
    kind, size = int.from_bytes(content[:4], "little"), int.from_bytes(content[8:16], "little")
    if kind != _ZLIB or size > _MAX_SECTION:
        raise LineTableError(offset, f"a section is compressed in a way that is not supported ({kind})")
    try:
        return zlib.decompressobj().decompress(content[_COMPRESSION_HEADER:], max(1, size))
    except zlib.error as error:
        raise LineTableError(offset, f"a compressed section is damaged: {error}") from error


class _Cursor:
    """Reads numbers and strings between two offsets."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data = data
        self.at = at
        self.end = end

    def take(self, count: int) -> bytes:
        if count > self.end - self.at:
            raise LineTableError(self.at, "it ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "little", signed=signed)

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise LineTableError(self.at, "a number is too long")

    def signed(self) -> int:
        start = self.at
        value = self.unsigned()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) else value

    def text(self) -> str:
        end = self.data.find(b"\0", self.at, min(self.end, self.at + _MAX_NAME + 1))
        if end < 0:
            raise LineTableError(self.at, "a name does not end, or is too long")
        value = self.data[self.at : end].decode("utf-8", "replace")
        self.at = end + 1
        return value


class _Unit:
    """One line number program: its header is read at once, its rows by :meth:`sequences`."""

    def __init__(self, cursor: _Cursor, sections: Mapping[str, bytes]) -> None:
        self._sections = sections
        length = cursor.number(4)
        self._offset_size = 4
        if length == 0xFFFFFFFF:
            length, self._offset_size = cursor.number(8), 8
        if length > cursor.end - cursor.at:
            raise LineTableError(cursor.at, "a unit is longer than its section")
        self._cursor = own = _Cursor(cursor.data, cursor.at, cursor.at + length)
        cursor.at = own.end
        version = own.number(2)
        if version not in _VERSIONS:
            raise LineTableError(own.at, f"DWARF version {version} is not supported")
        if version >= 5:
            own.take(2)  # sizes of addresses and segment selectors
        program = own.number(self._offset_size)
        program += own.at
        self._step = own.number(1)
        if version >= 4:
            own.take(1)  # operations per instruction: no processor of ours packs several
        own.take(1)  # whether rows are good places for breakpoints unless said otherwise
        self._line_base = own.number(1, signed=True)
        self._line_range = own.number(1)
        self._opcode_base = own.number(1)
        if not self._line_range or not self._opcode_base:
            raise LineTableError(own.at, "the header is damaged")
        self._operands = own.take(self._opcode_base - 1)
        self._files = self._newer_files() if version >= 5 else self._older_files()
        if not own.at <= program <= own.end:
            raise LineTableError(own.at, "the header is longer than it says")
        own.at = program

    def _older_files(self) -> list[str]:
        """Versions 2 to 4: names up to an empty one; file 1 is the first, directory 0 where the compiler ran."""
        own = self._cursor
        directories, files = [""], [""]
        while name := own.text():
            directories.append(name)
        while name := own.text():
            directory = own.unsigned()
            own.unsigned()
            own.unsigned()
            files.append(self._join(directories, directory, name))
        return files

    def _newer_files(self) -> list[str]:
        """Version 5: tables whose columns the header describes; directory 0 is where the compiler ran."""
        directories = [str(entry.get(_PATH, "")) for entry in self._table()]
        files = []
        for entry in self._table():
            directory = entry.get(_DIRECTORY_INDEX, 0)
            if isinstance(directory, str):
                raise LineTableError(self._cursor.at, f"the number of a directory is the text '{directory}'")
            files.append(self._join(["", *directories[1:]], directory, str(entry.get(_PATH, ""))))
        return files

    def _join(self, directories: Sequence[str], number: int, name: str) -> str:
        if number >= len(directories):
            raise LineTableError(self._cursor.at, f"'{name}' is in directory {number} of {len(directories)}")
        directory = directories[number]
        return name if not directory or name.startswith("/") else f"{directory.rstrip('/')}/{name}"

    def _table(self) -> Iterator[dict[int, int | str]]:
        own = self._cursor
        columns = [(own.unsigned(), own.unsigned()) for _ in range(own.number(1))]
        count = own.unsigned()
        if count > own.end - own.at:
            raise LineTableError(own.at, f"a table of {count} names does not fit")
        for _ in range(count):
            yield {what: self._form(form) for what, form in columns}

    def _form(self, form: int) -> int | str:
        own = self._cursor
        if form == _STRING:
            return own.text()
        if form in (_STRP, _LINE_STRP):
            section = self._sections.get(".debug_line_str" if form == _LINE_STRP else ".debug_str", b"")
            return _Cursor(section, own.number(self._offset_size), len(section)).text()
        if form == _UDATA:
            return own.unsigned()
        if form == _BLOCK:
            own.take(own.unsigned())
            return 0
        if form in _FIXED:
            return own.number(_FIXED[form])
        raise LineTableError(own.at, f"the form {form:#x} is not supported")

    def sequences(self) -> Iterator[list[Row]]:
        """The rows; sequences without code are left out."""
        own = self._cursor
        rows: list[Row] = []
        address, file, line, column = 0, 1, 1, 0
        while own.at < own.end:
            opcode = own.number(1)
            if opcode >= self._opcode_base:
                advance, more = divmod(opcode - self._opcode_base, self._line_range)
                address += advance * self._step
                line += self._line_base + more
                rows.append(self._row(address, file, line, column))
            elif opcode == 0:
                rest = _Cursor(own.data, own.at, own.end)
                length = rest.unsigned()
                body = _Cursor(own.data, rest.at, rest.at + length)
                rest.take(length)
                own.at = rest.at
                extended = body.number(1)
                if extended == 1:
                    rows.append(Row(address, None))
                    if rows[0].address < address:
                        yield _in_order(rows, own.at)
                    rows = []
                    address, file, line, column = 0, 1, 1, 0
                elif extended == 2:
                    address = body.number(length - 1)
            elif opcode == 1:
                rows.append(self._row(address, file, line, column))
            elif opcode == 2:
                address += own.unsigned() * self._step
            elif opcode == 3:
                line += own.signed()
            elif opcode == 4:
                file = own.unsigned()
            elif opcode == 5:
                column = own.unsigned()
            elif opcode == 8:
                address += (255 - self._opcode_base) // self._line_range * self._step
            elif opcode == 9:
                address += own.number(2)
            else:
                for _ in range(self._operands[opcode - 1]):
                    own.unsigned()

    def _row(self, address: int, file: int, line: int, column: int) -> Row:
        if line <= 0:
            return Row(address, None)
        if not 0 <= file < len(self._files):
            raise LineTableError(self._cursor.at, f"file {file} of {len(self._files)}")
        return Row(address, SourcePlace(self._files[file], line, column))


def _in_order(rows: list[Row], at: int) -> list[Row]:
    if any(before.address > after.address for before, after in pairwise(rows)):
        raise LineTableError(at, "addresses of a sequence fall")
    return rows
