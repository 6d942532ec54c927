"""The example of flat pointers: workgroup storage of the caller in authored code, atomics, lanes in different memories."""

from __future__ import annotations

from pathlib import Path

import pytest

from loom import api

pytest.importorskip("loom_target_amdgpu", reason="the code is authored for AMD GPUs")
pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")

TARGETS = ("amdgpu:gfx1100", "amdgpu:gfx1151")
ROOM = "  %room = buffer.alloca<workgroup> align(16) %bytes : buffer\n"
BEFORE = """\
  %first = buffer.alloca<workgroup> align(16) %bytes : buffer
  %others = buffer.view %first[%start] : buffer -> view<32xi32>
  view.store %word, %others[%lane] : i32, view<32xi32>
"""
AFTER = """\
  %kept = view.load %others[%lane] : view<32xi32> -> i32
  %lost = scalar.subi %kept, %word : i32
  %wrong = scalar.addi %found, %lost : i32
  view.store %wrong, %before_view[%lane] : i32, view<32xi32>
  kernel.barrier"""


def expect_passed(path: Path, target: str) -> None:
    report = api.check([path], (), "sim", target)
    assert [(s.case, s.issue or s.expectations) for s in report.samples if not s.passed] == []
    assert (report.sample_count, report.skipped_case_count) == (1, 0)


@pytest.mark.seed("EX2")
@pytest.mark.parametrize("target", TARGETS)
def test_lanes_count_in_two_memories(root: Path, target: str) -> None:
    expect_passed(root / "examples" / "flat_pointers.loom", target)


@pytest.mark.seed("EX2")
@pytest.mark.parametrize("target", TARGETS)
def test_the_storage_may_lie_anywhere(root: Path, tmp_path: Path, target: str) -> None:
    """Behind other storage, whose contents the counters leave alone."""
    text = (root / "examples" / "flat_pointers.loom").read_text()
    changed = text.replace(ROOM, BEFORE + ROOM).replace("  kernel.barrier", AFTER)
    assert changed.count("%others") == 3
    path = tmp_path / "flat_pointers.loom"
    path.write_text(changed)
    expect_passed(path, target)
