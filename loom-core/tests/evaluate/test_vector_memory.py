"""Masked, packed, gathered and scattered vector accesses against element loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

Programs = Any

MASKS = np.array([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0]], dtype=bool)
SIZE = 4


def run(programs: Programs, lines: str, **arrays: Any) -> None:
    """Launch four work-items over buffers of the names given; each reads its mask `%m` from buffer `masks`."""
    body = f"""
  %mv = buffer.view %masks[%at0] : buffer -> view<4x4xi1>
  %m = vector.load %mv[%lane, 0] : view<4x4xi1> -> vector<4xi1>
{lines}"""
    parameters = ", ".join(f"%{name}: buffer" for name in ("masks", *arrays))
    programs.launch(programs.kernel(body, parameters, size=SIZE), [], [MASKS.copy(), *arrays.values()])


@pytest.mark.seed("X02", "X03")
def test_masked_footprints(programs: Programs) -> None:
    x = np.arange(4 * 6, dtype=np.float32).reshape(4, 6)
    y = np.full((4, 6), -1, dtype=np.float32)
    run(
        programs,
        """
  %xv = buffer.view %x[%at0] : buffer -> view<4x6xf32>
  %yv = buffer.view %y[%at0] : buffer -> view<4x6xf32>
  %old = vector.constant 9.5 : vector<4xf32>
  %two = index.constant 2 : index
  %v = vector.load.mask %xv[%lane, %two], %m, %old : view<4x6xf32>, vector<4xi1>, vector<4xf32>
  %w = vector.addf %v, %v : vector<4xf32>
  vector.store.mask %w, %yv[%lane, 1], %m : vector<4xf32>, view<4x6xf32>, vector<4xi1>""",
        x=x,
        y=y,
    )
    want = np.full((4, 6), -1, dtype=np.float32)
    want[:, 1:5] = np.where(MASKS, 2 * x[:, 2:6], -1)
    assert np.array_equal(y, want)


def test_passthrough_of_disabled_lanes(programs: Programs) -> None:
    x = np.arange(4, dtype=np.int16)
    y = np.zeros((4, 2, 2), dtype=np.int16)
    run(
        programs,
        """
  %xv = buffer.view %x[%at0] : buffer -> view<2x2xi16>
  %yv = buffer.view %y[%at0] : buffer -> view<4x2x2xi16>
  %l = index.cast %lane : index to i16
  %old = vector.splat %l : vector<2x2xi16>
  %m2 = vector.bitcast %m : vector<4xi1> to vector<2x2xi1>
  %v = vector.load.mask %xv[0, 0], %m2, %old : view<2x2xi16>, vector<2x2xi1>, vector<2x2xi16>
  vector.store %v, %yv[%lane, 0, 0] : vector<2x2xi16>, view<4x2x2xi16>""",
        x=x,
        y=y,
    )
    assert np.array_equal(y.reshape(4, 4), np.where(MASKS, x, np.arange(4)[:, None]))


def test_expand_and_compress(programs: Programs) -> None:
    x = np.arange(10, 14, dtype=np.int32)
    y = np.zeros((4, 4), dtype=np.int32)
    packed = np.full((4, 4), -1, dtype=np.int32)
    run(
        programs,
        """
  %xv = buffer.view %x[%at0] : buffer -> view<4xi32>
  %yv = buffer.view %y[%at0] : buffer -> view<4x4xi32>
  %pv = buffer.view %p[%at0] : buffer -> view<4x4xi32>
  %zero = index.constant 0 : index
  %old = vector.constant -5 : vector<4xi32>
  %v = vector.load.expand %xv[%zero], %m, %old : view<4xi32>, vector<4xi1>, vector<4xi32>
  vector.store %v, %yv[%lane, 0] : vector<4xi32>, view<4x4xi32>
  vector.store.compress %v, %pv[%lane, %zero], %m : vector<4xi32>, view<4x4xi32>, vector<4xi1>""",
        x=x,
        y=y,
        p=packed,
    )
    for row, mask in enumerate(MASKS):
        count = int(mask.sum())
        expanded = np.full(4, -5)
        expanded[mask] = x[:count]
        assert np.array_equal(y[row], expanded)
        assert np.array_equal(packed[row], [*x[:count], *[-1] * (4 - count)])


@pytest.mark.parametrize("element", ["i8", "i32", "index"])
@pytest.mark.seed("X04")
def test_gather_and_scatter(programs: Programs, element: str) -> None:
    dtype = {"i8": np.int8, "i32": np.int32, "index": np.int64}[element]
    x = np.arange(20, dtype=np.float64) * 1.5
    offsets = np.array([[-3, 0, 5, 5], [1, 1, 1, 1], [-8, 11, 2, 0], [4, 3, 2, 1]], dtype=dtype)
    y = np.zeros((4, 4))
    z = np.full((4, 20), -1.0)
    distinct = np.array([[3, -2, 0, 9], [1, 2, 3, 4], [-8, 11, 2, 0], [4, 3, 2, 1]], dtype=dtype)
    run(
        programs,
        f"""
  %xv = buffer.view %x[%at0] : buffer -> view<20xf64>
  %ov = buffer.view %o[%at0] : buffer -> view<4x4x{element}>
  %dv = buffer.view %d[%at0] : buffer -> view<4x4x{element}>
  %yv = buffer.view %y[%at0] : buffer -> view<4x4xf64>
  %zv = buffer.view %z[%at0] : buffer -> view<4x20xf64>
  %off = vector.load %ov[%lane, 0] : view<4x4x{element}> -> vector<4x{element}>
  %dis = vector.load %dv[%lane, 0] : view<4x4x{element}> -> vector<4x{element}>
  %g = vector.gather %xv[8][%off] : view<20xf64>, vector<4x{element}> -> vector<4xf64>
  vector.store %g, %yv[%lane, 0] : vector<4xf64>, view<4x4xf64>
  vector.scatter %g, %zv[%lane, 8][%dis] : vector<4xf64>, view<4x20xf64>, vector<4x{element}>""",
        x=x,
        o=offsets,
        d=distinct,
        y=y,
        z=z,
    )
    assert np.array_equal(y, x[8 + offsets.astype(int)])
    want = np.full((4, 20), -1.0)
    for row in range(4):
        want[row, 8 + distinct[row].astype(int)] = y[row]
    assert np.array_equal(z, want)


def test_masked_gather_and_scatter_ignore_disabled_lanes(programs: Programs) -> None:
    x = np.arange(8, dtype=np.int32)
    wild = np.where(MASKS, np.array([7, 0, 3, 2]), 2**40)
    y = np.zeros((4, 8), dtype=np.int32)
    run(
        programs,
        """
  %xv = buffer.view %x[%at0] : buffer -> view<8xi32>
  %ov = buffer.view %o[%at0] : buffer -> view<4x4xindex>
  %yv = buffer.view %y[%at0] : buffer -> view<4x8xi32>
  %off = vector.load %ov[%lane, 0] : view<4x4xindex> -> vector<4xindex>
  %old = vector.constant 70 : vector<4xi32>
  %g = vector.gather.mask %xv[0][%off], %m, %old : view<8xi32>, vector<4xindex>, vector<4xi1>, vector<4xi32>
  %all = vector.constant 100 : vector<4xi32>
  %h = vector.addi %g, %all : vector<4xi32>
  vector.scatter.mask %h, %yv[%lane, 0][%off], %m : vector<4xi32>, view<4x8xi32>, vector<4xindex>, vector<4xi1>""",
        x=x,
        o=wild,
        y=y,
    )
    want = np.zeros((4, 8), dtype=np.int32)
    for row in range(4):
        for lane in np.flatnonzero(MASKS[row]):
            want[row, wild[row, lane]] = 100 + x[wild[row, lane]]
    assert np.array_equal(y, want)


@pytest.mark.seed("G03")
def test_an_empty_mask_may_stand_at_any_place(programs: Programs) -> None:
    text = """
