"""Views: dense and strided layouts, subviews, refinement, carried layouts and shrinking views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loom.dialects.buffer.ops import Pack
from loom.evaluate.dispatch import call_function
from loom.evaluate.machine import Program
from loom.ir.types import OFFSET

Programs = Any


@pytest.mark.seed("Y03", "V04")
def test_static_strides_from_a_shifted_origin(programs: Programs) -> None:
    body = """
  %at8 = index.constant 8 : offset
  %c4 = index.constant 4 : index
  %r = index.div %lane, %c4 : index
  %c = index.rem %lane, %c4 : index
  %in = buffer.view %x[%at8] : buffer -> view<3x4xi16, #encoding.layout.strided<strides=[10, 2]>>
  %out = buffer.view %o[%at0] : buffer -> view<3x4xi16>
  %v = view.load %in[%r, %c] : view<3x4xi16, #encoding.layout.strided<strides=[10, 2]>> -> i16
  view.store %v, %out[%r, %c] : i16, view<3x4xi16>"""
    x, out = np.arange(40, dtype=np.int16), np.zeros((3, 4), dtype=np.int16)
    programs.launch(programs.kernel(body, "%x: buffer, %o: buffer", size=12), [], [x, out])
    assert out.tolist() == [[4 + 10 * r + 2 * c for c in range(4)] for r in range(3)]


def test_a_broadcast_axis_has_stride_zero(programs: Programs) -> None:
    body = """
  %rows = encoding.layout.strided [0, 1] : encoding<layout>
  %in = buffer.view %x[%at0] : buffer -> view<8x4xi32, %rows>
  %out = buffer.view %o[%at0] : buffer -> view<8x4xi32>
  %v = vector.load %in[%lane, 0] : view<8x4xi32, %rows> -> vector<4xi32>
  vector.store %v, %out[%lane, 0] : vector<4xi32>, view<8x4xi32>"""
    x, out = np.asarray([3, 1, 4, 1], dtype=np.int32), np.zeros((8, 4), dtype=np.int32)
    programs.launch(programs.kernel(body, "%x: buffer, %o: buffer", size=8), [], [x, out])
    assert (out == x).all()


@pytest.mark.seed("Y01", "Y02")
@pytest.mark.parametrize("way", ["if", "select"])
def test_each_lane_may_choose_its_layout(programs: Programs, way: str) -> None:
    choice = {
        "if": """%layout = scf.if %even -> (encoding<layout>) {
    scf.yield %dense : encoding<layout>
  } else {
    scf.yield %columns : encoding<layout>
  }""",
        "select": "%layout = scf.select %even, %dense, %columns : encoding<layout>",
    }[way]
    body = f"""
  %c0 = index.constant 0 : index
  %c2 = index.constant 2 : index
  %c5 = index.constant 5 : index
  %m = index.rem %lane, %c2 : index
  %even = index.cmp eq, %m, %c0 : index
  %dense = encoding.layout.dense : encoding<layout>
  %columns = encoding.layout.strided [1, %c5] : encoding<layout>
  {choice}
  %in = buffer.view %x[%at0] : buffer -> view<5x6xi32, %layout>
  %out = buffer.view %o[%at0] : buffer -> view<30xi32>
  %c6 = index.constant 6 : index
  %r = index.div %lane, %c6 : index
  %c = index.rem %lane, %c6 : index
  %v = view.load %in[%r, %c] : view<5x6xi32, %layout> -> i32
  view.store %v, %out[%lane] : i32, view<30xi32>"""
    x, out = np.arange(30, dtype=np.int32), np.zeros(30, dtype=np.int32)
    programs.launch(programs.kernel(body, "%x: buffer, %o: buffer", size=30), [], [x, out])
    assert out.tolist() == [i if i % 2 == 0 else i // 6 + 5 * (i % 6) for i in range(30)]


@pytest.mark.seed("Y01", "Y02", "Y03")
def test_a_chosen_layout_counts_from_the_origin_of_its_view(programs: Programs) -> None:
    """Pitches that the run knows, one per lane, behind an offset that is no multiple of either."""
    body = """
  %at12 = index.constant 12 : offset
  %c2 = index.constant 2 : index
  %c0 = index.constant 0 : index
  %m = index.rem %lane, %c2 : index
  %even = index.cmp eq, %m, %c0 : index
  %narrow = encoding.layout.strided [%pitch, 1] : encoding<layout>
  %wide = encoding.layout.strided [%far, 1] : encoding<layout>
  %layout = scf.if %even -> (encoding<layout>) {
    scf.yield %narrow : encoding<layout>
  } else {
    scf.yield %wide : encoding<layout>
  }
  %in = buffer.view %x[%at12] : buffer -> view<3x4xi32, %layout>
  %out = buffer.view %o[%at0] : buffer -> view<12xi32>
  %c4 = index.constant 4 : index
  %r = index.div %lane, %c4 : index
  %c = index.rem %lane, %c4 : index
  %v = view.load %in[%r, %c] : view<3x4xi32, %layout> -> i32
  view.store %v, %out[%lane] : i32, view<12xi32>"""
    x, out = np.arange(40, dtype=np.int32), np.zeros(12, dtype=np.int32)
    text = programs.kernel(body, "%x: buffer, %o: buffer, %pitch: index, %far: index", size=12)
    programs.launch(text, [], [x, out, 5, 11])
    assert out.tolist() == [3 + (5 if i % 2 == 0 else 11) * (i // 4) + i % 4 for i in range(12)]


@pytest.mark.seed("V06")
def test_a_subview_keeps_the_strides_of_its_source(programs: Programs) -> None:
    body = """
  %c3 = index.constant 3 : index
  %m = buffer.view %x[%at0] : buffer -> view<6x7xi32>
  %w = view.subview %m[2, %c3] : view<6x7xi32> -> view<3x2xi32>
  %inner = view.subview %w[1, 1] : view<3x2xi32> -> view<2x1xi32>
  %again = view.refine %inner : view<2x1xi32> -> view<2x1xi32, align(1)>
  %out = buffer.view %o[%at0] : buffer -> view<2xi32>
  %v = view.load %again[%lane, 0] : view<2x1xi32, align(1)> -> i32
  view.store %v, %out[%lane] : i32, view<2xi32>"""
    x, out = np.arange(42, dtype=np.int32), np.zeros(2, dtype=np.int32)
    programs.launch(programs.kernel(body, "%x: buffer, %o: buffer", size=2), [], [x, out])
    assert out.tolist() == x.reshape(6, 7)[3:5, 4].tolist()


def test_the_extent_of_a_subview_bounds_its_accesses(programs: Programs) -> None:
    body = """
  %m = buffer.view %x[%at0] : buffer -> view<8xi32>
  %w = view.subview %m[2] : view<8xi32> -> view<3xi32>
  %v = view.load %w[%lane] : view<3xi32> -> i32"""
    text = programs.kernel(body, "%x: buffer", size=4)
    found = programs.fault(lambda: programs.launch(text, [], [np.zeros(8, dtype=np.int32)]))
    assert (found.code, found.params["bound"]) == ("EVALUATE/002", 3)


@pytest.mark.seed("Y04", "Y06")
@pytest.mark.parametrize("turns", range(5))
def test_a_carried_view_shrinks(programs: Programs, turns: int) -> None:
    text = """
