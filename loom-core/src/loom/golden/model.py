"""What a golden file consists of. Offsets count characters of the file's text, lines count from 1."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

Range = tuple[int, int]


class GoldenError(Exception):
    """A golden file cannot be read or run as written; ``line`` is where, if anywhere."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@frozen
class Directive:
    """``// RUN: value``, ``// REQUIRES: value`` and so on."""

    word: str
    value: str
    line: int
    range: Range


@frozen
class Annotation:
    """``// ERROR@+1: DOMAIN/CODE {name="value"} "substring"``: a diagnostic that a line is to get."""

    severity: str
    target_line: int
    domain: str | None
    code: str | None
    params: Mapping[str, str]
    substrings: tuple[str, ...]
    line: int
    range: Range
    text: str


@frozen
class RunForm:
    """What a ``RUN`` directive asks for: a mode, its argument, modifiers in front and options behind."""

    mode: str
    argument: str
    options: tuple[tuple[str, str], ...] = ()
    with_locations: bool = False
    with_checks: bool = False

    def option(self, name: str) -> str | None:
        """The value of an option that is given at most once."""
        return next((value for key, value in self.options if key == name), None)

    def every(self, name: str) -> tuple[str, ...]:
        """The values of an option that may be given several times."""
        return tuple(value for key, value in self.options if key == name)


@frozen
class Case:
    """One case.

    ``input`` is what runs: directives and annotations are blank lines in it, and blank lines in front are left out, so
    that its first line is line ``first_line`` of the file. ``expected`` is the text below the separator, ``None``
    without one.
    """

    index: int
    title: str
    line: int
    run: RunForm
    run_directive: Directive | None
    requires: tuple[str, ...]
    requires_directive: Directive | None
    xfail: Directive | None
    input_format: str
    input: str
    first_line: int
    annotations: tuple[Annotation, ...]
    expected: str | None
    source_range: Range
    input_range: Range
    separator_range: Range | None
    expected_range: Range | None
    expected_separator_range: Range | None
    is_from_template: bool = False

    @property
    def name(self) -> str:
        """What a person calls the case."""
        return self.title or f"case {self.index}"


@frozen
class GoldenFile:
    """A golden file and its cases. ``default`` is what the cases run that say nothing themselves."""

    path: str
    text: str
    default: RunForm
    default_requires: tuple[str, ...]
    cases: tuple[Case, ...]
