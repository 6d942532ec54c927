"""The example of flat pointers: workgroup storage of the caller in authored code, atomics, lanes in different memories."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loom import api

pytest.importorskip("loom_target_amdgpu", reason="the code is authored for AMD GPUs")
pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")

TARGETS = ("amdgpu:gfx1100", "amdgpu:gfx1151")
ALLOCATION = re.compile(r"^  %\w+ = buffer\.alloca<workgroup>", re.MULTILINE)
OTHER = """\
  %other_number = index.cast %lane : index to i32
  %other = buffer.alloca<workgroup> align(16) %bytes : buffer
  %other_words = buffer.view %other[%start] : buffer -> view<64xi32>
  view.store %other_number, %other_words[%lane] : i32, view<64xi32>
"""


def expect_passed(path: Path, target: str) -> None:
    report = api.check([path], (), "sim", target)
    assert [(s.case, s.issue or s.expectations) for s in report.samples if not s.passed] == []
    assert report.sample_count >= 1
    assert report.skipped_case_count == 0


@pytest.mark.seed("EX2")
@pytest.mark.parametrize("target", TARGETS)
def test_lanes_count_in_two_memories(root: Path, target: str) -> None:
    expect_passed(root / "examples" / "flat_pointers.loom", target)


@pytest.mark.seed("EX2")
@pytest.mark.parametrize("target", TARGETS)
def test_the_storage_may_lie_anywhere(root: Path, tmp_path: Path, target: str) -> None:
    """Behind other storage that the kernels write."""
    text = (root / "examples" / "flat_pointers.loom").read_text()
    changed, count = ALLOCATION.subn(lambda match: OTHER + match[0], text)
    assert count >= 1
    path = tmp_path / "flat_pointers.loom"
    path.write_text(changed)
    expect_passed(path, target)
