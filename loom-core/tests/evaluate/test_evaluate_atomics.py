"""Atomics of elements and vectors: sequential models, races, contention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

Programs = Any

INTEGER_KINDS = {
    "xchgi": lambda old, x: x,
    "addi": lambda old, x: old + x,
    "subi": lambda old, x: old - x,
    "andi": lambda old, x: old & x,
    "ori": lambda old, x: old | x,
    "xori": lambda old, x: old ^ x,
    "minsi": min,
    "maxsi": max,
    "minui": lambda old, x: min(old, x, key=lambda v: v % 2**32),
    "maxui": lambda old, x: max(old, x, key=lambda v: v % 2**32),
}


def wrapped(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def model(kind: Any, memory: Any, places: Any, operands: Any) -> list[int]:
    """The old values of atomics made one after the other."""
    seen = []
    for at, operand in zip(places, operands, strict=True):
        seen.append(int(memory[at]))
        memory[at] = wrapped(kind(int(memory[at]), int(operand)))
    return seen


@pytest.mark.parametrize("kind", INTEGER_KINDS)
@pytest.mark.parametrize("spread", [1, 3, 64])
def test_integer_kinds_in_lane_order(programs: Programs, kind: str, spread: int) -> None:
    rng = np.random.default_rng(spread)
    places = rng.integers(0, spread, 64)
    operands = rng.choice(np.array([0, 1, -1, 2**31 - 1, -(2**31), 77, -5]), 64).astype(np.int32)
    memory = rng.integers(-(2**31), 2**31, spread).astype(np.int32)
    want, old = memory.copy(), np.zeros(64, dtype=np.int32)
    text = programs.kernel(
        f"""
  %pv = buffer.view %p[%at0] : buffer -> view<64xindex>
  %xv = buffer.view %x[%at0] : buffer -> view<64xi32>
  %mv = buffer.view %m[%at0] : buffer -> view<{spread}xi32>
  %ov = buffer.view %o[%at0] : buffer -> view<64xi32>
  %i = view.load %pv[%item] : view<64xindex> -> index
  %x0 = view.load %xv[%item] : view<64xi32> -> i32
  %old = view.atomic.rmw<{kind}> %x0, %mv[%i] {{ordering = relaxed, scope = device}}
    : i32, view<{spread}xi32> -> i32
  view.store %old, %ov[%item] : i32, view<64xi32>""",
        "%p: buffer, %x: buffer, %m: buffer, %o: buffer",
        size=32,
        groups=2,
    )
    programs.launch(text, [], [places, operands, memory, old])
    assert list(old) == model(INTEGER_KINDS[kind], want, places, operands)
    assert np.array_equal(memory, want)


@pytest.mark.parametrize("kind", ["xchgf", "addf", "minimumf", "maximumf", "minnumf", "maxnumf"])
def test_float_kinds_in_lane_order(programs: Programs, kind: str) -> None:
    operands = np.array([0.1, -0.0, 1e8, 1.0, np.nan, -1e8, 0.0, 3.0], dtype=np.float32)
    if kind == "addf":
        operands[4] = 1e-45
    places = np.array([0, 1, 0, 0, 1, 0, 1, 0], dtype=np.int32)
    memory = np.array([0.5, 0.0], dtype=np.float32)
    kinds: dict[str, Any] = {
        "xchgf": lambda a, x: x,
        "addf": lambda a, x: np.float32(a + x),
        "minimumf": np.minimum,
        "maximumf": np.maximum,
        "minnumf": np.fmin,
        "maxnumf": np.fmax,
    }
    pick = kinds[kind]
    want, seen = memory.copy(), []
    for at, x in zip(places, operands, strict=True):
        seen.append(want[at])
        want[at] = pick(want[at], x)
    text = f"""
func.def public @f(%m: buffer, %x: vector<8xf32>, %o: vector<8xi32>) -> (vector<8xf32>) {{
  %at0 = index.constant 0 : offset
  %mv = buffer.view %m[%at0] : buffer -> view<2xf32>
  %old = vector.atomic.rmw<{kind}> %x, %mv[0][%o] {{ordering = relaxed, scope = device}}
    : vector<8xf32>, view<2xf32>, vector<8xi32>
  func.return %old : vector<8xf32>
}}
"""
    (old,) = programs.call(text, "f", [memory, operands, places])
    assert np.array_equal(old, np.array(seen), equal_nan=True)
    assert np.array_equal(memory, want, equal_nan=True)


@pytest.mark.seed("J07", "J08")
def test_no_flush_of_subnormals(programs: Programs) -> None:
    text = """
