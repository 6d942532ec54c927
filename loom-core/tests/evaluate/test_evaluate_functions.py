"""Host functions: the same machine with one lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loom.evaluate.device import open_reference_device
from loom.evaluate.limits import Limits

Programs = Any

ROTATE = """
func.def public @rotate(%trips: index) -> (i32) {
  %begin = index.constant 0 : index
  %step = index.constant 1 : index
  %bytes = index.constant 8 : offset
  %at0 = index.constant 0 : offset
  %at4 = index.constant 4 : offset
  %storage = buffer.alloca<private> align(4) %bytes : buffer
  %a = buffer.view %storage[%at0] : buffer -> view<1xi32>
  %b = buffer.view %storage[%at4] : buffer -> view<1xi32>
  %start = scalar.constant 1 : i32
  %seven = scalar.constant 7 : i32
  view.store %start, %a[0] : i32, view<1xi32>
  %last, %spare = scf.for %i = [%begin to %trips step %step]
    (%now = %a : view<1xi32>, %next = %b : view<1xi32>) -> (view<1xi32>, view<1xi32>) {
    %v = view.load %now[0] : view<1xi32> -> i32
    %u = scalar.addi %v, %seven : i32
    view.store %u, %next[0] : i32, view<1xi32>
    scf.yield %next, %now : view<1xi32>, view<1xi32>
  }
  %r = view.load %last[0] : view<1xi32> -> i32
  func.return %r : i32
}
"""


@pytest.mark.seed("R01", "R02", "R03")
@pytest.mark.parametrize("trips", range(6))
def test_carried_views_rotate(programs: Programs, trips: int) -> None:
    (result,) = programs.call(ROTATE, "rotate", [trips])
    assert result == 1 + 7 * trips
    assert result.dtype == np.int32


def test_recursion_and_its_depth(programs: Programs) -> None:
    text = """
func.def @sum_to(%n: index) -> (index) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %more = index.cmp sgt, %n, %c0 : index
  %r = scf.if %more -> (index) {
    %m = index.sub %n, %c1 : index
    %s = func.call @sum_to(%m) : (index) -> (index)
    %t = index.add %s, %n : index
    scf.yield %t : index
  } else {
    scf.yield %c0 : index
  }
  func.return %r : index
}
"""
    assert programs.call(text, "sum_to", [1500]) == [1500 * 1501 // 2]
    found = programs.fault(lambda: programs.call(text, "sum_to", [1 << 40]))
    assert found.code == "EVALUATE/011"
    assert programs.source_line(found).startswith("%s = func.call @sum_to")


def test_branches_with_block_arguments(programs: Programs) -> None:
    text = """
func.def @gcd(%a: index, %b: index) -> (index) {
  %c0 = index.constant 0 : index
  cfg.br ^head(%a: index, %b: index)
^head(%x: index, %y: index):
  %done = index.cmp eq, %y, %c0 : index
  cfg.cond_br %done, ^out, ^step
^out:
  func.return %x : index
^step:
  %r = index.rem %x, %y : index
  cfg.br ^head(%y: index, %r: index)
}
"""
    for a, b in ((12, 18), (17, 5), (0, 9), (100, 75)):
        assert programs.call(text, "gcd", [a, b]) == [np.gcd(a, b)]


def test_a_branching_loop_without_end(programs: Programs) -> None:
    text = """
func.def @spin() {
  cfg.br ^again
^again:
  cfg.br ^again
}
"""
    found = programs.fault(lambda: programs.call(text, "spin", [], limits=Limits(steps=500)))
    assert found.code == "EVALUATE/007"


def test_nan_and_signed_zero(programs: Programs) -> None:
    text = """
func.def @f(%a: f32, %b: f32) -> (f32, f32, i1, f32) {
  %lo = scalar.minimumf %a, %b : f32
  %n = scalar.minnumf %a, %b : f32
  %u = scalar.cmpf ult, %a, %b : f32
  %neg = scalar.negf %b : f32
  func.return %lo, %n, %u, %neg : f32, f32, i1, f32
}
"""
    lo, number, unordered, negated = programs.call(text, "f", [float("nan"), 0.0])
    assert np.isnan(lo)
    assert number == 0.0
    assert bool(unordered)
    assert np.signbit(negated)
    lo, number, unordered, _ = programs.call(text, "f", [0.0, -0.0])
    assert np.signbit(lo)
    assert np.signbit(number)
    assert not unordered


def test_results_share_the_storage_of_arguments(programs: Programs) -> None:
    text = """
func.def @tail(%b: buffer, %n: index) -> (view<[%n]xi32>) {
  %at4 = index.constant 4 : offset
  %v = buffer.view %b[%at4] : buffer -> view<[%n]xi32>
  func.return %v : view<[%n]xi32>
}
"""
    data = np.arange(5, dtype=np.int32)
    (view,) = programs.call(text, "tail", [data, 3])
    assert view.tolist() == [1, 2, 3]
    view[1] = 99
    assert data[2] == 99


def test_view_parameters_take_their_shape_from_the_signature(programs: Programs) -> None:
    text = """
func.def @at(%rows: index, %cols: index, %m: view<[%rows]x[%cols]xf32>, %r: index, %c: index) -> (f32) {
  %v = view.load %m[%r, %c] : view<[%rows]x[%cols]xf32> -> f32
  func.return %v : f32
}
"""
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert programs.call(text, "at", [3, 4, data, 2, 1]) == [9.0]
    assert programs.fault(lambda: programs.call(text, "at", [3, 4, data, 2, 4])).code == "EVALUATE/002"


def test_predicates_of_a_callee_oblige_the_caller(programs: Programs) -> None:
    text = """
