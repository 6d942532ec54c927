"""Decoding of encoded payloads against the published formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

Programs = Any

F4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def decoded(programs: Programs, schema: str, payload: tuple[str, Any], result: str, **aux: tuple[str, Any]) -> Any:
    """The rows that a schema makes of payload rows and rows of auxiliaries."""
    types = ", ".join(f"{name} = %{name} : {type_}" for name, (type_, _) in aux.items())
    using = f" {{{types}}}" if aux else ""
    lines = f"""
  %schema = encoding.define {schema} : encoding<schema>
  %r = vector.decode %p using %schema{using} : {payload[0]}, encoding<schema> -> {result}"""
    (rows,) = programs.operation(lines, {"p": payload, **aux}, {"r": result})
    return rows


def test_mxfp4(programs: Programs) -> None:
    schema = (
        "#encoding.f4e2m1<affine=scale_only, payload_elements=32, payload_packing=little_endian_nibbles, "
        "payload_registers=4, scale_format=e8m0, scale_group_elements=32, scale_operands=1, scale_topology=block_1d, "
        "zero_scale_fallback=true>"
    )
    words = np.array([[0x76543210, -0x01234568, 0, -1], [1, 2, 3, 4]], dtype=np.int32)
    scales = np.array([[129], [0x1FF7F]], dtype=np.int32)
    r = decoded(programs, schema, ("vector<4xi32>", words), "vector<32xf32>", scale=("vector<1xi32>", scales))
    codes = (words[..., None].astype(np.int64) >> np.arange(0, 32, 4) & 15).reshape(2, 32)
    assert np.array_equal(r, F4[codes] * np.array([[4.0], [1.0]]))
    assert list(r[0, :8]) == [0, 2, 4, 6, 8, 12, 16, 24]


@pytest.mark.parametrize(("packing", "swap"), [("little_endian_nibbles", 0), ("big_endian_nibbles", 1)])
def test_nibbles_with_zero_points(programs: Programs, packing: str, swap: int) -> None:
    schema = (
        f"#encoding.u4<affine=scale_plus_zero_point, payload_elements=4, payload_packing={packing}, "
        "scale_format=f16, scale_group_elements=4, scale_operands=1, scale_topology=group_1d>"
    )
    payload = np.array([[0x21, 0x43, -1, 0x70]], dtype=np.int8)
    scale = np.array([[0.5, -2.0]], dtype=np.float16)
    r = decoded(
        programs,
        schema,
        ("vector<4xi8>", payload),
        "vector<2x4xf32>",
        scale=("vector<2xf16>", scale),
        zero_point=("vector<2xi8>", np.array([[3, -1]], dtype=np.int8)),
    )
    nibbles = np.array([1, 2, 3, 4, 15, 15, 0, 7])[np.arange(8) ^ swap]
    want = (nibbles - np.array([3] * 4 + [-1] * 4)) * np.array([0.5] * 4 + [-2.0] * 4)
    assert np.array_equal(r.reshape(8), want)


def test_streams_with_minimum_and_two_scales(programs: Programs) -> None:
    schema = (
        "#encoding.i3<affine=scale_plus_min, payload_elements=8, payload_packing=bitfield_stream, "
        "scale_format=f8e4m3fn, scale_operands=2, scale_topology=tensor_global, secondary_scale_format=f32>"
    )
    payload = np.array([[0xC5, 0x15, 0x8F]], dtype=np.uint8).view(np.int8)
    r = decoded(
        programs,
        schema,
        ("vector<3xi8>", payload),
        "vector<8xf64>",
        scale=("vector<1xi8>", np.array([[0x41]], dtype=np.int8)),
        secondary_scale=("vector<1xf32>", np.array([[0.5]], dtype=np.float32)),
        minimum=("vector<1xf32>", np.array([[10.0]], dtype=np.float32)),
    )
    assert np.array_equal(r[0], np.array([-3, 0, -1, 2, 1, -2, 3, -4]) * 2.25 * 0.5 + 10)


def test_blocks_of_two_axes(programs: Programs) -> None:
    schema = (
        "#encoding.i8<affine=scale_only, payload_elements=24, payload_packing=dense_lanes, scale_format=f32, "
        "scale_group_shape=[2, 3], scale_operands=1, scale_topology=block_2d>"
    )
    payload = np.arange(-12, 12, dtype=np.int8).reshape(1, 4, 6)
    scale = np.array([[1.0, 2.0, 4.0, 8.0]], dtype=np.float32)
    r = decoded(programs, schema, ("vector<4x6xi8>", payload), "vector<4x6xf32>", scale=("vector<4xf32>", scale))
    want = payload[0] * np.kron(scale[0].reshape(2, 2), np.ones((2, 3)))
    assert np.array_equal(r[0], want)


def test_unscaled_values(programs: Programs) -> None:
    payload = np.array([[0x01, 0x38, 0x41, 0x7E, -0x3C]], dtype=np.int8)
    r = decoded(programs, "#encoding.f8e4m3fn<payload_elements=1>", ("vector<5xi8>", payload), "vector<5xf32>")
    assert list(r[0]) == [2.0**-9, 1, 2.25, 448, -3]
    five = decoded(programs, "#encoding.i5<payload_elements=1>", ("vector<5xi8>", payload), "vector<5xi32>")
    assert list(five[0]) == [1, -8, 1, -2, 4]


def test_ggml_records(programs: Programs) -> None:
    rng = np.random.default_rng(2)
    quants = rng.integers(-128, 128, (2, 64)).astype(np.int8)
    scale = np.array([[0.25, -3.0], [1.5, 0.0]], dtype=np.float16)
    r = decoded(programs, "#ggml.q8_0", ("vector<64xi8>", quants), "vector<64xf32>", scale=("vector<2xf16>", scale))
    assert np.array_equal(r, quants * scale.astype(np.float32).repeat(32, axis=1))
    packed = rng.integers(-128, 128, (2, 16)).astype(np.int8)
    r = decoded(
        programs, "#ggml.q4_0", ("vector<16xi8>", packed), "vector<32xf32>", scale=("vector<1xf16>", scale[:, :1])
    )
    unsigned = packed.view(np.uint8).astype(np.int64)
    want = np.concatenate([unsigned & 15, unsigned >> 4], axis=1) - 8
    assert np.array_equal(r, want * scale[:, :1].astype(np.float32))


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("#ggml.q4_k", "4 elements of 4 bits in 32 bits"),
        ("#encoding.operand<element_format=ternary, payload_elements=1>", "ternary"),
        ("#encoding.u4<payload_elements=1, codebook=static_builtin_table>", "codebook"),
        ("#encoding.u4<payload_elements=1, payload_packing=base_n_packed>", "elements of 4 bits"),
        (
            "#encoding.i8<payload_elements=1, scale_format=f32, scale_operands=3, scale_topology=tensor_global>",
            "3 scales",
        ),
    ],
)
def test_schemas_without_a_rule_are_refused(programs: Programs, schema: str, reason: str) -> None:
    text = f"""
