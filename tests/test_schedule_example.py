"""The example of authored matrix code: four ways to order instructions, and a helper with two scopes in one kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loom import api

pytest.importorskip("loom_target_amdgpu", reason="the code is authored for AMD GPUs")
pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")

TARGETS = ("amdgpu:gfx1100", "amdgpu:gfx1151")
SCOPES = {"free": 0, "fenced": 0, "locked": 0, "overlapped": 1, "paired": 2}
"""Kernel -> invocations of phased helpers in it."""
targets = pytest.mark.parametrize("target", TARGETS)


@pytest.fixture(scope="module")
def example(root: Path) -> Path:
    return root / "examples" / "matrix_schedules.loom"


def reports(example: Path, target: str) -> dict[str, dict[str, Any]]:
    """Kernel -> its entry in the compile report."""
    module = api.load_bytes(example.read_bytes(), example.name)
    report: Any = api.compile(module, (), target).result.report
    return {entry["target_export_symbol"].removeprefix("product_"): entry for entry in report["entries"]}


@pytest.mark.seed("EX1", "EX3")
@targets
def test_every_order_gives_the_same_results(example: Path, target: str) -> None:
    """All kernels agree bit by bit with scalar code, and with each other."""
    report = api.check([example], (), "sim", target)
    assert [(s.case, s.issue or s.expectations) for s in report.samples if not s.passed] == []
    assert [s.case for s in report.samples] == list(SCOPES)


@pytest.mark.seed("EX3", "S11")
@targets
def test_the_report_shows_a_scope_per_invocation(example: Path, target: str) -> None:
    """One helper, invoked twice with different inputs, is two scopes; loads of one stay under way beside the other."""
    entries = reports(example, target)
    assert {name: entries[name]["schedule"]["scope_count"] for name in SCOPES} == SCOPES
    assert (
        entries["paired"]["wait_plan"]["partial_wait_count"] > entries["overlapped"]["wait_plan"]["partial_wait_count"]
    )


@pytest.mark.seed("EX1")
@targets
def test_only_the_fence_keeps_the_second_load_back(example: Path, target: str) -> None:
    """Behind the fence the second operand is loaded after the first tile is begun, so that no load is pending there."""
    partial = {name: entry["wait_plan"]["partial_wait_count"] for name, entry in reports(example, target).items()}
    assert partial["fenced"] == 0
    assert all(partial[name] >= 1 for name in ("free", "locked", "overlapped"))


def test_other_families_skip_the_cases(example: Path) -> None:
    for target in ("amdgpu:gfx1200", "amdgpu:gfx942"):
        report = api.check([example], (), "sim", target)
        assert (report.sample_count, report.skipped_case_count, report.planning_issue_count) == (0, 5, 0)