func.def @rest(%b: buffer, %n: index, %turns: index) -> (index, i32) {
  %at0 = index.constant 0 : offset
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %x = buffer.view %b[%at0] : buffer -> view<[%n]xi32>
  %left, %tail = scf.for %i = [%c0 to %turns step %c1]
    (%len = %n : index, %win = %x : view<[%n]xi32>) -> (index, view<[%left]xi32>) {
    %shorter = index.sub %len, %c1 : index
    %sub = view.subview %win[1] : view<[%len]xi32> -> view<[%shorter]xi32>
    scf.yield %shorter, %sub : index, view<[%shorter]xi32>
  }
  %end = index.sub %left, %c1 : index
  %none = scalar.constant 0 : i32
  %sum = scf.for %k = [%c0 to %left step %c1](%s = %none : i32) -> (i32) {
    %v = view.load %tail[%k] : view<[%left]xi32> -> i32
    %t = scalar.addi %s, %v : i32
    scf.yield %t : i32
  }
  func.return %left, %sum : index, i32
}
"""
    data = np.asarray([1, 10, 100, 1000, 10000], dtype=np.int32)
    assert programs.call(text, "rest", [data, 5, turns]) == [5 - turns, data[turns:].sum()]


def test_each_lane_carries_a_view_of_its_own_extent(programs: Programs) -> None:
    body = """
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c9 = index.constant 9 : index
  %x0 = buffer.view %x[%at0] : buffer -> view<[%c9]xi32>
  %left, %tail = scf.for %i = [%c0 to %lane step %c1]
    (%len = %c9 : index, %win = %x0 : view<[%c9]xi32>) -> (index, view<[%left]xi32>) {
    %shorter = index.sub %len, %c1 : index
    %sub = view.subview %win[1] : view<[%len]xi32> -> view<[%shorter]xi32>
    scf.yield %shorter, %sub : index, view<[%shorter]xi32>
  }
  %end = index.sub %left, %c1 : index
  %first = view.load %tail[%c0] : view<[%left]xi32> -> i32
  %last = view.load %tail[%end] : view<[%left]xi32> -> i32
  %sum = scalar.addi %first, %last : i32
  %out = buffer.view %o[%at0] : buffer -> view<8xi32>
  view.store %sum, %out[%lane] : i32, view<8xi32>"""
    x, out = np.arange(9, dtype=np.int32) ** 2, np.zeros(8, dtype=np.int32)
    programs.launch(programs.kernel(body, "%x: buffer, %o: buffer", size=8), [], [x, out])
    assert out.tolist() == [lane**2 + 64 for lane in range(8)]


@pytest.mark.seed("Z04")
def test_packed_ranges_are_disjoint_and_aligned(programs: Programs) -> None:
    module = programs.module("""
