"""Integer arithmetic, comparison and selection modulo 2**width (`addi` ... `signi`, `cmpi`)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from loom.evaluate.numeric import wide
from loom.evaluate.numeric.formats import I1, Array, Kind, ScalarFormat, signed, unsigned, wrapped
from loom.evaluate.numeric.operation import NumericOp, ResultRule, table
from loom.evaluate.numeric.outcome import Call, FaultKind
from loom.evaluate.numeric.wide import Exact


class Overflow(enum.IntFlag):
    """The promises of an integer operation, with the numbers of the language."""

    NONE = 0
    NSW = 1
    NUW = 2


def check_overflow(call: Call, flags: int, exact: Exact, *operands: Array) -> None:
    """Report the lanes whose exact result breaks a promised `nsw` or `nuw`."""
    if not flags:
        return
    format = call.result
    if flags & Overflow.NSW:
        readings = [signed(format, operand) for operand in operands]
        call.report(FaultKind.SIGNED_WRAP, wide.leaves(exact, readings, format.minimum, format.maximum))
    if flags & Overflow.NUW:
        readings = [unsigned(format, operand) for operand in operands]
        call.report(FaultKind.UNSIGNED_WRAP, wide.leaves(exact, readings, 0, format.unsigned_maximum))


def _addi(call: Call, a: Array, b: Array, flags: int = 0) -> Array:
    check_overflow(call, flags, wide.ADD, a, b)
    return wrapped(call.format, signed(call.format, a) + signed(call.format, b))


def _subi(call: Call, a: Array, b: Array, flags: int = 0) -> Array:
    check_overflow(call, flags, wide.SUBTRACT, a, b)
    return wrapped(call.format, signed(call.format, a) - signed(call.format, b))


def _muli(call: Call, a: Array, b: Array, flags: int = 0) -> Array:
    check_overflow(call, flags, wide.MULTIPLY, a, b)
    return wrapped(call.format, signed(call.format, a) * signed(call.format, b))


def _fmai(call: Call, a: Array, b: Array, c: Array, flags: int = 0) -> Array:
    check_overflow(call, flags, wide.MULTIPLY_ADD, a, b, c)
    format = call.format
    return wrapped(format, signed(format, a) * signed(format, b) + signed(format, c))


def _signed_operands(call: Call, a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Signed dividend, divisor (1 for a reported 0), and the lanes of minimum / -1."""
    dividend, divisor = signed(call.format, a), signed(call.format, b)
    zero = divisor == 0
    call.report(FaultKind.DIVISION_BY_ZERO, zero)
    overflow = (dividend == call.format.minimum) & (divisor == -1)
    return dividend, np.where(zero, divisor.dtype.type(1), divisor), overflow


def _signed_quotient(
    rounding: Callable[[Array, Array, Array], Array],
) -> Callable[[Call, Array, Array], Array]:
    """A signed division; `rounding(floor quotient, remainder is non-zero, signs differ)` picks the result."""

    def divide(call: Call, a: Array, b: Array) -> Array:
        dividend, divisor, overflow = _signed_operands(call, a, b)
        call.report(FaultKind.QUOTIENT_OVERFLOW, overflow)
        divisor = np.where(overflow, divisor.dtype.type(1), divisor)
        floor = np.floor_divide(dividend, divisor)
        inexact = floor * divisor != dividend
        return wrapped(call.format, rounding(floor, inexact, (dividend < 0) != (divisor < 0)))

    return divide


def _remsi(call: Call, a: Array, b: Array) -> Array:
    # The remainder of minimum / -1 is 0: only the quotient does not fit.
    dividend, divisor, overflow = _signed_operands(call, a, b)
    return wrapped(call.format, np.fmod(dividend, np.where(overflow, divisor.dtype.type(1), divisor)))


def _unsigned_operands(call: Call, a: Array, b: Array) -> tuple[Array, Array]:
    dividend, divisor = unsigned(call.format, a), unsigned(call.format, b)
    zero = divisor == 0
    call.report(FaultKind.DIVISION_BY_ZERO, zero)
    return dividend, np.where(zero, divisor.dtype.type(1), divisor)


def _divui(call: Call, a: Array, b: Array) -> Array:
    return wrapped(call.format, np.floor_divide(*_unsigned_operands(call, a, b)))


