"""Lane-wise vector operations and bit strings against NumPy and closed forms, uniform and per work-item."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loom.evaluate.numeric import OPERATIONS, Kind
from loom.evaluate.numeric.formats import FORMATS
from loom.spec.registry import lookup

Programs = Any

INTEGERS = np.array([[0, 1, -1, 2**31 - 1], [-(2**31), 7, -8, 3], [12, -(2**31), 2**31 - 1, -5]], dtype=np.int32)
OTHERS = np.array([[5, 2**31 - 1, -1, 1], [3, -7, 2, 2**31 - 1], [4, 1, -3, 2]], dtype=np.int32)
FLOATS = np.array([[0.0, -0.0, np.nan, 1.5], [np.inf, -np.inf, -2.5, 3e38], [1e-45, 0.1, -7.0, 2.5]], dtype=np.float32)


def test_every_lanewise_operation_equals_the_scalar_one_in_each_lane(programs: Programs) -> None:
    """The declared vector operations with one type of operands and result, against `scalar` on each lane."""
    checked = 0
    for name, operation in OPERATIONS.items():
        if name in ("clampf", "geluf", "cmpi", "cmpf", "select", "bitcast") or operation.required:
            continue
        if lookup(f"vector.{name}") is None or lookup(f"scalar.{name}") is None or "DECLARED" in str(operation.result):
            continue
        element, base = ("f32", FLOATS) if operation.operands[0] & Kind.FLOAT else ("i32", np.abs(INTEGERS) % 30 + 1)
        if element == "i32":
            base = base.astype(np.int32)
        to = "i1" if name.startswith("is") else element
        tail = f" -> vector<4x{to}>" if to == "i1" else ""
        letters = "abc"[: operation.arity]
        rows = {letter: np.roll(base, i, axis=1) for i, letter in enumerate(letters)}
        arguments = ", ".join(f"%{letter}" for letter in letters)
        (got,) = programs.operation(
            f"  %r = vector.{name} {arguments} : vector<4x{element}>{tail}",
            {letter: (f"vector<4x{element}>", rows[letter]) for letter in letters},
            {"r": f"vector<4x{to}>"},
        )
        (want,) = programs.operation(
            f"  %r = scalar.{name} {arguments} : {element}",
            {letter: (element, rows[letter].reshape(-1)) for letter in letters},
            {"r": to},
        )
        assert got.tobytes() == want.tobytes(), name
        checked += 1
    assert checked > 70


def test_integers_wrap_in_every_lane(programs: Programs) -> None:
    both = {"a": ("vector<4xi32>", INTEGERS), "b": ("vector<4xi32>", OTHERS)}
    for name, function in (("addi", np.add), ("subi", np.subtract), ("muli", np.multiply)):
        (got,) = programs.operation(f"  %r = vector.{name} %a, %b : vector<4xi32>", both, {"r": "vector<4xi32>"})
        assert np.array_equal(got, function(INTEGERS, OTHERS))


def test_comparisons_and_selection(programs: Programs) -> None:
    lines = """
  %lt = vector.cmpi ult, %a, %b : vector<4xi32> -> vector<4xi1>
  %r = vector.select %lt, %a, %b : vector<4xi32>"""
    both = {"a": ("vector<4xi32>", INTEGERS), "b": ("vector<4xi32>", OTHERS)}
    lt, r = programs.operation(lines, both, {"lt": "vector<4xi1>", "r": "vector<4xi32>"})
    want = INTEGERS.view(np.uint32) < OTHERS.view(np.uint32)
    assert np.array_equal(lt, want)
    assert np.array_equal(r, np.where(want, INTEGERS, OTHERS))
    other = np.roll(FLOATS, 1, axis=0)
    (une,) = programs.operation(
        "  %r = vector.cmpf une, %a, %b : vector<4xf32> -> vector<4xi1>",
        {"a": ("vector<4xf32>", FLOATS), "b": ("vector<4xf32>", other)},
        {"r": "vector<4xi1>"},
    )
    assert np.array_equal(une, other != FLOATS)


def test_clamp_and_gelu_take_their_parameters(programs: Programs) -> None:
    low, high = np.full_like(FLOATS, -1.0), np.full_like(FLOATS, 2.0)
    (r,) = programs.operation(
        "  %r = vector.clampf<number> %x, %l, %h : vector<4xf32>",
        {"x": ("vector<4xf32>", FLOATS), "l": ("vector<4xf32>", low), "h": ("vector<4xf32>", high)},
        {"r": "vector<4xf32>"},
    )
    assert np.array_equal(r, np.fmin(np.fmax(FLOATS, low), high))
    x = np.array([[0.0, 1.0, -2.0, 3.0]], dtype=np.float32)
    (g,) = programs.operation(
        "  %r = vector.geluf<logistic> %x {scale = 1.5} : vector<4xf32>",
        {"x": ("vector<4xf32>", x)},
        {"r": "vector<4xf32>"},
    )
    assert np.allclose(g, x / (1 + np.exp(-1.5 * x)), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "source", "target", "rows", "want"),
    [
        ("extsi", "i8", "i32", np.array([[-128, -1], [0, 127]], np.int8), [[-128, -1], [0, 127]]),
        ("extui", "i8", "i32", np.array([[-128, -1], [0, 127]], np.int8), [[128, 255], [0, 127]]),
        ("trunci", "i32", "i8", np.array([[257, -129], [255, 128]], np.int32), [[1, 127], [-1, -128]]),
        ("sitofp", "i1", "f32", np.array([[True, False]]), [[-1.0, 0.0]]),
        ("uitofp", "i32", "f64", np.array([[-1, 1]], np.int32), [[4294967295.0, 1.0]]),
        ("fptosi", "f32", "i8", np.array([[-128.9, 127.5]], np.float32), [[-128, 127]]),
        ("extf", "f16", "f32", np.array([[np.inf, -0.0]], np.float16), [[np.inf, -0.0]]),
        ("fptrunc", "f64", "f16", np.array([[65520.0, 2.0**-25]]), [[np.inf, 0.0]]),
    ],
)
def test_conversions(programs: Programs, name: str, source: str, target: str, rows: Any, want: Any) -> None:
    (got,) = programs.operation(
        f"  %r = vector.{name} %x : vector<2x{source}> to vector<2x{target}>",
        {"x": (f"vector<2x{source}>", rows)},
        {"r": f"vector<2x{target}>"},
    )
    assert got.dtype == FORMATS[target].dtype
    assert np.array_equal(got, np.array(want))


def test_a_faulting_lane_is_named_and_inactive_ones_are_ignored(programs: Programs) -> None:
    body = """
  %view = buffer.view %b[%at0] : buffer -> view<4x2xi32>
  %v = vector.load %view[%lane, 0] : view<4x2xi32> -> vector<2xi32>
  %ten = vector.constant 10 : vector<2xi32>
  %limit = index.constant {limit} : index
  %some = index.cmp ult, %lane, %limit : index
  scf.if %some {{
    %q = vector.divsi %ten, %v : vector<2xi32>
    vector.store %q, %view[%lane, 0] : vector<2xi32>, view<4x2xi32>
  }}"""
    data = np.array([[1, 2], [5, -3], [4, 0], [1, 1]], dtype=np.int32)
    programs.launch(programs.kernel(body.format(limit=2), "%b: buffer", size=4), [], [data])
    assert np.array_equal(data, [[10, 5], [2, -3], [4, 0], [1, 1]])
    text = programs.kernel(body.format(limit=3), "%b: buffer", size=4)
    fault = programs.fault(lambda: programs.launch(text, [], [data]))
    assert fault.code == "EVALUATE/001"
    assert fault.params["workitem"] == "work-item (2, 0, 0) of workgroup (0, 0, 0)"
    assert "[4, 0]" in fault.message


def test_bit_fields(programs: Programs) -> None:
    codes = np.array([[0x00, 0x7F, -1, -0x5B]] * 2, dtype=np.int8)
    lines = """
  %u = vector.bitfield.extractu %c {offset = 3, width = 5} : vector<4xi8> -> vector<4xi16>
  %s = vector.bitfield.extracts %c {offset = 0, width = 3} : vector<4xi8> -> vector<4xi16>
  %m = vector.bitfield.insert %s into %c {offset = 5, width = 3} : vector<4xi16>, vector<4xi8>"""
    u, s, m = programs.operation(
        lines, {"c": ("vector<4xi8>", codes)}, {"u": "vector<4xi16>", "s": "vector<4xi16>", "m": "vector<4xi8>"}
    )
    raw = codes.view(np.uint8).astype(np.int64)
    assert np.array_equal(u, raw >> 3)
    low = raw & 7
    assert np.array_equal(s, np.where(low >= 4, low - 8, low))
    assert np.array_equal(m.view(np.uint8), raw & 0x1F | low << 5)


def test_bit_strings(programs: Programs) -> None:
    fields = np.array([[5, 0, 7, 2, 1, 6, 3, 4], [0xF5 - 256, 0, 7, 2, 1, 6, 3, 4]], dtype=np.int8)
    lines = """
  %p = vector.bitpack<3> %x : vector<8xi8> -> vector<3xi8>
  %u = vector.bitunpacku<3> %p : vector<3xi8> -> vector<2x4xi8>
  %s = vector.bitunpacks<3> %p : vector<3xi8> -> vector<8xi16>"""
    p, u, s = programs.operation(
        lines, {"x": ("vector<8xi8>", fields)}, {"p": "vector<3xi8>", "u": "vector<2x4xi8>", "s": "vector<8xi16>"}
    )
    assert np.array_equal(p.view(np.uint8), [[0xC5, 0x15, 0x8F]] * 2)
    assert np.array_equal(u, [[[5, 0, 7, 2], [1, 6, 3, 4]]] * 2)
    assert np.array_equal(s, [[-3, 0, -1, 2, 1, -2, 3, -4]] * 2)


def test_bitcast_cuts_anew_across_lanes(programs: Programs) -> None:
    words = np.arange(24, dtype=np.int32).reshape(3, 2, 4) * -77777
    lines = """
  %b = vector.bitcast %w : vector<2x4xi32> to vector<32xi8>
  %d = vector.bitcast %b : vector<32xi8> to vector<4xf64>
  %m = vector.bitcast %w : vector<2x4xi32> to vector<256xi1>"""
    b, d, m = programs.operation(
        lines,
        {"w": ("vector<2x4xi32>", words)},
        {"b": "vector<32xi8>", "d": "vector<4xf64>", "m": "vector<256xi1>"},
    )
    assert np.array_equal(b, words.view(np.int8).reshape(3, 32))
    assert d.tobytes() == words.tobytes()
    assert np.array_equal(np.packbits(m, axis=1, bitorder="little"), words.view(np.uint8).reshape(3, 32))


def test_a_bitcast_of_dynamic_extents_must_keep_the_bits(programs: Programs) -> None:
    text = """
func.def public @f(%n: index, %m: index, %x: i32) -> (i8) {
  %v = vector.splat %x : vector<[%n]xi32>
  %b = vector.bitcast %v : vector<[%n]xi32> to vector<[%m]xi8>
  %r = vector.extract %b[5] : vector<[%m]xi8> -> i8
  func.return %r : i8
}
"""
    assert programs.call(text, "f", [2, 8, 0x01020304]) == [3]
    fault = programs.fault(lambda: programs.call(text, "f", [2, 9, 0]))
    assert fault.code == "EVALUATE/006"
    assert "64 bits" in fault.message
