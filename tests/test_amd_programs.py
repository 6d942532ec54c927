"""Every program with cases, proven and run on every family of AMD GPUs that has its instructions."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from loom import api

pytest.importorskip("loom_target_amdgpu", reason="the programs are compiled for AMD GPUs")
pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")

ELSEWHERE: Final = frozenset(
    {"attention.loom", "collective_recurrence.loom", "paged_attention.loom", "matmul_wmma.loom", "matmul_mfma.loom"}
)
"""Seconds long, and run by other tests on the same processors; on gfx1151 only here."""
RDNA3_ONLY: Final = frozenset(
    {"matmul_mma.loom", "low_helpers_gfx11.loom", "matrix_schedules.loom", "flat_pointers.loom"}
)
"""Written with instructions of gfx11, or for its fragments: their cases require them."""
SKIPPED: Final = {
    "gfx1100": frozenset({"matmul_mfma.loom"}),
    "gfx1151": frozenset({"matmul_mfma.loom"}),
    "gfx1200": RDNA3_ONLY,
    "gfx942": RDNA3_ONLY,
}
NO_CASES: Final = frozenset({"layer_commands.loom"})


def check_all(folder: Path, processor: str) -> int:
    """Run what is in a folder and return how many samples and trials passed."""
    passed = 0
    for path in sorted(folder.glob("*.loom")):
        if path.name in ELSEWHERE and processor != "gfx1151":
            continue
        report = api.check([path], (), "sim", f"amdgpu:{processor}")
        failures = [(s.case, s.sample_ordinal, s.issue or s.expectations) for s in report.samples if not s.passed]
        failures += [(t.scenario, t.trial_ordinal, t.issue or t.expectations) for t in report.trials if not t.passed]
        assert failures == [], path.name
        assert report.planning_issue_count == 0, path.name
        count = report.sample_count + report.trial_count
        runs = path.name not in SKIPPED[processor] | NO_CASES
        assert bool(count) == runs, f"{path.name}: {count} samples, {report.skipped_case_count} skipped cases"
        passed += count
    return passed


@pytest.mark.parametrize("processor", SKIPPED)
def test_all_shared_cases_pass(shared: Path, processor: str) -> None:
    assert check_all(shared / "cases", processor) >= 100


@pytest.mark.parametrize("processor", SKIPPED)
def test_all_examples_pass(root: Path, processor: str) -> None:
    assert check_all(root / "examples", processor) >= 200
