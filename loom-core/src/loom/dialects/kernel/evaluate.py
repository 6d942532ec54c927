"""What kernel operations mean: coordinates of the work-items, and barriers under lockstep evaluation.

Importing this module registers the rules of the dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from loom.dialects.kernel import evaluate_collectives  # noqa: F401
from loom.dialects.kernel.evaluate_scopes import geometry_of, require_everyone, subgroup_size
from loom.evaluate.frame import Frame
from loom.evaluate.lanes import AXES, Lanes
from loom.evaluate.launch import LaunchGeometry
from loom.evaluate.numeric.formats import Array
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue, integer


def _dispatch_id(lanes: Lanes, geometry: LaunchGeometry, axis: int) -> Array:
    return np.asarray(lanes.workgroup_id(axis) * geometry.workgroup_size[axis] + lanes.workitem_id(axis))


AXIS_QUERIES: Final[dict[str, Callable[[Lanes, LaunchGeometry, int], Array]]] = {
    "kernel.workitem.id": lambda lanes, geometry, axis: lanes.workitem_id(axis),
    "kernel.workgroup.id": lambda lanes, geometry, axis: lanes.workgroup_id(axis),
    "kernel.workgroup.size": lambda lanes, geometry, axis: integer(geometry.workgroup_size[axis]),
    "kernel.workgroup.count": lambda lanes, geometry, axis: integer(geometry.workgroups[axis]),
    "kernel.workitem.dispatch.id": _dispatch_id,
}


@evaluates(*AXIS_QUERIES)
def axis_query(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A coordinate or extent along one axis."""
    geometry = geometry_of(frame, op)
    return (AXIS_QUERIES[op.name](frame.machine.lanes, geometry, AXES.index(op.axis)),)


SUBGROUP_QUERIES: Final[dict[str, Callable[[Lanes, int], Array]]] = {
    "kernel.subgroup.id": lambda lanes, size: lanes.item % lanes.items_per_group // size,
    "kernel.subgroup.count": lambda lanes, size: integer(-(-lanes.items_per_group // size)),
    "kernel.subgroup.size": lambda lanes, size: integer(size),
    "kernel.subgroup.lane.id": lambda lanes, size: lanes.item % lanes.items_per_group % size,
}


@evaluates(*SUBGROUP_QUERIES)
def subgroup_query(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A coordinate in or extent of subgroups, which are runs of the linear work-item order."""
    geometry_of(frame, op)
    return (np.asarray(SUBGROUP_QUERIES[op.name](frame.machine.lanes, subgroup_size(frame, op))),)


@evaluates("kernel.barrier")
def barrier(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """All lanes run in lockstep, so reaching the barrier together is the rendezvous; who is missing is a fault."""
    geometry_of(frame, op)
    require_everyone(frame, op, op.scope, "barrier")
    lanes = frame.machine.lanes
    reached = np.arange(lanes.count) if frame.mask is None else np.flatnonzero(frame.mask)
    frame.machine.clocks[op.space].advance(reached, op.scope)
    return ()
