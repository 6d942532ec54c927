"""Reductions and dot products against closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

Programs = Any

BYTES = np.array([[[-56, -3, 127, -128]], [[1, 2, 3, 4]]], dtype=np.int8).reshape(2, 4)
OTHER = np.array([[-1, 50, 2, -1], [5, -6, 7, -8]], dtype=np.int8)


def test_reductions_of_every_integer_kind(programs: Programs) -> None:
    rows = np.array([[[3, -7], [2**31 - 1, 0]], [[-1, 5], [6, -(2**31)]]], dtype=np.int32)
    init = np.array([1, -1], dtype=np.int32)
    flat = rows.reshape(2, 4)
    both = np.concatenate([init[:, None], flat], axis=1)
    unsigned = both.view(np.uint32)
    wants = {
        "addi": both.sum(axis=1, dtype=np.int32),
        "muli": both.prod(axis=1, dtype=np.int32),
        "minsi": both.min(axis=1),
        "maxsi": both.max(axis=1),
        "minui": unsigned.min(axis=1).view(np.int32),
        "maxui": unsigned.max(axis=1).view(np.int32),
        "andi": np.bitwise_and.reduce(both, axis=1),
        "ori": np.bitwise_or.reduce(both, axis=1),
        "xori": np.bitwise_xor.reduce(both, axis=1),
    }
    for kind, want in wants.items():
        (r,) = programs.operation(
            f"  %r = vector.reduce<{kind}> %v, %x : vector<2x2xi32>, i32",
            {"v": ("vector<2x2xi32>", rows), "x": ("i32", init)},
            {"r": "i32"},
        )
        assert np.array_equal(r, want), kind


def test_float_reductions_go_in_lane_order(programs: Programs) -> None:
    rows = np.array([[1e8, 1.0, -1e8, 1.0], [0.1, 0.2, 0.3, 0.4]], dtype=np.float32)
    (r,) = programs.operation(
        "  %zero = scalar.constant 0.0 : f32\n  %r = vector.reduce<addf, reassoc> %v, %zero : vector<4xf32>, f32",
        {"v": ("vector<4xf32>", rows)},
        {"r": "f32"},
    )
    for got, row in zip(r, rows, strict=True):
        total = np.float32(0)
        for lane in row:
            total = np.float32(total + lane)
        assert got == total


@pytest.mark.parametrize(
    ("kind", "want"),
    [("minimumf", [np.nan, -0.0]), ("maximumf", [np.nan, 5.0]), ("minnumf", [-1.0, -0.0]), ("maxnumf", [2.0, 5.0])],
)
def test_float_extrema(programs: Programs, kind: str, want: list[float]) -> None:
    rows = np.array([[2.0, np.nan, -1.0], [0.0, -0.0, 5.0]], dtype=np.float32)
    init = np.array([1.0, 3.0], dtype=np.float32)
    (r,) = programs.operation(
        f"  %r = vector.reduce<{kind}> %v, %x : vector<3xf32>, f32",
        {"v": ("vector<3xf32>", rows), "x": ("f32", init)},
        {"r": "f32"},
    )
    assert np.array_equal(r, np.array(want, dtype=np.float32), equal_nan=True)
    assert np.array_equal(np.signbit(r[1:]), np.signbit(want[1:]))


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)])
def test_reductions_along_axes(programs: Programs, axes: tuple[int, ...]) -> None:
    rows = np.random.default_rng(1).integers(-999, 999, (2, 2, 3, 4)).astype(np.int32)
    rest = [d for axis, d in enumerate((2, 3, 4)) if axis not in axes]
    init = np.arange(2 * int(np.prod(rest)), dtype=np.int32).reshape(2, *rest)
    type_ = f"vector<{'x'.join(map(str, rest))}xi32>" if rest else "i32"
    (r,) = programs.operation(
        f"  %r = vector.reduce.axes<addi> %v, %x axes [{', '.join(map(str, axes))}] : vector<2x3x4xi32>, {type_}",
        {"v": ("vector<2x3x4xi32>", rows), "x": (type_, init)},
        {"r": type_},
    )
    assert np.array_equal(r, init + rows.sum(axis=tuple(a + 1 for a in axes)))


@pytest.mark.parametrize(("signs", "want"), [("s8s8", 295), ("u8s8", 12583), ("s8u8", -46809), ("u8u8", 96551)])
def test_dot4i(programs: Programs, signs: str, want: int) -> None:
    acc = np.array([[7], [-(2**31)]], dtype=np.int32)
    (r,) = programs.operation(
        f"  %r = vector.dot4i<{signs}> %a, %b, %c : vector<4xi8>, vector<4xi8>, vector<1xi32>",
        {"a": ("vector<4xi8>", BYTES), "b": ("vector<4xi8>", OTHER), "c": ("vector<1xi32>", acc)},
        {"r": "vector<1xi32>"},
    )
    assert r[0, 0] == want
    products = 5 - 12 + 21 - 32 + (256 * (2 + 4) if signs[2] == "u" else 0)
    assert r[1, 0] == np.int64(-(2**31) + products).astype(np.int32)


@pytest.mark.parametrize(("signs", "want"), [("s4s4", 52), ("u4s4", 228), ("s4u4", 212), ("u4u4", 388)])
def test_dot8i4(programs: Programs, signs: str, want: int) -> None:
    a = np.array([[0x8F7A1234, 0]], dtype=np.uint32).view(np.int32)
    b = np.array([[0x13579BDF, 5]], dtype=np.uint32).view(np.int32)
    (r,) = programs.operation(
        f"  %r = vector.dot8i4<{signs}> %a, %b, %c : vector<2xi32>",
        {
            "a": ("vector<2xi32>", a),
            "b": ("vector<2xi32>", b),
            "c": ("vector<2xi32>", np.array([[100, -9]], dtype=np.int32)),
        },
        {"r": "vector<2xi32>"},
    )
    assert np.array_equal(r, [[want, -9]])


@pytest.mark.parametrize(("formats", "want"), [("fp8bf8", -3.8701171875), ("fp8fp8", -2.24560546875)])
def test_dot4f8(programs: Programs, formats: str, want: float) -> None:
    (r,) = programs.operation(
        f"  %r = vector.dot4f8<{formats}> %a, %b, %c : vector<1xi32>, vector<1xf32>",
        {
            "a": ("vector<1xi32>", np.array([[0x4138C401]], dtype=np.int32)),
            "b": ("vector<1xi32>", np.array([[0x38384041]], dtype=np.int32)),
            "c": ("vector<1xf32>", np.array([[0.5]], dtype=np.float32)),
        },
        {"r": "vector<1xf32>"},
    )
    assert r[0, 0] == want


def test_dot2f_and_dotf_round_once_per_step(programs: Programs) -> None:
    half = np.array([[[2.0**-12 + 1, 3.0, 60000.0, -60000.0]]], dtype=np.float16)
    (r,) = programs.operation(
        "  %r = vector.dot2f %a, %a, %c : vector<1x4xf16>, vector<1x4xf16>, vector<1x2xf32>",
        {"a": ("vector<1x4xf16>", half), "c": ("vector<1x2xf32>", np.array([[[0.5, -1e30]]], dtype=np.float32))},
        {"r": "vector<1x2xf32>"},
    )
    wide = half.astype(np.float64).reshape(2, 2)
    assert r[0, 0, 0] == np.float32(0.5 + (wide[0] ** 2).sum())
    assert r[0, 0, 1] == np.float32(-1e30)
    # (1 + e)(1 - e) - 1 = -e^2 is lost without fusing.
    e = np.float32(2.0**-13)
    (d,) = programs.operation(
        "  %r = vector.dotf %a, %b, %c : vector<1x2xf32>, vector<1x2xf32>, f32",
        {
            "a": ("vector<1x2xf32>", np.array([[[1 + e, 0.0]]], dtype=np.float32)),
            "b": ("vector<1x2xf32>", np.array([[[1 - e, 9.0]]], dtype=np.float32)),
            "c": ("f32", np.array([-1.0], dtype=np.float32)),
        },
        {"r": "f32"},
    )
    assert d[0] == -(2.0**-26)
