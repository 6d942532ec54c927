"""Float arithmetic against exact rational models, bit for bit."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom.evaluate.numeric import FORMATS, OPERATIONS
from loom.evaluate.numeric.formats import Array, from_bits, to_bits

SMALL = ("f8E4M3", "f8E5M2")
HALF = ("f16", "bf16")
ALL = (*SMALL, *HALF, "f32", "f64")
BASIC: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "addf": operator.add,
    "subf": operator.sub,
    "mulf": operator.mul,
    "divf": operator.truediv,
}


def stored(name: str, patterns: Any) -> Array:
    format = FORMATS[name]
    unsigned = to_bits(format, np.zeros(1, format.dtype)).dtype
    return from_bits(format, np.asarray(patterns, dtype=unsigned))


def run(operation: str, name: str, *patterns: Any, **parameters: Any) -> list[int]:
    """Apply an operation to bit patterns of a format and return the result's patterns or truth values."""
    outcome = OPERATIONS[operation].apply([stored(name, p) for p in patterns], FORMATS[name], **parameters)
    assert outcome.faults == ()
    if outcome.value.dtype == np.bool_:
        return [int(value) for value in outcome.value.ravel()]
    return [int(value) for value in to_bits(FORMATS[name], outcome.value).ravel()]


def python_result(operation: str, x: float, y: float) -> float:
    """IEEE semantics of Python floats where an operand is not finite or a divisor is zero."""
    if operation == "divf":
        if math.isnan(x) or math.isnan(y) or (x == 0 and y == 0) or (math.isinf(x) and math.isinf(y)):
            return math.nan
        if y == 0:
            return math.copysign(math.inf, math.copysign(1, x) * math.copysign(1, y))
        return x / y
    function: Callable[[float, float], float] = {
        "addf": operator.add,
        "subf": operator.sub,
        "mulf": operator.mul,
    }[operation]
    return function(x, y)


def expected_basic(model: Any, operation: str, a: int, b: int) -> int:
    x, y = model.number(a), model.number(b)
    special = not (model.is_finite(a) and model.is_finite(b)) or (operation == "divf" and y == 0)
    if special:
        return int(model.from_float(python_result(operation, x, y)))
    value = BASIC[operation](model.value(a), model.value(b))
    negative_zero = math.copysign(1, python_result(operation, x, y)) < 0 if value == 0 else value < 0
    return int(model.round(value, negative_zero))


def interesting(model: Any) -> list[int]:
    """Patterns around every special point of a format, in both signs."""
    one = model.bias << model.mantissa_bits
    magnitudes = {0, 1, 2, 3, one - 1, one, one + 1, model.infinity - 1, model.infinity, model.nan}
    smallest_normal = 1 << model.mantissa_bits
    magnitudes |= {
        smallest_normal - 1,
        smallest_normal,
        smallest_normal + 1,
        one + (1 << model.mantissa_bits),
    }
    magnitudes |= {model.infinity + 1}  # a signalling NaN where the format has one
    return sorted(magnitudes | {model.sign | magnitude for magnitude in magnitudes})


def patterns(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << bits) - 1)


