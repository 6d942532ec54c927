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


def mnemonics(text: str, target: str = "amdgpu:gfx1100") -> list[str]:
    """Mnemonics of the only kernel, waits and delays aside."""
    assembly = assembly_of(read_code_object(compile_text(text, target).primary.data))
    code = assembly.partition(":\n")[2].partition(".size")[0]
    found = re.findall(r"^  (\w+)", code, re.MULTILINE)
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


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("limit", [0, 1, 33, 64])
def test_masks_agree(target: str, limit: int) -> None:
    agree(GUARDED_TWICE, target, [], [np.int32(limit), np.full(64, -1, np.int32)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [1, 31, 64, 100])
def test_guards_agree(target: str, size: int) -> None:
    values = np.arange(size, dtype=np.float32)
    agree(DOUBLE, target, [size], [size, values, np.zeros(size, np.float32)])
