"""Conversions between number formats: exact, rounded once, saturating or reported."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom.evaluate.numeric import FORMATS, OPERATIONS, FaultKind, floats
from loom.evaluate.numeric.formats import Array, from_bits, to_bits

FLOATS = ("f8E4M3", "f8E5M2", "f16", "bf16", "f32", "f64")
INTEGERS = ("i1", "i8", "i16", "i32", "i64")


def stored(name: str, patterns: Any) -> Array:
    format = FORMATS[name]
    unsigned = to_bits(format, np.zeros(1, format.dtype)).dtype
    return from_bits(format, np.asarray(patterns, dtype=unsigned))


def convert(operation: str, source: str, result: str, patterns: Any) -> list[int]:
    outcome = OPERATIONS[operation].apply([stored(source, patterns)], FORMATS[source], FORMATS[result])
    assert outcome.faults == ()
    return [int(p) for p in to_bits(FORMATS[result], outcome.value)]


def patterns_of(model: Any) -> list[int]:
    """All patterns of formats up to 8 bits, a stride of the wider ones with the special points."""
    if model.bits <= 8:
        return list(range(1 << model.bits))
    edge = [0, 1, 2, model.infinity - 1, model.infinity, model.nan, model.infinity + 1, model.sign - 1]
    positive = edge + list(range(0, model.infinity, model.infinity // 997))
    return positive + [p | model.sign for p in positive]


def expected_conversion(source: Any, target: Any, pattern: int) -> int:
    """NaN keeps sign and upper payload and becomes quiet; `f8E4M3` has no payload and saturates."""
    sign = target.sign if pattern >= source.sign else 0
    if source.is_nan(pattern):
        if target.saturates or source.saturates:
            return int(target.nan | sign)
        mantissa = pattern & ((1 << source.mantissa_bits) - 1)
        shift = target.mantissa_bits - source.mantissa_bits
        payload = mantissa << shift if shift >= 0 else mantissa >> -shift
        return int(target.nan | payload | sign)
    if not source.is_finite(pattern):
        return int(target.infinity | sign)
    return int(target.round(source.value(pattern), bool(sign)))


@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("source", FLOATS)
def test_float_to_float(exact_formats: dict[str, Any], source: str, target: str) -> None:
    wide, narrow = exact_formats[source], exact_formats[target]
    if wide.bits == narrow.bits:
        for operation in ("extf", "fptrunc"):
            with pytest.raises(TypeError):
                convert(operation, source, target, [0])
        return
    patterns = patterns_of(wide)
    if wide.bits > narrow.bits:
        # The midpoints between narrow neighbours and their own neighbours are where rounding is decided.
        for p in range(0, narrow.infinity, max(1, narrow.infinity // 499)):
            middle = wide.round((narrow.value(p) + narrow.value(min(p + 1, narrow.infinity - 1))) / 2)
            patterns += [q for q in (middle - 1, middle, middle + 1) if q >= 0]
    operation = "extf" if wide.bits < narrow.bits else "fptrunc"
    got = convert(operation, source, target, patterns)
    for pattern, result in zip(patterns, got, strict=True):
        assert result == expected_conversion(wide, narrow, pattern), hex(pattern)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_every_16_bit_pattern_extends_exactly_and_returns(exact_formats: dict[str, Any], name: str) -> None:
    model, patterns = exact_formats[name], list(range(1 << 16))
    wide = convert("extf", name, "f32", patterns)
    exact = exact_formats["f32"]
    assert wide == [expected_conversion(model, exact, p) for p in patterns]
    quiet = 1 << (model.mantissa_bits - 1)
    assert convert("fptrunc", "f32", name, wide) == [p | quiet if model.is_nan(p) else p for p in patterns]


@pytest.mark.parametrize("name", FLOATS)
def test_f32_and_f64_views_round_trip(exact_formats: dict[str, Any], name: str) -> None:
    model, format = exact_formats[name], FORMATS[name]
    patterns = [p for p in patterns_of(model) if not model.is_nan(p)]
    array = stored(name, patterns)
    assert floats.to_f64(format, array).tolist() == [model.number(p) for p in patterns]
    assert to_bits(format, floats.from_f64(format, floats.to_f64(format, array))).tolist() == patterns
    if name != "f64":
        assert to_bits(format, floats.from_f32(format, floats.to_f32(format, array))).tolist() == patterns


def test_finite_e4m3_saturates_and_e5m2_does_not() -> None:
    values = np.asarray([448.0, 464.0, 1e30, math.inf, -math.inf, -465.0], dtype=np.float32)
    bits = values.view(np.uint32).tolist()
    assert convert("fptrunc", "f32", "f8E4M3", bits) == [0x7E, 0x7E, 0x7E, 0x7E, 0xFE, 0xFE]
    values = np.asarray([57344.0, 61439.0, 61440.0, math.inf], dtype=np.float32)
    assert convert("fptrunc", "f32", "f8E5M2", values.view(np.uint32).tolist()) == [0x7B, 0x7B, 0x7C, 0x7C]


@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("source", INTEGERS)
def test_integer_to_float_rounds_once(exact_formats: dict[str, Any], source: str, target: str) -> None:
    model, bits = exact_formats[target], FORMATS[source].bits
    mask = (1 << bits) - 1
    precision = model.mantissa_bits + 1
    values = {0, 1, mask, mask >> 1, (mask >> 1) + 1}
    for top in range(bits):
        # 2^top, and half a unit above it, give or take one: ties and double-rounding traps.
        base = (1 << top) + (1 << max(top - precision, 0))
        values |= {(1 << top) & mask, base & mask, (base + 1) & mask, (base - 1) & mask}
        values |= {-base & mask, (-base - 1) & mask, ((base | 1 << max(top - precision + 1, 0)) + 1) & mask}
    patterns = sorted(values)
    signed = [p - (1 << bits) if p >> (bits - 1) else p for p in patterns]
    assert convert("uitofp", source, target, patterns) == [model.round(Fraction(p)) for p in patterns]
    assert convert("sitofp", source, target, patterns) == [model.round(Fraction(v)) for v in signed]


@pytest.mark.parametrize("target", ["f16", "bf16", "f32", "f64"])
def test_random_64_bit_integers_round_once(exact_formats: dict[str, Any], target: str) -> None:
    @settings(max_examples=50)
    @given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40))
    def check(patterns: list[int]) -> None:
        got = convert("uitofp", "i64", target, patterns)
        assert got == [exact_formats[target].round(Fraction(p)) for p in patterns]

    check()


def test_a_64_bit_integer_whose_double_rounds_to_a_tie() -> None:
    # 2^60 + 2^36 + 1 is just above the middle of two f32 neighbours; as a double it is the middle itself.
    value = 2**60 + 2**36 + 1
    assert np.float32(np.float64(value)) == np.float32(2.0**60)
    result = OPERATIONS["sitofp"].apply([np.asarray([value])], FORMATS["i64"], FORMATS["f32"]).value
    assert result.tolist() == [2.0**60 + 2.0**37]


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_float_to_integer_truncates_or_reports(exact_formats: dict[str, Any], source: str, target: str) -> None:
    model, format = exact_formats[source], FORMATS[target]
    bits = format.bits
    limits = [Fraction(s * (1 << k)) for k in (bits - 1, bits) for s in (1, -1)]
    near = [model.round(v) + d for v in [*limits, Fraction(1), Fraction(-1)] for d in (-1, 0, 1)]
    patterns = [p for p in near if 0 <= p < 2 * model.sign] + patterns_of(model)
    for operation, low, high in (
        ("fptosi", format.minimum, format.maximum),
        ("fptoui", 0, format.unsigned_maximum),
    ):
        outcome = OPERATIONS[operation].apply([stored(source, patterns)], FORMATS[source], format)
        whole = [math.trunc(model.value(p)) if model.is_finite(p) else None for p in patterns]
        undefined = [w is None or not low <= w <= high for w in whole]
        (fault,) = outcome.faults
        assert fault.kind is FaultKind.FLOAT_TO_INTEGER
        assert fault.mask.tolist() == undefined
        for got, want, bad in zip(to_bits(format, outcome.value).tolist(), whole, undefined, strict=True):
            assert bad or (want is not None and got == want & format.unsigned_maximum)


@pytest.mark.parametrize(
    ("operation", "source", "target", "patterns", "want"),
    [
        ("extsi", "i1", "i8", [0, 1], [0, 0xFF]),
        ("extui", "i1", "i8", [0, 1], [0, 1]),
        ("extsi", "i8", "i64", [0x80], [0xFFFFFFFFFFFFFF80]),
        ("extui", "i8", "i64", [0x80], [0x80]),
        ("trunci", "i32", "i8", [0x1FF, 0x80], [0xFF, 0x80]),
        ("trunci", "i64", "i1", [2, 3], [0, 1]),
        ("bitcast", "f32", "i32", [0x7FA00001, 0x80000000], [0x7FA00001, 0x80000000]),
        ("bitcast", "i16", "bf16", [0x3F80], [0x3F80]),
        ("bitcast", "f16", "bf16", [0x7C01], [0x7C01]),
        ("bitcast", "f8E5M2", "f8E4M3", [0xFF], [0xFF]),
        ("sitofp", "i1", "f32", [0, 1], [0, 0xBF800000]),
        ("uitofp", "i1", "f32", [0, 1], [0, 0x3F800000]),
    ],
)
def test_bit_level_conversions(operation: str, source: str, target: str, patterns: list[int], want: list[int]) -> None:
    assert convert(operation, source, target, patterns) == want


@pytest.mark.parametrize(
    ("operation", "source", "target"),
    [("extsi", "i8", "i8"), ("trunci", "i8", "i16"), ("bitcast", "f32", "i64")],
)
def test_width_violations_are_refused(operation: str, source: str, target: str) -> None:
    with pytest.raises(TypeError):
        convert(operation, source, target, [0])