func.def @pack(%a: offset, %b: offset, %c: offset) -> (offset, offset, offset, offset) {
  func.return %a, %b, %c, %c : offset, offset, offset, offset
}
""")
    (function,) = module.ops
    body = function.regions[0].entry
    pack = Pack.build(sizes=body.args, alignments=(4, 32, 8), result_types=[OFFSET] * 4)
    end = body.last
    pack.insert_before(end)
    end.set_operands(list(pack.results), end.segments)
    assert call_function(Program(module), function, [10, 1, 20]) == [64, 0, 32, 40]
    assert (
        programs.fault(lambda: call_function(Program(module), function, [(1 << 63) - 1, 1, 1])).code == "EVALUATE/001"
    )


@pytest.mark.seed("Y02", "Y06")
@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_a_view_is_carried_beside_its_layout(programs: Programs, turns: int) -> None:
    text = """
func.def @f(%b: buffer, %turns: index, %two: index) -> (i32, i32) {
  %at8 = index.constant 8 : offset
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c3 = index.constant 3 : index
  %start = encoding.layout.strided [%two] : encoding<layout>
  %x = buffer.view %b[%at8] : buffer -> view<4xi32, %start>
  %layout, %view = scf.for %i = [%c0 to %turns step %c1]
      (%now = %start : encoding<layout>, %win = %x : view<4xi32, %start>)
      -> (encoding<layout>, view<4xi32, %layout>) {
    %stride = index.add %i, %c3 : index
    %next = encoding.layout.strided [%stride] : encoding<layout>
    %moved = view.subview %win[1] : view<4xi32, %now> -> view<4xi32, %now>
    %again = view.refine %moved : view<4xi32, %now> -> view<4xi32, %next>
    scf.yield %next, %again : encoding<layout>, view<4xi32, %next>
  }
  %first = view.load %view[0] : view<4xi32, %layout> -> i32
  %second = view.load %view[1] : view<4xi32, %layout> -> i32
  func.return %first, %second : i32, i32
}
"""
    strides = [2, 3, 4, 5]
    origin = 2 + sum(strides[:turns])
    data = np.arange(40, dtype=np.int32)
    assert programs.call(text, "f", [data, turns, 2]) == [origin, origin + strides[turns]]


@pytest.mark.parametrize("space", ["private", "workgroup", "global"])
@pytest.mark.seed("Z01")
def test_each_execution_of_an_allocation_is_storage_of_its_own(programs: Programs, space: str) -> None:
    """The first of two allocations of one operation keeps its value when the second is written."""
    body = f"""
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c2 = index.constant 2 : index
  %bytes = index.constant 4 : offset
  %ten = scalar.constant 10 : i32
  %before = buffer.alloca<{space}> align(4) %bytes : buffer
  %older, %newer = scf.for %i = [%c0 to %c2 step %c1](%a = %before : buffer, %b = %before : buffer)
    -> (buffer, buffer) {{
    %fresh = buffer.alloca<{space}> align(4) %bytes : buffer
    %v = buffer.view %fresh[%at0] : buffer -> view<1xi32>
    %k = index.cast %i : index to i32
    %value = scalar.addi %k, %ten : i32
    view.store %value, %v[0] : i32, view<1xi32>
    scf.yield %b, %fresh : buffer, buffer
  }}
  %vo = buffer.view %older[%at0] : buffer -> view<1xi32>
  %vn = buffer.view %newer[%at0] : buffer -> view<1xi32>
  %x = view.load %vo[0] : view<1xi32> -> i32
  %y = view.load %vn[0] : view<1xi32> -> i32
  %out = buffer.view %o[%at0] : buffer -> view<2xi32>
  view.store %x, %out[0] : i32, view<2xi32>
  view.store %y, %out[1] : i32, view<2xi32>"""
    out = np.zeros(2, dtype=np.int32)
    programs.launch(programs.kernel(body, "%o: buffer", size=1), [], [out])
    assert out.tolist() == [10, 11]


@pytest.mark.parametrize("align", [4, 64])
@pytest.mark.seed("Z01")
def test_an_allocation_has_the_bytes_that_it_asked_for(programs: Programs, align: int) -> None:
    def text(count: int) -> Any:
        body = f"""
  %bytes = index.constant 12 : offset
  %mine = buffer.alloca<private> align({align}) %bytes : buffer
  %length = buffer.length %mine
  %v = buffer.view %mine[%at0] : buffer -> view<{count}xi32>
  %x = vector.constant 3 : vector<{count}xi32>
  vector.store %x, %v[0] : vector<{count}xi32>, view<{count}xi32>
  %n = index.cast %length : offset to i32
  %out = buffer.view %o[%at0] : buffer -> view<1xi32>
  view.store %n, %out[0] : i32, view<1xi32>"""
        return programs.kernel(body, "%o: buffer", size=1)

    out = np.zeros(1, dtype=np.int32)
    programs.launch(text(3), [], [out])
    assert out.tolist() == [12]
    fault = programs.fault(lambda: programs.launch(text(4), [], [out]))
    assert fault.code == "EVALUATE/002"
    assert "outside the buffer of 12 bytes" in fault.message


def test_a_target_bounds_the_storage_of_a_workgroup(programs: Programs) -> None:
    body = """
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c3 = index.constant 3 : index
  %some = index.constant 600 : offset
  %more = index.constant 424 : offset
  %a = buffer.alloca<workgroup> align(4) %some : buffer
  scf.for %i = [%c0 to %c3 step %c1] {
    %b = buffer.alloca<workgroup> align(4) %more : buffer
  }"""
    text, arguments = programs.kernel(body, "%o: buffer", groups=5), [np.zeros(1, dtype=np.int32)]
    # Every execution is storage of its own, but one operation has one place in the frame.
    programs.launch(text, [], arguments, facts={"max_workgroup_storage_bytes": 1024})
    fault = programs.fault(lambda: programs.launch(text, [], arguments, facts={"max_workgroup_storage_bytes": 1023}))
    assert fault.code == "EVALUATE/008"
    assert "needs 1024 bytes of workgroup storage" in fault.message
    assert programs.source_line(fault).startswith("%b = buffer.alloca")
