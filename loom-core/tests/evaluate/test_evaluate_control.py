"""Exits, assertions, launch storage, clusters, split barriers and asynchronous transfers in kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

Programs = Any


def test_exits_end_the_kernel_for_some(programs: Programs) -> None:
    body = """
  %v = buffer.view %o[%at0] : buffer -> view<32xi32>
  %five = index.constant 5 : index
  %nine = index.constant 9 : index
  %one = scalar.constant 1 : i32
  %two = scalar.constant 2 : i32
  %three = scalar.constant 3 : i32
  %a = index.cmp ult, %lane, %five : index
  kernel.exit %a : i1 {
    view.store %one, %v[%lane] : i32, view<32xi32>
  }
  view.store %two, %v[%lane] : i32, view<32xi32>
  %b = index.cmp ult, %lane, %nine : index
  kernel.exit %b : i1
  view.store %three, %v[%lane] : i32, view<32xi32>"""
    out = np.zeros(32, dtype=np.int32)
    programs.launch(programs.kernel(body, "%o: buffer"), [], [out])
    assert list(out) == [1] * 5 + [2] * 4 + [3] * 23


def test_nothing_runs_once_all_have_left(programs: Programs) -> None:
    body = """
  %v = buffer.view %o[%at0] : buffer -> view<32xi32>
  %all = index.cmp eq, %lane, %lane : index
  kernel.exit %all : i1
  %zero = scalar.constant 0 : i32
  %bad = scalar.divsi %zero, %zero : i32
  view.store %bad, %v[%lane] : i32, view<32xi32>"""
    out = np.full(32, 7, dtype=np.int32)
    programs.launch(programs.kernel(body, "%o: buffer"), [], [out])
    assert (out == 7).all()


def test_exits_on_a_graph_of_blocks(programs: Programs) -> None:
    body = """
  %v = buffer.view %o[%at0] : buffer -> view<32xi32>
  %five = index.constant 5 : index
  %nine = index.constant 9 : index
  %one = scalar.constant 1 : i32
  %two = scalar.constant 2 : i32
  %a = index.cmp ult, %lane, %five : index
  kernel.exit %a : i1
  %b = index.cmp ult, %lane, %nine : index
  cfg.cond_br %b, ^low, ^high
^low:
  kernel.exit %b : i1 {
    view.store %one, %v[%lane] : i32, view<32xi32>
  }
  cfg.br ^end
^high:
  view.store %two, %v[%lane] : i32, view<32xi32>
  cfg.br ^end
^end:
  %old = view.load %v[%lane] : view<32xi32> -> i32
  %sum = scalar.addi %old, %two : i32
  view.store %sum, %v[%lane] : i32, view<32xi32>"""
    out = np.zeros(32, dtype=np.int32)
    programs.launch(programs.kernel(body, "%o: buffer"), [], [out])
    assert list(out) == [0] * 5 + [1] * 4 + [4] * 23


def test_assertions(programs: Programs) -> None:
    body = """
  %limit = index.constant {limit} : index
  %ok = index.cmp ult, %lane, %limit : index
  kernel.assert %ok "lanes are few" : i1"""
    nothing = [np.zeros(1, dtype=np.int32)]
    programs.launch(programs.kernel(body.format(limit=32), "%o: buffer"), [], nothing)
    text = programs.kernel(body.format(limit=30), "%o: buffer")
    fault = programs.fault(lambda: programs.launch(text, [], nothing))
    assert fault.code == "EVALUATE/006"
    assert "lanes are few" in fault.message
    assert fault.params["workitem"].startswith("work-item (30, 0, 0)")


def configured(tail: str, body: str, bytes_: int = 64) -> str:
    return f"""