func.def public @f(%b: buffer, %x: f32, %m: vector<2xi1>) -> (f32, vector<2xf32>, vector<2xf32>) {
  %at0 = index.constant 0 : offset
  %v = buffer.view %b[%at0] : buffer -> view<2xf32>
  %xs = vector.splat %x : vector<2xf32>
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %o = vector.iota %zero step %one : vector<2xindex>
  view.atomic.reduce<addf, noftz> %x, %v[0] {ordering = relaxed, scope = device} : f32, view<2xf32>
  %r0 = view.atomic.rmw<addf, noftz> %x, %v[0] {ordering = relaxed, scope = device} : f32, view<2xf32> -> f32
  vector.atomic.reduce<addf, noftz> %xs, %v[0][%o] {ordering = relaxed, scope = device}
    : vector<2xf32>, view<2xf32>, vector<2xindex>
  %r1 = vector.atomic.rmw<addf, noftz> %xs, %v[0][%o] {ordering = relaxed, scope = device}
    : vector<2xf32>, view<2xf32>, vector<2xindex>
  vector.atomic.reduce.mask<addf, noftz> %xs, %v[0][%o], %m {ordering = relaxed, scope = device}
    : vector<2xf32>, view<2xf32>, vector<2xindex>, vector<2xi1>
  %r2 = vector.atomic.rmw.mask<addf, noftz> %xs, %v[0][%o], %m, %xs {ordering = relaxed, scope = device}
    : vector<2xf32>, view<2xf32>, vector<2xindex>, vector<2xi1>, vector<2xf32>
  func.return %r0, %r1, %r2 : f32, vector<2xf32>, vector<2xf32>
}
"""
    tiny = np.float32(1e-45)
    memory = np.array([tiny, -0.0], dtype=np.float32)
    r0, r1, r2 = programs.call(text, "f", [memory, tiny, np.array([True, False])])
    # In units of the smallest subnormal.
    assert r0 == 2 * tiny
    assert list(r1 / tiny) == [4, 1]
    assert list(r2 / tiny) == [6, 1]
    assert list(memory / tiny) == [7, 2]


def test_masked_vector_atomics(programs: Programs) -> None:
    text = """
func.def public @f(%b: buffer, %x: vector<5xi32>, %o: vector<5xi8>, %m: vector<5xi1>) -> (vector<5xi32>) {
  %at0 = index.constant 0 : offset
  %v = buffer.view %b[%at0] : buffer -> view<2x4xi32>
  %row = index.constant 1 : index
  vector.atomic.reduce.mask<addi> %x, %v[%row, 1][%o], %m {ordering = relaxed, scope = device}
    : vector<5xi32>, view<2x4xi32>, vector<5xi8>, vector<5xi1>
  %pass = vector.constant -9 : vector<5xi32>
  %old = vector.atomic.rmw.mask<maxsi> %x, %v[%row, 1][%o], %m, %pass {ordering = relaxed, scope = device}
    : vector<5xi32>, view<2x4xi32>, vector<5xi8>, vector<5xi1>, vector<5xi32>
  func.return %old : vector<5xi32>
}
"""
    memory = np.arange(8, dtype=np.int32)
    x = np.array([10, 20, 30, 40, 50], dtype=np.int32)
    offsets = np.array([0, 2, 0, 99, -1], dtype=np.int8)
    (old,) = programs.call(text, "f", [memory, x, offsets, np.array([1, 1, 1, 0, 1], dtype=bool)])
    assert np.array_equal(memory, [0, 1, 2, 3, 54, 45, 6, 27])
    assert np.array_equal(old, [45, 27, 45, -9, 54])
    before = memory.copy()
    (old,) = programs.call(text, "f", [memory, x, offsets + 90, np.zeros(5, dtype=bool)])
    assert np.array_equal(old, [-9] * 5)
    assert np.array_equal(memory, before)


def test_compare_exchange_compares_bits(programs: Programs) -> None:
    text = """
