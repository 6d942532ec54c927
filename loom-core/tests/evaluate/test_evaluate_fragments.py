"""Fragments and matrix products against NumPy, held alone and spread over subgroups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loom.evaluate.fragments import fragment_arrays
from loom.facts.fragments import TILES, offered_tiles

Programs = Any

RNG = np.random.default_rng(11)


@pytest.mark.parametrize("tile", TILES, ids=lambda t: t.name)
def test_lane_maps_cover_each_element(tile: Any) -> None:
    for role, elements in (("lhs", tile.m * tile.k), ("rhs", tile.k * tile.n), ("result", tile.m * tile.n)):
        fragment = fragment_arrays(tile.placement(role))
        places = fragment.row * fragment.columns + fragment.column
        values, counts = np.unique(places, return_counts=True)
        assert list(values) == list(range(elements))
        assert len(set(counts)) == 1


def test_a_target_says_which_tiles_it_has() -> None:
    names = {t.name for t in offered_tiles({"subgroup_size": 32, "matrix": ("wmma_gfx12", "rdna4_f16_16x16x16")})}
    assert names == {"rdna4_f16_16x16x16"}
    assert {t.wave for t in offered_tiles({"subgroup_size": 64})} == {64}
    assert offered_tiles({}) == ()


def product(wave: int, element: str, k: int, operand: int, acc: int, groups: int = 1) -> str:
    """D[g] = A[g] * B[g] + C[g] by one subgroup for each group; B is stored by columns."""
    return f"""
kernel.def @k() {{
  %unit = index.constant 1 : index
  %groups = index.constant {groups} : index
  %lanes = index.constant {wave} : index
  kernel.launch.config workgroups(%unit, %groups, %unit) workgroup_size(%lanes, %unit, %unit) : index
}} launch(%a: buffer, %b: buffer, %c: buffer) {{
  %at0 = index.constant 0 : offset
  %zero = index.constant 0 : index
  %m = index.constant 16 : index
  %k = index.constant {k} : index
  %g = kernel.workgroup.id<y> : index
  %block = index.constant {16 * k} : index
  %columns = encoding.layout.strided [%block, 1, %k] : encoding<layout>
  %av = buffer.view %a[%at0] : buffer -> view<{groups}x16x{k}x{element}>
  %bv = buffer.view %b[%at0] : buffer -> view<{groups}x{k}x16x{element}, %columns>
  %cv = buffer.view %c[%at0] : buffer -> view<{groups}x16x16xf32>
  %l = vector.fragment.load<lhs> %av[%g, 0, %zero] shape [%m, %k]
    : view<{groups}x16x{k}x{element}> -> vector<{operand}x{element}>
  %r = vector.fragment.load<rhs> %bv[%g, 0, 0] shape [%k, %m]
    : view<{groups}x{k}x16x{element}, %columns> -> vector<{operand}x{element}>
  %i = vector.fragment.load<init> %cv[%g, 0, 0] shape [%m, %m] : view<{groups}x16x16xf32> -> vector<{acc}xf32>
  %two = index.constant 2 : index
  %one = index.constant 1 : index
  %d = scf.for %n = [%zero to %two step %one](%t = %i : vector<{acc}xf32>) -> (vector<{acc}xf32>) {{
    %next = vector.mma %l, %r, %t : vector<{operand}x{element}>, vector<{operand}x{element}>, vector<{acc}xf32>
    scf.yield %next : vector<{acc}xf32>
  }}
  vector.fragment.store<result> %d, %cv[%g, 0, 0] shape [%m, %m] : vector<{acc}xf32>, view<{groups}x16x16xf32>
  kernel.return
}}
"""


@pytest.mark.parametrize(
    ("wave", "element", "k", "operand", "acc", "tile"),
    [
        (32, "f16", 16, 16, 8, ""),
        (32, "bf16", 16, 16, 8, ""),
        (64, "f16", 16, 4, 4, ""),
        (64, "f32", 4, 1, 4, ""),
        (32, "f16", 16, 8, 8, "rdna4_f16_16x16x16"),
    ],
)
@pytest.mark.seed("X04")
def test_products_of_subgroups(
    programs: Programs, wave: int, element: str, k: int, operand: int, acc: int, tile: str
) -> None:
    a, b = (RNG.integers(-8, 9, (3, 16, k)).astype(np.float32) for _ in range(2))
    c = RNG.integers(-99, 99, (3, 16, 16)).astype(np.float32)
    want = c + 2 * a @ b.transpose(0, 2, 1)

    def stored(x: Any) -> Any:
        if element == "bf16":
            return (x.view(np.uint32) >> 16).astype(np.uint16)
        return x.astype(np.float16 if element == "f16" else np.float32)

    text = product(wave, element, k, operand, acc, groups=3)
    facts: dict[str, Any] = {"subgroup_size": wave}
    if tile:
        facts["matrix"] = tile
    programs.launch(text, [], [stored(a), stored(b), c], facts=facts)
    assert np.array_equal(c, want)


def test_subgroups_of_another_size_have_no_such_fragment(programs: Programs) -> None:
    arrays = [
        np.zeros((16, 16), dtype=np.float16),
        np.zeros((16, 16), dtype=np.float16),
        np.zeros((16, 16), np.float32),
    ]
    text = product(64, "f16", 16, 16, 8)
    for facts in ({"subgroup_size": 64}, {}):
        fault = programs.fault(lambda given=facts: programs.launch(text, [], arrays, facts=given))
        assert fault.code == "TARGET/001"
        assert programs.source_line(fault).startswith("%l = vector.fragment.load<lhs>")


def whole(lhs: str, rhs: str, acc: str, flags: str = "") -> str:
    """A 2x3 by 3x4 product held by one invocation."""
    return f"""
