"""Transfers, split barriers, clusters, assertions, early exits and raw bytes on every processor family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import TARGETS, agree, compile_text, run_both

from loom.ir.diagnostics import LoomError
from loom_sim.amdgpu import SimulationFault

RNG = np.random.default_rng(41)
GROUP = """  %grp = kernel.async.group %t : kernel.async.token -> kernel.async.group
  kernel.async.wait %grp {newer_groups = 0} : kernel.async.group
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
"""


def kernel(body: str, size: int = 64, groups: int = 2) -> str:
    return f"""kernel.def export("k") @k() {{
  %unit = index.constant 1 : index
  %width = index.constant {size} : index
  %groups = index.constant {groups} : index
  kernel.launch.config workgroups(%groups, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
}} launch(%in: buffer, %out: buffer) {{
  %lane = kernel.workitem.id<x> : index
  %group = kernel.workgroup.id<x> : index
  %at0 = index.constant 0 : offset
{body}
  kernel.return
}}
"""


COPY = f"""  %bytes = index.constant 1024 : offset
  %shared = buffer.alloca<workgroup> align(16) %bytes : buffer
  %g = buffer.assume.memory_space<global> %in : buffer
  %src = buffer.view %g[%at0] : buffer -> view<2x64x8xi16>
  %tile = buffer.view %shared[%at0] : buffer -> view<64x4xi32>
  %mine = view.subview %src[%group, %lane, 0] : view<2x64x8xi16> -> view<1x1x8xi16>
  %slot = view.subview %tile[%lane, 0] : view<64x4xi32> -> view<1x4xi32>
  %t = kernel.async.copy %mine to %slot {{cache_scope = device, cache_temporal = regular, direction = global_to_workgroup}}
    : view<1x1x8xi16> to view<1x4xi32> -> kernel.async.token
{GROUP}  %turn = index.constant 63 : index
  %other = index.xori %lane, %turn : index
  %o = buffer.view %out[%at0] : buffer -> view<2x64x4xi32>
  %v = vector.load %tile[%other, 0] : view<64x4xi32> -> vector<4xi32>
  vector.store %v, %o[%group, %lane, 0] : vector<4xi32>, view<2x64x4xi32>"""


@pytest.mark.parametrize("target", TARGETS)
def test_copies_to_workgroup_memory(target: str) -> None:
    """Bytes arrive whatever the element types are; other work-items see them behind the barrier."""
    data = RNG.integers(-30000, 30000, (2, 64, 8)).astype("i2")
    machine, expected = run_both(kernel(COPY), target, [], [data, np.zeros((2, 64, 4), "i4")])
    assert np.array_equal(expected[1].reshape(2, 64, 4), data[:, ::-1].copy().view("i4"))
    assert np.array_equal(machine[1], expected[1])


MASKED = f"""  %bytes = index.constant 1024 : offset
  %shared = buffer.alloca<workgroup> align(16) %bytes : buffer
  %go = buffer.assume.memory_space<global> %out : buffer
  %i = buffer.view %in[%at0] : buffer -> view<2x64xf32>
  %o = buffer.view %go[%at0] : buffer -> view<2x64xf32>
  %tile = buffer.view %shared[%at0] : buffer -> view<64xf32>
  %v = view.load %i[%group, %lane] : view<2x64xf32> -> f32
  view.store %v, %tile[%lane] : f32, view<64xf32>
  %zero = scalar.constant 0.0 : f32
  %wanted = scalar.cmpf ogt, %v, %zero : f32
  %mine = view.subview %tile[%lane] : view<64xf32> -> view<1xf32>
  %there = view.subview %o[%group, %lane] : view<2x64xf32> -> view<1x1xf32>
  %t = kernel.async.copy.mask %mine to %there, %wanted
    {{cache_scope = device, cache_temporal = regular, direction = workgroup_to_global}}
    : view<1xf32> to view<1x1xf32>, i1 -> kernel.async.token
{GROUP}"""


@pytest.mark.parametrize("target", TARGETS)
def test_masked_copies_back(target: str) -> None:
    data = RNG.standard_normal((2, 64)).astype("f4")
    agree(kernel(MASKED), target, [], [data, np.full((2, 64), 7, "f4")])


def gather(wave: int) -> str:
    return f"""  %bytes = index.constant {16 * wave} : offset
  %shared = buffer.alloca<workgroup> align(16) %bytes : buffer
  %g = buffer.assume.memory_space<global> %in : buffer
  %src = buffer.view %g[%at0] : buffer -> view<{wave}x3xi32>
  %slots = buffer.view %shared[%at0] : buffer -> view<{wave}x1x4xi32>
  %turn = index.constant 5 : index
  %from = index.xori %lane, %turn : index
  %mine = view.subview %src[%from, 0] : view<{wave}x3xi32> -> view<1x3xi32>
  %t = kernel.async.gather %mine to %slots {{cache_scope = device, cache_temporal = regular}}
    : view<1x3xi32> to view<{wave}x1x4xi32> -> kernel.async.token
{GROUP}  %o = buffer.view %out[%at0] : buffer -> view<{wave}x3xi32>
  %v = vector.load %slots[%lane, 0, 0] : view<{wave}x1x4xi32> -> vector<3xi32>
  vector.store %v, %o[%lane, 0] : vector<3xi32>, view<{wave}x3xi32>"""


@pytest.mark.parametrize("target", TARGETS)
def test_gathers_fill_the_slot_of_each_lane(target: str) -> None:
    wave = 64 if "gfx9" in target else 32
    data = RNG.integers(-99, 99, (wave, 3)).astype("i4")
    machine, expected = run_both(kernel(gather(wave), wave, 1), target, [], [data, np.zeros((wave, 3), "i4")])
    assert np.array_equal(expected[1], data[np.arange(wave) ^ 5])
    assert np.array_equal(machine[1], expected[1])


SPLIT = """  %bytes = index.constant 256 : offset
  %shared = buffer.alloca<workgroup> align(4) %bytes : buffer
  %v = buffer.view %shared[%at0] : buffer -> view<64xi32>
  %i = buffer.view %in[%at0] : buffer -> view<2x64xi32>
  %o = buffer.view %out[%at0] : buffer -> view<2x64xi32>
  %x = view.load %i[%group, %lane] : view<2x64xi32> -> i32
  view.store %x, %v[%lane] : i32, view<64xi32>
  %p = kernel.barrier.arrive<workgroup> scope(workgroup) ordering(acq_rel) -> kernel.barrier.phase
  %twice = scalar.addi %x, %x : i32
  kernel.barrier.wait %p : kernel.barrier.phase
  %turn = index.constant 63 : index
  %other = index.xori %lane, %turn : index
  %y = view.load %v[%other] : view<64xi32> -> i32
  %z = scalar.subi %y, %twice : i32
  view.store %z, %o[%group, %lane] : i32, view<2x64xi32>"""


@pytest.mark.seed("J03")
@pytest.mark.parametrize("target", TARGETS)
def test_split_barriers(target: str) -> None:
    data = RNG.integers(-99, 99, (2, 64)).astype("i4")
    machine, expected = run_both(kernel(SPLIT), target, [], [data, np.zeros((2, 64), "i4")])
    assert np.array_equal(expected[1], data[:, ::-1] - 2 * data)
    assert np.array_equal(machine[1], expected[1])
    low = compile_text(kernel(SPLIT), target).low_text
    if "gfx12" in target:
        # The work between the halves stays between them.
        assert low.index("s_barrier_signal_all") < low.index("v_add_u32") < low.index("s_barrier_wait_all")
    else:
        assert low.count("s_barrier\n") == 1


CLUSTERS = """  %o = buffer.view %out[%at0] : buffer -> view<2x64x4xi32>
  %a = kernel.cluster.id<x> : index
  %b = kernel.cluster.workgroup.id<x> : index
  %c = kernel.cluster.size<y> : index
  %d = kernel.cluster.count<x> : index
  %e = kernel.cluster.workgroup.flat_id : index
  %f = index.add %b, %e : index
  %a32 = index.cast %a : index to i32
  %f32 = index.cast %f : index to i32
  %c32 = index.cast %c : index to i32
  %d32 = index.cast %d : index to i32
  %r = vector.from_elements %a32, %f32, %c32, %d32 : vector<4xi32>
  vector.store %r, %o[%group, %lane, 0] : vector<4xi32>, view<2x64x4xi32>"""


@pytest.mark.parametrize("target", TARGETS)
def test_every_workgroup_is_a_cluster(target: str) -> None:
    machine, expected = run_both(kernel(CLUSTERS), target, [], [np.zeros(1, "i4"), np.zeros((2, 64, 4), "i4")])
    assert np.array_equal(expected[1][1, 0], [1, 0, 1, 2])
    assert np.array_equal(machine[1], expected[1])


EXIT = """  %i = buffer.view %in[%at0] : buffer -> view<2x64xi32>
  %o = buffer.view %out[%at0] : buffer -> view<2x64xi32>
  %x = view.load %i[%group, %lane] : view<2x64xi32> -> i32
  %zero = scalar.constant 0 : i32
  %done = scalar.cmpi slt, %x, %zero : i32
  kernel.exit %done : i1 {
    view.store %zero, %o[%group, %lane] : i32, view<2x64xi32>
  }
  %y = scalar.addi %x, %x : i32
  view.store %y, %o[%group, %lane] : i32, view<2x64xi32>"""


@pytest.mark.parametrize("target", TARGETS)
def test_exits(target: str) -> None:
    data = RNG.integers(-99, 99, (2, 64)).astype("i4")
    agree(kernel(EXIT), target, [], [data, np.full((2, 64), 5, "i4")])


ASSERT = """  %i = buffer.view %in[%at0] : buffer -> view<2x64xi32>
  %x = view.load %i[%group, %lane] : view<2x64xi32> -> i32
  %limit = scalar.constant 10 : i32
  %good = scalar.cmpi slt, %x, %limit : i32
  kernel.assert %good "small" : i1
  %o = buffer.view %out[%at0] : buffer -> view<2x64xi32>
  view.store %x, %o[%group, %lane] : i32, view<2x64xi32>"""


@pytest.mark.parametrize("target", TARGETS)
def test_assertions_trap(target: str) -> None:
    data = RNG.integers(-99, 10, (2, 64)).astype("i4")
    agree(kernel(ASSERT), target, [], [data, np.zeros((2, 64), "i4")])
    data[1, 17] = 10
    with pytest.raises(SimulationFault, match="trap 2"):
        run_both(kernel(ASSERT), target, [], [data, np.zeros((2, 64), "i4")])


BYTES = """  %c64 = index.constant 64 : index
  %flat = index.madd %group, %c64, %lane : index
  %at = index.cast %flat : index to offset
  %b = buffer.load.i8.u %in[%at]
  %c3 = scalar.constant 259 : i32
  %sum = scalar.addi %b, %c3 : i32
  buffer.store.i8 %sum, %out[%at]"""


@pytest.mark.parametrize("target", TARGETS)
def test_raw_bytes(target: str) -> None:
    data = RNG.integers(0, 256, 128).astype("u1")
    machine, expected = run_both(kernel(BYTES), target, [], [data, np.zeros(128, "u1")])
    assert np.array_equal(expected[1], data + np.uint8(3))
    assert np.array_equal(machine[1], expected[1])


def test_what_is_too_large_to_pass_through_registers_is_refused() -> None:
    body = """  %bytes = index.constant 4096 : offset
  %shared = buffer.alloca<workgroup> align(16) %bytes : buffer
  %g = buffer.assume.memory_space<global> %in : buffer
  %src = buffer.view %g[%at0] : buffer -> view<1024xi32>
  %tile = buffer.view %shared[%at0] : buffer -> view<1024xi32>
  %t = kernel.async.copy %src to %tile {cache_scope = device, cache_temporal = regular, direction = global_to_workgroup}
    : view<1024xi32> to view<1024xi32> -> kernel.async.token
""" + GROUP
    with pytest.raises(LoomError) as caught:
        compile_text(kernel(body), TARGETS[0])
    diagnostic: Any = caught.value.diagnostics[0]
    assert diagnostic.code == "TARGET/001"
    assert "1024 bytes" in diagnostic.message
    assert diagnostic.location is not None


TAIL = """kernel.def export("k") @k(%rows: index) {
  %unit = index.constant 1 : index
  %width = index.constant 64 : index
  %row_bytes = index.constant 256 : index
  %sum = index.mul %rows, %row_bytes : index
  %bytes = index.cast %sum : index to offset
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) dynamic_workgroup_storage(%bytes) : index
} launch(%row_count: index, %in: buffer, %out: buffer) {
  %rows = index.assume %row_count [range(%row_count, 1, 64)] : index
  %lane = kernel.workitem.id<x> : index
  %at0 = index.constant 0 : offset
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %turn = index.constant 63 : index
  %row_bytes = index.constant 256 : index
  %sum = index.mul %rows, %row_bytes : index
  %bytes = index.cast %sum : index to offset
  %before = index.constant 260 : offset
  %head = buffer.alloca<workgroup> align(4) %before : buffer
  %hv = buffer.view %head[%at0] : buffer -> view<65xi32>
  %tail = kernel.workgroup.storage align(16) %bytes : buffer
  %wide = kernel.workgroup.storage align(64) %bytes : buffer
  %tv = buffer.view %tail[%at0] : buffer -> view<[%rows]x64xi32>
  %wv = buffer.view %wide[%at0] : buffer -> view<[%rows]x64xi32>
  %iv = buffer.view %in[%at0] : buffer -> view<[%rows]x64xi32>
  %ov = buffer.view %out[%at0] : buffer -> view<[%rows]x64xi32>
  %lane32 = index.cast %lane : index to i32
  view.store %lane32, %hv[%lane] : i32, view<65xi32>
  scf.for %r = [%zero to %rows step %one] {
    %x = view.load %iv[%r, %lane] : view<[%rows]x64xi32> -> i32
    view.store %x, %tv[%r, %lane] : i32, view<[%rows]x64xi32>
  }
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  %other = index.xori %lane, %turn : index
  %h = view.load %hv[%other] : view<65xi32> -> i32
  scf.for %r = [%zero to %rows step %one] {
    %x = view.load %wv[%r, %other] : view<[%rows]x64xi32> -> i32
    %y = scalar.addi %x, %h : i32
    view.store %y, %ov[%r, %lane] : i32, view<[%rows]x64xi32>
  }
  kernel.return
}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_storage_that_the_launch_adds(rows: int, target: str) -> None:
    """It lies behind what the kernel reserves, however much the launch asks for."""
    data = RNG.integers(-999, 999, (rows, 64)).astype("i4")
    machine, expected = run_both(TAIL, target, [rows], [rows, data, np.zeros_like(data)])
    assert np.array_equal(expected[2], data[:, ::-1] + np.arange(63, -1, -1))
    assert np.array_equal(machine[2], expected[2])


