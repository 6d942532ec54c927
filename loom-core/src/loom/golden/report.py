"""The JSON report of a golden file (language reference, part 3, section 9.5). Ranges there count bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from loom.golden.annotations import Input
from loom.golden.judge import FAILED, PASSED, SKIPPED, CaseResult
from loom.golden.model import GoldenFile, Range, RunForm
from loom.golden.update import Edit, annotation_edits, output_edit


@frozen
class FileReport:
    """The outcome of a golden file. ``fault`` is why it could not be read, and ``updated`` whether it was rewritten."""

    path: str
    file: GoldenFile | None
    results: tuple[CaseResult, ...] = ()
    fault: str | None = None
    updated: bool = False

    def count(self, outcome: str) -> int:
        """Cases with an outcome."""
        return sum(result.final == outcome for result in self.results)

    @property
    def failed(self) -> bool:
        """Whether the file makes the run fail."""
        return self.fault is not None or self.count(FAILED) > 0


def to_json(report: FileReport, amount: str) -> dict[str, Any]:
    """The report as a JSON object: with ``all`` cases, only the ``failures``, or just the ``summary``."""
    file = report.file
    default = file.default if file is not None else None
    rows: dict[str, Any] = {
        "file": report.path,
        "default_mode": default.mode if default else None,
        **{f"default_{name}": value for name, value in _arguments(default).items()},
        "default_requirements": list(file.default_requires) if file is not None else [],
    }
    if report.fault is not None:
        rows["fault"] = report.fault
    shown = [r for r in report.results if amount == "all" or (amount == "failures" and r.final == FAILED)]
    rows["cases"] = [_case(file, result) for result in shown] if file is not None else []
    rows["summary"] = {
        "total": len(report.results),
        "passed": report.count(PASSED),
        "failed": report.count(FAILED),
        "skipped": report.count(SKIPPED),
    }
    return rows


def _arguments(run: RunForm | None) -> dict[str, str | None]:
    """The argument of a run under the name that its mode gives it."""
    mode = run.mode if run is not None else ""
    argument = run.argument if run is not None else None
    return {
        "pipeline": argument if mode in ("pass", "pass-report") else None,
        "format_target": argument if mode == "format" else None,
        "emit_target": argument if mode == "emit" else None,
    }


def _case(file: GoldenFile, result: CaseResult) -> dict[str, Any]:
    case = result.case
    bytes_at = _Bytes(file.text)
    xfail, run, requires = case.xfail, case.run_directive, case.requires_directive
    edit = output_edit(file, result)
    source = Input.of(case, file.path)
    return {
        "index": case.index,
        "title": case.title,
        "mode": case.run.mode,
        "has_run_directive": run is not None,
        "has_requires_directive": requires is not None,
        "requirements": list(case.requires),
        **_arguments(case.run),
        "source_range": bytes_at(case.source_range),
        "input_range": bytes_at(case.input_range),
        "separator_range": bytes_at(case.separator_range),
        "run_directive_range": bytes_at(run.range if run else None),
        "requires_directive_range": bytes_at(requires.range if requires else None),
        "xfail": xfail is not None,
        "xfail_directive_range": bytes_at(xfail.range if xfail else None),
        "xfail_reason": xfail.value if xfail else None,
        "raw_outcome": result.raw,
        "final_outcome": result.final,
        "detail": result.detail,
        "diff": {
            "expected_range": bytes_at(case.expected_range),
            "hunks": [{"start": h.start, "expected": list(h.expected), "actual": list(h.actual)} for h in result.hunks],
        },
        "update_edit": _edit(edit, bytes_at) if edit is not None else None,
        "annotations": _annotations(result, bytes_at),
        "annotation_edits": [_edit(found, bytes_at) for found in annotation_edits(file, result)],
        "has_expected_section": case.expected is not None,
        "expected_separator_range": bytes_at(case.expected_separator_range),
        "diagnostics": [
            {**diagnostic.to_json(), "line": source.line_of(diagnostic)} for diagnostic in result.diagnostics
        ],
    }


def _annotations(result: CaseResult, bytes_at: _Bytes) -> list[dict[str, Any]]:
    matched: Sequence[object] = result.matched or [None] * len(result.case.annotations)
    return [
        {
            "index": index,
            "source_range": bytes_at(annotation.range),
            "target_line": annotation.target_line,
            "expected": annotation.text,
            "severity": annotation.severity,
            "domain": annotation.domain,
            "code": annotation.code,
            "message_substrings": list(annotation.substrings),
            "matched": found is not None,
        }
        for index, (annotation, found) in enumerate(zip(result.case.annotations, matched, strict=True))
    ]


def _edit(edit: Edit, bytes_at: _Bytes) -> dict[str, Any]:
    return {"kind": edit.kind, "range": bytes_at(edit.range), "text": edit.text}


class _Bytes:
    """Turns ranges of characters into ranges of bytes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._is_ascii = text.isascii()

    def __call__(self, range: Range | None) -> dict[str, int] | None:
        return None if range is None else {"start_byte": self._at(range[0]), "end_byte": self._at(range[1])}

    def _at(self, offset: int) -> int:
        return offset if self._is_ascii else len(self._text[:offset].encode())
