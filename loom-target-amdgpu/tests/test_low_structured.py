"""Authored Low with structured control flow and storage: lowered to blocks and memory, and run."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import compile_text

from loom.bytecode import read_module, write_module
from loom.ir.diagnostics import LoomError
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import require_valid
from loom_sim.amdgpu import load

TARGETS = ["amdgpu:gfx942", "amdgpu:gfx1100", "amdgpu:gfx1200"]
CONTRACTS = {
    "amdgpu:gfx942": "amdgpu.cdna3.core",
    "amdgpu:gfx1100": "amdgpu.rdna3.core",
    "amdgpu:gfx1200": "amdgpu.rdna4.core",
}
STORES = {"amdgpu:gfx942": "global_store_dword_saddr %at, %r, %y, %m0"}


def kernel(target: str, body: str) -> str:
    """A kernel that computes %r from a scalar %n and its lane, and stores it."""
    m0 = "  %m0 = live_in<amdgpu.m0> : reg<amdgpu.m0>\n" if target in STORES else ""
    return f"""\
low.kernel.def target<{CONTRACTS[target]}> workgroup_size(64, 1, 1) @k(%n: reg<amdgpu.sgpr>) asm {{
  %lane = live_in<amdgpu.workitem_id.x> : reg<amdgpu.vgpr>
{m0}  %y = resource<hal_binding> {{index = 0, source_type = hal.buffer}} : reg<amdgpu.sgpr x2>
  %zero = s_mov_b32 0
  %one = s_mov_b32 1
  %five = s_mov_b32 5
{body}
  %at = v_lshlrev_b32_src0_inline %lane, 2
  {STORES.get(target, "global_store_b32_saddr %at, %r, %y")}
  return
}}
"""


def run(target: str, body: str, n: int) -> list[int]:
    program = load(compile_text(kernel(target, body), target).primary.data)
    out = np.full(64, -1, dtype=np.int32)
    program.launch("k", 1, 64, [out, np.int32(n).tobytes()])
    return [int(v) for v in out]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [-1, 1, 5, 9])
def test_conditionals(target: str, n: int) -> None:
    """Nested ones, with and without results and 'else'."""
    body = """\
  %small = s_cmp_lt_i32 %n, %five
  %s = low.scf.if %small -> (reg<amdgpu.sgpr>) {
    %negative = s_cmp_lt_i32 %n, %zero
    %inner = low.scf.if %negative -> (reg<amdgpu.sgpr>) {
      %a = s_mov_b32 100
      low.scf.yield %a : reg<amdgpu.sgpr>
    } else {
      low.scf.yield %n : reg<amdgpu.sgpr>
    }
    %up = s_add_u32 %inner, %one
    low.scf.yield %up : reg<amdgpu.sgpr>
  } else {
    low.scf.yield %five : reg<amdgpu.sgpr>
  }
  %again = s_cmp_lt_i32 %n, %five
  low.scf.if %again {
    %unused = s_mov_b32 3
  }
  %r = v_add_u32 %s, %lane"""
    value = (101 if n < 0 else n + 1) if n < 5 else 5
    assert run(target, body, n) == [value + lane for lane in range(64)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [-3, 0, 1, 7])
def test_counted_loops(target: str, n: int) -> None:
    """Two carried values, a loop in a loop, and positions that are used."""
    body = """\
  %total, %count = low.scf.for [%zero to %n step %one] iter_args(%zero: reg<amdgpu.sgpr>, %five: reg<amdgpu.sgpr>) -> (reg<amdgpu.sgpr>, reg<amdgpu.sgpr>) do(%i: reg<amdgpu.sgpr>, %acc: reg<amdgpu.sgpr>, %c: reg<amdgpu.sgpr>) {
    %sum = low.scf.for [%i to %n step %one] iter_args(%acc: reg<amdgpu.sgpr>) -> (reg<amdgpu.sgpr>) do(%j: reg<amdgpu.sgpr>, %part: reg<amdgpu.sgpr>) {
      %next = s_add_u32 %part, %j
      low.scf.yield %next : reg<amdgpu.sgpr>
    }
    %up = s_add_u32 %c, %one
    low.scf.yield %sum, %up : reg<amdgpu.sgpr>, reg<amdgpu.sgpr>
  }
  %both = s_add_u32 %total, %count
  %r = v_add_u32 %both, %lane"""
    total = sum(j for i in range(n) for j in range(i, n))
    assert run(target, body, n) == [total + 5 + max(n, 0) + lane for lane in range(64)]


@pytest.mark.parametrize("target", TARGETS)
def test_while_loops(target: str) -> None:
    """The first region runs once more than the second; forwarded registers are the results."""
    body = """\
  %last, %steps = low.scf.while(%a = %n : reg<amdgpu.sgpr>, %k = %zero : reg<amdgpu.sgpr>) -> (reg<amdgpu.sgpr>, reg<amdgpu.sgpr>) {
    %more = s_cmp_lt_i32 %five, %a
    low.scf.condition %more, %a, %k : reg<amdgpu.scc>, reg<amdgpu.sgpr>, reg<amdgpu.sgpr>
  } do(%b: reg<amdgpu.sgpr>, %m: reg<amdgpu.sgpr>) {
    %half = s_lshr_b32 %b, %one
    %up = s_add_u32 %m, %one
    low.scf.yield %half, %up : reg<amdgpu.sgpr>, reg<amdgpu.sgpr>
  }
  %scaled = s_mul_i32 %steps, %five
  %both = s_add_u32 %last, %scaled
  %r = v_add_u32 %both, %lane"""
    for n in (3, 40):
        last, steps = n, 0
        while last > 5:
            last, steps = last // 2, steps + 1
        assert run(target, body, n) == [last + 5 * steps + lane for lane in range(64)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pad", [16, 8192])
def test_spills_and_reloads(target: str, pad: int) -> None:
    """Tuples of any size, parts of parts, and offsets that do not fit an instruction."""
    body = f"""\
  %front = storage {{byte_alignment = 16, byte_length = {pad}}} : low.storage<private>
  %room = storage {{byte_alignment = 16, byte_length = 64}} : low.storage<private>
  %half = storage_view %room {{offset = 16, byte_length = 48}} : low.storage<private> -> low.storage<private>
  %part = storage_view %half {{offset = 4, byte_length = 40}} : low.storage<private> -> low.storage<private>
  %a = v_add_u32 %n, %lane
  %b = v_add_u32 %one, %a
  %c = v_add_u32 %five, %a
  %all = concat(%a, %b, %c, %a, %b, %c, %lane) : (reg<amdgpu.vgpr>, reg<amdgpu.vgpr>, reg<amdgpu.vgpr>, reg<amdgpu.vgpr>, reg<amdgpu.vgpr>, reg<amdgpu.vgpr>, reg<amdgpu.vgpr>) -> reg<amdgpu.vgpr x7>
  low.spill %all, %part {{offset = 4}} : reg<amdgpu.vgpr x7>, low.storage<private>
  low.spill %lane, %front : reg<amdgpu.vgpr>, low.storage<private>
  %back = low.reload %room {{offset = 24}} : low.storage<private> -> reg<amdgpu.vgpr x7>
  %seventh = low.reload %half {{offset = 32}} : low.storage<private> -> reg<amdgpu.vgpr>
  %second = slice %back[4] : reg<amdgpu.vgpr x7> -> reg<amdgpu.vgpr>
  %third = slice %back[2] : reg<amdgpu.vgpr x7> -> reg<amdgpu.vgpr>
  %partial = v_add_u32 %second, %third
  %r = v_add_u32 %partial, %seventh"""
    assert run(target, body, 7) == [(7 + lane + 1) + (7 + lane + 5) + lane for lane in range(64)]


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("  low.scf.for [%zero to %n step %one] unroll do(%i: reg<amdgpu.sgpr>) {\n  }", "not unrolled"),
        ("  low.scf.for [%zero to %n step %one] unroll(%five) do(%i: reg<amdgpu.sgpr>) {\n  }", "not unrolled"),
        ("  low.scf.for [%lane to %lane step %lane] do(%i: reg<amdgpu.vgpr>) {\n  }", "cannot count in reg<amdgpu.vgpr>"),
        ("  %s = storage {byte_alignment = 4, byte_length = 4} : low.storage<private>\n"
         "  low.spill %n, %s : reg<amdgpu.sgpr>, low.storage<private>", "cannot be kept in memory"),
        ("  %s = storage {byte_alignment = 4, byte_length = 4} : low.storage<workgroup>\n"
         "  low.spill %lane, %s : reg<amdgpu.vgpr>, low.storage<workgroup>", "private storage"),
    ],
)  # fmt: skip
def test_what_has_no_code_is_refused(body: str, what: str) -> None:
    text = kernel("amdgpu:gfx1100", body + "\n  %r = v_add_u32 %n, %lane")
    with pytest.raises(LoomError) as caught:
        compile_text(text, "amdgpu:gfx1100")
    (found,) = caught.value.diagnostics
    assert found.code == "TARGET/054"
    assert what in found.message
    position = found.position()
    assert position is not None
    assert position[1] > 6


HELPER = """\
amdgpu.target<gfx1100> @exact

