"""Making vectors, moving lanes and register tables, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

Programs = Any

GRID = np.arange(3 * 2 * 3 * 4, dtype=np.int32).reshape(3, 2, 3, 4)


def test_constants_and_splats(programs: Programs) -> None:
    scalars = np.array([1.5, -0.0, np.nan], dtype=np.float32)
    lines = """
  %c = vector.constant -7 : vector<2x3xi16>
  %h = vector.constant 0.1 : vector<2xbf16>
  %t = vector.constant true : vector<3xi1>
  %s = vector.splat %x : vector<2x2xf32>"""
    c, h, t, s = programs.operation(
        lines,
        {"x": ("f32", scalars)},
        {"c": "vector<2x3xi16>", "h": "vector<2xbf16>", "t": "vector<3xi1>", "s": "vector<2x2xf32>"},
    )
    assert np.array_equal(c, np.full((3, 2, 3), -7))
    assert np.array_equal(h, np.full((3, 2), 0x3DCD))
    assert np.array_equal(t, np.ones((3, 3)))
    assert s.tobytes() == np.broadcast_to(scalars[:, None, None], (3, 2, 2)).tobytes()


def test_iota_counts_row_major_and_wraps(programs: Programs) -> None:
    base = np.array([120, -128, 0], dtype=np.int8)
    step = np.array([3, -1, 0], dtype=np.int8)
    (r,) = programs.operation(
        "  %r = vector.iota %b step %s : vector<2x3xi8>",
        {"b": ("i8", base), "s": ("i8", step)},
        {"r": "vector<2x3xi8>"},
    )
    want = base.astype(int)[:, None] + np.arange(6) * step.astype(int)[:, None]
    assert np.array_equal(r.reshape(3, 6), want.astype(np.int8))


@pytest.mark.parametrize(
    ("lower", "upper", "step", "want"),
    [
        (2, 9, 3, [1, 1, 1, 0]),
        (7, 2, -4, [0, 0, 1, 1]),
        (5, 5, 1, [0, 0, 0, 0]),
        (-3, 0, 1, [1, 1, 1, 0]),
        (2**63 - 2, 2**63 - 1, 1, [1, 0, 1, 1]),  # lane arithmetic wraps
    ],
)
def test_ranges_as_masks(programs: Programs, lower: int, upper: int, step: int, want: list[int]) -> None:
    inputs = {n: ("index", np.array([v, v])) for n, v in (("lo", lower), ("hi", upper), ("st", step))}
    (m,) = programs.operation(
        "  %m = vector.mask.range [%lo to %hi step %st] : index -> vector<4xi1>", inputs, {"m": "vector<4xi1>"}
    )
    assert np.array_equal(m, [want] * 2)


def test_elements_and_broadcasts(programs: Programs) -> None:
    a, b = np.array([1, 2, 3], dtype=np.int32), np.array([-1, -2, -3], dtype=np.int32)
    lines = """
  %e = vector.from_elements %a, %b, %a, %b : vector<2x2xi32>
  %p = vector.from_elements %a, %b : vector<2x1xi32>
  %w = vector.broadcast %p : vector<2x1xi32> -> vector<3x2x4xi32>"""
    e, w = programs.operation(
        lines, {"a": ("i32", a), "b": ("i32", b)}, {"e": "vector<2x2xi32>", "w": "vector<3x2x4xi32>"}
    )
    assert np.array_equal(e.reshape(3, 4), np.stack([a, b, a, b], axis=1))
    assert np.array_equal(w, np.broadcast_to(np.stack([a, b], axis=1)[:, None, :, None], (3, 3, 2, 4)))


def test_extract_and_insert_at_static_and_dynamic_indices(programs: Programs) -> None:
    at = np.array([2, 0, 1])
    rows = np.full((3, 4), -5, dtype=np.int32) * np.arange(1, 4, dtype=np.int32)[:, None]
    lines = """
  %x = vector.extract %v[1, %i, 3] : vector<2x3x4xi32> -> i32
  %row = vector.extract %v[0, %i] : vector<2x3x4xi32> -> vector<4xi32>
  %put = vector.insert %x into %v[0, %i, 0] : i32, vector<2x3x4xi32>
  %all = vector.insert %w into %v[1, %i] : vector<4xi32>, vector<2x3x4xi32>"""
    x, row, put, whole = programs.operation(
        lines,
        {"v": ("vector<2x3x4xi32>", GRID), "i": ("index", at), "w": ("vector<4xi32>", rows)},
        {"x": "i32", "row": "vector<4xi32>", "put": "vector<2x3x4xi32>", "all": "vector<2x3x4xi32>"},
    )
    every = np.arange(3)
    assert np.array_equal(x, GRID[every, 1, at, 3])
    assert np.array_equal(row, GRID[every, 0, at])
    want = GRID.copy()
    want[every, 0, at, 0] = GRID[every, 1, at, 3]
    assert np.array_equal(put, want)
    want = GRID.copy()
    want[every, 1, at] = rows
    assert np.array_equal(whole, want)


@pytest.mark.parametrize("index", [-1, 4, 2**62])
def test_an_index_outside_is_a_fault_only_where_a_lane_is_active(programs: Programs, index: int) -> None:
    body = """
  %i = index.constant {index} : index
  %v = vector.constant 3 : vector<4xi32>
  %limit = index.constant {limit} : index
  %bad = index.cmp uge, %lane, %limit : index
  %at = scf.select %bad, %i, %lane : index
  %few = index.constant 2 : index
  %some = index.cmp ult, %lane, %few : index
  scf.if %some {{
    %x = vector.extract %v[%at] : vector<4xi32> -> i32
    %w = vector.insert %x into %v[%at] : i32, vector<4xi32>
    %view = buffer.view %b[%at0] : buffer -> view<4xi32>
    view.store %x, %view[%lane] : i32, view<4xi32>
  }}"""
    out = np.zeros(4, dtype=np.int32)
    programs.launch(programs.kernel(body.format(index=index, limit=2), "%b: buffer", size=4), [], [out])
    assert np.array_equal(out, [3, 3, 0, 0])
    text = programs.kernel(body.format(index=index, limit=1), "%b: buffer", size=4)
    fault = programs.fault(lambda: programs.launch(text, [], [out]))
    assert fault.code == "EVALUATE/002"
    assert fault.params["offset"] == index
    assert fault.params["workitem"] == "work-item (1, 0, 0) of workgroup (0, 0, 0)"


def test_slices(programs: Programs) -> None:
    at = np.array([1, 0, 1])
    lines = "  %r = vector.slice %v[0, %i, 1] : vector<2x3x4xi32> -> vector<2x2x3xi32>"
    (r,) = programs.operation(lines, {"v": ("vector<2x3x4xi32>", GRID), "i": ("index", at)}, {"r": "vector<2x2x3xi32>"})
    assert np.array_equal(r, [GRID[k, :, i : i + 2, 1:4] for k, i in enumerate(at)])
    text = """
