"""What small kernels become, instruction by instruction: the work that code generation leaves out."""

from __future__ import annotations

import re

import numpy as np
import pytest
from amdgpu_agreement import TARGETS, agree, compile_text, elementwise

from loom_target_amdgpu.abi import Parameter, argument_loads
from loom_target_amdgpu.assembly_text import assembly_of
from loom_target_amdgpu.code_object.reader import read_code_object

_HOUSEKEEPING = ("s_wait", "s_nop", "s_delay_alu", "s_clause")


def assembly(text: str, target: str = "amdgpu:gfx1100") -> str:
    """Instructions of the only kernel."""
    listing = assembly_of(read_code_object(compile_text(text, target).primary.data))
    return listing.partition(":\n")[2].partition(".size")[0]


def mnemonics(text: str, target: str = "amdgpu:gfx1100") -> list[str]:
    """Mnemonics of the only kernel, waits and delays aside; an instruction of two halves has two."""
    found = re.findall(r"^  (\w+)|:: (\w+)", assembly(text, target), re.MULTILINE)
    found = [(first or second).replace("v_dual_", "v_") for first, second in found]
    return [name for name in found if not name.startswith(_HOUSEKEEPING)]


def count(names: list[str], prefix: str) -> int:
    """How many mnemonics start so."""
    return sum(name.startswith(prefix) for name in names)


# -- arguments -------------------------------------------------------------------------------------------------------


def _parameters(*layout: tuple[int, int, bool]) -> list[Parameter]:
    return [Parameter(i, None, offset, size, buffer) for i, (offset, size, buffer) in enumerate(layout)]


@pytest.mark.parametrize(
    ("parameters", "segment", "loads"),
    [
        # A count and two buffers: as few loads either way, so numbers stay apart from buffers.
        (_parameters((0, 8, False), (8, 8, True), (16, 8, True)), 24, [(0, 8), (8, 16)]),
        # Everything in one.
        (_parameters((0, 8, False), (8, 8, False), (16, 8, True), (24, 8, True)), 32, [(0, 32)]),
        # Half of the words are used, starting in front of the first.
        (_parameters((8, 8, False), (16, 8, True), (24, 8, True)), 32, [(0, 32)]),
        # Not past the end of the segment.
        (_parameters((0, 8, True), (8, 8, True), (16, 8, True)), 24, [(0, 8), (8, 16)]),
        # Not for a gap of unused words, and a word alone starts anywhere.
        (_parameters((4, 4, False), (56, 8, True)), 64, [(4, 4), (56, 8)]),
        # Pairs of registers stay aligned: nothing starts in the middle of one.
        (_parameters((4, 4, False), (8, 8, True), (16, 8, True)), 24, [(4, 4), (8, 16)]),
    ],
)
def test_few_loads_read_the_arguments(parameters: list[Parameter], segment: int, loads: list[tuple[int, int]]) -> None:
    assert argument_loads(parameters, segment) == loads


# -- masks -----------------------------------------------------------------------------------------------------------

DOUBLE = elementwise("    %r = scalar.addf %x0, %x0 : f32", ["f32"], "f32")
GUARDED_TWICE = """kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  %width = index.constant 64 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%limit: i32, %p: buffer) {
  %i = kernel.workitem.id<x> : index
  %lane = index.cast %i : index to i32
  %origin = index.constant 0 : offset
  %v = buffer.view %p[%origin] : buffer -> view<64xi32>
  %few = scalar.cmpi ult, %lane, %limit : i32
  scf.if %few {
    view.store %lane, %v[%i] : i32, view<64xi32>
  }
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  scf.if %few {
    %old = view.load %v[%i] : view<64xi32> -> i32
    %new = scalar.addi %old, %limit : i32
    view.store %new, %v[%i] : i32, view<64xi32>
  }
  kernel.return
}
"""


@pytest.mark.parametrize("target", ["amdgpu:gfx1100", "amdgpu:gfx1200", "amdgpu:gfx942"])
def test_a_comparison_writes_the_mask_that_is_not_restored(target: str) -> None:
    names = mnemonics(DOUBLE, target)
    assert count(names, "v_cmpx_lt_u32") == 1
    assert count(names, "s_and_saveexec") == 0
    assert names[-1] == "s_endpgm"
    assert "store" in names[-2]  # nothing restores a mask for the end of the program


