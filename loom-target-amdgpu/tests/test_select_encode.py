"""Encoding of values as payloads agrees with the reference evaluator; what has no rule is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import TARGETS, agree, compile_text
from encoded_kernels import COUNT, kernel

from loom.ir.diagnostics import LoomError

Array = np.ndarray[Any, Any]
STORED = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "f16": "f2", "f32": "f4", "f64": "f8"}
Row = tuple[int, str]


def rows(values: Array, count: int, element: str) -> Array:
    """``count`` values for each work-item, repeating what is given."""
    with np.errstate(over="ignore"):  # what f16 cannot hold is infinite
        return np.resize(values, (COUNT, count)).astype(STORED[element])


def check(target: str, schema: str, values: tuple[str, Array], payload: Row, **aux: tuple[Row, Array]) -> None:
    extents, given = values
    *sizes, element = extents.split("x")
    arrays = [rows(given, int(np.prod([int(e) for e in sizes])), element)]
    arrays += [rows(array, *row) for row, array in aux.values()]
    out = np.zeros((COUNT, payload[0]), STORED[payload[1]])
    text = kernel("encode", schema, extents, f"{payload[0]}x{payload[1]}", {name: row for name, (row, _) in aux.items()})
    agree(text, target, [], [*arrays, out])


def plain(element: str, packing: str, rounding: str) -> str:
    return f"#encoding.{element}<payload_elements=8, payload_packing={packing}, rounding={rounding}>"


def around(codes: Array) -> Array:
    """Values of codes, halfway between them and next to halfway, with both signs and zeros."""
    codes = np.sort(codes)
    middle = (codes[1:] + codes[:-1]) / 2
    f32 = middle.astype(np.float32)
    near = [np.nextafter(f32, np.float32(-np.inf)), np.nextafter(f32, np.float32(np.inf))]
    found = np.concatenate([codes, middle, *near])
    return np.concatenate([found, -found, [0.0, -0.0, 1e-30, -1e-40]])


def magnitudes(fraction: int, bias: int, exponents: int) -> Array:
    """All finite magnitudes of a format with subnormals whose top exponent holds numbers."""
    part = np.arange(1 << fraction) / (1 << fraction)
    normal = [2.0 ** (e - bias) * (1 + part) for e in range(1, exponents)]
    return np.concatenate([2.0 ** (1 - bias) * part, *normal])


F4, F6, E4M3, E5M2 = magnitudes(1, 1, 4), magnitudes(3, 1, 4), magnitudes(3, 7, 16)[:-1], magnitudes(2, 15, 31)
BEYOND = np.array([1e3, -1e5, 1e30, -1e38, np.inf, -np.inf])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", ["f16", "f32", "f64"])
@pytest.mark.parametrize(
    ("name", "codes", "packing", "lanes"),
    [
        ("f4e2m1", F4, "little_endian_nibbles", 4), ("f4e2m1", F4, "big_endian_nibbles", 4),
        ("f6e2m3", F6, "bitfield_stream", 6),
        ("f8e4m3fn", E4M3, "dense_lanes", 8), ("f8e5m2", E5M2, "bitfield_stream", 8),
    ],
)  # fmt: skip
def test_small_floats(name: str, codes: Array, packing: str, lanes: int, element: str, target: str) -> None:
    values = np.concatenate([around(codes), BEYOND])
    if name.startswith("f8"):
        values = np.append(values, np.nan)
    for rounding in ("satfinite", "nearest_even"):
        for first in range(0, values.size, COUNT * 8):
            part = values[first : first + COUNT * 8]
            check(target, plain(name, packing, rounding), (f"8x{element}", part), (lanes, "i8"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize(
    ("name", "packing", "payload", "low", "high"),
    [
        ("i8", "dense_lanes", (8, "i8"), -128, 127), ("u8", "dense_lanes", (8, "i32"), 0, 255),
        ("i8", "dense_lanes", (8, "i64"), -128, 127), ("u4", "big_endian_nibbles", (1, "i32"), 0, 15),
        ("i5", "bitfield_stream", (5, "i8"), -16, 15), ("i32", "dense_lanes", (8, "i32"), -(2**31), 2**31 - 1),
    ],
)  # fmt: skip
def test_integers(name: str, packing: str, payload: Row, low: int, high: int, element: str, target: str) -> None:
    bottom, top = max(low, -(2**15)), min(high, 2**15)
    whole = np.linspace(bottom + 1, top - 1, 41).round()
    inside = np.concatenate([whole, whole + 0.5, whole - 0.5, whole + 0.25, [0.0, -0.0]])
    for rounding in ("nearest_even", "nearest_away", "toward_zero", "down", "up"):
        check(target, plain(name, packing, rounding), (f"8x{element}", inside), payload)
    check(target, plain(name, packing, "none"), (f"8x{element}", whole), payload)
    outside = np.concatenate([inside, [low - 1, high + 1, 1e20, -1e20, np.inf, -np.inf]])
    check(target, plain(name, packing, "satfinite"), (f"8x{element}", outside), payload)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", ["f16", "f32", "f64"])
def test_blocks_with_powers_of_two(element: str, target: str) -> None:
    """Scales from the least to the largest, with values that they bring into the format's range and out of it."""
    schema = (
        "#encoding.f4e2m1<affine=scale_only, payload_elements=32, payload_packing=little_endian_nibbles, "
        "payload_registers=4, scale_format=e8m0, scale_group_elements=32, scale_operands=1, scale_topology=block_1d, "
        "rounding=satfinite>"
    )
    for centre in (0, 32, 127, 222):
        codes = np.clip(centre + np.arange(COUNT) - COUNT // 2, 0, 254)
        powers = np.ldexp(1.0, codes - 127)[:, None]
        values = np.resize(around(F4), (COUNT, 32)) * (powers if element == "f64" else np.minimum(powers, 2.0**15))
        scale = codes.astype(np.uint8).view(np.int8)
        check(target, schema, (f"32x{element}", values), (4, "i32"), scale=((1, "i8"), scale))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("zero", ["i8", "f32"])
def test_scales_and_zero_points(zero: str, target: str) -> None:
    """Quotients next to halfway between codes; the groups are rows of a vector of two axes."""
    schema = (
        "#encoding.u4<affine=scale_plus_zero_point, payload_elements=4, payload_packing=little_endian_nibbles, "
        "scale_format=f16, scale_group_elements=4, scale_operands=1, scale_topology=group_1d, rounding=satfinite>"
    )
    rng = np.random.default_rng(5)
    scale = (rng.random((COUNT, 2)) + 0.25).astype(np.float16)
    point = rng.integers(0, 15, (COUNT, 2)).astype(STORED[zero])
    quotient = rng.integers(-4, 20, (COUNT, 2, 4)) + rng.choice([0.0, 0.5, 0.25], (COUNT, 2, 4))
    values = (quotient - point[..., None]) * scale[..., None].astype(np.float64)
    aux: dict[str, tuple[Row, Array]] = {"scale": ((2, "f16"), scale), "zero_point": ((2, zero), point)}
    check(target, schema, ("2x4xf32", values), (4, "i8"), **aux)


@pytest.mark.parametrize("target", TARGETS)
def test_minimum_and_two_scales(target: str) -> None:
    schema = (
        "#encoding.i6<affine=scale_plus_min, payload_elements=8, payload_packing=bitfield_stream, rounding=satfinite, "
        "scale_format=f8e4m3fn, scale_operands=2, scale_topology=tensor_global, secondary_scale_format=f32>"
    )
    rng = np.random.default_rng(6)
    codes = rng.integers(0x20, 0x60, COUNT).astype(np.int8)
    aux: dict[str, tuple[Row, Array]] = {
        "scale": ((1, "i8"), codes),
        "secondary_scale": ((1, "f32"), rng.random(COUNT) + 0.1),
        "minimum": ((1, "f32"), rng.standard_normal(COUNT)),
    }
    check(target, schema, ("8xf32", rng.standard_normal(COUNT * 8) * 20), (6, "i8"), **aux)


@pytest.mark.parametrize(
    ("schema", "values", "reason"),
    [
        (plain("f8e4m3fn", "dense_lanes", "up"), "4xf32", "rounding 'up' to f8e4m3fn"),
        (plain("i8", "dense_lanes", "stochastic"), "4xf32", "rounding 'stochastic' to i8"),
        (plain("i8", "dense_lanes", "nearest_even"), "4xi32", "values of i32"),
    ],
)
def test_what_has_no_rule_is_refused(schema: str, values: str, reason: str) -> None:
    with pytest.raises(LoomError, match=reason):
        compile_text(kernel("encode", schema, values, "4xi8", {}), "amdgpu:gfx1100")