def test_the_model_agrees_with_the_hardware_formats(exact_formats: dict[str, Any]) -> None:
    for name, code in (("f16", "e"), ("f32", "f"), ("f64", "d")):
        model = exact_formats[name]
        for pattern in interesting(model):
            read = struct.unpack(f">{code}", pattern.to_bytes(model.bits // 8, "big"))[0]
            assert read == model.number(pattern) or math.isnan(read) == model.is_nan(pattern) is True
            if not model.is_nan(pattern):
                assert model.from_float(read) == pattern


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("operation", ["addf", "mulf", "divf"])
def test_eight_bit_arithmetic_is_exact_and_rounded_once(
    exact_formats: dict[str, Any], name: str, operation: str
) -> None:
    model = exact_formats[name]
    a, b = (grid.ravel() for grid in np.meshgrid(np.arange(128), np.arange(256)))
    got = run(operation, name, a, b)
    for x, y, result in zip(a.tolist(), b.tolist(), got, strict=True):
        assert result == expected_basic(model, operation, x, y), (x, y)
    # Negative left operands mirror the positive ones; an exact zero sum is +0 on both sides.
    mirrored = run(operation, name, a | model.sign, b ^ model.sign if operation == "addf" else b)
    for result, mirror in zip(got, mirrored, strict=True):
        keeps = model.is_nan(result) or (operation == "addf" and mirror == result == 0)
        assert mirror == (result if keeps else result ^ model.sign) or result == mirror == 0 == model.value(result)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("operation", sorted(BASIC))
def test_basic_arithmetic_at_special_points(exact_formats: dict[str, Any], name: str, operation: str) -> None:
    model = exact_formats[name]
    points = interesting(model)
    pairs = [(a, b) for a in points for b in points]
    got = run(operation, name, *zip(*pairs, strict=True))
    assert got == [expected_basic(model, operation, a, b) for a, b in pairs]


@pytest.mark.parametrize("name", [*HALF, "f32", "f64"])
@pytest.mark.parametrize("operation", sorted(BASIC))
def test_basic_arithmetic_on_random_patterns(exact_formats: dict[str, Any], name: str, operation: str) -> None:
    model = exact_formats[name]
    element = patterns(model.bits)

    @settings(max_examples=25)
    @given(st.lists(st.tuples(element, element), min_size=1, max_size=40))
    def check(pairs: list[tuple[int, int]]) -> None:
        got = run(operation, name, *zip(*pairs, strict=True))
        assert got == [expected_basic(model, operation, a, b) for a, b in pairs]

    check()


def expected_fma(model: Any, a: int, b: int, c: int) -> int:
    x, y, z = model.number(a), model.number(b), model.number(c)
    if not all(map(model.is_finite, (a, b, c))):
        if any(map(math.isnan, (x, y, z))) or (math.isinf(x) and y == 0) or (math.isinf(y) and x == 0):
            return int(model.nan)
        sign = math.copysign(1, x) * math.copysign(1, y)
        product = math.copysign(math.inf, sign) if math.isinf(x) or math.isinf(y) else 0.0
        return int(model.from_float(product + z))
    value = model.value(a) * model.value(b) + model.value(c)
    product_sign = math.copysign(1, x) * math.copysign(1, y)
    exact_zero_sign = product_sign < 0 and math.copysign(1, z) < 0
    # Exact cancellation of non-zero terms gives +0, which the same rule covers: the signs differ.
    return int(model.round(value, exact_zero_sign))


@pytest.mark.parametrize("name", ALL)
def test_fma_at_special_points(exact_formats: dict[str, Any], name: str) -> None:
    model = exact_formats[name]
    largest, one = model.infinity - 1, model.bias << model.mantissa_bits
    normal = 1 << model.mantissa_bits
    magnitudes = (0, 1, normal - 1, normal, one, one + 1, largest, model.infinity, model.nan)
    points = [magnitude | sign for magnitude in magnitudes for sign in (0, model.sign)]
    triples = [(a, b, c) for a in points for b in points for c in points]
    got = run("fmaf", name, *zip(*triples, strict=True))
    for triple, result in zip(triples, got, strict=True):
        assert result == expected_fma(model, *triple), [hex(x) for x in triple]


@pytest.mark.parametrize("name", ALL)
def test_fma_on_random_patterns(exact_formats: dict[str, Any], name: str) -> None:
    model = exact_formats[name]
    element = patterns(model.bits)

    @settings(max_examples=40)
    @given(st.lists(st.tuples(element, element, element), min_size=1, max_size=30))
    def check(triples: list[tuple[int, int, int]]) -> None:
        got = run("fmaf", name, *zip(*triples, strict=True))
        assert got == [expected_fma(model, *triple) for triple in triples]

    check()


@pytest.mark.parametrize("name", ALL)
def test_fma_with_cancellation_and_near_ties(exact_formats: dict[str, Any], name: str) -> None:
    """c is near -a*b, or a*b is near half a unit of c: where one rounding differs from two."""
    model = exact_formats[name]
    random = np.random.default_rng(20240607)
    triples = []
    for _ in range(2000):
        a, b = (int(x) for x in random.integers(0, model.infinity, 2, dtype=np.uint64))
        product = model.value(a) * model.value(b)
        near = model.round(-product)
        unit = abs(model.value(near)) / (1 << (model.mantissa_bits + 1))
        shift = int(random.integers(-3, 4))
        for c in (near + shift, model.round(product / (unit or 1)) if unit else 0):
            if 0 <= c < 2 * model.sign and model.is_finite(c):
                triples.append((a, b, c))
        # (1 + d)(1 - d) h is just below half a unit h of c = 1 + k: a wider sum may round it to the middle.
        # (Below a power of two patterns are half as far apart, hence 2 * d.)
        one = model.bias << model.mantissa_bits
        half = model.round(Fraction(1, 1 << (model.mantissa_bits + 1)))
        d, k = int(random.integers(1, 4)), int(random.integers(1, 6))
        triples += [(one + d, max(half - 2 * d, 0) | sign, one + k) for sign in (0, model.sign)]
    got = run("fmaf", name, *zip(*triples, strict=True))
    for triple, result in zip(triples, got, strict=True):
        assert result == expected_fma(model, *triple), [hex(x) for x in triple]


def test_fma_differs_from_two_roundings() -> None:
    # (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: the last bit survives only if the product is not rounded.
    x = struct.unpack(">I", struct.pack(">f", 1 + 2.0**-12))[0]
    c = struct.unpack(">I", struct.pack(">f", -(1 + 2.0**-11)))[0]
    fused = run("fmaf", "f32", [x], [x], [c])
    product = run("mulf", "f32", [x], [x])
    assert fused == [(127 - 24) << 23]
    assert run("addf", "f32", product, [c]) == [0]


@pytest.mark.parametrize("name", ALL)
def test_remainder_is_exact(exact_formats: dict[str, Any], name: str) -> None:
    model = exact_formats[name]
    points = interesting(model)
    pairs = [(a, b) for a in points for b in points]
    got = run("remf", name, *zip(*pairs, strict=True))
    for (a, b), result in zip(pairs, got, strict=True):
        if model.is_nan(a) or model.is_nan(b) or model.number(b) == 0 or not model.is_finite(a):
            want = model.nan
        elif not model.is_finite(b):
            want = a
        else:
            x, y = model.value(a), model.value(b)
            quotient = x / y
            want = model.round(x - y * (abs(quotient).__floor__() * (-1 if quotient < 0 else 1)), a >= model.sign)
        assert result == want, (hex(a), hex(b))


@pytest.mark.parametrize("name", ALL)
def test_square_root_is_correctly_rounded(exact_formats: dict[str, Any], name: str) -> None:
    model = exact_formats[name]
    random = np.random.default_rng(5)
    points = interesting(model) + [int(p) for p in random.integers(0, model.infinity, 400, dtype=np.uint64)]
    for a, result in zip(points, run("sqrtf", name, points), strict=True):
        x = model.number(a)
        if math.isnan(x) or x < 0:
            assert result == model.nan
        elif math.isinf(x) or x == 0:
            assert result == a
        else:
            # The root lies within half a unit: compare the squares of the midpoints on both sides.
            below = (model.value(result - 1) + model.value(result)) / 2
            above = (
                (model.value(result) + (model.value(result) - model.value(result - 1)))
                if (not model.is_finite(result + 1))
                else (model.value(result) + model.value(result + 1)) / 2
            )
            assert below * below <= model.value(a) <= above * above


@pytest.mark.parametrize("name", ALL)
def test_sign_operations_touch_only_the_sign_bit(exact_formats: dict[str, Any], name: str) -> None:
    model = exact_formats[name]
    points = interesting(model)
    assert run("negf", name, points) == [p ^ model.sign for p in points]
    assert run("absf", name, points) == [p & ~model.sign for p in points]
    for b in (0, model.sign | 1):
        assert run("copysignf", name, points, [b]) == [(p & ~model.sign) | (b & model.sign) for p in points]


@pytest.mark.parametrize("name", ALL)
def test_sign_function(exact_formats: dict[str, Any], name: str) -> None:
    model = exact_formats[name]
    one = model.bias << model.mantissa_bits
    points = interesting(model)
    numbers = [model.number(p) for p in points]
    assert run("signf", name, points) == [one if x > 0 else one | model.sign if x < 0 else 0 for x in numbers]


def expected_extremum(model: Any, operation: str, a: int, b: int) -> int:
    smaller, number_wins = operation.startswith("min"), "num" in operation and "mum" not in operation
    if model.is_nan(a) or model.is_nan(b):
        if number_wins and not (model.is_nan(a) and model.is_nan(b)):
            return b if model.is_nan(a) else a
        return int(model.nan)
    # Order by value, and a negative zero before a positive one.
    return (min if smaller else max)(a, b, key=lambda p: (model.number(p), p < model.sign))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("operation", ["minimumf", "maximumf", "minnumf", "maxnumf"])
def test_extrema_order_zeros_and_treat_nan_by_name(exact_formats: dict[str, Any], name: str, operation: str) -> None:
    model = exact_formats[name]
    pairs = [(a, b) for a in interesting(model) for b in interesting(model)]
    got = run(operation, name, *zip(*pairs, strict=True))
    assert got == [expected_extremum(model, operation, a, b) for a, b in pairs]


@pytest.mark.parametrize(
    ("mode", "cases"),
    [
        (
            "ordered",
            [
                (5, 1, 3, 3),
                (-1, 1, 3, 1),
                (2, 1, 3, 2),
                ("nan", 1, 3, "nan"),
                (5, "nan", 3, 3),
                (2, 1, "nan", 2),
            ],
        ),
        ("number", [(5, 1, 3, 3), (-1, 1, 3, 1), ("nan", 1, 3, 1), (5, "nan", 3, 3), (0, 1, "nan", 1)]),
        (
            "ieee",
            [(5, 1, 3, 3), (-1, 1, 3, 1), ("nan", 1, 3, "nan"), (5, "nan", 3, "nan"), (2, 1, "nan", "nan")],
        ),
    ],
)
def test_clamp_modes(exact_formats: dict[str, Any], mode: str, cases: list[tuple[Any, ...]]) -> None:
    for name in ALL:
        model = exact_formats[name]
        columns = [[model.from_float(float(case[i])) for case in cases] for i in range(4)]
        assert run("clampf", name, *columns[:3], mode=mode) == columns[3]


def test_ordered_clamp_keeps_the_value_at_equal_bounds() -> None:
    minus_zero = 1 << 31
    assert run("clampf", "f32", [minus_zero], [0], [0], mode="ordered") == [minus_zero]
    assert run("clampf", "f32", [minus_zero], [0], [0], mode="number") == [0]


ORDERED = ("oeq", "ogt", "oge", "olt", "ole", "one", "ord")
PREDICATES = (*ORDERED, "ueq", "ugt", "uge", "ult", "ule", "une", "uno")


@pytest.mark.parametrize("name", ALL)
def test_comparison_predicates(exact_formats: dict[str, Any], name: str) -> None:
    model = exact_formats[name]
    relations = {
        "eq": operator.eq,
        "gt": operator.gt,
        "ge": operator.ge,
        "lt": operator.lt,
        "le": operator.le,
    }
    pairs = [(a, b) for a in interesting(model) for b in interesting(model)]
    columns = list(zip(*pairs, strict=True))
    for predicate in PREDICATES:
        want = []
        for a, b in pairs:
            x, y = model.number(a), model.number(b)
            unordered = model.is_nan(a) or model.is_nan(b)
            if predicate in ("ord", "uno"):
                want.append(unordered == (predicate == "uno"))
            elif unordered:
                want.append(predicate[0] == "u")
            else:
                want.append(x != y if predicate[1:] == "ne" else relations[predicate[1:]](x, y))
        assert run("cmpf", name, *columns, predicate=predicate) == want, predicate


@pytest.mark.parametrize("name", ALL)
def test_class_tests(exact_formats: dict[str, Any], name: str) -> None:
    model = exact_formats[name]
    points = interesting(model)
    nan, finite = [model.is_nan(p) for p in points], [model.is_finite(p) for p in points]
    assert run("isnanf", name, points) == nan
    assert run("isfinitef", name, points) == finite
    assert run("isinff", name, points) == [not n and not f for n, f in zip(nan, finite, strict=True)]


ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    "ceilf": math.ceil,
    "floorf": math.floor,
    "truncf": math.trunc,
    "roundevenf": round,
    "roundf": lambda x: math.floor(abs(x) + Fraction(1, 2)) * (1 if x > 0 else -1),
}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("operation", sorted(ROUNDINGS))
def test_rounding_to_integers(exact_formats: dict[str, Any], name: str, operation: str) -> None:
    model = exact_formats[name]
    halves = [model.round(Fraction(n, 2)) for n in range(-9, 10)]
    neighbours = [p + d for p in halves for d in (-1, 0, 1) if p % model.sign]
    # 2^(M-1) + 1/2 and the value just below 1/2 are where adding a half and truncating goes wrong.
    large = model.round(Fraction((1 << model.mantissa_bits) + 1, 2))
    points = [*interesting(model), *neighbours, large, large | model.sign]
    for a, result in zip(points, run(operation, name, points), strict=True):
        if model.is_nan(a):
            assert result == model.nan
        elif not model.is_finite(a):
            assert result == a
        else:
            assert result == model.round(Fraction(ROUNDINGS[operation](model.value(a))), a >= model.sign), hex(a)


def test_flags_are_permissions_that_the_strict_result_keeps() -> None:
    infinity = 0x7F800000
    assert run("addf", "f32", [infinity], [infinity | 1 << 31], flags=127) == [0x7FC00000]
