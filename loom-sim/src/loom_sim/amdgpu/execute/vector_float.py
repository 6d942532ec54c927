"""Vector float instructions: arithmetic, minimum and maximum, rounding, scaling, division steps."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from loom_sim.amdgpu.execute.operation import vector
from loom_sim.amdgpu.numerics import float16, float32, float64
from loom_sim.amdgpu.numerics.formats import (
    F16,
    F32,
    F64,
    Array,
    FloatFormat,
    directed,
    flush,
    has_nan,
    select_nan,
    to_odd,
    two_sum,
)
from loom_sim.amdgpu.numerics.mode import FloatMode

_U32, _U64 = np.uint32, np.uint64

for _type, _unit in (("f32", float32), ("f64", float64), ("f16", float16)):
    _one, _two, _three = _type, f"{_type} {_type}", f"{_type} {_type} {_type}"
    _m: Any = _unit
    vector(f"v_add_{_type}", _two, _type, _m.add, mode=True)
    vector(f"v_mul_{_type}", _two, _type, _m.mul, mode=True)
    vector(f"v_fma_{_type}", _three, _type, _m.fma, mode=True)
    vector(f"v_fmac_{_type}", _two, _type, _m.fma, mode=True, accumulates=True)
    vector(f"v_min_{_type} v_min_num_{_type}", _two, _type, _m.minimum_number, mode=True)
    vector(f"v_max_{_type} v_max_num_{_type}", _two, _type, _m.maximum_number, mode=True)
    vector(f"v_minimum_{_type}", _two, _type, _m.minimum, mode=True)
    vector(f"v_maximum_{_type}", _two, _type, _m.maximum, mode=True)


def _negated(x: Array) -> Array:
    fmt = {2: F16, 4: F32, 8: F64}[x.dtype.itemsize]
    found: Array = (x.view(fmt.bits) ^ fmt.bits.type(fmt.sign)).view(x.dtype)
    return found


for _type, _unit in (("f32", float32), ("f16", float16)):
    _two, _three = f"{_type} {_type}", f"{_type} {_type} {_type}"
    _m = _unit
    vector(f"v_sub_{_type}", _two, _type, lambda m, a, b, u=_m: u.add(m, a, _negated(b)), mode=True)
    vector(f"v_subrev_{_type}", _two, _type, lambda m, a, b, u=_m: u.add(m, b, _negated(a)), mode=True)
    vector(f"v_fmaak_{_type} v_fmamk_{_type}", _three, _type, _m.fma, mode=True)
    vector(
        f"v_min3_{_type} v_min3_num_{_type}",
        _three,
        _type,
        lambda m, a, b, c, u=_m: u.minimum_number(m, u.minimum_number(m, a, b), c),
        mode=True,
    )
    vector(
        f"v_max3_{_type} v_max3_num_{_type}",
        _three,
        _type,
        lambda m, a, b, c, u=_m: u.maximum_number(m, u.maximum_number(m, a, b), c),
        mode=True,
    )
    vector(f"v_med3_{_type} v_med3_num_{_type}", _three, _type, _m.median3, mode=True)
    vector(
        f"v_maxmin_{_type} v_maxmin_num_{_type}",
        _three,
        _type,
        lambda m, a, b, c, u=_m: u.minimum_number(m, u.maximum_number(m, a, b), c),
        mode=True,
    )
    vector(
        f"v_minmax_{_type} v_minmax_num_{_type}",
        _three,
        _type,
        lambda m, a, b, c, u=_m: u.maximum_number(m, u.minimum_number(m, a, b), c),
        mode=True,
    )
    vector(
        f"v_minimum3_{_type}", _three, _type, lambda m, a, b, c, u=_m: u.minimum(m, u.minimum(m, a, b), c), mode=True
    )
    vector(
        f"v_maximum3_{_type}", _three, _type, lambda m, a, b, c, u=_m: u.maximum(m, u.maximum(m, a, b), c), mode=True
    )
    vector(
        f"v_minimummaximum_{_type}",
        _three,
        _type,
        lambda m, a, b, c, u=_m: u.maximum(m, u.minimum(m, a, b), c),
        mode=True,
    )
    vector(
        f"v_maximumminimum_{_type}",
        _three,
        _type,
        lambda m, a, b, c, u=_m: u.minimum(m, u.maximum(m, a, b), c),
        mode=True,
    )

vector("v_fma_legacy_f16", "f16 f16 f16", "f16", float16.fma, mode=True)
vector("v_mad_f16 v_mad_legacy_f16 v_madak_f16 v_madmk_f16", "f16 f16 f16", "f16", float16.multiply_add, mode=True)
vector("v_mac_f16", "f16 f16", "f16", float16.multiply_add, mode=True, accumulates=True)
vector("v_mul_dx9_zero_f32 v_mul_legacy_f32", "f32 f32", "f32", float32.mul_zero_wins, mode=True)
vector("v_fma_dx9_zero_f32", "f32 f32 f32", "f32", float32.fma_zero_wins, mode=True)
vector("v_fmac_dx9_zero_f32", "f32 f32", "f32", float32.fma_zero_wins, mode=True, accumulates=True)

_FORMATS: dict[str, FloatFormat] = {"f16": F16, "f32": F32, "f64": F64}


def _flush_in(mode: FloatMode, fmt: FloatFormat, x: Array) -> Array:
    keep = mode.denormal32 & 1 if fmt is F32 else mode.denormal64 & 1
    return x if keep else flush(fmt, x)


def _rounding(fmt: FloatFormat, function: Any) -> Any:
    def rounded(mode: FloatMode, x: Array) -> Array:
        x = _flush_in(mode, fmt, x)
        return select_nan(fmt, function(x).astype(fmt.dtype, copy=False), x)

    return rounded


def _fract(fmt: FloatFormat) -> Any:
    below_one = np.nextafter(fmt.dtype.type(1), fmt.dtype.type(0))

    def fract(mode: FloatMode, x: Array) -> Array:
        x = _flush_in(mode, fmt, x)
        r = np.minimum(x - np.floor(x), below_one)
        # x - floor(x) can round up to 1; the instruction never returns 1 (AMD ISA, V_FRACT).
        return select_nan(fmt, r.astype(fmt.dtype, copy=False), x)

    return fract


def _exponent_bits(fmt: FloatFormat, x: Array) -> Array:
    """The biased exponent field, as int32."""
    shift = fmt.bits.type(fmt.mantissa_bits)
    field = fmt.bits.type(fmt.exponent >> fmt.mantissa_bits)
    found: Array = (x.view(fmt.bits) >> shift & field).astype(np.int32)
    return found


def _frexp_mantissa(fmt: FloatFormat) -> Any:
    def mantissa(mode: FloatMode, x: Array) -> Array:
        m, _ = np.frexp(x)
        return select_nan(fmt, np.where(np.isfinite(x), m, x).astype(fmt.dtype, copy=False), x)

    return mantissa


def _frexp_exponent(fmt: FloatFormat, kind: Any) -> Any:
    def exponent(x: Array) -> Array:
        _, e = np.frexp(x)
        return np.where(np.isfinite(x) & (x != 0), e, 0).astype(kind)

    return exponent


def _scaled_double(rounding: int, x: Array, exponent: Array) -> Array:
    """x * 2**exponent of doubles, rounded in a direction."""
    wide, count = np.broadcast_arrays(x, exponent)
    found = [
        float64.round_fraction(Fraction(v) * Fraction(2) ** n, rounding) if math.isfinite(v) else v
        for v, n in zip(wide.ravel().tolist(), count.ravel().tolist(), strict=True)
    ]
    signed: Array = np.copysign(np.array(found, np.float64).reshape(wide.shape), wide)
    return signed


def scale(fmt: FloatFormat, mode: FloatMode, x: Array, exponent: Array) -> Array:
    """x * 2**exponent with one rounding; exponents beyond any effect are limited first."""
    limit = 4 * (fmt.exponent_bias + fmt.mantissa_bits)
    e = np.clip(exponent, -limit, limit).astype(np.int32)
    x = _flush_in(mode, fmt, x)
    if fmt is F64:
        r = _scaled_double(mode.round64, x, e) if mode.round64 else np.ldexp(x, e)
    else:
        exact = np.ldexp(x.astype(np.float64), e)
        r = exact.astype(fmt.dtype)
        rounding = mode.round32 if fmt is F32 else mode.round64
        if rounding:
            r = directed(r, exact, rounding)
    keep = mode.denormal32 & 2 if fmt is F32 else mode.denormal64 & 2
    if not keep:
        r = flush(fmt, r)
    return select_nan(fmt, r, x)


for _type, _fmt in _FORMATS.items():
    vector(f"v_trunc_{_type}", _type, _type, _rounding(_fmt, np.trunc), mode=True)
    vector(f"v_ceil_{_type}", _type, _type, _rounding(_fmt, np.ceil), mode=True)
    vector(f"v_floor_{_type}", _type, _type, _rounding(_fmt, np.floor), mode=True)
    vector(f"v_rndne_{_type}", _type, _type, _rounding(_fmt, np.rint), mode=True)
    vector(f"v_fract_{_type}", _type, _type, _fract(_fmt), mode=True)
    vector(f"v_frexp_mant_{_type}", _type, _type, _frexp_mantissa(_fmt), mode=True)
vector("v_frexp_exp_i32_f32", "f32", "i32", _frexp_exponent(F32, np.int32))
vector("v_frexp_exp_i32_f64", "f64", "i32", _frexp_exponent(F64, np.int32))
vector("v_frexp_exp_i16_f16", "f16", "i16", _frexp_exponent(F16, np.int16))
vector("v_ldexp_f32", "f32 i32", "f32", lambda m, a, b: scale(F32, m, a, b), mode=True)
vector("v_ldexp_f64", "f64 i32", "f64", lambda m, a, b: scale(F64, m, a, b), mode=True)
vector("v_ldexp_f16", "f16 i16", "f16", lambda m, a, b: scale(F16, m, a, b.astype(np.int32)), mode=True)


def _power_of_two(fmt: FloatFormat, x: Array, exponent: int) -> Array:
    return np.ldexp(x, np.int32(exponent)).astype(fmt.dtype, copy=False)


def _is_denormal(fmt: FloatFormat, x: Array) -> Array:
    found: Array = (_exponent_bits(fmt, x) == 0) & (x != 0)
    return found


def div_scale(fmt: FloatFormat) -> Any:
    """V_DIV_SCALE: scale the operands of a division so that its refinement steps neither over- nor underflow.

    src1 is the denominator, src2 the numerator and src0 whichever of the two is to be scaled; the lane mask tells
    V_DIV_FMAS to scale the quotient back (AMD "RDNA3 Instruction Set Architecture", V_DIV_SCALE_F32/F64).
    """
    step, far, small = (64, 96, 23) if fmt is F32 else (128, 768, 53)

    def scaled(mode: FloatMode, s0: Array, s1: Array, s2: Array) -> tuple[Array, Array]:
        s0, s1, s2 = (np.asarray(x) for x in np.broadcast_arrays(s0, s1, s2))
        up, down = _power_of_two(fmt, s0, step), _power_of_two(fmt, s0, -step)
        e1, e2 = _exponent_bits(fmt, s1), _exponent_bits(fmt, s2)
        wide1, wide2 = s1.astype(np.float64), s2.astype(np.float64)
        if fmt is F32:
            # 1/s1 is denormal exactly for exponents whose reciprocal lies below the smallest normal.
            reciprocal: Array = (1.0 / wide1).astype(np.float32)
            quotient: Array = (wide2 / wide1).astype(np.float32)
        else:
            reciprocal, quotient = 1.0 / wide1, wide2 / wide1
        tiny_reciprocal = _is_denormal(fmt, reciprocal)
        tiny_quotient = _exponent_bits(fmt, quotient) == 0
        same1, same2 = s0.view(fmt.bits) == s1.view(fmt.bits), s0.view(fmt.bits) == s2.view(fmt.bits)
        nan = fmt.bits.type(fmt.default_nan)
        zero = (s1 == 0) | (s2 == 0)
        cases: list[tuple[Array, Array, bool]] = [
            (zero, np.full(s0.shape, nan, fmt.bits).view(fmt.dtype), False),
            (e2 - e1 >= far, np.where(same1, up, s0), True),
            (_is_denormal(fmt, s1), up, False),
            (tiny_reciprocal & tiny_quotient, np.where(same1, down, s0), True),
            (tiny_reciprocal, down, False),
            (tiny_quotient, np.where(same2, up, s0), True),
            (e2 <= small, up, False),
        ]
        result, flag = s0, np.zeros(s0.shape, bool)
        for condition, value, raised in reversed(cases):
            result = np.where(condition, value, result)
            flag = np.where(condition, raised, flag)
        return result, flag

    return scaled


def div_fmas(fmt: FloatFormat, fma: Any) -> Any:
    """V_DIV_FMAS: fused multiply-add that undoes the scaling of V_DIV_SCALE where the mask says so.

    The quotient is brought back from whichever side it was scaled to: up if it is at least one, else down.
    """
    step = 64 if fmt is F32 else 128

    def scaled(mode: FloatMode, a: Array, b: Array, c: Array, flag: Array) -> Array:
        plain = fma(mode, a, b, c)
        if not flag.any():
            result: Array = plain
            return result
        up = _exponent_bits(fmt, c) > fmt.exponent_bias
        # The refined quotient must be rounded once, after scaling: scale the exact fused sum.
        if fmt is F32:
            s, e = two_sum(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))
            exact = np.ldexp(to_odd(s, e), np.where(up, step, -step).astype(np.int32))
            back = select_nan(F32, exact.astype(np.float32), a, b, c)
        else:
            back = np.ldexp(plain, np.where(up, step, -step).astype(np.int32))
            a, b, c, flags, ups = np.broadcast_arrays(a, b, c, flag, up)
            # Rounded twice, or lost, where the fused sum overflowed or its scaled value is denormal.
            twice = flags & ~ups & ((_exponent_bits(F64, back) <= 1) | np.isinf(plain))
            twice &= np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
            if twice.any():
                back[twice] = float64.exact_fma(mode.round64, a[twice], b[twice], c[twice], -step)
        return np.where(flag, back, plain)

    return scaled


def div_fixup(fmt: FloatFormat) -> Any:
    """V_DIV_FIXUP: special cases of a division (quotient, denominator, numerator)."""
    bits = fmt.bits.type

    def fixed(mode: FloatMode, quotient: Array, denominator: Array, numerator: Array) -> Array:
        sign = (denominator.view(fmt.bits) ^ numerator.view(fmt.bits)) & bits(fmt.sign)
        magnitude = quotient.view(fmt.bits) & bits(fmt.sign - 1)
        infinity, one_nan = bits(fmt.exponent), bits(fmt.sign | fmt.exponent | fmt.quiet)
        if fmt is F16:
            result = sign | magnitude
        else:
            low = -150 if fmt is F32 else -1075
            e1, e2 = _exponent_bits(fmt, denominator), _exponent_bits(fmt, numerator)
            result = np.where(e2 - e1 < low, sign, sign | magnitude)
        # A quotient that overflowed on the way has become a NaN in the refinement steps.
        if fmt is not F16 and has_nan(quotient):
            result = np.where(np.isnan(quotient), np.where(e2 > e1, sign | infinity, sign), result)
        zero_n, zero_d = numerator == 0, denominator == 0
        inf_n, inf_d = np.isinf(numerator), np.isinf(denominator)
        result = np.where(inf_d | zero_n, sign, result)
        result = np.where(zero_d | inf_n, sign | infinity, result)
        result = np.where((zero_d & zero_n) | (inf_d & inf_n), one_nan, result)
        if has_nan(denominator) or has_nan(numerator):
            quiet = bits(fmt.quiet)
            result = np.where(np.isnan(denominator), denominator.view(fmt.bits) | quiet, result)
            result = np.where(np.isnan(numerator), numerator.view(fmt.bits) | quiet, result)
        found: Array = result.view(fmt.dtype)
        return found

    return fixed


vector("v_div_scale_f32", "f32 f32 f32", "f32 mask", div_scale(F32), mode=True)
vector("v_div_scale_f64", "f64 f64 f64", "f64 mask", div_scale(F64), mode=True)
vector("v_div_fmas_f32", "f32 f32 f32 vcc", "f32", div_fmas(F32, float32.fma), mode=True)
vector("v_div_fmas_f64", "f64 f64 f64 vcc", "f64", div_fmas(F64, float64.fma), mode=True)
vector("v_div_fixup_f32", "f32 f32 f32", "f32", div_fixup(F32), mode=True)
vector("v_div_fixup_f64", "f64 f64 f64", "f64", div_fixup(F64), mode=True)
vector("v_div_fixup_f16 v_div_fixup_legacy_f16", "f16 f16 f16", "f16", div_fixup(F16), mode=True)
