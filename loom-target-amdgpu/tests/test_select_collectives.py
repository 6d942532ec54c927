"""Collectives, atomics and vectors agree with the reference evaluator."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import TARGETS, agree, assert_same, elementwise, run_both
from test_select_control import _plain

KINDS = ["addi", "muli", "minsi", "maxsi", "minui", "maxui", "andi", "ori", "xori"]


def kernel(lines: str, size: int, groups: int = 2, results: int = 1) -> str:
    """Lane values in ``%v``; stores %r0, %r1, ... per lane."""
    stores = "\n".join(
        f"  view.store %r{k}, %out[{k}, %group, %lane] : i32, view<{results}x{groups}x{size}xi32>"
        for k in range(results)
    )
    body = f"""
  %lane = kernel.workitem.id<x> : index
  %group = kernel.workgroup.id<x> : index
  %origin = index.constant 0 : offset
  %in = buffer.view %x[%origin] : buffer -> view<{groups}x{size}xi32>
  %out = buffer.view %y[%origin] : buffer -> view<{results}x{groups}x{size}xi32>
  %v = view.load %in[%group, %lane] : view<{groups}x{size}xi32> -> i32
{lines}
{stores}"""
    return _plain(body, (size, 1, 1), (groups, 1, 1), "%x: buffer, %y: buffer")


def values(size: int, groups: int = 2) -> np.ndarray:
    return np.random.default_rng(size).integers(-(2**31), 2**31, (groups, size), dtype=np.int32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [64, 256, 40, 100, 1])
def test_reductions_and_scans(size: int, target: str) -> None:
    lines = []
    results = 0
    for kind in KINDS[:3] + KINDS[5:7]:
        lines.append(f"  %r{results} = kernel.subgroup.reduce<{kind}> %v : i32")
        lines.append(f"  %r{results + 1} = kernel.workgroup.reduce<{kind}> %v : i32")
        results += 2
    for direction in ("forward", "reverse"):
        for mode in ("inclusive", "exclusive"):
            suffix = f"{{direction = {direction}, mode = {mode}}} : i32"
            lines.append(f"  %r{results} = kernel.subgroup.scan<addi> %v {suffix}")
            lines.append(f"  %r{results + 1} = kernel.workgroup.scan<maxsi> %v {suffix}")
            results += 2
    x = values(size)
    agree(kernel("\n".join(lines), size, results=results), target, [], [x, np.zeros((results, *x.shape), np.int32)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [64, 24])
def test_clusters_and_shuffles(size: int, target: str) -> None:
    lines = """
  %one = scalar.constant 1 : i32
  %three = scalar.constant 3 : i32
  %width = scalar.constant 32 : i32
  %zero = scalar.constant 0 : i32
  %r0 = kernel.subgroup.reduce<xori> %v {cluster_size = 4} : i32
  %r1 = kernel.subgroup.reduce<addi> %v {cluster_size = 4, cluster_stride = 2} : i32
  %r2 = kernel.subgroup.scan<addi> %v {cluster_size = 8, direction = forward, mode = inclusive} : i32"""
    results = 3
    for mode in ("xor", "up", "down", "index"):
        lines += f"""
  %s{mode}, %ok{mode} = kernel.subgroup.shuffle<{mode}> %v, %three, %width : i32, i32, i32
  %r{results} = scf.select %ok{mode}, %s{mode}, %zero : i32"""
        results += 1
    lines += """
  %r7 = kernel.subgroup.broadcast %v from %three : i32, i32
  %r8 = kernel.subgroup.broadcast.first %v : i32"""
    x = values(size)
    agree(kernel(lines, size, results=9), target, [], [x, np.zeros((9, *x.shape), np.int32)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [64, 50])
def test_votes_and_matches(size: int, target: str) -> None:
    lines = """
  %seven = scalar.constant 7 : i32
  %low = scalar.andi %v, %seven : i32
  %zero = scalar.constant 0 : i32
  %one = scalar.constant 1 : i32
  %p = scalar.cmpi eq, %low, %zero : i32
  %q = scalar.cmpi sge, %low, %zero : i32
  %any = kernel.subgroup.vote.any %p : i1
  %all = kernel.subgroup.vote.all %q : i1
  %wany = kernel.workgroup.vote.any %p : i1
  %wall = kernel.workgroup.vote.all %p : i1
  %r0 = scf.select %any, %one, %zero : i32
  %r1 = scf.select %all, %one, %zero : i32
  %r2 = scf.select %wany, %one, %zero : i32
  %r3 = scf.select %wall, %one, %zero : i32
  %r4 = kernel.workgroup.vote.count %p : i1 -> i32
  %b = kernel.subgroup.vote.ballot %p : i1 -> i64
  %m = kernel.subgroup.match.any %low : i32 -> i64
  %a = kernel.subgroup.active.mask : i64
  %ma, %agree = kernel.subgroup.match.all %low : i32 -> i64, i1
  %sh = scalar.constant 32 : i64
  %r5 = scalar.trunci %b : i64 to i32
  %bh = scalar.shrui %b, %sh : i64
  %r6 = scalar.trunci %bh : i64 to i32
  %r7 = scalar.trunci %m : i64 to i32
  %mh = scalar.shrui %m, %sh : i64
  %r8 = scalar.trunci %mh : i64 to i32
  %r9 = scalar.trunci %a : i64 to i32
  %r10 = scf.select %agree, %one, %zero : i32"""
    x = values(size)
    agree(kernel(lines, size, results=11), target, [], [x, np.zeros((11, *x.shape), np.int32)])


@pytest.mark.parametrize("target", TARGETS)
def test_collectives_under_a_divergent_condition(target: str) -> None:
    """Only the active lanes take part, and the others lose nothing they still need."""
    body = """
    %seven = scalar.constant 7 : i32
    %zero = scalar.constant 0 : i32
    %low = scalar.andi %x0, %seven : i32
    %n = index.cast %low : i32 to index
    %c0 = index.constant 0 : index
    %c1 = index.constant 1 : index
    %r = scf.for %k = [%c0 to %n step %c1](%acc = %x0 : i32) -> (i32) {
      %s = kernel.subgroup.reduce<addi> %acc : i32
      %t = kernel.subgroup.scan<maxsi> %low {direction = forward, mode = inclusive} : i32
      %b = kernel.subgroup.broadcast.first %acc : i32
      %u = scalar.xori %s, %t : i32
      %w = scalar.addi %u, %b : i32
      scf.yield %w : i32
    }"""
    a = np.random.default_rng(8).integers(-1000, 1000, 150, dtype=np.int32)
    agree(elementwise(body, ["i32"], "i32"), target, [a.size], [a.size, a, np.zeros_like(a)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", ["i8", "i64", "f32", "f16", "f64"])
def test_payload_types(type_: str, target: str) -> None:
    dtype = {"i8": np.int8, "i64": np.int64, "f32": np.float32, "f16": np.float16, "f64": np.float64}[type_]
    kind = "maxnumf" if type_[0] == "f" else "addi"
    name = "wall" if type_ == "i1" else "k"
    body = f"""
  %lane = kernel.workitem.id<x> : index
  %origin = index.constant 0 : offset
  %in = buffer.view %x[%origin] : buffer -> view<96x{type_}>
  %out = buffer.view %y[%origin] : buffer -> view<2x96x{type_}>
  %v = view.load %in[%lane] : view<96x{type_}> -> {type_}
  %a = kernel.workgroup.reduce<{kind}> %v : {type_}
  %b = kernel.subgroup.scan<{kind}> %v {{direction = forward, mode = inclusive}} : {type_}
  view.store %a, %out[0, %lane] : {type_}, view<2x96x{type_}>
  view.store %b, %out[1, %lane] : {type_}, view<2x96x{type_}>"""
    assert name == "k"
    x = (np.random.default_rng(3).standard_normal(96) * 50).astype(dtype)
    agree(_plain(body, (96, 1, 1), (1, 1, 1), "%x: buffer, %y: buffer"), target, [], [x, np.zeros((2, 96), dtype)])


@pytest.mark.parametrize("target", TARGETS)
def test_atomics(target: str) -> None:
    """Sums and extremes do not depend on the order; the old values are distinct."""
    body = """
  %lane = kernel.workitem.id<x> : index
  %group = kernel.workgroup.id<x> : index
  %origin = index.constant 0 : offset
  %bytes = index.constant 64 : offset
  %c0 = index.constant 0 : index
  %in = buffer.view %x[%origin] : buffer -> view<4x64xi32>
  %out = buffer.view %y[%origin] : buffer -> view<16xi32>
  %old = buffer.view %z[%origin] : buffer -> view<4x64xi32>
  %v = view.load %in[%group, %lane] : view<4x64xi32> -> i32
  %one = scalar.constant 1 : i32
  view.atomic.reduce<addi> %v, %out[0] {ordering = relaxed, scope = device} : i32, view<16xi32>
  view.atomic.reduce<maxsi> %v, %out[1] {ordering = relaxed, scope = device} : i32, view<16xi32>
  view.atomic.reduce<minui> %v, %out[2] {ordering = relaxed, scope = device} : i32, view<16xi32>
  view.atomic.reduce<xori> %v, %out[3] {ordering = acq_rel, scope = device} : i32, view<16xi32>
  view.atomic.reduce<ori> %v, %out[4] {ordering = relaxed, scope = device} : i32, view<16xi32>
  %t = view.atomic.rmw<addi> %one, %out[5] {ordering = relaxed, scope = device} : i32, view<16xi32> -> i32
  view.store %t, %old[%group, %lane] : i32, view<4x64xi32>
  %scratch = buffer.alloca<workgroup> align(16) %bytes : buffer
  %local = buffer.view %scratch[%origin] : buffer -> view<16xi32>
  %zero = scalar.constant 0 : i32
  %first = index.cmp eq, %lane, %c0 : index
  scf.if %first {
    view.store %zero, %local[0] : i32, view<16xi32>
  }
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  view.atomic.reduce<addi> %v, %local[0] {ordering = relaxed, scope = workgroup} : i32, view<16xi32>
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  scf.if %first {
    %total = view.load %local[0] : view<16xi32> -> i32
    view.atomic.reduce<addi> %total, %out[6] {ordering = relaxed, scope = device} : i32, view<16xi32>
  }"""
    text = _plain(body, (64, 1, 1), (4, 1, 1), "%x: buffer, %y: buffer, %z: buffer")
    x = np.random.default_rng(1).integers(-1000, 1000, (4, 64), dtype=np.int32)
    start = np.zeros(16, np.int32)
    start[2] = -1
    machine, expected = run_both(text, target, [], [x, start, np.zeros((4, 64), np.int32)])
    assert_same(machine[1:2], expected[1:2])
    assert sorted(machine[2].ravel()) == list(range(256))


VECTOR_BODIES = {
    "load_store": ("vector.addi %a, %a : vector<8x{t}>", "i32"),
    "bytes": ("vector.addi %a, %a : vector<8x{t}>", "i8"),
    "halves": ("vector.mulf %a, %a : vector<8x{t}>", "f16"),
    "doubles": ("vector.addf %a, %a : vector<8x{t}>", "f64"),
    "shuffled": ("vector.shuffle<[7, 0, 3, 3, 1, 2, 6, 5]> %a : vector<8x{t}>", "i32"),
    "bfloat": ("vector.addf %a, %a : vector<8x{t}>", "bf16"),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", VECTOR_BODIES)
@pytest.mark.parametrize("space", ["global", "workgroup"])
def test_vector_accesses(space: str, name: str, target: str) -> None:
    line, type_ = VECTOR_BODIES[name]
    dtype = {"i32": np.int32, "i8": np.int8, "f16": np.float16, "f64": np.float64, "bf16": np.uint16}[type_]
    through = (
        f"""
  %tile = buffer.alloca<workgroup> align(4) %bytes : buffer
  %tv = buffer.view %tile[%origin] : buffer -> view<40x9x{type_}>
  vector.store %b, %tv[%lane, 1] : vector<8x{type_}>, view<40x9x{type_}>
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  %c = vector.load %tv[%lane, 1] : view<40x9x{type_}> -> vector<8x{type_}>"""
        if space == "workgroup"
        else ""
    )
    stored = "%c" if through else "%b"
    body = f"""
  %lane = kernel.workitem.id<x> : index
  %origin = index.constant 0 : offset
  %bytes = index.constant {40 * 9 * np.dtype(dtype).itemsize} : offset
  %in = buffer.view %x[%origin] : buffer -> view<40x11x{type_}>
  %out = buffer.view %y[%origin] : buffer -> view<40x11x{type_}>
  %a = vector.load %in[%lane, 2] : view<40x11x{type_}> -> vector<8x{type_}>
  %b = {line.format(t=type_)}{through}
  vector.store {stored}, %out[%lane, 3] : vector<8x{type_}>, view<40x11x{type_}>"""
    x = np.random.default_rng(6).integers(0, 100, (40, 11)).astype(dtype)
    agree(_plain(body, (40, 1, 1), (1, 1, 1), "%x: buffer, %y: buffer"), target, [], [x, np.zeros_like(x)])
