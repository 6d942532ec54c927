"""An independent model of conversions between 8-bit floats and f32, on Python integers and exact fractions."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from amdgpu_model import F32, Model

_M16 = 0xFFFF
_PATTERN = 0xDEADBEEF
"""What the destination registers hold before."""


@cache
def _value(code: int, kind: str, fnuz: bool) -> Fraction | None:
    """The value of a code; None for NaN. Infinity is not a fraction: see `_is_infinite`."""
    mantissa = 3 if kind == "fp8" else 2
    bias = {("fp8", False): 7, ("fp8", True): 8, ("bf8", False): 15, ("bf8", True): 16}[kind, fnuz]
    exponent, fraction = (code & 0x7F) >> mantissa, code & (1 << mantissa) - 1
    if code == 0x80 and fnuz:
        return None
    if not fnuz and (code & 0x7F == 0x7F if kind == "fp8" else exponent == 31):
        return None
    significand = Fraction(fraction, 1 << mantissa) + (exponent > 0)
    value = significand * Fraction(2) ** (max(exponent, 1) - bias)
    return -value if code & 0x80 else value


def _is_infinite(code: int, kind: str, fnuz: bool) -> bool:
    return kind == "bf8" and not fnuz and code & 0x7F == 0x7C


def widened(code: int, kind: str, fnuz: bool) -> int:
    """The bits of the f32; gfx12, whose formats are the OCP's, makes a negative NaN."""
    if _is_infinite(code, kind, fnuz):
        return F32.inf | (F32.sign if code & 0x80 else 0)
    value = _value(code, kind, fnuz)
    if value is None:
        return F32.nan if fnuz else F32.nan | F32.sign
    return F32.round(value, code & 0x80)


def narrowed(x: int, kind: str, fnuz: bool) -> int:
    """The code nearest to an f32, ties to the even code; NaN (or infinity, if there is one) beyond the range."""
    nan = 0x80 if fnuz else 0x7F
    sign = 0x80 if x & F32.sign else 0
    if F32.is_nan(x):
        return sign | nan if fnuz else {"fp8": 0xFF, "bf8": 0xFE}[kind]
    overflow = 0x7C if kind == "bf8" and not fnuz else nan
    codes = [c for c in range(128) if _value(c, kind, fnuz) is not None]
    largest = _value(codes[-1], kind, fnuz)
    before = _value(codes[-2], kind, fnuz)
    assert largest is not None
    assert before is not None
    if F32.is_inf(x):
        return sign | overflow
    value = abs(F32.value(x))
    limit = largest + (largest - before) / 2
    if value > limit or (value == limit and codes[-1] & 1):
        return sign | overflow
    best = min(codes, key=lambda c: (abs((_value(c, kind, fnuz) or Fraction(0)) - value), c & 1))
    return 0 if best == 0 and fnuz else sign | best


def stochastic(x: int, seed: int, kind: str) -> int:
    """The code of an OCP float that gfx12 rounds an f32 to: the seed, as a fraction of the last place kept, is added to
    what remains of the value when its place is that of the smallest normal number at least, and the sum is truncated.
    """
    sign = 0x80 if x & F32.sign else 0
    infinity = 0x7F if kind == "fp8" else 0x7C
    if F32.is_nan(x):
        return 0xFF if kind == "fp8" else 0xFE
    if F32.is_inf(x):
        return sign | infinity
    mantissa, smallest = (3, -6) if kind == "fp8" else (2, -14)
    value = abs(F32.value(x))
    exponent = smallest
    while value >= Fraction(2) ** (exponent + 1):
        exponent += 1
    last, finest = Fraction(2) ** (exponent - mantissa), Fraction(2) ** (exponent - 23)
    total = value // finest * finest + (seed >> 9 + mantissa) * finest
    rounded = total // last * last
    fitting = [c for c in range(infinity) if _value(c, kind, False) == rounded]
    return sign | (fitting[0] if fitting else infinity)


def stochastic_suite() -> dict[str, tuple[str, Model]]:
    """The conversions of gfx12 that a seed rounds, into single bytes of a register."""
    suite: dict[str, tuple[str, Model]] = {}
    for kind in ("fp8", "bf8"):
        for byte, source, flip, clear in ((0, "v2", 0, 0), (2, "-v2", F32.sign, 0), (3, "|v2|", 0, F32.sign)):

            def model(a: int, b: int, k: str = kind, s: int = 8 * byte, f: int = flip, c: int = clear) -> int:
                return _PATTERN & ~(0xFF << s) | stochastic((a & ~c) ^ f, b, k) << s

            select = f" byte_sel:{byte}" if byte else ""
            suite[f"sr_{kind}_{byte}"] = (f"v_cvt_sr_{kind}_f32 v8, {source}, v4{select}", ((32, 32), 32, model))
    return suite


def f8_suite(fnuz: bool, select: str, word: str, suffix: str) -> dict[str, tuple[str, Model]]:
    """Instructions on v2 and v4 with their models; `select` and `word` choose a byte or half of the source."""
    suite: dict[str, tuple[str, Model]] = {}
    for kind in ("fp8", "bf8"):

        def pair(a: int, b: int, k: str = kind) -> int:
            return narrowed(a, k, fnuz) | narrowed(b, k, fnuz) << 8

        for byte in (0, 2, 3):
            suite[f"f32_{kind}_{byte}"] = (
                f"v_cvt_f32_{kind}{suffix} v8, v2" + select.format(byte),
                ((32,), 32, lambda a, k=kind, s=8 * byte: widened(a >> s & 255, k, fnuz)),
            )
        suite[f"f32_{kind}_short"] = (
            f"v_cvt_f32_{kind}_e32 v8, v2", ((32,), 32, lambda a, k=kind: widened(a & 255, k, fnuz)),
        )  # fmt: skip
        for half in (0, 1):
            suite[f"pk_f32_{kind}_{half}"] = (
                f"v_cvt_pk_f32_{kind}{suffix} v[8:9], v2" + word.format(half),
                (
                    (32,),
                    64,
                    lambda a, k=kind, s=16 * half: (
                        widened(a >> s & 255, k, fnuz) | widened(a >> s + 8 & 255, k, fnuz) << 32
                    ),
                ),
            )
        suite[f"pk_{kind}_low"] = (
            f"v_cvt_pk_{kind}_f32 v8, v2, -v4",
            ((32, 32), 32, lambda a, b, p=pair: _PATTERN & ~_M16 | p(a, b ^ F32.sign)),
        )
        suite[f"pk_{kind}_high"] = (
            f"v_cvt_pk_{kind}_f32 v8, |v2|, v4 op_sel:[0,0,1]",
            ((32, 32), 32, lambda a, b, p=pair: _PATTERN & _M16 | p(a & ~F32.sign, b) << 16),
        )
    return suite
