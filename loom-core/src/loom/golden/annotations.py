"""Reading annotations, and matching them with diagnostics (language reference, part 3, section 9.3)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from loom.golden.model import Annotation, Case, GoldenError, Range
from loom.ir.diagnostics import Diagnostic

MAX_PARAMETERS: Final = 8
MAX_SUBSTRINGS: Final = 4

_ANNOTATION: Final = re.compile(r"\s*//\s*(ERROR|WARNING|REMARK)(?:@([+-]?)([0-9]+))?:(.*)\Z")
_TOKEN: Final = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[/{}=,]|\S)')


def read_annotation(text: str, line: int, range: Range) -> Annotation | None:
    """The annotation in a line of text, or ``None`` for any other line. Raises `GoldenError` for a malformed one."""
    match = _ANNOTATION.match(text)
    if match is None:
        return None
    severity, sign, distance, rest = match.groups()
    if distance is not None and not sign:
        raise GoldenError(f"an offset has a sign: {severity}@+{distance}", line)
    offset = int(distance or 0) * (-1 if sign == "-" else 1)
    tokens = [found.group(1) for found in _TOKEN.finditer(rest)]
    reader = _Reader(tokens, line)
    domain, code = reader.identity()
    params = reader.parameters()
    substrings = reader.strings()
    return Annotation(severity.lower(), line + offset, domain, code, params, substrings, line, range, text.strip())


class _Reader:
    def __init__(self, tokens: list[str], line: int) -> None:
        self._tokens = [*tokens, ""]
        self._at = 0
        self._line = line

    def identity(self) -> tuple[str | None, str | None]:
        """``DOMAIN`` or ``DOMAIN/CODE``, which may be left out."""
        if not self._peek().isidentifier():
            return None, None
        domain = self._next()
        if self._peek() != "/":
            return domain, None
        self._next()
        if not self._peek().isdigit():
            raise GoldenError(f"'{domain}/' needs a number", self._line)
        return domain, self._next()

    def parameters(self) -> dict[str, str]:
        """``{name="value", ...}``, which may be left out."""
        found: dict[str, str] = {}
        if self._peek() != "{":
            return found
        self._next()
        while self._peek() != "}":
            name = self._next()
            if not name.isidentifier() or self._next() != "=":
                raise GoldenError('a parameter is written name="value"', self._line)
            if name in found:
                raise GoldenError(f"the parameter '{name}' is given twice", self._line)
            found[name] = self._string()
            if self._peek() != "}" and self._next() != ",":
                raise GoldenError("parameters are separated by commas and end with '}'", self._line)
        self._next()
        if len(found) > MAX_PARAMETERS:
            raise GoldenError(f"an annotation has at most {MAX_PARAMETERS} parameters", self._line)
        return found

    def strings(self) -> tuple[str, ...]:
        """Texts in quotes up to the end."""
        found = []
        while self._peek():
            found.append(self._string())
        if len(found) > MAX_SUBSTRINGS:
            raise GoldenError(f"an annotation has at most {MAX_SUBSTRINGS} texts", self._line)
        return tuple(found)

    def _string(self) -> str:
        token = self._next()
        try:
            if token[:1] != '"':
                raise ValueError
            text = json.loads(token)
        except ValueError:
            raise GoldenError(
                f"expected a text in quotes, found {token or 'the end of the line'}", self._line
            ) from None
        assert isinstance(text, str)
        return text

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _next(self) -> str:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token


def value_text(value: object) -> str:
    """A parameter of a diagnostic as annotations spell it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@frozen
class Input:
    """The input of a case as a source: what it is called in diagnostics, and where it begins in the file."""

    name: str
    first_line: int

    @classmethod
    def of(cls, case: Case, path: str) -> Input:
        """The input of a case of a file.

        Where locations are shown, the source has the file's own lines, and its name without a folder.
        """
        return cls(Path(path).name, 1) if case.run.with_locations else cls(path, case.first_line)

    def line_of(self, diagnostic: Diagnostic) -> int | None:
        """The line of the file that a diagnostic is about; ``None`` when it is about another source or no place."""
        place = diagnostic.position()
        return place[1] + self.first_line - 1 if place is not None and place[0] == self.name else None


def fits(annotation: Annotation, diagnostic: Diagnostic, source: Input) -> bool:
    """Whether a diagnostic has everything an annotation says. One without a line in the file is about any line."""
    domain, _, code = diagnostic.code.partition("/")
    return (
        annotation.severity == diagnostic.severity
        and source.line_of(diagnostic) in (None, annotation.target_line)
        and annotation.domain in (None, domain)
        and annotation.code in (None, code)
        and all(
            name in diagnostic.params and value_text(diagnostic.params[name]) == value
            for name, value in annotation.params.items()
        )
        and all(text in diagnostic.message for text in annotation.substrings)
    )


def match(
    annotations: Sequence[Annotation], diagnostics: Sequence[Diagnostic], source: Input
) -> tuple[list[Diagnostic | None], list[Diagnostic]]:
    """What each annotation consumes, and the diagnostics that are left: each takes the first that fits."""
    left = list(diagnostics)
    matched: list[Diagnostic | None] = []
    for annotation in annotations:
        position = next((i for i, found in enumerate(left) if fits(annotation, found, source)), None)
        matched.append(left.pop(position) if position is not None else None)
    return matched, left


def annotation_text(diagnostic: Diagnostic, offset: int | None) -> str:
    """The annotation for a diagnostic that is ``offset`` lines further down, or has no place."""
    word = diagnostic.severity.upper()
    head = f"// {word}@{offset:+}" if offset is not None else f"// {word}"
    params = [(name, value_text(value)) for name, value in diagnostic.params.items() if name.isidentifier()]
    short = [(name, text) for name, text in params if len(text) <= 40 and text.isprintable()][:MAX_PARAMETERS]
    listed = ", ".join(f"{name}={json.dumps(text, ensure_ascii=False)}" for name, text in short)
    return f"{head}: {diagnostic.code}" + (f" {{{listed}}}" if listed else "")
