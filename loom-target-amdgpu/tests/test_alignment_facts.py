"""Wide accesses of workgroup storage appear when facts give their alignment, and not otherwise."""

from __future__ import annotations

import re

import pytest
from amdgpu_agreement import compile_text

from loom_target_amdgpu.assembly_text import assembly_of
from loom_target_amdgpu.code_object.reader import read_code_object

HELPER = """\
func.def inline @take(%v: view<256xf32>, %at: index) -> (vector<4xf32>) {
  %x = vector.load %v[%at] : view<256xf32> -> vector<4xf32>
  func.return %x : vector<4xf32>
}

"""
KERNEL = """\
kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  %width = index.constant 64 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%n: i32, %out: buffer) {
  %origin = index.constant 0 : offset
  %bytes = index.constant 4096 : offset
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c4 = index.constant 4 : index
  %c64 = index.constant 64 : index
  %i = kernel.workitem.id<x> : index
  %store = buffer.alloca<workgroup> align(ALIGN) %bytes : buffer
  %s = buffer.view %store[%origin] : buffer -> view<256xf32>
  %number = index.cast %i : index to i32
  %f = scalar.sitofp %number : i32 to f32
  view.store %f, %s[%i] : f32, view<256xf32>
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  %wide = index.cast %n : i32 to index
  %j = index.assume %wide [FACT] : index
BODY
  %o = buffer.view %out[%origin] : buffer -> view<4096xf32>
  %to = index.mul %i, %c4 : index
  vector.store %x, %o[%to] : vector<4xf32>, view<4096xf32>
  kernel.return
}
"""
DIRECT = "  %x = vector.load %s[%j] : view<256xf32> -> vector<4xf32>"
CALL = "  %x = func.call @take(%s, %j) : (view<256xf32>, index) -> (vector<4xf32>)"
SUBVIEW = """\
  %part = view.subview %s[%j] : view<256xf32> -> view<16xf32>
  %x = vector.load %part[8] : view<16xf32> -> vector<4xf32>"""
LOOP = """\
  %zero = scalar.constant 0.0 : f32
  %none = vector.splat %zero : vector<4xf32>
  %x = scf.for %p = [%j to %c64 step STEP](%sum = %none : vector<4xf32>) -> (vector<4xf32>) {
    %y = vector.load %s[%p] : view<256xf32> -> vector<4xf32>
    %next = vector.addf %sum, %y : vector<4xf32>
    scf.yield %next : vector<4xf32>
  }"""
KNOWN, OPEN = "range(%j0, 0, 60), multiple_of(%j0, 4)", "range(%j0, 0, 60)"


def widths(body: str, fact: str, align: int, step: str = "%c4") -> list[str]:
    """The loads of workgroup storage, by how many bits each address reads."""
    text = HELPER + KERNEL.replace("BODY", body).replace("STEP", step).replace("ALIGN", str(align))
    text = text.replace("FACT", fact.replace("%j0", "%wide"))
    listing = assembly_of(read_code_object(compile_text(text, "amdgpu:gfx1100").primary.data))
    return re.findall(r"ds_load_(?:2addr_)?(b\d+)", listing)


@pytest.mark.parametrize("body", [DIRECT, CALL, SUBVIEW, LOOP], ids=["direct", "call", "subview", "loop"])
def test_a_multiple_of_the_width_is_read_at_once(body: str) -> None:
    assert set(widths(body, KNOWN, 16)) == {"b128"}
    assert "b128" not in widths(body, OPEN, 16)


def test_storage_and_steps_count_too() -> None:
    assert "b128" not in widths(DIRECT, KNOWN, 4)
    assert "b128" not in widths(LOOP, KNOWN, 16, step="%c1")
