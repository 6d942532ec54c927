"""What ``loom-compile-report`` makes of reports: views, comparisons and suggestions (part 3, section 8.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from loom.report.documents import Document, ReportError, entry_context, entry_identity

# Groups of figures that describe the artifact; the others tell what the compiler did.
ARTIFACT: Final = ("emission_", "memory_", "target_resources", "static_instruction_mix", "workgroup_size")


def show(document: Document) -> dict[str, object]:
    """A report, entry by entry: names, figures of the artifact, and the compiler's decisions."""
    entries = []
    for row in document.entries:
        figures = _figures(row)
        analysis = {k: v for k, v in figures.items() if not k.startswith(ARTIFACT)}
        entries.append(
            {
                "identity": entry_identity(row),
                "context": entry_context(row),
                "artifact_facts": {k: v for k, v in figures.items() if k.startswith(ARTIFACT)},
                "compiler_analysis": {**analysis, **document.decisions(row)},
            }
        )
    return {
        "kind": "loom.compile_report.show",
        "schema_version": 0,
        "source": document.source,
        "container_kind": document.container,
        "status": document.report.get("status"),
        "identity": document.identity,
        "entries": entries,
        "missing_evidence": "omitted_metrics_are_unavailable",
    }


def _figures(row: Mapping[str, Any]) -> dict[str, Any]:
    names = {"index", *entry_identity(row), *entry_context(row)}
    return {key: value for key, value in row.items() if key not in names}


def diff(base: Document, candidate: Document, comparison: str, *, force: bool = False) -> dict[str, object]:
    """Figures that differ between two reports, entry by entry.

    ``exact`` wants the same target, ``target`` the same program for different ones. Raises ``ReportError`` when names
    do not match, unless ``force`` compares the only entries of both anyway.
    """
    mismatches = _mismatches(base, candidate, comparison)
    pairs = _pairs(base, candidate)
    if mismatches or pairs is None:
        if not force:
            what = ", ".join(mismatches) or "entries"
            raise ReportError(f"{base.source} and {candidate.source} differ in {what}; --force compares them anyway")
        if len(base.entries) != 1 or len(candidate.entries) != 1:
            raise ReportError("--force compares reports of one entry each")
        pairs = [(base.entries[0], candidate.entries[0])]
    rows = []
    for old, new in pairs:
        changes = list(_changes("", _figures(old), _figures(new)))
        rows.append({"identity": entry_identity(new), "changed": bool(changes), "metrics": changes})
    changed = sum(bool(row["changed"]) for row in rows)
    return {
        "kind": "loom.compile_report.diff",
        "schema_version": 0,
        "baseline_source": base.source,
        "candidate_source": candidate.source,
        "comparison_mode": comparison,
        "identity_mismatches": mismatches,
        "changed_entry_count": changed,
        "unchanged_entry_count": len(rows) - changed,
        "entries": rows,
        "targets": [d.report.get("target_key") for d in (base, candidate)],
    }


def _mismatches(base: Document, candidate: Document, comparison: str) -> list[str]:
    first, second = base.identity, candidate.identity
    ignored = {"target_key"} if comparison == "target" else set()
    return sorted(key for key in {*first, *second} - ignored if first.get(key) != second.get(key))


def _pairs(base: Document, candidate: Document) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]] | None:
    old = {tuple(sorted(entry_identity(row).items())): row for row in base.entries}
    new = {tuple(sorted(entry_identity(row).items())): row for row in candidate.entries}
    return [(old[key], new[key]) for key in old] if old.keys() == new.keys() else None


