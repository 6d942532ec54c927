"""Elementary functions against 100-digit decimal arithmetic, and their special values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from loom.evaluate.numeric import FORMATS, OPERATIONS
from loom.evaluate.numeric.formats import to_bits

DIGITS = 100
Real = Decimal


@pytest.fixture(autouse=True)
def _precision() -> Any:
    with localcontext() as context:
        context.prec = DIGITS
        yield


@cache
def pi() -> Real:
    """Machin: pi / 4 = 4 arctan(1/5) - arctan(1/239)."""
    return 4 * (4 * arctan_series(Real(1) / 5) - arctan_series(Real(1) / 239))


def series(first: Real, ratio: Callable[[int], Real]) -> Real:
    """The sum of terms t[n] = t[n-1] * ratio(n) until they no longer count."""
    total = term = first
    n = 1
    while n < 4 or (term != 0 and abs(term) > abs(total).scaleb(-DIGITS)):
        term = term * ratio(n)
        total += term
        n += 1
    return total


def arctan_series(x: Real) -> Real:
    total, power, n = Real(0), x, 1
    while power != 0 and abs(power) > Real(10) ** -(DIGITS + 400):
        total += power / n
        power, n = -power * x * x, n + 2
        if abs(power) < abs(total).scaleb(-DIGITS):
            break
    return total


def sine(x: Real) -> Real:
    with localcontext() as context:
        context.prec = DIGITS + 60  # for the reduction of large arguments
        x = x - 2 * pi_wide() * (x / (2 * pi_wide())).to_integral_value()
        return +series(x, lambda n: -x * x / ((2 * n) * (2 * n + 1)))


@cache
def pi_wide() -> Real:
    with localcontext() as context:
        context.prec = DIGITS + 60
        fifth, other = Real(1) / 5, Real(1) / 239

        def arctan(x: Real) -> Real:
            return sum(((-1) ** k * x ** (2 * k + 1) / (2 * k + 1) for k in range(120)), Real(0))

        return 4 * (4 * arctan(fifth) - arctan(other))


def cosine(x: Real) -> Real:
    with localcontext() as context:
        context.prec = DIGITS + 60
        return sine(x + pi_wide() / 2)


def arctan(x: Real) -> Real:
    # Halving the angle four times brings the argument of the series below 1/10.
    for _ in range(4):
        x = x / (1 + (1 + x * x).sqrt())
    return 16 * arctan_series(x)


def arcsin(x: Real) -> Real:
    return pi() / 2 * (1 if x > 0 else -1) if abs(x) == 1 else arctan(x / (1 - x * x).sqrt())


def erf(x: Real) -> Real:
    factor = 2 / pi().sqrt()
    with localcontext() as context:
        context.prec = DIGITS + 80  # the terms of the alternating sum grow up to e^(x^2)
        total, power, n = Real(0), x, 0
        while abs(power) > Real(10) ** -(DIGITS + 60) or n < 4:
            total += power / (2 * n + 1)
            n += 1
            power = -power * x * x / n
    return factor * total


def logistic(x: Real) -> Real:
    return 1 / (1 + (-x).exp())


def cube_root(x: Real) -> Real:
    return (abs(x).ln() / 3).exp().copy_sign(x) if x else x


def sinh(x: Real) -> Real:
    return (x.exp() - (-x).exp()) / 2


def cosh(x: Real) -> Real:
    return (x.exp() + (-x).exp()) / 2


def asinh(x: Real) -> Real:
    return (abs(x) + (x * x + 1).sqrt()).ln().copy_sign(x) if x else x


WIDE = (-40.0, 40.0)
REFERENCES: dict[str, tuple[Callable[..., Real], tuple[float, float]]] = {
    "expf": (Real.exp, (-80.0, 80.0)),
    "exp2f": (lambda x: (x * Real(2).ln()).exp(), (-120.0, 120.0)),
    "expm1f": (lambda x: x.exp() - 1, WIDE),
    "logf": (Real.ln, (0.0, 100.0)),
    "log2f": (lambda x: x.ln() / Real(2).ln(), (0.0, 100.0)),
    "log10f": (Real.log10, (0.0, 100.0)),
    "log1pf": (lambda x: (1 + x).ln(), (-1.0, 100.0)),
    "rsqrtf": (lambda x: 1 / x.sqrt(), (0.0, 100.0)),
    "cbrtf": (cube_root, WIDE),
    "sinf": (sine, WIDE),
    "cosf": (cosine, WIDE),
    "tanf": (lambda x: sine(x) / cosine(x), WIDE),
    "asinf": (arcsin, (-1.0, 1.0)),
    "acosf": (lambda x: pi() / 2 - arcsin(x), (-1.0, 1.0)),
    "atanf": (arctan, WIDE),
    "sinturnsf": (lambda x: sine(2 * pi_wide() * x), WIDE),
    "costurnsf": (lambda x: cosine(2 * pi_wide() * x), WIDE),
    "sinhf": (sinh, WIDE),
    "coshf": (cosh, WIDE),
    "tanhf": (lambda x: sinh(x) / cosh(x), WIDE),
    "asinhf": (asinh, WIDE),
    "acoshf": (lambda x: (x + (x * x - 1).sqrt()).ln(), (1.0, 100.0)),
    "atanhf": (lambda x: ((1 + x) / (1 - x)).ln() / 2, (-1.0, 1.0)),
    "erff": (erf, (-6.0, 6.0)),
    "erfcf": (lambda x: 1 - erf(x), (-6.0, 8.0)),
    "logisticf": (logistic, WIDE),
    "siluf": (lambda x: x * logistic(x), WIDE),
    "softplusf": (lambda x: (1 + x.exp()).ln(), WIDE),
}


def samples(low: float, high: float, count: int, seed: int) -> list[float]:
    """Uniform f32 values in the open interval, and small ones of both signs where they are inside."""
    random = np.random.default_rng(seed)
    values = [float(np.float32(v)) for v in random.uniform(low, high, count)]
    values += [s * 2.0**-k for k in (1, 3, 7, 12, 20, 30) for s in (1.0, -1.0)]
    return [v for v in values if low < v < high and v != 0]


def unit_error(result: float, exact: Real, mantissa_bits: int, bias: int) -> float:
    """|result - exact| in units in the last place of a format at the exact value."""
    magnitude = abs(Fraction(exact))
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, 1 - bias) - mantissa_bits)
    return float(abs(Fraction(result) - Fraction(exact)) / unit)


def apply(operation: str, name: str, model: Any, columns: list[list[float]], **parameters: Any) -> list[float]:
    format = FORMATS[name]
    arrays = []
    for column in columns:
        patterns = np.asarray([model.from_float(v) for v in column])
        arrays.append(patterns.astype(to_bits(format, np.zeros(1, format.dtype)).dtype).view(format.dtype))
    outcome = OPERATIONS[operation].apply(arrays, format, **parameters)
    return [model.number(int(p)) for p in to_bits(format, outcome.value)]


def check(
    operation: str,
    name: str,
    model: Any,
    rows: Sequence[tuple[float, ...]],
    reference: Callable[..., Real],
    bound: float,
    **parameters: Any,
) -> None:
    rows = [tuple(model.number(model.from_float(v)) for v in row) for row in rows]
    rows = [row for row in rows if all(row)]  # a narrow format may have rounded a sample to zero
    results = apply(operation, name, model, [list(column) for column in zip(*rows, strict=True)], **parameters)
    for row, result in zip(rows, results, strict=True):
        exact = reference(*map(Real, row))
        if abs(exact) < Real(10) ** -80:  # a zero of the function, up to the error of the reference
            assert result == 0, (row, result)
            continue
        if abs(exact) >= Real(2) ** (model.bias + 1):
            assert result == math.copysign(math.inf, exact), (row, result)
            continue
        error = unit_error(result, exact, model.mantissa_bits, model.bias)
        assert error <= bound, (row, result, error)


def bound_of(name: str) -> float:
    return {"f64": 8.0}.get(name, 0.5001)


@pytest.mark.parametrize("name", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize("operation", sorted(REFERENCES))
def test_unary_functions_keep_the_stated_bound(exact_formats: dict[str, Any], operation: str, name: str) -> None:
    reference, (low, high) = REFERENCES[operation]
    model = exact_formats[name]
    rows = [(v,) for v in samples(low, high, 40 if name in ("f32", "f64") else 8, seed=len(operation))]
    if operation in ("acosf", "asinf", "atanhf"):
        rows = [row for row in rows if abs(model.number(model.from_float(row[0]))) < 1]
    check(operation, name, model, rows, reference, bound_of(name))


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_large_arguments_are_reduced_exactly(exact_formats: dict[str, Any], name: str) -> None:
    rows = [(float(np.float32(v)),) for v in (1e5, 1.7e9, -3.3e15, 1e22, 2.5e30)]
    for operation in ("sinf", "cosf", "tanf"):
        check(operation, name, exact_formats[name], rows, REFERENCES[operation][0], bound_of(name))


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_binary_functions(exact_formats: dict[str, Any], name: str) -> None:
    bases, exponents = samples(0.0, 20.0, 40, 1), samples(-20.0, 20.0, 40, 2)
    model = exact_formats[name]
    check(
        "powf",
        name,
        model,
        list(zip(bases, exponents, strict=False)),
        lambda x, y: (y * x.ln()).exp(),
        bound_of(name),
    )
    check(
        "atan2f",
        name,
        model,
        list(zip(exponents, bases, strict=False)),
        lambda y, x: arctan(y / x),
        bound_of(name),
    )


GELU: dict[str, tuple[Callable[[Real], Real], dict[str, float]]] = {
    "erf": (lambda x: x * (1 + erf(x / Real(2).sqrt())) / 2, {}),
    "tanh": (
        lambda x: x * logistic(2 * (2 / pi()).sqrt() * (x + Real(0.044715) * x**3)),
        {},
    ),
    "logistic": (lambda x: x * logistic(Real(1.75) * x), {"scale": 1.75}),
}


@pytest.mark.parametrize("variant", sorted(GELU))
def test_gelu_variants(exact_formats: dict[str, Any], variant: str) -> None:
    reference, parameters = GELU[variant]
    rows = [(v,) for v in samples(-8.0, 8.0, 40, 3)]
    check("geluf", "f32", exact_formats["f32"], rows, reference, 0.5001, variant=variant, **parameters)


def test_gelu_scale_belongs_to_the_logistic_variant() -> None:
    x = np.zeros(1, np.float32)
    with pytest.raises(TypeError, match="scale"):
        OPERATIONS["geluf"].apply([x], FORMATS["f32"], variant="logistic")
    with pytest.raises(TypeError, match="scale"):
        OPERATIONS["geluf"].apply([x], FORMATS["f32"], variant="erf", scale=1.0)


INF, NAN = math.inf, math.nan
SPECIAL_VALUES: list[tuple[str, tuple[float, ...], float]] = [
    ("expf", (-INF,), 0.0),
    ("expf", (1000.0,), INF),
    ("logf", (0.0,), -INF),
    ("logf", (-1.0,), NAN),
    ("log1pf", (-1.0,), -INF),
    ("log1pf", (-0.0,), -0.0),
    ("expm1f", (-0.0,), -0.0),
    ("rsqrtf", (0.0,), INF),
    ("rsqrtf", (-0.0,), -INF),
    ("rsqrtf", (INF,), 0.0),
    ("rsqrtf", (-1.0,), NAN),
    ("cbrtf", (-8.0,), -2.0),
    ("sinf", (INF,), NAN),
    ("sinf", (-0.0,), -0.0),
    ("asinf", (2.0,), NAN),
    ("atanhf", (1.0,), INF),
    ("acoshf", (0.5,), NAN),
    ("tanhf", (-INF,), -1.0),
    ("erff", (INF,), 1.0),
    ("erfcf", (-INF,), 2.0),
    ("logisticf", (-INF,), 0.0),
    ("logisticf", (INF,), 1.0),
    ("logisticf", (0.0,), 0.5),
    ("softplusf", (-INF,), 0.0),
    ("softplusf", (INF,), INF),
    ("softplusf", (NAN,), NAN),
    ("siluf", (INF,), INF),
    ("powf", (NAN, 0.0), 1.0),
    ("powf", (-INF, 0.5), INF),
    ("powf", (-0.0, 0.5), 0.0),
    ("powf", (1.0, NAN), 1.0),
    ("powf", (-2.0, 3.0), -8.0),
    ("powf", (-2.0, 0.5), NAN),
    ("powf", (0.0, -1.0), INF),
    ("atan2f", (0.0, -0.0), math.pi),
    ("atan2f", (-0.0, 0.0), -0.0),
    ("atan2f", (INF, INF), math.pi / 4),
]


@pytest.mark.parametrize(("operation", "operands", "want"), SPECIAL_VALUES)
def test_special_values(operation: str, operands: tuple[float, ...], want: float) -> None:
    for name, dtype in (("f32", np.float32), ("f64", np.float64)):
        arrays = [np.asarray([v], dtype=dtype) for v in operands]
        value = OPERATIONS[operation].apply(arrays, FORMATS[name]).value
        expected = np.asarray([want], dtype=dtype)
        assert value.tobytes() == expected.tobytes(), (name, value)


def test_turns_are_exact_at_quarter_turns() -> None:
    x = np.asarray([0.0, -0.0, 0.25, 0.5, 0.75, 1.0, -0.25, -0.5, 1e10, 2.0**60 + 0.0, INF, NAN], dtype=np.float64)
    sine = OPERATIONS["sinturnsf"].apply([x], FORMATS["f64"]).value
    cosine = OPERATIONS["costurnsf"].apply([x], FORMATS["f64"]).value
    want_sine = np.asarray([0.0, -0.0, 1.0, 0.0, -1.0, 0.0, -1.0, -0.0, 0.0, 0.0, NAN, NAN])
    want_cosine = np.asarray([1.0, 1.0, 0.0, -1.0, 0.0, 1.0, 0.0, -1.0, 1.0, 1.0, NAN, NAN])
    assert sine.tobytes() == want_sine.tobytes()
    assert cosine.tobytes() == want_cosine.tobytes()


def test_the_reference_itself_knows_closed_forms() -> None:
    assert str(pi())[:32] == "3.141592653589793238462643383279"
    assert abs(sine(pi_wide() / 6) - Real("0.5")) < Real(10) ** -90
    assert abs(arctan(Real(1)) * 4 - pi()) < Real(10) ** -90
    assert str(erf(Real(1)))[:22] == "0.84270079294971486934"
    assert getcontext().prec == DIGITS
