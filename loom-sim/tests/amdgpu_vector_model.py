"""A scalar model of the vector instructions that `amdgpu_model` does not have, and of their modifiers.

Written from AMD's "RDNA3", "RDNA4" and "CDNA3 Instruction Set Architecture", on Python integers and exact fractions.
Where an operand is a signalling NaN and the instruction returns it, the result is that NaN with its quiet bit set.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import attrs
from amdgpu_exact_functions import FUNCTIONS, part_of_two_over_pi
from amdgpu_f8_model import widened
from amdgpu_model import (
    F16,
    F32,
    F64,
    M16,
    M32,
    M64,
    Float,
    _toward_zero,
    ceil,
    floor,
    halves,
    med3,
    signed,
    trunc,
)

FORMATS = {"f16": F16, "f32": F32, "f64": F64}
BF16 = Float(8, 7)
PATTERN = 0xDEADBEEF
"""What the destination holds before."""


@attrs.frozen
class Vector:
    """One instruction on v2, v4 and v6 that leaves its result in v8 (and v9).

    Attributes:
        text: assembly.
        sources: a type per operand: `f16 f32 f64`, `i` and `u` likewise, `h` and `p` for two halves of float or integer.
        result: bits of the result that are compared.
        function: model on the sources' bits.
        uniform: all lanes of a wave get the same operands.
    """

    text: str
    sources: tuple[str, ...]
    result: int
    function: Callable[..., int]
    uniform: bool = False


def s16(x: int) -> int:
    return signed(x, 16)


def s64(x: int) -> int:
    return signed(x, 64)


def clip(x: int, low: int, high: int) -> int:
    return min(max(x, low), high)


def order(f: Float, x: int) -> int:
    """A key that puts -0 below +0."""
    return -(x & (f.sign - 1)) * 2 - 1 if x & f.sign else (x & (f.sign - 1)) * 2


def number(f: Float, largest: bool, a: int, b: int) -> int:
    """minimumNumber and maximumNumber: a number wins against any NaN."""
    if f.is_nan(a):
        return a | f.quiet if f.is_nan(b) else b
    return a if f.is_nan(b) else (max if largest else min)(a, b, key=lambda x: order(f, x))


def strict(f: Float, largest: bool, a: int, b: int) -> int:
    """minimum and maximum of IEEE 754-2019: a NaN wins, a signalling one first."""
    for x in (a, b):
        if f.is_nan(x) and not x & f.quiet:
            return x | f.quiet
    for x in (a, b):
        if f.is_nan(x):
            return x
    return (max if largest else min)(a, b, key=lambda x: order(f, x))


Pick = Callable[[Float, bool, int, int], int]


def ieee_mode(f: Float, largest: bool, a: int, b: int) -> int:
    """V_MIN and V_MAX while the IEEE mode bit is set."""
    return f.pick(a, b, largest)


def median(pick: Pick, f: Float, a: int, b: int, c: int) -> int:
    if any(f.is_nan(x) for x in (a, b, c)):
        return pick(f, False, pick(f, False, a, b), c)
    top = f_key(f, pick(f, True, pick(f, True, a, b), c))
    if top == f_key(f, a):
        return pick(f, True, b, c)
    return pick(f, True, a, c) if top == f_key(f, b) else pick(f, True, a, b)


def f_key(f: Float, x: int) -> Any:
    """Equal for equal floats: both zeros are one."""
    return 0 if x & (f.sign - 1) == 0 else x


def fract(f: Float, x: int) -> int:
    if f.is_nan(x):
        return x | f.quiet
    if f.is_inf(x):
        return f.nan
    v = f.value(x)
    return min(f.round(v - floor(v)), (f.bias << f.m) - 1)


def frexp_mantissa(f: Float, x: int) -> int:
    if f.is_nan(x):
        return x | f.quiet
    v = f.value(x)
    if f.is_inf(x) or v == 0:
        return x
    return f.round(v / Fraction(2) ** frexp_exponent(f, x))


def frexp_exponent(f: Float, x: int) -> int:
    """The exponent that leaves a mantissa in [1/2, 1)."""
    if f.is_nan(x) or f.is_inf(x) or f.value(x) == 0:
        return 0
    v, e = abs(f.value(x)), 0
    e = v.numerator.bit_length() - v.denominator.bit_length()
    return e + 1 if v >= Fraction(2) ** e else e


def ldexp(f: Float, x: int, e: int) -> int:
    if f.is_nan(x):
        return x | f.quiet
    if f.is_inf(x):
        return x
    return f.round(f.value(x) * Fraction(2) ** clip(e, -5000, 5000), x & f.sign)


def convert(source: Float, target: Float, x: int) -> int:
    sign = target.sign if x & source.sign else 0
    if source.is_nan(x):
        payload = x & ((1 << source.m) - 1)
        moved = payload << target.m - source.m if target.m > source.m else payload >> source.m - target.m
        return sign | target.inf | target.quiet | moved
    return sign | target.inf if source.is_inf(x) else target.round(source.value(x), sign)


def to_int(f: Float, how: Callable[[Fraction], int], low: int, high: int, x: int) -> int:
    if f.is_nan(x):
        return 0
    if f.is_inf(x):
        return low if x & f.sign else high
    return clip(how(f.value(x)), low, high)


def norm(f: Float, is_signed: bool, x: int) -> int:
    if f.is_nan(x):
        return 0
    low, top = (-1, 32767) if is_signed else (0, 65535)
    if f.is_inf(x):
        return (low * top if x & f.sign else top) & M16
    return round(min(max(f.value(x), Fraction(low)), Fraction(1)) * top) & M16


def pair(function: Callable[[int], int]) -> Callable[[int, int], int]:
    return lambda a, b: function(a) & M16 | (function(b) & M16) << 16


def exponent(f: Float, x: int) -> int:
    return x >> f.m & f.top


def is_denormal(f: Float, x: int) -> bool:
    return exponent(f, x) == 0 and x & (f.sign - 1) != 0


def div_scale(f: Float, which: int, denominator: int, numerator: int) -> tuple[int, int]:
    """Result and lane mask; `which` is 1 or 2: the operand that is scaled."""
    d, n = denominator, numerator
    x = d if which == 1 else n
    step, far, tiny = (64, 96, 23) if f is F32 else (128, 768, 53)
    if d & (f.sign - 1) == 0 or n & (f.sign - 1) == 0:
        return f.nan, 0
    if exponent(f, n) - exponent(f, d) >= far:
        return (ldexp(f, x, step) if x == d and not f.is_nan(x) else x), 1
    if is_denormal(f, d):
        return ldexp(f, x, step), 0
    finite = not (f.is_nan(d) or f.is_inf(d))
    small_inverse = finite and is_denormal(f, f.round(1 / f.value(d)))
    if f.is_nan(d) or f.is_nan(n) or f.is_inf(n):
        small_quotient = False
    else:
        small_quotient = f.is_inf(d) or exponent(f, f.round(f.value(n) / f.value(d))) == 0
    if small_inverse and small_quotient:
        # The documents scale the denominator up here, which would overflow; its reciprocal needs the other direction.
        return (ldexp(f, x, -step) if x == d else x), 1
    if small_inverse:
        return ldexp(f, x, -step), 0
    if small_quotient:
        return (ldexp(f, x, step) if x == n else x), 1
    return (ldexp(f, x, step), 0) if exponent(f, n) <= tiny else (x, 0)


def div_fmas(f: Float, a: int, b: int, c: int, scaled: bool) -> int:
    plain = f.fma(a, b, c)
    if not scaled or any(f.is_nan(x) or f.is_inf(x) for x in (a, b, c)):
        return plain
    step = 64 if f is F32 else 128
    step = step if exponent(f, c) > f.bias else -step
    exact = f.value(a) * f.value(b) + f.value(c)
    return plain if exact == 0 else f.round(exact * Fraction(2) ** step, f.sign if exact < 0 else 0)


def div_fixup(f: Float, quotient: int, denominator: int, numerator: int) -> int:
    q, d, n = quotient, denominator, numerator
    sign = (d ^ n) & f.sign
    for x in (n, d):
        if f.is_nan(x):
            return x | f.quiet
    zero_d, zero_n = (x & (f.sign - 1) == 0 for x in (d, n))
    if (zero_d and zero_n) or (f.is_inf(d) and f.is_inf(n)):
        return f.sign | f.nan
    if zero_d or f.is_inf(n):
        return sign | f.inf
    if f.is_inf(d) or zero_n:
        return sign
    if f is not F16:
        distance = exponent(f, n) - exponent(f, d)
        if f.is_nan(q):  # the refinement overflowed
            return sign | f.inf if distance > 0 else sign
        if distance < (-150 if f is F32 else -1075):
            return sign
    return sign | q & (f.sign - 1)


def bytes_of(x: int, count: int = 4) -> list[int]:
    return list((x & (1 << 8 * count) - 1).to_bytes(count, "little"))


def sad(a: int, b: int, c: int, masked: bool = False) -> int:
    return c + sum(abs(x - y) for x, y in zip(bytes_of(a), bytes_of(b), strict=True) if y or not masked)


def quad_sad(a: int, b: int, c: int, masked: bool) -> int:
    return sum((sad(a >> 8 * k, b, c >> 16 * k & M16, masked) & M16) << 16 * k for k in range(4))


def parts(x: int, bits: int, is_signed: bool) -> list[int]:
    found = [x >> low & (1 << bits) - 1 for low in range(0, 32, bits)]
    return [signed(v, bits) for v in found] if is_signed else found


def dot(bits: int, signs: tuple[bool, bool], clamp: tuple[int, int] | None, a: int, b: int, c: int) -> int:
    total = c + sum(x * y for x, y in zip(parts(a, bits, signs[0]), parts(b, bits, signs[1]), strict=True))
    return clip(total, *clamp) if clamp else total


def float_sum(f: Float, products: list[tuple[Float, int, int]], c: int) -> int:
    """A sum of products and an accumulator with a single rounding; a NaN is the default one."""
    infinities = {c & f.sign != 0} if f.is_inf(c) else set()
    if f.is_nan(c):
        return f.nan
    total, nothing, negative = Fraction(0), True, c == f.sign
    total += f.value(c) if not infinities else 0
    for g, a, b in products:
        sign = (a ^ b) & g.sign
        if g.is_nan(a) or g.is_nan(b):
            return f.nan
        if g.is_inf(a) or g.is_inf(b):
            if not a & (g.sign - 1) or not b & (g.sign - 1):
                return f.nan
            infinities.add(sign != 0)
            continue
        product = g.value(a) * g.value(b)
        negative = negative and product == 0 and sign != 0
        nothing = nothing and product == 0
        total += product
    if infinities:
        return f.nan if len(infinities) > 1 else f.inf | (f.sign if True in infinities else 0)
    return f.round(total, 1 if negative else 0)


def dot2(f: Float, g: Float, a: int, b: int, c: int) -> int:
    return float_sum(f, [(g, a & M16, b & M16), (g, a >> 16, b >> 16)], c)


def dot4(kinds: tuple[str, str], a: int, b: int, c: int) -> int:
    """Four products of 8-bit floats: widened exactly, then as in `float_sum`."""
    words = zip(bytes_of(a), bytes_of(b), strict=True)
    return float_sum(F32, [(F32, widened(x, kinds[0], False), widened(y, kinds[1], False)) for x, y in words], c)


def zero_wins(f: Float, a: int, b: int, c: int | None) -> int:
    """The DX9 rule: zero times anything is zero."""
    if a & (f.sign - 1) == 0 or b & (f.sign - 1) == 0:
        return 0 if c is None else c | (f.quiet if f.is_nan(c) else 0)
    return f.mul(a, b) if c is None else f.fma(a, b, c)


def cube(what: str, x: int, y: int, z: int) -> int:
    """Cube map face, coordinates and major axis of a direction; comparisons with a NaN are false."""

    def size(v: int) -> Any:
        return None if F32.is_nan(v) else v & ~F32.sign

    def at_least(a: int, b: int) -> bool:
        return size(a) is not None and size(b) is not None and size(a) >= size(b)

    def negative(v: int) -> bool:
        return not F32.is_nan(v) and v & F32.sign != 0 and v != F32.sign

    axis = 2 if at_least(z, x) and at_least(z, y) else 1 if at_least(y, x) else 0
    v = (x, y, z)[axis]
    flip = F32.sign
    if what == "id":
        return F32.round(Fraction(2 * axis + negative(v)))
    if what == "ma":
        return F32.mul(v, F32.round(Fraction(2)))
    if what == "sc":
        found = (z ^ (0 if negative(v) else flip), x, x ^ (flip if negative(v) else 0))[axis]
    else:
        found = (y ^ flip, z ^ (flip if negative(v) else 0), y ^ flip)[axis]
    return found | F32.quiet if F32.is_nan(found) else found


def lighting(a: int, b: int, c: int) -> int:
    """V_MULLIT_F32."""
    lowest = F32.sign | (F32.inf - 1)
    below = F32.is_nan(c) or c & F32.sign != 0 or c == 0
    return lowest if b in (lowest, F32.sign | F32.inf) or F32.is_nan(b) or below else zero_wins(F32, a, b, None)


def flushed(f: Float, x: int) -> int:
    return x & f.sign if is_denormal(f, x) else x


def mad16(a: int, b: int, c: int) -> int:
    """Multiply and add, each rounded; denormal operands and results are zeros."""
    product = flushed(F16, F16.mul(flushed(F16, a), flushed(F16, b)))
    return flushed(F16, F16.add(product, flushed(F16, c)))


def saturate(f: Float, x: int) -> int:
    one = f.bias << f.m
    return 0 if f.is_nan(x) or x & f.sign else min(x, one)


class Table:
    """Collects the instructions that a target has."""

    def __init__(self, target: str, known: frozenset[str]) -> None:
        self.target = target
        self.known = known
        self.old = target == "gfx942"
        self.mask = "s[14:15]" if self.old else "s14"
        self.vcc = "vcc" if self.old else "vcc_lo"
        self.entries: dict[str, Vector] = {}

    def add(self, names: str, sources: str, result: int, function: Callable[..., int], *, uniform: bool = False) -> None:
        """Instructions of equal meaning; those that the target does not have are left out."""
        for name in names.split():
            if name in self.known:
                tags = sources.split()
                operands = [register(2 + 2 * k, t) for k, t in enumerate(tags)]
                text = f"{name} {', '.join([register(8, 'u64' if result == 64 else 'u32'), *operands])}"
                self.entries[name] = Vector(text, tuple(tags), 32 if result == 16 else result,
                                            self.half(function, name) if result == 16 else function, uniform)  # fmt: skip

    def half(self, function: Callable[..., int], name: str) -> Callable[..., int]:
        """A 16-bit result: gfx942 clears the other half of the register, later families and some of its
        instructions keep it."""
        keeps = not self.old or name in KEEP
        return lambda *x: (function(*x) & M16) | (PATTERN & ~M16 if keeps else 0)

    def text(self, label: str, text: str, sources: str, result: int, function: Callable[..., int], *,
             uniform: bool = False) -> None:  # fmt: skip
        """An instruction with its text; the first word names it."""
        names = [line.split()[0] for line in text.splitlines()]
        stripped = {n.removesuffix("_e64").removesuffix("_e32").removesuffix("_dpp").removesuffix("_sdwa") for n in names}
        if all(n in self.known or not n.startswith("v_") for n in stripped):
            self.entries[label] = Vector(text, tuple(sources.split()), result, function, uniform)

    def accumulate(self, names: str, sources: str, result: int, function: Callable[..., int]) -> None:
        """Instructions whose last source is the old destination."""
        for name in names.split():
            tags = sources.split()
            operands = ", ".join(register(2 + 2 * k, t) for k, t in enumerate(tags[:-1]))
            before = {16: "v_and_b32_e32 v8, 0xffff, v6", 32: "v_mov_b32_e32 v8, v6",
                      64: "v_mov_b32_e32 v8, v6\nv_mov_b32_e32 v9, v7"}[result]  # fmt: skip
            text = f"{before}\n{name} {register(8, tags[-1])}, {operands}"
            cut = (lambda *x, g=function: g(*x) & M16) if result == 16 else function
            self.text(name, text, sources, max(result, 32), cut)

    def flag(self, label: str, text: str, sources: str, function: Callable[..., int]) -> None:
        """A lane mask, shown as 0 or 1."""
        self.text(label, f"{text}\ns_nop 4\nv_cndmask_b32_e64 v8, 0, 1, {self.mask}", sources, 32, function)


KEEP = frozenset({"v_fma_f16", "v_mad_f16", "v_mad_i16", "v_mad_u16", "v_div_fixup_f16", "v_mac_f16", "v_fmac_f16",
                  "v_madmk_f16", "v_madak_f16"})  # fmt: skip
"""gfx942's 16-bit instructions that keep the upper half of their destination (LLVM's "zeroesHigh16BitsOfDest" says
which generations clear it)."""


def register(first: int, tag: str) -> str:
    return f"v[{first}:{first + 1}]" if tag.endswith("64") else f"v{first}"


def integers(t: Table) -> None:
    for kind, key, low, high in (("i", s16, -0x8000, 0x7FFF), ("u", lambda x: x, 0, M16)):
        two, three = f"{kind}16 {kind}16", f"{kind}16 {kind}16 {kind}16"
        t.add(f"v_add_nc_{kind}16 v_add_{kind}16", two, 16, lambda a, b: a + b)
        t.add(f"v_sub_nc_{kind}16 v_sub_{kind}16", two, 16, lambda a, b: a - b)
        t.add(f"v_max_{kind}16", two, 16, lambda a, b, k=key: max(k(a), k(b)))
        t.add(f"v_min_{kind}16", two, 16, lambda a, b, k=key: min(k(a), k(b)))
        t.add(f"v_max3_{kind}16", three, 16, lambda a, b, c, k=key: max(k(a), k(b), k(c)))
        t.add(f"v_min3_{kind}16", three, 16, lambda a, b, c, k=key: min(k(a), k(b), k(c)))
        t.add(f"v_med3_{kind}16", three, 16, lambda a, b, c, k=key: med3(k(a), k(b), k(c)))
        t.add(f"v_mad_{kind}16 v_mad_legacy_{kind}16", three, 16, lambda a, b, c: a * b + c)
        packed = "p p"
        for name, function in (("add", lambda a, b: a + b), ("sub", lambda a, b: a - b)):
            t.add(f"v_pk_{name}_{kind}16", packed, 32, lambda a, b, g=function: halves(g, a, b))
            t.text(f"v_pk_{name}_{kind}16 clamp", f"v_pk_{name}_{kind}16 v8, v2, v4 clamp", packed, 32,
                   lambda a, b, g=function, k=key, lo=low, hi=high: halves(lambda x, y: clip(g(k(x), k(y)), lo, hi), a, b))
            full = f"v_{name}_nc_{kind}16" if f"v_{name}_nc_{kind}16" in t.known else f"v_{name}_{kind}16_e64"
            limited = t.half(lambda a, b, g=function, k=key, lo=low, hi=high: clip(g(k(a), k(b)), lo, hi), full)
            t.text(f"{full} clamp", f"{full} v8, v2, v4 clamp", two, 32, limited)
        t.add(f"v_pk_max_{kind}16", packed, 32, lambda a, b, k=key: halves(lambda x, y: max(k(x), k(y)), a, b))
        t.add(f"v_pk_min_{kind}16", packed, 32, lambda a, b, k=key: halves(lambda x, y: min(k(x), k(y)), a, b))
        t.add(f"v_pk_mad_{kind}16", "p p p", 32, lambda a, b, c: halves(lambda x, y, z: x * y + z, a, b, c))
        saturated = t.half(lambda a, b, c, k=key, lo=low, hi=high: clip(k(a) * k(b) + k(c), lo, hi), f"v_mad_{kind}16")
        t.text(f"v_mad_{kind}16 clamp", f"v_mad_{kind}16 v8, v2, v4, v6 clamp", three, 32, saturated)
    t.add("v_subrev_u16", "u16 u16", 16, lambda a, b: b - a)
    t.add("v_mul_lo_u16", "u16 u16", 16, lambda a, b: a * b)
    t.add("v_lshlrev_b16", "u16 u16", 16, lambda a, b: b << (a & 15))
    t.add("v_lshrrev_b16", "u16 u16", 16, lambda a, b: b >> (a & 15))
    t.add("v_ashrrev_i16", "u16 u16", 16, lambda a, b: s16(b) >> (a & 15))
    t.add("v_pk_lshlrev_b16", "p p", 32, lambda a, b: halves(lambda x, y: y << (x & 15), a, b))
    t.add("v_pk_lshrrev_b16", "p p", 32, lambda a, b: halves(lambda x, y: y >> (x & 15), a, b))
    t.add("v_and_b16", "u16 u16", 16, lambda a, b: a & b)
    t.add("v_or_b16", "u16 u16", 16, lambda a, b: a | b)
    t.add("v_xor_b16", "u16 u16", 16, lambda a, b: a ^ b)
    t.add("v_not_b16", "u16", 16, lambda a: ~a)
    t.add("v_mov_b64", "u64", 64, lambda a: a)
    t.add("v_cvt_i32_i16", "u16", 32, s16)
    t.add("v_cvt_u32_u16", "u16", 32, lambda a: a)
    t.add("v_sat_pk_u8_i16", "p", 16, lambda a: clip(s16(a), 0, 255) | clip(s16(a >> 16), 0, 255) << 8)
    t.add("v_pack_b32_f16", "u16 u16", 32, lambda a, b: a | b << 16)
    low32, high32 = -(1 << 31), (1 << 31) - 1
    for name, total in (("add", lambda a, b: a + b), ("sub", lambda a, b: a - b)):
        t.add(f"v_{name}_nc_i32 v_{name}_i32", "i32 i32", 32, total)
        full = f"v_{name}_nc_i32" if f"v_{name}_nc_i32" in t.known else f"v_{name}_i32"
        t.text(f"{full} clamp", f"{full} v8, v2, v4 clamp", "i32 i32", 32,
               lambda a, b, g=total: clip(g(signed(a), signed(b)), low32, high32))  # fmt: skip
    t.add("v_subrev_u32", "u32 u32", 32, lambda a, b: b - a)
    t.add("v_max3_i32", "i32 i32 i32", 32, lambda *x: max(map(signed, x)))
    t.add("v_min3_u32", "i32 i32 i32", 32, min)
    t.add("v_minmax_i32", "i32 i32 i32", 32, lambda a, b, c: max(min(signed(a), signed(b)), signed(c)))
    t.add("v_maxmin_u32", "i32 i32 i32", 32, lambda a, b, c: min(max(a, b), c))
    t.add("v_msad_u8", "u32 u32 u32", 32, lambda a, b, c: sad(a, b, c, masked=True))
    t.add("v_sad_hi_u8", "u32 u32 u32", 32, lambda a, b, c: (sad(a, b, 0) << 16) + c)
    t.add("v_cvt_pk_u16_u32", "u32 u32", 32, pair(lambda a: min(a, M16)))
    t.add("v_cvt_pk_i16_i32", "i32 i32", 32, pair(lambda a: clip(signed(a), -0x8000, 0x7FFF)))
    t.add("v_qsad_pk_u16_u8", "u64 u32 u64", 64, lambda a, b, c: quad_sad(a, b, c, masked=False))
    t.add("v_mqsad_pk_u16_u8", "u64 u32 u64", 64, lambda a, b, c: quad_sad(a, b, c, masked=True))
    wide = "v_mov_b32_e32 v20, v6\nv_mov_b32_e32 v21, v7\nv_mov_b32_e32 v22, v2\nv_mov_b32_e32 v23, v4\n"
    wide += "v_mqsad_u32_u8 v[16:19], v[2:3], v4, v[20:23]\n"

    def masked_sums(a: int, b: int, c: int) -> int:
        starts = (c & M32, c >> 32, a & M32, b)
        return sum((sad(a >> 8 * k, b, s, masked=True) & M32) << 32 * k for k, s in enumerate(starts))

    for half in (0, 1):
        moved = f"v_mov_b32_e32 v8, v{16 + 2 * half}\nv_mov_b32_e32 v9, v{17 + 2 * half}"
        t.text(f"v_mqsad_u32_u8 {half}", wide + moved, "u64 u32 u64", 64,
               lambda a, b, c, h=half: masked_sums(a, b, c) >> 64 * h)  # fmt: skip


def carries(t: Table) -> None:
    suffix = "_e64" if t.old else ""
    t.text("v_subrev_co_u32", f"v_subrev_co_u32{suffix} v8, {t.mask}, v2, v4", "u32 u32", 32, lambda a, b: b - a)
    t.flag("v_subrev_co_u32 borrow", f"v_subrev_co_u32{suffix} v8, {t.mask}, v2, v4", "u32 u32", lambda a, b: int(b < a))
    before = f"v_cmp_gt_i32_e64 {t.mask}, 0, v6\ns_nop 4\n"
    for name, first, second in (("v_sub_co_ci_u32", 0, 1), ("v_subb_co_u32", 0, 1), ("v_subrev_co_ci_u32", 1, 0),
                                ("v_subbrev_co_u32", 1, 0)):  # fmt: skip
        text = f"{before}{name}_e64 v8, {t.mask}, v2, v4, {t.mask}"
        t.text(name, text, "u32 u32 i32", 32, lambda *x, f=first, s=second: x[f] - x[s] - (x[2] >> 31))
        t.flag(f"{name} borrow", text, "u32 u32 i32", lambda *x, f=first, s=second: int(x[f] - x[s] - (x[2] >> 31) < 0))
    t.text("v_cndmask_b16", f"{before}v_cndmask_b16 v8, v2, v4, {t.mask}", "u16 u16 i32", 32,
           t.half(lambda a, b, c: b if c >> 31 else a, ""))  # fmt: skip


def floats(t: Table) -> None:
    pick: Pick = number if t.target == "gfx1200" else ieee_mode
    for kind, f in FORMATS.items():
        one, two, three = kind, f"{kind} {kind}", f"{kind} {kind} {kind}"
        bits = f.width
        t.add(f"v_add_{kind} v_add_{kind}", two, bits, f.add)
        t.add(f"v_mul_{kind}", two, bits, f.mul)
        t.add(f"v_sub_{kind}", two, bits, lambda a, b, f=f: f.add(a, b ^ f.sign))
        t.add(f"v_subrev_{kind}", two, bits, lambda a, b, f=f: f.add(b, a ^ f.sign))
        t.add(f"v_fma_{kind}", three, bits, f.fma)
        t.accumulate(f"v_fmac_{kind}", three, bits, f.fma)
        for name, largest in (("min", False), ("max", True)):
            t.add(f"v_{name}_{kind} v_{name}_num_{kind}", two, bits, lambda a, b, f=f, g=largest: pick(f, g, a, b))
            t.add(f"v_{name}imum_{kind}", two, bits, lambda a, b, f=f, g=largest: strict(f, g, a, b))
            t.add(f"v_{name}3_{kind} v_{name}3_num_{kind}", three, bits,
                  lambda a, b, c, f=f, g=largest: pick(f, g, pick(f, g, a, b), c))  # fmt: skip
            t.add(f"v_{name}imum3_{kind}", three, bits,
                  lambda a, b, c, f=f, g=largest: strict(f, g, strict(f, g, a, b), c))  # fmt: skip
            other = "min" if largest else "max"
            t.add(f"v_{name}{other}_{kind} v_{name}{other}_num_{kind}", three, bits,
                  lambda a, b, c, f=f, g=largest: pick(f, not g, pick(f, g, a, b), c))  # fmt: skip
            t.add(f"v_{name}imum{other}imum_{kind}", three, bits,
                  lambda a, b, c, f=f, g=largest: strict(f, not g, strict(f, g, a, b), c))  # fmt: skip
            t.add(f"v_pk_{name}_{kind} v_pk_{name}_num_{kind}", "h h", 32,
                  lambda a, b, f=f, g=largest: halves(lambda x, y: pick(f, g, x, y), a, b))  # fmt: skip
            t.add(f"v_pk_{name}imum_{kind}", "h h", 32,
                  lambda a, b, f=f, g=largest: halves(lambda x, y: strict(f, g, x, y), a, b))  # fmt: skip
        t.add(f"v_med3_{kind} v_med3_num_{kind}", three, bits, lambda a, b, c, f=f: median(pick, f, a, b, c))
        for name, how in (("trunc", trunc), ("floor", floor), ("ceil", ceil), ("rndne", round)):
            t.add(f"v_{name}_{kind}", one, bits, lambda a, f=f, h=how: f.integral(a, h))
        t.add(f"v_fract_{kind}", one, bits, lambda a, f=f: fract(f, a))
        t.add(f"v_frexp_mant_{kind}", one, bits, lambda a, f=f: frexp_mantissa(f, a))
        t.add(f"v_frexp_exp_{'i16' if f is F16 else 'i32'}_{kind}", one, 16 if f is F16 else 32,
              lambda a, f=f: frexp_exponent(f, a))  # fmt: skip
        count = "i16" if f is F16 else "i32"
        t.add(f"v_ldexp_{kind}", f"{kind} {count}", bits,
              lambda a, b, f=f, w=int(count[1:]): ldexp(f, a, signed(b, w)))  # fmt: skip
        for name, function in FUNCTIONS.items():
            legacy = f" v_{name}_legacy_{kind}" + (" v_rcp_iflag_f32" if (name, kind) == ("rcp", "f32") else "")
            t.add(f"v_{name}_{kind}{legacy}", one, bits, lambda a, f=f, g=function: g(f, a))
            t.text(f"v_s_{name}_{kind}", f"v_readfirstlane_b32 s12, v2\nv_s_{name}_{kind} s14, s12\nv_mov_b32_e32 v8, s14",
                   one, 32, lambda a, f=f, g=function: g(f, a), uniform=True)  # fmt: skip
        literal, value = ("0x4248", 0x4248) if f is F16 else ("0x40490fdb", 0x40490FDB)
        if f is not F64:
            cut = t.half if f is F16 else lambda g, name: g
            t.text(f"v_fmaak_{kind}", f"v_fmaak_{kind} v8, v2, v4, {literal}", two, 32,
                   cut(lambda a, b, f=f, v=value: f.fma(a, b, v), f"v_fmaak_{kind}"))  # fmt: skip
            t.text(f"v_fmamk_{kind}", f"v_fmamk_{kind} v8, v2, {literal}, v4", two, 32,
                   cut(lambda a, b, f=f, v=value: f.fma(a, v, b), f"v_fmamk_{kind}"))  # fmt: skip
    t.add("v_mul_dx9_zero_f32 v_mul_legacy_f32", "f32 f32", 32, lambda a, b: zero_wins(F32, a, b, None))
    t.add("v_fma_dx9_zero_f32", "f32 f32 f32", 32, lambda a, b, c: zero_wins(F32, a, b, c))
    t.accumulate("v_fmac_dx9_zero_f32", "f32 f32 f32", 32, lambda a, b, c: zero_wins(F32, a, b, c))
    t.add("v_fma_legacy_f16", "f16 f16 f16", 16, F16.fma)
    t.add("v_mad_f16 v_mad_legacy_f16", "f16 f16 f16", 16, mad16)
    t.accumulate("v_mac_f16", "f16 f16 f16", 16, mad16)
    t.text("v_madak_f16", "v_madak_f16 v8, v2, v4, 0x4248", "f16 f16", 32,
           t.half(lambda a, b: mad16(a, b, 0x4248), "v_madak_f16"))  # fmt: skip
    t.text("v_madmk_f16", "v_madmk_f16 v8, v2, 0x4248, v4", "f16 f16", 32,
           t.half(lambda a, b: mad16(a, 0x4248, b), "v_madmk_f16"))  # fmt: skip
    t.accumulate("v_pk_fmac_f16", "h h h", 32, lambda a, b, c: halves(F16.fma, a, b, c))
    for what in ("id", "sc", "tc", "ma"):
        t.add(f"v_cube{what}_f32", "f32 f32 f32", 32, lambda x, y, z, w=what: cube(w, x, y, z))
    t.add("v_mullit_f32", "f32 f32 f32", 32, lighting)
    t.add("v_trig_preop_f64", "f64 u32", 64, lambda a, b: F64.round(part_of_two_over_pi(exponent(F64, a), b)))


def pairs_of_words(t: Table) -> None:
    def both(function: Callable[..., int]) -> Callable[..., int]:
        return lambda *x: function(*(v & M32 for v in x)) | function(*(v >> 32 for v in x)) << 32

    t.add("v_pk_add_f32", "w64 w64", 64, both(F32.add))
    t.add("v_pk_mul_f32", "w64 w64", 64, both(F32.mul))
    t.add("v_pk_fma_f32", "w64 w64 w64", 64, both(F32.fma))
    t.add("v_pk_mov_b32", "w64 w64", 64, lambda a, b: a & M32 | (b & M32) << 32)
    t.text("v_pk_mov_b32 op_sel", "v_pk_mov_b32 v[8:9], v[2:3], v[4:5] op_sel:[1,0]", "w64 w64", 64,
           lambda a, b: a >> 32 | (b & M32) << 32)  # fmt: skip
    t.text("v_pk_mul_f32 modifiers",
           "v_pk_mul_f32 v[8:9], v[2:3], v[4:5] op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[1,0] neg_hi:[0,1]", "w64 w64", 64,
           lambda a, b: F32.mul(a >> 32 ^ F32.sign, b & M32) | F32.mul(a & M32, b >> 32 ^ F32.sign) << 32)  # fmt: skip


def conversions(t: Table) -> None:
    t.add("v_cvt_f16_f32", "f32", 16, lambda a: convert(F32, F16, a))
    t.add("v_cvt_f32_f16", "f16", 32, lambda a: convert(F16, F32, a))
    t.add("v_cvt_f32_f64", "f64", 32, lambda a: convert(F64, F32, a))
    t.add("v_cvt_f64_f32", "f32", 64, lambda a: convert(F32, F64, a))
    t.add("v_cvt_f16_u16", "u16", 16, lambda a: F16.round(Fraction(a)))
    t.add("v_cvt_f16_i16", "i16", 16, lambda a: F16.round(Fraction(s16(a))))
    t.add("v_cvt_u16_f16", "f16", 16, lambda a: to_int(F16, trunc, 0, M16, a))
    t.add("v_cvt_i16_f16", "f16", 16, lambda a: to_int(F16, trunc, -0x8000, 0x7FFF, a))
    low, high = -(1 << 31), (1 << 31) - 1
    t.add("v_cvt_nearest_i32_f32 v_cvt_rpi_i32_f32", "f32", 32,
          lambda a: to_int(F32, lambda v: floor(v + Fraction(1, 2)), low, high, a))  # fmt: skip
    t.add("v_cvt_floor_i32_f32 v_cvt_flr_i32_f32", "f32", 32, lambda a: to_int(F32, floor, low, high, a))
    for byte in (1, 2):
        t.add(f"v_cvt_f32_ubyte{byte}", "u32", 32, lambda a, s=8 * byte: F32.round(Fraction(a >> s & 255)))
    t.add("v_cvt_off_f32_i4", "u32", 32, lambda a: F32.round(Fraction(signed(a, 4), 16)))
    t.add("v_cvt_pk_rtz_f16_f32 v_cvt_pkrtz_f16_f32", "f32 f32", 32, pair(_toward_zero))
    for kind in ("i", "u"):
        for source, f in (("f16", F16), ("f32", F32)):
            t.add(f"v_cvt_pk_norm_{kind}16_{source} v_cvt_pknorm_{kind}16_{source}", f"{source} {source}", 32,
                  pair(partial(norm, f, kind == "i")))  # fmt: skip
        t.add(f"v_cvt_norm_{kind}16_f16", "f16", 16, lambda a, s=kind == "i": norm(F16, s, a))
    t.add("v_cvt_pk_i16_f32", "f32 f32", 32, pair(lambda a: to_int(F32, trunc, -0x8000, 0x7FFF, a)))
    t.add("v_cvt_pk_u16_f32", "f32 f32", 32, pair(lambda a: to_int(F32, trunc, 0, M16, a)))

    def insert(a: int, b: int, c: int) -> int:
        shift = 8 * (b & 3)
        return c & ~(255 << shift) | to_int(F32, round, 0, 255, a) << shift

    t.add("v_cvt_pk_u8_f32", "f32 u32 u32", 32, insert)
    t.accumulate("v_cvt_pkaccum_u8_f32", "f32 u32 u32", 32, insert)


def divisions(t: Table) -> None:
    for kind, f in (("f32", F32), ("f64", F64)):
        two, d = f"{kind} {kind}", register(8, kind)
        a, b, c = (register(2 + 2 * k, kind) for k in range(3))
        for which, first in ((1, a), (2, b)):
            text = f"v_div_scale_{kind} {d}, {t.vcc}, {first}, {a}, {b}"
            t.text(f"v_div_scale_{kind} of {which}", text, two, f.width,
                   lambda x, y, f=f, w=which: div_scale(f, w, x, y)[0])  # fmt: skip
            t.text(f"v_div_scale_{kind} flag of {which}", f"{text}\ns_nop 4\nv_cndmask_b32_e64 v8, 0, 1, {t.vcc}", two,
                   32, lambda x, y, f=f, w=which: div_scale(f, w, x, y)[1])  # fmt: skip
        t.add(f"v_div_fixup_{kind}", f"{kind} {kind} {kind}", f.width, lambda x, y, z, f=f: div_fixup(f, x, y, z))
        for flag in (0, 1):
            exec_name = "exec" if t.old else "exec_lo"
            before = f"s_mov_b{64 if t.old else 32} {t.vcc}, {exec_name if flag else 0}\n"
            t.text(f"v_div_fmas_{kind} {flag}", f"{before}v_div_fmas_{kind} {d}, {a}, {b}, {c}",
                   f"{kind} {kind} {kind}", f.width, lambda x, y, z, f=f, g=flag: div_fmas(f, x, y, z, bool(g)))  # fmt: skip
    t.add("v_div_fixup_f16 v_div_fixup_legacy_f16", "f16 f16 f16", 16, lambda x, y, z: div_fixup(F16, x, y, z))


def dots(t: Table) -> None:
    limits = {"i": (-(1 << 31), (1 << 31) - 1), "u": (0, M32)}
    for elements, bits in ((2, 16), (4, 8), (8, 4)):
        for kind in ("i", "u"):
            name, s = f"v_dot{elements}_{kind}32_{kind}{bits}", kind == "i"
            for clamp in ("", " clamp"):
                t.text(name + clamp, f"{name} v8, v2, v4, v6{clamp}", "p p u32", 32,
                       lambda a, b, c, w=bits, s=s, m=limits[kind] if clamp else None: dot(
                           w, (s, s), m, a, b, signed(c) if s else c))  # fmt: skip
        t.accumulate(f"v_dot{elements}c_i32_i{bits}", "p p u32", 32,
                     lambda a, b, c, w=bits: dot(w, (True, True), None, a, b, c))  # fmt: skip
        for signs in ((False, False), (True, False), (False, True), (True, True)):
            name = f"v_dot{elements}_i32_iu{bits}"
            negate = f" neg_lo:[{signs[0]:d},{signs[1]:d},0]" if any(signs) else ""
            t.text(name + negate, f"{name} v8, v2, v4, v6{negate}", "p p u32", 32,
                   lambda a, b, c, w=bits, s=signs: dot(w, s, None, a, b, c))  # fmt: skip
    t.add("v_dot2_f32_f16", "h h f32", 32, lambda a, b, c: dot2(F32, F16, a, b, c))
    t.text("v_dot2_f32_f16 modifiers", "v_dot2_f32_f16 v8, v2, v4, v6 neg_lo:[1,0,1] neg_hi:[0,1,0]", "h h f32", 32,
           lambda a, b, c: dot2(F32, F16, a ^ 0x8000, b ^ 1 << 31, c ^ F32.sign))  # fmt: skip
    t.text("v_dot2_f32_f16 clamp", "v_dot2_f32_f16 v8, v2, v4, v6 clamp", "h h f32", 32,
           lambda a, b, c: saturate(F32, dot2(F32, F16, a, b, c)))  # fmt: skip
    t.add("v_dot2_f32_bf16", "p p f32", 32, lambda a, b, c: dot2(F32, BF16, a, b, c))
    t.accumulate("v_dot2c_f32_f16 v_dot2acc_f32_f16", "h h f32", 32, lambda a, b, c: dot2(F32, F16, a, b, c))
    if t.target == "gfx1100":
        text = "v_mov_b32_e32 v8, v7\nv_mov_b32_e32 v9, v6\n"
        text += "v_dual_mov_b32 v8, v2 :: v_dual_dot2acc_f32_f16 v9, v5, v4\nv_mov_b32_e32 v8, v9\nv_mov_b32_e32 v9, 0xdeadbeef"
        t.entries["v_dual_dot2acc_f32_f16"] = Vector(text.replace("v5, v4", "v3, v4"), ("h64", "h", "f32"), 32,
                                                    lambda a, b, c: dot2(F32, F16, a >> 32, b, c))  # fmt: skip
    for first, second in ((f, g) for f in ("fp8", "bf8") for g in ("fp8", "bf8")):
        t.add(f"v_dot4_f32_{first}_{second}", "u32 u32 f32", 32,
              lambda a, b, c, k=(first, second): dot4(k, a, b, c))  # fmt: skip
    t.add("v_dot2_f16_f16", "h h f16", 16, lambda a, b, c: dot2(F16, F16, a, b, c))
    t.add("v_dot2_bf16_bf16", "p p u16", 16, lambda a, b, c: dot2(BF16, BF16, a, b, c))


def mixed(t: Table) -> None:
    def wide(x: int) -> int:
        return convert(F16, F32, x)

    t.text("v_fma_mix_f32", "v_fma_mix_f32 v8, v2, v4, v6", "f32 f32 f32", 32, F32.fma)
    t.text("v_fma_mix_f32 halves", "v_fma_mix_f32 v8, v2, -v4, |v6| op_sel:[0,1,0] op_sel_hi:[1,1,0]", "h h f32", 32,
           lambda a, b, c: F32.fma(wide(a & M16), wide(b >> 16) ^ F32.sign, c & ~F32.sign))  # fmt: skip
    t.text("v_fma_mixlo_f16", "v_fma_mixlo_f16 v8, v2, v4, v6 op_sel_hi:[1,0,0]", "h f32 f32", 32,
           lambda a, b, c: PATTERN & ~M16 | convert(F32, F16, F32.fma(wide(a & M16), b, c)))  # fmt: skip
    t.text("v_fma_mixhi_f16", "v_fma_mixhi_f16 v8, v2, v4, v6 op_sel:[0,0,1] op_sel_hi:[0,0,1] clamp", "f32 f32 h", 32,
           lambda a, b, c: PATTERN & M16 | convert(F32, F16, saturate(F32, F32.fma(a, b, wide(c >> 16)))) << 16)  # fmt: skip


def modifiers(t: Table) -> None:
    """Source and output modifiers on instructions of every float width."""
    for kind, f in FORMATS.items():
        d, a, b = register(8, kind), register(2, kind), register(4, kind)
        half, two, four = (f.round(Fraction(v)) for v in (Fraction(1, 2), 2, 4))
        cut = t.half if f is F16 else lambda g, name: g
        name = f"v_mul_{kind}" + ("" if kind == "f64" and t.target != "gfx1200" else "_e64")
        for text, factor in (("mul:2", two), ("mul:4", four), ("div:2", half)):
            t.text(f"{name} {text}", f"{name} {d}, {a}, {b} {text}", f"{kind} {kind}", max(f.width, 32),
                   cut(lambda x, y, f=f, k=factor: f.mul(f.mul(x, y), k), name.removesuffix("_e64")))  # fmt: skip
        t.text(f"{name} all", f"{name} {d}, -|{a}|, -{b} clamp", f"{kind} {kind}", max(f.width, 32),
               cut(lambda x, y, f=f: saturate(f, f.mul(x | f.sign, y ^ f.sign)), name.removesuffix("_e64")))  # fmt: skip
        rcp = f"v_rcp_{kind}_e64"
        t.text(f"{rcp} all", f"{rcp} {d}, -{a} clamp", kind, max(f.width, 32),
               cut(lambda x, f=f: saturate(f, FUNCTIONS["rcp"](f, x ^ f.sign)), f"v_rcp_{kind}"))  # fmt: skip
    for which in range(8):
        select = [which >> k & 1 for k in range(3)]
        for high in (0, 1):
            bits = ",".join(map(str, [*select, high]))

            def shown(a: int, b: int, c: int, s: list[int] = select, h: int = high) -> int:
                found = F16.fma(*(x >> 16 * k & M16 for x, k in zip((a, b, c), s, strict=True)))
                return PATTERN & M16 | found << 16 if h else PATTERN & ~M16 | found

            t.text(f"v_fma_f16 op_sel:[{bits}]", f"v_fma_f16 v8, v2, v4, v6 op_sel:[{bits}]", "h h h", 32, shown)
    t.text("v_pk_fma_f16 modifiers",
           "v_pk_fma_f16 v8, v2, v4, v6 op_sel:[1,0,1] op_sel_hi:[0,1,1] neg_lo:[1,0,0] neg_hi:[0,0,1] clamp", "h h h", 32,
           lambda a, b, c: saturate(F16, F16.fma(a >> 16 ^ 0x8000, b & M16, c >> 16))
           | saturate(F16, F16.fma(a & M16, b >> 16, c >> 16 ^ 0x8000)) << 16)  # fmt: skip


def moves(t: Table) -> None:
    t.text("v_swap_b32", "v_mov_b32_e32 v8, v2\nv_mov_b32_e32 v9, v4\nv_swap_b32 v8, v9", "u32 u32", 64,
           lambda a, b: b | a << 32)  # fmt: skip
    t.text("v_accvgpr", "v_accvgpr_write_b32 a1, v2\nv_accvgpr_mov_b32 a2, a1\nv_accvgpr_read_b32 v8, a2", "u32", 32,
           lambda a: a)  # fmt: skip
    for name in ("v_nop", "v_clrexcp", "v_pipeflush"):
        t.text(name, f"v_mov_b32_e32 v8, v2\n{name}", "u32", 32, lambda a: a)


def vector_suite(target: str) -> dict[str, Vector]:
    """The instructions of a target."""
    from loom_target_amdgpu.isa.tables import family_table

    rows = family_table({"gfx942": "gfx942", "gfx1100": "gfx11", "gfx1200": "gfx12"}[target])
    t = Table(target, frozenset(rows.row(n).mnemonic for n in range(len(rows))))
    parts_of_the_suite = (integers, carries, floats, pairs_of_words, conversions, divisions, dots, mixed, modifiers, moves)
    for part in parts_of_the_suite:
        part(t)
    return t.entries


__all__ = ["M64", "Vector", "vector_suite"]
