"""Integer helpers on arrays: wide products, bit counts, bit fields, reversals."""

from __future__ import annotations

import numpy as np

from loom_sim.amdgpu.numerics.formats import Array

_U32, _I32, _U64, _I64 = np.uint32, np.int32, np.uint64, np.int64


def wide(x: Array) -> Array:
    """Zero-extend uint32 to uint64."""
    return x.astype(_U64)


def mul_hi_u32(a: Array, b: Array) -> Array:
    """High word of an unsigned product."""
    return (wide(a) * wide(b) >> _U64(32)).astype(_U32)


def mul_hi_i32(a: Array, b: Array) -> Array:
    """High word of a signed product."""
    return (a.astype(_I64) * b.astype(_I64) >> _I64(32)).astype(_I32)


def u24(x: Array) -> Array:
    """Low 24 bits."""
    return x & _U32(0xFFFFFF)


def i24(x: Array) -> Array:
    """Low 24 bits, sign-extended, as int32."""
    return (x << _U32(8)).view(_I32) >> _I32(8)


def popcount(x: Array) -> Array:
    """Number of set bits, as uint32."""
    return np.bitwise_count(x).astype(_U32)


def reverse32(x: Array) -> Array:
    """Bits in opposite order."""
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F)):
        x = (x >> _U32(shift) & _U32(mask)) | (x & _U32(mask)) << _U32(shift)
    return x.byteswap()


def reverse64(x: Array) -> Array:
    """Bits in opposite order."""
    low, high = x.astype(_U32), (x >> _U64(32)).astype(_U32)
    return wide(reverse32(low)) << _U64(32) | wide(reverse32(high))


def _smear_right(x: Array) -> Array:
    kind = x.dtype.type
    shift = 1
    while shift < x.dtype.itemsize * 8:
        x = x | x >> kind(shift)
        shift *= 2
    return x


def leading_zeros(x: Array) -> Array:
    """Zeros above the highest set bit, all ones (-1) for zero; uint32."""
    bits = x.dtype.itemsize * 8
    count = _U32(bits) - popcount(_smear_right(x))
    return np.where(x == 0, _U32(0xFFFFFFFF), count)


def trailing_zeros(x: Array) -> Array:
    """Zeros below the lowest set bit, all ones (-1) for zero; uint32."""
    kind = x.dtype.type
    count = popcount((x & (~x + kind(1))) - kind(1))
    return np.where(x == 0, _U32(0xFFFFFFFF), count)


def leading_sign_bits(x: Array) -> Array:
    """Leading bits equal to the sign bit (the sign included), all ones (-1) if all bits are equal; uint32."""
    bits = x.dtype.itemsize * 8
    kind = x.dtype.type
    flipped = np.where(x >> kind(bits - 1) != 0, ~x, x)
    return leading_zeros(flipped)


def field_u(x: Array, offset: Array, width: Array) -> Array:
    """Unsigned bit field of a word: `width` bits from `offset` on (both already in 0..31)."""
    kind = x.dtype.type
    mask = np.where(width >= kind(x.dtype.itemsize * 8), ~kind(0), (kind(1) << width) - kind(1))
    found: Array = x >> offset & mask
    return found


def field_s(x: Array, offset: Array, width: Array) -> Array:
    """Signed bit field of an unsigned word, as the unsigned type. A field that ends beyond the word's top bit is filled
    with that bit: the shift is arithmetic (AMD ISA documents, `S_BFE_I32` and `V_BFE_I32`)."""
    kind = x.dtype.type
    bits = x.dtype.itemsize * 8
    signed = np.dtype(f"i{x.dtype.itemsize}")
    value = (x.view(signed) >> offset.astype(signed)).view(x.dtype)
    up = np.where(width >= kind(bits), kind(0), kind(bits) - width).astype(signed)
    found: Array = np.where(width == 0, kind(0), ((value.view(signed) << up) >> up).view(x.dtype))
    return found
