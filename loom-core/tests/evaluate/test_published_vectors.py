"""The numeric test vectors of the language reference (part 2, section 15.3), one row for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

Programs = Any


def i8(*values: int) -> Any:
    """Bytes, given as signed or unsigned numbers."""
    return np.array([[v & 0xFF for v in values]], dtype=np.uint8).view(np.int8)


def i32(*values: int) -> Any:
    """Words, given as signed or unsigned numbers."""
    return np.array([[v & 0xFFFFFFFF for v in values]], dtype=np.uint32).view(np.int32)


def f32(*values: float) -> Any:
    return np.array([values], dtype=np.float32)


LEFT, RIGHT = ("vector<4xi8>", i8(0xC8, 0xFD, 0x7F, 0x80)), ("vector<4xi8>", i8(0xFF, 0x32, 0x02, 0xFF))
NIBBLES = {"l": ("vector<1xi32>", i32(0x8F7A1234)), "r": ("vector<1xi32>", i32(0x13579BDF))}
EIGHTS = {"l": ("vector<1xi32>", i32(0x4138C401)), "r": ("vector<1xi32>", i32(0x38384041))}
DOT4I = "%r0 = vector.dot4i<{0}> %l, %r, %acc : vector<4xi8>, vector<4xi8>, vector<1xi32>"
DOT8I4 = "%r0 = vector.dot8i4<{0}> %l, %r, %acc : vector<1xi32>"
DOT4F8 = "%r0 = vector.dot4f8<{0}> %l, %r, %acc : vector<1xi32>, vector<1xf32>"
QUANTIZE = (
    "%r0 = vector.table.quantize %x, %t {{nan = zero, tie = {0}}} : vector<5xf32>, vector<3xf32> -> vector<5xi8>"
)
SAMPLES = {"x": ("vector<5xf32>", f32(-3, -1, 0.5, 2, 9)), "t": ("vector<3xf32>", f32(-1, 0, 2))}
DECODE = (
    "%s = encoding.define #encoding.{0}<payload_elements=1> : encoding<schema>\n"
    "  %r0 = vector.decode %p using %s : vector<{1}xi8>, encoding<schema> -> vector<{1}xf32>"
)
UNITS = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
RANGE = "%r0 = vector.mask.range [%lo to %hi step %by] : i32 -> vector<4xi1>"
BYTES8, WORDS12 = "vector<8xi8>", "vector<12xi32>"
CUBE = np.arange(24, dtype=np.int32).reshape(2, 3, 4)


def bounds(lo: int, hi: int, by: int) -> dict[str, tuple[str, Any]]:
    return {name: ("i32", np.array([v], dtype=np.int32)) for name, v in (("lo", lo), ("hi", hi), ("by", by))}


def dot(inputs: dict[str, Any], acc: Any, type_: str) -> dict[str, Any]:
    return {**inputs, "acc": (f"vector<1x{type_}>", acc)}


PAIR = {"l": LEFT, "r": RIGHT}
# What is computed, of what, the type of the result, and the result.
ROWS: dict[str, tuple[str, dict[str, Any], str, Any]] = {
    "bitpack 3": ("%r0 = vector.bitpack<3> %p : vector<8xi8> -> vector<3xi8>",
                  {"p": (BYTES8, i8(5, 0, 7, 2, 1, 6, 3, 4))}, "vector<3xi8>", i8(0xC5, 0x15, 0x8F)[0]),
    "bitunpacku 3": ("%r0 = vector.bitunpacku<3> %p : vector<3xi8> -> vector<8xi8>",
                     {"p": ("vector<3xi8>", i8(0xC5, 0x15, 0x8F))}, BYTES8, [5, 0, 7, 2, 1, 6, 3, 4]),
    "bitunpacks 3": ("%r0 = vector.bitunpacks<3> %p : vector<3xi8> -> vector<8xi8>",
                     {"p": ("vector<3xi8>", i8(0xC5, 0x15, 0x8F))}, BYTES8, [-3, 0, -1, 2, 1, -2, 3, -4]),
    "bitpack 5": ("%r0 = vector.bitpack<5> %p : vector<8xi8> -> vector<5xi8>",
                  {"p": (BYTES8, i8(1, 2, 4, 8, 16, 31, 0, 21))}, "vector<5xi8>",
                  i8(0x41, 0x10, 0x04, 0x3F, 0xA8)[0]),
    "bitunpacks of another": ("%r0 = vector.bitunpacks<3> %p : vector<3xi8> -> vector<8xi8>",
                              {"p": ("vector<3xi8>", i8(0x5A, 0x33, 0x7F))}, BYTES8, [2, 3, -3, 1, 3, -2, -1, 3]),
    **{f"dot4i {k}": (DOT4I.format(k), dot(PAIR, i32(7), "i32"), "vector<1xi32>", [want])
       for k, want in (("s8s8", 295), ("u8s8", 12583), ("s8u8", -46809), ("u8u8", 96551))},
    **{f"dot8i4 {k}": (DOT8I4.format(k), dot(NIBBLES, i32(100), "i32"), "vector<1xi32>", [want])
       for k, want in (("s4s4", 52), ("u4s4", 228), ("s4u4", 212), ("u4u4", 388))},
    **{f"dot4f8 {k}": (DOT4F8.format(k), dot(EIGHTS, f32(0.5), "f32"), "vector<1xf32>", [want])
       for k, want in (("fp8bf8", -3.8701171875), ("fp8fp8", -2.24560546875))},
    "E4M3": ("%b = vector.bitcast %p : vector<5xi8> to vector<5xf8E4M3>\n"
             "  %r0 = vector.extf %b : vector<5xf8E4M3> to vector<5xf32>",
             {"p": ("vector<5xi8>", i8(0x01, 0x38, 0x41, 0x7E, 0xC4))}, "vector<5xf32>", [2**-9, 1, 2.25, 448, -3]),
    "E5M2": ("%b = vector.bitcast %p : vector<4xi8> to vector<4xf8E5M2>\n"
             "  %r0 = vector.extf %b : vector<4xf8E5M2> to vector<4xf32>",
             {"p": ("vector<4xi8>", i8(0x01, 0x38, 0x41, 0xC4))}, "vector<4xf32>", [2**-16, 0.5, 2.5, -4]),
    "f4e2m1": (DECODE.format("f4e2m1", 16), {"p": ("vector<16xi8>", i8(*range(16)))}, "vector<16xf32>",
               [*UNITS, *(-u for u in UNITS)]),
    "MXFP4": ("%s = encoding.define #encoding.f4e2m1<affine=scale_only, payload_elements=8, scale_operands=1,\n"
              "    payload_packing=little_endian_nibbles, scale_format=e8m0, scale_group_elements=8,\n"
              "    scale_topology=block_1d> : encoding<schema>\n"
              "  %r0 = vector.decode %p using %s {scale = %e : vector<1xi32>}\n"
              "    : vector<1xi32>, encoding<schema> -> vector<8xf32>",
              {"p": ("vector<1xi32>", i32(0x76543210)), "e": ("vector<1xi32>", i32(129))}, "vector<8xf32>",
              [0, 2, 4, 6, 8, 12, 16, 24]),
    "Hadamard": ("%x = encoding.define #transform.hadamard<normalization=none> : encoding<transform>\n"
                 "  %r0 = vector.transform %p, %x : vector<4xf32>, encoding<transform> -> vector<4xf32>",
                 {"p": ("vector<4xf32>", f32(1, 2, 3, 5))}, "vector<4xf32>", [11, -3, -5, 1]),
    "quantize lower": (QUANTIZE.format("lower"), SAMPLES, "vector<5xi8>", [0, 0, 2, 2, 3]),
    "quantize upper": (QUANTIZE.format("upper"), SAMPLES, "vector<5xi8>", [0, 1, 2, 3, 3]),
    "mask up": (RANGE, bounds(2, 9, 3), "vector<4xi1>", [1, 1, 1, 0]),
    "mask down": (RANGE, bounds(7, 2, -4), "vector<4xi1>", [0, 0, 1, 1]),
    "transpose": ("%r0 = vector.transpose<[1, 0]> %p : vector<2x3xi32> -> vector<3x2xi32>",
                  {"p": ("vector<2x3xi32>", np.arange(6, dtype=np.int32).reshape(1, 2, 3))}, "vector<3x2xi32>",
                  [[0, 3], [1, 4], [2, 5]]),
    "transpose of three": ("%r0 = vector.transpose<[2, 0, 1]> %p : vector<2x3x4xi32> -> vector<4x2x3xi32>",
                           {"p": ("vector<2x3x4xi32>", CUBE[None])}, "vector<4x2x3xi32>",
                           [[[CUBE[j, k, i] for k in range(3)] for j in range(2)] for i in range(4)]),
    "interleave 0": ("%r0 = vector.interleave<0> %p, %q : vector<2xi32>, vector<2xi32> -> vector<4xi32>",
                     {"p": ("vector<2xi32>", i32(1, 2)), "q": ("vector<2xi32>", i32(3, 4))}, "vector<4xi32>",
                     [1, 3, 2, 4]),
    "interleave 1": ("%r0 = vector.interleave<1> %p, %q : vector<2x2xi32>, vector<2x2xi32> -> vector<2x4xi32>",
                     {"p": ("vector<2x2xi32>", i32(1, 2, 3, 4).reshape(1, 2, 2)),
                      "q": ("vector<2x2xi32>", i32(5, 6, 7, 8).reshape(1, 2, 2))}, "vector<2x4xi32>",
                     [[1, 5, 2, 6], [3, 7, 4, 8]]),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_values(programs: Programs, name: str) -> None:
    lines, inputs, type_, want = ROWS[name]
    (rows,) = programs.operation(f"  {lines}", inputs, {"r0": type_})
    assert np.array_equal(rows[0], want)
    if name == "f4e2m1":
        assert np.array_equal(np.signbit(rows[0]), [code > 7 for code in range(16)])


def test_packed_offsets(programs: Programs) -> None:
    text = """
