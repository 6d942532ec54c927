"""Expectations: whether what a case computed is what it should be, and how far off it is.

A failed comparison says how many elements differ, where the first one is with both values as text that
reads back exactly, and the largest errors over the whole tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loom.check.elements import is_float, is_integer
from loom.check.errors import CheckError
from loom.check.host_tensor import HostTensor, bits_text, value_text
from loom.check.verdict import Difference, ExpectationKind, Mismatch, NanPolicy, Verdict
from loom.evaluate.numeric import floats
from loom.evaluate.numeric.formats import to_bits

Mask = NDArray[np.bool_]

MAX_LISTED = 4
"""Differing elements of one expectation that are listed."""


def expect_equal(actual: HostTensor, expected: HostTensor) -> Verdict:
    """Same shape, element type and values; floats by `==`, so that NaN differs from itself and -0 is 0."""
    if (failed := _type_failure(ExpectationKind.EQUAL, actual, expected)) is not None:
        return failed
    if is_float(actual.element):
        with np.errstate(invalid="ignore"):
            differs = _floats(actual) != _floats(expected)
    else:
        differs = actual.array != expected.array
    return _verdict(ExpectationKind.EQUAL, actual, expected, np.asarray(differs))


def expect_bitwise(actual: HostTensor, expected: HostTensor) -> Verdict:
    """Same shape, element type and bytes: a NaN equals itself, and -0 differs from 0."""
    if (failed := _type_failure(ExpectationKind.BITWISE, actual, expected)) is not None:
        return failed
    differs = to_bits(actual.element, actual.array) != to_bits(expected.element, expected.array)
    return _verdict(ExpectationKind.BITWISE, actual, expected, np.asarray(differs))


def expect_close(actual: HostTensor, expected: HostTensor, atol: float, rtol: float, nan: NanPolicy) -> Verdict:
    """Floats with `abs(actual - expected) <= atol + rtol * abs(expected)`, computed in `f64`.

    With a NaN on either side the pair passes only if the policy is `same` and both are NaN. An
    infinity is close to itself alone: the formula has no meaning for it (inf - inf is NaN, and
    any finite number would be within rtol of inf). Raises `CheckError` for a type without floats and for
    tolerances that are negative or not finite.
    """
    if not is_float(actual.element):
        raise CheckError(f"check.expect.close compares floating-point elements, not {actual.element.name}")
    for name, tolerance in (("atol", atol), ("rtol", rtol)):
        if not (math.isfinite(tolerance) and tolerance >= 0):
            raise CheckError(f"{name} must be a finite number not below 0, not {tolerance}")
    if (failed := _type_failure(ExpectationKind.CLOSE, actual, expected)) is not None:
        return failed
    left, right = _floats(actual).astype(np.float64), _floats(expected).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        within = np.abs(left - right) <= atol + rtol * np.abs(right)
    infinite = np.isinf(left) | np.isinf(right)
    passes = np.where(infinite, left == right, within)
    if nan is NanPolicy.SAME:
        passes |= np.isnan(left) & np.isnan(right)
    policy = f" (atol {atol}, rtol {rtol}, nan {nan.value})"
    return _verdict(ExpectationKind.CLOSE, actual, expected, ~passes, policy)


def expect_shape(value: HostTensor, shape: Sequence[int]) -> Verdict:
    """The extents of `value` are those listed."""
    wanted = tuple(int(extent) for extent in shape)
    if value.shape == wanted:
        return Verdict(ExpectationKind.SHAPE, True)
    detail = f"shape is {list(value.shape)}, expected {list(wanted)}"
    return Verdict(ExpectationKind.SHAPE, False, detail)


def _floats(tensor: HostTensor) -> NDArray[Any]:
    return floats.values(tensor.element, tensor.array)


def _type_failure(kind: ExpectationKind, actual: HostTensor, expected: HostTensor) -> Verdict | None:
    if actual.element != expected.element:
        detail = f"element type is {actual.element.name}, expected {expected.element.name}"
        return Verdict(kind, False, detail)
    if actual.shape != expected.shape:
        detail = f"shape is {list(actual.shape)}, expected {list(expected.shape)}"
        return Verdict(kind, False, detail)
    return None


def _verdict(
    kind: ExpectationKind, actual: HostTensor, expected: HostTensor, differs: Mask, policy: str = ""
) -> Verdict:
    mismatch_count = int(np.count_nonzero(differs))
    if mismatch_count == 0:
        return Verdict(kind, True)
    positions = np.flatnonzero(differs)[:MAX_LISTED]
    index, *others = [tuple(int(i) for i in np.unravel_index(p, differs.shape)) for p in positions]
    absolute, relative = _largest_errors(actual, expected)
    mismatch = Mismatch(
        element_count=differs.size,
        mismatch_count=mismatch_count,
        index=index,
        actual=_text(kind, actual, index),
        expected=_text(kind, expected, index),
        largest_absolute_error=absolute,
        largest_relative_error=relative,
        further=tuple(Difference(at, _text(kind, actual, at), _text(kind, expected, at)) for at in others),
    )
    return Verdict(kind, False, _describe(mismatch) + policy, mismatch)


def _text(kind: ExpectationKind, tensor: HostTensor, index: tuple[int, ...]) -> str:
    value = value_text(tensor, index)
    return f"{bits_text(tensor, index)} ({value})" if kind is ExpectationKind.BITWISE else value


def _describe(mismatch: Mismatch) -> str:
    values = f"actual {mismatch.actual}, expected {mismatch.expected}"
    if not mismatch.index:
        return values
    text = (
        f"{mismatch.mismatch_count} of {mismatch.element_count} elements differ; "
        f"first at {list(mismatch.index)}: {values}"
    )
    if mismatch.largest_absolute_error is not None:
        text += f"; largest absolute error {mismatch.largest_absolute_error}"
    if mismatch.largest_relative_error is not None:
        text += f", largest relative error {mismatch.largest_relative_error}"
    return text


def _largest_errors(actual: HostTensor, expected: HostTensor) -> tuple[str | None, str | None]:
    if is_float(actual.element):
        return _largest_float_errors(_floats(actual), _floats(expected))
    if is_integer(actual.element):
        return _largest_integer_errors(actual.array.reshape(-1), expected.array.reshape(-1))
    return None, None


def _largest_float_errors(actual: NDArray[Any], expected: NDArray[Any]) -> tuple[str | None, str | None]:
    left, right = actual.astype(np.float64).reshape(-1), expected.astype(np.float64).reshape(-1)
    comparable = ~(np.isnan(left) | np.isnan(right))
    left, right = left[comparable], right[comparable]
    if left.size == 0:
        return None, None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        errors = np.where(left == right, 0.0, np.abs(left - right))
        finite = np.isfinite(right) & (right != 0)
        ratios = errors[finite] / np.abs(right[finite])
    return repr(float(errors.max())), repr(float(ratios.max())) if ratios.size else None


def _largest_integer_errors(actual: NDArray[Any], expected: NDArray[Any]) -> tuple[str, str | None]:
    # A difference of 64-bit integers needs 65 bits signed but only 64 unsigned, once it is known
    # which of the two is the larger.
    left, right = actual.astype(np.int64), expected.astype(np.int64)
    forward = left.view(np.uint64) - right.view(np.uint64)
    errors = np.where(left >= right, forward, np.uint64(0) - forward)
    nonzero = right != 0
    magnitudes = np.abs(right[nonzero].astype(np.float64))
    ratios = errors[nonzero].astype(np.float64) / magnitudes
    return str(int(errors.max())), repr(float(ratios.max())) if ratios.size else None
