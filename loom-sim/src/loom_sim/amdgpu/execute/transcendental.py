"""Reciprocals, roots, powers, logarithms and circular functions.

Hardware returns results within about one unit in the last place; the emulator returns the double-precision value
rounded to the destination, which is the correctly rounded result but for rare halfway cases of log, exp, sin and cos.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loom_sim.amdgpu.execute.operation import vector
from loom_sim.amdgpu.numerics.formats import F16, F32, F64, Array, FloatFormat, flush, select_nan
from loom_sim.amdgpu.numerics.mode import FloatMode


def _sin(x: Array) -> Array:
    """sin(2 pi x) with the argument in turns, reduced exactly first."""
    return np.sin(2.0 * np.pi * (x - np.floor(x + 0.5)))


def _cos(x: Array) -> Array:
    return np.cos(2.0 * np.pi * (x - np.floor(x + 0.5)))


def _signed_reciprocal_root(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


_FUNCTIONS: dict[str, Any] = {
    "rcp": lambda x: 1.0 / x,
    "rsq": _signed_reciprocal_root,
    "sqrt": np.sqrt,
    "exp": np.exp2,
    "log": np.log2,
    "sin": _sin,
    "cos": _cos,
}


def _unary(fmt: FloatFormat, function: Any) -> Any:
    def evaluate(mode: FloatMode, x: Array) -> Array:
        inputs, outputs = (mode.denormal32, mode.denormal32) if fmt is F32 else (mode.denormal64, mode.denormal64)
        if not inputs & 1:
            x = flush(fmt, x)
        r = function(x.astype(np.float64)).astype(fmt.dtype)
        if not outputs & 2:
            r = flush(fmt, r)
        return select_nan(fmt, r, x)

    return evaluate


for _name, _function in _FUNCTIONS.items():
    for _type, _fmt in (("f32", F32), ("f16", F16)):
        _extra = " v_rcp_iflag_f32" if (_name, _type) == ("rcp", "f32") else ""
        if _type == "f32" and _name in ("exp", "log"):
            _extra = f" v_{_name}_legacy_f32"
        if _name not in ("sin", "cos"):
            _extra += f" v_s_{_name}_{_type}"
        vector(f"v_{_name}_{_type}{_extra}", _type, _type, _unary(_fmt, _function), mode=True)
for _name in ("rcp", "rsq", "sqrt"):
    vector(f"v_{_name}_f64", "f64", "f64", _unary(F64, _FUNCTIONS[_name]), mode=True)