func.def public @f(%p: vector<4xi8>) -> (vector<4xf32>) {{
  %schema = encoding.define {schema} : encoding<schema>
  %one = vector.constant 1.0 : vector<1xf32>
  %r = vector.decode %p using %schema
    {{scale = %one : vector<1xf32>, scale2 = %one : vector<1xf32>, secondary_scale = %one : vector<1xf32>}}
    : vector<4xi8>, encoding<schema> -> vector<4xf32>
  func.return %r : vector<4xf32>
}}
"""
    fault = programs.fault(lambda: programs.call(text, "f", [np.zeros(4, dtype=np.int8)]))
    assert fault.code == "TARGET/001"
    assert reason in fault.message


@pytest.mark.parametrize(
    ("element", "packing", "carrier", "affine"),
    [
        ("i3", "bitfield_stream", "3xi8", "scale_plus_zero_point"),
        ("u4", "big_endian_nibbles", "2xi16", "scale_plus_bias"),
        ("f4e2m1", "little_endian_nibbles", "1xi32", "scale_only"),
        ("f6e3m2", "bitfield_stream", "3xi16", "scale_only"),
        ("f8e5m2", "dense_lanes", "8xi8", "scale_only"),
        ("bf16", "dense_lanes", "8xi16", "scale_only"),
    ],
)
def test_encoding_undoes_decoding(programs: Programs, element: str, packing: str, carrier: str, affine: str) -> None:
    lanes, width = int(carrier[0]), int(carrier[3:])
    payload = np.random.default_rng(5).integers(-(1 << (width - 1)), 1 << (width - 1), (4, lanes))
    # Neither NaN nor infinite, which have codes that decoding does not tell apart.
    payload &= {"f8e5m2": ~0x08, "bf16": ~0x0080}.get(element, -1)
    key = {"scale_plus_zero_point": "zero_point", "scale_plus_bias": "bias"}.get(affine)
    schema = (
        f"#encoding.{element}<affine={affine}, payload_elements=8, payload_packing={packing}, "
        "scale_format=f32, scale_group_elements=4, scale_operands=1, scale_topology=group_1d>"
    )
    inputs = {
        "p": (f"vector<{carrier}>", payload.astype(f"i{width // 8}")),
        "scale": ("vector<2xf64>", np.array([[0.5, -4.0]] * 4)),
    }
    if key is not None:
        inputs[key] = ("vector<2xf64>", np.array([[3.0, -1.0]] * 4))
    types = ", ".join(f"{name} = %{name} : vector<2xf64>" for name in sorted(inputs) if name != "p")
    lines = f"""
  %schema = encoding.define {schema} : encoding<schema>
  %v = vector.decode %p using %schema {{{types}}} : vector<{carrier}>, encoding<schema> -> vector<8xf64>
  %r = vector.encode %v using %schema {{{types}}} : vector<8xf64>, encoding<schema> -> vector<{carrier}>"""
    (r,) = programs.operation(lines, inputs, {"r": f"vector<{carrier}>"})
    assert np.array_equal(r, inputs["p"][1])


@pytest.mark.parametrize(
    ("rounding", "want"),
    [
        ("nearest_even", [2, -2, 0, 4]),
        ("nearest_away", [3, -3, 1, 4]),
        ("toward_zero", [2, -2, 0, 3]),
        ("down", [2, -3, 0, 3]),
        ("up", [3, -2, 1, 4]),
        ("satfinite", [2, -2, 0, 4]),
    ],
)
def test_roundings_of_integer_codes(programs: Programs, rounding: str, want: list[int]) -> None:
    lines = f"""
  %schema = encoding.define #encoding.i8<payload_elements=1, rounding={rounding}> : encoding<schema>
  %r = vector.encode %v using %schema : vector<4xf32>, encoding<schema> -> vector<4xi8>"""
    values = np.array([[2.5, -2.5, 0.5, 3.75]], dtype=np.float32)
    (r,) = programs.operation(lines, {"v": ("vector<4xf32>", values)}, {"r": "vector<4xi8>"})
    assert list(r[0]) == want


def test_values_without_a_code(programs: Programs) -> None:
    def text(schema: str) -> str:
        return f"""
