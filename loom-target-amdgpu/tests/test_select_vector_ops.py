"""Vector operations beyond lane-wise arithmetic agree with the reference evaluator on every processor family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import TARGETS, agree, compile_text, run_both

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(31)
COUNT = 96
STORED = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "f16": "f2", "bf16": "u2", "f32": "f4", "f64": "f8"}


def rows(body: str, inputs: list[tuple[str, int]], output: tuple[str, int]) -> str:
    """A kernel with one row of every buffer per work-item: loads %x0, %x1, ..., runs ``body``, stores %r."""
    parameters = "".join(f"%p{i}: buffer, " for i in range(len(inputs)))
    lines = []
    for i, (type_, width) in enumerate(inputs):
        view = f"view<{COUNT}x{width}x{type_}>"
        lines.append(f"  %v{i} = buffer.view %p{i}[%origin] : buffer -> {view}")
        lines.append(f"  %x{i} = vector.load %v{i}[%i, 0] : {view} -> vector<{width}x{type_}>")
    view = f"view<{COUNT}x{output[1]}x{output[0]}>"
    text = "\n".join(lines)
    return f"""kernel.def export("k") @k() {{
  %unit = index.constant 1 : index
  %width = index.constant {COUNT} : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
}} launch({parameters}%out: buffer) {{
  %i = kernel.workitem.id<x> : index
  %origin = index.constant 0 : offset
{text}
  %vo = buffer.view %out[%origin] : buffer -> {view}
{body}
  vector.store %r, %vo[%i, 0] : vector<{output[1]}x{output[0]}>, {view}
  kernel.return
}}
"""


def noise(type_: str, width: int) -> Array:
    kind = STORED[type_]
    if kind[0] == "f":
        with np.errstate(all="ignore"):
            return (RNG.standard_normal((COUNT, width)) * 2.0 ** RNG.integers(-3, 4, (COUNT, width))).astype(kind)
    info = np.iinfo(kind)
    return RNG.integers(info.min, info.max, (COUNT, width), dtype=kind, endpoint=True)


def check(body: str, inputs: list[tuple[str, int]], output: tuple[str, int], target: str, *given: Array) -> None:
    arrays = list(given) or [noise(*i) for i in inputs]
    agree(rows(body, inputs, output), target, [], [*arrays, np.zeros((COUNT, output[1]), STORED[output[0]])])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("width", "source", "lanes", "result", "out"),
    [
        (3, "i8", 8, "i8", 3), (5, "i16", 32, "i32", 5), (7, "i32", 32, "i16", 14), (12, "i16", 8, "i32", 3),
        (20, "i32", 16, "i64", 5), (33, "i64", 32, "i32", 33), (1, "i8", 16, "i16", 1), (32, "i32", 4, "i64", 2),
    ],
)  # fmt: skip
def test_bit_streams(width: int, source: str, lanes: int, result: str, out: int, target: str) -> None:
    """Fields straddle lanes and words; upper bits of sources do not count."""
    check(f"  %r = vector.bitpack<{width}> %x0 : vector<{lanes}x{source}> -> vector<{out}x{result}>",
          [(source, lanes)], (result, out), target)  # fmt: skip
    for kind in "us":
        check(f"  %r = vector.bitunpack{kind}<{width}> %x0 : vector<{out}x{result}> -> vector<{lanes}x{source}>",
              [(result, out)], (source, lanes), target)  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("field", "base", "offset", "width"),
    [("i16", "i8", 5, 3), ("i32", "i32", 0, 32), ("i32", "i32", 7, 11), ("i64", "i64", 20, 40), ("i8", "i64", 60, 4)],
)
def test_bit_field_insertion(field: str, base: str, offset: int, width: int, target: str) -> None:
    body = (
        f"  %r = vector.bitfield.insert %x0 into %x1 {{offset = {offset}, width = {width}}}"
        f" : vector<4x{field}>, vector<4x{base}>"
    )
    check(body, [(field, 4), (base, 4)], (base, 4), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("source", "lanes", "result", "out"),
    [("i8", 8, "i32", 2), ("i32", 2, "i8", 8), ("i16", 4, "i64", 1), ("i64", 2, "i32", 4), ("f32", 2, "i16", 4)],
)
def test_bit_casts_that_change_lanes(source: str, lanes: int, result: str, out: int, target: str) -> None:
    body = f"  %r = vector.bitcast %x0 : vector<{lanes}x{source}> to vector<{out}x{result}>"
    check(body, [(source, lanes)], (result, out), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", ["f16", "f32", "f64"])
@pytest.mark.parametrize(("nan", "tie"), [("zero", "lower"), ("max", "upper")])
def test_quantization(nan: str, tie: str, type_: str, target: str) -> None:
    values = noise(type_, 4)
    values[::7, 1] = np.nan
    values[::5, 2] = 0.5
    thresholds = np.tile(np.array([-1.5, -0.5, 0.5, 0.5, 2.0], STORED[type_]), (COUNT, 1))
    body = (
        f"  %r = vector.table.quantize %x0, %x1 {{nan = {nan}, tie = {tie}}}"
        f" : vector<4x{type_}>, vector<5x{type_}> -> vector<4xi8>"
    )
    check(body, [(type_, 4), (type_, 5)], ("i8", 4), target, values, thresholds)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("normalization", ["none", "orthonormal"])
def test_hadamard_transforms(normalization: str, type_: str, target: str) -> None:
    values = noise(type_, 8)
    if type_ == "bf16":
        values = (RNG.standard_normal((COUNT, 8)).astype("f4").view("u4") >> 16).astype("u2")
    body = (
        f"  %h = encoding.define #transform.hadamard<normalization={normalization}> : encoding<transform>\n"
        f"  %r = vector.transform %x0, %h : vector<8x{type_}>, encoding<transform> -> vector<8x{type_}>"
    )
    check(body, [(type_, 8)], (type_, 8), target, values)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", ["f16", "bf16"])
def test_pairs_of_halves(type_: str, target: str) -> None:
    a, b = noise(type_, 4), noise(type_, 4)
    if type_ == "bf16":
        a, b = ((RNG.standard_normal((COUNT, 4)).astype("f4").view("u4") >> 16).astype("u2") for _ in range(2))
    body = f"  %r = vector.dot2f %x0, %x1, %x2 : vector<4x{type_}>, vector<4x{type_}>, vector<2xf32>"
    check(body, [(type_, 4), (type_, 4), ("f32", 2)], ("f32", 2), target, a, b, noise("f32", 2))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("formats", ["fp8fp8", "fp8bf8", "bf8fp8", "bf8bf8"])
def test_four_narrow_floats(formats: str, target: str) -> None:
    body = f"  %r = vector.dot4f8<{formats}> %x0, %x1, %x2 : vector<2xi32>, vector<2xf32>"
    check(body, [("i32", 2), ("i32", 2), ("f32", 2)], ("f32", 2), target)


def sparse(op: str) -> str:
    """Lanes with an odd number take part."""
    return f"""kernel.def export("k") @k() {{
  %unit = index.constant 1 : index
  %width = index.constant {COUNT} : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
}} launch(%p: buffer, %q: buffer, %out: buffer) {{
  %i = kernel.workitem.id<x> : index
  %origin = index.constant 0 : offset
  %v = buffer.view %p[%origin] : buffer -> view<{COUNT}x5xi32>
  %w = buffer.view %q[%origin] : buffer -> view<{COUNT}x5xi32>
  %o = buffer.view %out[%origin] : buffer -> view<{COUNT}x5xi32>
  %x = vector.load %v[%i, 0] : view<{COUNT}x5xi32> -> vector<5xi32>
  %old = vector.load %w[%i, 0] : view<{COUNT}x5xi32> -> vector<5xi32>
  %zero = vector.constant 0 : vector<5xi32>
  %m = vector.cmpi slt, %x, %zero : vector<5xi32> -> vector<5xi1>
{op}
  kernel.return
}}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_dense_memory_for_sparse_lanes(target: str) -> None:
    view = f"view<{COUNT}x5xi32>"
    expand = f"""  %r = vector.load.expand %w[%i, 0], %m, %x : {view}, vector<5xi1>, vector<5xi32>
  vector.store %r, %o[%i, 0] : vector<5xi32>, {view}"""
    compress = f"  vector.store.compress %old, %o[%i, 0], %m : vector<5xi32>, {view}, vector<5xi1>"
    for text in (expand, compress):
        agree(sparse(text), target, [], [noise("i32", 5), noise("i32", 5), noise("i32", 5)])


