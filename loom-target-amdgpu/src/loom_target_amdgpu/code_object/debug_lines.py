"""Write where machine code comes from: DWARF 5 sections with a line table and one entry per kernel.

The sections are not loaded and nothing in the loaded part depends on them. File names are written as the source was
named; there is no directory of the machine that compiled.

Source: DWARF Debugging Information Format, version 5: sections 6.2.4 (line number program header), 6.2.5 (line number
program), 7.5 (debugging information entries); LLVM's "User Guide for AMDGPU Backend", section Code Object DWARF.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from loom.ir.records import record

PRODUCER: Final = "Loom"

_VERSION: Final = 5
_ADDRESS_SIZE: Final = 8
_INSTRUCTION_SIZE: Final = 4
_LINE_BASE: Final = -5
_LINE_RANGE: Final = 14
_OPERAND_COUNTS: Final = bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))  # of the standard opcodes 1 to 12
_OPCODE_BASE: Final = len(_OPERAND_COUNTS) + 1

_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _SET_COLUMN = 1, 2, 3, 4, 5  # DW_LNS
_END_SEQUENCE, _SET_ADDRESS = 1, 2  # DW_LNE

_PATH, _DIRECTORY_INDEX = 1, 2  # DW_LNCT
_UNIT, _SUBPROGRAM = 0x11, 0x2E  # DW_TAG
_NAME, _STMT_LIST, _LOW_PC, _HIGH_PC = 0x03, 0x10, 0x11, 0x12  # DW_AT
_PRODUCER, _DECL_FILE, _DECL_LINE, _EXTERNAL = 0x25, 0x3A, 0x3B, 0x3F
_ADDR, _DATA4, _STRING, _UDATA, _SEC_OFFSET, _FLAG_PRESENT = 0x01, 0x06, 0x08, 0x0F, 0x17, 0x19  # DW_FORM
_UNIT_COMPILE: Final = 1

_RANGE: Final = ((_LOW_PC, _ADDR), (_HIGH_PC, _DATA4))
_DECLARED: Final = ((_DECL_FILE, _UDATA), (_DECL_LINE, _UDATA), (_EXTERNAL, _FLAG_PRESENT))
_ABBREVIATIONS: Final = (
    (_UNIT, True, ((_PRODUCER, _STRING), (_NAME, _STRING), (_STMT_LIST, _SEC_OFFSET), *_RANGE)),
    (_SUBPROGRAM, False, ((_NAME, _STRING), *_DECLARED, *_RANGE)),
)
"""Tag, whether there are entries below, and attributes with their forms; the code of one is its place from 1."""


@record
class SourcePlace:
    """A line and a column of a file, both from 1; column 0 is unknown."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"


@record
class SourceRow:
    """From this byte of a kernel's code on, instructions come from a place, or from none."""

    offset: int
    place: SourcePlace | None


@record
class SourceLines:
    """Where a kernel comes from.

    Attributes:
        declared: the place of the kernel itself.
        rows: places of its instructions by rising offset, the first at offset 0.
    """

    declared: SourcePlace
    rows: tuple[SourceRow, ...]


@record
class PlacedLines:
    """The lines of a kernel whose code has got its address."""

    name: str
    address: int
    size: int
    lines: SourceLines


def debug_sections(kernels: Sequence[PlacedLines]) -> dict[str, bytes]:
    """The sections, by name, for kernels in address order; there is at least one."""
    places = [kernel.lines.declared for kernel in kernels]
    places += [row.place for kernel in kernels for row in kernel.lines.rows if row.place is not None]
    files = {name: number for number, name in enumerate(dict.fromkeys(place.file for place in places))}
    return {
        ".debug_abbrev": _abbreviations(),
        ".debug_info": _information(kernels, files),
        ".debug_line": _line_table(kernels, files),
    }


