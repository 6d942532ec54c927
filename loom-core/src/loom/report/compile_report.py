"""The compile report (language reference, part 3, section 8.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loom.api import Compilation


def compile_report(compilation: Compilation, mode: str, format: str | None = None) -> dict[str, object]:
    """The report on a compilation as a JSON object; ``format`` is the artifact format if it is not the target's."""
    target = compilation.request.target
    return {
        "kind": "loom.compile_report",
        "schema_version": 0,
        "mode": mode,
        "artifact_format": format or (target.default_format if target else None),
        "target_family": target.family if target else None,
        "target_key": target.selector if target else None,
        "status": {"code": 0, "name": "ok"},
        "template_selection": {
            "count": len(compilation.selections),
            "rows": [
                {
                    "function": s.function,
                    "contract": s.contract,
                    "selected_provider": s.provider,
                    "selected_priority": s.priority,
                    "outcome": s.outcome,
                    "provider_count": s.provider_count,
                }
                for s in compilation.selections
            ],
        },
        **compilation.result.report,
    }