RANGES = """kernel.def export("k") @k(%n: index) {
  %unit = index.constant 1 : index
  %width = index.constant 32 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%count: index, %pattern: TYPE, %in: buffer, %out: buffer, %orders: buffer) {
  %lane = kernel.workitem.id<x> : index
  %at0 = index.constant 0 : offset
  %row = index.constant 16 : index
  %start = index.mul %lane, %row : index
  %from = index.cast %start : index to offset
  %length = index.cast %count : index to offset
  %three = index.constant 3 : index
  %short = index.rem %lane, %three : index
  %rest = index.sub %count, %short : index
  %less = index.cast %rest : index to offset
  buffer.copy %in[%from], %out[%from], %less
  %c512 = index.constant 512 : offset
  %behind = index.add %from, %c512 : offset
  buffer.fill %pattern, %out[%behind], %length : TYPE
  %o = buffer.compare %in[%from], %out[%behind], %length
  %ov = buffer.view %orders[%at0] : buffer -> view<32xi32>
  view.store %o, %ov[%lane] : i32, view<32xi32>
  kernel.return
}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("type_", "pattern"), [("i8", -7), ("i16", 0x1234), ("f32", 0.7), ("i64", 0x0102030405060708)])
@pytest.mark.parametrize("count", [2, 13])
def test_ranges_of_bytes(count: int, type_: str, pattern: Any, target: str) -> None:
    """Copied, filled and compared, with a last partial repetition of the pattern; no byte more."""
    value = np.array(pattern, {"i8": "i1", "i16": "i2", "f32": "f4", "i64": "i8"}[type_])
    repeated = np.resize(np.frombuffer(value.tobytes(), "u1"), count)
    data = RNG.integers(0, 256, (32, 16)).astype("u1")
    data[::4, :count] = repeated
    data[1::4, : count - 1] = repeated[:-1]
    scalar = pattern if type_[0] == "i" else value[()]
    arguments = [count, scalar, data, np.full(1024, 9, "u1"), np.zeros(32, "i4")]
    machine, expected = run_both(RANGES.replace("TYPE", type_), target, [count], arguments)
    assert np.array_equal(expected[3][512:].reshape(32, 16)[:, :count], np.tile(repeated, (32, 1)))
    assert 0 in expected[4]
    assert expected[4].any()
    assert np.array_equal(machine[3], expected[3])
    assert np.array_equal(machine[4], expected[4])
