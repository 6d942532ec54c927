"""Register tables and numeric transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loom.evaluate.arithmetic import report_faults
from loom.evaluate.faults import unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.numeric import Fault, lanes
from loom.evaluate.numeric.formats import Array
from loom.evaluate.numeric.outcome import Outcome
from loom.evaluate.rules import evaluates
from loom.evaluate.shapes import in_lane_order, with_lane_axis, without_lane_axis
from loom.evaluate.values import RuntimeValue, format_of
from loom.ir.attributes import Encoding


@evaluates("vector.table.lookup")
def table_lookup(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The table entry of every index; an index outside the table is a fault."""
    rank = op.indices.type.rank
    indices = with_lane_axis(operands[1], rank)
    outcome = lanes.table_lookup(
        format_of(op.indices.type), with_lane_axis(operands[0], 1), in_lane_order(indices, rank)
    )
    return (_lanes(frame, op, outcome, indices.shape[1:], operands),)


def _lanes(
    frame: Frame, op: Any, outcome: Outcome, extents: tuple[int, ...], operands: Sequence[RuntimeValue]
) -> RuntimeValue:
    """The value of an outcome in lane order as a vector; its faults are reported."""

    def shaped(values: Array) -> Array:
        return without_lane_axis(values.reshape(values.shape[0], *extents))

    if outcome.faults:
        faults = tuple(Fault(f.kind, shaped(f.mask)) for f in outcome.faults)
        report_faults(frame, op, Outcome(outcome.value, faults), operands)
    return shaped(outcome.value)


@evaluates("vector.table.quantize")
def table_quantize(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """How many thresholds lie below each lane."""
    rank = op.source.type.rank
    source = with_lane_axis(operands[0], rank)
    outcome = lanes.table_quantize(
        format_of(op.source.type),
        format_of(op.results[0].type),
        in_lane_order(source, rank),
        with_lane_axis(operands[1], 1),
        op.nan,
        op.tie,
    )
    return (_lanes(frame, op, outcome, source.shape[1:], operands),)


@evaluates("vector.transform")
def transform(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A Hadamard transform along the last axis."""
    source, encoding = operands
    if not isinstance(encoding, Encoding) or encoding.family != "transform.hadamard":
        raise unsupported(op, f"the numeric transform {encoding}")
    normalization = encoding.param("normalization", "none")
    extent = source.shape[-1]
    if extent < 1 or extent & (extent - 1):
        raise unsupported(op, f"a Hadamard transform over {extent} lanes, which is no power of two")
    return (lanes.hadamard(format_of(op.source.type), source, str(normalization)),)
