"""What predicates mean (language reference, part 1, section 2.12).

The table is written with operators that Python integers, floats and NumPy arrays share, so that launch
configurations (no NumPy) and the evaluator (arrays of lanes) read the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from loom.ir.attributes import Predicate, Ref
from loom.ir.core import Value
from loom.ir.types import ScalarType, Type

_INFINITY: Final = float("inf")


def _multiple_of(a: Any, b: Any) -> Any:
    # A divisor that is not positive makes the predicate false; 1 stands in so that % is defined.
    positive = b > 0
    return positive & (a % (b * positive + (b <= 0)) == 0)


MEANINGS: Final[dict[str, Callable[..., Any]]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    # Operands of these arrive as unsigned readings of their bits.
    "ult": lambda a, b: a < b,
    "ule": lambda a, b: a <= b,
    "ugt": lambda a, b: a > b,
    "uge": lambda a, b: a >= b,
    "multiple_of": _multiple_of,
    "power_of_two": lambda a: (a > 0) & ((a & (a - 1)) == 0),
    "range": lambda v, low, high: (low <= v) & (v <= high),
    "not_nan": lambda a: a == a,
    "not_inf": lambda a: abs(a) != _INFINITY,
    "finite": lambda a: abs(a) < _INFINITY,
}

UNSIGNED: Final = frozenset({"ult", "ule", "ugt", "uge"})


def predicate_text(predicate: Predicate, values: Sequence[Value]) -> str:
    """The predicate as written, with the names of the values it speaks of."""
    parts = [f"%{values[a.index].name or '?'}" if isinstance(a, Ref) else str(a) for a in predicate.args]
    return f"{predicate.name}({', '.join(parts)})"


def failing_scalar_predicate(
    predicates: Iterable[Predicate], values: Sequence[Any], operands: Sequence[Value]
) -> str | None:
    """The text of the first predicate that is false for Python numbers, or ``None`` when all hold."""
    types = [v.type for v in operands]
    for predicate in predicates:
        arguments = [values[a.index] if isinstance(a, Ref) else a for a in predicate.args]
        if predicate.name in UNSIGNED:
            mask = (1 << _width(predicate, types)) - 1
            arguments = [a & mask for a in arguments]
        if not MEANINGS[predicate.name](*arguments):
            return predicate_text(predicate, operands)
    return None


def _width(predicate: Predicate, types: Sequence[Type]) -> int:
    """Bits of the first operand of an unsigned comparison."""
    for argument in predicate.args:
        if isinstance(argument, Ref):
            type_ = types[argument.index]
            if isinstance(type_, ScalarType):
                return type_.width
    return 64
