"""An independent scalar model of vector instructions on Python integers and rationals.

Written from the public ISA documents, sharing nothing with the emulator: floats are exact rationals rounded by integer
arithmetic, integers are Python integers cut to their width.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

M16, M32, M64 = 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def signed(x: int, bits: int = 32) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


class Float:
    """One binary format: bits to value and back."""

    def __init__(self, exponent_bits: int, mantissa_bits: int) -> None:
        self.m = mantissa_bits
        self.bias = (1 << (exponent_bits - 1)) - 1
        self.top = (1 << exponent_bits) - 1
        self.width = 1 + exponent_bits + mantissa_bits
        self.sign = 1 << (self.width - 1)
        self.inf = self.top << mantissa_bits
        self.quiet = 1 << (mantissa_bits - 1)
        self.nan = self.inf | self.quiet

    def is_nan(self, x: int) -> bool:
        return x & (self.sign - 1) > self.inf

    def is_inf(self, x: int) -> bool:
        return x & (self.sign - 1) == self.inf

    def value(self, x: int) -> Fraction:
        e, f = x >> self.m & self.top, x & ((1 << self.m) - 1)
        magnitude = Fraction(f, 1 << self.m) + (1 if e else 0)
        exponent = max(e, 1) - self.bias
        magnitude *= Fraction(2) ** exponent
        return -magnitude if x & self.sign else magnitude

    def round(self, v: Fraction, zero_sign: int = 0, direction: int = 0) -> int:
        """To nearest even (direction 0), up (1), down (2) or toward zero (3); `zero_sign` is the sign of an exact zero."""
        if v == 0:
            return self.sign if zero_sign else 0
        sign, v = (self.sign, -v) if v < 0 else (0, v)
        e = v.numerator.bit_length() - v.denominator.bit_length()
        if Fraction(2) ** e > v:
            e -= 1
        e = max(e, 1 - self.bias)
        scaled = v / Fraction(2) ** (e - self.m)
        n = scaled.numerator // scaled.denominator
        rest = scaled - n
        if direction == 0:
            n += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and n & 1 == 1)
        elif rest and direction == (2 if sign else 1):
            n += 1
        biased = e + self.bias
        if n >> (self.m + 1):
            n, biased = n >> 1, biased + 1
        if not n >> self.m:
            biased = 0
        if biased >= self.top:
            away = direction == 0 or direction == (2 if sign else 1)
            return sign | (self.inf if away else self.inf - 1)
        return sign | biased << self.m | n & ((1 << self.m) - 1)

    def first_nan(self, *xs: int) -> int | None:
        for x in xs:
            if self.is_nan(x):
                return x | self.quiet
        return None

    def fma(self, a: int, b: int, c: int) -> int:
        found = self.first_nan(a, b, c)
        if found is not None:
            return found
        product_sign = (a ^ b) & self.sign
        if self.is_inf(a) or self.is_inf(b):
            if not a & (self.sign - 1) or not b & (self.sign - 1):
                return self.nan
            if self.is_inf(c) and c & self.sign != product_sign:
                return self.nan
            return product_sign | self.inf
        if self.is_inf(c):
            return c
        product = self.value(a) * self.value(b)
        total = product + self.value(c)
        if total == 0:
            both_negative = product_sign and c & self.sign and product == 0
            return self.sign if both_negative else 0
        return self.round(total)

    def add(self, a: int, b: int) -> int:
        return self.fma(a, self.bias << self.m, b)

    def mul(self, a: int, b: int) -> int:
        # Adding a zero of the product's own sign changes nothing, not even the sign of a zero.
        return self.fma(a, b, (a ^ b) & self.sign)

    def _order(self, x: int) -> int:
        return -(x & (self.sign - 1)) * 2 - 1 if x & self.sign else (x & (self.sign - 1)) * 2

    def pick(self, a: int, b: int, largest: bool) -> int:
        """maxNum / minNum in IEEE mode: a signalling NaN wins quieted, then a number against a NaN."""
        for x in (a, b):
            if self.is_nan(x) and not x & self.quiet:
                return x | self.quiet
        if self.is_nan(a):
            return b if not self.is_nan(b) else a
        if self.is_nan(b):
            return a
        return (max if largest else min)(a, b, key=self._order)

    def integral(self, x: int, how: Callable[[Fraction], int]) -> int:
        if self.is_nan(x):
            return x | self.quiet
        if self.is_inf(x):
            return x
        return self.round(Fraction(how(self.value(x))), x & self.sign)

    def to_int(self, x: int, low: int, high: int) -> int:
        if self.is_nan(x):
            return 0
        if self.is_inf(x):
            return low if x & self.sign else high
        v = self.value(x)
        n = abs(v.numerator) // v.denominator * (-1 if v < 0 else 1)
        return min(max(n, low), high)


F16, F32, F64 = Float(5, 10), Float(8, 23), Float(11, 52)


def trunc(v: Fraction) -> int:
    return int(v)


def floor(v: Fraction) -> int:
    return v.numerator // v.denominator


def ceil(v: Fraction) -> int:
    return -floor(-v)


def leading_zeros(x: int, bits: int = 32) -> int:
    return bits - x.bit_length() if x else M32


def trailing_zeros(x: int) -> int:
    return (x & -x).bit_length() - 1 if x else M32


def leading_signs(x: int) -> int:
    top = x >> 31
    for n in range(32):
        if x >> (31 - n) & 1 != top:
            return n
    return M32


def field(x: int, offset: int, width: int) -> int:
    return x >> (offset & 31) & ((1 << (width & 31)) - 1)


def field_signed(x: int, offset: int, width: int) -> int:
    width &= 31
    shifted = signed(x) >> (offset & 31) & ((1 << width) - 1)  # beyond the top bit there are copies of it
    return signed(shifted, width) & M32 if width else 0


def permute(a: int, b: int, s: int) -> int:
    data = ((a << 32) | b).to_bytes(8, "little")
    out = []
    for selector in s.to_bytes(4, "little"):
        if selector < 8:
            out.append(data[selector])
        elif selector < 12:
            out.append(0xFF if data[2 * (selector - 8) + 1] & 0x80 else 0)
        else:
            out.append(0 if selector == 12 else 0xFF)
    return int.from_bytes(bytes(out), "little")


def med3(a: int, b: int, c: int) -> int:
    return sorted((a, b, c))[1]


def halves(f: Callable[..., int], *words: int) -> int:
    """A 16-bit function on both halves."""
    return f(*(w & M16 for w in words)) & M16 | (f(*(w >> 16 for w in words)) & M16) << 16


def classify(f: Float, x: int, mask: int) -> int:
    magnitude, negative = x & (f.sign - 1), bool(x & f.sign)
    if f.is_nan(x):
        bit = 1 if x & f.quiet else 0
    elif f.is_inf(x):
        bit = 2 if negative else 9
    elif magnitude == 0:
        bit = 5 if negative else 6
    elif magnitude >> f.m == 0:
        bit = 4 if negative else 7
    else:
        bit = 3 if negative else 8
    return mask >> bit & 1


# For each instruction: source widths, result width, function. The operands are v[2:3], v[4:5], v[6:7], the result v[8:9].
Model = tuple[tuple[int, ...], int, Callable[..., int]]
COMMON: dict[str, Model] = {
    "v_mov_b32": ((32,), 32, lambda a: a),
    "v_not_b32": ((32,), 32, lambda a: ~a),
    "v_and_b32": ((32, 32), 32, lambda a, b: a & b),
    "v_or_b32": ((32, 32), 32, lambda a, b: a | b),
    "v_xor_b32": ((32, 32), 32, lambda a, b: a ^ b),
    "v_xnor_b32": ((32, 32), 32, lambda a, b: ~(a ^ b)),
    "v_lshlrev_b32": ((32, 32), 32, lambda a, b: b << (a & 31)),
    "v_lshrrev_b32": ((32, 32), 32, lambda a, b: b >> (a & 31)),
    "v_ashrrev_i32": ((32, 32), 32, lambda a, b: signed(b) >> (a & 31)),
    "v_lshrrev_b64": ((32, 64), 64, lambda a, b: b >> (a & 63)),
    "v_ashrrev_i64": ((32, 64), 64, lambda a, b: signed(b, 64) >> (a & 63)),
    "v_lshlrev_b64": ((32, 64), 64, lambda a, b: b << (a & 63)),
    "v_lshl_add_u32": ((32, 32, 32), 32, lambda a, b, c: (a << (b & 31)) + c),
    "v_add_lshl_u32": ((32, 32, 32), 32, lambda a, b, c: ((a + b) & M32) << (c & 31)),
    "v_lshl_or_b32": ((32, 32, 32), 32, lambda a, b, c: a << (b & 31) | c),
    "v_and_or_b32": ((32, 32, 32), 32, lambda a, b, c: a & b | c),
    "v_or3_b32": ((32, 32, 32), 32, lambda a, b, c: a | b | c),
    "v_add3_u32": ((32, 32, 32), 32, lambda a, b, c: a + b + c),
    "v_xad_u32": ((32, 32, 32), 32, lambda a, b, c: (a ^ b) + c),
    "v_bfe_u32": ((32, 32, 32), 32, field),
    "v_bfe_i32": ((32, 32, 32), 32, field_signed),
    "v_bfi_b32": ((32, 32, 32), 32, lambda a, b, c: a & b | ~a & c),
    "v_bfm_b32": ((32, 32), 32, lambda a, b: ((1 << (a & 31)) - 1) << (b & 31)),
    "v_bfrev_b32": ((32,), 32, lambda a: int(f"{a:032b}"[::-1], 2)),
    "v_bcnt_u32_b32": ((32, 32), 32, lambda a, b: a.bit_count() + b),
    "v_alignbit_b32": ((32, 32, 32), 32, lambda a, b, c: (a << 32 | b) >> (c & 31)),
    "v_alignbyte_b32": ((32, 32, 32), 32, lambda a, b, c: (a << 32 | b) >> 8 * (c & 3)),
    "v_perm_b32": ((32, 32, 32), 32, permute),
    "v_mul_lo_u32": ((32, 32), 32, lambda a, b: a * b),
    "v_mul_hi_u32": ((32, 32), 32, lambda a, b: a * b >> 32),
    "v_mul_hi_i32": ((32, 32), 32, lambda a, b: signed(a) * signed(b) >> 32),
    "v_mul_u32_u24": ((32, 32), 32, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
    "v_mul_i32_i24": ((32, 32), 32, lambda a, b: signed(a, 24) * signed(b, 24)),
    "v_mul_hi_u32_u24": ((32, 32), 32, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32),
    "v_mul_hi_i32_i24": ((32, 32), 32, lambda a, b: signed(a, 24) * signed(b, 24) >> 32),
    "v_mad_u32_u24": ((32, 32, 32), 32, lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    "v_mad_i32_i24": ((32, 32, 32), 32, lambda a, b, c: signed(a, 24) * signed(b, 24) + c),
    "v_mad_u32_u16": ((32, 32, 32), 32, lambda a, b, c: (a & M16) * (b & M16) + c),
    "v_mad_i32_i16": ((32, 32, 32), 32, lambda a, b, c: signed(a, 16) * signed(b, 16) + c),
    "v_min_i32": ((32, 32), 32, lambda a, b: min(signed(a), signed(b))),
    "v_max_i32": ((32, 32), 32, lambda a, b: max(signed(a), signed(b))),
    "v_min_u32": ((32, 32), 32, min),
    "v_max_u32": ((32, 32), 32, max),
    "v_min3_i32": ((32, 32, 32), 32, lambda *x: min(map(signed, x))),
    "v_max3_u32": ((32, 32, 32), 32, max),
    "v_med3_i32": ((32, 32, 32), 32, lambda *x: med3(*map(signed, x))),
    "v_med3_u32": ((32, 32, 32), 32, med3),
    "v_sad_u8": (
        (32, 32, 32),
        32,
        lambda a, b, c: sum(abs((a >> s & 255) - (b >> s & 255)) for s in (0, 8, 16, 24)) + c,
    ),
    "v_sad_u16": ((32, 32, 32), 32, lambda a, b, c: sum(abs((a >> s & M16) - (b >> s & M16)) for s in (0, 16)) + c),
    "v_sad_u32": ((32, 32, 32), 32, lambda a, b, c: abs(a - b) + c),
    "v_lerp_u8": (
        (32, 32, 32),
        32,
        lambda a, b, c: sum((((a >> s & 255) + (b >> s & 255) + (c >> s & 1)) >> 1) << s for s in (0, 8, 16, 24)),
    ),
    "v_cvt_f32_u32": ((32,), 32, lambda a: F32.round(Fraction(a))),
    "v_cvt_f32_i32": ((32,), 32, lambda a: F32.round(Fraction(signed(a)))),
    "v_cvt_f64_u32": ((32,), 64, lambda a: F64.round(Fraction(a))),
    "v_cvt_f64_i32": ((32,), 64, lambda a: F64.round(Fraction(signed(a)))),
    "v_cvt_u32_f32": ((32,), 32, lambda a: F32.to_int(a, 0, M32)),
    "v_cvt_i32_f32": ((32,), 32, lambda a: F32.to_int(a, -(1 << 31), (1 << 31) - 1)),
    "v_cvt_u32_f64": ((64,), 32, lambda a: F64.to_int(a, 0, M32)),
    "v_cvt_i32_f64": ((64,), 32, lambda a: F64.to_int(a, -(1 << 31), (1 << 31) - 1)),
    "v_cvt_f32_ubyte0": ((32,), 32, lambda a: F32.round(Fraction(a & 255))),
    "v_cvt_f32_ubyte3": ((32,), 32, lambda a: F32.round(Fraction(a >> 24))),
    "v_add_f32": ((32, 32), 32, F32.add),
    "v_sub_f32": ((32, 32), 32, lambda a, b: F32.add(a, b ^ F32.sign)),
    "v_subrev_f32": ((32, 32), 32, lambda a, b: F32.add(b, a ^ F32.sign)),
    "v_mul_f32": ((32, 32), 32, F32.mul),
    "v_fma_f32": ((32, 32, 32), 32, F32.fma),
    "v_add_f64": ((64, 64), 64, F64.add),
    "v_mul_f64": ((64, 64), 64, F64.mul),
    "v_fma_f64": ((64, 64, 64), 64, F64.fma),
    "v_fract_f32": (
        (32,),
        32,
        lambda a: (
            F32.first_nan(a)
            or (F32.nan if F32.is_inf(a) else min(F32.round(F32.value(a) - floor(F32.value(a))), 0x3F7FFFFF))
        ),
    ),
    "v_trunc_f32": ((32,), 32, lambda a: F32.integral(a, trunc)),
    "v_floor_f32": ((32,), 32, lambda a: F32.integral(a, floor)),
    "v_ceil_f32": ((32,), 32, lambda a: F32.integral(a, ceil)),
    "v_rndne_f32": ((32,), 32, lambda a: F32.integral(a, round)),
    "v_trunc_f64": ((64,), 64, lambda a: F64.integral(a, trunc)),
    "v_rndne_f64": ((64,), 64, lambda a: F64.integral(a, round)),
    "v_ldexp_f32": (
        (32, 32),
        32,
        lambda a, b: (
            F32.first_nan(a)
            or (
                a
                if F32.is_inf(a)
                else F32.round(F32.value(a) * Fraction(2) ** max(min(signed(b), 600), -600), a & F32.sign)
            )
        ),
    ),
    "v_pk_add_u16": ((32, 32), 32, lambda a, b: halves(lambda x, y: x + y, a, b)),
    "v_pk_mul_lo_u16": ((32, 32), 32, lambda a, b: halves(lambda x, y: x * y, a, b)),
    "v_pk_max_i16": ((32, 32), 32, lambda a, b: halves(lambda x, y: max(signed(x, 16), signed(y, 16)), a, b)),
    "v_pk_ashrrev_i16": ((32, 32), 32, lambda a, b: halves(lambda x, y: signed(y, 16) >> (x & 15), a, b)),
    "v_pk_add_f16": ((32, 32), 32, lambda a, b: halves(F16.add, a, b)),
    "v_pk_mul_f16": ((32, 32), 32, lambda a, b: halves(F16.mul, a, b)),
    "v_pk_fma_f16": ((32, 32, 32), 32, lambda a, b, c: halves(F16.fma, a, b, c)),
}
GFX11: dict[str, Model] = {
    "v_add_nc_u32": ((32, 32), 32, lambda a, b: a + b),
    "v_sub_nc_u32": ((32, 32), 32, lambda a, b: a - b),
    "v_subrev_nc_u32": ((32, 32), 32, lambda a, b: b - a),
    "v_xor3_b32": ((32, 32, 32), 32, lambda a, b, c: a ^ b ^ c),
    "v_clz_i32_u32": ((32,), 32, leading_zeros),
    "v_ctz_i32_b32": ((32,), 32, trailing_zeros),
    "v_cls_i32": ((32,), 32, leading_signs),
    "v_maxmin_i32": ((32, 32, 32), 32, lambda a, b, c: min(max(signed(a), signed(b)), signed(c))),
    "v_minmax_u32": ((32, 32, 32), 32, lambda a, b, c: max(min(a, b), c)),
    "v_cvt_pk_rtz_f16_f32": ((32, 32), 32, lambda a, b: _toward_zero(a) | _toward_zero(b) << 16),
    "v_max_f32": ((32, 32), 32, lambda a, b: F32.pick(a, b, True)),
    "v_min_f32": ((32, 32), 32, lambda a, b: F32.pick(a, b, False)),
    "v_max_f64": ((64, 64), 64, lambda a, b: F64.pick(a, b, True)),
    "v_min_f64": ((64, 64), 64, lambda a, b: F64.pick(a, b, False)),
}
GFX942: dict[str, Model] = {
    "v_add_u32": ((32, 32), 32, lambda a, b: a + b),
    "v_sub_u32": ((32, 32), 32, lambda a, b: a - b),
    "v_ffbh_u32": ((32,), 32, leading_zeros),
    "v_ffbl_b32": ((32,), 32, trailing_zeros),
    "v_ffbh_i32": ((32,), 32, leading_signs),
    "v_lshl_add_u64": ((64, 32, 64), 64, lambda a, b, c: (a << (b & 7)) + c),
    "v_max_f32": GFX11["v_max_f32"],
    "v_min_f32": GFX11["v_min_f32"],
    "v_max_f64": GFX11["v_max_f64"],
    "v_min_f64": GFX11["v_min_f64"],
    # 16-bit results clear the upper half here.
    "v_add_f16": ((16, 16), 32, F16.add),
    "v_mul_f16": ((16, 16), 32, F16.mul),
    "v_add_u16": ((16, 16), 32, lambda a, b: (a + b) & M16),
    "v_lshlrev_b16": ((16, 16), 32, lambda a, b: b << (a & 15) & M16),
}


def _toward_zero(x: int) -> int:
    if F32.is_nan(x):
        return x >> 16 & 0x8000 | 0x7E00 | x >> 13 & 0x1FF
    if F32.is_inf(x):
        return x >> 16 & 0x8000 | 0x7C00
    v = F32.value(x)
    r = F16.round(v, x & F32.sign)
    if F16.is_inf(r) or abs(F16.value(r)) > abs(v):
        r -= 1
    return r
