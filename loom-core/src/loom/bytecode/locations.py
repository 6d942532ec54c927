"""Source positions of the operations of a file, in the order in which their records are read.

The section holds the first line and runs of operations from one source, then for every operation with a position four
integers: line difference to the one before (signed), column, number of further lines, and end column. The integers
are decoded only when a diagnostic asks for a position. So that this cannot fail, the section is checked when the
file is opened, without decoding it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from loom.bytecode.failures import Damage
from loom.bytecode.varint import decode_words, encode_words, leading_word, unzigzag, zigzag
from loom.ir.diagnostics import Location, PlacedSource, SourceFile, resolve

Position = tuple[int, int, int, int]

_FIELDS: Final = 4

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
    """The positions of a file's operations, decoded when first asked for."""

    __slots__ = ("_decoded", "_line", "_packed")

    def __init__(self, line: int, packed: bytes) -> None:
        self._line = line
        self._packed = packed
        self._decoded: list[Position] | None = None

    def __getitem__(self, index: int) -> Position:
        if self._decoded is None:
            self._decoded = _decode_positions(self._line, self._packed)
        return self._decoded[index]


class RecordedSource(PlacedSource):
    """A source known by its name and by the positions of operations.

    ``shift`` leads from the number of an operation to its entry among the positions.
    """

    __slots__ = ("_positions", "_shift")

    def __init__(self, name: str, positions: Positions, shift: int = 0) -> None:
        super().__init__(name)
        self._positions = positions
        self._shift = shift

    def token_span(self, index: int) -> tuple[int, int]:
        """Start and end of the operation with a number, as made-up offsets."""
        line, column, end_line, end_column = self._positions[index + self._shift]
        return self.offset(line, column), self.offset(end_line, end_column)


def encode_locations(sources: Sequence[int], positions: Sequence[Position]) -> bytes:
    """The section: per operation its source from 1 or 0 for none, and the positions of those with one."""
    runs: list[list[int]] = []
    for source in sources:
        if runs and runs[-1][0] == source:
            runs[-1][1] += 1
        else:
            runs.append([source, 1])
    before = positions[0][0] if positions else 0
    head = encode_words([before, *(word for run in runs for word in run)])
    words: list[int] = []
    for line, column, end_line, end_column in positions:
        words += (zigzag(line - before), column, end_line - line, end_column)
        before = line
    return encode_words([len(head)]) + head + encode_words(words)


class LocationTable:
    """The locations of all operations. Raises :class:`Damage` unless decoding the positions will succeed."""

    def __init__(self, section: bytes, names: Sequence[str], operations: int) -> None:
        size, at = leading_word(section, 0)
        head, packed = decode_words(section[at : at + size]), section[at + size :]
        if len(head) % 2 == 0 or size > len(section) - at:
            raise _bad("malformed run list")
        files, counts = head[1::2], head[2::2]
        if max(files, default=0) > len(names) or sum(counts) != operations:
            raise _bad(f"the runs do not fit {len(names)} sources and {operations} operations")
        located = sum(count for file, count in zip(files, counts, strict=True) if file)
        ends = len(packed.translate(None, _CONTINUED))
        if ends != _FIELDS * located or not (packed.isascii() or _is_sound(packed)):
            raise _bad("malformed positions")
        positions = Positions(head[0], packed)
        # Where each run begins; the source of each.
        self._starts: list[int] = []
        self._sources: list[SourceFile | None] = []
        first = skipped = 0
        for file, count in zip(files, counts, strict=True):
            self._starts.append(first)
            self._sources.append(RecordedSource(names[file - 1], positions, skipped - first) if file else None)
            first += count
            skipped += count if file else 0
        self._starts.append(first)

    def of(self, first: int, count: int) -> list[Location]:
        """The locations of consecutive operations."""
        found: list[Location] = []
        end = first + count
        run = bisect_right(self._starts, first) - 1 if len(self._sources) > 1 else 0
        while first < end:
            stop = min(end, self._starts[run + 1])
            source = self._sources[run]
            if source is None:
                found += [None] * (stop - first)
            else:
                found += [(source, k) for k in range(first, stop)]
            first = stop
            run += 1
        return found


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
