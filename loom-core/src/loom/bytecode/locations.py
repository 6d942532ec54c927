"""Source positions of the operations of a file, in the order in which their records are read.

The section holds the first line and runs of operations from one source, then for every operation with a position four
integers: line difference to the one before (signed), column, number of further lines, and end column. The integers
are decoded only when a diagnostic asks for a position.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from loom.bytecode.failures import Damage
from loom.bytecode.varint import decode_words, encode_words, leading_word, unzigzag, zigzag
from loom.ir.diagnostics import Location, PlacedSource, SourceFile, resolve

Position = tuple[int, int, int, int]

_FIELDS: Final = 4

# Lines and columns share a made-up offset.
_LARGEST: Final = (1 << 31) - 1
_NOWHERE: Final = (1, 1, 1, 1)


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
        return self._decoded[index] if index < len(self._decoded) else _NOWHERE


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
    """The locations of all operations. Raises :class:`Damage` unless the runs fit; positions are looked at later."""

    def __init__(self, section: bytes, names: Sequence[str], operations: int) -> None:
        size, at = leading_word(section, 0)
        if size > len(section) - at:
            raise _bad("malformed run list")
        head, packed = decode_words(section[at : at + size]), section[at + size :]
        if len(head) % 2 == 0:
            raise _bad("malformed run list")
        files, counts = head[1::2], head[2::2]
        if max(files, default=0) > len(names) or sum(counts) != operations:
            raise _bad(f"the runs do not fit {len(names)} sources and {operations} operations")
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
        end = first + count
        if len(self._sources) == 1 and (only := self._sources[0]) is not None:
            return [(only, k) for k in range(first, end)]
        found: list[Location] = []
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


def _decode_positions(line: int, packed: bytes) -> list[Position]:
    """The positions. Forged ones that cannot be read are as good as none: a diagnostic must not fail over them."""
    try:
        words = decode_words(packed)
    except Damage:
        return []
    found: list[Position] = []
    for at in range(0, len(words) - _FIELDS + 1, _FIELDS):
        line += unzigzag(words[at])
        # A forged difference must not make lines that no file has, nor numbers that no text shows.
        shown = min(max(line, 1), _LARGEST)
        column, lines, end_column = (min(word, _LARGEST) for word in words[at + 1 : at + _FIELDS])
        found.append((shown, column, min(shown + lines, _LARGEST), end_column))
    return found


def _bad(detail: str) -> Damage:
    return Damage("BYTECODE/013", detail, location_id=0, offset=0, failure_code="location")
