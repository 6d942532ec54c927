"""Every kind of tile against dense products, matrices of several blocks, repacked and encoded fragments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loom.facts.fragments import TILES

Programs = Any

RNG = np.random.default_rng(23)
# Powers of two and their sums that every format here holds, so that products are exact in any order.
SMALL = np.array([-2, -1, -0.5, 0, 0.5, 1, 2, 3])
F8 = {
    "f8E4M3": {-2: 0xC0, -1: 0xB8, -0.5: 0xB0, 0: 0, 0.5: 0x30, 1: 0x38, 2: 0x40, 3: 0x44},
    "f8E5M2": {-2: 0xC0, -1: 0xBC, -0.5: 0xB8, 0: 0, 0.5: 0x38, 1: 0x3C, 2: 0x40, 3: 0x42},
}
NATIVE = {"f16": np.float16, "f32": np.float32, "i8": np.int8, "i32": np.int32}


def values(shape: tuple[int, ...], format: str) -> Any:
    """Numbers that a format holds exactly."""
    return RNG.integers(-100, 100, shape).astype(np.float64) if format[0] == "i" else RNG.choice(SMALL, shape)


def stored(numbers: Any, format: str) -> Any:
    """The numbers as a buffer holds them."""
    if format in F8:
        return np.vectorize(F8[format].__getitem__, otypes=[np.uint8])(numbers)
    if format == "bf16":
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return numbers.astype(NATIVE[format])


def product(tile: Any) -> str:
    """D = A * B + C by one subgroup."""
    lhs, rhs, acc = tile.lhs_format, tile.rhs_format, tile.acc_format
    vl, vr, va = f"vector<{tile.lhs[1]}x{lhs}>", f"vector<{tile.rhs[1]}x{rhs}>", f"vector<{tile.acc[1]}x{acc}>"
    view_a, view_b, view_c = (
        f"view<{rows}x{columns}x{format}>"
        for rows, columns, format in ((tile.m, tile.k, lhs), (tile.k, tile.n, rhs), (tile.m, tile.n, acc))
    )
    return f"""
kernel.def @k() {{
  %unit = index.constant 1 : index
  %lanes = index.constant {tile.wave} : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%lanes, %unit, %unit) : index
}} launch(%a: buffer, %b: buffer, %c: buffer, %d: buffer) {{
  %at0 = index.constant 0 : offset
  %m = index.constant {tile.m} : index
  %n = index.constant {tile.n} : index
  %k = index.constant {tile.k} : index
  %av = buffer.view %a[%at0] : buffer -> {view_a}
  %bv = buffer.view %b[%at0] : buffer -> {view_b}
  %cv = buffer.view %c[%at0] : buffer -> {view_c}
  %dv = buffer.view %d[%at0] : buffer -> {view_c}
  %l = vector.fragment.load<lhs> %av[0, 0] shape [%m, %k] : {view_a} -> {vl}
  %r = vector.fragment.load<rhs> %bv[0, 0] shape [%k, %n] : {view_b} -> {vr}
  %i = vector.fragment.load<init> %cv[0, 0] shape [%m, %n] : {view_c} -> {va}
  %p = vector.mma %l, %r, %i : {vl}, {vr}, {va}
  vector.fragment.store<result> %p, %dv[0, 0] shape [%m, %n] : {va}, {view_c}
  kernel.return
}}
"""


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
def test_every_tile_is_a_dense_product(programs: Programs, tile: Any) -> None:
    a, b = values((tile.m, tile.k), tile.lhs_format), values((tile.k, tile.n), tile.rhs_format)
    c = values((tile.m, tile.n), tile.acc_format)
    out = np.zeros((tile.m, tile.n), dtype=NATIVE[tile.acc_format])
    arguments = [stored(a, tile.lhs_format), stored(b, tile.rhs_format), stored(c, tile.acc_format), out]
    facts = {"subgroup_size": tile.wave, "matrix": (tile.name,)}
    programs.launch(product(tile), [], arguments, facts=facts)
    assert np.array_equal(out, a @ b + c)


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
def test_what_a_lane_holds_is_what_its_map_says(programs: Programs, tile: Any) -> None:
    """Each lane stores its accumulator beside the others; the elements are where the published formulas put them."""
    length = tile.acc[1]
    va, view = f"vector<{length}x{tile.acc_format}>", f"view<{tile.m}x{tile.n}x{tile.acc_format}>"
    held = f"view<{tile.wave}x{length}x{tile.acc_format}>"
    body = f"""
  %m = index.constant {tile.m} : index
  %n = index.constant {tile.n} : index
  %cv = buffer.view %c[%at0] : buffer -> {view}
  %hv = buffer.view %h[%at0] : buffer -> {held}
  %i = vector.fragment.load<init> %cv[0, 0] shape [%m, %n] : {view} -> {va}
  vector.store %i, %hv[%lane, 0] : {va}, {held}"""
    matrix = np.arange(tile.m * tile.n, dtype=NATIVE[tile.acc_format]).reshape(tile.m, tile.n)
    out = np.zeros((tile.wave, length), dtype=matrix.dtype)
    text = programs.kernel(body, "%c: buffer, %h: buffer", size=tile.wave)
    programs.launch(text, [], [matrix, out], facts={"subgroup_size": tile.wave, "matrix": tile.name})
    formulas = {
        "C": lambda lane, e: (2 * e + lane // tile.n, lane % tile.n),
        "F": lambda lane, e: (lane // tile.n * length + e, lane % tile.n),
        "G": lambda lane, e: (8 * (e // 4) + 4 * (lane // tile.n) + e % 4, lane % tile.n),
    }
    want = [[matrix[formulas[tile.acc[0]](lane, e)] for e in range(length)] for lane in range(tile.wave)]
    assert np.array_equal(out, want)


def test_blocks_are_independent_products(programs: Programs) -> None:
    text = """
