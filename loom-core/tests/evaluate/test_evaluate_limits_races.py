"""Looking for races can be left out, for programs that are known to have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loom.evaluate.limits import Limits
from loom.ir.diagnostics import LoomError

Programs = Any

GLOBAL = """  %x = buffer.view %out[%at0] : buffer -> view<1xi32>
  %one = scalar.constant 1 : i32
  view.store %one, %x[0] : i32, view<1xi32>"""
WORKGROUP = """  %bytes = index.constant 4 : offset
  %shared = buffer.alloca<workgroup> align(4) %bytes : buffer
  %x = buffer.view %shared[%at0] : buffer -> view<1xi32>
  %one = scalar.constant 1 : i32
  view.store %one, %x[0] : i32, view<1xi32>"""


@pytest.mark.parametrize("body", [GLOBAL, WORKGROUP], ids=["global", "workgroup"])
def test_without_races_nothing_looks_for_them(programs: Programs, body: str) -> None:
    text = programs.kernel(body, "%out: buffer")
    with pytest.raises(LoomError, match="data race"):
        programs.launch(text, [], [np.zeros(1, dtype=np.int32)])
    out = np.zeros(1, dtype=np.int32)
    programs.launch(text, [], [out], limits=Limits(races=False))
    assert out[0] == (body is GLOBAL)