func.def public @f(%v: vector<2xf32>) -> (vector<2xi8>) {{
  %schema = encoding.define {schema} : encoding<schema>
  %r = vector.encode %v using %schema : vector<2xf32>, encoding<schema> -> vector<2xi8>
  func.return %r : vector<2xi8>
}}
"""

    def encoded(schema: str, *values: float) -> Any:
        return programs.call(text(schema), "f", [np.array(values, dtype=np.float32)])[0]

    saturating = "#encoding.i4<payload_elements=1, rounding=satfinite>"
    assert list(encoded(saturating, 100.0, -100.0).view(np.uint8)) == [7, 8]
    assert list(encoded("#encoding.f4e2m1<payload_elements=1, rounding=nearest_even>", 5.0, -0.3)) == [6, 9]
    assert list(encoded("#encoding.f8e4m3fn<payload_elements=1, rounding=satfinite>", np.inf, -1.0)) == [
        0x7E,
        0xB8 - 256,
    ]
    for schema, bad in (
        ("#encoding.i4<payload_elements=1, rounding=nearest_even>", 8.0),
        ("#encoding.i4<payload_elements=1>", 0.5),
        (saturating, np.nan),
        ("#encoding.f4e2m1<payload_elements=1, rounding=nearest_even>", np.nan),
        ("#encoding.f8e4m3fn<payload_elements=1>", 1.01),
    ):
        fault = programs.fault(lambda s=schema, b=bad: encoded(s, 1.0, b))
        assert fault.code == "EVALUATE/001"
