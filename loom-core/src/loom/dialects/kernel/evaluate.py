"""What kernel operations mean: coordinates of the work-items.

Importing this module registers the rules of the dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from loom.dialects.kernel import (  # noqa: F401
    evaluate_cluster,
    evaluate_collectives,
    evaluate_control,
    evaluate_tensor,
    evaluate_transfers,
)
from loom.dialects.kernel.evaluate_scopes import geometry_of, subgroup_size
from loom.evaluate.frame import Frame
from loom.evaluate.lanes import AXES, Lanes
from loom.evaluate.launch import LaunchGeometry
from loom.evaluate.numeric.formats import Array
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue, integer


def _dispatch_id(lanes: Lanes, geometry: LaunchGeometry, axis: int) -> Array:
    return np.asarray(lanes.workgroup_id(axis) * geometry.workgroup_size[axis] + lanes.workitem_id(axis))


def _cluster_workgroup_id(lanes: Lanes, geometry: LaunchGeometry, axis: int) -> Array:
    return np.asarray(lanes.workgroup_id(axis) % geometry.cluster_size[axis])


AXIS_QUERIES: Final[dict[str, Callable[[Lanes, LaunchGeometry, int], Array]]] = {
    "kernel.workitem.id": lambda lanes, geometry, axis: lanes.workitem_id(axis),
    "kernel.workgroup.id": lambda lanes, geometry, axis: lanes.workgroup_id(axis),
    "kernel.workgroup.size": lambda lanes, geometry, axis: integer(geometry.workgroup_size[axis]),
    "kernel.workgroup.count": lambda lanes, geometry, axis: integer(geometry.workgroups[axis]),
    "kernel.workitem.dispatch.id": _dispatch_id,
    "kernel.cluster.id": lambda lanes, geometry, axis: lanes.workgroup_id(axis) // geometry.cluster_size[axis],
    "kernel.cluster.workgroup.id": _cluster_workgroup_id,
    "kernel.cluster.size": lambda lanes, geometry, axis: integer(geometry.cluster_size[axis]),
    "kernel.cluster.count": lambda lanes, geometry, axis: integer(
        geometry.workgroups[axis] // geometry.cluster_size[axis]
    ),
}


@evaluates(*AXIS_QUERIES)
def axis_query(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A coordinate or extent along one axis."""
    geometry = geometry_of(frame, op)
    return (np.asarray(AXIS_QUERIES[op.name](frame.machine.lanes, geometry, AXES.index(op.axis))),)


@evaluates("kernel.cluster.workgroup.flat_id")
def flat_id(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The number of the workgroup in its cluster, x fastest."""
    geometry = geometry_of(frame, op)
    x, y, z = (_cluster_workgroup_id(frame.machine.lanes, geometry, axis) for axis in range(3))
    return (np.asarray(x + geometry.cluster_size[0] * (y + geometry.cluster_size[1] * z)),)


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
