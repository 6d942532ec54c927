"""Applying numeric operations to runtime values and reporting results that the language leaves undefined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from loom.evaluate.faults import FaultCode
from loom.evaluate.numeric import NumericOp, Overflow
from loom.evaluate.numeric.formats import Array
from loom.evaluate.numeric.outcome import Outcome
from loom.evaluate.values import format_of, vector_rank
from loom.ir.core import Op, Value

if TYPE_CHECKING:
    from loom.evaluate.frame import Frame

_OVERFLOW: Final = {"nsw": Overflow.NSW, "nuw": Overflow.NUW}


def overflow_flags(words: object) -> int:
    """The promises among flag words; fast-math words promise nothing that strict evaluation breaks."""
    if not isinstance(words, tuple):
        return 0
    flags = 0
    for word in words:
        flags |= _OVERFLOW.get(word, 0)
    return flags


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
    from loom.evaluate.numeric import floats
    from loom.evaluate.numeric.formats import Kind

    format = format_of(operand.type)
    if array.ndim > vector_rank(operand.type):
        array = array[lane]
    if format.kind is Kind.FLOAT:
        array = floats.to_f64(format, np.asarray(array))
    return str(array.tolist())
