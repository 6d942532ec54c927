"""Generators against scalar models of their formulas."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loom.check.elements import GENERATED_ELEMENTS, element_type
from loom.check.errors import CheckError
from loom.check.generate import fill, iota, literal, random_uniform
from loom.check.host_tensor import HostTensor, round_floats
from loom.check.random_stream import random_words
from loom.evaluate.numeric import floats
from loom.evaluate.numeric.formats import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    INDEX,
    OFFSET,
    ScalarFormat,
)

FLOATS = [F16, BF16, F32, F64]
INTEGERS = [I8, I16, I32, I64, INDEX, OFFSET]


def single(value: float) -> float:
    """The nearest f32, by the standard library's packing; too large becomes infinity."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def half(value: float) -> float:
    try:
        return float(struct.unpack("<e", struct.pack("<e", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def brain(value: float) -> float:
    """The nearest bf16 of an f32, by choosing among the two neighbours with exact arithmetic."""
    if math.isinf(value) or math.isnan(value) or value == 0:
        return value
    below = struct.unpack("<I", struct.pack("<f", value))[0] & 0xFFFF0000
    above = below + 0x10000

    def exact(bits: int) -> Fraction:
        # The neighbour above the largest number stands for 2^128, where rounding goes to infinity.
        if bits & 0x7FFFFFFF == 0x7F800000:
            return Fraction(-(2**128) if bits >> 31 else 2**128)
        return Fraction(struct.unpack("<f", struct.pack("<I", bits))[0])

    lower, upper = abs(Fraction(value) - exact(below)), abs(exact(above) - Fraction(value))
    bits = below if lower < upper or (lower == upper and not below & 0x10000) else above
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


ROUNDING: Mapping[str, Callable[[float], float]] = {
    "f64": float,
    "f32": single,
    "f16": lambda value: half(single(value)),
    "bf16": lambda value: brain(single(value)),
}


def numbers(tensor: HostTensor) -> list[float]:
    return [float(value) for value in floats.to_f64(tensor.element, tensor.array).reshape(-1)]


def same(actual: list[float], expected: list[float]) -> bool:
    """Equal as bits, NaN payloads aside."""
    return [value.hex() for value in actual] == [value.hex() for value in expected]


@given(
    st.one_of(st.floats(allow_nan=False), st.floats(width=32, allow_nan=False), st.floats(width=16, allow_nan=False))
)
@example(1.0 + 2**-8)
@example(1.0 + 3 * 2**-8)
@example(float.fromhex("0x1.ff0p127"))
@example(float.fromhex("0x1.fefffep127"))
@example(2.0**-134)
@example(65520.0)
@example(65519.99999)
@example(-0.0)
def test_rounding_goes_through_f32(value: float) -> None:
    """Every float type against the standard library or exact neighbours."""
    for element in FLOATS:
        stored = HostTensor(element, round_floats(element, np.array([value])))
        assert same(numbers(stored), [ROUNDING[element.name](value)]), element.name


def test_nan_stays_nan_when_rounded() -> None:
    """Also a signalling one whose payload lies in the bits that are dropped."""
    signalling = np.array([0x7FF0000000000001], dtype=np.uint64).view(np.float64)
    for element in FLOATS:
        assert math.isnan(numbers(HostTensor(element, round_floats(element, signalling)))[0])


@given(
    offset=st.floats(-1e6, 1e6),
    step=st.floats(-1e3, 1e3),
    shape=st.lists(st.integers(0, 5), max_size=3),
    period=st.none() | st.integers(1, 9),
    element=st.sampled_from(FLOATS),
)
def test_iota_of_floats(
    offset: float, step: float, shape: list[int], period: int | None, element: ScalarFormat
) -> None:
    """`offset + i * step` in f64, then rounded."""
    tensor = iota(element, shape, offset, step, period)
    positions = [i if period is None else i % period for i in range(math.prod(shape))]
    assert tensor.shape == tuple(shape)
    assert same(numbers(tensor), [ROUNDING[element.name](offset + i * step) for i in positions])


@given(
    data=st.data(),
    step=st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300),
    count=st.integers(0, 40),
    period=st.none() | st.integers(1, 50),
    element=st.sampled_from(INTEGERS),
)
@settings(max_examples=300)
def test_iota_of_integers(
    data: st.DataObject, step: int, count: int, period: int | None, element: ScalarFormat
) -> None:
    """Exact values, or an error when some value is outside the element type or 64 bits."""
    offset = data.draw(st.integers(element.minimum, element.maximum))
    positions = [i if period is None else i % period for i in range(count)]
    values = [offset + i * step for i in positions]
    low, high = -(2**63), 2**63 - 1
    fits = all(element.minimum <= v <= element.maximum for v in values)
    fits = fits and all(low <= i * step <= high for i in positions)
    if fits:
        assert [int(v) for v in iota(element, [count], offset, step, period).array] == values
    else:
        with pytest.raises(CheckError, match=r"outside the range|overflows 64 bits"):
            iota(element, [count], offset, step, period)


def test_iota_is_row_major() -> None:
    """The last axis varies fastest."""
    assert iota(I32, [2, 3], -50, 1).array.tolist() == [[-50, -49, -48], [-47, -46, -45]]
    assert iota(I32, [2, 3], 1, 10, 2).array.tolist() == [[1, 11, 1], [11, 1, 11]]
    assert iota(I32, [], 4, 9).array.tolist() == 4


@pytest.mark.parametrize("name", sorted(GENERATED_ELEMENTS))
def test_fill(name: str) -> None:
    """Every element is the literal, for every supported type and also for no elements."""
    element = element_type(name)
    value = 2.5 if name in ROUNDING else 7
    tensor = fill(element, [3, 2], value)
    assert floats.to_f64(element, tensor.array).tolist() == [[value] * 2] * 3
    assert fill(element, [0, 4], value).shape == (0, 4)


def test_fill_takes_infinities_and_nan() -> None:
    """Float literals include them; a finite literal beyond the type becomes infinity."""
    assert numbers(fill(BF16, [1], -math.inf)) == [-math.inf]
    assert math.isnan(numbers(fill(F16, [1], math.nan))[0])
    assert numbers(fill(F32, [1], 1e300)) == [math.inf]


@given(seed=st.integers(-(2**63), 2**63 - 1), data=st.data(), element=st.sampled_from(INTEGERS))
def test_random_integers(seed: int, data: st.DataObject, element: ScalarFormat) -> None:
    """`low + word mod (high - low + 1)`, both bounds included."""
    low = data.draw(st.integers(element.minimum, element.maximum))
    high = data.draw(st.integers(low, element.maximum))
    if high - low + 1 == 2**64:
        low += 1
    tensor = random_uniform(element, [3, 5], seed, low, high)
    words = random_words(seed, 15).tolist()
    assert [int(v) for v in tensor.array.reshape(-1)] == [low + word % (high - low + 1) for word in words]


@given(
    seed=st.integers(0, 2**64 - 1),
    low=st.floats(-60000, 60000),
    width=st.floats(0, 5000),
    element=st.sampled_from(FLOATS),
)
def test_random_floats(seed: int, low: float, width: float, element: ScalarFormat) -> None:
    """`low + (word >> 11) * 2^-53 * (high - low)` in f64, then rounded."""
    high = low + width
    if element is F16 and math.isinf(half(single(high))):
        return
    tensor = random_uniform(element, [7], seed, low, high)
    words = random_words(seed, 7).tolist()
    exact = [low + (word >> 11) * 2.0**-53 * (high - low) for word in words]
    assert same(numbers(tensor), [ROUNDING[element.name](value) for value in exact])


def test_random_vectors_stay_as_they_are() -> None:
    """Fixed values: a change here changes every recorded expectation of every user."""
    assert random_uniform(I32, [4], 7, -100, 100).array.tolist() == [-44, -84, 11, -46]
    assert random_uniform(F32, [3], 77, -3.0, 3.0).array.tolist() == [
        1.8262234926223755,
        0.7676286697387695,
        0.7732466459274292,
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: iota(I8, [4], 126, 1), "129 of element 3 is outside the range of i8"),
        (lambda: iota(I8, [4], 300, 1), "iota offset 300 is outside the range of i8"),
        (lambda: iota(OFFSET, [3], 1, -1), "iota value -1 of element 2"),
        (lambda: iota(I64, [3], -1, 2**62), "overflows 64 bits"),
        (lambda: iota(I32, [3], 0, 1, 0), "period 0 must be at least 1"),
        (lambda: iota(I32, [3], 0.0, 1), "iota offset must be an integer"),
        (lambda: iota(F32, [3], 0, 1.0), "iota offset must be a floating-point number"),
        (lambda: iota(F32, [3], 0.0, 1), "iota step must be a floating-point number"),
        (lambda: iota(I32, [3], 0, True), "iota step must be an integer"),
        (lambda: iota(I32, [3], 0, 2**63), "does not fit 64 bits"),
        (lambda: iota(I32, [-1], 0, 1), "extent -1 of axis 0 is negative"),
        (lambda: iota(I32, [1] * 16, 0, 1), "rank 16"),
        (lambda: fill(F32, [1 << 40], 0.0), "larger than the limit"),
        (lambda: fill(F32, [0, 1 << 62], 0.0), "larger than the limit"),
        (lambda: fill(I1, [3], True), "does not support element type i1"),
        (lambda: fill(OFFSET, [3], -1), "fill value -1 is outside the range of offset"),
        (lambda: literal(F16, 1.0), "does not support element type f16"),
        (lambda: literal(I1, 2), "must be true or false"),
        (lambda: literal(I32, True), "must be an integer"),
        (lambda: random_uniform(I64, [1], 0, -(2**63), 2**63 - 1), "spans all 64-bit integers"),
        (lambda: random_uniform(I32, [1], 0, 3, 2), "lower bound 3 exceeds the upper bound 2"),
        (lambda: random_uniform(F32, [1], 0, 3.0, 2.0), r"lower bound 3\.0 exceeds"),
        (lambda: random_uniform(F32, [1], 0, 0.0, math.inf), "is not finite"),
        (lambda: random_uniform(F64, [1], 0, -1e308, 1e308), "overflows f64"),
        (lambda: random_uniform(F16, [1], 0, 0.0, 1e5), "outside the range of f16"),
        (lambda: random_uniform(I8, [1], 0, 0, 128), "upper bound 128 is outside the range of i8"),
        (lambda: element_type("f128"), "unknown element type 'f128'"),
    ],
)
def test_errors(call: Callable[[], object], message: str) -> None:
    """Every rejected input names what is wrong."""
    with pytest.raises(CheckError, match=message):
        call()


def test_large_steps_are_fine_when_never_taken() -> None:
    """A step is checked where it is used: one element takes none."""
    assert iota(I8, [1], 5, 2**62).array.tolist() == [5]
    assert iota(I8, [5], 5, 2**62, 1).array.tolist() == [5] * 5


def test_literals() -> None:
    """Scalars have rank 0 and the storage of their type."""
    assert literal(I1, True).array[()] == np.True_
    assert literal(INDEX, 6).array.dtype == np.int64
    assert literal(F32, 0.1).array[()] == np.float32(0.1)
