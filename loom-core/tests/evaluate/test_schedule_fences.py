"""A schedule fence orders instructions of one work-item: it publishes nothing and lets nobody meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from conftest import Programs

BODY = """\
  %bytes = index.constant 128 : offset
  %one = index.constant 1 : index
  %last = index.constant 31 : index
  %out = buffer.view %target[%at0] : buffer -> view<32xi32>
  %storage = buffer.alloca<workgroup> align(4) %bytes : buffer
  %tile = buffer.view %storage[%at0] : buffer -> view<32xi32>
  %v = index.cast %lane : index to i32
  %opposite = index.sub %last, %lane : index
  view.store %v, %tile[%lane] : i32, view<32xi32>
  CONTROL
  %r = view.load %tile[%opposite] : view<32xi32> -> i32
  view.store %r, %out[%lane] : i32, view<32xi32>"""


@pytest.mark.seed("O08", "O04")
def test_a_fence_is_no_barrier(programs: Programs) -> None:
    """What one work-item wrote is read by another one behind a fence: a race, which only a barrier ends."""
    fence = programs.kernel(BODY.replace("CONTROL", "scf.schedule.fence"), "%target: buffer")
    assert programs.fault(lambda: programs.launch(fence, [], [np.zeros(32, np.int32)])).code == "EVALUATE/005"
    barrier = "kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)"
    out = np.zeros(32, np.int32)
    programs.launch(programs.kernel(BODY.replace("CONTROL", barrier), "%target: buffer"), [], [out])
    np.testing.assert_array_equal(out, np.arange(31, -1, -1))
