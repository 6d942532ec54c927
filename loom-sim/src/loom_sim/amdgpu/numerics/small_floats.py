"""8-bit float formats as tables of 256 doubles, and widening of 4- to 64-bit elements to double."""

from __future__ import annotations

from functools import cache

import numpy as np

from loom_sim.amdgpu.numerics.formats import Array


@cache
def f8_values(exponent_bits: int, finite_only_zero: bool) -> Array:
    """The value of each code of an 8-bit float.

    Args:
        exponent_bits: 4 (fp8) or 5 (bf8).
        finite_only_zero: the formats of gfx942: exponent bias one larger, the code 0x80 is the only NaN, no infinity
            and no negative zero ("FNUZ"). Otherwise the formats of the Open Compute Project's "OCP 8-bit Floating
            Point Specification": E5M2 like IEEE, E4M3 with NaN at all ones and no infinity.
    """
    mantissa_bits = 7 - exponent_bits
    bias = (1 << (exponent_bits - 1)) - (0 if finite_only_zero else 1)
    values = np.zeros(256)
    for code in range(256):
        exponent, mantissa = code >> mantissa_bits & ((1 << exponent_bits) - 1), code & ((1 << mantissa_bits) - 1)
        scale = 2.0 ** (max(exponent, 1) - bias)
        magnitude = (mantissa / (1 << mantissa_bits) + (1 if exponent else 0)) * scale
        if finite_only_zero:
            if code == 0x80:
                magnitude = np.nan
        elif exponent_bits == 4:
            if code & 0x7F == 0x7F:
                magnitude = np.nan
        elif exponent == 31:
            magnitude = np.nan if mantissa else np.inf
        values[code] = -magnitude if code & 0x80 else magnitude
    return values


def elements(words: Array, kind: str, legacy_f8: bool = False) -> Array:
    """Split registers into elements.

    Args:
        words: uint32 of shape (waves, lanes, registers).
        kind: `f16`, `bf16`, `f32`, `f64`, `fp8`, `bf8`, `i8`, `u8`, `i4`, `u4`.
        legacy_f8: the 8-bit floats are gfx942's.

    Returns:
        float64 of shape (waves, lanes, elements), lowest bits first; small integers are exact.
    """
    words = np.ascontiguousarray(words)
    if kind == "f64":
        return words.view(np.float64)
    if kind == "f32":
        return words.view(np.float32).astype(np.float64)
    if kind == "f16":
        return words.view(np.float16).astype(np.float64)
    if kind == "bf16":
        return (words.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if kind in ("fp8", "bf8"):
        found: Array = f8_values(4 if kind == "fp8" else 5, legacy_f8)[words.view(np.uint8)]
        return found
    if kind in ("i8", "u8"):
        return words.view(np.int8 if kind == "i8" else np.uint8).astype(np.float64)
    assert kind in ("i4", "u4")
    data = words.view(np.uint8)
    nibbles = np.stack((data & 15, data >> 4), axis=-1).reshape(*data.shape[:-1], -1).astype(np.int8)
    if kind == "i4":
        nibbles = (nibbles ^ 8) - 8
    return nibbles.astype(np.float64)