func.def public @f(%b: buffer, %m: vector<2xi1>, %far: index) -> (vector<2xi32>) {
  %at = index.constant 1 : offset
  %v = buffer.view %b[%at] : buffer -> view<2xi32>
  %old = vector.constant 4 : vector<2xi32>
  %r = vector.load.mask %v[%far], %m, %old : view<2xi32>, vector<2xi1>, vector<2xi32>
  func.return %r : vector<2xi32>
}
"""
    memory = np.zeros(9, dtype=np.uint8)
    for far in (0, 7, -1, 2**62):
        assert np.array_equal(programs.call(text, "f", [memory, np.zeros(2, dtype=bool), far])[0], [4, 4])
    misaligned = programs.fault(lambda: programs.call(text, "f", [memory, np.array([False, True]), 0]))
    assert misaligned.code == "EVALUATE/003"
    outside = programs.fault(lambda: programs.call(text, "f", [memory, np.array([False, True]), 1]))
    assert outside.code == "EVALUATE/002"
    assert outside.params["offset"] == 2


def test_scattering_twice_to_one_element_is_a_fault(programs: Programs) -> None:
    text = """
func.def public @f(%b: buffer, %o: vector<3xi32>, %m: vector<3xi1>) {
  %at = index.constant 0 : offset
  %v = buffer.view %b[%at] : buffer -> view<4xi8>
  %x = vector.constant 1 : vector<3xi8>
  vector.scatter.mask %x, %v[0][%o], %m : vector<3xi8>, view<4xi8>, vector<3xi32>, vector<3xi1>
  func.return
}
"""
    memory, same = np.zeros(4, dtype=np.int8), np.array([2, 0, 2], dtype=np.int32)
    programs.call(text, "f", [memory, same, np.array([True, True, False])])
    assert np.array_equal(memory, [1, 0, 1, 0])
    fault = programs.fault(lambda: programs.call(text, "f", [memory, same, np.array([True, False, True])]))
    assert fault.code == "EVALUATE/001"
    assert fault.params["address"] == 2


def test_masked_lanes_of_scratch_need_no_value(programs: Programs) -> None:
    text = """
