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


def _of_format(f: Float, suffix: str) -> list[FloatModel]:
    """The instructions that exist for f32 and f16 alike."""
    mask = (1 << f.width) - 1
    models: list[FloatModel] = []

    def two(name: str, rule: Callable[[int, int], int], only: str = "") -> None:
        text = f"{name}_{suffix} {{d}}, {{a}}, {{b}}"
        models.append(FloatModel(text, f, lambda a, b, c: rule(a & mask, b & mask), only=only))

    def picked(rule: Callable[[Float, int, int, bool], int], largest: bool) -> Callable[[int, int], int]:
        return lambda a, b: rule(f, a, b, largest)

    def integral(name: str, how: Callable[[Fraction], int]) -> None:
        models.append(FloatModel(f"{name}_{suffix} {{d}}, {{a}}", f, lambda a, b, c: f.integral(a & mask, how)))

    def compared(name: str) -> None:
        text = f"cmp_{name}_{suffix} {{a}}, {{b}}"
        models.append(FloatModel(text, None, lambda a, b, c: _compare(f, name, a & mask, b & mask), compares=True))

    two("add", f.add)
    two("sub", lambda a, b: f.add(a, b ^ f.sign))
    two("mul", f.mul)
    text = f"fmac_{suffix} {{d}}, {{a}}, {{b}}"
    models.append(FloatModel(text, f, lambda a, b, c: f.fma(a & mask, b & mask, c & mask)))
    for largest, name in ((False, "min"), (True, "max")):
        two(name, picked(Float.pick, largest), "gfx1150")
        two(f"{name}_num", picked(_minimum_number, largest), "gfx1200")
        two(f"{name}imum", picked(_minimum, largest), "gfx1200")
    for name, how in (("ceil", ceil), ("floor", floor), ("trunc", trunc), ("rndne", nearest_even)):
        integral(name, how)
    for name in ("o", "u", *_ORDERS, *_UNORDERED):
        compared(name)
    return models


MODELS = _of_format(F32, "f32") + _of_format(F16, "f16")
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
