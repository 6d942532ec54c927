"""Source positions of the operations of one body.

A record holds the first line and runs of operations from one file, then for every operation with a position four
integers: line difference to the one before (signed), column, number of further lines, and end column. The integers
are decoded only when a diagnostic asks for a position. So that this cannot fail, the record is checked when the body
is read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from loom.bytecode.failures import Damage
from loom.bytecode.varint import decode_words, encode_words, leading_word, unzigzag, zigzag
from loom.ir.diagnostics import Location, SourceFile, Span, resolve

Position = tuple[int, int, int, int]

_FIELDS: Final = 4
# Character offsets of a recorded file are made up of line and column.
_LINE_SHIFT: Final = 32
_COLUMN_MASK: Final = (1 << _LINE_SHIFT) - 1

_CONTINUED: Final = bytes(range(128, 256))
_TOO_LONG: Final = re.compile(rb"[\x80-\xff]{5}|[\x80-\xff]\x00")


def position_of(location: Location) -> tuple[str, Position] | None:
    """File name and 1-based line, column, end line and end column of a location."""
    span = resolve(location)
    if span is None:
        return None
    source = span.source
    return source.name, (*source.line_column(span.start), *source.line_column(span.end))


class Positions:
    """The positions of one body's operations, decoded when first asked for."""

    __slots__ = ("_decoded", "_line", "_packed")

    def __init__(self, line: int, packed: bytes) -> None:
        self._line = line
        self._packed = packed
        self._decoded: list[Position] | None = None

    def __getitem__(self, index: int) -> Position:
        if self._decoded is None:
            self._decoded = _decode_positions(self._line, self._packed)
        return self._decoded[index]


class RecordedSource(SourceFile):
    """A file known by its name and by the positions of a body's operations, without its text.

    ``shift`` leads from the number of an operation to its entry among the positions.
    """

    __slots__ = ("_positions", "_shift")

    def __init__(self, name: str, positions: Positions, shift: int = 0) -> None:
        super().__init__(name, "")
        self._positions = positions
        self._shift = shift

    def token_span(self, index: int) -> tuple[int, int]:
        """Start and end of the operation with a number, as made-up offsets."""
        line, column, end_line, end_column = self._positions[index + self._shift]
        return offset(line, column), offset(end_line, end_column)

    def line_column(self, offset: int) -> tuple[int, int]:
        """Line and column of a made-up offset."""
        return offset >> _LINE_SHIFT, offset & _COLUMN_MASK

    def line_text(self, line: int) -> str:
        """The text was not recorded."""
        return ""


def offset(line: int, column: int) -> int:
    """The made-up offset of a position."""
    return line << _LINE_SHIFT | column


def recorded_span(name: str, position: Sequence[int]) -> Span:
    """A location with a file name and a position, and nothing else."""
    line, column, end_line, end_column = position
    return Span(RecordedSource(name, Positions(0, b"")), offset(line, column), offset(end_line, end_column))


def encode_locations(files: Sequence[int], positions: Sequence[Position]) -> bytes:
    """The record of a body: per operation its file from 1 or 0 for none, and the positions of those with one."""
    runs: list[list[int]] = []
    for file in files:
        if runs and runs[-1][0] == file:
            runs[-1][1] += 1
        else:
            runs.append([file, 1])
    before = positions[0][0] if positions else 0
    head = encode_words([before, *(word for run in runs for word in run)])
    words: list[int] = []
    for line, column, end_line, end_column in positions:
        words += (zigzag(line - before), column, end_line - line, end_column)
        before = line
    return encode_words([len(head)]) + head + encode_words(words)


def read_locations(record: bytes, names: Sequence[str]) -> list[tuple[SourceFile | None, int]]:
    """Runs of operations: the file they come from, or ``None``, and how many they are.

    Raises :class:`Damage` unless decoding the positions will succeed.
    """
    size, at = leading_word(record, 0)
    head, packed = decode_words(record[at : at + size]), record[at + size :]
    if len(head) % 2 == 0 or size > len(record) - at:
        raise _bad("malformed run list")
    files, counts = head[1::2], head[2::2]
    located = sum(counts) if 0 not in files else sum(c for f, c in zip(files, counts, strict=True) if f)
    ends = len(packed.translate(None, _CONTINUED))
    if ends != _FIELDS * located or not (packed.isascii() or _is_sound(packed)):
        raise _bad("malformed positions")
    runs: list[tuple[SourceFile | None, int]] = []
    positions = Positions(head[0], packed)
    first = skipped = 0
    for file, count in zip(files, counts, strict=True):
        if file == 0:
            runs.append((None, count))
        elif file > len(names):
            raise _bad(f"file {file} of {len(names)}")
        else:
            runs.append((RecordedSource(names[file - 1], positions, skipped - first), count))
            skipped += count
        first += count
    return runs


def _is_sound(packed: bytes) -> bool:
    return packed[-1] < 128 and _TOO_LONG.search(packed) is None


def _decode_positions(line: int, packed: bytes) -> list[Position]:
    words = decode_words(packed)
    found: list[Position] = []
    for at in range(0, len(words), _FIELDS):
        line += unzigzag(words[at])
        # A forged difference must not make lines that no file has.
        shown = max(line, 1)
        found.append((shown, words[at + 1], shown + words[at + 2], words[at + 3]))
    return found


def _bad(detail: str) -> Damage:
    return Damage("BYTECODE/013", detail, location_id=0, offset=0, failure_code="location")
