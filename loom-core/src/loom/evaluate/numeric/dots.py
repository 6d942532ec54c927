"""Dot products of vectors: the lanes are the last axis, axes before it are independent evaluations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from loom.evaluate.numeric import floats
from loom.evaluate.numeric.bits import sign_extended
from loom.evaluate.numeric.fma import fma
from loom.evaluate.numeric.formats import BF16, F16, F32, I32, Array, ScalarFormat, wrapped
from loom.evaluate.numeric.minifloat import MINIFLOATS, MiniFloat, decode

#: Signedness of (left, right); `s` is signed. The digits of the keywords are the operand width.
DOT4I_SIGNS: Mapping[str, tuple[bool, bool]] = {
    "s8s8": (True, True),
    "u8s8": (False, True),
    "s8u8": (True, False),
    "u8u8": (False, False),
}
DOT8I4_SIGNS: Mapping[str, tuple[bool, bool]] = {
    "s4s4": (True, True),
    "u4s4": (False, True),
    "s4u4": (True, False),
    "u4u4": (False, False),
}
_FP8, _BF8 = MINIFLOATS["f8e4m3fn"], MINIFLOATS["bf8"]
DOT4F8_FORMATS: Mapping[str, tuple[MiniFloat, MiniFloat]] = {
    "fp8bf8": (_FP8, _BF8),
    "bf8fp8": (_BF8, _FP8),
    "fp8fp8": (_FP8, _FP8),
    "bf8bf8": (_BF8, _BF8),
}


def dotf(format: ScalarFormat, left: Array, right: Array, accumulator: Array) -> Array:
    """acc = fma(left[k], right[k], acc) for k in lane order; zero lanes give the accumulator."""
    result = np.broadcast_to(accumulator, np.broadcast_shapes(np.shape(accumulator), left.shape[:-1]))
    with np.errstate(all="ignore"):
        for k in range(left.shape[-1]):
            result = fma(format, left[..., k], right[..., k], result)
    return np.array(result)


def dot2f(format: ScalarFormat, left: Array, right: Array, accumulator: Array) -> Array:
    """Pairs of `f16` or `bf16` lanes accumulated into `f32`, one fused multiply-add after the other."""
    if format not in (F16, BF16):
        raise TypeError(f"dot2f takes f16 or bf16, not {format.name}")
    wide_left, wide_right = floats.to_f32(format, left), floats.to_f32(format, right)
    result = accumulator
    with np.errstate(all="ignore"):
        for k in range(2):
            result = fma(F32, wide_left[..., k::2], wide_right[..., k::2], result)
    return result


def dot4i(kind: str, left: Array, right: Array, accumulator: Array) -> Array:
    """Groups of four `i8` lanes: acc + the sum of their products, wrapping in 32 bits."""
    left_signed, right_signed = DOT4I_SIGNS[kind]
    products = _bytes(left, left_signed) * _bytes(right, right_signed)
    groups = products.reshape(*products.shape[:-1], products.shape[-1] // 4, 4).sum(axis=-1)
    return wrapped(I32, accumulator.astype(np.int64) + groups)


def _bytes(lanes: Array, is_signed: bool) -> Array:
    return np.asarray((lanes if is_signed else lanes.view(np.uint8)).astype(np.int64))


def _nibbles(words: Array, is_signed: bool) -> Array:
    fields = _fields(words, 4)
    return sign_extended(fields, 4) if is_signed else fields.view(np.int64)


def _fields(words: Array, width: int) -> Array:
    """The fields of `i32` lanes, least significant first, as `uint64`: `[..., lanes, 32 / width]`."""
    offsets = np.arange(0, 32, width, dtype=np.uint64)
    unsigned = words.view(np.uint32).astype(np.uint64)
    return np.asarray((unsigned[..., None] >> offsets) & np.uint64((1 << width) - 1))


def dot8i4(kind: str, left: Array, right: Array, accumulator: Array) -> Array:
    """Eight 4-bit fields for each `i32` lane: acc + the sum of their products, wrapping in 32 bits."""
    left_signed, right_signed = DOT8I4_SIGNS[kind]
    products = _nibbles(left, left_signed) * _nibbles(right, right_signed)
    return wrapped(I32, accumulator.astype(np.int64) + products.sum(axis=-1))


def dot4f8(kind: str, left: Array, right: Array, accumulator: Array) -> Array:
    """Four 8-bit floats for each `i32` lane, accumulated into `f32` by fused multiply-adds in byte order."""
    left_format, right_format = DOT4F8_FORMATS[kind]
    wide_left = decode(left_format, _fields(left, 8))
    wide_right = decode(right_format, _fields(right, 8))
    result = accumulator
    with np.errstate(all="ignore"):
        for k in range(4):
            result = fma(F32, wide_left[..., k], wide_right[..., k], result)
    return result