func.def public @f(%a: offset, %b: offset, %c: offset) -> (offset, offset, offset, offset) {
  %t, %x, %y, %z = buffer.pack [align(4) %a, align(32) %b, align(8) %c] : offset
  func.return %t, %x, %y, %z : offset, offset, offset, offset
}
"""
    assert [int(v) for v in programs.call(text, "f", [10, 1, 20])] == [64, 0, 32, 40]


MEMORY = """
  %v = buffer.view %m[%at0] : buffer -> view<16xi32>
  %c0 = index.constant 0 : index
"""


def test_expanded_loads_and_compressed_stores(programs: Programs) -> None:
    body = f"""{MEMORY}
  %w = buffer.view %o[%at0] : buffer -> view<8xi32>
  %t = scalar.constant true : i1
  %f = scalar.constant false : i1
  %mask = vector.from_elements %t, %f, %t, %t : vector<4xi1>
  %other = vector.from_elements %f, %t, %t, %f : vector<4xi1>
  %s = scalar.constant 101 : i32
  %one = scalar.constant 1 : i32
  %old = vector.iota %s step %one : vector<4xi32>
  %x = vector.load.expand %v[0], %mask, %old : view<16xi32>, vector<4xi1>, vector<4xi32>
  vector.store %x, %w[0] : vector<4xi32>, view<8xi32>
  vector.store.compress %old, %w[4], %other : vector<4xi32>, view<8xi32>, vector<4xi1>"""
    memory, out = np.arange(16, dtype=np.int32) + 1, np.zeros(8, dtype=np.int32)
    programs.launch(programs.kernel(body, "%m: buffer, %o: buffer", size=1), [], [memory, out])
    # Memory p q r and old w x y z give p x q r; the values a b c d leave b c.
    assert out.tolist() == [1, 102, 2, 3, 102, 103, 0, 0]


def test_gathered_elements(programs: Programs) -> None:
    body = f"""{MEMORY}
  %w = buffer.view %o[%at0] : buffer -> view<3xi32>
  %a = scalar.constant -3 : i32
  %b = scalar.constant 0 : i32
  %c = scalar.constant 5 : i32
  %offsets = vector.from_elements %a, %b, %c : vector<3xi32>
  %x = vector.gather %v[8][%offsets] : view<16xi32>, vector<3xi32> -> vector<3xi32>
  vector.store %x, %w[0] : vector<3xi32>, view<3xi32>"""
    memory, out = np.arange(16, dtype=np.int32), np.zeros(3, dtype=np.int32)
    programs.launch(programs.kernel(body, "%m: buffer, %o: buffer", size=1), [], [memory, out])
    assert out.tolist() == [5, 8, 13]


@pytest.mark.parametrize(
    ("kind", "direction", "mode", "want"),
    [
        ("addi", "forward", "exclusive", [0, 3, 7]),
        ("addi", "reverse", "inclusive", [12, 9, 5]),
        ("minsi", "forward", "exclusive", [2147483647, 3, 3]),
    ],
)
def test_scans_over_lanes(programs: Programs, kind: str, direction: str, mode: str, want: list[int]) -> None:
    body = f"""
  %l = index.cast %lane : index to i32
  %three = scalar.constant 3 : i32
  %v = scalar.addi %l, %three : i32
  %s = kernel.subgroup.scan<{kind}> %v {{direction = {direction}, mode = {mode}}} : i32
  %w = buffer.view %o[%at0] : buffer -> view<3xi32>
  view.store %s, %w[%lane] : i32, view<3xi32>"""
    out = np.zeros(3, dtype=np.int32)
    programs.launch(programs.kernel(body, "%o: buffer", size=3), [], [out], facts={"subgroup_size": 4})
    assert out.tolist() == want
