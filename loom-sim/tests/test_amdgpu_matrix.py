"""Matrix instructions and dot products, compiled by clang from builtins, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amdgpu_compile import KERNELS, configurations, gpu_object, needs_clang

from loom_sim import amdgpu

pytestmark = needs_clang
SOURCE = KERNELS / "matrix.c"
CONFIGURATIONS = configurations(("gfx1100", "3"), ("gfx1151", "0"), ("gfx1200", "3"), ("gfx942", "3"))
LANES = {"gfx1100": 32, "gfx1151": 32, "gfx1200": 32, "gfx942": 64}
RNG = np.random.default_rng(5)
Array = np.ndarray[Any, Any]


def _configured(*targets: str) -> pytest.MarkDecorator:
    chosen = [(t, o) for t, o in CONFIGURATIONS if not targets or t in targets]
    return pytest.mark.parametrize(("target", "optimize"), chosen, ids=[f"{t}-O{o}" for t, o in chosen])


everywhere = _configured()
with_wmma = _configured("gfx1100", "gfx1151", "gfx1200")
with_mfma = _configured("gfx942")


def _run(target: str, optimize: str, name: str, *arguments: Array) -> None:
    amdgpu.load(gpu_object(SOURCE, target, optimize)).launch(name, 1, LANES[target], list(arguments))


def _small(shape: tuple[int, ...], kind: str) -> Array:
    """Values whose products and sums are exact, and all different enough to show a wrong place."""
    return RNG.integers(-15, 16, shape).astype(kind)


@everywhere
def test_f16_with_accumulator(target: str, optimize: str) -> None:
    a, b = _small((16, 16), "f2"), _small((16, 16), "f2")
    o = _small((16, 16), "f4")
    expected = a.astype("f4") @ b.astype("f4") + o
    _run(target, optimize, "f16", a, b, o)
    np.testing.assert_array_equal(o, expected)


@with_wmma
def test_bf16(target: str, optimize: str) -> None:
    a, b, o = _small((16, 16), "f4"), _small((16, 16), "f4"), np.zeros((16, 16), "f4")
    narrow = [(m.view("u4") >> 16).astype("u2") for m in (a, b)]
    _run(target, optimize, "bf16", *narrow, o)
    np.testing.assert_array_equal(o, a @ b)


@with_wmma
def test_f16_result(target: str, optimize: str) -> None:
    a, b, o = _small((16, 16), "f2"), _small((16, 16), "f2"), np.zeros((16, 16), "f2")
    _run(target, optimize, "f16_f16", a, b, o)
    np.testing.assert_array_equal(o, (a.astype("f4") @ b.astype("f4")).astype("f2"))


@with_wmma
def test_signed_times_unsigned_bytes(target: str, optimize: str) -> None:
    a, b = RNG.integers(-128, 128, (16, 16)).astype("i1"), RNG.integers(0, 256, (16, 16)).astype("u1")
    o = np.zeros((16, 16), "i4")
    _run(target, optimize, "i8", a, b, o)
    np.testing.assert_array_equal(o, a.astype("i4") @ b.astype("i4"))


@with_mfma
def test_mfma_bytes(target: str, optimize: str) -> None:
    a, b = RNG.integers(-128, 128, (16, 32)).astype("i1"), RNG.integers(-128, 128, (32, 16)).astype("i1")
    o = np.zeros((16, 16), "i4")
    _run(target, optimize, "i8", a, b, o)
    np.testing.assert_array_equal(o, a.astype("i4") @ b.astype("i4"))


@with_mfma
@pytest.mark.parametrize(
    ("name", "kind", "result", "m", "k"),
    [("wide", "f2", "f4", 32, 8), ("f32", "f4", "f4", 16, 4), ("f64", "f8", "f8", 16, 4)],
)
def test_mfma_floats(name: str, kind: str, result: str, m: int, k: int, target: str, optimize: str) -> None:
    a, b, o = _small((m, k), kind), _small((k, m), kind), np.zeros((m, m), result)
    _run(target, optimize, name, a, b, o)
    np.testing.assert_array_equal(o, a.astype(result) @ b.astype(result))


@with_mfma
def test_mfma_blocks(target: str, optimize: str) -> None:
    a, b, o = _small((16, 4, 1), "f4"), _small((16, 1, 4), "f4"), np.zeros((16, 4, 4), "f4")
    _run(target, optimize, "small", a, b, o)
    np.testing.assert_array_equal(o, a @ b)


@everywhere
def test_integer_dot_products(target: str, optimize: str) -> None:
    n = LANES[target]
    a, b = (RNG.integers(-(1 << 31), 1 << 31, n).astype("i4") for _ in range(2))
    o = np.zeros((n, 4), "i4")
    _run(target, optimize, "dots", a, b, o)

    def dot(kind_a: str, kind_b: str) -> Array:
        x, y = a.view(kind_a).reshape(n, -1).astype("i8"), b.view(kind_b).reshape(n, -1).astype("i8")
        return np.asarray((x * y).sum(axis=1))

    nibbles = [np.stack([m.view("u4") >> s & 15 for s in range(0, 32, 4)], axis=1).astype("i8") for m in (a, b)]
    second = dot("i2", "i2") if target == "gfx942" else dot("i1", "u1")
    expected = [
        dot("i1", "i1") + 5,
        second + np.arange(n),
        dot("u1", "u1") + 7,
        (nibbles[0] * nibbles[1]).sum(axis=1) + 9,
    ]
    np.testing.assert_array_equal(o, np.stack(expected, axis=1).astype("u8").astype("u4").view("i4"))


@everywhere
def test_half_dot_product(target: str, optimize: str) -> None:
    n = LANES[target]
    a, b, o = _small((n, 2), "f2"), _small((n, 2), "f2"), np.zeros(n, "f4")
    _run(target, optimize, "half_dot", a, b, o)
    np.testing.assert_array_equal(o, (a.astype("f4") * b.astype("f4")).sum(axis=1) + np.arange(n))


@everywhere
def test_mixed_precision_multiply_add(target: str, optimize: str) -> None:
    n = LANES[target]
    a, b, o = _small((n,), "f2"), RNG.standard_normal(n).astype("f4"), np.zeros(n, "f4")
    _run(target, optimize, "mixed", a, b, o)
    swapped = a.reshape(-1, 2)[:, ::-1].reshape(-1)
    expected = (a.astype("f8") * b.astype("f8") - swapped.astype("f8")).astype("f4")
    np.testing.assert_array_equal(o, expected)