def _remui(call: Call, a: Array, b: Array) -> Array:
    return wrapped(call.format, np.remainder(*_unsigned_operands(call, a, b)))


def _ceildivui(call: Call, a: Array, b: Array) -> Array:
    dividend, divisor = _unsigned_operands(call, a, b)
    quotient = np.floor_divide(dividend, divisor)
    return wrapped(call.format, quotient + (quotient * divisor != dividend))


def _negi(call: Call, a: Array) -> Array:
    return wrapped(call.format, np.negative(signed(call.format, a)))


def _absi(call: Call, a: Array) -> Array:
    return wrapped(call.format, np.abs(signed(call.format, a)))


def _signi(call: Call, a: Array) -> Array:
    return wrapped(call.format, np.sign(signed(call.format, a)))


Reading = Callable[[ScalarFormat, Array], Array]


def _choose(reading: Reading, first: Callable[[Array, Array], Any]) -> Callable[[Call, Array, Array], Array]:
    def choose(call: Call, a: Array, b: Array) -> Array:
        return wrapped(call.format, first(reading(call.format, a), reading(call.format, b)))

    return choose


#: Predicates of `cmpi` and `index.cmp`: signedness of the reading and the comparison.
INTEGER_PREDICATES: Mapping[str, tuple[Reading, Callable[[Array, Array], Any]]] = {
    "eq": (unsigned, np.equal),
    "ne": (unsigned, np.not_equal),
    "slt": (signed, np.less),
    "sle": (signed, np.less_equal),
    "sgt": (signed, np.greater),
    "sge": (signed, np.greater_equal),
    "ult": (unsigned, np.less),
    "ule": (unsigned, np.less_equal),
    "ugt": (unsigned, np.greater),
    "uge": (unsigned, np.greater_equal),
}


def compare(call: Call, a: Array, b: Array, predicate: str) -> Array:
    """Integer comparison; `predicate` is a key of `INTEGER_PREDICATES`."""
    reading, comparison = INTEGER_PREDICATES[predicate]
    return np.asarray(comparison(reading(call.format, a), reading(call.format, b)))


def _select(call: Call, condition: Array, a: Array, b: Array) -> Array:
    if call.format is not I1 or call.formats[1] is not call.formats[2]:
        raise TypeError("select takes an i1 condition and two values of one type")
    return np.where(condition, a, b)


_UNARY = (Kind.INTEGER,)
_BINARY = (Kind.INTEGER, Kind.INTEGER)
_TERNARY = (Kind.INTEGER, Kind.INTEGER, Kind.INTEGER)
_FLAGS = ("flags",)

OPERATIONS = table(
    NumericOp("addi", _BINARY, _addi, optional=_FLAGS),
    NumericOp("subi", _BINARY, _subi, optional=_FLAGS),
    NumericOp("muli", _BINARY, _muli, optional=_FLAGS),
    NumericOp("fmai", _TERNARY, _fmai, optional=_FLAGS),
    NumericOp("divsi", _BINARY, _signed_quotient(lambda floor, inexact, differ: floor + (inexact & differ))),
    NumericOp("ceildivsi", _BINARY, _signed_quotient(lambda floor, inexact, differ: floor + inexact)),
    NumericOp("floordivsi", _BINARY, _signed_quotient(lambda floor, inexact, differ: floor)),
    NumericOp("remsi", _BINARY, _remsi),
    NumericOp("divui", _BINARY, _divui),
    NumericOp("remui", _BINARY, _remui),
    NumericOp("ceildivui", _BINARY, _ceildivui),
    NumericOp("negi", _UNARY, _negi),
    NumericOp("absi", _UNARY, _absi),
    NumericOp("signi", _UNARY, _signi),
    NumericOp("minsi", _BINARY, _choose(signed, np.minimum)),
    NumericOp("maxsi", _BINARY, _choose(signed, np.maximum)),
    NumericOp("minui", _BINARY, _choose(unsigned, np.minimum)),
    NumericOp("maxui", _BINARY, _choose(unsigned, np.maximum)),
    NumericOp("cmpi", _BINARY, compare, ResultRule.BOOLEAN, required=("predicate",)),
    # The condition is i1; values of every type can be selected.
    NumericOp("select", (Kind.INTEGER, Kind.ANY, Kind.ANY), _select),
)
