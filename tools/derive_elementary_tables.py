"""The constants of ``loom.transforms.elementary``: polynomials near the best ones, and numbers in two or three parts.

Needs mpmath. Polynomials interpolate at Chebyshev nodes with 60 digits and are then rounded to f64; the largest error
of each, relative to what it becomes a part of, stands beside it. ``--check`` tells whether the file is current.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import mpmath
from mpmath import mpf

OUTPUT: Final = Path(__file__).resolve().parents[1] / "loom-core/src/loom/transforms/elementary/tables.py"
DIGITS: Final = 60
WORDS_OF_TWO_OVER_PI: Final = 20
"""Words of 64 bits that arguments up to 2^1024 can need: 971 + 192 bits, and those of the word that is cut."""

HEADER: Final = '''"""Constants of the elementary functions. Written by tools/derive_elementary_tables.py; do not edit.

Of polynomials the coefficient of the lowest power comes first. Errors are relative to the function's result and without
those of evaluating in f64.
"""

from __future__ import annotations

from typing import Final
'''

Real = Any
"""A number of mpmath."""


def parts(value: Real, *bits: int) -> list[float]:
    """Numbers of at most so many bits whose sum is a value, the largest first."""
    found = []
    for count in bits:
        with mpmath.workprec(count):
            part = +value
        found.append(float(part))
        value -= part
    return found


def fitted(function: Callable[[Real], Real], low: Real, high: Real, count: int) -> list[float]:
    """The coefficients of a polynomial near the best one on an interval."""
    found = mpmath.chebyfit(function, [low, high], count)
    return [float(c) for c in reversed(found)]


def worst(error: Callable[[Real], Real], low: Real, high: Real) -> float:
    """The largest magnitude of an error on an interval, by samples."""
    steps = 400
    return float(max(abs(error(low + (high - low) * mpf(n) / steps)) for n in range(1, steps + 1)))


def value_of(coefficients: list[float], x: Real) -> Real:
    """A polynomial without rounding."""
    return mpmath.polyval([mpf(c) for c in reversed(coefficients)], x)


def exponential() -> tuple[list[float], float]:
    """(e^r - 1 - r - r^2 / 2) / r^3 for |r| up to half of ln 2."""
    end = mpmath.log(2) / 2 * mpf("1.001")
    table = fitted(lambda r: mpmath.nsum(lambda n: r**n / mpmath.factorial(n + 3), [0, 30]), -end, end, 10)
    error = worst(lambda r: (1 + r + r * r / 2 + r**3 * value_of(table, r)) / mpmath.exp(r) - 1, -end, end)
    return table, error


def logarithm() -> tuple[list[float], float]:
    """(ln((1 + s) / (1 - s)) - 2 s - 2 s^3 / 3) / s^5 in powers of s^2, where the logarithm is up to ln(2) / 2."""
    end = ((mpmath.sqrt(2) - 1) / (mpmath.sqrt(2) + 1)) ** 2 * mpf("1.001")
    table = fitted(lambda z: mpmath.nsum(lambda n: 2 * z**n / (2 * n + 5), [0, 40]), mpf(0), end, 8)

    def error(z: Real) -> Real:
        s = mpmath.sqrt(z)
        return (2 * s + 2 * s**3 / 3 + s**5 * value_of(table, z)) / mpmath.log((1 + s) / (1 - s)) - 1

    return table, worst(error, mpf(0), end)


def alternating(first: int, divide: Callable[[int], Real]) -> Callable[[Real], Real]:
    """The series of terms (-1)^n z^(n - first) / divide(n), from n = first on."""
    return lambda z: mpmath.nsum(lambda n: (-1) ** int(n) * z ** (n - first) / divide(int(n)), [first, first + 60])


def sine() -> tuple[list[float], float]:
    """(sin r - r) / r^3 in powers of r^2, for |r| up to a little more than pi/4."""
    end = (mpmath.pi / 4) ** 2 * mpf("1.01")
    table = fitted(alternating(1, lambda n: mpmath.factorial(2 * n + 1)), mpf(0), end, 7)
    return table, worst(
        lambda z: (1 + z * value_of(table, z)) * mpmath.sqrt(z) / mpmath.sin(mpmath.sqrt(z)) - 1, 0, end
    )


def cosine() -> tuple[list[float], float]:
    """(cos r - 1 + r^2 / 2) / r^4 in powers of r^2, for |r| up to a little more than pi/4."""
    end = (mpmath.pi / 4) ** 2 * mpf("1.01")
    table = fitted(alternating(2, lambda n: mpmath.factorial(2 * n)), mpf(0), end, 7)
    return table, worst(lambda z: (1 - z / 2 + z * z * value_of(table, z)) / mpmath.cos(mpmath.sqrt(z)) - 1, 0, end)


def arc_tangent() -> tuple[list[float], float]:
    """(atan t - t) / t^3 in powers of t^2, for |t| up to 1/3."""
    end = mpf("0.1112")
    table = fitted(alternating(1, lambda n: 2 * n + 1), mpf(0), end, 12)
    return table, worst(
        lambda z: (1 + z * value_of(table, z)) * mpmath.sqrt(z) / mpmath.atan(mpmath.sqrt(z)) - 1, 0, end
    )


def hyperbolic_sine() -> tuple[list[float], float]:
    """(sinh x - x) / x^3 in powers of x^2, for |x| up to 1."""
    end = mpf(1)
    table = fitted(lambda z: mpmath.nsum(lambda n: z**n / mpmath.factorial(2 * n + 3), [0, 30]), mpf(0), end, 9)
    return table, worst(
        lambda z: (1 + z * value_of(table, z)) * mpmath.sqrt(z) / mpmath.sinh(mpmath.sqrt(z)) - 1, 0, end
    )


def error_function() -> tuple[list[float], float]:
    """(erf(x) / x - 2 / sqrt(pi)) / x^2 in powers of x^2, for |x| up to 1."""
    scale = 2 / mpmath.sqrt(mpmath.pi)
    series = alternating(1, lambda n: mpmath.factorial(n) * (2 * n + 1))
    table = fitted(lambda z: scale * series(z), mpf(0), mpf(1), 15)

    def error(z: Real) -> Real:
        x = mpmath.sqrt(z)
        return x * (scale + z * value_of(table, z)) / mpmath.erf(x) - 1

    return table, worst(error, mpf(0), mpf(1))


def complementary() -> tuple[list[float], float]:
    """(1 + 2 x) e^(x^2) erfc(x) as a polynomial of (x - 4) / (x + 4), for x from 0.4 to 28."""

    def of(t: Real) -> Real:
        x = 4 * (1 + t) / (1 - t)
        return (1 + 2 * x) * mpmath.exp(x * x) * mpmath.erfc(x)

    low, high = (mpf("0.4") - 4) / mpf("4.4"), mpf(24) / mpf(32)
    table = fitted(of, low, high, 24)
    return table, worst(lambda t: value_of(table, t) / of(t) - 1, low, high)


def cube_root() -> tuple[list[float], float]:
    """The cube root for 1 <= m <= 2, to begin with."""
    table = fitted(lambda m: mpmath.cbrt(m), mpf(1), mpf(2), 5)
    return table, worst(lambda m: value_of(table, m) / mpmath.cbrt(m) - 1, mpf(1), mpf(2))


POLYNOMIALS: Final = {
    "EXP": exponential,
    "LOG": logarithm,
    "SIN": sine,
    "COS": cosine,
    "ATAN": arc_tangent,
    "SINH": hyperbolic_sine,
    "ERF": error_function,
    "ERFC": complementary,
    "CBRT": cube_root,
}
CONSTANTS: Final[dict[str, tuple[str, Callable[[], Real], tuple[int, ...]]]] = {
    "LN2": ("ln 2", lambda: mpmath.log(2), (53, 53)),
    "LN2_SHORT": ("ln 2; products of the first part with 11 bits are exact", lambda: mpmath.log(2), (42, 53)),
    "INVERSE_LN2": ("1 / ln 2", lambda: 1 / mpmath.log(2), (53, 53)),
    "INVERSE_LN10": ("1 / ln 10", lambda: 1 / mpmath.log(10), (53, 53)),
    "LOG10_2": ("ln 2 / ln 10", lambda: mpmath.log(2) / mpmath.log(10), (53, 53)),
    "HALF_PI": ("pi / 2", lambda: mpmath.pi / 2, (53, 53, 53)),
    "PI": ("pi", lambda: +mpmath.pi, (53, 53)),
    "TWO_PI": ("2 pi", lambda: 2 * mpmath.pi, (53, 53)),
    "ATAN_HALF": ("atan(1/2)", lambda: mpmath.atan(mpf(1) / 2), (53, 53)),
    "TWO_THIRDS": ("2 / 3", lambda: mpf(2) / 3, (53, 53)),
    "ERF_SCALE": ("2 / sqrt(pi)", lambda: 2 / mpmath.sqrt(mpmath.pi), (53, 53)),
    "ROOT_HALF": ("sqrt(1/2)", lambda: mpmath.sqrt(mpf(1) / 2), (53, 53)),
    "GELU_SCALE": ("2 sqrt(2 / pi)", lambda: 2 * mpmath.sqrt(2 / mpmath.pi), (53, 53)),
    "GELU_CUBE": ("0.044715", lambda: mpf("0.044715"), (53, 53)),
}


def written() -> str:
    """The text of the tables."""
    mpmath.mp.dps = DIGITS
    lines = [HEADER]
    for name, (meaning, value, bits) in CONSTANTS.items():
        lines.append(f"{name}: Final = (")
        lines += [f'    float.fromhex("{part.hex()}"),' for part in parts(value(), *bits)]
        lines += [")", f'"""{meaning} as a sum."""']
    for name, derive in POLYNOMIALS.items():
        table, error = derive()
        lines.append(f"{name}: Final = (")
        lines += [f'    float.fromhex("{c.hex()}"),' for c in table]
        lines += [")", f'"""{derive.__doc__}', "", f"Error: {error:.1e}.", '"""']
    mpmath.mp.prec = 64 * WORDS_OF_TWO_OVER_PI + 64
    bits_ = int(mpmath.floor(2 / mpmath.pi * mpf(2) ** (64 * WORDS_OF_TWO_OVER_PI)))
    words = [bits_ >> 64 * (WORDS_OF_TWO_OVER_PI - 1 - n) & (1 << 64) - 1 for n in range(WORDS_OF_TWO_OVER_PI)]
    lines.append("TWO_OVER_PI: Final = (")
    lines += [f"    0x{word:016X}," for word in words]
    lines += [")", '"""The bits of 2 / pi behind the point, in words of 64."""', ""]
    return "\n".join(lines)


def main() -> int:
    """Write the file, or compare it; returns 1 where it is not current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    args = parser.parse_args()
    text = written()
    if args.check:
        return int(OUTPUT.read_text() != text)
    OUTPUT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
