"""Combining kinds of reductions and scans, and atomic kinds of read-modify-writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from loom.evaluate.numeric import bits, float_arithmetic, floats, integers
from loom.evaluate.numeric.formats import I1, Array, Kind, ScalarFormat
from loom.evaluate.numeric.operation import NumericOp, table
from loom.evaluate.numeric.outcome import Call


@attrs.frozen
class CombiningKind:
    """A kind of reduction or scan: its number, its operation, and its neutral element.

    `neutral` is a number, or the name of a property of the format (`minimum`, `maximum`).
    """

    number: int
    operation: NumericOp
    neutral: float | str

    @property
    def name(self) -> str:
        """The keyword."""
        return self.operation.name

    @property
    def domain(self) -> Kind:
        """INTEGER or FLOAT."""
        return self.operation.operands[0] & Kind.PAYLOAD

    def identity(self, format: ScalarFormat) -> Array:
        """The stored neutral element of the format as a 0-d array. Raises TypeError for the wrong family."""
        if not format.kind & self.domain:
            raise TypeError(f"{self.name} does not combine {format.name}")
        if format.kind is Kind.FLOAT:
            return np.asarray(floats.from_f64(format, np.asarray(self.neutral, dtype=np.float64)))
        value = getattr(format, self.neutral) if isinstance(self.neutral, str) else self.neutral
        return np.asarray(bool(value) if format is I1 else value, dtype=format.dtype)

    def combine(self, format: ScalarFormat, a: Any, b: Any) -> Array:
        """Combine stored values lane by lane (there are no faults in these kinds)."""
        return self.operation.apply((a, b), format).value


_SOURCES = {**integers.OPERATIONS, **bits.OPERATIONS, **float_arithmetic.OPERATIONS}
_INFINITY = float("inf")

#: Names and neutral elements in the order of the kinds' numbers. -1 is all ones in every integer type.
_NEUTRAL: tuple[tuple[str, float | str], ...] = (
    ("addi", 0),
    ("addf", 0.0),
    ("muli", 1),
    ("mulf", 1.0),
    ("minsi", "maximum"),
    ("maxsi", "minimum"),
    ("minui", -1),
    ("maxui", 0),
    ("andi", -1),
    ("ori", 0),
    ("xori", 0),
    ("minimumf", _INFINITY),
    ("maximumf", -_INFINITY),
    ("minnumf", _INFINITY),
    ("maxnumf", -_INFINITY),
)

COMBINING_KINDS: Mapping[str, CombiningKind] = {
    name: CombiningKind(number, _SOURCES[name], neutral) for number, (name, neutral) in enumerate(_NEUTRAL)
}


def fold(kind: CombiningKind, format: ScalarFormat, initial: Any, values: Array, axis: int = -1) -> Array:
    """Combine the values along an axis in lane order, starting from `initial` (shaped like the other axes).

    The order is part of the meaning for floats. With zero lanes the result is the initial value.
    """
    lanes = np.moveaxis(np.asarray(values), axis, 0)
    result = np.broadcast_to(np.asarray(initial, dtype=format.dtype), lanes.shape[1:])
    for lane in lanes:
        result = kind.combine(format, result, lane)
    return np.array(result)


def _exchange(call: Call, old: Array, operand: Array) -> Array:
    return np.broadcast_to(operand, np.broadcast_shapes(old.shape, operand.shape))


_EXCHANGES = table(
    NumericOp("xchgi", (Kind.INTEGER, Kind.INTEGER), _exchange),
    NumericOp("xchgf", (Kind.FLOAT, Kind.FLOAT), _exchange),
)

#: The new memory value as an operation on (old, operand), in the order of the kinds' numbers.
ATOMIC_KINDS: Mapping[str, NumericOp] = {
    name: (_EXCHANGES.get(name) or _SOURCES[name])
    for name in (
        "xchgi",
        "xchgf",
        "addi",
        "addf",
        "subi",
        "andi",
        "ori",
        "xori",
        "minsi",
        "maxsi",
        "minui",
        "maxui",
        "minimumf",
        "maximumf",
        "minnumf",
        "maxnumf",
    )
}
