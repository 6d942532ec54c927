"""Comparisons: V_CMP and V_CMPX, S_CMP, and floating-point classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from loom_sim.amdgpu.execute.operation import scalar, vector
from loom_sim.amdgpu.numerics.formats import F16, F32, F64, Array, FloatFormat, flush
from loom_sim.amdgpu.numerics.mode import FloatMode

_INTEGER: dict[str, Any] = {
    "f": lambda a, b: np.zeros(np.broadcast_shapes(a.shape, b.shape), bool),
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "ne": np.not_equal,
    "ge": np.greater_equal,
    "t": lambda a, b: np.ones(np.broadcast_shapes(a.shape, b.shape), bool),
}
_FLOAT: dict[str, Any] = {
    "f": _INTEGER["f"],
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "lg": lambda a, b: (a < b) | (a > b),
    "ge": np.greater_equal,
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": np.not_equal,
    "nlt": lambda a, b: ~(a < b),
    "t": _INTEGER["t"],
    "tru": _INTEGER["t"],
}
FORMATS: dict[str, FloatFormat] = {"f16": F16, "f32": F32, "f64": F64}


def _float_compare(fmt: FloatFormat, function: Any) -> Any:
    def compare(mode: FloatMode, a: Array, b: Array) -> Array:
        keep = mode.denormal32 & 1 if fmt is F32 else mode.denormal64 & 1
        if not keep:
            a, b = flush(fmt, a), flush(fmt, b)
        result: Array = function(a, b)
        return result

    return compare


def classify(fmt: FloatFormat) -> Any:
    """Membership in any of ten classes that a bit mask selects (AMD ISA, V_CMP_CLASS)."""
    quiet = fmt.bits.type(fmt.quiet)

    def member(x: Array, classes: Array) -> Array:
        bits = x.view(fmt.bits)
        negative = (bits & fmt.bits.type(fmt.sign)) != 0
        exponent = bits & fmt.bits.type(fmt.exponent)
        nan, infinite, zero = np.isnan(x), np.isinf(x), x == 0
        denormal = (exponent == 0) & ~zero
        normal = ~(nan | infinite | zero | denormal)
        tests = (
            nan & ((bits & quiet) == 0),
            nan & ((bits & quiet) != 0),
            infinite & negative,
            normal & negative,
            denormal & negative,
            zero & negative,
            zero & ~negative,
            denormal & ~negative,
            normal & ~negative,
            infinite & ~negative,
        )
        kind = classes.dtype.type
        result = np.zeros(np.broadcast_shapes(x.shape, classes.shape), bool)
        for bit, test in enumerate(tests):
            result |= test & ((classes & kind(1 << bit)) != 0)
        return result

    return member


for _prefix in ("v_cmp", "v_cmpx"):
    for _type in ("i16", "u16", "i32", "u32", "i64", "u64"):
        for _name, _function in _INTEGER.items():
            vector(f"{_prefix}_{_name}_{_type}", f"{_type} {_type}", "mask", _function)
    for _type, _fmt in FORMATS.items():
        for _name, _function in _FLOAT.items():
            vector(f"{_prefix}_{_name}_{_type}", f"{_type} {_type}", "mask", _float_compare(_fmt, _function), mode=True)
        vector(f"{_prefix}_class_{_type}", f"{_type} {'u16' if _type == 'f16' else 'u32'}", "mask", classify(_fmt))

for _type in ("i32", "u32"):
    for _name in ("eq", "lg", "gt", "ge", "lt", "le"):
        _function = _INTEGER["ne" if _name == "lg" else _name]
        scalar(f"s_cmp_{_name}_{_type}", f"{_type} {_type}", "scc", _function)
scalar("s_cmp_eq_u64", "u64 u64", "scc", np.equal)
scalar("s_cmp_lg_u64", "u64 u64", "scc", np.not_equal)
for _type in ("f32", "f16"):
    for _name, _function in _FLOAT.items():
        if _name not in ("f", "t", "tru"):
            scalar(
                f"s_cmp_{_name}_{_type}",
                f"{_type} {_type}",
                "scc",
                _float_compare(FORMATS[_type], _function),
                mode=True,
            )
scalar("s_bitcmp0_b32", "u32 u32", "scc", lambda a, b: (a >> (b & np.uint32(31)) & np.uint32(1)) == 0)
scalar("s_bitcmp1_b32", "u32 u32", "scc", lambda a, b: (a >> (b & np.uint32(31)) & np.uint32(1)) != 0)
scalar("s_bitcmp0_b64", "u64 u32", "scc", lambda a, b: (a >> (b & np.uint32(63)).astype(np.uint64) & np.uint64(1)) == 0)
scalar("s_bitcmp1_b64", "u64 u32", "scc", lambda a, b: (a >> (b & np.uint32(63)).astype(np.uint64) & np.uint64(1)) != 0)
