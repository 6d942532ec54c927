"""The compile report (language reference, part 3, section 8.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from loom.api import Compilation

MODES: Final = ("summary", "details")

# Names of an entry; everything else that is an object is a group of figures.
IDENTITY: Final = ("function", "source_function", "target_export", "target_export_symbol")
CONTEXT: Final = ("target_bundle", "target_snapshot", "target_config", "workload")
NESTED: Final = ("target_resources", "static_instruction_mix")


def compile_report(compilation: Compilation, mode: str, format: str | None = None) -> dict[str, object]:
    """The report on a compilation as a JSON object; ``format`` is the artifact format if it is not the target's.

    ``details`` adds the rows of single decisions: what became of each loop policy, and the stage of every operation of
    a loop that reads ahead (sections 10.2, 10.3). A back end adds rows of its own by a function ``details`` in its
    report, which gives them by collection.
    """
    target = compilation.request.target
    measured = dict(compilation.result.report)
    entries: Any = measured.pop("entries", [])
    details: Any = measured.pop("details", None)
    report: dict[str, object] = {
        "kind": "loom.compile_report",
        "schema_version": 0,
        "mode": mode,
        "artifact_kind": compilation.result.primary.role,
        "artifact_format": format or (target.default_format if target else None),
        "backend": target.family if target else None,
        "module": compilation.module.name,
        "target_family": target.family if target else None,
        "target_key": target.selector if target else None,
        "target_config": target.contract if target else None,
        "status": {"code": 0, "name": "ok"},
        "entries": collection(_entry(index, row) for index, row in enumerate(entries)),
        "template_selection": collection(s.row() for s in compilation.selections),
        **measured,
    }
    if mode == "details":
        report["loop_policies"] = collection(detail.row() for detail in compilation.loops)
        if details is not None:
            report |= {name: collection(rows) for name, rows in details().items()}
    return report


def collection(rows: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """Rows with their count."""
    found = list(rows)
    return {"count": len(found), "rows": found}


def _entry(index: int, row: Mapping[str, Any]) -> dict[str, object]:
    """An entry row: names first, then every figure prefixed by its group."""
    found: dict[str, object] = {"index": index}
    for key, value in row.items():
        if isinstance(value, Mapping) and key not in NESTED:
            found |= {f"{key}_{name}": figure for name, figure in value.items()}
        else:
            found[key] = value
    return found
