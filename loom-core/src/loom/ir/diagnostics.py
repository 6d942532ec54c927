"""Diagnostics: records, source files, and the exception that carries them (language reference, part 3, section 12)."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Mapping, Sequence

from loom.ir.records import field, record


class SourceFile:
    """A named source text. Line and column numbers are computed only when something is reported."""

    __slots__ = ("_line_starts", "_token_starts", "name", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self._line_starts: list[int] | None = None
        self._token_starts: list[tuple[int, int]] | None = None

    def line_column(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column of a character offset."""
        if self._line_starts is None:
            starts = [0]
            find = self.text.find
            at = find("\n")
            while at >= 0:
                starts.append(at + 1)
                at = find("\n", at + 1)
            self._line_starts = starts
        line = bisect.bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """Return the text of a 1-based line without its line end."""
        assert self._line_starts is not None
        start = self._line_starts[line - 1]
        end = self.text.find("\n", start)
        return (self.text[start:] if end < 0 else self.text[start:end]).rstrip("\r")

    def set_token_spans(self, spans: list[tuple[int, int]]) -> None:
        """Say where the tokens of the text are, when they are not those that the lexer finds."""
        self._token_starts = spans

    def token_span(self, index: int) -> tuple[int, int]:
        """Return the character range of a token; past the last token it is the end of the text."""
        if self._token_starts is None:
            from loom.text.lexer import token_spans

            self._token_starts = token_spans(self.text)
        if index >= len(self._token_starts):
            end = len(self.text.rstrip())
            return end, end
        return self._token_starts[index]


@record
class Span:
    """A character range of a source file."""

    source: SourceFile = field(eq=False, repr=lambda source: source.name)
    start: int
    end: int


# Character offsets of a source without text are made up of line and column.
_LINE_SHIFT = 32
_COLUMN_MASK = (1 << _LINE_SHIFT) - 1