def _changes(prefix: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    for key in sorted({*old, *new}):
        a, b = old.get(key), new.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            yield from _changes(f"{prefix}{key}.", a, b)
        elif a != b:
            row: dict[str, object] = {"name": prefix + key, "baseline": a, "candidate": b}
            if isinstance(a, int | float) and isinstance(b, int | float):
                row["delta"] = b - a
            yield row


def suggest(document: Document) -> dict[str, object]:
    """Experiments that the evidence of a report suggests. No finding is a verdict: only measurements are."""
    findings = [
        {"id": name, **entry_identity(row), **finding}
        for row in document.entries
        for name, rule in SUGGESTIONS.items()
        for finding in rule(row, document)
    ]
    result: dict[str, object] = {
        "kind": "loom.compile_report.suggest",
        "schema_version": 0,
        "source": document.source,
        "status": "ok",
        "provider": "core",
        "findings": findings,
    }
    if document.report.get("target_family") != "amdgpu":
        result["target_unavailable_reason"] = "suggestions about native code need a report for amdgpu"
    return result


def _pipelines(row: Mapping[str, Any], document: Document) -> list[Mapping[str, Any]]:
    rows = document.decisions(row).get("loop_policies", ())
    return [r for r in rows if r.get("category") == "scf-pipeline" and r.get("outcome") == "pipelined"]


def _count(loop: Mapping[str, Any], name: str, document: Document) -> int:
    found = loop.get(name)
    if not isinstance(found, int):
        raise ReportError(f"{document.source}: a loop that reads ahead has no '{name}'")
    return found


def _compare_depth(row: Mapping[str, Any], document: Document) -> Iterator[dict[str, object]]:
    for loop in _pipelines(row, document):
        depth = _count(loop, "depth", document)
        yield {
            "loop": loop.get("loop"),
            "message": f"this loop reads ahead with depth {depth}: measure it against other depths and the serial loop",
            "depth": depth,
            "alternatives": sorted({1, max(depth - 1, 1), depth + 1} - {depth}),
            "queued_values": _count(loop, "queue_records", document) * _count(loop, "values_per_record", document),
        }


def _whole_banks(row: Mapping[str, Any], document: Document, *, run_time: bool) -> Iterator[Mapping[str, Any]]:
    """The banks that stayed whole for a slot that only a run knows, or for other reasons."""
    for bank in document.decisions(row).get("loop_policies", ()):
        kept = bank.get("category") == "vector-bank" and bank.get("outcome") == "kept"
        if kept and str(bank.get("reason", "")).endswith("known at run time only") is run_time:
            yield bank


def _static_access(row: Mapping[str, Any], document: Document) -> Iterator[dict[str, object]]:
    for bank in _whole_banks(row, document, run_time=True):
        yield {
            "loop": bank.get("loop"),
            "message": f"{bank.get('reason')}: measure against slots that are known, which are carried one by one",
            "slots": bank.get("slots"),
            "alternatives": ["unroll the loop that chooses the slot", "a case for each slot"],
        }


def _componentwise_state(row: Mapping[str, Any], document: Document) -> Iterator[dict[str, object]]:
    for bank in _whole_banks(row, document, run_time=False):
        yield {
            "loop": bank.get("loop"),
            "message": f"{bank.get('reason')}, so that its slots live together: measure against one value per slot",
            "slots": bank.get("slots"),
            "alternatives": ["carry the slots as values of their own"],
        }


def _copy_waits(row: Mapping[str, Any], document: Document) -> Iterator[dict[str, object]]:
    copies, waits = row.get("allocation_materialized_copy_count", 0), row.get("wait_plan_action_count", 0)
    if document.report.get("target_family") == "amdgpu" and copies and waits and _pipelines(row, document):
        yield {
            "message": "queued values are copied between registers; a copy waits for the load behind its source",
            "materialized_copy_count": copies,
            "wait_action_count": waits,
            "alternatives": ["unroll the loop by a multiple of its depth", "schedule(recurrence)"],
        }


def _spill_traffic(row: Mapping[str, Any], document: Document) -> Iterator[dict[str, object]]:
    spills = row.get("allocation_spill_count", 0)
    if document.report.get("target_family") == "amdgpu" and spills:
        yield {
            "message": "values spill: less read-ahead or a smaller unroll factor keeps fewer of them live",
            "spill_count": spills,
            "reload_count": row.get("allocation_reload_count", 0),
        }


Suggestion = Callable[[Mapping[str, Any], Document], Iterator[dict[str, object]]]
SUGGESTIONS: Final[Mapping[str, Suggestion]] = {
    "scf.compare_pipeline_depth": _compare_depth,
    "amdgpu.pipeline_copy_waits": _copy_waits,
    "amdgpu.spill_traffic": _spill_traffic,
    "vector.compare_static_bank_access": _static_access,
    "vector.compare_componentwise_bank_state": _componentwise_state,
}


def as_text(view: Mapping[str, Any]) -> str:
    """A view for people: one line per figure, indented by nesting."""
    return "\n".join(_lines(view, "")) + "\n"


def _lines(value: object, pad: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(item, Mapping | list) and item:
                yield f"{pad}{key}:"
                yield from _lines(item, pad + "  ")
            else:
                yield f"{pad}{key}: {_scalar(item)}"
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            if isinstance(item, Mapping) and item:
                first, *rest = _lines(item, pad + "  ")
                yield f"{pad}- {first.lstrip()}"
                yield from rest
            else:
                yield f"{pad}- {_scalar(item)}"


def _scalar(value: object) -> str:
    return "none" if value in (None, [], {}) else str(value)
