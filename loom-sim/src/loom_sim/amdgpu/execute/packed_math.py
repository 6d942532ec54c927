"""Packed 16-bit element operations, dot products and mixed-precision multiply-add."""

from __future__ import annotations

from typing import Any

import numpy as np

from loom_sim.amdgpu.execute import vector_float, vector_integer  # noqa: F401 (they define the element operations)
from loom_sim.amdgpu.execute.operation import VECTOR, packed
from loom_sim.amdgpu.numerics.formats import Array


def _take(name: str, vector_name: str | None = None) -> None:
    base = VECTOR[f"v_{vector_name or name}"]
    packed(
        f"v_pk_{name}",
        " ".join(base.sources),
        " ".join(base.results),
        base.function,
        mode=base.mode,
        saturated=base.saturated,
        undefined="bits" if base.undefined == "bits" else "smear",
    )


for _name in (
    "mad_i16",
    "mad_u16",
    "mul_lo_u16",
    "lshlrev_b16",
    "lshrrev_b16",
    "ashrrev_i16",
    "max_i16",
    "min_i16",
    "max_u16",
    "min_u16",
    "fma_f16",
    "add_f16",
    "mul_f16",
    "min_f16",
    "max_f16",
    "minimum_f16",
    "maximum_f16",
    "min_num_f16",
    "max_num_f16",
):
    _take(_name)
_take("add_i16", "add_nc_i16")
_take("sub_i16", "sub_nc_i16")
_take("add_u16", "add_nc_u16")
_take("sub_u16", "sub_nc_u16")
packed("v_pk_fmac_f16", "f16 f16", "f16", VECTOR["v_fma_f16"].function, mode=True, accumulates=True)
packed("v_pk_fma_f32", "f32 f32 f32", "f32", VECTOR["v_fma_f32"].function, mode=True)
packed("v_pk_mul_f32", "f32 f32", "f32", VECTOR["v_mul_f32"].function, mode=True)
packed("v_pk_add_f32", "f32 f32", "f32", VECTOR["v_add_f32"].function, mode=True)
packed("v_pk_mov_b32", "u32 u32", "u32", lambda a, b: a, undefined="bits")


def elements(x: Array, bits: int, signed: bool) -> list[Array]:
    """The fields of a word, lowest first, as int64."""
    result = []
    for low in range(0, 32, bits):
        value = (x >> np.uint32(low) & np.uint32((1 << bits) - 1)).astype(np.int64)
        if signed:
            value = value - ((value >> (bits - 1)) << bits)
        result.append(value)
    return result


def integer_dot(bits: int, signed_a: bool, signed_b: bool, clamp: bool, unsigned_result: bool) -> Any:
    """Dot product of two words of small integers plus an accumulator, wrapping or saturating."""
    low, high = (0, 0xFFFFFFFF) if unsigned_result else (-(1 << 31), (1 << 31) - 1)

    def evaluate(a: Array, b: Array, c: Array) -> Array:
        total = c.astype(np.int64) if unsigned_result else c.view(np.int32).astype(np.int64)
        for x, y in zip(elements(a, bits, signed_a), elements(b, bits, signed_b), strict=True):
            total = total + x * y
        if clamp:
            total = np.clip(total, low, high)
        return total.astype(np.uint64).astype(np.uint32)

    return evaluate
