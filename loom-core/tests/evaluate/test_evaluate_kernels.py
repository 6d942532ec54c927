"""Kernels: agreement with NumPy and closed forms, whatever way the lanes go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loom.evaluate.limits import Limits

Programs = Any

SAXPY = """
kernel.def @saxpy(%count: index) {
  %unit = index.constant 1 : index
  %width = index.constant 32 : index
  %pad = index.constant 31 : index
  %padded = index.add %count, %pad : index
  %groups = index.div %padded, %width : index
  kernel.launch.config workgroups(%groups, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%count: index, %a: f32, %x: buffer, %y: buffer) {
  %at0 = index.constant 0 : offset
  %i = kernel.workitem.dispatch.id<x> : index
  %xv = buffer.view %x[%at0] : buffer -> view<[%count]xf32>
  %yv = buffer.view %y[%at0] : buffer -> view<[%count]xf32>
  %live = index.cmp ult, %i, %count : index
  scf.if %live {
    %xi = view.load %xv[%i] : view<[%count]xf32> -> f32
    %yi = view.load %yv[%i] : view<[%count]xf32> -> f32
    %r = scalar.fmaf %a, %xi, %yi : f32
    view.store %r, %yv[%i] : f32, view<[%count]xf32>
  }
  kernel.return
}
"""


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 100])
@pytest.mark.parametrize("batch", [1, 40, 1 << 15])
def test_tails_touch_nothing_beyond_the_count(programs: Programs, count: int, batch: int) -> None:
    rng = np.random.default_rng(count)
    x, y = (rng.integers(-99, 99, count + 3).astype(np.float32) for _ in range(2))
    want = y.copy()
    want[:count] += np.float32(0.5) * x[:count]
    programs.launch(SAXPY, [count], [count, 0.5, x, y], limits=Limits(batch_lanes=batch))
    assert np.array_equal(y, want)


def test_coordinates_of_three_axes(programs: Programs) -> None:
    text = """
kernel.def @k(%gx: index, %gy: index, %gz: index) {
  %sx = index.constant 3 : index
  %sy = index.constant 2 : index
  %sz = index.constant 2 : index
  kernel.launch.config workgroups(%gx, %gy, %gz) workgroup_size(%sx, %sy, %sz) : index
} launch(%out: buffer) {
  %at0 = index.constant 0 : offset
  %x = kernel.workitem.dispatch.id<x> : index
  %gy = kernel.workgroup.id<y> : index
  %sy = kernel.workgroup.size<y> : index
  %ly = kernel.workitem.id<y> : index
  %y = index.madd %gy, %sy, %ly : index
  %z = kernel.workitem.dispatch.id<z> : index
  %gx = kernel.workgroup.count<x> : index
  %sx = kernel.workgroup.size<x> : index
  %nx = index.mul %gx, %sx : index
  %gcy = kernel.workgroup.count<y> : index
  %ny = index.mul %gcy, %sy : index
  %v = buffer.view %out[%at0] : buffer -> view<6x[%ny]x[%nx]xindex>
  %row = index.madd %z, %ny, %y : index
  %linear = index.madd %row, %nx, %x : index
  view.store %linear, %v[%z, %y, %x] : index, view<6x[%ny]x[%nx]xindex>
  kernel.return
}
"""
    out = np.full((6, 4, 15), -1, dtype=np.int64)
    geometry = programs.launch(text, [5, 2, 3], [out], limits=Limits(batch_lanes=50))
    assert geometry.workgroups == (5, 2, 3)
    assert geometry.workgroup_size == (3, 2, 2)
    assert np.array_equal(out, np.arange(6 * 4 * 15).reshape(6, 4, 15))


def test_lanes_part_in_nested_conditionals(programs: Programs) -> None:
    body = """
  %out = buffer.view %o[%at0] : buffer -> view<32xi32>
  %c2 = index.constant 2 : index
  %c3 = index.constant 3 : index
  %c0 = index.constant 0 : index
  %m2 = index.rem %lane, %c2 : index
  %m3 = index.rem %lane, %c3 : index
  %even = index.cmp eq, %m2, %c0 : index
  %third = index.cmp eq, %m3, %c0 : index
  %one = scalar.constant 1 : i32
  %two = scalar.constant 2 : i32
  %three = scalar.constant 3 : i32
  %four = scalar.constant 4 : i32
  %r = scf.if %even -> (i32) {
    %s = scf.if %third -> (i32) {
      scf.yield %one : i32
    } else {
      scf.yield %two : i32
    }
    scf.yield %s : i32
  } else {
    %s = scf.if %third -> (i32) {
      scf.yield %three : i32
    } else {
      scf.yield %four : i32
    }
    scf.yield %s : i32
  }
  view.store %r, %out[%lane] : i32, view<32xi32>"""
    out = np.zeros(32, dtype=np.int32)
    programs.launch(programs.kernel(body, "%o: buffer"), [], [out])
    lane = np.arange(32)
    assert np.array_equal(out, np.where(lane % 2 == 0, np.where(lane % 3 == 0, 1, 2), np.where(lane % 3 == 0, 3, 4)))


@pytest.mark.seed("L03")
def test_every_lane_has_its_own_trip_count(programs: Programs) -> None:
    body = """
  %out = buffer.view %o[%at0] : buffer -> view<32x2xindex>
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c3 = index.constant 3 : index
  %end = index.sub %lane, %c3 : index
  %sum, %last = scf.for %i = [%c0 to %end step %c3](%s = %c0 : index, %l = %lane : index) -> (index, index) {
    %t = index.add %s, %i : index
    scf.yield %t, %i : index, index
  }
  view.store %sum, %out[%lane, 0] : index, view<32x2xindex>
  view.store %last, %out[%lane, 1] : index, view<32x2xindex>"""
    out = np.zeros((32, 2), dtype=np.int64)
    programs.launch(programs.kernel(body, "%o: buffer"), [], [out])
    ranges = [range(0, lane - 3, 3) for lane in range(32)]
    assert out[:, 0].tolist() == [sum(r) for r in ranges]
    assert out[:, 1].tolist() == [r[-1] if r else lane for lane, r in enumerate(ranges)]


def test_while_loops_end_lane_by_lane(programs: Programs) -> None:
    body = """
  %out = buffer.view %o[%at0] : buffer -> view<32xindex>
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c2 = index.constant 2 : index
  %c3 = index.constant 3 : index
  %n0 = index.add %lane, %c1 : index
  %one, %steps = scf.while(%n = %n0 : index, %k = %c0 : index) -> (index, index) {
    %go = index.cmp ne, %n, %c1 : index
    scf.condition %go, %n, %k : i1, index, index
  } do(%n: index, %k: index) {
    %up = index.add %k, %c1 : index
    %half = index.shrui %n, %c1 : index
    %triple = index.madd %n, %c3, %c1 : index
    %bit = index.rem %n, %c2 : index
    %odd = index.cmp eq, %bit, %c1 : index
    %next = scf.select %odd, %triple, %half : index
    scf.yield %next, %up : index, index
  }
  view.store %steps, %out[%lane] : index, view<32xindex>"""
    text = programs.kernel(body, "%o: buffer")
    out = np.zeros(32, dtype=np.int64)
    programs.launch(text, [], [out])

    def collatz(n: int) -> int:
        steps = 0
        while n != 1:
            n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
        return steps

    assert out.tolist() == [collatz(lane + 1) for lane in range(32)]


@pytest.mark.seed("W01")
def test_switch_and_lookup_choose_by_key(programs: Programs) -> None:
    body = """
  %out = buffer.view %o[%at0] : buffer -> view<32x2xi32>
  %c5 = index.constant 5 : index
  %m = index.rem %lane, %c5 : index
  %a = scalar.constant 10 : i32
  %b = scalar.constant 20 : i32
  %c = scalar.constant 30 : i32
  %s = scf.switch %m -> (i32) {
    case 1 {
      scf.yield %a : i32
    }
    case 3 {
      scf.yield %b : i32
    }
    default {
      scf.yield %c : i32
    }
  }
  %t, %u = scf.lookup %m {
    0 = (%a, %b),
    4 = (%b, %c)
  } default(%c, %a) : i32, i32
  %v = scalar.addi %t, %u : i32
  view.store %s, %out[%lane, 0] : i32, view<32x2xi32>
  view.store %v, %out[%lane, 1] : i32, view<32x2xi32>"""
    out = np.zeros((32, 2), dtype=np.int32)
    programs.launch(programs.kernel(body, "%o: buffer"), [], [out])
    keys = [lane % 5 for lane in range(32)]
    assert out[:, 0].tolist() == [{1: 10, 3: 20}.get(k, 30) for k in keys]
    assert out[:, 1].tolist() == [{0: 30, 4: 50}.get(k, 40) for k in keys]


@pytest.mark.seed("W01")
def test_selection_and_condition_loops_choose_per_lane(programs: Programs) -> None:
    """A whole value under one condition, and as many rounds of a condition loop as each lane asks for."""
    body = """
  %out = buffer.view %o[%at0] : buffer -> view<32x2xi32>
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c5 = index.constant 5 : index
  %m = index.rem %lane, %c5 : index
  %low = vector.constant 7 : vector<2xi32>
  %high = vector.constant 9 : vector<2xi32>
  %few = index.cmp slt, %m, %c1 : index
  %chosen = scf.select %few, %low, %high : vector<2xi32>
  %first = vector.extract %chosen[0] : vector<2xi32> -> i32
  %one = scalar.constant 1 : i32
  %two = scalar.constant 2 : i32
  %power = scf.while (%left = %m : index, %p = %one : i32) -> (i32) {
    %go = index.cmp sgt, %left, %c0 : index
    scf.condition %go, %p : i1, i32
  } do (%q: i32) {
    %done = scalar.muli %q, %two : i32
    %less = func.call @less(%m, %done) : (index, i32) -> (index)
    scf.yield %less, %done : index, i32
  }
  view.store %first, %out[%lane, 0] : i32, view<32x2xi32>
  view.store %power, %out[%lane, 1] : i32, view<32x2xi32>"""
    less = """\
func.def @less(%m: index, %power: i32) -> (index) {
  %rounds = scalar.cttzi %power : i32
  %n = index.cast %rounds : i32 to index
  %left = index.sub %m, %n : index
  func.return %left : index
}

"""
    out = np.zeros((32, 2), dtype=np.int32)
    programs.launch(less + programs.kernel(body, "%o: buffer"), [], [out])
    keys = [lane % 5 for lane in range(32)]
    assert out[:, 0].tolist() == [7 if k < 1 else 9 for k in keys]
    assert out[:, 1].tolist() == [2**k for k in keys]


def test_a_branch_without_lanes_does_not_run(programs: Programs) -> None:
    # The skipped branch would divide by zero and read far outside.
    body = """
  %out = buffer.view %o[%at0] : buffer -> view<32xindex>
  %c0 = index.constant 0 : index
  %c99 = index.constant 99 : index
  %never = index.cmp ugt, %lane, %c99 : index
  scf.if %never {
    %q = index.div %lane, %c0 : index
    %v = view.load %out[%c99] : view<32xindex> -> index
  }
  view.store %lane, %out[%lane] : index, view<32xindex>"""
    out = np.zeros(32, dtype=np.int64)
    programs.launch(programs.kernel(body, "%o: buffer"), [], [out])
    assert out.tolist() == list(range(32))


def test_faults_of_inactive_lanes_do_not_count(programs: Programs) -> None:
    body = """
  %in = buffer.view %x[%at0] : buffer -> view<32xi32>
  %out = buffer.view %o[%at0] : buffer -> view<32xi32>
  %zero = scalar.constant 0 : i32
  %k = scalar.constant 100 : i32
  %d = view.load %in[%lane] : view<32xi32> -> i32
  %some = scalar.cmpi ne, %d, %zero : i32
  scf.if %some {
    %q = scalar.divsi %k, %d : i32
    view.store %q, %out[%lane] : i32, view<32xi32>
  }"""
    x = (np.arange(32) % 4).astype(np.int32)
    out = np.full(32, -1, dtype=np.int32)
    programs.launch(programs.kernel(body, "%x: buffer, %o: buffer"), [], [x, out])
    assert out.tolist() == [100 // d if d else -1 for d in x.tolist()]


def test_private_scratch_is_per_work_item_and_views_rotate(programs: Programs) -> None:
    body = """
  %out = buffer.view %o[%at0] : buffer -> view<64xi32>
  %at4 = index.constant 4 : offset
  %bytes = index.constant 8 : offset
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %mine = buffer.alloca<private> align(4) %bytes : buffer
  %first = buffer.view %mine[%at0] : buffer -> view<1xi32>
  %second = buffer.view %mine[%at4] : buffer -> view<1xi32>
  %one = scalar.constant 1 : i32
  %seven = scalar.constant 7 : i32
  view.store %one, %first[0] : i32, view<1xi32>
  %last, %spare = scf.for %i = [%c0 to %item step %c1]
    (%now = %first : view<1xi32>, %next = %second : view<1xi32>) -> (view<1xi32>, view<1xi32>) {
    %v = view.load %now[0] : view<1xi32> -> i32
    %u = scalar.addi %v, %seven : i32
    view.store %u, %next[0] : i32, view<1xi32>
    scf.yield %next, %now : view<1xi32>, view<1xi32>
  }
  %r = view.load %last[0] : view<1xi32> -> i32
  view.store %r, %out[%item] : i32, view<64xi32>"""
    out = np.zeros(64, dtype=np.int32)
    programs.launch(programs.kernel(body, "%o: buffer", groups=2), [], [out])
    assert np.array_equal(out, 1 + 7 * np.arange(64))


def test_lanes_select_between_roots(programs: Programs) -> None:
    body = """
  %out = buffer.view %o[%at0] : buffer -> view<32xi32>
  %c2 = index.constant 2 : index
  %c0 = index.constant 0 : index
  %m = index.rem %lane, %c2 : index
  %even = index.cmp eq, %m, %c0 : index
  %src = scf.select %even, %a, %b : buffer
  %in = buffer.view %src[%at0] : buffer -> view<32xi32>
  %v = view.load %in[%lane] : view<32xi32> -> i32
  view.store %v, %out[%lane] : i32, view<32xi32>"""
    a, b, out = np.arange(32, dtype=np.int32), -np.arange(32, dtype=np.int32), np.zeros(32, dtype=np.int32)
    programs.launch(programs.kernel(body, "%a: buffer, %b: buffer, %o: buffer"), [], [a, b, out])
    assert np.array_equal(out, np.where(np.arange(32) % 2 == 0, a, b))


@pytest.mark.parametrize("batch", [1, 64, 1 << 15])
def test_workgroup_storage_is_per_workgroup(programs: Programs, batch: int) -> None:
    body = """
  %in = buffer.view %x[%at0] : buffer -> view<96xf32>
  %out = buffer.view %o[%at0] : buffer -> view<96xf32>
  %bytes = index.constant 128 : offset
  %c31 = index.constant 31 : index
  %shared = buffer.alloca<workgroup> align(16) %bytes : buffer
  %tile = buffer.view %shared[%at0] : buffer -> view<32xf32>
  %v = view.load %in[%item] : view<96xf32> -> f32
  view.store %v, %tile[%lane] : f32, view<32xf32>
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  %other = index.sub %c31, %lane : index
  %w = view.load %tile[%other] : view<32xf32> -> f32
  view.store %w, %out[%item] : f32, view<96xf32>"""
    x, out = np.arange(96, dtype=np.float32), np.zeros(96, dtype=np.float32)
    text = programs.kernel(body, "%x: buffer, %o: buffer", groups=3)
    programs.launch(text, [], [x, out], limits=Limits(batch_lanes=batch))
    assert np.array_equal(out, x.reshape(3, 32)[:, ::-1].reshape(-1))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("i1", np.bool_),
        ("i8", np.int8),
        ("i16", np.int16),
        ("i32", np.int32),
        ("i64", np.int64),
        ("index", np.int64),
        ("offset", np.int64),
        ("f16", np.float16),
        ("bf16", np.uint16),
        ("f32", np.float32),
        ("f64", np.float64),
        ("f8E4M3", np.uint8),
    ],
)
def test_every_element_type_moves_bit_for_bit(programs: Programs, name: str, dtype: type[np.generic]) -> None:
    body = f"""
  %in = buffer.view %x[%at0] : buffer -> view<32x{name}>
  %out = buffer.view %o[%at0] : buffer -> view<32x{name}>
  %v = view.load %in[%lane] : view<32x{name}> -> {name}
  view.store %v, %out[%lane] : {name}, view<32x{name}>"""
    width = np.dtype(dtype).itemsize
    raw = np.random.default_rng(7).integers(0, 256, 32 * width).astype(np.uint8)
    x = (raw & 1 if name == "i1" else raw).view(dtype)
    out = np.zeros(32, dtype=dtype)
    programs.launch(programs.kernel(body, "%x: buffer, %o: buffer"), [], [x, out])
    assert x.tobytes() == out.tobytes()


@pytest.mark.seed("X01")
def test_vectors_cover_trailing_axes(programs: Programs) -> None:
    body = """
  %in = buffer.view %x[%at0] : buffer -> view<4x3x8xf32>
  %out = buffer.view %o[%at0] : buffer -> view<4x2x4xf32>
  %sums = buffer.view %s[%at0] : buffer -> view<4xf32>
  %v = vector.load %in[%lane, 1, 3] : view<4x3x8xf32> -> vector<2x4xf32>
  vector.store %v, %out[%lane, 0, 0] : vector<2x4xf32>, view<4x2x4xf32>
  %zero = scalar.constant 0.0 : f32
  %sum = vector.reduce<addf> %v, %zero : vector<2x4xf32>, f32
  view.store %sum, %sums[%lane] : f32, view<4xf32>"""
    x = np.arange(96, dtype=np.float32).reshape(4, 3, 8)
    out, sums = np.zeros((4, 2, 4), dtype=np.float32), np.zeros(4, dtype=np.float32)
    programs.launch(programs.kernel(body, "%x: buffer, %o: buffer, %s: buffer", size=4), [], [x, out, sums])
    assert np.array_equal(out, x[:, 1:3, 3:7])
    assert np.array_equal(sums, x[:, 1:3, 3:7].sum(axis=(1, 2)))


def test_a_uniform_vector_reduces_with_initial_values_per_lane(programs: Programs) -> None:
    body = """
  %in = buffer.view %x[%at0] : buffer -> view<3xi32>
  %out = buffer.view %o[%at0] : buffer -> view<32xi32>
  %v = vector.load %in[0] : view<3xi32> -> vector<3xi32>
  %first = index.cast %lane : index to i32
  %sum = vector.reduce<addi> %v, %first : vector<3xi32>, i32
  view.store %sum, %out[%lane] : i32, view<32xi32>"""
    x, out = np.asarray([5, 6, 7], dtype=np.int32), np.zeros(32, dtype=np.int32)
    programs.launch(programs.kernel(body, "%x: buffer, %o: buffer"), [], [x, out])
    assert np.array_equal(out, 18 + np.arange(32))


def test_an_empty_vector_touches_no_memory(programs: Programs) -> None:
    body = """
  %in = buffer.view %x[%at0] : buffer -> view<4xf32>
  %far = index.constant 4 : index
  %v = vector.load %in[%far] : view<4xf32> -> vector<0xf32>
  vector.store %v, %in[%far] : vector<0xf32>, view<4xf32>
  %seed = scalar.constant 2.5 : f32
  %r = vector.reduce<mulf> %v, %seed : vector<0xf32>, f32
  %out = buffer.view %o[%at0] : buffer -> view<32xf32>
  view.store %r, %out[%lane] : f32, view<32xf32>"""
    out = np.zeros(32, dtype=np.float32)
    programs.launch(programs.kernel(body, "%x: buffer, %o: buffer"), [], [np.zeros(4, dtype=np.float32), out])
    assert (out == 2.5).all()


def test_calls_run_with_the_lanes_that_call(programs: Programs) -> None:
    extra = """
func.def @triangle(%n: index) -> (index) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  cfg.br ^head(%c0: index, %c0: index)
^head(%i: index, %s: index):
  %more = index.cmp slt, %i, %n : index
  cfg.cond_br %more, ^body, ^done
^body:
  %next = index.add %i, %c1 : index
  %sum = index.add %s, %next : index
  cfg.br ^head(%next: index, %sum: index)
^done:
  func.return %s : index
}"""
    body = """
  %out = buffer.view %o[%at0] : buffer -> view<32xindex>
  %c2 = index.constant 2 : index
  %c0 = index.constant 0 : index
  %m = index.rem %lane, %c2 : index
  %even = index.cmp eq, %m, %c0 : index
  scf.if %even {
    %r = func.call @triangle(%lane) : (index) -> (index)
    view.store %r, %out[%lane] : index, view<32xindex>
  }"""
    out = np.full(32, -1, dtype=np.int64)
    programs.launch(programs.kernel(body, "%o: buffer", extra=extra), [], [out])
    assert out.tolist() == [n * (n + 1) // 2 if n % 2 == 0 else -1 for n in range(32)]


@pytest.mark.parametrize("order", ["^body, ^done", "^done, ^body"])
def test_lanes_that_leave_a_branching_loop_meet_before_the_barrier(programs: Programs, order: str) -> None:
    # Whichever way the exit branch is written, lanes wait for each other behind the loop.
    compare = "slt" if order.startswith("^body") else "sge"
    text = f"""
