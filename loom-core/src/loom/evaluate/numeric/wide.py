"""128-bit integers as pairs of 64-bit arrays, to know the exact result of 64-bit arithmetic.

A value is two's complement modulo 2**128. Products of two 64-bit numbers plus a 64-bit number never leave
that range in either signedness, so a result computed here is exact and can be compared with a type's domain.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

import attrs
import numpy as np

from loom.evaluate.numeric.formats import Array

_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_SIGN = np.uint64(63)
_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_ZERO = np.uint64(0)


class Wide(NamedTuple):
    """128-bit integers: the high and the low 64 bits, both `uint64`."""

    high: Array
    low: Array


def from_signed(values: Array) -> Wide:
    """Sign-extend integers of any signed dtype."""
    low = values.astype(np.int64)
    return Wide(np.where(low < 0, _ONES, _ZERO), low.view(np.uint64))


def from_unsigned(values: Array) -> Wide:
    """Zero-extend integers of any unsigned dtype."""
    low = values.astype(np.uint64)
    return Wide(np.zeros_like(low), low)


def add(a: Wide, b: Wide) -> Wide:
    """a + b modulo 2**128."""
    low = a.low + b.low
    carry = (low < a.low).astype(np.uint64)
    return Wide(a.high + b.high + carry, low)


def subtract(a: Wide, b: Wide) -> Wide:
    """a - b modulo 2**128."""
    borrow = (a.low < b.low).astype(np.uint64)
    return Wide(a.high - b.high - borrow, a.low - b.low)


def multiply(a: Wide, b: Wide) -> Wide:
    """a * b modulo 2**128."""
    # The low halves multiply in full by the schoolbook method on 32-bit digits; the cross terms with the high
    # halves only reach the high half, where they may wrap.
    a0, a1 = a.low & _LOW_HALF, a.low >> _HALF
    b0, b1 = b.low & _LOW_HALF, b.low >> _HALF
    middle = a1 * b0 + ((a0 * b0) >> _HALF)
    cross = a0 * b1 + (middle & _LOW_HALF)
    high = a1 * b1 + (middle >> _HALF) + (cross >> _HALF)
    return Wide(high + a.high * b.low + a.low * b.high, a.low * b.low)


@attrs.frozen
class Exact:
    """A multilinear integer function in two exact forms: on Python integers and on arrays of 128 bits."""

    on_integers: Callable[..., int]
    on_wide: Callable[..., Wide]


ADD = Exact(operator.add, add)
SUBTRACT = Exact(operator.sub, subtract)
MULTIPLY = Exact(operator.mul, multiply)
MULTIPLY_ADD = Exact(lambda a, b, c: a * b + c, lambda a, b, c: add(multiply(a, b), c))


def leaves(exact: Exact, operands: Sequence[Array], minimum: int, maximum: int) -> Array | None:
    """Mask of the lanes whose exact result is outside [minimum, maximum]; None if there is none.

    Every operand is extended as its dtype says, signed or unsigned. The bounds lie within -2**63 to
    2**64 - 1.
    """
    if all(operand.size for operand in operands):
        # A multilinear function takes its extremes where every operand is at an end of its range, so a few
        # exact integers usually settle the question for all lanes.
        ends = [(int(operand.min()), int(operand.max())) for operand in operands]
        corners = [exact.on_integers(*corner) for corner in itertools.product(*ends)]
        if minimum <= min(corners) and max(corners) <= maximum:
            return None
    return _outside(exact.on_wide(*map(_extended, operands)), minimum, maximum)


def _extended(values: Array) -> Wide:
    return from_signed(values) if values.dtype.kind == "i" else from_unsigned(values)


def _outside(value: Wide, minimum: int, maximum: int) -> Array:
    if minimum < 0:
        extension = np.where(value.low >> _SIGN != _ZERO, _ONES, _ZERO)
        low = value.low.view(np.int64)
        return np.asarray((value.high != extension) | (low < minimum) | (low > maximum))
    below = value.low < np.uint64(minimum)
    return np.asarray((value.high != _ZERO) | below | (value.low > np.uint64(maximum)))
