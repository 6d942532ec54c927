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