def _unsigned(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _signed(value: int) -> bytes:
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return bytes(out)


def _text(value: str) -> bytes:
    return value.encode("utf-8", "replace").replace(b"\0", b"?") + b"\0"


def _counted(body: bytes) -> bytes:
    return len(body).to_bytes(4, "little") + body


def _address(value: int) -> bytes:
    return value.to_bytes(_ADDRESS_SIZE, "little")


def _abbreviations() -> bytes:
    out = bytearray()
    for code, (tag, children, attributes) in enumerate(_ABBREVIATIONS, 1):
        out += _unsigned(code) + _unsigned(tag) + bytes((children,))
        out += b"".join(_unsigned(number) for attribute in attributes for number in attribute) + bytes(2)
    return bytes(out) + b"\0"


def _information(kernels: Sequence[PlacedLines], files: dict[str, int]) -> bytes:
    start = kernels[0].address
    end = kernels[-1].address + kernels[-1].size
    body = bytearray(_VERSION.to_bytes(2, "little") + bytes((_UNIT_COMPILE, _ADDRESS_SIZE)) + bytes(4))
    body += _unsigned(1) + _text(PRODUCER) + _text(next(iter(files))) + bytes(4)
    body += _address(start) + (end - start).to_bytes(4, "little")
    for kernel in kernels:
        declared = kernel.lines.declared
        body += _unsigned(2) + _text(kernel.name) + _unsigned(files[declared.file]) + _unsigned(declared.line)
        body += _address(kernel.address) + kernel.size.to_bytes(4, "little")
    return _counted(bytes(body) + b"\0")


def _line_table(kernels: Sequence[PlacedLines], files: dict[str, int]) -> bytes:
    header = bytearray((_INSTRUCTION_SIZE, 1, 1, _LINE_BASE & 0xFF, _LINE_RANGE, _OPCODE_BASE)) + _OPERAND_COUNTS
    # One directory, the one that relative names start from; then the files.
    header += bytes((1, _PATH, _STRING)) + _unsigned(1) + _text("")
    header += bytes((2, _PATH, _STRING, _DIRECTORY_INDEX, _UDATA)) + _unsigned(len(files))
    for name in files:
        header += _text(name) + _unsigned(0)
    body = _VERSION.to_bytes(2, "little") + bytes((_ADDRESS_SIZE, 0)) + _counted(bytes(header))
    return _counted(body + b"".join(_sequence(kernel, files) for kernel in kernels))


def _sequence(kernel: PlacedLines, files: dict[str, int]) -> bytes:
    """The rows of one kernel. Line 0 says that an instruction comes from no line."""
    out = bytearray(bytes((0, 1 + _ADDRESS_SIZE, _SET_ADDRESS)) + _address(kernel.address))
    file, line, column = 1, 1, 0
    rows = list(_distinct(kernel.lines.rows))
    for row, following in pairwise([*rows, SourceRow(kernel.size, None)]):
        place = row.place
        new_line, new_column = (place.line, place.column) if place is not None else (0, 0)
        if place is not None and files[place.file] != file:
            file = files[place.file]
            out += bytes((_SET_FILE,)) + _unsigned(file)
        if new_column != column:
            column = new_column
            out += bytes((_SET_COLUMN,)) + _unsigned(column)
        step = new_line - line
        line = new_line
        if _LINE_BASE <= step < _LINE_BASE + _LINE_RANGE:
            out.append(_OPCODE_BASE + step - _LINE_BASE)  # a special opcode: next line, same address, a row
        else:
            out += bytes((_ADVANCE_LINE,)) + _signed(step) + bytes((_COPY,))
        out += bytes((_ADVANCE_PC,)) + _unsigned((following.offset - row.offset) // _INSTRUCTION_SIZE)
    return bytes(out) + bytes((0, 1, _END_SEQUENCE))


def _distinct(rows: Iterable[SourceRow]) -> Iterable[SourceRow]:
    """The rows that say something new."""
    last: SourceRow | None = None
    for row in rows:
        if last is None or row.place != last.place:
            yield row
            last = row
