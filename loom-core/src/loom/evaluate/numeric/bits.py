"""Bitwise operations, shifts, rotations, bit counts and bit fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from loom.evaluate.numeric import wide
from loom.evaluate.numeric.formats import (
    Array,
    Kind,
    ScalarFormat,
    from_bits,
    signed,
    to_bits,
    unsigned,
    wrapped,
)
from loom.evaluate.numeric.integers import Overflow
from loom.evaluate.numeric.operation import NumericOp, ResultRule, table
from loom.evaluate.numeric.outcome import Call, FaultKind


def _bitwise(operator: Callable[[Array, Array], Any]) -> Callable[[Call, Array, Array], Array]:
    def apply(call: Call, a: Array, b: Array) -> Array:
        return np.asarray(operator(a, b))

    return apply


def _shift_amount(call: Call, amount: Array) -> Array:
    """The amounts as unsigned numbers below the width; reports the others and shifts them by 0."""
    counts = unsigned(call.format, amount)
    oversized = counts >= counts.dtype.type(call.format.bits)
    call.report(FaultKind.SHIFT_AMOUNT, oversized)
    return np.where(oversized, counts.dtype.type(0), counts)


def _shli(call: Call, value: Array, amount: Array, flags: int = 0) -> Array:
    format = call.format
    count = _shift_amount(call, amount)
    if format.kind is Kind.INDEX or flags:
        _check_shift(call, value, count, flags)
    return from_bits(format, to_bits(format, value) << count)


def _check_shift(call: Call, value: Array, count: Array, flags: int) -> None:
    """Report the lanes in which value * 2**count leaves the type although a flag or the type forbids it."""
    format = call.format
    powers = np.left_shift(np.uint64(1), count.astype(np.uint64))
    if format.kind is Kind.INDEX or flags & Overflow.NSW:
        kind = FaultKind.ADDRESS_RANGE if format.kind is Kind.INDEX else FaultKind.SIGNED_WRAP
        factors = (signed(format, value), powers)
        call.report(kind, wide.leaves(wide.MULTIPLY, factors, format.minimum, format.maximum))
    if flags & Overflow.NUW:
        factors = (unsigned(format, value), powers)
        call.report(FaultKind.UNSIGNED_WRAP, wide.leaves(wide.MULTIPLY, factors, 0, format.unsigned_maximum))


def _shrsi(call: Call, value: Array, amount: Array) -> Array:
    carrier = signed(call.format, value)
    return wrapped(call.format, carrier >> _shift_amount(call, amount).astype(carrier.dtype))


def _shrui(call: Call, value: Array, amount: Array) -> Array:
    return from_bits(call.format, to_bits(call.format, value) >> _shift_amount(call, amount))


def _rotate_left(format: ScalarFormat, value: Array, count: Array) -> Array:
    """Rotate by a count that is taken modulo the width (a power of two, so a mask)."""
    patterns = to_bits(format, value)
    mask = patterns.dtype.type(format.bits - 1)
    left = count & mask
    right = (patterns.dtype.type(format.bits) - left) & mask
    return from_bits(format, (patterns << left) | (patterns >> right))


def _rotli(call: Call, value: Array, amount: Array) -> Array:
    return _rotate_left(call.format, value, unsigned(call.format, amount))


def _rotri(call: Call, value: Array, amount: Array) -> Array:
    return _rotate_left(call.format, value, np.negative(unsigned(call.format, amount)))


def population_count(patterns: Array) -> Array:
    """The number of set bits of each `uint64`, by adding neighbouring fields of 1, 2 and 4 bits."""
    ones = patterns - ((patterns >> np.uint64(1)) & np.uint64(0x5555555555555555))
    pairs = np.uint64(0x3333333333333333)
    ones = (ones & pairs) + ((ones >> np.uint64(2)) & pairs)
    ones = (ones + (ones >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.asarray((ones * np.uint64(0x0101010101010101)) >> np.uint64(56))


def _ctpopi(call: Call, value: Array) -> Array:
    return wrapped(call.format, population_count(unsigned(call.format, value).astype(np.uint64)))


def _ctlzi(call: Call, value: Array) -> Array:
    smeared = unsigned(call.format, value).astype(np.uint64)
    for distance in (1, 2, 4, 8, 16, 32):
        smeared = smeared | (smeared >> np.uint64(distance))
    return wrapped(call.format, np.uint64(call.format.bits) - population_count(smeared))


def _cttzi(call: Call, value: Array) -> Array:
    bits = unsigned(call.format, value).astype(np.uint64)
    below_lowest = ~bits & (bits - np.uint64(1))
    return wrapped(call.format, np.minimum(population_count(below_lowest), np.uint64(call.format.bits)))


def _check_range(format: ScalarFormat, offset: int, width: int) -> None:
    if not (offset >= 0 and width > 0 and offset + width <= format.bits):
        raise TypeError(f"bits {offset} to {offset + width - 1} are not in {format.name}")


def _field(call: Call, source: Array, offset: int, width: int) -> Array:
    """Bits [offset, offset + width) of the source as `uint64`."""
    _check_range(call.format, offset, width)
    bits = unsigned(call.format, source).astype(np.uint64)
    return np.asarray((bits >> np.uint64(offset)) & np.uint64((1 << width) - 1))


def _extractu(call: Call, source: Array, offset: int, width: int) -> Array:
    return wrapped(call.result, _field(call, source, offset, width))


def _extracts(call: Call, source: Array, offset: int, width: int) -> Array:
    return wrapped(call.result, sign_extended(_field(call, source, offset, width), width))


def sign_extended(fields: Array, width: int) -> Array:
    """`uint64` fields of `width` bits as `int64`, bit width - 1 being the sign."""
    top = np.int64(64 - width)
    return np.asarray((fields.view(np.int64) << top) >> top)


def _insert(call: Call, field: Array, base: Array, offset: int, width: int) -> Array:
    _check_range(call.result, offset, width)
    kept = np.uint64(((1 << 64) - 1) ^ (((1 << width) - 1) << offset))
    low = unsigned(call.formats[0], field).astype(np.uint64) & np.uint64((1 << width) - 1)
    rest = unsigned(call.result, base).astype(np.uint64) & kept
    return wrapped(call.result, rest | (low << np.uint64(offset)))


_BITS = Kind.INTEGER | Kind.INDEX
_UNARY = (_BITS,)
_BINARY = (_BITS, _BITS)
_RANGE = ("offset", "width")

OPERATIONS = table(
    NumericOp("andi", _BINARY, _bitwise(np.bitwise_and)),
    NumericOp("ori", _BINARY, _bitwise(np.bitwise_or)),
    NumericOp("xori", _BINARY, _bitwise(np.bitwise_xor)),
    NumericOp("shli", _BINARY, _shli, optional=("flags",)),
    NumericOp("shrsi", _BINARY, _shrsi),
    NumericOp("shrui", _BINARY, _shrui),
    NumericOp("rotli", _BINARY, _rotli),
    NumericOp("rotri", _BINARY, _rotri),
    NumericOp("ctlzi", _UNARY, _ctlzi),
    NumericOp("cttzi", _UNARY, _cttzi),
    NumericOp("ctpopi", _UNARY, _ctpopi),
    NumericOp("bitfield.extractu", (Kind.INTEGER,), _extractu, ResultRule.DECLARED, required=_RANGE),
    NumericOp("bitfield.extracts", (Kind.INTEGER,), _extracts, ResultRule.DECLARED, required=_RANGE),
    NumericOp("bitfield.insert", (Kind.INTEGER, Kind.INTEGER), _insert, required=_RANGE),
)
