"""Examples of single statements of the language: what a loop may carry, fences, staging, collectives, authored code."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from loom.check.report import TestReport


@attrs.frozen
class Example:
    """An example, the statement it shows, its samples, and what devices refuse of it, by kind of device."""

    seed: str
    samples: int
    refused: dict[str, str] = attrs.field(factory=dict)


EXAMPLES: Final = {
    "carried_views.loom": Example("EX4", 7),
}


def kind(machine: Any) -> str:
    """What a refusal depends on."""
    return "x86" if machine.is_x86 else str(machine.device)


def require_passed(report: TestReport, samples: int) -> None:
    failures = [(s.case, s.sample_ordinal, s.issue or s.expectations) for s in report.samples if not s.passed]
    assert failures == []
    assert (report.sample_count, report.skipped_case_count, report.planning_issue_count) == (samples, 0, 0)


def require_refused(report: TestReport, name: str, missing: str) -> None:
    """Refused where it stands: every sample that does not pass names what is missing, in this file."""
    refusals = [sample.issue for sample in report.samples if not sample.passed]
    assert refusals
    for issue in refusals:
        assert issue is not None
        assert (issue.category, missing in issue.message) == ("program", True), issue.message
        assert issue.source_location is not None
        assert Path(issue.source_location.filename).name == name


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.seed(example.seed)) for name, example in EXAMPLES.items()]
)
def test_the_cases_pass_on_every_device(machine: Any, root: Path, name: str) -> None:
    example = EXAMPLES[name]
    report = machine.check([root / "examples" / name])
    missing = example.refused.get(kind(machine))
    if missing is None:
        require_passed(report, example.samples)
    else:
        require_refused(report, name, missing)
