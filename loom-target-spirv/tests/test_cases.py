"""The shared programs, checked by their own check cases on the Vulkan device."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from loom import api
from loom_target_spirv.device import VulkanDevice

_RELATIVE = Path(__file__).parents[3] / "shared"

CASES = (
    "saxpy_tail", "row_stats", "tile_transpose", "matmul_tiled", "rotating_slots", "integer_edges", "strided_layouts",
    "row_softmax", "masked_tail", "histogram", "dot_s8",
)  # fmt: skip


@pytest.fixture
def cases() -> Path:
    """The folder of shared programs, or a skip."""
    folder = Path(os.environ.get("LOOM_SHARED", _RELATIVE)) / "cases"
    if not folder.is_dir():
        pytest.skip("the shared programs are not here: set LOOM_SHARED to their folder")
    return folder


@pytest.mark.parametrize("name", CASES)
def test_every_sample_passes(device: VulkanDevice, cases: Path, name: str) -> None:
    """Nothing is skipped and nothing fails."""
    report = api.check([cases / f"{name}.loom"], device="vulkan")
    assert report.sample_count > 0
    assert report.failed_sample_count == 0
    assert report.skipped_case_count == report.planning_issue_count == 0
    assert all(sample.issue is None for sample in report.samples)


@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 1000])
def test_saxpy_leaves_the_rest_alone(device: VulkanDevice, cases: Path, count: int) -> None:
    """Only the first `count` elements change, for tails of any size."""
    module = api.load(cases / "saxpy_tail.loom")
    kernel = module.symbols()["axpy_in_place"]
    rng = np.random.default_rng(count)
    x, y = rng.standard_normal((2, count + 300)).astype(np.float32)
    before = y.copy()
    device.launch(module, kernel, [count], [count, 0.25, x, y])
    exact = (np.float64(0.25) * x[:count].astype(np.float64) + before[:count]).astype(np.float32)
    np.testing.assert_array_equal(y[:count], exact)
    np.testing.assert_array_equal(y[count:], before[count:])


@pytest.mark.parametrize("columns", [0, 1, 100])
def test_row_statistics(device: VulkanDevice, cases: Path, columns: int) -> None:
    """Rows of no column give the initial values."""
    module = api.load(cases / "row_stats.loom")
    kernel = module.symbols()["row_stats"]
    data = np.random.default_rng(1).integers(-(1 << 31), 1 << 31, (70, columns), np.int32)
    sums, tops = np.zeros(70, np.int32), np.zeros(70, np.int32)
    device.launch(module, kernel, [70], [70, columns, data, sums, tops])
    np.testing.assert_array_equal(sums, data.sum(axis=1, dtype=np.int32))
    np.testing.assert_array_equal(tops, data.max(axis=1, initial=-(1 << 31)))


def test_tile_transpose(device: VulkanDevice, cases: Path) -> None:
    """Every tile lands in its mirrored place."""
    module = api.load(cases / "tile_transpose.loom")
    kernel = module.symbols()["transpose16"]
    data = np.random.default_rng(2).integers(-(1 << 31), 1 << 31, (80, 80), np.int32)
    out = np.zeros_like(data)
    device.launch(module, kernel, [5], [80, data, out])
    np.testing.assert_array_equal(out, data.T)