low.func.def target<amdgpu.rdna3.core>(@exact) @power(%v: reg<amdgpu.vgpr>, %n: reg<amdgpu.sgpr>) -> (reg<amdgpu.vgpr>) asm {
  %zero = s_mov_b32 0
  %one = s_mov_b32 1
  %start = v_mov_b32 1
  %r = low.scf.for [%zero to %n step %one] iter_args(%start: reg<amdgpu.vgpr>) -> (reg<amdgpu.vgpr>) do(%i: reg<amdgpu.sgpr>, %p: reg<amdgpu.vgpr>) {
    %next = v_mul_lo_u32 %p, %v
    low.scf.yield %next : reg<amdgpu.vgpr>
  }
  return %r
}

kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  %width = index.constant 32 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%y: buffer, %n: i32) {
  %origin = index.constant 0 : offset
  %lane = kernel.workitem.id<x> : index
  %out = buffer.view %y[%origin] : buffer -> view<32xi32>
  %v = index.cast %lane : index to i32
  %p = low.invoke @power(%v, %n) : (i32, i32) -> (i32)
  view.store %p, %out[%lane] : i32, view<32xi32>
  kernel.return
}
"""


def test_a_source_kernel_invokes_a_structured_helper() -> None:
    program = load(compile_text(HELPER, "amdgpu:gfx1100").primary.data)
    for n in (0, 1, 3):
        y = np.zeros(32, dtype=np.int32)
        program.launch("k", 1, 32, [y, n])
        assert y.tolist() == [lane**n for lane in range(32)]


ASSEMBLY = """\
amdgpu.target<gfx1100> @t