func.def public @f(%a: vector<3x2x4xf32>, %b: vector<3x4x5xf32>, %c: vector<30xf32>) -> (vector<30xf32>) {
  %blocks = index.constant 3 : index
  %m = index.constant 2 : index
  %k = index.constant 4 : index
  %n = index.constant 5 : index
  %l = vector.fragment<lhs> %a shape [blocks(%blocks), %m, %k] : vector<3x2x4xf32>
  %r = vector.fragment<rhs> %b shape [blocks(%blocks), %k, %n] : vector<3x4x5xf32>
  %i = vector.fragment<init> %c shape [blocks(%blocks), %m, %n] : vector<30xf32>
  %d = vector.mma %l, %r, %i : vector<3x2x4xf32>, vector<3x4x5xf32>, vector<30xf32>
  func.return %d : vector<30xf32>
}
"""
    a, b, c = (RNG.integers(-9, 9, shape).astype(np.float32) for shape in ((3, 2, 4), (3, 4, 5), (3, 2, 5)))
    (d,) = programs.call(text, "f", [a, b, c.reshape(30)])
    assert np.array_equal(d.reshape(3, 2, 5), a @ b + c)
    wrong = text.replace("%c shape [blocks(%blocks), %m, %n]", "%c shape [%blocks, %k]").replace("30xf32", "12xf32")
    fault = programs.fault(lambda: programs.call(wrong, "f", [a, b, np.zeros(12, dtype=np.float32)]))
    assert fault.code == "TARGET/001"
    assert "a product of 3 x 2x4 and 3 x 4x5 added to 3x4" in fault.message


def test_blocks_in_memory_are_the_axis_before_rows(programs: Programs) -> None:
    text = """