ATOMIC = """kernel.def export("k") @k() {{
  %unit = index.constant 1 : index
  %width = index.constant 64 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
}} launch(%p: buffer, %bins: buffer, %out: buffer) {{
  %i = kernel.workitem.id<x> : index
  %origin = index.constant 0 : offset
  %v = buffer.view %p[%origin] : buffer -> view<64x3xi32>
  %b = buffer.view %bins[%origin] : buffer -> view<256xi32>
  %o = buffer.view %out[%origin] : buffer -> view<64x3xi32>
  %x = vector.load %v[%i, 0] : view<64x3xi32> -> vector<3xi32>
  %zero = vector.constant 0 : vector<3xi32>
  %m = vector.cmpi slt, %x, %zero : vector<3xi32> -> vector<3xi1>
  %lane = index.cast %i : index to i32
  %three = scalar.constant 3 : i32
  %base = scalar.muli %lane, %three : i32
  %one = scalar.constant 1 : i32
  %own = vector.iota %base step %one : vector<3xi32>
{op}
  kernel.return
}}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["addi", "minsi", "maxui", "xori", "xchgi"])
def test_vector_atomics(kind: str, target: str) -> None:
    """Old values are those of the memory before; lanes that are off pass another value through."""
    head = "{ordering = relaxed, scope = device}"
    store = "  vector.store %r, %o[%i, 0] : vector<3xi32>, view<64x3xi32>"
    types = "vector<3xi32>, view<256xi32>, vector<3xi32>"
    ops = [
        f"  vector.atomic.reduce<{kind}> %x, %b[0][%own] {head} : {types}",
        f"  vector.atomic.reduce.mask<{kind}> %x, %b[0][%own], %m {head} : {types}, vector<3xi1>",
        f"  %r = vector.atomic.rmw<{kind}> %x, %b[0][%own] {head} : {types}\n{store}",
        f"  %r = vector.atomic.rmw.mask<{kind}> %x, %b[0][%own], %m, %x {head}"
        f" : {types}, vector<3xi1>, vector<3xi32>\n{store}",
    ]
    if kind == "xchgi":
        ops = ops[2:]
    values = RNG.integers(-1000, 1000, (64, 3)).astype("i4")
    bins = RNG.integers(-1000, 1000, 256).astype("i4")
    for op in ops:
        agree(ATOMIC.format(op=op), target, [], [values, bins, np.zeros((64, 3), "i4")])


@pytest.mark.parametrize("target", TARGETS)
def test_vector_compare_exchange(target: str) -> None:
    op = """  %n = vector.addi %x, %own : vector<3xi32>
  %r = vector.atomic.cmpxchg %x, %n, %b[0][%own] {failure_ordering = relaxed, scope = device, success_ordering = relaxed}
    : vector<3xi32>, view<256xi32>, vector<3xi32> -> vector<3xi32>
  vector.store %r, %o[%i, 0] : vector<3xi32>, view<64x3xi32>"""
    values = RNG.integers(0, 3, (64, 3)).astype("i4")
    bins = RNG.integers(0, 3, 256).astype("i4")
    agree(ATOMIC.format(op=op), target, [], [values, bins, np.zeros((64, 3), "i4")])


@pytest.mark.parametrize("target", TARGETS)
def test_duplicate_addresses_are_combined(target: str) -> None:
    """All lanes of all work-items add to one of four bins."""
    op = """  %mask = vector.constant 3 : vector<3xi32>
  %bin = vector.andi %own, %mask : vector<3xi32>
  vector.atomic.reduce<addi> %x, %b[0][%bin] {ordering = relaxed, scope = device}
    : vector<3xi32>, view<256xi32>, vector<3xi32>"""
    values = RNG.integers(-1000, 1000, (64, 3)).astype("i4")
    machine, expected = run_both(ATOMIC.format(op=op), target, [], [values, np.zeros(256, "i4"), np.zeros((64, 3), "i4")])
    assert np.array_equal(machine[1], expected[1])
    assert machine[1].sum() == values.sum()


PAIRS = [
    *((name, "f16", 2) for name in ("addf", "subf", "mulf")), ("fmaf", "f16", 3), ("negf", "f16", 1), ("absf", "bf16", 1),
    *((name, "i16", 2) for name in ("addi", "subi", "muli", "minsi", "maxsi", "minui", "maxui", "andi", "ori", "xori")),
    ("fmai", "i16", 3),
]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("name", "type_", "operands"), PAIRS)
def test_pairs_of_16_bit_elements(name: str, type_: str, operands: int, target: str) -> None:
    """One instruction for two elements; nothing takes them apart between load and store."""
    given = ", ".join(f"%x{i}" for i in range(operands))
    body = f"  %r = vector.{name} {given} : vector<6x{type_}>"
    inputs = [(type_, 6)] * operands
    arrays = [noise(type_, 6) for _ in inputs]
    if type_ == "f16":
        edges = np.array([0, -0.0, 65504, 6e-8, np.inf, -np.inf, np.nan, 1, 3e-5], "f2")
        for array in arrays:
            array[: COUNT // 2] = RNG.choice(edges, (COUNT // 2, 6))
    check(body, inputs, (type_, 6), target, *arrays)
    low = compile_text(rows(body, inputs, (type_, 6)), target).low_text
    if name not in ("negf", "absf", "andi", "ori", "xori"):
        assert low.count("= v_pk_") == 3
    # Addresses are shifted to the left.
    assert "v_lshrrev_b32" not in low


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["shli", "shrui", "shrsi"])
def test_shifts_of_pairs(name: str, target: str) -> None:
    amounts = RNG.integers(0, 16, (COUNT, 4)).astype("i2")
    body = f"  %r = vector.{name} %x0, %x1 : vector<4xi16>"
    check(body, [("i16", 4), ("i16", 4)], ("i16", 4), target, noise("i16", 4), amounts)


@pytest.mark.parametrize("target", TARGETS)
def test_pairs_with_one_value_for_all(target: str) -> None:
    """A value for all elements is doubled once; what works on single elements takes pairs apart."""
    body = """  %half = scalar.constant 0.5 : f16
  %all = vector.splat %half : vector<4xf16>
  %scaled = vector.mulf %x0, %all : vector<4xf16>
  %e = vector.extract %x0[3] : vector<4xf16> -> f16
  %own = vector.splat %e : vector<4xf16>
  %sum = vector.fmaf %scaled, %own, %all : vector<4xf16>
  %r = vector.maximumf %sum, %x0 : vector<4xf16>"""
    check(body, [("f16", 4)], ("f16", 4), target)