func.def public @f(%b: buffer, %e: vector<4xf32>, %n: vector<4xf32>, %o: vector<4xindex>) -> (vector<4xf32>) {
  %at0 = index.constant 0 : offset
  %v = buffer.view %b[%at0] : buffer -> view<4xf32>
  %old = vector.atomic.cmpxchg %e, %n, %v[0][%o]
    {failure_ordering = relaxed, scope = device, success_ordering = relaxed}
    : vector<4xf32>, view<4xf32>, vector<4xindex> -> vector<4xf32>
  func.return %old : vector<4xf32>
}
"""
    memory = np.array([np.nan, 0.0, 5.0, 7.0], dtype=np.float32)
    expected = np.array([np.nan, -0.0, 5.0, 6.0], dtype=np.float32)
    new = np.array([1, 2, 6, 8], dtype=np.float32)
    (old,) = programs.call(text, "f", [memory, expected, new, np.array([0, 1, 2, 2])])
    assert np.array_equal(old, np.array([np.nan, 0.0, 5.0, 6.0], dtype=np.float32), equal_nan=True)
    assert np.array_equal(memory, [1.0, 0.0, 8.0, 7.0])


def test_one_work_item_wins_a_compare_exchange(programs: Programs) -> None:
    text = programs.kernel(
        """
  %v = buffer.view %b[%at0] : buffer -> view<1xi32>
  %w = buffer.view %won[%at0] : buffer -> view<32xi32>
  %free = scalar.constant -1 : i32
  %me = index.cast %lane : index to i32
  %old = view.atomic.cmpxchg %free, %me, %v[0]
    {failure_ordering = relaxed, scope = device, success_ordering = acq_rel} : i32, view<1xi32> -> i32
  %first = scalar.cmpi eq, %old, %free : i32
  %r = scalar.extui %first : i1 to i32
  view.store %r, %w[%lane] : i32, view<32xi32>""",
        "%b: buffer, %won: buffer",
    )
    memory, won = np.array([-1], dtype=np.int32), np.zeros(32, dtype=np.int32)
    programs.launch(text, [], [memory, won])
    assert won.sum() == 1
    assert won[memory[0]] == 1


ACCESSES = {
    "plain read": "%r = view.load %v[0] : view<1xi32> -> i32",
    "plain write": "view.store %x, %v[0] : i32, view<1xi32>",
    "atomic read": "%r = view.atomic.load %v[0] {ordering = relaxed, scope = device} : view<1xi32> -> i32",
    "atomic write": "view.atomic.store %x, %v[0] {ordering = relaxed, scope = device} : i32, view<1xi32>",
    "atomic change": "view.atomic.reduce<addi> %x, %v[0] {ordering = relaxed, scope = device} : i32, view<1xi32>",
}


@pytest.mark.parametrize("first", ACCESSES)
@pytest.mark.parametrize("second", ACCESSES)
@pytest.mark.seed("J06")
def test_plain_accesses_race_with_atomic_ones(programs: Programs, first: str, second: str) -> None:
    def body(between: str) -> str:
        return f"""
  %v = buffer.view %b[%at0] : buffer -> view<1xi32>
  %x = scalar.constant 1 : i32
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %is0 = index.cmp eq, %lane, %c0 : index
  %is1 = index.cmp eq, %lane, %c1 : index
  scf.if %is0 {{
    {ACCESSES[first]}
  }}
  {between}
  scf.if %is1 {{
    {ACCESSES[second]}
  }}"""

    memory = [np.zeros(1, dtype=np.int32)]
    barrier = "kernel.barrier<global> scope(workgroup) ordering(acq_rel)"
    programs.launch(programs.kernel(body(barrier), "%b: buffer"), [], memory)
    pair = f"{first} {second}"
    if "plain" in pair and ("write" in pair or "change" in pair):
        text = programs.kernel(body(""), "%b: buffer")
        fault = programs.fault(lambda: programs.launch(text, [], memory))
        assert fault.code == "EVALUATE/005"
        assert "work-item (0, 0, 0)" in fault.message
    else:
        programs.launch(programs.kernel(body(""), "%b: buffer"), [], memory)


def test_the_last_workgroup_may_read_what_the_others_published(programs: Programs) -> None:
    """Partial sums and a counter: the acquiring increment orders the plain accesses."""

    def text(ordering: str) -> str:
        body = f"""
  %pv = buffer.view %partial[%at0] : buffer -> view<4xi32>
  %cv = buffer.view %count[%at0] : buffer -> view<1xi32>
  %ov = buffer.view %out[%at0] : buffer -> view<1xi32>
  %g = kernel.workgroup.id<x> : index
  %gi = index.cast %g : index to i32
  view.store %gi, %pv[%g] : i32, view<4xi32>
  %one = scalar.constant 1 : i32
  %three = scalar.constant 3 : i32
  %before = view.atomic.rmw<addi> %one, %cv[0] {{ordering = {ordering}, scope = device}} : i32, view<1xi32> -> i32
  %last = scalar.cmpi eq, %before, %three : i32
  scf.if %last {{
    %zero = scalar.constant 0 : i32
    %all = vector.load %pv[0] : view<4xi32> -> vector<4xi32>
    %sum = vector.reduce<addi> %all, %zero : vector<4xi32>, i32
    view.store %sum, %ov[0] : i32, view<1xi32>
  }}"""
        return str(programs.kernel(body, "%partial: buffer, %count: buffer, %out: buffer", size=1, groups=4))

    arrays = [np.zeros(4, dtype=np.int32), np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int32)]
    programs.launch(text("acq_rel"), [], arrays)
    assert arrays[2][0] == 6
    arrays[1][0] = 0
    assert programs.fault(lambda: programs.launch(text("relaxed"), [], arrays)).code == "EVALUATE/005"


def test_atomics_check_place_value_and_alignment(programs: Programs) -> None:
    text = """
