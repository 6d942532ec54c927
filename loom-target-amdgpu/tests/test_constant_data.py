"""Constant data in code objects: kernels find it from where they run, and read it where only run time knows the place."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import compile_text

from loom import api
from loom.ir.diagnostics import LoomError
from loom_sim.amdgpu import load
from loom_target_amdgpu.code_object.reader import read_code_object

TARGETS = ("amdgpu:gfx1100", "amdgpu:gfx1200", "amdgpu:gfx942")
targets = pytest.mark.parametrize("target", TARGETS)
FIRST = np.arange(-8, 24, 2, dtype=np.int16)
SECOND = np.array([3, 1 << 20, -5, 77, 1000, -1000, 12, 13], np.int32)
KERNEL = """\
kernel.def export("{name}") @{name}() {{
  %unit = index.constant 1 : index
  %width = index.constant 16 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
}} launch(%n: i32, %x: buffer, %y: buffer) {{
  %at = index.constant 0 : offset
  %behind = index.constant 4 : offset
  %lane = kernel.workitem.id<x> : index
  %data = global.load @first : buffer
  %table = buffer.view %data[%at] : buffer -> view<4x4xi16>
  %more = global.load @second : buffer
  %numbers = buffer.view %more[%behind] : buffer -> view<7xi32>
  %in = buffer.view %x[%at] : buffer -> view<16xi32>
  %out = buffer.view %y[%at] : buffer -> view<16xi32>
  %i = view.load %in[%lane] : view<16xi32> -> i32
  %w = index.cast %i : i32 to index
  %s = index.assume %w [range(%w, 0, 15)] : index
  %four = index.constant 4 : index
  %row = index.div %s, %four : index
  %column = index.rem %s, %four : index
  %v = view.load %table[%row, %column] : view<4x4xi16> -> i16
  %e = scalar.extsi %v : i16 to i32
  %m = index.cast %n : i32 to index
  %k = index.assume %m [range(%m, 0, 6)] : index
  %uniform = view.load %numbers[%k] : view<7xi32> -> i32
  %sum = scalar.addi %e, %uniform : i32
  view.store %sum, %out[%lane] : i32, view<16xi32>
  kernel.return
}}
"""
PROGRAM = f"""\
global.rodata.def @first = align(256) bytes("{FIRST.tobytes().hex()}")

global.rodata.def @second = bytes("{SECOND.tobytes().hex()}")

global.variable @count : i32 = 0

{KERNEL.format(name="k")}
{KERNEL.format(name="l").replace("addi %e, %uniform", "subi %e, %uniform")}"""


@targets
def test_kernels_read_tables_where_lanes_point(target: str) -> None:
    """One place for all lanes and one for each; both kernels find the tables from their own position."""
    program = load(compile_text(PROGRAM, target).primary.data)
    places = np.random.default_rng(3).permutation(16).astype(np.int32)
    for n in range(7):
        for name, sign in (("k", 1), ("l", -1)):
            y = np.zeros(16, np.int32)
            program.launch(name, 1, 16, [n, places, y])
            np.testing.assert_array_equal(y, FIRST[places] + sign * SECOND[1 + n])


@targets
def test_the_code_object_holds_each_table_once(target: str) -> None:
    data = compile_text(PROGRAM, target).primary.data
    found = read_code_object(data)
    for name, table, alignment in (("first", FIRST, 256), ("second", SECOND, 16)):
        symbol = found.symbols[name]
        assert symbol.size == table.nbytes
        assert symbol.address % alignment == 0
        assert found.read(symbol.address, symbol.size) == table.tobytes()
        assert data.count(table.tobytes()) == 1


@targets
def test_target_low_names_the_data_and_compiles_to_the_same(target: str) -> None:
    made = compile_text(PROGRAM, target)
    assert made.low_text is not None
    assert "live_in<amdgpu.data.0> {symbol = @first} : reg<amdgpu.sgpr x2>" in made.low_text
    again = api.compile(api.load_bytes(made.low_text.encode(), "low.loom"), (), target).result
    assert again.primary.data == made.primary.data


def refusal(text: str, format_: str | None = None) -> tuple[str, str]:
    with pytest.raises(LoomError) as caught:
        api.compile(api.load_bytes(text.encode(), "test.loom"), ("k",), "amdgpu:gfx1100", format_)
    (found,) = caught.value.diagnostics
    return found.code, found.message


def test_what_is_no_constant_data_is_refused() -> None:
    loads = "  %c = global.load @count : i32\n  %n0 = scalar.addi %n, %c : i32\n  %m = index.cast %n0"
    code, message = refusal(PROGRAM.replace("  %m = index.cast %n ", loads + " "))
    assert code == "TARGET/001"
    assert "@count" in message
    low = compile_text(PROGRAM, "amdgpu:gfx1100").low_text
    assert low is not None
    code, message = refusal(low.replace("{symbol = @second}", "{symbol = @count}"))
    assert code == "TARGET/033"
    assert "@count" in message


def test_no_alignment_is_larger_than_a_page() -> None:
    assert refusal(PROGRAM.replace("align(256)", "align(8192)"))[0] == "TARGET/022"
    assert compile_text(PROGRAM.replace("align(256)", "align(4096)"), "amdgpu:gfx1100").primary.data


def test_assembly_text_has_no_data() -> None:
    assert refusal(PROGRAM, "amdgpu-asm")[0] == "TARGET/001"
