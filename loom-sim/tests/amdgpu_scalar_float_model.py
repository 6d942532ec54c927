"""An independent model of the scalar float instructions of gfx11.5 and gfx12, on exact rationals.

Functions take 32-bit words and return the result's bits, or for comparisons SCC. The third word is what the destination
holds before, for instructions that add to it.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import attrs
from amdgpu_model import F16, F32, M16, M32, Float, ceil, floor, signed, trunc

LITERAL = 0xC0A00000
"""The constant -5 of `s_fmaak_f32` and `s_fmamk_f32`."""


@attrs.frozen
class FloatModel:
    """Text after `s_` (`{d}`, `{a}`, `{b}`: registers), result format (None: an integer or SCC), meaning."""

    text: str
    result: Float | None
    function: Callable[[int, int, int], int]
    compares: bool = False
    only: str = ""


def nearest_even(v: Fraction) -> int:
    """An integer, ties to even; Python's own rule for rationals."""
    return round(v)


def _between(f: Float, x: int, g: Float) -> int:
    """Conversion between formats."""
    sign = g.sign if x & f.sign else 0
    if f.is_nan(x):
        return g.nan
    return sign | g.inf if f.is_inf(x) else g.round(f.value(x), sign)


def _toward_zero(x: int) -> int:
    """f32 to f16 rounded toward zero; numbers beyond the range become the largest one."""
    found = _between(F32, x, F16)
    if F32.is_nan(x) or F32.is_inf(x):
        return found
    if F16.is_inf(found):
        return found - 1
    return found - 1 if abs(F16.value(found)) > abs(F32.value(x)) else found


def _minimum(f: Float, a: int, b: int, largest: bool) -> int:
    """IEEE 754-2019 minimum and maximum: NaN wins, and -0 is below +0."""
    found = f.first_nan(a, b)
    return f.pick(a, b, largest) if found is None else found


def _minimum_number(f: Float, a: int, b: int, largest: bool) -> int:
    """IEEE 754-2019 minimumNumber and maximumNumber: a number wins against any NaN, signalling ones included."""
    if f.is_nan(a) or f.is_nan(b):
        return b if not f.is_nan(b) else a if not f.is_nan(a) else a | f.quiet
    return f.pick(a, b, largest)


_ORDERS: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "lg": lambda a, b: a != b, "ge": lambda a, b: a >= b,
}  # fmt: skip
_UNORDERED = {"nge": "lt", "nlg": "eq", "ngt": "le", "nle": "gt", "neq": "lg", "nlt": "ge"}


def _number(f: Float, x: int) -> Fraction:
    if f.is_inf(x):
        return Fraction(-(1 << 2000) if x & f.sign else 1 << 2000)
    return f.value(x)


def _compare(f: Float, name: str, a: int, b: int) -> int:
    unordered = f.is_nan(a) or f.is_nan(b)
    if name in ("o", "u"):
        return int(unordered == (name == "u"))
    if unordered:
        return int(name in _UNORDERED)
    return int(_ORDERS[_UNORDERED.get(name, name)](_number(f, a), _number(f, b)))


MODELS: list[FloatModel] = []
for _f, _t, _mask in ((F32, "f32", M32), (F16, "f16", M16)):
    for _name, _function in (
        ("add", lambda a, b, c, f=_f: f.add(a, b)),
        ("sub", lambda a, b, c, f=_f: f.add(a, b ^ f.sign)),
        ("mul", lambda a, b, c, f=_f: f.mul(a, b)),
        ("fmac", lambda a, b, c, f=_f: f.fma(a, b, c)),
    ):
        MODELS.append(
            FloatModel(
                f"{_name}_{_t} {{d}}, {{a}}, {{b}}",
                _f,
                lambda a, b, c, g=_function, m=_mask: g(a & m, b & m, c & m),
            )
        )
    for _largest, _name in ((False, "min"), (True, "max")):
        for _suffix, _only, _rule in (("", "gfx1150", Float.pick), ("_num", "gfx1200", _minimum_number)):
            MODELS.append(
                FloatModel(
                    f"{_name}{_suffix}_{_t} {{d}}, {{a}}, {{b}}",
                    _f,
                    lambda a, b, c, f=_f, m=_mask, g=_largest, r=_rule: r(f, a & m, b & m, g),
                    only=_only,
                )
            )
        MODELS.append(
            FloatModel(
                f"{_name}imum_{_t} {{d}}, {{a}}, {{b}}",
                _f,
                lambda a, b, c, f=_f, m=_mask, g=_largest: _minimum(f, a & m, b & m, g),
                only="gfx1200",
            )
        )
    for _name, _how in (("ceil", ceil), ("floor", floor), ("trunc", trunc), ("rndne", nearest_even)):
        MODELS.append(
            FloatModel(f"{_name}_{_t} {{d}}, {{a}}", _f, lambda a, b, c, f=_f, m=_mask, h=_how: f.integral(a & m, h))
        )
    for _name in ("o", "u", *_ORDERS, *_UNORDERED):
        MODELS.append(
            FloatModel(
                f"cmp_{_name}_{_t} {{a}}, {{b}}",
                None,
                lambda a, b, c, f=_f, m=_mask, n=_name: _compare(f, n, a & m, b & m),
                compares=True,
            )
        )

MODELS += [
    FloatModel(f"fmaak_f32 {{d}}, {{a}}, {{b}}, {LITERAL:#x}", F32, lambda a, b, c: F32.fma(a, b, LITERAL)),
    FloatModel(f"fmamk_f32 {{d}}, {{a}}, {LITERAL:#x}, {{b}}", F32, lambda a, b, c: F32.fma(a, LITERAL, b)),
    FloatModel("cvt_f32_i32 {d}, {a}", F32, lambda a, b, c: F32.round(Fraction(signed(a)))),
    FloatModel("cvt_f32_u32 {d}, {a}", F32, lambda a, b, c: F32.round(Fraction(a))),
    FloatModel("cvt_i32_f32 {d}, {a}", None, lambda a, b, c: F32.to_int(a, -(1 << 31), (1 << 31) - 1) & M32),
    FloatModel("cvt_u32_f32 {d}, {a}", None, lambda a, b, c: F32.to_int(a, 0, M32)),
    FloatModel("cvt_f16_f32 {d}, {a}", F16, lambda a, b, c: _between(F32, a, F16)),
    FloatModel("cvt_f32_f16 {d}, {a}", F32, lambda a, b, c: _between(F16, a & M16, F32)),
    FloatModel("cvt_hi_f32_f16 {d}, {a}", F32, lambda a, b, c: _between(F16, a >> 16, F32)),
    FloatModel("cvt_pk_rtz_f16_f32 {d}, {a}, {b}", None, lambda a, b, c: _toward_zero(a) | _toward_zero(b) << 16),
]
