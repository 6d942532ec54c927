"""Kernels without communication between work-items, compiled by clang, against the same C on the CPU."""

from __future__ import annotations

import ctypes
from functools import partial
from typing import Any

import numpy as np
import pytest
from amdgpu_compile import KERNELS, configurations, cpu_library, gpu_object, needs_clang

from loom_sim import amdgpu

SOURCE = KERNELS / "items.c"
CONFIGURATIONS = configurations(
    ("gfx942", "0"),
    ("gfx942", "3"),
    ("gfx1100", "0"),
    ("gfx1100", "2"),
    ("gfx1151", "3"),
    ("gfx1200", "3"),
)
COUNT = 333
GROUP = 96

_PIXEL = np.dtype(
    {
        "names": ["r", "g", "b", "a", "depth", "weight"],
        "formats": ["u1"] * 4 + ["u2", "f4"],
        "itemsize": 12,
        "offsets": [0, 1, 2, 3, 4, 8],
    }
)


def _integers(rng: np.random.Generator, kind: str, count: int = COUNT) -> np.ndarray[Any, Any]:
    info = np.iinfo(kind)
    values = rng.integers(info.min, info.max, count, dtype=kind, endpoint=True)
    edges = np.array([0, 1, info.max, info.min, info.max // 2, 2, 3, 7, 255 & info.max], kind)
    values[: len(edges)] = edges
    small = rng.integers(0, 100, count // 4).astype(kind)
    values[-len(small) :] = small
    return values


def _floats(rng: np.random.Generator, kind: str, special: bool = True, count: int = COUNT) -> np.ndarray[Any, Any]:
    bits = {"f2": "u2", "f4": "u4", "f8": "u8"}[kind]
    values = rng.integers(0, np.iinfo(bits).max, count, dtype=bits, endpoint=True).view(kind)
    values[::2] = (rng.standard_normal(len(values[::2])) * 100).astype(kind)
    values[~np.isfinite(values)] = 1
    if special:
        info = np.finfo(kind)
        edges = [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            info.max,
            -info.max,
            info.tiny,
            info.smallest_subnormal,
            1.0,
            -1.0,
            0.5,
            3.0,
            1.5,
            2.5,
            -2.5,
        ]
        values[: len(edges)] = np.array(edges, kind)
    rng.shuffle(values)
    return values


def _cases() -> dict[str, list[Any]]:
    """Arguments after the count, inputs first; outputs are zeroed arrays."""
    rng = np.random.default_rng(20240607)
    f32, f64 = partial(_floats, rng, "f4"), partial(_floats, rng, "f8")
    ints = partial(_integers, rng)

    def zeros(kind: str, factor: int = 1) -> np.ndarray[Any, Any]:
        return np.zeros(COUNT * factor, kind)

    pixels = rng.integers(0, 256, COUNT * 12, dtype=np.uint8).view(_PIXEL)
    pixels["weight"] = f32(special=False)
    return {
        "saxpy": [np.float32(2.5), f32(special=False), f32(special=False)],
        "fma32": [f32(), f32(), f32(), zeros("f4")],
        "fma64": [f64(), f64(), f64(), zeros("f8")],
        "div_f32": [f32(), f32(), zeros("f4")],
        "div_f64": [f64(), f64(), zeros("f8")],
        "sqrt_f32": [f32(), zeros("f4")],
        "sqrt_f64": [f64(), zeros("f8")],
        "mixed_f64": [f64(), f64(), zeros("f8")],
        "div_i32": [ints("i4"), ints("i4"), zeros("i4", 2)],
        "div_u32": [ints("u4"), ints("u4"), zeros("u4", 2)],
        "div_const": [ints("i4"), zeros("i4")],
        "div_i64": [ints("i8"), ints("i8"), zeros("i8", 2)],
        "div_u64": [ints("u8"), ints("u8"), zeros("u8", 2)],
        "arith_i64": [ints("i8"), ints("i8"), zeros("i8")],
        "mul_wide": [ints("i4"), ints("i4"), zeros("i8")],
        "bits32": [ints("u4"), zeros("u4")],
        "bits64": [ints("u8"), zeros("u8")],
        "bytes": [ints("u1"), ints("i1"), zeros("u1"), zeros("i2")],
        "shorts": [ints("u2"), ints("i2"), zeros("i2")],
        "collatz": [ints("u4"), zeros("i4")],
        "nested": [ints("i4"), zeros("i4")],
        "switches": [ints("i4"), zeros("i4")],
        "scratch_array": [ints("i4"), zeros("i4")],
        "byte_array": [ints("u4"), zeros("u4")],
        "convert": [f32(), zeros("i4"), zeros("f4"), zeros("f8")],
        "rounding": [f32(), zeros("f4")],
        "halves": [_floats(rng, "f2"), _floats(rng, "f2"), zeros("f2")],
        "compare_f32": [f32(), f32(), zeros("i4")],
        "min_max": [f32(), f32(), zeros("f4", 2)],
        "selects": [ints("i4"), ints("i4"), zeros("i4")],
        "calls": [ints("u4"), zeros("u4")],
        "structs": [pixels, np.zeros(COUNT, _PIXEL)],
        "table": [ints("u4"), zeros("u4")],
        "unaligned": [rng.integers(0, 256, 3 * COUNT + 8, dtype=np.uint8), zeros("u8")],
        "matrix_rows": [_floats(rng, "f4", special=False, count=37 * COUNT), zeros("f4")],
        "half_steps": [_floats(rng, "f2"), _floats(rng, "f2"), zeros("f2"), zeros("i2")],
        "f64_steps": [f64(), f64(), zeros("f8"), zeros("i8")],
        "short_vectors": [ints("i2", 4 * COUNT), ints("i2", 4 * COUNT), zeros("i2", 4)],
        "half_vectors": [_floats(rng, "f2", count=2 * COUNT), _floats(rng, "f2", count=2 * COUNT), zeros("f2", 2)],
        "saturating": [ints("i4"), ints("i4"), zeros("i4", 4)],
        "crc32": [ints("u4"), zeros("u4")],
        "sorting": [ints("i4"), zeros("i4")],
        "integer_root": [ints("u8"), zeros("u8")],
        "escape_time": [f32(special=False), zeros("i4")],
    }


CASES = _cases()


def _copies(arguments: list[Any]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


_EXPECTED: dict[str, list[Any]] = {}


def _on_cpu(name: str) -> list[Any]:
    if name not in _EXPECTED:
        library = cpu_library(SOURCE)
        function = getattr(library, name)
        gid = ctypes.c_int.in_dll(library, "gid")
        values = _copies(CASES[name])
        passed = [ctypes.c_int(COUNT)] + [
            ctypes.c_void_p(v.ctypes.data) if isinstance(v, np.ndarray) else ctypes.c_float(v) for v in values
        ]
        for item in range(COUNT):
            gid.value = item
            function(*passed)
        _EXPECTED[name] = values
    return _EXPECTED[name]


def _same(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    """Equal bits, but any NaN is as good as another: CPUs and GPUs choose different ones."""
    if actual.dtype.kind == "f":
        both = np.isnan(actual) & np.isnan(expected)
        actual, expected = np.where(both, 0, actual), np.where(both, 0, expected)
        kind = f"u{actual.dtype.itemsize}"
        np.testing.assert_array_equal(actual.view(kind), expected.view(kind))
    elif actual.dtype.names:
        for field in actual.dtype.names:
            _same(np.ascontiguousarray(actual[field]), np.ascontiguousarray(expected[field]))
    else:
        np.testing.assert_array_equal(actual, expected)


@needs_clang
@pytest.mark.parametrize(("target", "optimize"), CONFIGURATIONS, ids=[f"{t}-O{o}" for t, o in CONFIGURATIONS])
@pytest.mark.parametrize("name", CASES)
def test_same_as_cpu(name: str, target: str, optimize: str) -> None:
    program = amdgpu.load(gpu_object(SOURCE, target, optimize))
    values = _copies(CASES[name])
    program.launch(name, -(-COUNT // GROUP), GROUP, [COUNT, *values])
    for actual, expected in zip(values, _on_cpu(name), strict=True):
        if isinstance(actual, np.ndarray):
            _same(actual, expected)
