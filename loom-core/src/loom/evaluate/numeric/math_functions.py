"""Elementary functions: exponentials, logarithms, powers, trigonometry, the error function and activations.

Precision. Every function is computed in float64 by the C library or NumPy, and rounded once to the format.
For formats up to f32 the intermediate error is below 2**-46 relative, so that a result differs from the
correctly rounded one only when the exact value lies that close to the middle of two neighbours: its error is
below 0.5001 units in the last place. For f64 the error is at most 4 units in the last place (8 for the
compositions: `logisticf`, `siluf`, `geluf`, `rsqrtf`, the hyperbolic inverses, and the functions of turns).
Formats up to f32 therefore agree between machines except in such near-middle cases; f64 results may differ in
the last places between C libraries.

Special values follow C23 annex F and IEEE 754-2019 section 9.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from loom.evaluate.numeric import floats
from loom.evaluate.numeric.formats import Array, Kind
from loom.evaluate.numeric.operation import Function, NumericOp, table
from loom.evaluate.numeric.outcome import Call

Real = Callable[..., Any]


def _elementwise(function: Callable[[float], float]) -> Real:
    """A function of the math module (which NumPy lacks) on float64 arrays."""
    lifted = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(lifted(x), dtype=np.float64)


erf = _elementwise(math.erf)
erfc = _elementwise(math.erfc)


def _rsqrt(x: Array) -> Any:
    return 1.0 / np.sqrt(x)


def _quarter(x: Array) -> tuple[Array, Array]:
    """x turns as (quarter, rest): x = quarter / 4 + rest modulo 1, exactly, with |rest| <= 1/8."""
    part = np.fmod(x, 1.0)
    quarter = np.rint(part * 4.0)
    return quarter, part - quarter * 0.25


def _turn(x: Array, advance: int) -> Any:
    """The sine of x turns after `advance` quarter turns; exact at quarter turns."""
    quarter, rest = _quarter(x)
    angle = rest * (2.0 * math.pi)
    sine, cosine = np.sin(angle), np.cos(angle)
    phase = np.mod(quarter + advance, 4.0)
    # One value per quarter: sin, cos, -sin, -cos of the rest.
    value = np.where(phase % 2.0 == 0, sine, cosine)
    return np.where(phase >= 2.0, -value, value)


def _sin_turns(x: Array) -> Any:
    value = _turn(x, 0)
    return np.where(value == 0, np.copysign(0.0, x), value)  # sinPi(+-n) = +-0


def _cos_turns(x: Array) -> Any:
    return _turn(x, 1) + 0.0  # cosPi(n + 1/2) = +0


def _logistic(x: Array) -> Any:
    # exp of a negative number only, so that neither side overflows.
    decayed = np.exp(-np.abs(x))
    return np.where(x < 0, decayed, 1.0) / (1.0 + decayed)


def _silu(x: Array) -> Any:
    return x * _logistic(x)


def _softplus(x: Array) -> Any:
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0.0)


def _gelu_erf(x: Array) -> Any:
    # 1 + erf(t) = erfc(-t), which keeps its precision where erf approaches -1.
    return 0.5 * x * erfc(-x / math.sqrt(2.0))


def _gelu_tanh(x: Array) -> Any:
    # (1 + tanh(t)) / 2 = logistic(2t), for the same reason.
    return x * _logistic(2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x))


def _power(x: Array, y: Array) -> Any:
    value = np.power(x, y)
    # For an exponent that is 0.5 in all lanes NumPy takes the root, which differs for minus infinity and minus zero.
    value = np.where((y == 0.5) & (x == 0.0), 0.0, value)
    return np.where((y == 0.5) & (x == -np.inf), np.inf, value)


#: Variants of `geluf` without a scale.
_GELU: Mapping[str, Real] = {"erf": _gelu_erf, "tanh": _gelu_tanh}


def _geluf(call: Call, x: Array, variant: str, scale: float | None = None, flags: int = 0) -> Array:
    if (scale is None) == (variant == "logistic"):
        raise TypeError("geluf takes a scale exactly for the variant logistic")
    real = floats.to_f64(call.format, x)
    value = _GELU[variant](real) if scale is None else real * _logistic(scale * real)
    return floats.computed(call.format, value)


def _lifted(function: Real) -> Function:
    def apply(call: Call, *operands: Array, flags: int = 0) -> Array:
        return floats.computed(call.format, function(*(floats.to_f64(call.format, operand) for operand in operands)))

    return apply


_UNARY_FUNCTIONS: Mapping[str, Real] = {
    "expf": np.exp,
    "exp2f": np.exp2,
    "expm1f": np.expm1,
    "logf": np.log,
    "log2f": np.log2,
    "log10f": np.log10,
    "log1pf": np.log1p,
    "rsqrtf": _rsqrt,
    "cbrtf": np.cbrt,
    "sinf": np.sin,
    "cosf": np.cos,
    "tanf": np.tan,
    "asinf": np.arcsin,
    "acosf": np.arccos,
    "atanf": np.arctan,
    "sinturnsf": _sin_turns,
    "costurnsf": _cos_turns,
    "sinhf": np.sinh,
    "coshf": np.cosh,
    "tanhf": np.tanh,
    "asinhf": np.arcsinh,
    "acoshf": np.arccosh,
    "atanhf": np.arctanh,
    "erff": erf,
    "erfcf": erfc,
    "logisticf": _logistic,
    "siluf": _silu,
    "softplusf": _softplus,
}

_BINARY_FUNCTIONS: Mapping[str, Real] = {"powf": _power, "atan2f": np.arctan2}

_FLAGS = ("flags",)

OPERATIONS = table(
    (NumericOp(name, (Kind.FLOAT,), _lifted(function), optional=_FLAGS) for name, function in _UNARY_FUNCTIONS.items()),
    (
        NumericOp(name, (Kind.FLOAT, Kind.FLOAT), _lifted(function), optional=_FLAGS)
        for name, function in _BINARY_FUNCTIONS.items()
    ),
    NumericOp("geluf", (Kind.FLOAT,), _geluf, required=("variant",), optional=("scale", "flags")),
)
