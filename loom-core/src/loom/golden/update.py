"""Rewriting golden files: expected sections and annotations become what the cases do now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import frozen

from loom.golden.annotations import Input, annotation_text
from loom.golden.judge import FAILED, CaseResult, expected_text
from loom.golden.model import GoldenFile, Range
from loom.golden.parse import EXPECTED_SEPARATOR

REPLACE: Final = "replace_expected"
INSERT: Final = "insert_expected"
REMOVE: Final = "remove_expected"
ADD_ANNOTATION: Final = "insert_annotation"
DROP_ANNOTATION: Final = "remove_annotation"


@frozen
class Edit:
    """Puts ``text`` in place of a range of the file."""

    kind: str
    range: Range
    text: str


def output_edit(file: GoldenFile, result: CaseResult) -> Edit | None:
    """The edit that makes the expected text what was made, ``None`` if nothing has to change or can."""
    case = result.case
    if not _may_change(result) or case.run.with_checks:
        return None
    if result.product is None:
        if case.expected_separator_range is None or case.expected_range is None:
            return None
        return Edit(REMOVE, (case.expected_separator_range[0], case.expected_range[1]), _end(file, case.expected_range))
    wanted = expected_text(case)
    if wanted is not None and not result.hunks:
        return None
    text = result.product.strip() + "\n"
    if case.expected_range is not None:
        return Edit(REPLACE, case.expected_range, text + _end(file, case.expected_range))
    start, stop = case.source_range
    body = file.text[start:stop]
    kept = start + len(body.rstrip())
    return Edit(INSERT, (kept, stop), f"\n\n{EXPECTED_SEPARATOR}\n{text}{_end(file, case.source_range)}")


def annotation_edits(file: GoldenFile, result: CaseResult) -> list[Edit]:
    """The edits that drop annotations which matched nothing and add those of diagnostics which none matched."""
    case = result.case
    if not _may_change(result) or case.is_from_template:
        return []
    edits = [
        Edit(DROP_ANNOTATION, annotation.range, "")
        for annotation, found in zip(case.annotations, result.matched, strict=False)
        if found is None
    ]
    dropped = {edit.range for edit in edits}
    starts = _line_starts(file.text)
    source = Input.of(case, file.path)
    by_line: dict[int, list[str]] = {}
    occupied = {a.line: a for a in case.annotations}
    for diagnostic in result.left:
        line = source.line_of(diagnostic)
        # One without a place is noted above the input.
        by_line.setdefault(line or case.first_line, []).append(
            annotation_text(diagnostic, 0 if line is not None else None)
        )
    for line, texts in by_line.items():
        top = line
        while top - 1 in occupied:
            top -= 1
        below = sum(occupied[k].range not in dropped for k in range(top, line))
        indent = _indentation(file.text, starts, line)
        lines = [indent + text.replace("@+0", f"@{len(texts) - k + below:+}", 1) + "\n" for k, text in enumerate(texts)]
        at = starts[top - 1]
        edits.append(Edit(ADD_ANNOTATION, (at, at), "".join(lines)))
    return edits


def apply(text: str, edits: Sequence[Edit]) -> str:
    """The text after all edits, which must not overlap."""
    for edit in sorted(edits, key=lambda edit: edit.range, reverse=True):
        text = text[: edit.range[0]] + edit.text + text[edit.range[1] :]
    return text


def _may_change(result: CaseResult) -> bool:
    """Only plain failures are put right: a case that is expected to fail says what it should do some day."""
    return result.ran and result.raw == FAILED and result.case.xfail is None


def _end(file: GoldenFile, range: Range) -> str:
    """The blank line that separates a case from the next one."""
    return "" if range[1] == len(file.text) else "\n"


def _line_starts(text: str) -> list[int]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _indentation(text: str, starts: Sequence[int], line: int) -> str:
    body = text[starts[line - 1] :] if line - 1 < len(starts) else ""
    return body[: len(body) - len(body.lstrip(" \t"))] if body.strip() else ""
