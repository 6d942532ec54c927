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
# The same address from a start 32 MiB before the buffer, across a multiple of 4 GiB: the emulator maps every buffer
# 16 MiB behind one.
START = """\
  %memory_low = slice %memory[0] : reg<amdgpu.sgpr x2> -> reg<amdgpu.sgpr>
  %memory_high = slice %memory[1] : reg<amdgpu.sgpr x2> -> reg<amdgpu.sgpr>
"""
EARLIER_START = """\
  %buffer_low = slice %memory[0] : reg<amdgpu.sgpr x2> -> reg<amdgpu.sgpr>
  %buffer_high = slice %memory[1] : reg<amdgpu.sgpr x2> -> reg<amdgpu.sgpr>
  %distance = v_mov_b32 33554432
  %no_distance = v_mov_b32 0
  %memory_low, %borrow = v_sub_co_u32 %buffer_low, %distance
  %memory_high, %rest = v_sub_co_ci_u32 %buffer_high, %no_distance, %borrow
  %far = v_add_u32 %at, %distance
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


@pytest.mark.seed("EX2")
@pytest.mark.parametrize("target", TARGETS)
def test_addresses_carry_into_their_upper_half(root: Path, tmp_path: Path, target: str) -> None:
    text = (root / "examples" / "flat_pointers.loom").read_text()
    addition = "v_add_co_u32 %memory_low, %at"
    assert (text.count(START), text.count(addition)) == (1, 1)
    path = tmp_path / "flat_pointers.loom"
    path.write_text(text.replace(START, EARLIER_START).replace(addition, "v_add_co_u32 %memory_low, %far"))
    expect_passed(path, target)
