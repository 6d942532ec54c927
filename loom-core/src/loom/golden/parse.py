"""Reading golden files (language reference, part 3, section 9.1).

The text in front of the first ``// ====`` line is the first case, or only a preamble when there is nothing to run in
it. ``RUN``, ``REQUIRES`` and ``INPUT`` of the first part hold for all cases that say nothing themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from attrs import evolve, frozen

from loom.golden.annotations import read_annotation
from loom.golden.model import Annotation, Case, Directive, GoldenError, GoldenFile, Range, RunForm
from loom.golden.run_form import DEFAULT_RUN, read_run
from loom.ir.diagnostics import did_you_mean

INPUT_FORMATS: Final[Mapping[str, str]] = {
    "loom": "text of a module",
    "bytecode": "hexadecimal bytes of a binary module",
}

CASE_SEPARATOR: Final = "// ===="
EXPECTED_SEPARATOR: Final = "// ----"

_INHERITED: Final = ("RUN", "REQUIRES", "INPUT")
_FILE_LEVEL: Final = ("TEMPLATE", "TEMPLATE-EXCLUDE")
_DIRECTIVES: Final = (*_INHERITED, *_FILE_LEVEL, "XFAIL")
_SEVERITIES: Final = ("ERROR", "WARNING", "REMARK")
_DIRECTIVE: Final = re.compile(r"(\s*)//(\s*)([A-Z][A-Z-]*)(\s*):(.*)\Z")
_SYMBOL: Final = re.compile(r"^[a-z][\w.]*\b[^@\n]*@([A-Za-z_$][\w$.-]*)", re.MULTILINE)

ReadFile = Callable[[str], str]


@frozen
class _Line:
    """A line of the file: its text without the line end, its number and its place."""

    text: str
    number: int
    range: Range


@frozen
class _Part:
    """The text between two case separators."""

    separator: _Line | None
    lines: tuple[_Line, ...]
    range: Range


@frozen
class _Draft:
    """A part whose lines have been told apart."""

    part: _Part
    directives: Mapping[str, Directive]
    excludes: tuple[Directive, ...]
    input: str
    first_line: int
    annotations: tuple[Annotation, ...]
    expected_separator: _Line | None
    expected: str | None
    expected_range: Range | None
    input_range: Range

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to run and nothing to expect."""
        code = re.sub(r"^\s*//.*$", "", self.input, flags=re.MULTILINE)
        return not code.strip() and self.expected is None and not self.annotations


def parse_golden(text: str, path: str, read_file: ReadFile) -> GoldenFile:
    """Read a golden file. ``read_file`` reads the template that it names. Raises `GoldenError` for a malformed one."""
    drafts = [_draft(text, part) for part in _parts(text)]
    first = drafts[0]
    for draft in drafts[1:]:
        for word in _FILE_LEVEL:
            if word in draft.directives or draft.excludes:
                line = next(iter([draft.directives.get(word), *draft.excludes])) or draft.excludes[0]
                raise GoldenError(f"{line.word} stands in front of the first case", line.line)
    preamble = first.is_empty and len(drafts) > 1
    if preamble and "XFAIL" in first.directives:
        raise GoldenError("XFAIL stands in a case", first.directives["XFAIL"].line)
    defaults = _Defaults.of(first)
    cases = [_case(index, draft, defaults) for index, draft in enumerate(drafts[1:] if preamble else drafts)]
    if "TEMPLATE" in first.directives:
        cases = _from_template(cases, first, path, read_file)
    elif first.excludes:
        raise GoldenError("TEMPLATE-EXCLUDE needs a TEMPLATE", first.excludes[0].line)
    elif len(drafts) == 1 and first.is_empty:
        raise GoldenError("the file has no case")
    return GoldenFile(path, text, defaults.run, defaults.requires, tuple(cases))


@frozen
class _Defaults:
    """What cases inherit."""

    run: RunForm
    requires: tuple[str, ...]
    input_format: str

    @classmethod
    def of(cls, draft: _Draft) -> _Defaults:
        run, requires, form = (draft.directives.get(word) for word in _INHERITED)
        return cls(
            read_run(run.value, run.line) if run is not None else DEFAULT_RUN,
            _names(requires) if requires is not None else (),
            _input_format(form) if form is not None else "loom",
        )


