"""Reading compile reports back: one document per file, or one per line of an envelope of benchmark runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from loom.ir.records import record
from loom.report.compile_report import CONTEXT, IDENTITY

KIND: Final = "loom.compile_report"

# Collections with rows about loops and template selections.
DECISIONS: Final = ("loop_policies", "template_selection", "wait_action_rows")


class ReportError(Exception):
    """A file that is no compile report, or two reports that cannot be compared."""


@record
class Document:
    """A report and where it came from. ``container`` is ``report`` or ``json-lines``."""

    source: str
    container: str
    report: Mapping[str, Any]

    @property
    def entries(self) -> list[Mapping[str, Any]]:
        """The rows of the compiled entries."""
        found: list[Mapping[str, Any]] = self.report["entries"]["rows"]
        return found

    @property
    def identity(self) -> dict[str, object]:
        """What the report is about, apart from its entries."""
        keys = ("artifact_kind", "artifact_format", "backend", "module", "target_family", "target_key")
        return present(self.report, keys)

    def decisions(self, entry: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
        """Rows about loops, template selections and waits of an entry's function, by collection."""
        found = {}
        for name in DECISIONS:
            rows = self.report.get(name, {}).get("rows", ())
            mine = [row for row in rows if row.get("function") == entry.get("source_function", entry.get("function"))]
            if mine:
                found[name] = mine
        return found


def present(row: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, object]:
    """The members of an object that it has, of some keys."""
    return {key: row[key] for key in keys if row.get(key) is not None}


def entry_identity(row: Mapping[str, Any]) -> dict[str, object]:
    """What names an entry."""
    return present(row, IDENTITY)


def entry_context(row: Mapping[str, Any]) -> dict[str, object]:
    """What an entry was compiled for, as far as the report says."""
    return present(row, CONTEXT)


def read_documents(path: str) -> list[Document]:
    """The reports of a file. Raises ``ReportError`` for anything else, ``OSError`` when it cannot be read."""
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    if not text.strip():
        raise ReportError(f"{path}: the file is empty")
    try:
        whole = json.loads(text)
    except ValueError:
        return [_from_line(path, line) for line in text.splitlines() if line.strip()]
    if isinstance(whole, dict) and whole.get("type") == "compile_report":
        return [_from_line(path, text)]
    return [Document(path, "report", _checked(path, whole))]


def _from_line(path: str, line: str) -> Document:
    try:
        row = json.loads(line)
    except ValueError as error:
        # Not only for what is no JSON: Python also refuses numbers of thousands of digits.
        raise ReportError(f"{path}: not JSON: {error}") from None
    if not isinstance(row, dict) or row.get("type") != "compile_report":
        raise ReportError(f"{path}: a line is no compile report")
    return Document(path, "json-lines", _checked(path, row.get("compile_report")))


def _checked(path: str, report: object) -> Mapping[str, Any]:
    if not isinstance(report, dict) or report.get("kind") != KIND:
        raise ReportError(f"{path}: not a compile report")
    if report.get("schema_version") != 0:
        raise ReportError(f"{path}: compile reports of version {report.get('schema_version')} are not understood")
    if not _is_collection(report.get("entries")):
        raise ReportError(f"{path}: the report has no entries")
    for name in DECISIONS:
        if name in report and not _is_collection(report[name]):
            raise ReportError(f"{path}: '{name}' of the report has no rows")
    for row in report["entries"]["rows"]:
        for key, value in entry_identity(row).items():
            if not isinstance(value, str | int):
                raise ReportError(f"{path}: '{key}' of an entry is no name")
    return report


def _is_collection(value: object) -> bool:
    rows = value.get("rows") if isinstance(value, dict) else None
    return isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
