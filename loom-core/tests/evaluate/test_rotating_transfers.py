"""Views that rotate through a loop know nothing of the transfers that fill them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loom.ir.diagnostics import LoomError

Programs = Any

WAIT = "kernel.async.wait %group {newer_groups = 0} : kernel.async.group"
LOOP = """\
  %bytes = index.constant 256 : offset
  %half = index.constant 128 : offset
  %shared = buffer.alloca<workgroup> align(16) %bytes : buffer
  %g = buffer.assume.memory_space<global> %in : buffer
  %src = buffer.view %g[%at0] : buffer -> view<64x4xi16>
  %sums = buffer.view %out[%at0] : buffer -> view<16xi32>
  %tile0 = buffer.view %shared[%at0] : buffer -> view<16x2xi32>
  %tile1 = buffer.view %shared[%half] : buffer -> view<16x2xi32>
  %first = view.subview %tile0[%lane, 0] : view<16x2xi32> -> view<1x2xi32>
  %second = view.subview %tile1[%lane, 0] : view<16x2xi32> -> view<1x2xi32>
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c4 = index.constant 4 : index
  %c16 = index.constant 16 : index
  %zero = scalar.constant 0 : i32
  view.store %zero, %first[0, 1] : i32, view<1x2xi32>
  %sum, %last, %spare = scf.for %i = [%c0 to %c4 step %c1](%acc = %zero : i32, %now = %first : view<1x2xi32>, %next = %second : view<1x2xi32>) -> (i32, view<1x2xi32>, view<1x2xi32>) {
    %at = index.madd %i, %c16, %lane : index
    %row = view.subview %src[%at, 0] : view<64x4xi16> -> view<1x4xi16>
    %token = kernel.async.copy %row to %next {cache_scope = cu, cache_temporal = regular, direction = global_to_workgroup} : view<1x4xi16> to view<1x2xi32> -> kernel.async.token
    %group = kernel.async.group %token : kernel.async.token -> kernel.async.group
    %x = view.load %now[0, 1] : view<1x2xi32> -> i32
    %more = scalar.addi %acc, %x : i32
    {wait}
    scf.yield %more, %next, %now : i32, view<1x2xi32>, view<1x2xi32>
  }
  view.store %sum, %sums[%lane] : i32, view<16xi32>"""


def launch(programs: Programs, wait: str) -> list[int]:
    """The sums of what the slots held, of all work-items."""
    given = np.arange(256, dtype=np.int16).reshape(64, 4)
    out = np.zeros(16, dtype=np.int32)
    text = programs.kernel(LOOP.replace("{wait}", wait), "%in: buffer, %out: buffer", size=16)
    programs.launch(text, [], [given, out], facts={"subgroup_size": 16})
    return [int(v) for v in out]


@pytest.mark.seed("R06")
def test_a_rotated_slot_is_ready_only_behind_its_wait(programs: Programs) -> None:
    """With a wait the next iteration reads what was copied; without one the read is reported, rotated or not."""
    words = np.arange(256, dtype=np.int16).reshape(4, 16, 4)[:3].copy().view(np.int32)[..., 1]
    assert launch(programs, WAIT) == [int(v) for v in words.sum(axis=0, dtype=np.int32)]
    with pytest.raises(LoomError) as caught:
        launch(programs, "")
    (found,) = caught.value.diagnostics
    assert "pending" in found.message or "transfer" in found.message
    assert programs.source_line(found).startswith("%x = view.load %now")