# -- lines and parts -------------------------------------------------------------------------------------------


def _lines(text: str) -> list[_Line]:
    found = []
    at = 0
    for number, raw in enumerate(text.splitlines(keepends=True), start=1):
        found.append(_Line(raw.rstrip("\r\n"), number, (at, at + len(raw))))
        at += len(raw)
    return found


def _parts(text: str) -> list[_Part]:
    lines = _lines(text)
    starts = [i for i, line in enumerate(lines) if line.text.startswith(CASE_SEPARATOR)]
    parts = []
    for start, end in zip([-1, *starts], [*starts, len(lines)], strict=True):
        inside = tuple(lines[start + 1 : end])
        begin = lines[start].range[1] if start >= 0 else 0
        stop = lines[end].range[0] if end < len(lines) else len(text)
        parts.append(_Part(lines[start] if start >= 0 else None, inside, (begin, stop)))
    return parts


def _draft(text: str, part: _Part) -> _Draft:
    marks = [i for i, line in enumerate(part.lines) if line.text.rstrip() == EXPECTED_SEPARATOR]
    if len(marks) > 1:
        raise GoldenError("a case has one expected section", part.lines[marks[1]].number)
    above = part.lines[: marks[0]] if marks else part.lines
    below = part.lines[marks[0] + 1 :] if marks else ()
    directives: dict[str, Directive] = {}
    excludes: list[Directive] = []
    annotations: list[Annotation] = []
    kept: list[str] = []
    in_head = True
    for line in above:
        annotation = read_annotation(line.text, line.number, line.range)
        directive = _directive(line, in_head) if annotation is None else None
        if annotation is not None:
            annotations.append(annotation)
        elif directive is not None and directive.word == "TEMPLATE-EXCLUDE":
            excludes.append(directive)
        elif directive is not None:
            if directive.word in directives:
                raise GoldenError(f"{directive.word} is given twice", line.number)
            directives[directive.word] = directive
        kept.append("" if annotation is not None or directive is not None else line.text)
        in_head = in_head and (not line.text.strip() or line.text.lstrip().startswith("//"))
    for line in below:
        if read_annotation(line.text, line.number, line.range) is not None:
            raise GoldenError("an annotation stands above the expected section", line.number)
        _directive(line, in_head=False)
    blank = next((i for i, line in enumerate(kept) if line.strip()), len(kept))
    first_line = above[blank].number if blank < len(above) else (part.lines[0].number if part.lines else 1)
    separator = part.lines[marks[0]] if marks else None
    expected_range = (separator.range[1], part.range[1]) if separator is not None else None
    return _Draft(
        part=part,
        directives=directives,
        excludes=tuple(excludes),
        input="\n".join(kept[blank:]).rstrip() + "\n",
        first_line=first_line,
        annotations=tuple(annotations),
        expected_separator=separator,
        expected=text[slice(*expected_range)] if expected_range is not None else None,
        expected_range=expected_range,
        input_range=(part.range[0], separator.range[0] if separator is not None else part.range[1]),
    )


def _directive(line: _Line, in_head: bool) -> Directive | None:
    """The directive in a line. In front of the input every comment of its form is one, elsewhere none may stand."""
    match = _DIRECTIVE.match(line.text)
    if match is None or match.group(3) in ("CHECK", "CHECK-NOT"):
        return None
    indent, gap, word, space, value = match.groups()
    if word not in _DIRECTIVES:
        if not in_head:
            return None
        if word == "CASE":
            raise GoldenError("cases have no CASE directive; name one behind '// ===='", line.number)
        hint = did_you_mean(word, (*_DIRECTIVES, *_SEVERITIES)) or f"known are {', '.join(_DIRECTIVES)}"
        raise GoldenError(f"there is no directive '{word}'; {hint}", line.number)
    if not in_head:
        raise GoldenError(f"{word} stands in front of the input of a case", line.number)
    if indent or gap != " " or space or not value.strip() or not value.startswith(" "):
        raise GoldenError(f"a directive is written '// {word}: value'", line.number)
    return Directive(word, value.strip(), line.number, line.range)


