"""The examples of whole kernels pass on the simulator for every family of AMD GPUs, and on the reference device."""

from __future__ import annotations

from pathlib import Path

import pytest

from loom import api

pytest.importorskip("loom_target_amdgpu", reason="the kernels are compiled for AMD GPUs")
pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")

EXAMPLES = {
    "layernorm.loom": 9,
    "softmax.loom": 8,
    "rope.loom": 11,
    "matmul_tiled.loom": 20,
    "attention.loom": 11,
    "q8_matvec.loom": 8,
}
"""Example -> samples of its cases."""
MATRIX = {"matmul_wmma.loom": ("gfx1100", "gfx1151"), "matmul_mfma.loom": ("gfx942", "gfx950")}
"""Example of matrix instructions -> processors that have them."""


def require_passed(path: Path, device: str, target: str | None, samples: int) -> None:
    report = api.check([path], (), device, target)
    failures = [(s.case, s.sample_ordinal, s.issue or s.expectations) for s in report.samples if not s.passed]
    assert failures == []
    assert (report.sample_count, report.skipped_case_count, report.planning_issue_count) == (samples, 0, 0)


@pytest.mark.seed("T01")
@pytest.mark.parametrize("target", ["gfx1100", "gfx1200", "gfx942"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_kernels_pass_on_the_simulator(root: Path, name: str, target: str) -> None:
    require_passed(root / "examples" / name, "sim", f"amdgpu:{target}", EXAMPLES[name])


@pytest.mark.parametrize("name", EXAMPLES)
def test_kernels_pass_on_the_reference_device(root: Path, name: str) -> None:
    require_passed(root / "examples" / name, "reference", None, EXAMPLES[name])


@pytest.mark.seed("X04")
@pytest.mark.parametrize(("name", "processor"), [(name, p) for name, ps in MATRIX.items() for p in ps])
def test_matrix_kernels_pass(root: Path, name: str, processor: str) -> None:
    require_passed(root / "examples" / name, "sim", f"amdgpu:{processor}", 11)


@pytest.mark.parametrize("name", MATRIX)
def test_matrix_kernels_are_skipped_without_the_instructions(root: Path, name: str) -> None:
    report = api.check([root / "examples" / name], (), "sim", "amdgpu:gfx1200")
    assert (report.sample_count, report.skipped_case_count) == (0, 2)
