"""Reductions along axes as chains of scalars (pass ``vector-reduce-axes-to-scalar``; reference, part 3, section 11).

For targets that reduce whole vectors only: each position of the result folds its own lanes in lane order, from
its initial value on. Vectors of run-time extents or of more than ``MAX_LANES`` lanes are left alone.
"""

from __future__ import annotations

from typing import Any

from loom.ir.core import Op, Value
from loom.ir.types import ADDRESSES, ScalarType
from loom.transforms.lanes import Lanes, coordinates, in_front_of, lane_count


def scalarize_axis_reductions(function: Op) -> int:
    """Rewrite the reductions along axes of a function; how many there were."""
    lanes = Lanes()
    rewritten = 0
    for op in list(function.walk()):
        if op.name == "vector.reduce.axes" and _is_rewritable(op):
            _rewrite(op, lanes)
            rewritten += 1
    return rewritten


def _is_rewritable(op: Any) -> bool:
    return lane_count(op.source.type) is not None and op.source.type.element not in ADDRESSES


def _rewrite(op: Any, lanes: Lanes) -> None:
    emit, whole = in_front_of(op), isinstance(op.init.type, ScalarType)
    totals: dict[tuple[int, ...], Value]
    totals = {(): op.init} if whole else dict(zip(coordinates(op.init.type.dims), lanes.of(op.init), strict=True))
    for at, lane in zip(coordinates(op.source.type.dims), lanes.of(op.source), strict=True):
        kept = tuple(n for axis, n in enumerate(at) if axis not in op.axes)
        totals[kept] = emit.scalar_like(op, op.kind, [totals[kept], lane], lane.type)
    if whole:
        op.replace_with([totals[()]])
    else:
        lanes.put(op, list(totals.values()))