# -- cases -----------------------------------------------------------------------------------------------------


def _case(index: int, draft: _Draft, defaults: _Defaults) -> Case:
    run, requires, form = (draft.directives.get(word) for word in _INHERITED)
    separator = draft.part.separator
    title = separator.text.removeprefix(CASE_SEPARATOR).strip("= \t") if separator is not None else ""
    return Case(
        index=index,
        title=title,
        line=separator.number if separator is not None else 1,
        run=read_run(run.value, run.line) if run is not None else defaults.run,
        run_directive=run,
        requires=_names(requires) if requires is not None else defaults.requires,
        requires_directive=requires,
        xfail=draft.directives.get("XFAIL"),
        input_format=_input_format(form) if form is not None else defaults.input_format,
        input=draft.input,
        first_line=draft.first_line,
        annotations=draft.annotations,
        expected=draft.expected,
        source_range=draft.part.range,
        input_range=draft.input_range,
        separator_range=separator.range if separator is not None else None,
        expected_range=draft.expected_range,
        expected_separator_range=draft.expected_separator.range if draft.expected_separator is not None else None,
    )


def _names(directive: Directive) -> tuple[str, ...]:
    names = tuple(name.strip() for name in directive.value.split(","))
    if not all(re.fullmatch(r"[\w:.+-]+", name) for name in names):
        raise GoldenError("REQUIRES lists names separated by commas", directive.line)
    return names


def _input_format(directive: Directive) -> str:
    if directive.value not in INPUT_FORMATS:
        known = ", ".join(INPUT_FORMATS)
        raise GoldenError(f"there is no input format '{directive.value}'; known are {known}", directive.line)
    return directive.value


# -- templates -------------------------------------------------------------------------------------------------


def _from_template(cases: Sequence[Case], first: _Draft, path: str, read_file: ReadFile) -> list[Case]:
    """Give each case, which names the first symbol of a template's case behind its separator, that case's input."""
    directive = first.directives["TEMPLATE"]
    template = parse_golden(read_file(directive.value), directive.value, read_file)
    inputs = {_first_symbol(case, directive): case for case in template.cases}
    excluded = {_exclusion(exclude, inputs) for exclude in first.excludes}
    found = []
    for case in cases:
        if case.input.strip():
            raise GoldenError(f"the input of {case.name} comes from the template; give none here", case.line)
        source = inputs.get(case.title.removeprefix("@"))
        if source is None or not case.title.startswith("@"):
            names = ", ".join(f"@{name}" for name in inputs)
            raise GoldenError(f"'// ==== @symbol' names a case of the template ({names})", case.line)
        if source.title in excluded or case.title.removeprefix("@") in excluded:
            raise GoldenError(f"{case.title} is excluded", case.line)
        found.append(
            evolve(
                case, input=source.input, first_line=source.first_line, annotations=source.annotations,
                input_format=source.input_format, is_from_template=True,
            )
        )  # fmt: skip
    missing = inputs.keys() - excluded - {case.title.removeprefix("@") for case in cases}
    if missing:
        names = ", ".join(f"@{name}" for name in sorted(missing))
        raise GoldenError(f"no case for {names} of the template; exclude it with a reason otherwise", directive.line)
    return found


def _first_symbol(case: Case, directive: Directive) -> str:
    match = _SYMBOL.search(case.input)
    if match is None:
        raise GoldenError(f"{case.name} of the template defines no symbol", directive.line)
    return match.group(1)


def _exclusion(directive: Directive, inputs: Mapping[str, Case]) -> str:
    name, _, reason = directive.value.partition(" ")
    if not name.startswith("@") or name[1:] not in inputs:
        raise GoldenError(f"the template has no case '{name}'", directive.line)
    if not reason.strip():
        raise GoldenError(f"excluding {name} needs a reason", directive.line)
    return name[1:]