kernel.def @k() {{
  %unit = index.constant 1 : index
  %size = index.constant 32 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%size, %unit, %unit) : index
}} launch(%o: buffer) {{
  %at0 = index.constant 0 : offset
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c31 = index.constant 31 : index
  %bytes = index.constant 256 : offset
  %lane = kernel.workitem.id<x> : index
  %shared = buffer.alloca<workgroup> align(8) %bytes : buffer
  %tile = buffer.view %shared[%at0] : buffer -> view<32xindex>
  %out = buffer.view %o[%at0] : buffer -> view<32xindex>
  cfg.br ^head(%c0: index)
^head(%i: index):
  %test = index.cmp {compare}, %i, %lane : index
  cfg.cond_br %test, {order}
^done:
  view.store %i, %tile[%lane] : index, view<32xindex>
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  %other = index.sub %c31, %lane : index
  %v = view.load %tile[%other] : view<32xindex> -> index
  view.store %v, %out[%lane] : index, view<32xindex>
  kernel.return
^body:
  %next = index.add %i, %c1 : index
  cfg.br ^head(%next: index)
}}
"""
    out = np.zeros(32, dtype=np.int64)
    programs.launch(text, [], [out])
    assert out.tolist() == list(range(31, -1, -1))


def test_a_grid_without_workgroups_runs_nothing(programs: Programs) -> None:
    body = "  %zero = index.constant 0 : index\n  %bad = index.div %zero, %zero : index"
    programs.launch(programs.kernel(body, "%o: buffer", groups=0), [], [np.zeros(1, dtype=np.uint8)])


def test_subgroup_coordinates_need_a_target(programs: Programs) -> None:
    body = """
  %out = buffer.view %o[%at0] : buffer -> view<40x3xindex>
  %id = kernel.subgroup.id : index
  %in = kernel.subgroup.lane.id : index
  %count = kernel.subgroup.count : index
  view.store %id, %out[%lane, 0] : index, view<40x3xindex>
  view.store %in, %out[%lane, 1] : index, view<40x3xindex>
  view.store %count, %out[%lane, 2] : index, view<40x3xindex>"""
    text = programs.kernel(body, "%o: buffer", size=40)
    out = np.zeros((40, 3), dtype=np.int64)
    programs.launch(text, [], [out], facts={"subgroup_size": 16})
    assert out.tolist() == [[i // 16, i % 16, 3] for i in range(40)]
    diagnostic = programs.fault(lambda: programs.launch(text, [], [out]))
    assert diagnostic.code == "TARGET/001"
    assert programs.source_line(diagnostic).startswith("%id = kernel.subgroup.id")


def test_workgroups_pass_different_numbers_of_barriers(programs: Programs) -> None:
    body = """
  %bytes = index.constant 64 : offset
  %shared = buffer.alloca<workgroup> align(8) %bytes : buffer
  %tile = buffer.view %shared[%at0] : buffer -> view<8xindex>
  %out = buffer.view %o[%at0] : buffer -> view<32xindex>
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c7 = index.constant 7 : index
  %group = kernel.workgroup.id<x> : index
  %next_lane = index.add %lane, %c1 : index
  %from = index.andi %next_lane, %c7 : index
  %last = scf.for %i = [%c0 to %group step %c1](%v = %lane : index) -> (index) {
    view.store %v, %tile[%lane] : index, view<8xindex>
    kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
    %w = view.load %tile[%from] : view<8xindex> -> index
    kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
    scf.yield %w : index
  }
  view.store %last, %out[%item] : index, view<32xindex>"""
    out = np.zeros(32, dtype=np.int64)
    programs.launch(programs.kernel(body, "%o: buffer", size=8, groups=4), [], [out])
    assert out.tolist() == [(lane + group) % 8 for group in range(4) for lane in range(8)]