func.def public @f(%a: vector<2x3x{lhs}>, %b: vector<12x{rhs}>, %c: vector<2x4x{acc}>) -> (vector<2x4x{acc}>) {{
  %m = index.constant 2 : index
  %k = index.constant 3 : index
  %n = index.constant 4 : index
  %l = vector.fragment<lhs> %a shape [%m, %k] : vector<2x3x{lhs}>
  %r0 = vector.fragment<rhs> %b shape [%k, %n] : vector<12x{rhs}>
  %r = vector.fragment.repack<rhs> %r0 shape [%k, %n] : vector<12x{rhs}> -> vector<3x4x{rhs}>
  %i = vector.fragment<init> %c shape [%m, %n] where [ge(%m, 1)] : vector<2x4x{acc}>
  %d = vector.mma{flags} %l, %r, %i : vector<2x3x{lhs}>, vector<3x4x{rhs}>, vector<2x4x{acc}>
  func.return %d : vector<2x4x{acc}>
}}
"""


def test_a_product_held_by_one_invocation(programs: Programs) -> None:
    a = RNG.standard_normal((2, 3)).astype(np.float64)
    b, c = RNG.standard_normal((3, 4)), RNG.standard_normal((2, 4))
    (d,) = programs.call(whole("f64", "f64", "f64"), "f", [a, b.reshape(12), c])
    assert np.allclose(d, a @ b + c, rtol=1e-14)


def test_each_step_rounds_once_in_order(programs: Programs) -> None:
    a = np.array([[1e8, 1.0, -1e8]] * 2, dtype=np.float32)
    b = np.ones(12, dtype=np.float32)
    (d,) = programs.call(whole("f32", "f32", "f32"), "f", [a, b, np.zeros((2, 4), dtype=np.float32)])
    assert np.array_equal(d, np.zeros((2, 4)))
    half = np.full((2, 3), 60000.0, dtype=np.float16)
    (d,) = programs.call(whole("f16", "f16", "f32"), "f", [half, half.repeat(2), np.zeros((2, 4), dtype=np.float32)])
    assert np.array_equal(d, np.full((2, 4), 3 * 60000.0**2, dtype=np.float32))


def test_integer_products_wrap_or_saturate(programs: Programs) -> None:
    a = np.array([[-128, -128, 127], [1, 2, 3]], dtype=np.int8)
    b = np.array([[-128, 1, 127, 0], [-128, 2, 127, 0], [1, 3, -1, 0]], dtype=np.int8)
    c = np.array([[2**31 - 1, 0, -(2**31), 7], [0, 0, 2**31 - 1, -1]], dtype=np.int32)
    exact = a.astype(np.int64) @ b.astype(np.int64) + c
    (d,) = programs.call(whole("i8", "i8", "i32"), "f", [a, b.reshape(12), c])
    assert np.array_equal(d, exact.astype(np.int32))
    (d,) = programs.call(whole("i8", "i8", "i32", "<saturate>"), "f", [a, b.reshape(12), c])
    want = c.astype(np.int64)
    for k in range(3):
        want = np.clip(want + np.outer(a[:, k].astype(np.int64), b[k].astype(np.int64)), -(2**31), 2**31 - 1)
    assert np.array_equal(d, want)


def test_operands_without_fragments_are_refused(programs: Programs) -> None:
    text = """
