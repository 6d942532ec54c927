"""Selection of reductions over the lanes of a vector."""

from __future__ import annotations

from typing import Final

from loom.ir.core import Op
from loom_target_spirv.select.context import Context
from loom_target_spirv.select.rules import Rule
from loom_target_spirv.select.scalar import lane_result


def _reduce(context: Context, op: Op) -> None:
    """acc = op(acc, lane) in lane order, from the initial value; an order that every flag permits."""
    source, initial = op.operands
    context.scalar_type(initial.type, op)
    accumulator = context.scalar(initial)
    for lane in context.lanes(source):
        following = lane_result(context, op, str(op.attribute("kind")), (accumulator, lane))
        if following is None:
            raise context.refuse(op, "TARGET/001", f"'{op.name}<{op.attribute('kind')}>' has no SPIR-V form here")
        accumulator = following
    context.bind(op.results[0], accumulator)


REDUCE_RULES: Final[dict[str, Rule]] = {"vector.reduce": _reduce}
"""Reductions."""
