"""Reciprocals, roots, powers, logarithms and circular functions, and V_TRIG_PREOP_F64.

Hardware returns results within about one unit in the last place (f64 reciprocals far less exactly); the emulator
returns the correctly rounded result, but for rare halfway cases of log, exp, sin and cos, which are computed in double
precision. An operand without a result gives the negative quiet NaN, as the examples of the AMD documents show.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import isqrt
from typing import Any

import numpy as np

from loom_sim.amdgpu.execute.operation import vector
from loom_sim.amdgpu.numerics.formats import F16, F32, F64, Array, FloatFormat, flush, select_nan
from loom_sim.amdgpu.numerics.mode import FloatMode


def _quarters(x: Array) -> tuple[Array, Array]:
    """The nearest quarter of a turn, as a number from -2 to 2, and the angle beyond it in radians.

    Taking away whole turns and quarters is exact, so that the zeros are.
    """
    turns = x - np.rint(x)
    quarter = np.rint(4.0 * turns)
    angle = 2.0 * np.pi * (turns - quarter / 4.0)
    return np.where(np.isfinite(quarter), quarter, 0.0).astype(np.int64), angle


def _sin(x: Array) -> Array:
    """sin(2 pi x); a zero has the sign of the argument, as that of IEEE 754-2019 sinPi."""
    quarter, angle = _quarters(x)
    found = np.where(quarter & 1, np.cos(angle), np.sin(angle))
    found = np.where((quarter == 2) | (quarter < 0), -found, found)
    return np.where(found == 0, np.copysign(0.0, x), found)


def _cos(x: Array) -> Array:
    """cos(2 pi x); a zero is positive."""
    quarter, angle = _quarters(np.abs(x - np.rint(x)))
    found: Array = np.where(quarter == 1, -np.sin(angle), np.where(quarter == 2, -np.cos(angle), np.cos(angle))) + 0.0
    return found


def _reciprocal_root(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


def _exact_reciprocal_root(x: Array) -> Array:
    """1 / sqrt(x) of doubles, rounded once: integer square roots decide between neighbours."""
    r = np.array(_reciprocal_root(x))
    normal = np.isfinite(x) & (x > 0)
    found = []
    for value in x[normal].tolist():
        inverse = 1 / Fraction(value)
        shift = 200 - (inverse.numerator.bit_length() - inverse.denominator.bit_length())
        shift += shift & 1
        scaled = inverse * Fraction(2) ** shift
        root = isqrt(scaled.numerator // scaled.denominator)
        inexact = Fraction(root * root) != scaled
        # One bit below the hundred says that more would follow; it never decides a tie wrongly.
        found.append(float(Fraction(2 * root + inexact) * Fraction(2) ** (-shift // 2 - 1)))
    r[normal] = found
    return r


_FUNCTIONS: dict[str, Any] = {
    "rcp": lambda x: 1.0 / x,
    "rsq": _reciprocal_root,
    "sqrt": np.sqrt,
    "exp": np.exp2,
    "log": np.log2,
    "sin": _sin,
    "cos": _cos,
}


def _unary(fmt: FloatFormat, function: Any) -> Any:
    def evaluate(mode: FloatMode, x: Array) -> Array:
        denormals = mode.denormal32 if fmt is F32 else mode.denormal64
        if not denormals & 1:
            x = flush(fmt, x)
        r = function(x.astype(np.float64)).astype(fmt.dtype)
        if not denormals & 2:
            r = flush(fmt, r)
        invalid = np.isnan(r) & ~np.isnan(x)
        r = select_nan(fmt, r, x)
        found: Array = np.where(invalid, fmt.bits.type(fmt.sign | fmt.default_nan), r.view(fmt.bits)).view(fmt.dtype)
        return found

    return evaluate


for _name, _function in _FUNCTIONS.items():
    for _type, _fmt in (("f32", F32), ("f16", F16)):
        _extra = " v_rcp_iflag_f32" if (_name, _type) == ("rcp", "f32") else ""
        if _type == "f32" and _name in ("exp", "log"):
            _extra = f" v_{_name}_legacy_f32"
        if _name not in ("sin", "cos"):
            _extra += f" v_s_{_name}_{_type}"
        vector(f"v_{_name}_{_type}{_extra}", _type, _type, _unary(_fmt, _function), mode=True)
for _name, _function in (("rcp", _FUNCTIONS["rcp"]), ("rsq", _exact_reciprocal_root), ("sqrt", np.sqrt)):
    vector(f"v_{_name}_f64", "f64", "f64", _unary(F64, _function), mode=True)

_PLACES = 1201
"""Binary places to which the hardware keeps 2/pi (AMD ISA documents, V_TRIG_PREOP_F64)."""


def _inverse_tangent(n: int, bits: int) -> int:
    """atan(1/n) * 2**bits."""
    power = total = (1 << bits) // n
    for k in range(3, bits, 2):
        power //= -n * n
        if power in (0, -1):
            break
        total += power // k
    return total


@cache
def _two_over_pi() -> int:
    bits = _PLACES + 80
    pi = 4 * (4 * _inverse_tangent(5, bits) - _inverse_tangent(239, bits))  # Machin's formula
    return (2 << bits + _PLACES) // pi


@cache
def _part_of_two_over_pi(shift: int, scale: int) -> float:
    digits = _two_over_pi() << shift & ((1 << _PLACES) - 1)
    return float(Fraction(digits >> (_PLACES - 53)) * Fraction(2) ** (scale - 53 - shift))


def _trig_preop(x: Array, segment: Array) -> Array:
    """53 bits of 2/pi for the reduction of an angle: those that `segment` and the size of the angle choose."""
    exponent = (x.view(np.uint64) >> np.uint64(52) & np.uint64(0x7FF)).astype(np.int64)
    shift = (segment & np.uint32(31)).astype(np.int64) * 53 + np.maximum(exponent - 1077, 0)
    scale = np.where(exponent >= 1968, 128, 0)
    shift, scale = np.broadcast_arrays(shift, scale)
    found = [_part_of_two_over_pi(int(a), int(b)) for a, b in zip(shift.flat, scale.flat, strict=True)]
    return np.array(found, np.float64).reshape(shift.shape)


vector("v_trig_preop_f64", "f64 u32", "f64", _trig_preop)