func.def public @f(%v: vector<4xi32>, %i: index) -> (vector<3xi32>) {
  %r = vector.slice %v[%i] : vector<4xi32> -> vector<3xi32>
  func.return %r : vector<3xi32>
}
"""
    fault = programs.fault(lambda: programs.call(text, "f", [GRID[0, 0, 0], 2]))
    assert fault.code == "EVALUATE/002"


def test_movement(programs: Programs) -> None:
    other = -GRID
    lines = """
  %c0 = vector.concat<0> %v, %w, %v : vector<2x3x4xi32>, vector<2x3x4xi32>, vector<2x3x4xi32> -> vector<6x3x4xi32>
  %c2 = vector.concat<2> %v, %w : vector<2x3x4xi32>, vector<2x3x4xi32> -> vector<2x3x8xi32>
  %t = vector.transpose<[2, 0, 1]> %v : vector<2x3x4xi32> -> vector<4x2x3xi32>
  %z = vector.interleave<1> %v, %w : vector<2x3x4xi32>, vector<2x3x4xi32> -> vector<2x6x4xi32>
  %e, %o = vector.deinterleave<2> %v : vector<2x3x4xi32> -> vector<2x3x2xi32>, vector<2x3x2xi32>
  %l = vector.extract %v[1, 2] : vector<2x3x4xi32> -> vector<4xi32>
  %s = vector.shuffle<[3, 0, 0, 1]> %l : vector<4xi32>"""
    c0, c2, t, z, e, o, s = programs.operation(
        lines,
        {"v": ("vector<2x3x4xi32>", GRID), "w": ("vector<2x3x4xi32>", other)},
        {
            "c0": "vector<6x3x4xi32>",
            "c2": "vector<2x3x8xi32>",
            "t": "vector<4x2x3xi32>",
            "z": "vector<2x6x4xi32>",
            "e": "vector<2x3x2xi32>",
            "o": "vector<2x3x2xi32>",
            "s": "vector<4xi32>",
        },
    )
    assert np.array_equal(c0, np.concatenate([GRID, other, GRID], axis=1))
    assert np.array_equal(c2, np.concatenate([GRID, other], axis=3))
    assert np.array_equal(t, GRID.transpose(0, 3, 1, 2))
    assert np.array_equal(z[:, :, 0::2], GRID)
    assert np.array_equal(z[:, :, 1::2], other)
    assert np.array_equal(e, GRID[..., 0::2])
    assert np.array_equal(o, GRID[..., 1::2])
    assert np.array_equal(s, GRID[:, 1, 2][:, [3, 0, 0, 1]])


def test_dynamic_extents_must_be_kept(programs: Programs) -> None:
    text = """