func.def public @f(%b: buffer, %at: offset, %i: index, %x: i32) {
  %v = buffer.view %b[%at] : buffer -> view<4xi32>
  view.atomic.reduce<addi> %x, %v[%i] {ordering = relaxed, scope = device} : i32, view<4xi32>
  func.return
}
func.def public @fresh(%x: i32) -> (i32) {
  %at = index.constant 0 : offset
  %bytes = index.constant 4 : offset
  %b = buffer.alloca<private> align(4) %bytes : buffer
  %v = buffer.view %b[%at] : buffer -> view<1xi32>
  %old = view.atomic.rmw<addi> %x, %v[0] {ordering = relaxed, scope = thread} : i32, view<1xi32> -> i32
  func.return %old : i32
}
"""
    memory = np.zeros(4, dtype=np.int32)
    for arguments, code in (([0, 4], "EVALUATE/002"), ([4, 3], "EVALUATE/002"), ([2, 0], "EVALUATE/003")):
        assert programs.fault(lambda a=arguments: programs.call(text, "f", [memory, *a, 1])).code == code
    assert programs.fault(lambda: programs.call(text, "fresh", [1])).code == "EVALUATE/004"
    memory.flags.writeable = False
    assert programs.fault(lambda: programs.call(text, "f", [memory, 0, 0, 1])).code == "EVALUATE/010"


def test_contended_counters_take_one_step_each(programs: Programs) -> None:
    text = programs.kernel(
        """
  %cv = buffer.view %c[%at0] : buffer -> view<1xi32>
  %ov = buffer.view %o[%at0] : buffer -> view<65536xi32>
  %one = scalar.constant 1 : i32
  %old = view.atomic.rmw<addi> %one, %cv[0] {ordering = relaxed, scope = device} : i32, view<1xi32> -> i32
  view.store %old, %ov[%item] : i32, view<65536xi32>
  view.prefetch %ov[%item] {intent = read, locality = l1} : view<65536xi32>""",
        "%c: buffer, %o: buffer",
        size=256,
        groups=256,
    )
    counter, old = np.zeros(1, dtype=np.int32), np.zeros(65536, dtype=np.int32)
    programs.launch(text, [], [counter, old])
    assert counter[0] == 65536
    assert np.array_equal(old, np.arange(65536))


@pytest.mark.parametrize(
    ("scope", "groups", "races"),
    [
        ("workgroup", 1, False), ("workgroup", 2, True), ("device", 2, False), ("system", 2, False),
        ("subgroup", 1, True), ("thread", 1, True),
    ],
)  # fmt: skip
@pytest.mark.seed("J06")
def test_atomics_are_atomic_within_their_scope(programs: Programs, scope: str, groups: int, races: bool) -> None:
    body = f"""
  %v = buffer.view %o[%at0] : buffer -> view<1xi32>
  %one = scalar.constant 1 : i32
  view.atomic.reduce<addi> %one, %v[0] {{ordering = relaxed, scope = {scope}}} : i32, view<1xi32>"""
    text = programs.kernel(body, "%o: buffer", size=16, groups=groups)
    out = np.zeros(1, dtype=np.int32)

    def launch() -> None:
        programs.launch(text, [], [out], facts={"subgroup_size": 8})

    if not races:
        launch()
        assert out[0] == 16 * groups
        return
    found = programs.fault(launch)
    assert found.code == "EVALUATE/005"
    assert "in a scope that does not hold both" in found.message