@pytest.mark.parametrize("target", ["amdgpu:gfx1100", "amdgpu:gfx1200", "amdgpu:gfx942"])
def test_short_code_is_walked_through_without_lanes(target: str) -> None:
    assert count(mnemonics(DOUBLE, target), "s_cbranch") == 0


def test_a_mask_that_code_behind_needs_is_saved_and_restored() -> None:
    names = mnemonics(GUARDED_TWICE)
    assert count(names, "s_and_saveexec") == 2
    assert names.index("s_mov_b32") < names.index("s_barrier")


def test_authored_masks_stay() -> None:
    """Who writes instructions gets them, those included that a compiler would leave out."""
    text = """low.kernel.def target<amdgpu.rdna3.core> workgroup_size(32, 1, 1) @k() asm {
  %lane = live_in<amdgpu.workitem_id.x> : reg<amdgpu.vgpr>
  %x = resource<hal_binding> {index = 0, source_type = hal.buffer} : reg<amdgpu.sgpr x2>
  %at = v_lshlrev_b32_src0_inline %lane, 2
  %few = v_cmp_lt_u32_src1_inline %lane {rhs = 5}
  %saved, %some = s_and_saveexec_b64 %few
  global_store_b32_saddr %at, %lane, %x
  s_mov_b64_exec %saved
  return
}
"""
    names = mnemonics(text)
    assert count(names, "s_and_saveexec_b32") == 1
    assert names[-2:] == ["s_mov_b32", "s_endpgm"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("limit", [0, 1, 33, 64])
def test_masks_agree(target: str, limit: int) -> None:
    agree(GUARDED_TWICE, target, [], [np.int32(limit), np.full(64, -1, np.int32)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [1, 31, 64, 100])
def test_guards_agree(target: str, size: int) -> None:
    values = np.arange(size, dtype=np.float32)
    agree(DOUBLE, target, [size], [size, values, np.zeros(size, np.float32)])


# -- addresses and loops ---------------------------------------------------------------------------------------------

# One work-item per row of a matrix; sizes are small enough for positions of 32 bits.
ROWS = """kernel.def export("k") @k(%n: index) {
  %unit = index.constant 1 : index
  %width = index.constant 32 : index
  %pad = index.constant 31 : index
  %padded = index.add %n, %pad : index
  %groups = index.div %padded, %width : index
  kernel.launch.config workgroups(%groups, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%row_count: index, %column_count: index, %p: buffer, %out: buffer) {
  %rows, %columns = index.assume %row_count, %column_count [range(%row_count, 1, LIMIT), range(%column_count, 0, 1024)] : index, index
  %origin = index.constant 0 : offset
  %in = buffer.view %p[%origin] : buffer -> view<[%rows]x[%columns]xi32>
  %vo = buffer.view %out[%origin] : buffer -> view<[%rows]xi32>
  %row = kernel.workitem.dispatch.id<x> : index
  %inside = index.cmp ult, %row, %rows : index
  scf.if %inside {
    %first = index.constant 0 : index
    %step = index.constant 1 : index
    %zero = scalar.constant 7 : i32
    %sum = scf.for %column = [%first to %columns step %step](%s = %zero : i32) -> (i32) {
      %value = view.load %in[%row, %column] : view<[%rows]x[%columns]xi32> -> i32
      %next = scalar.addi %s, %value : i32
      scf.yield %next : i32
    }
    view.store %sum, %vo[%row] : i32, view<[%rows]xi32>
  }
  kernel.return
}
"""
# Elements outside of a bound count as -1; the bound is reached in a loop.
PADDED = """kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  %width = index.constant 64 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%n_raw: index, %p: buffer, %out: buffer) {
  %n = index.assume %n_raw [range(%n_raw, 0, 4096)] : index
  %origin = index.constant 0 : offset
  %in = buffer.view %p[%origin] : buffer -> view<[%n]xf32>
  %vo = buffer.view %out[%origin] : buffer -> view<64xf32>
  %i = kernel.workitem.id<x> : index
  %first = index.constant 0 : index
  %width = index.constant 64 : index
  %none = scalar.constant 0.0 : f32
  %pad = scalar.constant PAD : f32
  %sum = scf.for %at = [%first to %n step %width](%acc = %none : f32) -> (f32) {
    %place = index.add %at, %i : index
    %inside = index.cmp ult, %place, %n : index
    %value = scf.if %inside -> (f32) {
      %x = view.load %in[%place] : view<[%n]xf32> -> f32
      scf.yield %x : f32
    } else {
      scf.yield %pad : f32
    }
    %next = scalar.addf %acc, %value : f32
    scf.yield %next : f32
  }
  view.store %sum, %vo[%i] : f32, view<64xf32>
  kernel.return
}
"""


def test_bounded_views_are_addressed_by_32_bits_per_lane() -> None:
    names = mnemonics(ROWS.replace("LIMIT", "65536"))
    assert count(names, "s_addc") == 0
    assert count(names, "v_mul_u32_u24") == 1
    assert count(names, "v_lshl_add_u32") == 2  # the row, and the column of each iteration
    assert len(names) <= 19


def test_positions_beyond_32_bits_move_the_base() -> None:
    names = mnemonics(ROWS.replace("LIMIT", "16777216"))
    assert count(names, "s_addc") >= 1


def test_a_loop_that_may_not_run_hands_on_what_it_starts_with() -> None:
    names = mnemonics(ROWS.replace("LIMIT", "65536"))
    assert count(names, "s_branch") == 0
    assert count(names, "v_mov_b32") == 1


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("limit", ["65536", "16777216"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 0), (31, 3), (70, 17)])
def test_rows_agree(target: str, limit: str, rows: int, columns: int) -> None:
    values = np.arange(max(rows * columns, 1), dtype=np.int32)
    agree(ROWS.replace("LIMIT", limit), target, [rows], [rows, columns, values, np.zeros(rows, np.int32)])


@pytest.mark.parametrize("target", ["amdgpu:gfx1100", "amdgpu:gfx1200", "amdgpu:gfx942"])
def test_a_guarded_load_and_a_constant_are_straight_code(target: str) -> None:
    names = mnemonics(PADDED.replace("PAD", "-1.0"), target)
    assert count(names, "s_and_saveexec") == 1
    assert count(names, "v_cndmask") == 1
    assert count(names, "s_xor") == 0
    assert count(names, "s_cbranch") <= 2  # those of the loop


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pad", ["-1.0", "0.75"])
@pytest.mark.parametrize("size", [0, 1, 64, 65, 200])
def test_guarded_loads_agree(target: str, pad: str, size: int) -> None:
    values = np.arange(max(size, 1), dtype=np.float32)
    agree(PADDED.replace("PAD", pad), target, [], [size, values, np.zeros(64, np.float32)])


def test_no_scalar_load_runs_without_lanes() -> None:
    """A uniform address behind a guard that a lane decides: the wave must not read it when the guard fails."""
    text = PADDED.replace("PAD", "-1.0").replace("%in[%place]", "%in[%at]")
    names = mnemonics(text)
    assert count(names, "global_load") == 1
    assert count(names, "s_load_b32") == 0


# -- workgroup storage -----------------------------------------------------------------------------------------------

# Lane i adds up eight words from word i + FIRST of a workgroup's storage, STEP words apart.
WINDOW = """kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  %width = index.constant 64 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%p: buffer, %out: buffer) {
  %origin = index.constant 0 : offset
  %bytes = index.constant 8192 : offset
  %in = buffer.view %p[%origin] : buffer -> view<2048xi32>
  %vo = buffer.view %out[%origin] : buffer -> view<64xi32>
  %storage = buffer.alloca<workgroup> align(16) %bytes : buffer
  %words = buffer.view %storage[%origin] : buffer -> view<2048xi32>
  %i = kernel.workitem.id<x> : index
  %start = index.constant 0 : index
  %stride = index.constant 64 : index
  %end = index.constant 2048 : index
  scf.for %at = [%start to %end step %stride] {
    %place = index.add %at, %i : index
    %x = view.load %in[%place] : view<2048xi32> -> i32
    view.store %x, %words[%place] : i32, view<2048xi32>
  }
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  %first = index.constant FIRST : index
  %begin = index.add %i, %first : index
  %eight = index.constant 8 : index
  %one = index.constant 1 : index
  %step = index.constant STEP : index
  %none = scalar.constant 0 : i32
  %sum = scf.for %k = [%start to %eight step %one](%acc = %none : i32) -> (i32) unroll {
    %place = index.madd %k, %step, %begin : index
    %x = view.load %words[%place] : view<2048xi32> -> i32
    %twice = scalar.addi %acc, %acc : i32
    %next = scalar.addi %twice, %x : i32
    scf.yield %next : i32
  }
  view.store %sum, %vo[%i] : i32, view<64xi32>
  kernel.return
}
"""


def window(first: int, step: int) -> str:
    """The kernel that reads words ``first``, ``first + step``, ... behind each lane's."""
    return WINDOW.replace("FIRST", str(first)).replace("STEP", str(step))


@pytest.mark.parametrize(
    ("first", "step", "pairs", "single"),
    [
        (0, 1, 4, 0),
        (0, 36, 4, 0),  # the last at word 252
        (0, 40, 3, 2),  # the eighth, at word 280, is out of reach, and it alone moves no address
        (1000, 17, 4, 0),  # all out of reach: one more register
        (0, 200, 1, 6),  # far apart from one another
    ],
)
def test_reads_at_constant_distances_are_paired(first: int, step: int, pairs: int, single: int) -> None:
    names = mnemonics(window(first, step))
    assert count(names, "ds_load_2addr_b32") == pairs
    assert names.count("ds_load_b32") == single


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("first", "step"), [(0, 1), (0, 36), (0, 40), (1000, 17), (0, 200)])
def test_paired_reads_agree(target: str, first: int, step: int) -> None:
    values = np.random.default_rng(first + step).integers(-1000, 1000, 2048, dtype=np.int32)
    agree(window(first, step), target, [], [values, np.zeros(64, np.int32)])


