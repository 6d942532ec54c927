"""Conversions between integers and floats and between float widths."""

from __future__ import annotations

from typing import Any

import numpy as np

from loom_sim.amdgpu.execute.operation import vector
from loom_sim.amdgpu.numerics import float16
from loom_sim.amdgpu.numerics.formats import F16, F32, F64, Array, directed, flush, select_nan
from loom_sim.amdgpu.numerics.mode import TOWARD_ZERO, FloatMode

_U16, _U32, _I32 = np.uint16, np.uint32, np.int32


def to_integer(kind: Any, rounding: Any = np.trunc) -> Any:
    """Float to integer, saturating, NaN to zero."""
    limits = np.iinfo(kind)

    def convert(x: Array) -> Array:
        value = rounding(x.astype(np.float64))
        value = np.where(np.isnan(value), 0.0, np.clip(value, float(limits.min), float(limits.max)))
        return value.astype(kind)

    return convert


def _to_f32(mode: FloatMode, x: Array) -> Array:
    exact = x.astype(np.float64)  # every 32-bit integer is a double
    return directed(exact.astype(np.float32), exact, mode.round32)


vector("v_cvt_f32_i32", "i32", "f32", _to_f32, mode=True)
vector("v_cvt_f32_u32", "u32", "f32", _to_f32, mode=True)
vector("v_cvt_i32_f32", "f32", "i32", to_integer(np.int32))
vector("v_cvt_u32_f32", "f32", "u32", to_integer(np.uint32))
vector("v_cvt_i32_f64", "f64", "i32", to_integer(np.int32))
vector("v_cvt_u32_f64", "f64", "u32", to_integer(np.uint32))
vector("v_cvt_f64_i32", "i32", "f64", lambda x: x.astype(np.float64))
vector("v_cvt_f64_u32", "u32", "f64", lambda x: x.astype(np.float64))
vector("v_cvt_nearest_i32_f32 v_cvt_rpi_i32_f32", "f32", "i32", to_integer(np.int32, lambda x: np.floor(x + 0.5)))
vector("v_cvt_floor_i32_f32 v_cvt_flr_i32_f32", "f32", "i32", to_integer(np.int32, np.floor))
for _byte in range(4):
    vector(
        f"v_cvt_f32_ubyte{_byte}", "u32", "f32", lambda x, s=8 * _byte: (x >> _U32(s) & _U32(0xFF)).astype(np.float32)
    )
vector(
    "v_cvt_off_f32_i4",
    "u32",
    "f32",
    lambda x: (((x & _U32(15)) ^ _U32(8)).astype(np.float32) - np.float32(8)) * np.float32(0.0625),
)


def _f64_to_f32(mode: FloatMode, x: Array) -> Array:
    if not mode.denormal64 & 1:
        x = flush(F64, x)
    r = directed(x.astype(np.float32), x, mode.round32)
    if not mode.denormal32 & 2:
        r = flush(F32, r)
    return r


def _f32_to_f64(mode: FloatMode, x: Array) -> Array:
    return (x if mode.denormal32 & 1 else flush(F32, x)).astype(np.float64)


def f32_to_f16(mode: FloatMode, x: Array) -> Array:
    """Narrow with the f16 rounding mode."""
    if not mode.denormal32 & 1:
        x = flush(F32, x)
    return float16.narrow(mode, x.astype(np.float64))


def f16_to_f32(mode: FloatMode, x: Array) -> Array:
    """Widen; exact, a signalling NaN becomes quiet."""
    wide = (x if mode.denormal64 & 1 else flush(F16, x)).astype(np.float32)
    return select_nan(F32, wide, wide)


vector("v_cvt_f32_f64", "f64", "f32", _f64_to_f32, mode=True)
vector("v_cvt_f64_f32", "f32", "f64", _f32_to_f64, mode=True)
vector("v_cvt_f16_f32", "f32", "f16", f32_to_f16, mode=True)
vector("v_cvt_f32_f16", "f16", "f32", f16_to_f32, mode=True)
vector("v_cvt_f16_u16", "u16", "f16", lambda m, x: float16.narrow(m, x.astype(np.float64)), mode=True)
vector("v_cvt_f16_i16", "i16", "f16", lambda m, x: float16.narrow(m, x.astype(np.float64)), mode=True)
vector("v_cvt_u16_f16", "f16", "u16", to_integer(np.uint16))
vector("v_cvt_i16_f16", "f16", "i16", to_integer(np.int16))


def pack16(low: Array, high: Array) -> Array:
    """Two 16-bit arrays as one uint32 array."""
    return low.view(_U16).astype(_U32) | high.view(_U16).astype(_U32) << _U32(16)


def _pack_toward_zero(mode: FloatMode, a: Array, b: Array) -> Array:
    def narrow(x: Array) -> Array:
        exact = x.astype(np.float64)
        return directed(exact.astype(np.float16), exact, TOWARD_ZERO)

    return pack16(narrow(a), narrow(b))


vector("v_cvt_pk_rtz_f16_f32 v_cvt_pkrtz_f16_f32", "f32 f32", "u32", _pack_toward_zero, mode=True)


def _normalized(signed: bool) -> Any:
    def convert(x: Array) -> Array:
        wide = x.astype(np.float64)
        low, factor = (-1.0, 32767.0) if signed else (0.0, 65535.0)
        value = np.rint(np.clip(np.where(np.isnan(wide), 0.0, wide), low, 1.0) * factor)
        return value.astype(np.int16 if signed else np.uint16)

    return convert


def _packed_normalized(signed: bool) -> Any:
    convert = _normalized(signed)
    return lambda a, b: pack16(convert(a), convert(b))


for _source in ("f32", "f16"):
    for _sign in ("i16", "u16"):
        _names = f"v_cvt_pk_norm_{_sign}_{_source} v_cvt_pknorm_{_sign}_{_source}"
        vector(_names, f"{_source} {_source}", "u32", _packed_normalized(_sign == "i16"))
vector("v_cvt_norm_i16_f16", "f16", "i16", _normalized(True))
vector("v_cvt_norm_u16_f16", "f16", "u16", _normalized(False))
vector("v_cvt_pk_i16_f32", "f32 f32", "u32", lambda a, b: pack16(to_integer(np.int16)(a), to_integer(np.int16)(b)))
vector("v_cvt_pk_u16_f32", "f32 f32", "u32", lambda a, b: pack16(to_integer(np.uint16)(a), to_integer(np.uint16)(b)))


def _pack_byte(x: Array, position: Array, old: Array) -> Array:
    byte = to_integer(np.uint8, np.rint)(x).astype(_U32)
    shift = (position & _U32(3)) * _U32(8)
    found: Array = old & ~(_U32(0xFF) << shift) | byte << shift
    return found


vector("v_cvt_pk_u8_f32", "f32 u32 u32", "u32", _pack_byte)
vector("v_cvt_pkaccum_u8_f32", "f32 u32", "u32", _pack_byte, accumulates=True)
