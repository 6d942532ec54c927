"""How an operation reports lanes whose result the language leaves undefined.

The protocol is the same for every operation: the value array always has a lane for every input lane, and each
kind of undefined behaviour that occurred comes with the mask of lanes where it occurred. The value of such a
lane is an arbitrary placeholder. A caller that evaluates under a mask of active lanes ignores faults of
inactive lanes with `fault.mask & active`; a caller with an active fault stops and says `fault.kind.value`.
"""

from __future__ import annotations

import enum

import attrs
import numpy as np

from loom.evaluate.numeric.formats import Array, ScalarFormat


class FaultKind(enum.Enum):
    """What went wrong in a lane; the value is the sentence for the user."""

    DIVISION_BY_ZERO = "division by zero"
    QUOTIENT_OVERFLOW = "the signed minimum divided by -1 does not fit its type"
    SHIFT_AMOUNT = "shift amount outside 0 to width - 1"
    SIGNED_WRAP = "the result wraps although `nsw` promises that it does not"
    UNSIGNED_WRAP = "the result wraps although `nuw` promises that it does not"
    NAN = "a NaN although `nnan` promises that there is none"
    INFINITE = "an infinity although `ninf` promises that there is none"
    FLOAT_TO_INTEGER = "the floating-point value does not fit the integer type"
    ADDRESS_RANGE = "the mathematical result does not fit the index or offset type"
    INDEX_DIVISION = "index division needs a non-negative dividend and a positive divisor"
    TABLE_INDEX = "table index outside the table"
    THRESHOLDS = "the thresholds are not in ascending order"


@attrs.frozen
class Fault:
    """One kind of undefined behaviour and the lanes in which it occurred (at least one)."""

    kind: FaultKind
    mask: Array


@attrs.frozen
class Outcome:
    """The result of an operation: the stored value per lane, and the faults (none in a defined run)."""

    value: Array
    faults: tuple[Fault, ...] = ()


@attrs.define
class Call:
    """What an operation's function sees of one application: the formats, and where to report faults."""

    formats: tuple[ScalarFormat, ...]
    result: ScalarFormat
    faults: list[Fault] = attrs.field(factory=list)

    @property
    def format(self) -> ScalarFormat:
        """The format of the first operand, which for most operations is that of all operands."""
        return self.formats[0]

    def report(self, kind: FaultKind, mask: Array | None) -> None:
        """Record that the lanes of the mask are undefined; without a set lane nothing is recorded."""
        if mask is not None and mask.any():
            self.faults.append(Fault(kind, np.asarray(mask)))