func.def @half(%n: index) -> (%h: index) where [multiple_of(%n, 2), le(%h, %n)] {
  %c2 = index.constant 2 : index
  %r = index.div %n, %c2 : index
  func.return %r : index
}
func.def @caller(%n: index) -> (index) {
  %r = func.call @half(%n) : (index) -> (index)
  func.return %r : index
}
"""
    assert programs.call(text, "caller", [10]) == [5]
    found = programs.fault(lambda: programs.call(text, "caller", [7]))
    assert found.code == "EVALUATE/006"
    assert programs.source_line(found).startswith("%r = func.call @half")


def test_a_device_keeps_module_state_between_calls(programs: Programs) -> None:
    module = programs.module("""
global.variable @calls : i64 = 40

global.constant @step : i64

func.def initializer @setup() {
  %two = scalar.constant 2 : i64
  global.store %two, @step : i64
  func.return
}

func.def @tick() -> (i64) {
  %n = global.load @calls : i64
  %s = global.load @step : i64
  %m = scalar.addi %n, %s : i64
  global.store %m, @calls : i64
  func.return %m : i64
}
""")
    device = open_reference_device(None)
    tick = module.symbols()["tick"]
    assert [int(device.call(module, tick, [])[0]) for _ in range(3)] == [42, 44, 46]
    device.close()
    assert int(device.call(module, tick, [])[0]) == 42


def test_scalars_come_back_in_their_storage_type(programs: Programs) -> None:
    text = """
func.def @same(%a: i1, %b: bf16, %c: f64, %d: offset) -> (i1, bf16, f64, offset) {
  func.return %a, %b, %c, %d : i1, bf16, f64, offset
}
"""
    flag, pattern, double, offset = programs.call(text, "same", [True, np.uint16(0x3F80), 0.1, 7])
    assert (flag.dtype, pattern.dtype, double.dtype, offset.dtype) == (np.bool_, np.uint16, np.float64, np.int64)
    assert (bool(flag), int(pattern), float(double), int(offset)) == (True, 0x3F80, 0.1, 7)


@pytest.mark.seed("L01", "L03")
@pytest.mark.parametrize(("upper", "visited"), [(10, 307), (11, 307), (12, 30711), (3, 0), (-4, 0)])
def test_a_loop_visits_its_range_strictly_below_the_upper_bound(programs: Programs, upper: int, visited: int) -> None:
    text = """
func.def @f(%upper: index) -> (index) {
  %c0 = index.constant 0 : index
  %c3 = index.constant 3 : index
  %c4 = index.constant 4 : index
  %c100 = index.constant 100 : index
  %seen = scf.for %i = [%c3 to %upper step %c4](%s = %c0 : index) -> (index) {
    %t = index.madd %s, %c100, %i : index
    scf.yield %t : index
  }
  func.return %seen : index
}
"""
    assert programs.call(text, "f", [upper]) == [visited]


@pytest.mark.seed("R05", "V02", "V03")
@pytest.mark.parametrize("turns", range(4))
def test_views_of_two_element_types_pass_through_while_and_select(programs: Programs, turns: int) -> None:
    text = """
func.def @f(%b: buffer, %turns: index) -> (i8, i32) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c2 = index.constant 2 : index
  %at0 = index.constant 0 : offset
  %at4 = index.constant 4 : offset
  %low = buffer.view %b[%at0] : buffer -> view<4xi8>
  %high = buffer.view %b[%at4] : buffer -> view<4xi8>
  %words = buffer.view %b[%at0] : buffer -> view<2xi32>
  %last, %steps = scf.while(%now = %low : view<4xi8>, %next = %high : view<4xi8>, %i = %c0 : index)
      -> (view<4xi8>, index) {
    %go = index.cmp slt, %i, %turns : index
    %bit = index.rem %i, %c2 : index
    %even = index.cmp eq, %bit, %c0 : index
    %pick = scf.select %even, %now, %next : view<4xi8>
    scf.condition %go, %pick, %i : i1, view<4xi8>, index
  } do(%pick: view<4xi8>, %i: index) {
    %v = view.load %pick[0] : view<4xi8> -> i8
    %w = scalar.addi %v, %v : i8
    view.store %w, %pick[0] : i8, view<4xi8>
    %up = index.add %i, %c1 : index
    scf.yield %low, %high, %up : view<4xi8>, view<4xi8>, index
  }
  %byte = view.load %last[0] : view<4xi8> -> i8
  %word = view.load %words[1] : view<2xi32> -> i32
  func.return %byte, %word : i8, i32
}
"""
    data = np.asarray([3, 0, 0, 0, 5, 1, 0, 0], dtype=np.int8)
    byte, word = programs.call(text, "f", [data, turns])
    bytes_ = [3, 5]
    for i in range(turns):
        bytes_[i % 2] *= 2
    assert [data[0], data[4]] == bytes_
    assert byte == bytes_[turns % 2]
    assert word == bytes_[1] + 256


@pytest.mark.seed("V05")
def test_a_count_times_a_byte_stride(programs: Programs) -> None:
    text = """
func.def @f(%n: index, %stride: offset) -> (offset) {
  %bytes = index.scale %n, %stride : index, offset -> offset
  func.return %bytes : offset
}
"""
    assert programs.call(text, "f", [7, 12]) == [84]
    assert programs.fault(lambda: programs.call(text, "f", [-1, 12])).code == "EVALUATE/001"
