"""Applying numeric operations to runtime values and reporting results that the language leaves undefined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from loom.evaluate.faults import FaultCode
from loom.evaluate.numeric import NumericOp, Overflow, floats
from loom.evaluate.numeric.formats import Array, Kind
from loom.evaluate.numeric.outcome import FaultKind, Outcome
from loom.evaluate.values import format_of, vector_rank
from loom.ir.core import Op, Value

if TYPE_CHECKING:
    from loom.evaluate.frame import Frame

_OVERFLOW: Final = {"nsw": Overflow.NSW, "nuw": Overflow.NUW}


def overflow_flags(words: object) -> int:
    """The promises about integers among flag words."""
    if not isinstance(words, tuple):
        return 0
    flags = 0
    for word in words:
        flags |= _OVERFLOW.get(word, 0)
    return flags


# Promises about floats: what compilers take for granted, by the words that say so. Other words only permit.
_PROMISES: Final = (
    (FaultKind.NAN, frozenset({"nnan", "fast"}), np.isnan),
    (FaultKind.INFINITE, frozenset({"ninf", "fast"}), np.isinf),
)


def check_float_promises(frame: Frame, op: Op, operands: Sequence[Array], results: Sequence[Array]) -> None:
    """Fault if an operand or a result is what fast-math flags promise that it is not."""
    words = op.attribute("flags") if "flags" in op.spec.attribute_index else None
    if not isinstance(words, tuple):
        return
    for kind, saying, found in _PROMISES:
        if saying.isdisjoint(words):
            continue
        for value, array in zip((*op.operands, *op.results), (*operands, *results), strict=True):
            format = format_of(value.type)
            if format.kind is not Kind.FLOAT:
                continue
            bad = found(floats.values(format, array))
            lane = frame.offender(bad, vector_rank(value.type))
            if lane is not None:
                reason = f"%{value.name or '?'} is {kind.value}"
                raise frame.fault(FaultCode.UNDEFINED_RESULT, op, f"'{op.name}': {reason}", lane, reason=kind.value)


def apply_numeric(
    frame: Frame, op: Op, operation: NumericOp, operands: Sequence[Array], parameters: Mapping[str, object]
) -> Array:
    """Evaluate a numeric operation on the operands of ``op``; an undefined result in an active lane is a fault."""
    formats = [format_of(v.type) for v in op.operands]
    given = {key: value for key, value in parameters.items() if value is not None}
    if "flags" in op.spec.attribute_index and "flags" in operation.optional:
        given["flags"] = overflow_flags(op.attribute("flags"))
    outcome = operation.apply(operands, formats, format_of(op.results[0].type), **given)
    if outcome.faults:
        report_faults(frame, op, outcome, operands)
    check_float_promises(frame, op, operands, (outcome.value,))
    return outcome.value


def report_faults(frame: Frame, op: Op, outcome: Outcome, operands: Sequence[Array]) -> None:
    """Raise the diagnostic of the first fault of an active lane, if there is one."""
    rank = vector_rank(op.results[0].type)
    for fault in outcome.faults:
        lane = frame.offender(fault.mask, rank)
        if lane is not None:
            shown = ", ".join(
                f"%{v.name or '?'} = {value_text(v, a, lane)}" for v, a in zip(op.operands, operands, strict=True)
            )
            raise frame.fault(
                FaultCode.UNDEFINED_RESULT,
                op,
                f"'{op.name}': {fault.kind.value}; {shown}",
                lane,
                reason=fault.kind.value,
            )


def value_text(operand: Value, array: Array, lane: int) -> str:
    """The value of one lane as text."""
    format = format_of(operand.type)
    if array.ndim > vector_rank(operand.type):
        array = array[lane]
    if format.kind is Kind.FLOAT:
        array = floats.to_f64(format, np.asarray(array))
    return str(array.tolist())
