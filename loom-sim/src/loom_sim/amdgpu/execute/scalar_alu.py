"""Scalar integer and float instructions. Source of the semantics: AMD ISA documents, chapter "Scalar ALU"."""

from __future__ import annotations

from typing import Any

import numpy as np

from loom_sim.amdgpu.execute import vector_float  # noqa: F401 (defines the float operations used below)
from loom_sim.amdgpu.execute.convert import f16_to_f32, f32_to_f16, to_integer
from loom_sim.amdgpu.execute.operation import VECTOR, scalar
from loom_sim.amdgpu.numerics import integers as ints
from loom_sim.amdgpu.numerics.formats import Array

_U32, _I32, _U64, _I64 = np.uint32, np.int32, np.uint64, np.int64


def _low(count: Array, bits: int) -> Array:
    return count & _U32(bits - 1)


def _with_nonzero(function: Any) -> Any:
    """The result together with SCC = result is not zero."""

    def evaluate(*sources: Array) -> tuple[Array, Array]:
        r = function(*sources)
        return r, r != 0

    return evaluate


# Moves
scalar("s_mov_b32 s_movk_i32", "u32", "u32", lambda a: a, undefined="bits")
scalar("s_mov_b64", "u64", "u64", lambda a: a, undefined="bits")
scalar(
    "s_cmov_b32 s_cmovk_i32",
    "u32 scc",
    "u32",
    lambda a, c, old: np.where(c, a, old),
    accumulates=True,
    undefined="bits",
)
scalar("s_cmov_b64", "u64 scc", "u64", lambda a, c, old: np.where(c, a, old), accumulates=True, undefined="bits")
scalar("s_cselect_b32", "u32 u32 scc", "u32", lambda a, b, c: np.where(c, a, b), undefined="bits")
scalar("s_cselect_b64", "u64 u64 scc", "u64", lambda a, b, c: np.where(c, a, b), undefined="bits")

# Add and subtract


def _add_carry(a: Array, b: Array) -> tuple[Array, Array]:
    r = a + b
    return r, r < a


def _sub_borrow(a: Array, b: Array) -> tuple[Array, Array]:
    return a - b, a < b


def _add_overflow(a: Array, b: Array) -> tuple[Array, Array]:
    r = a + b
    return r, ((a ^ r) & (b ^ r)) < 0


def _sub_overflow(a: Array, b: Array) -> tuple[Array, Array]:
    r = a - b
    return r, ((a ^ b) & (a ^ r)) < 0