func.def public @f(%x: buffer, %y: buffer) {
  %at0 = index.constant 0 : offset
  %two = index.constant 2 : index
  %one = index.constant 1 : index
  %v = buffer.view %x[%at0] : buffer -> view<4x3x5xi32>
  %w = buffer.view %y[%at0] : buffer -> view<3x3x3xi32>
  %l = vector.fragment.load<init> %v[%one, 1, 3] shape [blocks(%two), %two, %two] : view<4x3x5xi32> -> vector<8xi32>
  vector.fragment.store<result> %l, %w[1, %one, 1] shape [blocks(%two), %two, %two] : vector<8xi32>, view<3x3x3xi32>
  func.return
}
"""
    x, y = np.arange(60, dtype=np.int32).reshape(4, 3, 5), np.zeros((3, 3, 3), dtype=np.int32)
    programs.call(text, "f", [x, y])
    want = np.zeros_like(y)
    want[1:, 1:, 1:] = x[1:3, 1:3, 3:5]
    assert np.array_equal(y, want)


def test_repacked_operands_mean_the_same(programs: Programs) -> None:
    """Sixteen bytes in a lane travel as four words: the product is that of the bytes."""
    tile = next(tile for tile in TILES if tile.name == "rdna3_i8_16x16x16")
    text = (
        product(tile)
        .replace(
            "  %p = vector.mma %l",
            "  %packed = vector.fragment.repack<rhs> %r shape [%k, %n] : vector<16xi8> -> vector<4xi32>\n"
            "  %half = vector.fragment.repack<lhs> %l shape [%m, %k] : vector<16xi8> -> vector<8xi16>\n"
            "  %full = vector.fragment.repack<lhs> %half shape [%m, %k] : vector<8xi16> -> vector<4xi32>\n"
            "  %p = vector.mma %l",
        )
        .replace(
            "vector.mma %l, %r, %i : vector<16xi8>, vector<16xi8>",
            "vector.mma %full, %packed, %i : vector<4xi32>, vector<4xi32>",
        )
    )
    a, b, c = values((16, 16), "i8"), values((16, 16), "i8"), values((16, 16), "i32")
    out = np.zeros((16, 16), dtype=np.int32)
    arguments = [a.astype(np.int8), b.astype(np.int8), c.astype(np.int32), out]
    programs.launch(text, [], arguments, facts={"subgroup_size": 32, "matrix": tile.name})
    assert np.array_equal(out, a @ b + c)


def test_encoded_operands_are_decoded_first(programs: Programs) -> None:
    text = """