func.def public @f(%n: index, %m: index, %x: i32) -> (i32) {
  %v = vector.splat %x : vector<[%n]xi32>
  %j = vector.concat<0> %v, %v : vector<[%n]xi32>, vector<[%n]xi32> -> vector<[%m]xi32>
  %zero = scalar.constant 0 : i32
  %r = vector.reduce<addi> %j, %zero : vector<[%m]xi32>, i32
  func.return %r : i32
}
"""
    assert programs.call(text, "f", [3, 6, 7]) == [42]
    assert programs.call(text, "f", [0, 0, 7]) == [0]
    assert programs.fault(lambda: programs.call(text, "f", [3, 7, 7])).code == "EVALUATE/006"
    negative = programs.fault(lambda: programs.call(text, "f", [-1, 6, 7]))
    assert negative.code == "EVALUATE/006"
    assert "-1" in negative.message


def test_empty_vectors(programs: Programs) -> None:
    lines = """
  %e = vector.empty : vector<0x4xi32>
  %t = vector.transpose<[1, 0]> %e : vector<0x4xi32> -> vector<4x0xi32>
  %c = vector.concat<1> %t, %t : vector<4x0xi32>, vector<4x0xi32> -> vector<4x0xi32>
  %a = vector.addi %c, %c : vector<4x0xi32>
  %r = vector.reduce<muli> %a, %x : vector<4x0xi32>, i32"""
    (r,) = programs.operation(lines, {"x": ("i32", np.array([4, -2], np.int32))}, {"r": "i32"})
    assert np.array_equal(r, [4, -2])


def test_poison_must_not_be_observed(programs: Programs) -> None:
    text = """
func.def public @f(%c: i1, %x: vector<2xi32>) -> (vector<2xi32>) {
  %p = vector.poison : vector<2xi32>
  %q = vector.addi %p, %x : vector<2xi32>
  %r = scf.select %c, %x, %q : vector<2xi32>
  func.return %r : vector<2xi32>
}
"""
    x = np.array([5, 6], dtype=np.int32)
    assert np.array_equal(programs.call(text, "f", [True, x])[0], x)
    assert programs.fault(lambda: programs.call(text, "f", [False, x])).code == "TYPE/012"


def test_table_lookup(programs: Programs) -> None:
    table = np.array([[10.0, -0.0, 30.0], [1.0, 2.0, np.nan]], dtype=np.float32)
    indices = np.array([[[2, 0], [1, 1]], [[0, 1], [2, 2]]], dtype=np.int8)
    (r,) = programs.operation(
        "  %r = vector.table.lookup %t[%i] : vector<3xf32>, vector<2x2xi8> -> vector<2x2xf32>",
        {"t": ("vector<3xf32>", table), "i": ("vector<2x2xi8>", indices)},
        {"r": "vector<2x2xf32>"},
    )
    assert r.tobytes() == np.stack([table[k][indices[k]] for k in range(2)]).tobytes()
    text = """
