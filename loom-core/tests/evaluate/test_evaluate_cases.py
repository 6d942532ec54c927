"""Shared programs, evaluated as written: no specialization or transform in between."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loom.check.runner import run_checks
from loom.evaluate.device import ReferenceDevice, open_reference_device
from loom.text.parser import parse_module
from loom.verify.verifier import require_valid

SHARED = Path(os.environ.get("LOOM_SHARED") or Path(__file__).resolve().parents[4] / "shared")
CASES = (
    "saxpy_tail",
    "row_stats",
    "tile_transpose",
    "host_functions",
    "integer_edges",
    "strided_layouts",
    "rotating_slots",
    "matmul_tiled",
    "masked_tail",
    "histogram",
    "dot_s8",
    "row_softmax",
)
# Programs that need what targets have, and the facts that say so.
TARGET_CASES = ("subgroup_ops", "matmul_mma")
FACTS = {"subgroup_size": 32, "min_subgroup_size": 32, "matrix": "rdna3_bf16_16x16x16"}


@pytest.mark.parametrize("name", CASES + TARGET_CASES)
def test_every_sample_passes_on_the_source_program(name: str) -> None:
    path = SHARED / "cases" / f"{name}.loom"
    if not path.is_file():
        pytest.skip(f"{path} is not there (set LOOM_SHARED)")
    module = parse_module(path.read_text(), path.name)
    require_valid(module)
    device = ReferenceDevice(FACTS) if name in TARGET_CASES else open_reference_device(None)
    report = run_checks(module, device)
    device.close()
    assert report.sample_count > 0
    assert report.failed_sample_count == report.skipped_case_count == 0
