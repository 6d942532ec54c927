"""Cube map coordinates and the lighting product (AMD "RDNA3 Instruction Set Architecture", V_CUBE* and V_MULLIT)."""

from __future__ import annotations

from typing import Any

import numpy as np

from loom_sim.amdgpu.execute.operation import vector
from loom_sim.amdgpu.numerics import float32
from loom_sim.amdgpu.numerics.formats import F32, Array, select_nan
from loom_sim.amdgpu.numerics.mode import FloatMode

_SIGN = np.uint32(F32.sign)
_LOWEST = np.float32(np.finfo(np.float32).min)
_TWO = np.full((1, 1), 2.0, np.float32)


def _negated(x: Array, where: Array | bool = True) -> Array:
    bits = x.view(np.uint32)
    return np.where(where, bits ^ _SIGN, bits).view(np.float32)


def _by_axis(of_x: Any, of_y: Any, of_z: Any) -> Any:
    """A function of the coordinates that depends on which of them is largest (of equal ones the later)."""

    def evaluate(mode: FloatMode, x: Array, y: Array, z: Array) -> Array:
        x, y, z = (float32.flush_in(mode, v) for v in (x, y, z))
        ax, ay, az = np.abs(x), np.abs(y), np.abs(z)
        found = np.where(ay >= ax, of_y(mode, x, y, z), of_x(mode, x, y, z))
        found = np.where((az >= ax) & (az >= ay), of_z(mode, x, y, z), found)
        found = found.astype(np.float32, copy=False)
        return select_nan(F32, found, found)

    return evaluate


def _face(number: int, axis: int) -> Any:
    return lambda mode, *v: np.where(v[axis] < 0, np.float32(number + 1), np.float32(number))


def _doubled(axis: int) -> Any:
    return lambda mode, *v: float32.mul(mode, v[axis], _TWO)


vector("v_cubeid_f32", "f32 f32 f32", "f32", _by_axis(_face(0, 0), _face(2, 1), _face(4, 2)), mode=True)
vector("v_cubema_f32", "f32 f32 f32", "f32", _by_axis(_doubled(0), _doubled(1), _doubled(2)), mode=True)
vector(
    "v_cubesc_f32",
    "f32 f32 f32",
    "f32",
    _by_axis(lambda m, x, y, z: _negated(z, ~(x < 0)), lambda m, x, y, z: x, lambda m, x, y, z: _negated(x, z < 0)),
    mode=True,
)
vector(
    "v_cubetc_f32",
    "f32 f32 f32",
    "f32",
    _by_axis(lambda m, x, y, z: _negated(y), lambda m, x, y, z: _negated(z, y < 0), lambda m, x, y, z: _negated(y)),
    mode=True,
)


def _lighting_product(mode: FloatMode, a: Array, b: Array, c: Array) -> Array:
    """a * b with zero times anything zero, unless b or c say that the light is behind."""
    # Not `c <= 0`: a NaN counts as behind.
    behind = (b == _LOWEST) | (b == -np.inf) | np.isnan(b) | ~(c > 0)
    return np.where(behind, _LOWEST, float32.mul_zero_wins(mode, a, b))


vector("v_mullit_f32", "f32 f32 f32", "f32", _lighting_product, mode=True)