kernel.def @k(%x: index, %y: index) {{
  %unit = index.constant 1 : index
  %two = index.constant 2 : index
  %three = index.constant 3 : index
  %four = index.constant 4 : index
  %bytes = index.constant {bytes_} : offset
  kernel.launch.config workgroups(%x, %y, %unit) workgroup_size(%four, %unit, %unit){tail} : index
}} launch(%out: buffer) {{
  %at0 = index.constant 0 : offset
  %x = kernel.workgroup.id<x> : index
  %y = kernel.workgroup.id<y> : index
  %lane = kernel.workitem.id<x> : index
{body}
  kernel.return
}}
"""


CLUSTERS = """
  %v = buffer.view %out[%at0] : buffer -> view<6x4x6xindex>
  %cx = kernel.cluster.id<x> : index
  %wy = kernel.cluster.workgroup.id<y> : index
  %flat = kernel.cluster.workgroup.flat_id : index
  %sx = kernel.cluster.size<x> : index
  %ny = kernel.cluster.count<y> : index
  %c0 = index.constant 0 : index
  %first = index.cmp eq, %lane, %c0 : index
  scf.if %first {
    view.store %cx, %v[%y, %x, 0] : index, view<6x4x6xindex>
    view.store %wy, %v[%y, %x, 1] : index, view<6x4x6xindex>
    view.store %flat, %v[%y, %x, 2] : index, view<6x4x6xindex>
    view.store %sx, %v[%y, %x, 3] : index, view<6x4x6xindex>
    view.store %ny, %v[%y, %x, 4] : index, view<6x4x6xindex>
  }"""


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.seed("K02")
def test_clusters(programs: Programs, clustered: bool) -> None:
    tail = " cluster_size(%two, %three, %unit)" if clustered else ""
    out = np.zeros((6, 4, 6), dtype=np.int64)
    geometry = programs.launch(configured(tail, CLUSTERS), [4, 6], [out])
    sx, sy = (2, 3) if clustered else (1, 1)
    assert geometry.cluster_size == (sx, sy, 1)
    y, x = np.indices((6, 4))
    assert np.array_equal(out[..., 0], x // sx)
    assert np.array_equal(out[..., 1], y % sy)
    assert np.array_equal(out[..., 2], x % sx + sx * (y % sy))
    assert (out[..., 3] == sx).all()
    assert (out[..., 4] == 6 // sy).all()


def test_workgroups_divide_into_clusters(programs: Programs) -> None:
    text = configured(" cluster_size(%two, %three, %unit)", CLUSTERS)
    fault = programs.fault(lambda: programs.launch(text, [4, 5], [np.zeros((6, 4, 6), dtype=np.int64)]))
    assert fault.code == "EVALUATE/009"
    assert "along y" in fault.message


STORAGE = """
  %bytes = index.constant 16 : offset
  %s = kernel.workgroup.storage align(16) %bytes : buffer
  %again = kernel.workgroup.storage align(4) %bytes : buffer
  %w = buffer.view %s[%at0] : buffer -> view<4xi32>
  %r = buffer.view %again[%at0] : buffer -> view<4xi32>
  %o = buffer.view %out[%at0] : buffer -> view<3x4xi32>
  %c4 = index.constant 4 : index
  %number = index.madd %x, %c4, %lane : index
  %i = index.cast %number : index to i32
  view.store %i, %w[%lane] : i32, view<4xi32>
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  %c3 = index.constant 3 : index
  %other = index.sub %c3, %lane : index
  %got = view.load %r[%other] : view<4xi32> -> i32
  view.store %got, %o[%x, %lane] : i32, view<3x4xi32>"""


def test_storage_that_the_launch_asks_for(programs: Programs) -> None:
    out = np.zeros((3, 4), dtype=np.int32)
    geometry = programs.launch(configured(" dynamic_workgroup_storage(%bytes)", STORAGE), [3, 1], [out])
    assert geometry.dynamic_storage == 64
    assert np.array_equal(out, np.arange(12).reshape(3, 4)[:, ::-1])
    for text in (configured(" dynamic_workgroup_storage(%bytes)", STORAGE, 15), configured("", STORAGE)):
        fault = programs.fault(lambda source=text: programs.launch(source, [3, 1], [out]))
        assert fault.code == "EVALUATE/002"


@pytest.mark.seed("J03")
def test_split_barriers_order_like_whole_ones(programs: Programs) -> None:
    body = """
  %bytes = index.constant 128 : offset
  %shared = buffer.alloca<workgroup> align(4) %bytes : buffer
  %v = buffer.view %shared[%at0] : buffer -> view<32xi32>
  %o = buffer.view %out[%at0] : buffer -> view<32xi32>
  %x = index.cast %lane : index to i32
  view.store %x, %v[%lane] : i32, view<32xi32>
  %p = kernel.barrier.arrive<workgroup> scope(workgroup) ordering(acq_rel) -> kernel.barrier.phase
  %y0 = scalar.addi %x, %x : i32
  kernel.barrier.wait %p : kernel.barrier.phase
  %c31 = index.constant 31 : index
  %other = index.xori %lane, %c31 : index
  %y = view.load %v[%other] : view<32xi32> -> i32
  %z = scalar.subi %y, %y0 : i32
  view.store %z, %o[%lane] : i32, view<32xi32>"""
    out = np.zeros(32, dtype=np.int32)
    programs.launch(programs.kernel(body, "%out: buffer"), [], [out])
    lane = np.arange(32)
    assert np.array_equal(out, (31 - lane) - 2 * lane)
    unordered = "\n".join(line for line in body.splitlines() if "kernel.barrier" not in line)
    text = programs.kernel(unordered, "%out: buffer")
    assert programs.fault(lambda: programs.launch(text, [], [out])).code == "EVALUATE/005"


@pytest.mark.parametrize(
    ("lines", "at", "other"),
    [
        (("view.store %x, %v[%lane]", "ARRIVE", "%y = view.load %v[%far]", "WAIT"), "%y = view.load", "view.store"),
        (("ARRIVE", "view.store %x, %v[%lane]", "%y = view.load %v[%far]", "WAIT"), "%y = view.load", "view.store"),
        (("ARRIVE", "view.store %x, %v[%lane]", "WAIT", "%y = view.load %v[%far]"), "%y = view.load", "view.store"),
        (("%y = view.load %i[%far]", "ARRIVE", "WAIT", "view.store %x, %i[%lane]"), "", ""),
        (("ARRIVE", "%y = view.load %i[%far]", "WAIT", "view.store %x, %i[%lane]"), "view.store %x", "view.load"),
        (("ARRIVE", "%y = view.load %i[%lane]", "view.store %x, %i[%lane]", "WAIT"), "", ""),
    ],
)
@pytest.mark.seed("J03")
def test_between_the_halves_of_a_barrier_nothing_is_ordered(
    programs: Programs, lines: tuple[str, ...], at: str, other: str
) -> None:
    words = {
        "ARRIVE": "%p = kernel.barrier.arrive<workgroup> scope(workgroup) ordering(acq_rel) -> kernel.barrier.phase",
        "WAIT": "kernel.barrier.wait %p : kernel.barrier.phase",
    }
    middle = []
    for line in lines:
        types = " : i32, view<32xi32>" if "store" in line else " : view<32xi32> -> i32"
        middle.append("  " + words.get(line, line + types))
    body = "\n".join(
        (
            "  %bytes = index.constant 128 : offset",
            "  %shared = buffer.alloca<workgroup> align(4) %bytes : buffer",
            "  %v = buffer.view %shared[%at0] : buffer -> view<32xi32>",
            "  %filled = buffer.alloca<workgroup> align(4) %bytes : buffer",
            "  %i = buffer.view %filled[%at0] : buffer -> view<32xi32>",
            "  %c31 = index.constant 31 : index",
            "  %far = index.xori %lane, %c31 : index",
            "  %x = index.cast %lane : index to i32",
            "  view.store %x, %i[%lane] : i32, view<32xi32>",
            "  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)",
            *middle,
        )
    )
    text = programs.kernel(body, "%out: buffer")
    arguments = [np.zeros(1, dtype=np.uint8)]
    if not at:
        programs.launch(text, [], arguments)
        return
    found = programs.fault(lambda: programs.launch(text, [], arguments))
    assert found.code == "EVALUATE/005"
    assert programs.source_line(found).startswith(at)
    assert f"'{other}'" in found.related[0].label


TRANSFER = """
  %bytes = index.constant 256 : offset
  %shared = buffer.alloca<workgroup> align(16) %bytes : buffer
  %g = buffer.assume.memory_space<global> %in : buffer
  %src = buffer.view %g[%at0] : buffer -> view<16x8xi16>
  %tile = buffer.view %shared[%at0] : buffer -> view<16x1x4xi32>
  %mine = view.subview %src[%lane, 0] : view<16x8xi16> -> view<1x8xi16>
  %slot = view.subview %tile[%lane, 0, 0] : view<16x1x4xi32> -> view<1x1x4xi32>
  %zero = vector.constant -1 : vector<1x1x4xi32>
  vector.store %zero, %slot[0, 0, 0] : vector<1x1x4xi32>, view<1x1x4xi32>
  %go = index.cmp ult, %lane, %limit : index
{start}
  %grp = kernel.async.group %t : kernel.async.token -> kernel.async.group
  kernel.async.wait %grp {{newer_groups = 0}} : kernel.async.group
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  %c15 = index.constant 15 : index
  %other = index.sub %c15, %lane : index
  %o = buffer.view %out[%at0] : buffer -> view<16x1x4xi32>
  %v = vector.load %tile[%other, 0, 0] : view<16x1x4xi32> -> vector<1x1x4xi32>
  vector.store %v, %o[%lane, 0, 0] : vector<1x1x4xi32>, view<16x1x4xi32>"""

COPY = """  %t = kernel.async.copy{mask} %mine to %slot{go}
    {{cache_scope = cu, cache_temporal = regular, direction = global_to_workgroup}}
    : view<1x8xi16> to view<1x1x4xi32>{i1} -> kernel.async.token"""
GATHER = """  %t = kernel.async.gather{mask} %mine to %tile{go} {{cache_scope = cu, cache_temporal = regular}}
    : view<1x8xi16> to view<16x1x4xi32>{i1} -> kernel.async.token"""


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("start", [COPY, GATHER], ids=["copy", "gather"])
@pytest.mark.seed("J02")
def test_transfers_move_bytes(programs: Programs, start: str, masked: bool) -> None:
    words = start.format(
        **({"mask": ".mask", "go": ", %go", "i1": ", i1"} if masked else {"mask": "", "go": "", "i1": ""})
    )
    body = f"  %limit = index.constant 5 : index\n{TRANSFER.format(start=words)}"
    given = np.arange(128, dtype=np.int16).reshape(16, 8)
    out = np.zeros((16, 4), dtype=np.int32)
    text = programs.kernel(body, "%in: buffer, %out: buffer", size=16)
    programs.launch(text, [], [given, out], facts={"subgroup_size": 16})
    want = given.view(np.int32).copy()
    if masked:
        want[5:] = -1
    assert np.array_equal(out, want[::-1])


def test_transfers_check_their_ends(programs: Programs) -> None:
    words = COPY.format(mask="", go="", i1="")
    body = f"  %limit = index.constant 5 : index\n{TRANSFER.format(start=words)}"
    short = np.zeros(127, dtype=np.int16)
    text = programs.kernel(body, "%in: buffer, %out: buffer", size=16)
    fault = programs.fault(lambda: programs.launch(text, [], [short, np.zeros((16, 4), dtype=np.int32)]))
    assert fault.code == "EVALUATE/002"
    assert programs.source_line(fault).startswith("%t = kernel.async.copy")