func.def public @f(%m: vector<4xi1>) -> (vector<4xi32>) {
  %at = index.constant 0 : offset
  %bytes = index.constant 16 : offset
  %b = buffer.alloca<private> align(4) %bytes : buffer
  %v = buffer.view %b[%at] : buffer -> view<4xi32>
  %x = vector.constant 6 : vector<4xi32>
  vector.store.mask %x, %v[0], %m : vector<4xi32>, view<4xi32>, vector<4xi1>
  %r = vector.load.mask %v[0], %m, %x : view<4xi32>, vector<4xi1>, vector<4xi32>
  %all = vector.load %v[0] : view<4xi32> -> vector<4xi32>
  func.return %r : vector<4xi32>
}
"""
    programs.call(text, "f", [np.ones(4, dtype=bool)])
    fault = programs.fault(lambda: programs.call(text, "f", [np.array([True, True, False, True])]))
    assert fault.code == "EVALUATE/004"
    assert fault.params["address"] == 8
    assert programs.source_line(fault).startswith("%all")


def test_inactive_work_items_access_nothing(programs: Programs) -> None:
    y = np.zeros(8, dtype=np.int32)
    run(
        programs,
        """
  %yv = buffer.view %y[%at0] : buffer -> view<8xi32>
  %two = index.constant 2 : index
  %some = index.cmp ult, %lane, %two : index
  %four = index.constant 4 : index
  %at = index.mul %lane, %four : index
  scf.if %some {
    %x = vector.constant 3 : vector<4xi32>
    vector.store.mask %x, %yv[%at], %m : vector<4xi32>, view<8xi32>, vector<4xi1>
  }""",
        y=y,
    )
    assert np.array_equal(y, [3, 0, 3, 3, 0, 0, 0, 0])


def test_strided_views_of_roots_that_work_items_chose(programs: Programs) -> None:
    a = np.arange(24, dtype=np.int32)
    b = -np.arange(24, dtype=np.int32)
    y = np.zeros((4, 4), dtype=np.int32)
    run(
        programs,
        """
  %two = index.constant 2 : index
  %low = index.cmp ult, %lane, %two : index
  %columns = encoding.layout.strided [1, 6] : encoding<layout>
  %root = scf.select %low, %a, %b : buffer
  %v = buffer.view %root[%at0] : buffer -> view<6x4xi32, %columns>
  %yv = buffer.view %y[%at0] : buffer -> view<4x4xi32>
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %off = vector.iota %zero step %one : vector<4xindex>
  %old = vector.constant 500 : vector<4xi32>
  %g = vector.gather.mask %v[%lane, 0][%off], %m, %old
    : view<6x4xi32, %columns>, vector<4xindex>, vector<4xi1>, vector<4xi32>
  vector.store %g, %yv[%lane, 0] : vector<4xi32>, view<4x4xi32>
  %bump = vector.constant 1000 : vector<4xi32>
  vector.atomic.reduce.mask<addi> %bump, %v[%lane, 0][%off], %m {ordering = relaxed, scope = device}
    : vector<4xi32>, view<6x4xi32, %columns>, vector<4xindex>, vector<4xi1>""",
        a=a,
        b=b,
        y=y,
    )
    first, second = np.arange(24).reshape(4, 6).T, -np.arange(24).reshape(4, 6).T
    rows = np.stack([first[0], first[1], second[2], second[3]])
    assert np.array_equal(y, np.where(MASKS, rows, 500))
    for row, grid in ((0, first), (1, first), (2, second), (3, second)):
        grid[row] += 1000 * MASKS[row]
    assert np.array_equal(a.reshape(4, 6).T, first)
    assert np.array_equal(b.reshape(4, 6).T, second)


def test_private_scratch_of_each_work_item(programs: Programs) -> None:
    y = np.zeros((4, 4), dtype=np.int32)
    run(
        programs,
        """
  %bytes = index.constant 16 : offset
  %own = buffer.alloca<private> align(4) %bytes : buffer
  %s = buffer.view %own[%at0] : buffer -> view<4xi32>
  %yv = buffer.view %y[%at0] : buffer -> view<4x4xi32>
  %l = index.cast %lane : index to i32
  %all = vector.splat %l : vector<4xi32>
  vector.store %all, %s[0] : vector<4xi32>, view<4xi32>
  %three = scalar.constant 3 : i32
  %minus = scalar.constant -1 : i32
  %off = vector.iota %three step %minus : vector<4xi32>
  %zero = scalar.constant 0 : i32
  %one = scalar.constant 1 : i32
  %count = vector.iota %zero step %one : vector<4xi32>
  vector.scatter.mask %count, %s[0][%off], %m : vector<4xi32>, view<4xi32>, vector<4xi32>, vector<4xi1>
  %hits = vector.constant 10 : vector<4xi32>
  %none = vector.constant 0 : vector<4xi32>
  vector.atomic.reduce<addi> %hits, %s[0][%none] {ordering = relaxed, scope = thread}
    : vector<4xi32>, view<4xi32>, vector<4xi32>
  %r = vector.load %s[0] : view<4xi32> -> vector<4xi32>
  vector.store %r, %yv[%lane, 0] : vector<4xi32>, view<4x4xi32>""",
        y=y,
    )
    want = np.repeat(np.arange(4)[:, None], 4, axis=1)
    want[:, ::-1] = np.where(MASKS, np.arange(4), want[:, ::-1])
    want[:, 0] += 40
    assert np.array_equal(y, want)
