"""Authored Low: kernels in ``asm``, helpers that kernels invoke, and what the rules of their interface refuse."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import compile_text

from loom.ir.diagnostics import LoomError
from loom_sim.amdgpu import load

KERNEL = """low.kernel.def target<amdgpu.gfx11.generic.core> workgroup_size(32, 1, 1) @scale(%factor: reg<amdgpu.sgpr>) asm {
  %lane = live_in<amdgpu.workitem_id.x> : reg<amdgpu.vgpr>
  %x = resource<hal_binding> {index = 0, source_type = hal.buffer} : reg<amdgpu.sgpr x2>
  %y = resource<hal_binding> {index = 1, source_type = hal.buffer} : reg<amdgpu.sgpr x2>
  %at = v_lshlrev_b32_src0_inline %lane, 2
  %v = global_load_b32_saddr %at, %x
  %w = v_mul_f32 %factor, %v
  global_store_b32_saddr %at, %w, %y
  return
}
"""


def test_an_authored_kernel_runs() -> None:
    """Without ``abi_layout``: bindings first, then arguments, four bytes per register."""
    program = load(compile_text(KERNEL, "amdgpu:gfx1100").primary.data)
    x = np.arange(32, dtype=np.float32)
    y = np.zeros(32, np.float32)
    program.launch("scale", 1, 32, [x, y, np.float32(2.5).tobytes()])
    np.testing.assert_array_equal(y, x * np.float32(2.5))


HELPERS = """amdgpu.target<gfx11-generic> @gfx11

low.func.def schedule(locked) target<amdgpu.gfx11.generic.core>(@gfx11) @locked(%at: reg<amdgpu.vgpr>, %base: reg<amdgpu.sgpr x2>, %k: reg<amdgpu.vgpr>) -> (reg<amdgpu.vgpr>) asm {
  %now = global_load_b32_saddr %at, %base
  %scaled = v_mul_f32 %now, %k
  %later = global_load_b32_saddr %at, %base {offset = 4}
  %sum = v_add_f32 %scaled, %later
  return %sum
}

low.func.def schedule(phased) target<amdgpu.gfx11.generic.core>(@gfx11) @phased(%at: reg<amdgpu.vgpr>, %base: reg<amdgpu.sgpr x2>, %k: reg<amdgpu.vgpr>) -> (reg<amdgpu.vgpr>) asm {
  %first = global_load_b32_saddr %at, %base
  low.schedule.phase
  %scaled = v_mul_f32 %first, %k
  low.schedule.phase
  %second = global_load_b32_saddr %at, %base {offset = 4}
  %sum = v_add_f32 %scaled, %second
  return %sum
}

low.func.def target<amdgpu.gfx11.generic.core>(@gfx11) @branchy(%v: reg<amdgpu.vgpr>, %n: reg<amdgpu.sgpr>) -> (reg<amdgpu.vgpr>) asm {
  %scc = s_cmp_gt_i32_rhs_inline %n, 0
  low.cond_br %scc, ^more, ^less : reg<amdgpu.scc>
^more:
  %d = v_add_f32 %v, %v
  return %d
^less:
  %q = v_mul_f32 %v, %v
  return %q
}

low.func.def target<amdgpu.gfx11.generic.core>(@gfx11) @small(%v: reg<amdgpu.vgpr>, %n: reg<amdgpu.sgpr>) -> (reg<amdgpu.vgpr>) where [range(%n, 0, 15)] asm {
  %d = v_add_u32 %n, %v
  return %d
}

kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  %width = index.constant 32 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%x: buffer, %y: buffer, %n: i32) {
  %origin = index.constant 0 : offset
  %lane = kernel.workitem.id<x> : index
  %c4 = index.constant 4 : index
  %bytes = index.mul %lane, %c4 : index
  %in = buffer.view %x[%origin] : buffer -> view<33xf32>
  %out = buffer.view %y[%origin] : buffer -> view<2x32xf32>
  %k = view.load %in[%lane] : view<33xf32> -> f32
  %at = index.cast %bytes : index to i32
  %a = low.invoke @HELPER(%at, %x, %k) : (i32, buffer, f32) -> (f32)
  %b = low.invoke @branchy(%a, %n) : (f32, i32) -> (f32)
  view.store %a, %out[0, %lane] : f32, view<2x32xf32>
  view.store %b, %out[1, %lane] : f32, view<2x32xf32>
  kernel.return
}
"""


@pytest.mark.parametrize("target", ["amdgpu:gfx1100", "amdgpu:gfx11-generic", "amdgpu:gfx1151"])
@pytest.mark.parametrize("helper", ["locked", "phased"])
@pytest.mark.parametrize("n", [-1, 1])
def test_helpers_are_inlined_into_every_accepting_target(helper: str, n: int, target: str) -> None:
    result = compile_text(HELPERS.replace("@HELPER", f"@{helper}"), target)
    program = load(result.primary.data)
    x = np.arange(33, dtype=np.float32)
    y = np.zeros((2, 32), np.float32)
    program.launch("k", 1, 32, [x, y, n])
    first = x[:32] * x[:32] + x[1:]
    np.testing.assert_array_equal(y[0], first)
    np.testing.assert_array_equal(y[1], first + first if n > 0 else first * first)
    assert result.report["entries"][0]["schedule"]["scope_count"] == (1 if helper == "phased" else 0)


CARRY = """amdgpu.target<gfx11-generic> @gfx11