func.def public @f(%a: vector<4xf32>) -> (vector<4xf32>) {
  %d = vector.mma %a, %a, %a : vector<4xf32>, vector<4xf32>, vector<4xf32>
  func.return %d : vector<4xf32>
}
"""
    fault = programs.fault(lambda: programs.call(text, "f", [np.zeros(4, dtype=np.float32)]))
    assert fault.code == "TARGET/001"
    assert "no fragment" in fault.message


def test_copies_of_an_element_must_agree(programs: Programs) -> None:
    text = (
        product(32, "f16", 16, 16, 8)
        .replace(
            "%r = vector.fragment.load",
            """%id = kernel.subgroup.lane.id : index
  %wave_lane = index.cast %id : index to i32
  %half = scalar.sitofp %wave_lane : i32 to f16
  %wrong = vector.splat %half : vector<16xf16>
  %x = vector.fragment<lhs> %wrong shape [%m, %k] : vector<16xf16>
  %r = vector.fragment.load""",
        )
        .replace("vector.mma %l", "vector.mma %x")
    )
    arrays = [
        np.zeros((16, 16), dtype=np.float16),
        np.zeros((16, 16), dtype=np.float16),
        np.zeros((16, 16), np.float32),
    ]
    fault = programs.fault(lambda: programs.launch(text, [], arrays, facts={"subgroup_size": 32}))
    assert fault.code == "EVALUATE/001"
    assert "copies" in fault.message


def test_a_partly_active_subgroup_holds_no_matrix(programs: Programs) -> None:
    text = (
        product(32, "f16", 16, 16, 8)
        .replace("workgroup_size(%lanes,", "workgroup_size(%few,")
        .replace("%lanes = index.constant 32", "%few = index.constant 24")
    )
    arrays = [
        np.zeros((16, 16), dtype=np.float16),
        np.zeros((16, 16), dtype=np.float16),
        np.zeros((16, 16), np.float32),
    ]
    fault = programs.fault(lambda: programs.launch(text, [], arrays, facts={"subgroup_size": 32}))
    assert fault.code == "EVALUATE/001"
    assert "not active" in fault.message


def test_copies_of_a_fragment_are_stored_once(programs: Programs) -> None:
    """Lanes 16 to 31 hold copies of a wave32 operand; storing it is no race."""
    text = """
kernel.def @k() {
  %unit = index.constant 1 : index
  %lanes = index.constant 32 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%lanes, %unit, %unit) : index
} launch(%a: buffer, %b: buffer) {
  %at0 = index.constant 0 : offset
  %zero = index.constant 0 : index
  %m = index.constant 16 : index
  %av = buffer.view %a[%at0] : buffer -> view<16x16xf16>
  %by_columns = encoding.layout.strided [1, 16] : encoding<layout>
  %bv = buffer.view %b[%at0] : buffer -> view<16x16xf16, %by_columns>
  %l = vector.fragment.load<lhs> %av[%zero, %zero] shape [%m, %m] : view<16x16xf16> -> vector<16xf16>
  vector.fragment.store<lhs> %l, %bv[%zero, %zero] shape [%m, %m] : vector<16xf16>, view<16x16xf16, %by_columns>
  kernel.return
}
"""
    a, b = (RNG.integers(-8, 9, (16, 16)).astype(np.float16) for _ in range(2))
    programs.launch(text, [], [a, b], facts={"subgroup_size": 32})
    assert np.array_equal(b, a.T)