def _add_carry_in(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    partial = a + b
    r = partial + c
    return r, (partial < a) | (r < partial)


def _sub_borrow_in(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    return a - b - c, (a < b) | ((a == b) & c)


scalar("s_add_u32 s_add_co_u32", "u32 u32", "u32 scc", _add_carry)
scalar("s_sub_u32 s_sub_co_u32", "u32 u32", "u32 scc", _sub_borrow)
scalar("s_add_i32 s_add_co_i32", "i32 i32", "i32 scc", _add_overflow)
scalar("s_sub_i32 s_sub_co_i32", "i32 i32", "i32 scc", _sub_overflow)
scalar("s_addc_u32 s_add_co_ci_u32", "u32 u32 scc", "u32 scc", _add_carry_in)
scalar("s_subb_u32 s_sub_co_ci_u32", "u32 u32 scc", "u32 scc", _sub_borrow_in)
scalar("s_add_nc_u64", "u64 u64", "u64", lambda a, b: a + b, undefined="carry")
scalar("s_sub_nc_u64", "u64 u64", "u64", lambda a, b: a - b, undefined="carry")
scalar("s_addk_i32 s_addk_co_i32", "i32", "i32 scc", lambda a, old: _add_overflow(old, a), accumulates=True)
scalar("s_mulk_i32", "i32", "i32", lambda a, old: old * a, accumulates=True)


def _absdiff(a: Array, b: Array) -> tuple[Array, Array]:
    r = np.abs(a - b)
    return r, r != 0


scalar("s_absdiff_i32", "i32 i32", "i32 scc", _absdiff)
scalar("s_abs_i32", "i32", "i32 scc", _with_nonzero(np.abs))
scalar("s_mul_i32", "u32 u32", "u32", lambda a, b: a * b)
scalar("s_mul_u64", "u64 u64", "u64", lambda a, b: a * b, undefined="carry")
scalar("s_mul_hi_u32", "u32 u32", "u32", ints.mul_hi_u32)
scalar("s_mul_hi_i32", "i32 i32", "i32", ints.mul_hi_i32)
for _shift in range(1, 5):

    def _shift_add(a: Array, b: Array, s: int = _shift) -> tuple[Array, Array]:
        total = (ints.wide(a) << _U64(s)) + b
        return total.astype(_U32), total > _U64(0xFFFFFFFF)

    scalar(f"s_lshl{_shift}_add_u32", "u32 u32", "u32 scc", _shift_add)


def _pick(name: str) -> Any:
    def choose(a: Array, b: Array) -> tuple[Array, Array]:
        first = a < b if name == "min" else a > b
        return np.where(first, a, b), first

    return choose


for _type in ("i32", "u32"):
    scalar(f"s_min_{_type}", f"{_type} {_type}", f"{_type} scc", _pick("min"))
    scalar(f"s_max_{_type}", f"{_type} {_type}", f"{_type} scc", _pick("max"))

# Bit logic
LOGIC: dict[str, Any] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
    "and_not1": lambda a, b: a & ~b,
    "andn2": lambda a, b: a & ~b,
    "or_not1": lambda a, b: a | ~b,
    "orn2": lambda a, b: a | ~b,
}
for _name, _function in LOGIC.items():
    for _type in ("u32", "u64"):
        scalar(
            f"s_{_name}_b{_type[1:]}", f"{_type} {_type}", f"{_type} scc", _with_nonzero(_function), undefined="bits"
        )
for _type in ("u32", "u64"):
    scalar(f"s_not_b{_type[1:]}", _type, f"{_type} scc", _with_nonzero(lambda a: ~a), undefined="bits")

# Shifts and bit fields
scalar("s_lshl_b32", "u32 u32", "u32 scc", _with_nonzero(lambda a, b: a << _low(b, 32)), undefined="bits")
scalar("s_lshr_b32", "u32 u32", "u32 scc", _with_nonzero(lambda a, b: a >> _low(b, 32)), undefined="bits")
scalar("s_ashr_i32", "i32 u32", "i32 scc", _with_nonzero(lambda a, b: a >> _low(b, 32).view(_I32)), undefined="bits")
scalar("s_lshl_b64", "u64 u32", "u64 scc", _with_nonzero(lambda a, b: a << ints.wide(_low(b, 64))), undefined="bits")
scalar("s_lshr_b64", "u64 u32", "u64 scc", _with_nonzero(lambda a, b: a >> ints.wide(_low(b, 64))), undefined="bits")
scalar(
    "s_ashr_i64",
    "i64 u32",
    "i64 scc",
    _with_nonzero(lambda a, b: a >> ints.wide(_low(b, 64)).view(_I64)),
    undefined="bits",
)
scalar("s_bfm_b32", "u32 u32", "u32", lambda a, b: ((_U32(1) << _low(a, 32)) - _U32(1)) << _low(b, 32))
scalar(
    "s_bfm_b64",
    "u32 u32",
    "u64",
    lambda a, b: ((_U64(1) << ints.wide(_low(a, 64))) - _U64(1)) << ints.wide(_low(b, 64)),
)
scalar(
    "s_bfe_u32",
    "u32 u32",
    "u32 scc",
    _with_nonzero(lambda a, b: ints.field_u(a, _low(b, 32), b >> _U32(16) & _U32(0x7F))),
    undefined="bits",
)
scalar(
    "s_bfe_i32",
    "u32 u32",
    "u32 scc",
    _with_nonzero(lambda a, b: ints.field_s(a, _low(b, 32), b >> _U32(16) & _U32(0x7F))),
    undefined="bits",
)
scalar(
    "s_bfe_u64",
    "u64 u32",
    "u64 scc",
    _with_nonzero(lambda a, b: ints.field_u(a, ints.wide(_low(b, 64)), ints.wide(b >> _U32(16) & _U32(0x7F)))),
)
scalar(
    "s_bfe_i64",
    "u64 u32",
    "u64 scc",
    _with_nonzero(lambda a, b: ints.field_s(a, ints.wide(_low(b, 64)), ints.wide(b >> _U32(16) & _U32(0x7F)))),
)

scalar("s_brev_b32", "u32", "u32", ints.reverse32)
scalar("s_brev_b64", "u64", "u64", ints.reverse64)
scalar("s_bcnt1_i32_b32 ", "u32", "u32 scc", _with_nonzero(ints.popcount))
scalar("s_bcnt1_i32_b64", "u64", "u32 scc", _with_nonzero(ints.popcount))
scalar("s_bcnt0_i32_b32", "u32", "u32 scc", _with_nonzero(lambda a: ints.popcount(~a)))
scalar("s_bcnt0_i32_b64", "u64", "u32 scc", _with_nonzero(lambda a: ints.popcount(~a)))
for _bits in ("32", "64"):
    scalar(f"s_ctz_i32_b{_bits} s_ff1_i32_b{_bits}", f"u{_bits}", "u32", ints.trailing_zeros)
    scalar(f"s_ff0_i32_b{_bits}", f"u{_bits}", "u32", lambda a: ints.trailing_zeros(~a))
scalar("s_clz_i32_u32 s_flbit_i32_b32", "u32", "u32", ints.leading_zeros)
scalar("s_clz_i32_u64 s_flbit_i32_b64", "u64", "u32", ints.leading_zeros)
scalar("s_cls_i32 s_flbit_i32", "u32", "u32", ints.leading_sign_bits)
scalar("s_cls_i32_i64 s_flbit_i32_i64", "u64", "u32", ints.leading_sign_bits)
scalar("s_sext_i32_i8", "u32", "i32", lambda a: a.astype(np.uint8).view(np.int8).astype(_I32))
scalar("s_sext_i32_i16", "u32", "i32", lambda a: a.astype(np.uint16).view(np.int16).astype(_I32))


def _set_bit(value: int, bits: int) -> Any:
    kind: Any = _U32 if bits == 32 else _U64

    def change(position: Array, old: Array) -> Array:
        bit = kind(1) << _low(position, bits).astype(kind)
        found: Array = old | bit if value else old & ~bit
        return found

    return change


for _value in (0, 1):
    scalar(f"s_bitset{_value}_b32", "u32", "u32", _set_bit(_value, 32), accumulates=True)
    scalar(f"s_bitset{_value}_b64", "u32", "u64", _set_bit(_value, 64), accumulates=True)


def _replicate(a: Array) -> Array:
    """Each of 32 bits twice."""
    x = ints.wide(a)
    for shift, mask in (
        (16, 0x0000FFFF0000FFFF),
        (8, 0x00FF00FF00FF00FF),
        (4, 0x0F0F0F0F0F0F0F0F),
        (2, 0x3333333333333333),
        (1, 0x5555555555555555),
    ):
        x = (x | x << _U64(shift)) & _U64(mask)
    found: Array = x | x << _U64(1)
    return found


def _quads(kind: Any, compress: bool) -> Any:
    """One bit per group of four (`s_quadmask`), or the group filled (`s_wqm`)."""
    bits = kind(0).itemsize * 8

    def evaluate(a: Array) -> Array:
        result = np.zeros_like(a)
        for quad in range(bits // 4):
            active = (a >> kind(4 * quad) & kind(15)) != 0
            result |= np.where(active, kind(1) << kind(quad) if compress else kind(15) << kind(4 * quad), kind(0))
        return result

    return evaluate


scalar("s_bitreplicate_b64_b32", "u32", "u64", _replicate)
scalar("s_quadmask_b32", "u32", "u32 scc", _with_nonzero(_quads(_U32, True)))
scalar("s_quadmask_b64", "u64", "u64 scc", _with_nonzero(_quads(_U64, True)))
scalar("s_wqm_b32", "u32", "u32 scc", _with_nonzero(_quads(_U32, False)))
scalar("s_wqm_b64", "u64", "u64 scc", _with_nonzero(_quads(_U64, False)))

_HALF = _U32(0xFFFF)
scalar("s_pack_ll_b32_b16", "u32 u32", "u32", lambda a, b: a & _HALF | b << _U32(16), undefined="bits")
scalar("s_pack_lh_b32_b16", "u32 u32", "u32", lambda a, b: a & _HALF | b & ~_HALF, undefined="bits")
scalar("s_pack_hh_b32_b16", "u32 u32", "u32", lambda a, b: a >> _U32(16) | b & ~_HALF, undefined="bits")
scalar("s_pack_hl_b32_b16", "u32 u32", "u32", lambda a, b: a >> _U32(16) | b << _U32(16), undefined="bits")

# Comparison with a 16-bit constant
for _type in ("i32", "u32"):
    for _name in ("eq", "lg", "gt", "ge", "lt", "le"):
        _ufunc: Any = {
            "eq": np.equal,
            "lg": np.not_equal,
            "gt": np.greater,
            "ge": np.greater_equal,
            "lt": np.less,
            "le": np.less_equal,
        }[_name]
        scalar(f"s_cmpk_{_name}_{_type}", f"{_type} k{_type}", "scc", _ufunc)

# Floats (gfx11.5 and later)
for _type in ("f32", "f16"):
    for _name in ("add", "sub", "mul", "min", "max", "min_num", "max_num", "minimum", "maximum"):
        _op = VECTOR[f"v_{_name}_{_type}"]
        scalar(f"s_{_name}_{_type}", f"{_type} {_type}", _type, _op.function, mode=True)
    for _name in ("ceil", "floor", "trunc", "rndne"):
        scalar(f"s_{_name}_{_type}", _type, _type, VECTOR[f"v_{_name}_{_type}"].function, mode=True)
    scalar(f"s_fmac_{_type}", f"{_type} {_type}", _type, VECTOR[f"v_fma_{_type}"].function, mode=True, accumulates=True)
scalar("s_fmaak_f32 s_fmamk_f32", "f32 f32 f32", "f32", VECTOR["v_fma_f32"].function, mode=True)
scalar("s_cvt_f32_i32", "i32", "f32", VECTOR["v_cvt_f32_i32"].function, mode=True)
scalar("s_cvt_f32_u32", "u32", "f32", VECTOR["v_cvt_f32_u32"].function, mode=True)
scalar("s_cvt_i32_f32", "f32", "i32", to_integer(np.int32))
scalar("s_cvt_u32_f32", "f32", "u32", to_integer(np.uint32))
scalar("s_cvt_f16_f32", "f32", "u32", lambda m, a: f32_to_f16(m, a).view(np.uint16).astype(_U32), mode=True)
scalar("s_cvt_f32_f16", "f16", "f32", f16_to_f32, mode=True)
scalar(
    "s_cvt_hi_f32_f16",
    "u32",
    "f32",
    lambda m, a: f16_to_f32(m, (a >> _U32(16)).astype(np.uint16).view(np.float16)),
    mode=True,
)
scalar("s_cvt_pk_rtz_f16_f32", "f32 f32", "u32", VECTOR["v_cvt_pk_rtz_f16_f32"].function, mode=True)