func.def public @f(%t: vector<3xf32>, %i: vector<2xi8>) -> (vector<2xf32>) {
  %r = vector.table.lookup %t[%i] : vector<3xf32>, vector<2xi8> -> vector<2xf32>
  func.return %r : vector<2xf32>
}
"""
    for bad in (-1, 3):
        fault = programs.fault(lambda at=bad: programs.call(text, "f", [table[0], np.array([0, at], dtype=np.int8)]))
        assert fault.code == "EVALUATE/001"
        assert "table" in fault.message


@pytest.mark.parametrize(
    ("nan", "tie", "want"), [("zero", "lower", [0, 0, 2, 2, 3, 0]), ("max", "upper", [0, 1, 2, 3, 3, 3])]
)
def test_table_quantize(programs: Programs, nan: str, tie: str, want: list[int]) -> None:
    x = np.array([[-3, -1, 0.5, 2, 9, np.nan]] * 2, dtype=np.float32)
    th = np.array([[-1, 0, 2]] * 2, dtype=np.float32)
    (r,) = programs.operation(
        f"  %r = vector.table.quantize %x, %th {{nan = {nan}, tie = {tie}}}"
        " : vector<6xf32>, vector<3xf32> -> vector<6xi8>",
        {"x": ("vector<6xf32>", x), "th": ("vector<3xf32>", th)},
        {"r": "vector<6xi8>"},
    )
    assert np.array_equal(r, [want] * 2)


def test_hadamard_transforms(programs: Programs) -> None:
    x = np.array([[[1, 2, 3, 5], [0, 0, 0, 1]]], dtype=np.float32)
    for normalization, scale in (("none", 1.0), ("orthonormal", 0.5)):
        (r,) = programs.operation(
            f"""
  %h = encoding.define #transform.hadamard<normalization={normalization}> : encoding<transform>
  %r = vector.transform %x, %h : vector<2x4xf32>, encoding<transform> -> vector<2x4xf32>""",
            {"x": ("vector<2x4xf32>", x)},
            {"r": "vector<2x4xf32>"},
        )
        assert np.array_equal(r[0], np.array([[11, -3, -5, 1], [1, -1, -1, 1]]) * scale)


def test_poison_of_work_items_that_do_not_look_at_it(programs: Programs) -> None:
    body = """
  %pv = scalar.poison : i32
  %pi = index.cast %pv : i32 to index
  %two = index.constant 2 : index
  %ok = index.cmp ult, %lane, %two : index
  %at = scf.select %ok, %lane, %pi : index
  %pp = vector.poison : vector<2xi32>
  %one = vector.constant 1 : vector<2xi32>
  %x = scf.select %ok, %one, %pp : vector<2xi32>
  %c0 = index.constant 0 : index
  %e = vector.extract %x[%c0] : vector<2xi32> -> i32
  %y = vector.addi %x, %x : vector<2xi32>
  %limit = index.constant {limit} : index
  %some = index.cmp ult, %lane, %limit : index
  scf.if %some {{
    %v = buffer.view %b[%at0] : buffer -> view<4x2xi32>
    %m = vector.constant true : vector<2xi1>
    vector.store.mask %y, %v[%at, 0], %m : vector<2xi32>, view<4x2xi32>, vector<2xi1>
    view.atomic.reduce<addi> %e, %v[%at, 1] {{ordering = relaxed, scope = device}} : i32, view<4x2xi32>
    %old = view.load %v[%at, 1] : view<4x2xi32> -> i32
  }}"""
    out = np.zeros((4, 2), dtype=np.int32)
    programs.launch(programs.kernel(body.format(limit=2), "%b: buffer", size=4), [], [out])
    assert np.array_equal(out, [[2, 3], [2, 3], [0, 0], [0, 0]])
    text = programs.kernel(body.format(limit=3), "%b: buffer", size=4)
    fault = programs.fault(lambda: programs.launch(text, [], [out]))
    assert fault.code == "TYPE/012"
    assert fault.params["workitem"] == "work-item (2, 0, 0) of workgroup (0, 0, 0)"