def test_reads_are_not_moved_across_writes() -> None:
    """Every second read follows a write of the same storage."""
    text = window(0, 1).replace("    %twice =", "    view.store %x, %words[%i] : i32, view<2048xi32>\n    %twice =")
    names = mnemonics(text)
    assert count(names, "ds_load_2addr") == 0
    assert count(names, "ds_load_b32") == 8


# -- collectives and floats ------------------------------------------------------------------------------------------

TOTAL = """kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  %width = index.constant WIDTH : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%p: buffer, %out: buffer) {
  %origin = index.constant 0 : offset
  %in = buffer.view %p[%origin] : buffer -> view<WIDTHxTYPE>
  %vo = buffer.view %out[%origin] : buffer -> view<WIDTHxTYPE>
  %i = kernel.workitem.id<x> : index
  %x = view.load %in[%i] : view<WIDTHxTYPE> -> TYPE
  %total = kernel.workgroup.reduce<KIND> %x : TYPE
  view.store %total, %vo[%i] : TYPE, view<WIDTHxTYPE>
  kernel.return
}
"""


def total(kind: str, type_: str, width: int) -> str:
    """The kernel in which every work-item gets the total of its workgroup."""
    return TOTAL.replace("KIND", kind).replace("TYPE", type_).replace("WIDTH", str(width))


