"""The operations of `index` and `offset` values (`index.add` is keyed "add", and so on).

Address arithmetic never wraps: a mathematical result outside the type makes the program invalid and is
reported. `index` is evaluated in 64 bits, `offset` in 0 to 2**63 - 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from loom.evaluate.numeric import integers, wide
from loom.evaluate.numeric.formats import I1, Array, Kind, signed, unsigned, wrapped
from loom.evaluate.numeric.operation import Function, NumericOp, ResultRule, table
from loom.evaluate.numeric.outcome import Call, FaultKind
from loom.evaluate.numeric.wide import Exact


def _checked(exact: Exact, native: Callable[..., Array]) -> Function:
    """Compute in 64 bits; report the lanes in which the exact result does not fit the result's type."""

    def apply(call: Call, *operands: Array) -> Array:
        beyond = wide.leaves(exact, operands, call.result.minimum, call.result.maximum)
        call.report(FaultKind.ADDRESS_RANGE, beyond)
        return native(*operands)

    return apply


_multiply = _checked(wide.MULTIPLY, np.multiply)


def _division_operands(call: Call, a: Array, b: Array) -> tuple[Array, Array]:
    call.report(FaultKind.DIVISION_BY_ZERO, b == 0)
    bad = (a < 0) | (b <= 0)
    call.report(FaultKind.INDEX_DIVISION, bad & (b != 0))
    return np.where(bad, np.int64(0), a), np.where(bad, np.int64(1), b)


def _div(call: Call, a: Array, b: Array) -> Array:
    return np.asarray(np.floor_divide(*_division_operands(call, a, b)))


def _rem(call: Call, a: Array, b: Array) -> Array:
    return np.asarray(np.remainder(*_division_operands(call, a, b)))


def _min(call: Call, a: Array, b: Array) -> Array:
    return np.asarray(np.minimum(a, b))


def _max(call: Call, a: Array, b: Array) -> Array:
    return np.asarray(np.maximum(a, b))


def _cast(call: Call, value: Array) -> Array:
    source, result = call.format, call.result
    if not (source.kind | result.kind) & Kind.ADDRESS:
        raise TypeError(f"cast needs an index or offset side, not {source.name} to {result.name}")
    if result.kind is Kind.INTEGER:
        return wrapped(result, value)
    # An i1 is a truth value here, 0 or 1 in both directions of extension.
    zero_extends = result.kind is Kind.OFFSET or source is I1
    extended = unsigned(source, value) if zero_extends and source.bits < 64 else signed(source, value)
    address = extended.astype(np.int64)
    call.report(FaultKind.ADDRESS_RANGE, address < result.minimum)
    return address


_INDICES = (Kind.INDEX, Kind.INDEX)
_ADDRESSES = (Kind.ADDRESS, Kind.ADDRESS)
_CAST = (Kind.INTEGER | Kind.ADDRESS,)

OPERATIONS = table(
    NumericOp("add", _ADDRESSES, _checked(wide.ADD, np.add)),
    NumericOp("sub", _ADDRESSES, _checked(wide.SUBTRACT, np.subtract)),
    NumericOp("mul", _INDICES, _multiply),
    NumericOp("div", _INDICES, _div),
    NumericOp("rem", _INDICES, _rem),
    NumericOp("min", _INDICES, _min),
    NumericOp("max", _INDICES, _max),
    NumericOp("madd", (Kind.INDEX, Kind.INDEX, Kind.INDEX), _checked(wide.MULTIPLY_ADD, lambda a, b, c: a * b + c)),
    # A count times a byte stride: the result has the format of the last operand, offset.
    NumericOp("scale", (Kind.INDEX, Kind.OFFSET), _multiply),
    NumericOp("cast", _CAST, _cast, ResultRule.DECLARED),
    NumericOp("cmp", _ADDRESSES, integers.compare, ResultRule.BOOLEAN, required=("predicate",)),
)