low.func.def target<amdgpu.rdna3.core>(@t) @sum(%n: reg<amdgpu.sgpr>, %c: reg<amdgpu.scc>) -> (reg<amdgpu.sgpr>) asm {
  %room = storage {byte_alignment = 16, byte_length = 64} : low.storage<private>
  %part = storage_view %room {offset = 16, byte_length = 8} : low.storage<private> -> low.storage<private>
  %all = storage_view %room {byte_length = 64} : low.storage<private> -> low.storage<private>
  %zero = s_mov_b32 0
  %one = s_mov_b32 1
  %v = v_mov_b32 7
  low.spill %v, %part {offset = 4} : reg<amdgpu.vgpr>, low.storage<private>
  %w = low.reload %part {offset = 4} : low.storage<private> -> reg<amdgpu.vgpr>
  low.scf.if %c {
    %x = s_mov_b32 3
  }
  %r = low.scf.if %c -> (reg<amdgpu.sgpr>) {
    low.scf.yield %one : reg<amdgpu.sgpr>
  } else {
    %x = s_mov_b32 3
    low.scf.yield %x : reg<amdgpu.sgpr>
  }
  %total = low.scf.for [%zero to %n step %one] iter_args(%r: reg<amdgpu.sgpr>) -> (reg<amdgpu.sgpr>) do(%i: reg<amdgpu.sgpr>, %acc: reg<amdgpu.sgpr>) {
    %next = s_add_u32 %acc, %i
    low.scf.yield %next : reg<amdgpu.sgpr>
  }
  low.scf.for [%zero to %n step %one] unroll do(%i: reg<amdgpu.sgpr>) {
  }
  %w2 = low.scf.while(%a = %total : reg<amdgpu.sgpr>) -> (reg<amdgpu.sgpr>) {
    %more = s_cmp_lt_i32 %a, %n
    low.scf.condition %more, %a : reg<amdgpu.scc>, reg<amdgpu.sgpr>
  } do(%b: reg<amdgpu.sgpr>) {
    %up = s_add_u32 %b, %one
    low.scf.yield %up : reg<amdgpu.sgpr>
  }
  return %w2
}
"""


@pytest.mark.seed("H01")
def test_structured_assembly_is_canonical() -> None:
    """Read, valid, and printed as it is written; the binary form keeps it."""
    module = parse_module(ASSEMBLY)
    require_valid(module)
    assert print_module(module) == ASSEMBLY
    assert print_module(read_module(write_module(module))) == ASSEMBLY


def test_one_operation_without_a_spelling_makes_the_whole_body_canonical() -> None:
    module = parse_module(ASSEMBLY)
    for op in module.walk():
        if op.name == "low.op" and op.parent_op is not None and op.parent_op.name == "low.scf.for":
            op.set_attribute("key", "amdgpu.unheard_of")
    text = print_module(module)
    assert " asm {" not in text
    assert "low.op<amdgpu.s_cmp_lt_i32>" in text
    assert print_module(parse_module(text)) == text
