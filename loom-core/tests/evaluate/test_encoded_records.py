"""Block-quantized records against their published formulas, byte by byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Programs = Any
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def half(b: Bytes, at: int) -> float:
    return float(b[at : at + 2].view(np.float16)[0])


def int8(value: Any) -> int:
    return int(value) - 256 * (int(value) > 127)


def q4_0(b: Bytes) -> list[float]:
    w, d = [0.0] * 32, half(b, 0)
    for i in range(16):
        q = int(b[2 + i])
        w[i], w[i + 16] = d * ((q & 15) - 8), d * ((q >> 4) - 8)
    return w


def q8_0(b: Bytes) -> list[float]:
    return [half(b, 0) * int8(b[2 + i]) for i in range(32)]


def six_bits(b: Bytes) -> tuple[list[int], list[int]]:
    sc, m = [0] * 8, [0] * 8
    for j in range(4):
        sc[j], m[j] = b[4 + j] & 63, b[8 + j] & 63
        sc[4 + j] = (b[12 + j] & 15) | ((b[4 + j] >> 6) << 4)
        m[4 + j] = (b[12 + j] >> 4) | ((b[8 + j] >> 6) << 4)
    return [int(v) for v in sc], [int(v) for v in m]


def q4_k(b: Bytes) -> list[float]:
    w, d, dmin = [0.0] * 256, half(b, 0), half(b, 2)
    sc, m = six_bits(b)
    for c in range(4):
        for i in range(32):
            q = int(b[16 + 32 * c + i])
            w[64 * c + i] = d * sc[2 * c] * (q & 15) - dmin * m[2 * c]
            w[64 * c + 32 + i] = d * sc[2 * c + 1] * (q >> 4) - dmin * m[2 * c + 1]
    return w


def q5_k(b: Bytes) -> list[float]:
    w, d, dmin = [0.0] * 256, half(b, 0), half(b, 2)
    sc, m = six_bits(b)
    for g in range(8):
        for i in range(32):
            low = int(b[48 + 32 * (g // 2) + i])
            low = low >> 4 if g % 2 else low & 15
            high = (int(b[16 + i]) >> g) & 1
            w[32 * g + i] = d * sc[g] * (low | high << 4) - dmin * m[g]
    return w


def q6_k(b: Bytes) -> list[float]:
    w, d = [0.0] * 256, half(b, 208)
    sc = [int8(b[192 + k]) for k in range(16)]
    for h in range(2):
        for r in range(4):
            for i in range(32):
                e = 128 * h + 32 * r + i
                low = (int(b[64 * h + 32 * (r % 2) + i]) >> (0 if r < 2 else 4)) & 15
                high = (int(b[128 + 32 * h + i]) >> (2 * r)) & 3
                w[e] = d * sc[e // 16] * ((low | high << 4) - 32)
    return w


def q8_1_x4(b: Bytes) -> list[float]:
    return [half(b, 4 * (e // 32)) * int8(b[16 + e]) for e in range(128)]


FORMULAS: dict[str, tuple[Callable[[Bytes], list[float]], int, tuple[int, ...]]] = {
    # The formula, the bytes of a record, and where halves stand in it (which are kept finite here).
    "q4_0": (q4_0, 18, (0,)),
    "q8_0": (q8_0, 34, (0,)),
    "q4_k": (q4_k, 144, (0, 2)),
    "q5_k": (q5_k, 176, (0, 2)),
    "q6_k": (q6_k, 210, (208,)),
    "q8_1_x4": (q8_1_x4, 144, (0, 2, 4, 6, 8, 10, 12, 14)),
}


def records(name: str, count: int, seed: int) -> Bytes:
    """Random records, with halves from the whole range of finite values."""
    rng = np.random.default_rng(seed)
    _, size, halves = FORMULAS[name]
    data = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in halves:
        data[:, at + 1] = np.where(data[:, at + 1] & 0x7C == 0x7C, 0x30, data[:, at + 1])
    return data


@pytest.mark.parametrize("carrier", ["i8", "i16"])
@pytest.mark.parametrize("name", FORMULAS)
def test_whole_records(programs: Programs, name: str, carrier: str) -> None:
    formula, size, _ = FORMULAS[name]
    data = records(name, 6, 7)
    want = np.array([formula(row) for row in data])
    elements = want.shape[1]
    # Two records a row; odd sizes have none in lanes of two bytes.
    payload = data.reshape(3, 2 * size).view(np.int8 if carrier == "i8" else np.int16)
    type_ = f"vector<{payload.shape[1]}x{carrier}>"
    result = f"vector<{2 * elements}xf64>"
    lines = f"""
  %schema = encoding.define #ggml.{name} : encoding<schema>
  %r = vector.decode %p using %schema : {type_}, encoding<schema> -> {result}"""
    (r,) = programs.operation(lines, {"p": (type_, payload)}, {"r": result})
    assert np.array_equal(r, want.reshape(3, 2 * elements))
    (single,) = programs.operation(
        lines.replace("xf64", "xf32"), {"p": (type_, payload)}, {"r": result.replace("f64", "f32")}
    )
    assert np.array_equal(single, want.reshape(3, -1).astype(np.float32))


def test_six_bit_fields_of_the_published_bytes() -> None:
    from loom.evaluate.records import RECORDS

    record = np.zeros((1, 144), dtype=np.uint8)
    record[0, 4:16] = list(bytes.fromhex("3F81C245105F9EE121436587"))
    record[0, :4] = np.array([1, 1], dtype=np.float16).view(np.uint8)
    _, header = RECORDS["ggml.q4_k"].split(record)
    assert header["secondary_scale"].tolist() == [[63, 1, 2, 5, 1, 35, 53, 23]]
    assert header["minimum"].tolist() == [[16, 31, 30, 33, 2, 20, 38, 56]]
    assert header["scale"].tolist() == [[1]]


CODES = {
    # Where the codes of a record lie, and its terms: operand, type of its lanes, lanes of one record.
    "q4_0": (2, 18, {"scale": ("f16", 1)}),
    "q8_0": (2, 34, {"scale": ("f16", 1)}),
    "q4_k": (16, 144, {"scale": ("f16", 1), "secondary_scale": ("i8", 8), "minimum": ("f32", 8)}),
    "q5_k": (16, 176, {"scale": ("f16", 1), "secondary_scale": ("i8", 8), "minimum": ("f32", 8)}),
    "q6_k": (0, 192, {"scale": ("f16", 1), "secondary_scale": ("i8", 16)}),
    "q8_1_x4": (16, 144, {"scale": ("f16", 4), "sum_correction": ("f16", 4)}),
}


def terms(name: str, record: Bytes) -> dict[str, Any]:
    """The header of a record as operands."""
    if name in ("q4_k", "q5_k"):
        scales, minima = six_bits(record)
        minimum = np.array(minima, dtype=np.float32) * np.float32(half(record, 2))
        return {
            "scale": record[0:2].view(np.float16),
            "secondary_scale": np.array(scales, dtype=np.int8),
            "minimum": minimum,
        }
    if name == "q6_k":
        return {"scale": record[208:210].view(np.float16), "secondary_scale": record[192:208].view(np.int8)}
    if name == "q8_1_x4":
        pairs = record[:16].view(np.float16)
        return {"scale": pairs[0::2].copy(), "sum_correction": pairs[1::2].copy()}
    return {"scale": record[0:2].view(np.float16)}


@pytest.mark.parametrize("name", CODES)
def test_codes_with_their_terms_as_operands_and_back(programs: Programs, name: str) -> None:
    first, end, types = CODES[name]
    data = records(name, 4, 9)
    # No scale may be zero, or codes could not be told apart by their values; nor so small that halves lose bits.
    data[:, FORMULAS[name][2][0] :][:, :2] = np.array([0.25], dtype=np.float16).view(np.uint8)
    if name == "q8_1_x4":
        data[:, :16] = np.tile(np.array([0.25, 3.0] * 4, dtype=np.float16).view(np.uint8), (4, 1))
    if name == "q6_k":
        data[:, 192:208] |= 1
    if name in ("q4_k", "q5_k"):
        data[:, 4:8] |= 1 | 1 << 6
        data[:, 2:4] = np.array([0.5], dtype=np.float16).view(np.uint8)
    formula = FORMULAS[name][0]
    want = np.array([formula(row) for row in data])
    payload = np.ascontiguousarray(data[:, first:end]).view(np.int8)
    given = [terms(name, row) for row in data]
    inputs: dict[str, tuple[str, Any]] = {"p": (f"vector<{payload.shape[1]}xi8>", payload)}
    for key, (element, count) in types.items():
        inputs[key] = (f"vector<{count}x{element}>", np.array([row[key] for row in given]))
    using = ", ".join(f"{key} = %{key} : {type_}" for key, (type_, _) in inputs.items() if key != "p")
    vector, packed = f"vector<{want.shape[1]}xf64>", inputs["p"][0]
    lines = f"""
  %schema = encoding.define #ggml.{name} : encoding<schema>
  %v = vector.decode %p using %schema {{{using}}} : {packed}, encoding<schema> -> {vector}
  %r = vector.encode %v using %schema {{{using}}} : {vector}, encoding<schema> -> {packed}"""
    values, back = programs.operation(lines, inputs, {"v": vector, "r": packed})
    assert np.array_equal(values, want)
    assert np.array_equal(back, payload)


def test_whole_records_have_their_own_headers(programs: Programs) -> None:
    text = """
func.def public @f(%p: vector<34xi8>, %s: vector<1xf16>) -> (vector<32xf32>) {
  %schema = encoding.define #ggml.q8_0 : encoding<schema>
  %r = vector.decode %p using %schema {scale = %s : vector<1xf16>} : vector<34xi8>, encoding<schema> -> vector<32xf32>
  func.return %r : vector<32xf32>
}
"""
    arguments = [np.zeros(34, dtype=np.int8), np.ones(1, dtype=np.float16)]
    fault = programs.fault(lambda: programs.call(text, "f", arguments))
    assert fault.code == "TARGET/001"
    assert "whole records" in fault.message
