"""The examples of matrix instructions pass on the processors that have them and are skipped on others."""

from __future__ import annotations

from pathlib import Path

import pytest

from loom import api

pytest.importorskip("loom_target_amdgpu", reason="the kernels are compiled for AMD GPUs")
pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")

MATRIX = {"matmul_wmma.loom": ("gfx1100", "gfx1151"), "matmul_mfma.loom": ("gfx942", "gfx950")}


@pytest.mark.seed("X04")
@pytest.mark.parametrize(("name", "processor"), [(name, p) for name, ps in MATRIX.items() for p in ps])
def test_matrix_kernels_pass(root: Path, name: str, processor: str) -> None:
    report = api.check([root / "examples" / name], (), "sim", f"amdgpu:{processor}")
    failures = [(s.case, s.sample_ordinal, s.issue or s.expectations) for s in report.samples if not s.passed]
    assert failures == []
    assert (report.sample_count, report.skipped_case_count, report.planning_issue_count) == (11, 0, 0)


@pytest.mark.parametrize("name", MATRIX)
def test_matrix_kernels_are_skipped_without_the_instructions(root: Path, name: str) -> None:
    report = api.check([root / "examples" / name], (), "sim", "amdgpu:gfx1200")
    assert (report.sample_count, report.skipped_case_count) == (0, 2)