@pytest.mark.parametrize("target", ["amdgpu:gfx1100", "amdgpu:gfx1200", "amdgpu:gfx942"])
@pytest.mark.parametrize(("kind", "type_", "word"), [("addf", "f32", "add_f32"), ("maxsi", "i32", "max_i32")])
def test_neighbours_are_combined_without_moving_them(target: str, kind: str, type_: str, word: str) -> None:
    names = mnemonics(total(kind, type_, 128), target)
    assert count(names, f"v_{word}_dpp") == 4
    assert count(names, "ds_swizzle_b32") == 1
    assert count(names, "ds_bpermute_b32") == (1 if target.endswith("gfx942") else 0)


def test_totals_of_a_few_waves_are_read_at_once() -> None:
    names = mnemonics(total("addf", "f32", 128))
    assert count(names, "ds_load_b128") == 1
    assert count(names, "s_barrier") == 1  # nobody writes the storage again
    assert count(names, "v_add_f32") == 8


def test_quiet_values_are_not_quieted_again() -> None:
    assert count(mnemonics(total("maxnumf", "f32", 128)), "v_mul_f32") == 1  # what comes from memory


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [32, 64, 96, 128, 256, 512])
@pytest.mark.parametrize("kind", ["addi", "maxsi", "minui", "xori", "andi"])
def test_integer_totals_agree(target: str, width: int, kind: str) -> None:
    values = np.random.default_rng(width).integers(-(2**31), 2**31, width, dtype=np.int64).astype(np.int32)
    agree(total(kind, "i32", width), target, [], [values, np.zeros(width, np.int32)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [64, 128, 160, 256])
@pytest.mark.parametrize("kind", ["maxnumf", "minnumf", "addf"])
def test_float_totals_agree(target: str, width: int, kind: str) -> None:
    """Small integers, whose sums are exact in any order; NaNs of both kinds where they are ignored."""
    values = np.random.default_rng(width).integers(-1000, 1000, width).astype(np.float32)
    if kind != "addf":
        values.view(np.uint32)[[1, 40]] = 0x7F800001, 0x7FC00000
    agree(total(kind, "f32", width), target, [], [values, np.zeros(width, np.float32)])


# -- loops -----------------------------------------------------------------------------------------------------------

# The counter is read late in the body, by an access to workgroup storage that has to wait for a barrier.
COUNTED = """kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  %width = index.constant 64 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%n_raw: index, %p: buffer, %out: buffer) {
  %n = index.assume %n_raw [range(%n_raw, 0, 16)] : index
  %origin = index.constant 0 : offset
  %bytes = index.constant 4096 : offset
  %in = buffer.view %p[%origin] : buffer -> view<1024xi32>
  %vo = buffer.view %out[%origin] : buffer -> view<64xi32>
  %storage = buffer.alloca<workgroup> align(16) %bytes : buffer
  %words = buffer.view %storage[%origin] : buffer -> view<1024xi32>
  %i = kernel.workitem.id<x> : index
  %first = index.constant 0 : index
  %one = index.constant 1 : index
  %sixteen = index.constant 16 : index
  %none = scalar.constant 0 : i32
  %sum = scf.for %k = [%first to %n step %one](%acc = %none : i32) -> (i32) {
    %place = index.madd %i, %sixteen, %k : index
    %x = view.load %in[%place] : view<1024xi32> -> i32
    view.store %x, %words[%place] : i32, view<1024xi32>
    kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
    %y = view.load %words[%place] : view<1024xi32> -> i32
    %next = scalar.addi %acc, %y : i32
    scf.yield %next : i32
  }
  %end = index.madd %i, %sixteen, %first : index
  %last = view.load %in[%end] : view<1024xi32> -> i32
  %total = scalar.addi %sum, %last : i32
  view.store %total, %vo[%i] : i32, view<64xi32>
  kernel.return
}
"""


@pytest.mark.parametrize("target", ["amdgpu:gfx1100", "amdgpu:gfx1200", "amdgpu:gfx942"])
def test_a_counter_is_advanced_in_place(target: str) -> None:
    names = mnemonics(COUNTED, target)
    assert count(names, "s_branch") == 0
    assert count(names, "s_cbranch") == 2  # around the loop and back


def test_what_a_loop_computes_first_serves_the_code_behind_it() -> None:
    """``16 * i`` words are invariant: they are computed once, in front of the test that guards the loop."""
    code = assembly(COUNTED)
    assert re.findall(r"lshlrev_b32\w* v\d+, 6, v0", code) == re.findall(
        r"lshlrev_b32\w* v\d+, 6, v0", code.partition("s_cmp")[0]
    )
    assert len(re.findall(r"lshlrev_b32\w* v\d+, 6, v0", code)) == 1


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [0, 1, 7, 16])
def test_counted_loops_agree(target: str, size: int) -> None:
    agree(COUNTED, target, [], [size, np.arange(1024, dtype=np.int32), np.zeros(64, np.int32)])
