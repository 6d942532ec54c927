"""Value generators of checks: iota, fill and random.uniform.

Element i (row-major) of a result is a closed formula of i or, for random values, of the i-th word of
the seed's stream, so that a tensor has the same bits wherever it is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loom.check.elements import (
    GENERATED_ELEMENTS,
    I64_MAX,
    I64_MIN,
    LITERAL_ELEMENTS,
    is_float,
    require_element,
    require_float,
    require_integer,
    require_value,
)
from loom.check.errors import CheckError
from loom.check.host_tensor import HostTensor, resolve_shape, round_floats
from loom.check.random_stream import random_words
from loom.evaluate.numeric import floats
from loom.evaluate.numeric.formats import ScalarFormat


def literal(element: ScalarFormat, value: object) -> HostTensor:
    """The scalar of `check.literal`; raises `CheckError` when the value does not suit the type."""
    require_element(element, LITERAL_ELEMENTS, "check.literal")
    return _constant(element, (), require_value(element, value, "literal"))


def fill(element: ScalarFormat, shape: Sequence[int], value: object) -> HostTensor:
    """Every element is `value`; a float is rounded to the element type.

    Raises `CheckError` for an unsupported element type, a value that does not suit it, or a bad shape.
    """
    require_element(element, GENERATED_ELEMENTS, "check.generate.fill")
    return _constant(element, resolve_shape(element, shape), require_value(element, value, "fill value"))


def iota(
    element: ScalarFormat, shape: Sequence[int], offset: object, step: object, period: int | None = None
) -> HostTensor:
    """Element i is `offset + i * step`, with `i mod period` in place of i when there is a period.

    Integers are exact: the product and the sum must fit 64 bits, and the sum the element type, or
    `CheckError` is raised. Floats are computed in `f64`, then rounded to the element type.
    """
    require_element(element, GENERATED_ELEMENTS, "check.generate.iota")
    extents = resolve_shape(element, shape)
    count = math.prod(extents)
    if period is not None and period < 1:
        raise CheckError(f"iota period {period} must be at least 1")
    if is_float(element):
        start = require_float(element, offset, "iota offset")
        stride = require_float(element, step, "iota step")
        positions = _positions(count, period).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            values = round_floats(element, start + positions * stride)
        return HostTensor(element, values.reshape(extents))
    first = require_integer(element, offset, "iota offset")
    increment = _require_i64(step, "iota step")
    last_position = (count if period is None else min(count, period)) - 1
    _check_last(element, first, increment, last_position)
    integers = np.int64(first) + _positions(count, period) * np.int64(increment)
    return HostTensor(element, integers.astype(element.dtype).reshape(extents))


def random_uniform(element: ScalarFormat, shape: Sequence[int], seed: int, low: object, high: object) -> HostTensor:
    """Values drawn uniformly between `low` and `high`, from the stream of `seed` (modulo 2^64).

    Integers include both bounds: `low + word mod (high - low + 1)`. Floats take the upper 53 bits
    of the word as a fraction of [0, 1): `low + fraction * (high - low)` in `f64`, then rounded to the
    element type (which may round up to `high`). Raises `CheckError` for bounds that are out of
    order, not finite, outside the element type, or that span all 64-bit integers.
    """
    require_element(element, GENERATED_ELEMENTS, "check.generate.random.uniform")
    extents = resolve_shape(element, shape)
    count = math.prod(extents)
    if is_float(element):
        span = _float_span(element, low, high)
        fractions = (random_words(seed, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        values = round_floats(element, span[0] + fractions * (span[1] - span[0]))
        return HostTensor(element, values.reshape(extents))
    first = require_integer(element, low, "lower bound")
    last = require_integer(element, high, "upper bound")
    _check_order(first, last)
    choices = last - first + 1
    if choices > (1 << 64) - 1:
        raise CheckError(f"the range {first} to {last} spans all 64-bit integers; narrow it")
    drawn = random_words(seed, count) % np.uint64(choices)
    # Wrapping addition in 64 bits is exact here: the true sum lies between the bounds.
    integers = (drawn + np.uint64(first & ((1 << 64) - 1))).view(np.int64)
    return HostTensor(element, integers.astype(element.dtype).reshape(extents))


def _constant(element: ScalarFormat, extents: tuple[int, ...], value: bool | int | float) -> HostTensor:
    if is_float(element):
        stored = round_floats(element, np.array(value, dtype=np.float64))
        return HostTensor(element, np.full(extents, stored))
    return HostTensor(element, np.full(extents, value, dtype=element.dtype))


def _positions(count: int, period: int | None) -> NDArray[Any]:
    positions = np.arange(count, dtype=np.int64)
    return positions if period is None or period >= count else positions % period


def _require_i64(value: object, subject: str) -> int:
    """An increment may leave a narrow element type (a large step may be taken only once), not 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise CheckError(f"{subject} must be an integer, not {value!r}")
    if not I64_MIN <= value <= I64_MAX:
        raise CheckError(f"{subject} {value} does not fit 64 bits")
    return value


def _check_last(element: ScalarFormat, first: int, increment: int, last_position: int) -> None:
    """The values are monotonic, and the first is in range: only the last can leave it."""
    if last_position < 1:
        return
    product = last_position * increment
    last = first + product
    if not (I64_MIN <= product <= I64_MAX and I64_MIN <= last <= I64_MAX):
        raise CheckError(f"iota value {first} + {last_position} * {increment} overflows 64 bits")
    if not element.minimum <= last <= element.maximum:
        raise CheckError(
            f"iota value {last} of element {last_position} is outside the range of {element.name} "
            f"({element.minimum} to {element.maximum})"
        )


def _float_span(element: ScalarFormat, low: object, high: object) -> tuple[float, float]:
    first = require_float(element, low, "lower bound")
    last = require_float(element, high, "upper bound")
    for bound in (first, last):
        if not math.isfinite(bound):
            raise CheckError(f"random bound {bound} is not finite")
        stored = round_floats(element, np.array(bound, dtype=np.float64))
        if np.isinf(floats.values(element, stored)):
            raise CheckError(f"random bound {bound} is outside the range of {element.name}")
    _check_order(first, last)
    if not math.isfinite(last - first):
        raise CheckError(f"the width of the range {first} to {last} overflows f64")
    return first, last


def _check_order(low: float, high: float) -> None:
    if low > high:
        raise CheckError(f"the lower bound {low} exceeds the upper bound {high}")
