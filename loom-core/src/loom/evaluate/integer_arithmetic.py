"""Integer operations on Python integers: what launch configurations compute with.

Tools on the compile path use it, so it must not import NumPy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from loom.evaluate.faults import unsupported
from loom.ir.core import Op
from loom.ir.types import INDEX, INTEGERS, OFFSET, ScalarType, Type


def lowest(type_: ScalarType) -> int:
    """The smallest value of an integer or address type (``i1``: 0)."""
    return 0 if type_ is OFFSET or type_.width == 1 else -(1 << (type_.width - 1))


def highest(type_: ScalarType) -> int:
    """The largest value of an integer or address type (``i1``: 1)."""
    return 1 if type_.width == 1 else (1 << (type_.width - 1)) - 1


def wrapped_to(value: int, type_: ScalarType) -> int:
    """Reduce modulo 2^width into the signed domain (``i1``: 0 or 1)."""
    value &= (1 << type_.width) - 1
    return value if type_.width == 1 or value <= highest(type_) else value - (1 << type_.width)


def unsigned_reading(value: int, type_: ScalarType) -> int:
    """The value as an unsigned number of the type's width."""
    return value & ((1 << type_.width) - 1)


def signed_reading(value: int, type_: ScalarType) -> int:
    """The value as a signed number (``i1``: 0 or -1)."""
    return -value if type_.width == 1 else value


class Undefined(Exception):
    """An operation without a defined result; the text says why."""


def _divide(a: int, b: int) -> int:
    """Quotient toward zero."""
    if b == 0:
        raise Undefined("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int:
    return a - b * _divide(a, b)


def _floor_divide(a: int, b: int) -> int:
    if b == 0:
        raise Undefined("division by zero")
    return a // b


def _index_operands(a: int, b: int) -> None:
    if b == 0:
        raise Undefined("division by zero")
    if a < 0 or b < 0:
        raise Undefined("index division needs a non-negative dividend and a positive divisor")


def _index_divide(a: int, b: int) -> int:
    _index_operands(a, b)
    return a // b


def _index_remainder(a: int, b: int) -> int:
    _index_operands(a, b)
    return a % b


def _amount(b: int, width: int) -> int:
    if not 0 <= b < width:
        raise Undefined(f"shift amount {b} outside 0 to {width - 1}")
    return b


Arithmetic = Callable[..., int]

# Address arithmetic must fit its type; the exact mathematical result is checked afterwards.
_ADDRESS: Final[dict[str, Arithmetic]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _index_divide,
    "rem": _index_remainder,
    "min": min,
    "max": max,
    "madd": lambda a, b, c: a * b + c,
    "scale": operator.mul,
}
# Payload arithmetic on signed readings; the result wraps.
_SIGNED: Final[dict[str, Arithmetic]] = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "fmai": lambda a, b, c: a * b + c,
    "divsi": _divide,
    "remsi": _remainder,
    "floordivsi": _floor_divide,
    "ceildivsi": lambda a, b: -_floor_divide(-a, b),
    "minsi": min,
    "maxsi": max,
    "negi": operator.neg,
    "absi": abs,
    "signi": lambda a: (a > 0) - (a < 0),
    "andi": operator.and_,
    "ori": operator.or_,
    "xori": operator.xor,
}
_QUOTIENTS: Final = frozenset({"divsi", "floordivsi", "ceildivsi"})
_UNSIGNED: Final[dict[str, Arithmetic]] = {
    "divui": _floor_divide,
    "remui": lambda a, b: a - b * _floor_divide(a, b),
    "minui": min,
    "maxui": max,
    "ceildivui": lambda a, b: -_floor_divide(-a, b),
}
# Bit operations on unsigned readings with the width as last argument.
_BITS: Final[dict[str, Arithmetic]] = {
    "shli": lambda a, b, width: a << _amount(b, width),
    "shrui": lambda a, b, width: a >> _amount(b, width),
    "rotli": lambda a, b, width: (a << b % width) | (a >> (width - b % width)),
    "rotri": lambda a, b, width: (a >> b % width) | (a << (width - b % width)),
    "ctlzi": lambda a, width: width - a.bit_length(),
    "cttzi": lambda a, width: (a & -a).bit_length() - 1 if a else width,
    "ctpopi": lambda a, width: a.bit_count(),
}
COMPARISONS: Final[dict[str, Callable[[int, int], bool]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def arithmetic(op: Op, operands: list[Any]) -> int:
    """The result of an operation on integers.

    Raises `Undefined` when it has none, and a located diagnostic for an operation that does not compute integers.
    """
    dialect, _, name = op.name.partition(".")
    type_ = op.results[0].type if op.results else None
    if (
        dialect not in ("index", "scalar")
        or not isinstance(type_, ScalarType)
        or type_.kind == "float"
        or not all(is_integer(v.type) for v in op.operands)
    ):
        raise unsupported(op, f"'{op.name}' has no place in a launch configuration, which computes integers")
    if name in _ADDRESS and dialect == "index":
        value = _ADDRESS[name](*operands)
        if not lowest(type_) <= value <= highest(type_):
            raise Undefined(f"the result {value} does not fit {type_}")
        return value
    if name in _SIGNED:
        value = _SIGNED[name](*(signed_reading(v, type_) for v in operands))
        if name in _QUOTIENTS and type_.width > 1 and value > highest(type_):
            raise Undefined("the signed minimum divided by -1 does not fit its type")
    elif name in _UNSIGNED:
        value = _UNSIGNED[name](*(unsigned_reading(v, type_) for v in operands))
    elif name in _BITS:
        value = _BITS[name](*(unsigned_reading(v, type_) for v in operands), type_.width)
    elif name == "shrsi":
        value = signed_reading(operands[0], type_) >> _amount(unsigned_reading(operands[1], type_), type_.width)
    else:
        raise unsupported(op, f"'{op.name}' is not evaluated in a launch configuration")
    if type_ is INDEX and name == "shli" and not lowest(type_) <= operands[0] << operands[1] <= highest(type_):
        raise Undefined(f"the result {operands[0] << operands[1]} does not fit {type_}")
    _check_wrap(op, name, type_, operands, value)
    return wrapped_to(value, type_)


def _check_wrap(op: Op, name: str, type_: ScalarType, operands: list[int], value: int) -> None:
    """Hold the author to ``nsw`` and ``nuw``."""
    flags = op.attribute("flags") if "flags" in op.spec.attribute_index else None
    if not isinstance(flags, tuple):
        return
    signed, unsigned = value, value
    if name == "shli":
        signed, unsigned = (
            signed_reading(operands[0], type_) << operands[1],
            unsigned_reading(operands[0], type_) << operands[1],
        )
    elif name in _SIGNED:
        unsigned = _SIGNED[name](*(unsigned_reading(v, type_) for v in operands))
    low, high = (-1, 0) if type_.width == 1 else (lowest(type_), highest(type_))
    if "nsw" in flags and not low <= signed <= high:
        raise Undefined("the result wraps although `nsw` promises that it does not")
    if "nuw" in flags and not 0 <= unsigned < 1 << type_.width:
        raise Undefined("the result wraps although `nuw` promises that it does not")


def is_integer(type_: Type) -> bool:
    """Whether values of the type are integers or addresses."""
    return type_ in INTEGERS or type_ in (INDEX, OFFSET)
