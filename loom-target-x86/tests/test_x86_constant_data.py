"""Constant data: what the object holds, and that code reads it where only run time knows the place."""

from __future__ import annotations

import numpy as np
import pytest
from test_x86_kernels import agree
from x86_programs import RUNNER_IDS, RUNNERS, Runner

from loom import api
from loom.ir.diagnostics import LoomError
from loom_target_x86.constants import constant_of_symbol, data_symbol

FIRST = np.arange(-8, 24, 2, dtype=np.int16).tobytes()
SECOND = np.array([0.5, -1.5, np.inf, np.nan], np.float64).tobytes()
PROGRAM = f"""\
global.rodata.def @first = align(64) bytes("{FIRST.hex()}")

global.rodata.def @second = bytes("{SECOND.hex()}")

global.variable @count : i32 = 0

kernel.def export("k") @k() {{
  %unit = index.constant 1 : index
  %width = index.constant 16 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
}} launch(%x: buffer, %y: buffer, %z: buffer) {{
  %at = index.constant 0 : offset
  %behind = index.constant 8 : offset
  %lane = kernel.workitem.id<x> : index
  %data = global.load @first : buffer
  %table = buffer.view %data[%at] : buffer -> view<4x4xi16>
  %more = global.load @second : buffer
  %numbers = buffer.view %more[%behind] : buffer -> view<3xf64>
  %in = buffer.view %x[%at] : buffer -> view<16xi32>
  %out = buffer.view %y[%at] : buffer -> view<16xi16>
  %wide = buffer.view %z[%at] : buffer -> view<16xf64>
  %i = view.load %in[%lane] : view<16xi32> -> i32
  %w = index.cast %i : i32 to index
  %s = index.assume %w [range(%w, 0, 15)] : index
  %three = index.constant 3 : index
  %four = index.constant 4 : index
  %row = index.div %s, %four : index
  %column = index.rem %s, %four : index
  %v = view.load %table[%row, %column] : view<4x4xi16> -> i16
  view.store %v, %out[%lane] : i16, view<16xi16>
  %k = index.rem %s, %three : index
  %f = view.load %numbers[%k] : view<3xf64> -> f64
  view.store %f, %wide[%lane] : f64, view<16xf64>
  kernel.return
}}
"""


@pytest.mark.parametrize("runner", RUNNERS, ids=RUNNER_IDS, indirect=True)
def test_tables_are_read_where_lanes_point(runner: Runner) -> None:
    places = np.random.default_rng(5).permutation(16).astype(np.int32)
    _, y, z = agree(runner, PROGRAM, [places, np.zeros(16, np.int16), np.zeros(16, np.float64)])
    np.testing.assert_array_equal(y, np.frombuffer(FIRST, np.int16)[places])
    np.testing.assert_array_equal(z, np.frombuffer(SECOND, np.float64)[1 + places % 3])


def test_the_object_holds_each_table_once_at_its_alignment() -> None:
    module = api.load_bytes(PROGRAM.encode(), "test.loom")
    code = api.compile(module, (), "x86:avx2").result.primary.data
    assert code.count(FIRST) == code.count(SECOND) == 1
    for data, alignment in ((FIRST, 64), (SECOND, 16), (b"", 1)):
        constant = constant_of_symbol(data_symbol(data, alignment))
        assert constant is not None
        assert (constant.data, constant.alignment) == (data, alignment)
    assert constant_of_symbol("data16_0") is None
    assert constant_of_symbol("data0_00") is None


def test_no_alignment_is_larger_than_a_page() -> None:
    for alignment in (4096, 8192):
        text = PROGRAM.replace("align(64)", f"align({alignment})")
        module = api.load_bytes(text.encode(), "test.loom")
        if alignment == 4096:
            assert api.compile(module, (), "x86:avx2").result.primary.data
            continue
        with pytest.raises(LoomError) as caught:
            api.compile(module, (), "x86:avx2")
        assert [d.code for d in caught.value.diagnostics] == ["TARGET/001"]


def test_variables_are_refused() -> None:
    text = PROGRAM.replace("  %v = view.load", "  %c = global.load @count : i32\n  %v = view.load").replace(
        "  view.store %v,", "  %d = scalar.trunci %c : i32 to i16\n  %e = scalar.addi %v, %d : i16\n  view.store %e,"
    )
    with pytest.raises(LoomError) as caught:
        api.compile(api.load_bytes(text.encode(), "test.loom"), (), "x86:avx2")
    (found,) = caught.value.diagnostics
    assert found.code == "TARGET/001"
    assert "@count" in found.message
