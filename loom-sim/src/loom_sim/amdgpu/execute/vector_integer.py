"""Vector integer instructions. Source of the semantics: AMD "RDNA3 / RDNA4 / CDNA3 Instruction Set Architecture"."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from loom_sim.amdgpu.execute.operation import vector
from loom_sim.amdgpu.numerics import integers as ints
from loom_sim.amdgpu.numerics.formats import Array

_U16, _U32, _I32, _U64, _I64 = np.uint16, np.uint32, np.int32, np.uint64, np.int64
_MAX32 = 0xFFFFFFFF


def _shift(count: Array, bits: int) -> Array:
    found: Array = count & count.dtype.type(bits - 1)
    return found


def _saturating(low: int, high: int, function: Any) -> Any:
    """The same operation on int64 values, clamped to a range and given back in the source type."""

    def clamped(*sources: Array) -> Array:
        exact = function(*[s.astype(_I64) for s in sources])
        found: Array = np.clip(exact, low, high).astype(sources[0].dtype)
        return found

    return clamped


_sat_u32: Any = partial(_saturating, 0, _MAX32)
_sat_i32: Any = partial(_saturating, -(1 << 31), (1 << 31) - 1)
_sat_u16: Any = partial(_saturating, 0, 0xFFFF)
_sat_i16: Any = partial(_saturating, -0x8000, 0x7FFF)


def _add(a: Array, b: Array) -> Array:
    return a + b


def _sub(a: Array, b: Array) -> Array:
    return a - b


def _rsub(a: Array, b: Array) -> Array:
    return b - a


# Moves and bit logic
vector(
    "v_mov_b32 v_accvgpr_read_b32 v_accvgpr_write_b32 v_accvgpr_mov_b32", "u32", "u32", lambda a: a, undefined="bits"
)
vector("v_mov_b64", "u64", "u64", lambda a: a, undefined="bits")
vector("v_mov_b16", "u16", "u16", lambda a: a, undefined="bits")
vector("v_not_b32", "u32", "u32", lambda a: ~a, undefined="bits")
vector("v_not_b16", "u16", "u16", lambda a: ~a, undefined="bits")
for _width, _type in (("32", "u32"), ("16", "u16")):
    vector(f"v_and_b{_width}", f"{_type} {_type}", _type, lambda a, b: a & b, undefined="bits")
    vector(f"v_or_b{_width}", f"{_type} {_type}", _type, lambda a, b: a | b, undefined="bits")
    vector(f"v_xor_b{_width}", f"{_type} {_type}", _type, lambda a, b: a ^ b, undefined="bits")
vector("v_xnor_b32", "u32 u32", "u32", lambda a, b: ~(a ^ b), undefined="bits")
vector("v_xor3_b32", "u32 u32 u32", "u32", lambda a, b, c: a ^ b ^ c, undefined="bits")
vector("v_or3_b32", "u32 u32 u32", "u32", lambda a, b, c: a | b | c, undefined="bits")
vector("v_and_or_b32", "u32 u32 u32", "u32", lambda a, b, c: a & b | c, undefined="bits")
vector("v_bfi_b32", "u32 u32 u32", "u32", lambda a, b, c: a & b | ~a & c, undefined="bits")
vector("v_cndmask_b32", "u32 u32 mask", "u32", lambda a, b, m: np.where(m, b, a), undefined="bits")
vector("v_cndmask_b16", "u16 u16 mask", "u16", lambda a, b, m: np.where(m, b, a), undefined="bits")
vector("v_bfrev_b32", "u32", "u32", ints.reverse32, undefined="bits")
vector("v_bfm_b32", "u32 u32", "u32", lambda a, b: ((_U32(1) << _shift(a, 32)) - _U32(1)) << _shift(b, 32))

# Shifts
vector("v_lshlrev_b32", "u32 u32", "u32", lambda a, b: b << _shift(a, 32), undefined="bits")
vector("v_lshrrev_b32", "u32 u32", "u32", lambda a, b: b >> _shift(a, 32), undefined="bits")
vector("v_ashrrev_i32", "u32 i32", "i32", lambda a, b: b >> _shift(a, 32).view(_I32), undefined="bits")
vector("v_lshlrev_b16", "u16 u16", "u16", lambda a, b: b << _shift(a, 16), undefined="bits")
vector("v_lshrrev_b16", "u16 u16", "u16", lambda a, b: b >> _shift(a, 16), undefined="bits")
vector("v_ashrrev_i16", "u16 i16", "i16", lambda a, b: b >> _shift(a, 16).view(np.int16), undefined="bits")
vector("v_lshlrev_b64", "u32 u64", "u64", lambda a, b: b << ints.wide(_shift(a, 64)), undefined="bits")
vector("v_lshrrev_b64", "u32 u64", "u64", lambda a, b: b >> ints.wide(_shift(a, 64)), undefined="bits")
vector("v_ashrrev_i64", "u32 i64", "i64", lambda a, b: b >> ints.wide(_shift(a, 64)).view(_I64), undefined="bits")
vector("v_lshl_or_b32", "u32 u32 u32", "u32", lambda a, b, c: a << _shift(b, 32) | c, undefined="bits")
vector("v_lshl_add_u32", "u32 u32 u32", "u32", lambda a, b, c: (a << _shift(b, 32)) + c)
vector("v_add_lshl_u32", "u32 u32 u32", "u32", lambda a, b, c: (a + b) << _shift(c, 32))
vector("v_lshl_add_u64", "u64 u32 u64", "u64", lambda a, b, c: (a << ints.wide(_shift(b, 8))) + c, undefined="carry")
vector(
    "v_alignbit_b32",
    "u32 u32 u32",
    "u32",
    lambda a, b, c: ((ints.wide(a) << _U64(32) | b) >> ints.wide(_shift(c, 32))).astype(_U32),
    undefined="bits",
)
vector(
    "v_alignbyte_b32",
    "u32 u32 u32",
    "u32",
    lambda a, b, c: ((ints.wide(a) << _U64(32) | b) >> ints.wide((c & _U32(3)) * _U32(8))).astype(_U32),
    undefined="bits",
)

# Add and subtract
vector("v_add_nc_u32 v_add_u32", "u32 u32", "u32", _add, saturated=_sat_u32(_add))
vector("v_sub_nc_u32 v_sub_u32", "u32 u32", "u32", _sub, saturated=_sat_u32(_sub))
vector("v_subrev_nc_u32 v_subrev_u32", "u32 u32", "u32", _rsub, saturated=_sat_u32(_rsub))
vector("v_add_nc_i32 v_add_i32", "i32 i32", "i32", _add, saturated=_sat_i32(_add))
vector("v_sub_nc_i32 v_sub_i32", "i32 i32", "i32", _sub, saturated=_sat_i32(_sub))
vector("v_add_nc_u16 v_add_u16", "u16 u16", "u16", _add, saturated=_sat_u16(_add))
vector("v_sub_nc_u16 v_sub_u16", "u16 u16", "u16", _sub, saturated=_sat_u16(_sub))
vector("v_subrev_u16", "u16 u16", "u16", _rsub, saturated=_sat_u16(_rsub))
vector("v_add_nc_i16 v_add_i16", "i16 i16", "i16", _add, saturated=_sat_i16(_add))
vector("v_sub_nc_i16 v_sub_i16", "i16 i16", "i16", _sub, saturated=_sat_i16(_sub))
vector("v_add3_u32", "u32 u32 u32", "u32", lambda a, b, c: a + b + c)
vector("v_xad_u32", "u32 u32 u32", "u32", lambda a, b, c: (a ^ b) + c)


def _carry_add(a: Array, b: Array) -> tuple[Array, Array]:
    r = a + b
    return r, r < a


def _borrow_sub(a: Array, b: Array) -> tuple[Array, Array]:
    return a - b, a < b


def _carry_add_in(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    partial = a + b
    total = partial + carry
    # A carry leaves at most one of the two additions.
    return total, (partial < a) | (total < partial)


def _borrow_sub_in(a: Array, b: Array, borrow: Array) -> tuple[Array, Array]:
    return a - b - borrow, (a < b) | ((a == b) & borrow)


vector("v_add_co_u32", "u32 u32", "u32 mask", _carry_add)
vector("v_sub_co_u32", "u32 u32", "u32 mask", _borrow_sub)
vector("v_subrev_co_u32", "u32 u32", "u32 mask", lambda a, b: _borrow_sub(b, a))
vector("v_add_co_ci_u32 v_addc_co_u32", "u32 u32 mask", "u32 mask", _carry_add_in)
vector("v_sub_co_ci_u32 v_subb_co_u32", "u32 u32 mask", "u32 mask", _borrow_sub_in)
vector("v_subrev_co_ci_u32 v_subbrev_co_u32", "u32 u32 mask", "u32 mask", lambda a, b, c: _borrow_sub_in(b, a, c))

# Multiply
vector("v_mul_lo_u32", "u32 u32", "u32", lambda a, b: a * b)
vector("v_mul_hi_u32", "u32 u32", "u32", ints.mul_hi_u32)
vector("v_mul_hi_i32", "i32 i32", "i32", ints.mul_hi_i32)
vector("v_mul_u32_u24", "u32 u32", "u32", lambda a, b: ints.u24(a) * ints.u24(b))
vector("v_mul_i32_i24", "u32 u32", "i32", lambda a, b: ints.i24(a) * ints.i24(b))
vector("v_mul_hi_u32_u24", "u32 u32", "u32", lambda a, b: ints.mul_hi_u32(ints.u24(a), ints.u24(b)))
vector("v_mul_hi_i32_i24", "u32 u32", "i32", lambda a, b: ints.mul_hi_i32(ints.i24(a), ints.i24(b)))
vector(
    "v_mad_u32_u24",
    "u32 u32 u32",
    "u32",
    lambda a, b, c: ints.u24(a) * ints.u24(b) + c,
    saturated=lambda a, b, c: np.minimum(ints.wide(ints.u24(a)) * ints.u24(b) + c, _U64(_MAX32)).astype(_U32),
)
vector(
    "v_mad_i32_i24",
    "u32 u32 i32",
    "i32",
    lambda a, b, c: ints.i24(a) * ints.i24(b) + c,
    saturated=lambda a, b, c: np.clip(ints.i24(a).astype(_I64) * ints.i24(b) + c, -(1 << 31), (1 << 31) - 1).astype(
        _I32
    ),
)
vector("v_mul_lo_u16", "u16 u16", "u16", lambda a, b: a * b)
vector(
    "v_mad_u16 v_mad_legacy_u16",
    "u16 u16 u16",
    "u16",
    lambda a, b, c: a * b + c,
    saturated=_sat_u16(lambda a, b, c: a * b + c),
)
vector(
    "v_mad_i16 v_mad_legacy_i16",
    "i16 i16 i16",
    "i16",
    lambda a, b, c: a * b + c,
    saturated=_sat_i16(lambda a, b, c: a * b + c),
)
vector("v_mad_u32_u16", "u16 u16 u32", "u32", lambda a, b, c: a.astype(_U32) * b.astype(_U32) + c)
vector("v_mad_i32_i16", "i16 i16 i32", "i32", lambda a, b, c: a.astype(_I32) * b.astype(_I32) + c)


def _mad_u64(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    r = ints.wide(a) * ints.wide(b) + c
    return r, r < c


def _mad_i64(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    product = a.astype(_I64) * b.astype(_I64)
    r = product + c
    return r, ((product ^ r) & (c ^ r)) < 0


vector("v_mad_u64_u32 v_mad_co_u64_u32", "u32 u32 u64", "u64 mask", _mad_u64, undefined="carry")
vector("v_mad_i64_i32 v_mad_co_i64_i32", "i32 i32 i64", "i64 mask", _mad_i64, undefined="carry")

# Minimum, maximum, median
for _suffix in ("i32", "u32", "i16", "u16"):
    _two, _three = f"{_suffix} {_suffix}", f"{_suffix} {_suffix} {_suffix}"
    vector(f"v_min_{_suffix}", _two, _suffix, np.minimum)
    vector(f"v_max_{_suffix}", _two, _suffix, np.maximum)
    vector(f"v_min3_{_suffix}", _three, _suffix, lambda a, b, c: np.minimum(np.minimum(a, b), c))
    vector(f"v_max3_{_suffix}", _three, _suffix, lambda a, b, c: np.maximum(np.maximum(a, b), c))
    vector(
        f"v_med3_{_suffix}",
        _three,
        _suffix,
        lambda a, b, c: np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c)),
    )
for _suffix in ("i32", "u32"):
    _three = f"{_suffix} {_suffix} {_suffix}"
    vector(f"v_maxmin_{_suffix}", _three, _suffix, lambda a, b, c: np.minimum(np.maximum(a, b), c))
    vector(f"v_minmax_{_suffix}", _three, _suffix, lambda a, b, c: np.maximum(np.minimum(a, b), c))

# Bit fields and counts
vector(
    "v_bfe_u32", "u32 u32 u32", "u32", lambda a, b, c: ints.field_u(a, _shift(b, 32), _shift(c, 32)), undefined="bits"
)
vector(
    "v_bfe_i32", "u32 u32 u32", "u32", lambda a, b, c: ints.field_s(a, _shift(b, 32), _shift(c, 32)), undefined="bits"
)
vector("v_bcnt_u32_b32", "u32 u32", "u32", lambda a, b: ints.popcount(a) + b)
vector("v_clz_i32_u32 v_ffbh_u32", "u32", "u32", ints.leading_zeros)
vector("v_ctz_i32_b32 v_ffbl_b32", "u32", "u32", ints.trailing_zeros)
vector("v_cls_i32 v_ffbh_i32", "u32", "u32", ints.leading_sign_bits)


def _permute_bytes(a: Array, b: Array, selector: Array) -> Array:
    """V_PERM_B32: each selector byte picks a byte of {a, b}, a sign fill, zero or ones."""
    data = ints.wide(a) << _U64(32) | ints.wide(b)
    shape = np.broadcast_shapes(data.shape, selector.shape)
    result = np.zeros(shape, _U32)
    for byte in range(4):
        s = selector >> _U32(8 * byte) & _U32(0xFF)
        plain = (data >> ints.wide((s & _U32(7)) * _U32(8))).astype(_U32) & _U32(0xFF)
        # Selectors 8..11 replicate the sign of half-words 1, 3, 5, 7 (bits 15, 31, 47, 63).
        sign_bit = ints.wide(((s & _U32(3)) * _U32(16)) + _U32(15))
        sign = np.where((data >> sign_bit & _U64(1)) != 0, _U32(0xFF), _U32(0))
        value = np.where(s < 8, plain, np.where(s < 12, sign, np.where(s == 12, _U32(0), _U32(0xFF))))
        result |= value << _U32(8 * byte)
    return result


vector("v_perm_b32", "u32 u32 u32", "u32", _permute_bytes, undefined="bits")


def _sum_of_differences(a: Array, b: Array, c: Array, bits: int, masked: bool = False) -> Array:
    total = c
    for low in range(0, 32, bits):
        mask = _U32((1 << bits) - 1)
        x, y = a >> _U32(low) & mask, b >> _U32(low) & mask
        difference = np.maximum(x, y) - np.minimum(x, y)
        total = total + (np.where(y == 0, _U32(0), difference) if masked else difference)
    return total


vector("v_sad_u8", "u32 u32 u32", "u32", lambda a, b, c: _sum_of_differences(a, b, c, 8))
vector("v_msad_u8", "u32 u32 u32", "u32", lambda a, b, c: _sum_of_differences(a, b, c, 8, masked=True))
vector("v_sad_u16", "u32 u32 u32", "u32", lambda a, b, c: _sum_of_differences(a, b, c, 16))
vector("v_sad_u32", "u32 u32 u32", "u32", lambda a, b, c: np.maximum(a, b) - np.minimum(a, b) + c)
vector(
    "v_sad_hi_u8",
    "u32 u32 u32",
    "u32",
    lambda a, b, c: (_sum_of_differences(a, b, np.zeros_like(c), 8) << _U32(16)) + c,
)


def _four_sums(masked: bool) -> Any:
    """V_QSAD_PK_U16_U8 and V_MQSAD_PK_U16_U8: sums at four byte offsets, each added to 16 bits of `c`."""

    def evaluate(a: Array, b: Array, c: Array) -> Array:
        result: Array = np.zeros((1, 1), _U64)
        for k in range(4):
            window = (a >> _U64(8 * k)).astype(_U32)
            start = (c >> _U64(16 * k)).astype(_U32) & _U32(0xFFFF)
            total = _sum_of_differences(window, b, start, 8, masked) & _U32(0xFFFF)
            result = result | ints.wide(total) << _U64(16 * k)
        return result

    return evaluate


vector("v_qsad_pk_u16_u8", "u64 u32 u64", "u64", _four_sums(masked=False))
vector("v_mqsad_pk_u16_u8", "u64 u32 u64", "u64", _four_sums(masked=True))


def masked_sum_at(offset: int, a: Array, b: Array, c: Array) -> Array:
    """V_MSAD_U8 of the word at a byte offset of a pair."""
    return _sum_of_differences((a >> _U64(8 * offset)).astype(_U32), b, c, 8, masked=True)


def _average_bytes(a: Array, b: Array, c: Array) -> Array:
    """V_LERP_U8: per byte (a + b + rounding bit of c) >> 1."""
    result: Array = np.zeros((1, 1), _U32)
    for low in range(0, 32, 8):
        byte = ((a >> _U32(low) & _U32(0xFF)) + (b >> _U32(low) & _U32(0xFF)) + (c >> _U32(low) & _U32(1))) >> _U32(1)
        result = result | byte << _U32(low)
    return result


vector("v_lerp_u8", "u32 u32 u32", "u32", _average_bytes)

# Packing of integers
vector(
    "v_cvt_pk_u16_u32",
    "u32 u32",
    "u32",
    lambda a, b: np.minimum(a, _U32(0xFFFF)) | np.minimum(b, _U32(0xFFFF)) << _U32(16),
)
vector(
    "v_cvt_pk_i16_i32",
    "i32 i32",
    "u32",
    lambda a, b: (
        (np.clip(a, -0x8000, 0x7FFF).view(_U32) & _U32(0xFFFF)) | np.clip(b, -0x8000, 0x7FFF).view(_U32) << _U32(16)
    ),
)
vector("v_pack_b32_f16", "u16 u16", "u32", lambda a, b: a.astype(_U32) | b.astype(_U32) << _U32(16), undefined="bits")
vector("v_cvt_i32_i16", "i16", "i32", lambda a: a.astype(_I32))
vector("v_cvt_u32_u16", "u16", "u32", lambda a: a.astype(_U32))
vector(
    "v_sat_pk_u8_i16",
    "u32",
    "u16",
    lambda a: (
        np.clip(a.astype(_U16).view(np.int16), 0, 255)
        | np.clip((a >> _U32(16)).astype(_U16).view(np.int16), 0, 255) << np.int16(8)
    ).view(_U16),
)