func.def public @f(%q: vector<8xi8>, %s: vector<4xf32>, %b: vector<8x2xf32>, %c: vector<4xf32>) -> (vector<4xf32>) {
  %schema = encoding.define #encoding.i4<affine=scale_only, payload_elements=8,
    payload_packing=little_endian_nibbles, scale_format=f32, scale_group_elements=4, scale_operands=1,
    scale_topology=group_1d> : encoding<schema>
  %two = index.constant 2 : index
  %k = index.constant 8 : index
  %l = vector.fragment<lhs> %q shape [%two, %k]
    using {scale = %s : vector<4xf32>, schema = %schema : encoding<schema>} : vector<8xi8>
  %r = vector.fragment<rhs> %b shape [%k, %two] : vector<8x2xf32>
  %i = vector.fragment<init> %c shape [%two, %two] : vector<4xf32>
  %d = vector.mma %l, %r, %i : vector<8xi8>, vector<8x2xf32>, vector<4xf32>
  func.return %d : vector<4xf32>
}
"""
    payload = RNG.integers(-128, 128, 8).astype(np.int8)
    nibbles = np.stack([payload & 15, payload >> 4 & 15], axis=-1).reshape(16).astype(np.int64)
    codes = np.where(nibbles > 7, nibbles - 16, nibbles)
    scale = np.array([0.5, 2.0, -1.0, 4.0], dtype=np.float32)
    a = (codes * scale.repeat(4)).reshape(2, 8)
    b, c = RNG.integers(-4, 5, (8, 2)).astype(np.float32), np.array([1, 2, 3, 4], dtype=np.float32)
    (d,) = programs.call(text, "f", [payload, scale, b, c])
    assert np.array_equal(d.reshape(2, 2), a @ b + c.reshape(2, 2))


def test_encoded_operands_of_subgroups(programs: Programs) -> None:
    """Each lane's sixteen bytes have a scale of their own, as the lanes of a row of the left matrix do."""
    text = """
kernel.def @k() {
  %unit = index.constant 1 : index
  %lanes = index.constant 32 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%lanes, %unit, %unit) : index
} launch(%a: buffer, %s: buffer, %b: buffer, %d: buffer) {
  %at0 = index.constant 0 : offset
  %dim = index.constant 16 : index
  %id = kernel.subgroup.lane.id : index
  %row = index.rem %id, %dim : index
  %av = buffer.view %a[%at0] : buffer -> view<16x16xi8>
  %sv = buffer.view %s[%at0] : buffer -> view<16xf32>
  %bv = buffer.view %b[%at0] : buffer -> view<16x16xf16>
  %dv = buffer.view %d[%at0] : buffer -> view<16x16xf32>
  %schema = encoding.define #encoding.i8<affine=scale_only, payload_elements=16, payload_packing=bitfield_stream,
    scale_format=f32, scale_group_elements=16, scale_operands=1, scale_topology=block_1d> : encoding<schema>
  %q = vector.load %av[%row, 0] : view<16x16xi8> -> vector<16xi8>
  %words = vector.bitcast %q : vector<16xi8> to vector<4xi32>
  %scale = vector.load %sv[%row] : view<16xf32> -> vector<1xf32>
  %l = vector.fragment<lhs> %words shape [%dim, %dim]
    using {scale = %scale : vector<1xf32>, schema = %schema : encoding<schema>} : vector<4xi32>
  %r = vector.fragment.load<rhs> %bv[0, 0] shape [%dim, %dim] : view<16x16xf16> -> vector<16xf16>
  %zero = vector.constant 0.0 : vector<8xf32>
  %i = vector.fragment<init> %zero shape [%dim, %dim] : vector<8xf32>
  %p = vector.mma %l, %r, %i : vector<4xi32>, vector<16xf16>, vector<8xf32>
  vector.fragment.store<result> %p, %dv[0, 0] shape [%dim, %dim] : vector<8xf32>, view<16x16xf32>
  kernel.return
}
"""
    a, b = values((16, 16), "i8"), values((16, 16), "f16")
    scale = 2.0 ** RNG.integers(-3, 4, 16)
    out = np.zeros((16, 16), dtype=np.float32)
    names = ("rdna3_f16_16x16x16", "rdna3_i8_16x16x16")
    arguments = [a.astype(np.int8), scale.astype(np.float32), b.astype(np.float16), out]
    programs.launch(text, [], arguments, facts={"subgroup_size": 32, "matrix": names})
    assert np.array_equal(out, (a * scale[:, None]) @ b)


def test_scaled_integers_do_not_fit_integer_products(programs: Programs) -> None:
    text = """
func.def public @f(%q: vector<4xi8>, %s: vector<1xf32>) -> (vector<4xi32>) {
  %schema = encoding.define #encoding.i8<affine=scale_only, payload_elements=4, scale_format=f32, scale_operands=1,
    scale_topology=tensor_global> : encoding<schema>
  %two = index.constant 2 : index
  %zero = vector.constant 0 : vector<4xi32>
  %l = vector.fragment<lhs> %q shape [%two, %two]
    using {scale = %s : vector<1xf32>, schema = %schema : encoding<schema>} : vector<4xi8>
  %r = vector.fragment<rhs> %q shape [%two, %two] : vector<4xi8>
  %i = vector.fragment<init> %zero shape [%two, %two] : vector<4xi32>
  %d = vector.mma %l, %r, %i : vector<4xi8>, vector<4xi8>, vector<4xi32>
  func.return %d : vector<4xi32>
}
"""
    arguments = [np.ones(4, dtype=np.int8), np.ones(1, dtype=np.float32)]
    fault = programs.fault(lambda: programs.call(text, "f", arguments))
    assert fault.code == "TARGET/001"
    assert "scaled or fractional values" in fault.message
    plain = text.replace("affine=scale_only, ", "").replace(
        ", scale_format=f32, scale_operands=1,\n    scale_topology=tensor_global", ""
    ).replace("scale = %s : vector<1xf32>, ", "")  # fmt: skip
    (d,) = programs.call(plain, "f", [np.arange(-2, 2, dtype=np.int8), np.ones(1, dtype=np.float32)])
    assert np.array_equal(d.reshape(2, 2), np.array([[-2, -1], [0, 1]]) @ np.array([[-2, -1], [0, 1]]))