low.func.def target<amdgpu.gfx11.generic.core>(@gfx11) @carry(%a: reg<amdgpu.sgpr>, %b: reg<amdgpu.sgpr>, %z: reg<amdgpu.sgpr>) -> (reg<amdgpu.sgpr>) asm {
  %sum = s_add_u32 %a, %b
  %c = s_addc_u32 %z, %z
  return %c
}

kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%unit, %unit, %unit) : index
} launch(%y: buffer, %a: i32, %b: i32, %z: i32) {
  %origin = index.constant 0 : offset
  %at = index.constant 0 : index
  %out = buffer.view %y[%origin] : buffer -> view<1xi32>
  %c = low.invoke @carry(%a, %b, %z) : (i32, i32, i32) -> (i32)
  view.store %c, %out[%at] : i32, view<1xi32>
  kernel.return
}
"""


@pytest.mark.parametrize(("a", "b"), [(-1, 1), (1, 1), (-1, -1), (2**31 - 1, 1)])
def test_a_sum_is_kept_for_its_carry(a: int, b: int) -> None:
    """Nobody uses the sum, but the flag it leaves is read."""
    program = load(compile_text(CARRY, "amdgpu:gfx1100").primary.data)
    y = np.full(1, 7, np.int32)
    program.launch("k", 1, 1, [y, a, b, 0])
    assert y[0] == (a % 2**32 + b % 2**32) >> 32


def test_a_locked_sequence_keeps_its_order() -> None:
    from loom import api
    from loom.plugins.manager import find_target
    from loom.plugins.records import EmitRequest
    from loom_target_amdgpu.emitter import _lower
    from loom_target_amdgpu.hsaco import compile_kernel

    target = find_target("amdgpu:gfx1100")
    text = HELPERS.replace("@HELPER", "@locked")
    module = api.specialize(api.load_bytes(text.encode(), "m"), target).module
    roots = tuple(op for op in module.ops if op.name == "kernel.def")
    _, kernels, processor, descriptor_set = _lower(EmitRequest(module, roots, target))
    made = compile_kernel(
        kernels[0].op, processor, descriptor_set, memory=kernels[0].memory, locks=kernels[0].locks, check=True
    )
    names = [
        code.row.mnemonic for block in made.blocks for code in block.code if not code.row.mnemonic.startswith("s_wait")
    ]
    at = next(i for i, name in enumerate(names) if name == "v_mul_f32")
    assert names[at - 1 : at + 3] == ["global_load_b32", "v_mul_f32", "global_load_b32", "v_add_f32"]


def refused(text: str, target: str = "amdgpu:gfx1100") -> str:
    with pytest.raises(LoomError) as caught:
        compile_text(text, target)
    assert caught.value.diagnostics[0].position() is not None
    return caught.value.diagnostics[0].code


def test_unproven_preconditions_are_refused() -> None:
    text = HELPERS.replace("@HELPER", "@locked").replace("@branchy(%a, %n) : (f32, i32)", "@small(%a, %n) : (f32, i32)")
    assert refused(text) == "LOWERING/044"
    proven = text.replace("%b = low", "%m = scalar.assume %n [range(%n, 1, 3)] : i32\n  %b = low").replace(
        "@small(%a, %n)", "@small(%a, %m)"
    )
    compile_text(proven, "amdgpu:gfx1100")


def test_helpers_of_another_contract_are_refused() -> None:
    assert refused(HELPERS.replace("@HELPER", "@locked"), "amdgpu:gfx1200") in ("TARGET/040", "TARGET/045")
    exact = (
        HELPERS.replace("@HELPER", "@locked")
        .replace("amdgpu.gfx11.generic.core", "amdgpu.rdna3.core")
        .replace("gfx11-generic", "gfx1100")
    )
    assert refused(exact, "amdgpu:gfx11-generic") == "TARGET/040"


def test_helpers_take_their_inputs_as_arguments_only() -> None:
    text = HELPERS.replace("@HELPER", "@locked").replace(
        "  %now = global_load", "  %id = live_in<amdgpu.workgroup_id.x> : reg<amdgpu.sgpr>\n  %now = global_load", 1
    )
    assert refused(text) == "TARGET/022"


def test_bindings_must_be_dense() -> None:
    assert refused(KERNEL.replace("index = 1", "index = 2")) == "AMDGPU/010"
    assert refused(KERNEL.replace("index = 1", "index = 0")) == "AMDGPU/011"