class PlacedSource(SourceFile):
    """A source known by its name and by positions in it, without its text."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__(name, "")

    @staticmethod
    def offset(line: int, column: int) -> int:
        """The made-up offset of a position."""
        return line << _LINE_SHIFT | column

    def line_column(self, offset: int) -> tuple[int, int]:
        """Line and column of a made-up offset."""
        return offset >> _LINE_SHIFT, offset & _COLUMN_MASK

    def line_text(self, line: int) -> str:
        """There is no text."""
        return ""


def placed_span(name: str, position: Sequence[int]) -> Span:
    """A range with a file name, lines and columns (line, column, end line, end column), and nothing else."""
    line, column, end_line, end_column = position
    return Span(PlacedSource(name), PlacedSource.offset(line, column), PlacedSource.offset(end_line, end_column))


# An operation's location: a token of a file (cheap to make while parsing), a resolved span, or nothing.
Location = tuple[SourceFile, int] | Span | None


def resolve(location: Location) -> Span | None:
    """Turn a location into a character range."""
    if location is None or isinstance(location, Span):
        return location
    source, token = location
    start, end = source.token_span(token)
    return Span(source, start, end)


@record
class SourceLocation:
    """A place in a source text as JSON records give it: 1-based lines and columns, the end column exclusive.

    Field order is key order.
    """

    provenance: str = field(default="exact_source", kw_only=True)
    filename: str
    start_line: int
    start_column: int
    end_line: int
    end_column: int

    @classmethod
    def of(cls, location: Location) -> SourceLocation | None:
        """The place of an operation or token, or ``None`` without a location."""
        span = resolve(location)
        if span is None:
            return None
        source = span.source
        return cls(source.name, *source.line_column(span.start), *source.line_column(span.end))

    def __str__(self) -> str:
        return f"{self.filename}:{self.start_line}:{self.start_column}"


@record
class Related:
    """Another place that a diagnostic talks about."""

    label: str
    location: Location = None


@record
class Diagnostic:
    """One finding. ``code`` is ``DOMAIN/NNN``; ``params`` are the named parameters of the catalogue."""

    code: str
    message: str
    location: Location = None
    params: Mapping[str, object] = field(factory=dict)
    severity: str = "error"
    hint: str | None = None
    related: tuple[Related, ...] = ()
    emitter: str = "verifier"

    def position(self) -> tuple[str, int, int] | None:
        """File name, line and column, or ``None`` without a location."""
        span = resolve(self.location)
        if span is None:
            return None
        return (span.source.name, *span.source.line_column(span.start))

    def render(self, colour: bool = False) -> str:
        """Text form: ``path:line:col: error: [CODE] message``, the source line with a caret, notes and a hint."""
        bold, red, cyan, off = ("\x1b[1m", "\x1b[31m", "\x1b[36m", "\x1b[0m") if colour else ("", "", "", "")
        span = resolve(self.location)
        head = f"{bold}{red}{self.severity}:{off} [{self.code}] {self.message}"
        lines = []
        if span is None:
            lines.append(head)
        else:
            line, column = span.source.line_column(span.start)
            lines.append(f"{bold}{span.source.name}:{line}:{column}:{off} {head}")
            lines.extend(_excerpt(span, red, off))
        for related in self.related:
            where = resolve(related.location)
            if where is None:
                lines.append(f"{cyan}note:{off} {related.label}")
            else:
                line, column = where.source.line_column(where.start)
                lines.append(f"{where.source.name}:{line}:{column}: {cyan}note:{off} {related.label}")
                lines.extend(_excerpt(where, cyan, off))
        if self.hint:
            lines.append(f"  {cyan}hint:{off} {self.hint}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """JSON form of section 12.3; optional members are left out when empty."""
        domain, _, number = self.code.partition("/")
        record: dict[str, object] = {
            "severity": self.severity,
            "error_id": f"ERR_{domain}_{number}",
            "domain": domain,
            "code": int(number) if number.isdigit() else number,
            "emitter": self.emitter,
        }
        record |= _location_json(self.location)
        if self.related:
            record["related_locations"] = [{"label": r.label, **_location_json(r.location)} for r in self.related]
        record["message"] = self.message
        if self.hint:
            record["fix_hint"] = self.hint
        if self.params:
            record["params"] = {
                k: v if isinstance(v, int | float | str | bool) else str(v) for k, v in self.params.items()
            }
        return record


# Characters of a source line that are shown whole. Canonical lines are never wrapped, so some are long.
_LONGEST_LINE = 500


def excerpt(location: Location) -> str | None:
    """The source line of a location with a caret below the place; ``None`` where the text is not known."""
    span = resolve(location)
    return "\n".join(_excerpt(span, "", "")) or None if span is not None else None


def _excerpt(span: Span, colour: str, off: str) -> list[str]:
    if not span.source.text:
        # Only names and positions are known of the source of a bytecode module.
        return []
    line, column = span.source.line_column(span.start)
    text = span.source.line_text(line).expandtabs(1)
    at = column - 1
    width = max(1, min(span.end - span.start, len(text) - at))
    if len(text) > _LONGEST_LINE:
        # Of a very long line, what is around the place.
        start = max(0, min(at - _LONGEST_LINE // 4, len(text) - _LONGEST_LINE))
        before = "... " if start else ""
        text, at = before + text[start : start + _LONGEST_LINE] + " ...", at - start + len(before)
        width = min(width, len(text) - at)
    return [f"  {text}", f"  {' ' * at}{colour}{'^' * width}{off}"]


def _location_json(location: Location) -> dict[str, object]:
    place = SourceLocation.of(location)
    return {} if place is None else {"source_location": dict(vars(place))}


class LoomError(Exception):
    """Bad input. Carries at least one diagnostic; nothing was produced."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__("\n".join(d.render() for d in self.diagnostics))


def fail(
    code: str,
    message: str,
    location: Location = None,
    *,
    hint: str | None = None,
    related: tuple[Related, ...] = (),
    emitter: str = "verifier",
    **params: object,
) -> LoomError:
    """Build the exception for one diagnostic (raise its result)."""
    return LoomError([Diagnostic(code, message, location, params, hint=hint, related=related, emitter=emitter)])


# Names looked at for a suggestion; comparing costs far more than it is worth in a program with a million values.
_CANDIDATES = 500


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """A hint naming the closest candidate, or ``None`` when none is close."""
    import difflib

    similar = (candidate for candidate in candidates if abs(len(candidate) - len(name)) <= 3)
    close = difflib.get_close_matches(name, itertools.islice(similar, _CANDIDATES), n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'?" if close else None
