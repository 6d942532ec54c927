"""Expectations: which values pass, and what a failure says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom.check.compare import expect_bitwise, expect_close, expect_equal, expect_shape
from loom.check.errors import CheckError
from loom.check.generate import fill
from loom.check.host_tensor import HostTensor, round_floats, tensor_view, value_text
from loom.check.verdict import ExpectationKind, NanPolicy
from loom.evaluate.numeric.formats import BF16, F8E4M3, F16, F32, F64, I1, I8, I32, I64, OFFSET, ScalarFormat

SAME, DIFFERENT = NanPolicy.SAME, NanPolicy.DIFFERENT
FLOATS = [F16, BF16, F32, F64]


def tensor(element: ScalarFormat, values: Any) -> HostTensor:
    if element in FLOATS:
        return HostTensor(element, round_floats(element, np.array(values, dtype=np.float64)))
    return HostTensor(element, np.array(values, dtype=element.dtype))


@pytest.mark.parametrize("element", FLOATS)
def test_equal_compares_floats_by_value(element: ScalarFormat) -> None:
    """NaN differs from itself, -0 equals 0, infinities equal themselves."""
    assert expect_equal(tensor(element, [0.0, 1.5, math.inf]), tensor(element, [-0.0, 1.5, math.inf])).passed
    verdict = expect_equal(tensor(element, [1.0, math.nan]), tensor(element, [1.0, math.nan]))
    assert not verdict.passed
    assert verdict.mismatch is not None
    assert verdict.mismatch.index == (1,)
    assert verdict.mismatch.actual == verdict.mismatch.expected == "nan"


@pytest.mark.parametrize("element", FLOATS)
def test_bitwise_compares_bytes(element: ScalarFormat) -> None:
    """A NaN equals itself, -0 differs from 0."""
    assert expect_bitwise(tensor(element, [math.nan, -0.0]), tensor(element, [math.nan, -0.0])).passed
    verdict = expect_bitwise(tensor(element, [[0.0, 0.0]]), tensor(element, [[0.0, -0.0]]))
    assert not verdict.passed
    assert verdict.mismatch is not None
    assert verdict.mismatch.index == (0, 1)
    zero = "0" * (element.bits // 4)
    assert verdict.mismatch.actual == f"0x{zero} (0.0)"
    assert verdict.mismatch.expected == f"0x8{zero[1:]} (-0.0)"


def test_bitwise_sees_nan_payloads() -> None:
    """Two NaNs with different bits."""
    first = HostTensor(F32, np.array([0x7FC00000], dtype=np.uint32).view(np.float32))
    second = HostTensor(F32, np.array([0x7FC00001], dtype=np.uint32).view(np.float32))
    assert not expect_bitwise(first, second).passed
    assert "0x7fc00000 (nan), expected 0x7fc00001 (nan)" in expect_bitwise(first, second).detail


def test_equal_of_integers_and_booleans() -> None:
    """Exact, at the ends of 64 bits too."""
    low, high = -(2**63), 2**63 - 1
    assert expect_equal(tensor(I64, [low, high]), tensor(I64, [low, high])).passed
    verdict = expect_equal(tensor(I64, [low, 5]), tensor(I64, [high, 5]))
    assert verdict.detail == (
        f"1 of 2 elements differ; first at [0]: actual {low}, expected {high}; "
        f"largest absolute error {2**64 - 1}, largest relative error 2.0"
    )
    verdict = expect_equal(tensor(I1, [True, False]), tensor(I1, [True, True]))
    assert verdict.detail == "1 of 2 elements differ; first at [1]: actual false, expected true"
    assert not expect_equal(tensor(OFFSET, [2**62]), tensor(OFFSET, [2**62 + 1])).passed


def test_the_first_mismatch_is_the_first_in_row_major_order() -> None:
    """With the number of mismatches and the largest errors over the whole tensor."""
    expected = tensor(I32, np.arange(24).reshape(2, 3, 4))
    actual = expected.copy()
    actual.array[1, 0, 2] += 1
    actual.array[0, 2, 1] -= 3
    actual.array[1, 2, 3] = 0
    mismatch = expect_equal(actual, expected).mismatch
    assert mismatch is not None
    assert (mismatch.index, mismatch.mismatch_count, mismatch.element_count) == ((0, 2, 1), 3, 24)
    assert (mismatch.actual, mismatch.expected) == ("6", "9")
    assert mismatch.largest_absolute_error == "23"
    assert mismatch.largest_relative_error == "1.0"


def test_largest_errors_of_floats() -> None:
    """In f64; NaN and a relative error to zero are left out."""
    actual = tensor(F32, [1.0, 5.0, math.nan, 0.5])
    expected = tensor(F32, [1.0, 4.0, 1.0, 0.0])
    mismatch = expect_equal(actual, expected).mismatch
    assert mismatch is not None
    assert mismatch.largest_absolute_error == "1.0"
    assert mismatch.largest_relative_error == "0.25"
    only_nan = expect_equal(tensor(F32, [math.nan]), tensor(F32, [1.0])).mismatch
    assert only_nan is not None
    assert only_nan.largest_absolute_error is None


@given(
    actual=st.floats(width=32, allow_infinity=False),
    expected=st.floats(width=32, allow_infinity=False),
    atol=st.floats(0, 1e6),
    rtol=st.floats(0, 10),
    policy=st.sampled_from(NanPolicy),
)
def test_close(actual: float, expected: float, atol: float, rtol: float, policy: NanPolicy) -> None:
    """The rule, applied to one pair by itself."""
    if math.isnan(actual) or math.isnan(expected):
        passes = policy is SAME and math.isnan(actual) and math.isnan(expected)
    else:
        passes = abs(actual - expected) <= atol + rtol * abs(expected)
    verdict = expect_close(tensor(F32, [actual]), tensor(F32, [expected]), atol, rtol, policy)
    assert verdict.passed == passes


@pytest.mark.parametrize(
    ("actual", "expected", "policy", "passed"),
    [
        (math.nan, math.nan, SAME, True),
        (math.nan, math.nan, DIFFERENT, False),
        (math.nan, 1.0, SAME, False),
        (1.0, math.nan, SAME, False),
        (1.0, math.nan, DIFFERENT, False),
        (math.inf, math.inf, SAME, True),
        (-math.inf, math.inf, SAME, False),
        (1.0, math.inf, SAME, False),
        (math.inf, 1.0, SAME, False),
        (1.5, 1.0, SAME, True),
        (1.5001, 1.0, SAME, False),
    ],
)
@pytest.mark.parametrize("element", [F32, F64])
def test_close_of_special_values(
    element: ScalarFormat, actual: float, expected: float, policy: NanPolicy, passed: bool
) -> None:
    """NaN by policy; an infinity is close to itself alone, whatever the tolerances."""
    verdict = expect_close(tensor(element, [actual]), tensor(element, [expected]), 0.25, 0.25, policy)
    assert verdict.passed == passed


def test_close_says_its_tolerances() -> None:
    """So that the report alone shows by how much it failed."""
    verdict = expect_close(tensor(F64, 2.0), tensor(F64, 1.0), 0.5, 0.0, DIFFERENT)
    assert verdict.detail == "actual 2.0, expected 1.0 (atol 0.5, rtol 0.0, nan different)"


@pytest.mark.parametrize(
    ("element", "atol", "rtol", "message"),
    [
        (F32, -1.0, 0.0, "atol must be a finite number not below 0"),
        (F32, 0.0, math.nan, "rtol must be"),
        (F32, math.inf, 0.0, "atol must be"),
        (I32, 0.0, 0.0, "compares floating-point elements, not i32"),
    ],
)
def test_close_rejects(element: ScalarFormat, atol: float, rtol: float, message: str) -> None:
    """Tolerances that make no sense, and types without tolerances."""
    with pytest.raises(CheckError, match=message):
        expect_close(tensor(element, [1]), tensor(element, [1]), atol, rtol, SAME)


@pytest.mark.parametrize("compare", [expect_equal, expect_bitwise])
def test_types_are_part_of_equality(compare: Any) -> None:
    """Another shape or element type fails without looking at values."""
    assert compare(tensor(I32, [1]), tensor(I32, [1, 2])).detail == "shape is [1], expected [2]"
    assert compare(tensor(I32, [[1]]), tensor(I32, [1])).detail == "shape is [1, 1], expected [1]"
    assert compare(tensor(I8, [1]), tensor(I32, [1])).detail == "element type is i8, expected i32"


@pytest.mark.parametrize("compare", [expect_equal, expect_bitwise])
def test_empty_tensors_pass(compare: Any) -> None:
    """There is nothing that differs."""
    assert compare(fill(F32, [0, 3], 0.0), fill(F32, [0, 3], 1.0)).passed
    assert not compare(fill(F32, [0, 3], 0.0), fill(F32, [3, 0], 0.0)).passed


def test_shape() -> None:
    """Extents in order; rank counts."""
    assert expect_shape(fill(F32, [2, 3], 0.0), [2, 3]) == expect_shape(fill(I32, [2, 3], 0), [2, 3])
    verdict = expect_shape(fill(F32, [2, 3], 0.0), [2, 4])
    assert (verdict.kind, verdict.passed) == (ExpectationKind.SHAPE, False)
    assert verdict.detail == "shape is [2, 3], expected [2, 4]"
    assert not expect_shape(fill(F32, [2, 3], 0.0), [6]).passed


@given(st.data(), st.sampled_from(FLOATS))
def test_float_text_reads_back_as_the_same_bits(data: st.DataObject, element: ScalarFormat) -> None:
    """Every finite bit pattern of every type."""
    pattern = data.draw(st.integers(0, 2**element.bits - 1))
    stored = np.array([pattern], dtype=f"<u{element.bits // 8}").view(element.dtype)
    value = HostTensor(element, stored)
    read = float(value_text(value, (0,)))
    if not math.isnan(read):
        assert expect_bitwise(tensor(element, [read]), value).passed


def test_eight_bit_floats_have_values() -> None:
    """Their bits are compared and shown as numbers."""
    first, second = (HostTensor(F8E4M3, np.array([bits], dtype=np.uint8)) for bits in (0x38, 0x41))
    assert "actual 1.0, expected 2.25" in expect_equal(first, second).detail


def test_views_share_storage() -> None:
    """A write through either side is seen on the other, at any byte offset that fits."""
    source = fill(I32, [4], 0)
    view = tensor_view(source, 4, I8, [2, 2])
    view.array[1, 1] = 1
    assert source.array.tolist() == [0, 1 << 24, 0, 0]
    source.array[1] = 7
    assert view.array.tolist() == [[7, 0], [0, 0]]
    misaligned = tensor_view(source, 3, I32, [1])
    misaligned.array[0] = -1
    assert source.array.tolist() == [-(1 << 24), 0xFFFFFF, 0, 0]
    assert tensor_view(source, 16, I32, [0]).shape == (0,)


@pytest.mark.parametrize(("offset", "count"), [(0, 5), (4, 4), (17, 0), (-1, 1)])
def test_views_must_fit(offset: int, count: int) -> None:
    """Neither end leaves the source."""
    with pytest.raises(CheckError, match="leaves its source of 16 bytes"):
        tensor_view(fill(I32, [4], 0), offset, I32, [count])
