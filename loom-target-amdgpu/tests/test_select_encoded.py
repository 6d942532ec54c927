"""Decoding of encoded payloads agrees with the reference evaluator; what has no rule is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import TARGETS, agree, compile_text
from encoded_kernels import COUNT, kernel

from loom.ir.diagnostics import LoomError

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(41)
STORED = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "f16": "f2", "bf16": "u2", "f32": "f4", "f64": "f8"}

MXFP4 = (
    "#encoding.f4e2m1<affine=scale_only, payload_elements=32, payload_packing=little_endian_nibbles, "
    "payload_registers=4, scale_format=e8m0, scale_group_elements=32, scale_operands=1, scale_topology=block_1d, "
    "zero_scale_fallback=true>"
)
NIBBLES = (
    "#encoding.u4<affine=scale_plus_zero_point, payload_elements=4, payload_packing={packing}, "
    "scale_format=f16, scale_group_elements=4, scale_operands=1, scale_topology=group_1d>"
)
STREAM = (
    "#encoding.i3<affine=scale_plus_min, payload_elements=8, payload_packing=bitfield_stream, "
    "scale_format=f8e4m3fn, scale_operands=2, scale_topology=tensor_global, secondary_scale_format=f32>"
)
BYTES = "#encoding.i8<affine=scale_only, payload_elements=8, scale_format=f32, scale_operands=1, scale_topology={}>"
LEVELS = (
    "#encoding.u6<affine=super_scale_times_subscale, payload_elements=16, payload_packing=bitfield_stream, "
    "scale_format=f16, secondary_scale_format=f8e5m2, scale_operands=2, scale_topology=hierarchical, "
    "scale_group_elements=4>"
)
SMALL = "#encoding.{}<payload_elements=1, payload_packing={}>"


def noise(width: int, type_: str) -> Array:
    kind = STORED[type_]
    if kind[0] == "f":
        return (RNG.standard_normal((COUNT, width)) * 4).astype(kind)
    info = np.iinfo(kind)
    return RNG.integers(info.min, info.max, (COUNT, width), dtype=kind, endpoint=True)


def check(
    target: str, schema: str, payload: tuple[int, str], result: str, aux: dict[str, tuple[int, str]], **given: Array
) -> None:
    arrays = [given.get(name, noise(*shape)) for name, shape in {"payload": payload, **aux}.items()]
    *extents, element = result.split("x")
    out = np.zeros((COUNT, int(np.prod([int(e) for e in extents]))), STORED[element])
    agree(kernel("decode", schema, f"{payload[0]}x{payload[1]}", result, aux), target, [], [*arrays, out])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", ["f32", "f16", "f64"])
def test_mxfp4(element: str, target: str) -> None:
    # Scales from the least to the one that is NaN.
    scale = np.linspace(0, 255, COUNT).astype(np.uint8).view(np.int8).reshape(COUNT, 1)
    check(target, MXFP4, (4, "i32"), f"32x{element}", {"scale": (1, "i8")}, scale=scale)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("packing", ["little_endian_nibbles", "big_endian_nibbles", "bitfield_stream"])
@pytest.mark.parametrize("zero", ["i8", "f32"])
def test_zero_points(packing: str, zero: str, target: str) -> None:
    aux = {"scale": (2, "f16"), "zero_point": (2, zero)}
    check(target, NIBBLES.format(packing=packing), (4, "i8"), "2x4xf32", aux)


@pytest.mark.parametrize("target", TARGETS)
def test_streams_with_minimum_and_two_scales(target: str) -> None:
    aux = {"scale": (1, "i8"), "secondary_scale": (1, "f32"), "minimum": (1, "f32")}
    check(target, STREAM, (3, "i8"), "8xf32", aux)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("topology", "scales"), [("row", 2), ("column", 4), ("tensor_global", 1)])
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_scales_of_rows_and_columns(topology: str, scales: int, element: str, target: str) -> None:
    check(target, BYTES.format(topology), (8, "i8"), f"2x4x{element}", {"scale": (scales, "f32")})


@pytest.mark.parametrize("target", TARGETS)
def test_two_levels(target: str) -> None:
    check(target, LEVELS, (12, "i8"), "16xf32", {"scale": (1, "f16"), "secondary_scale": (4, "i8")})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("name", "lanes", "result", "packing"),
    [
        ("f6e2m3", 3, 4, "bitfield_stream"), ("f6e3m2", 3, 4, "bitfield_stream"), ("bf6", 3, 4, "bitfield_stream"),
        ("f8e4m3fn", 4, 4, "dense_lanes"), ("f8e5m2", 4, 4, "dense_lanes"), ("bf8", 4, 4, "dense_lanes"),
        ("u5", 5, 8, "bitfield_stream"), ("i6", 4, 4, "dense_lanes"),
    ],
)  # fmt: skip
def test_plain_formats(name: str, lanes: int, result: int, packing: str, target: str) -> None:
    check(target, SMALL.format(name, packing), (lanes, "i8"), f"{result}xf32", {})


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (SMALL.format("f8e4m3", "dense_lanes"), "values of format 'f8e4m3'"),
        (SMALL.format("u4", "big_endian_nibbles").replace("u4", "u2"), "the packing 'big_endian_nibbles'"),
        (SMALL.format("u4", "bitfield_stream"), "4 elements of 4 bits in 32 bits"),
    ],
)
def test_what_has_no_rule_is_refused(schema: str, reason: str) -> None:
    with pytest.raises(LoomError, match=reason):
        compile_text(kernel("decode", schema, "4xi8", "4xf32", {}), "amdgpu:gfx1100")
