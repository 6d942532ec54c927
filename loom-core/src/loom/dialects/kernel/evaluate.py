"""What kernel operations mean: coordinates of the work-items, and barriers under lockstep evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from loom.evaluate.faults import FaultCode, unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.lanes import AXES, Lanes
from loom.evaluate.launch import LaunchGeometry
from loom.evaluate.numeric.formats import Array
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue, integer
from loom.ir.core import Op


def _geometry(frame: Frame, op: Op) -> LaunchGeometry:
    geometry = frame.machine.lanes.geometry
    if geometry is None:
        raise unsupported(op, f"'{op.name}' asks for a kernel invocation, but a host function runs")
    return geometry


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
    geometry = _geometry(frame, op)
    return (AXIS_QUERIES[op.name](frame.machine.lanes, geometry, AXES.index(op.axis)),)


def subgroup_size(frame: Frame, op: Op) -> int:
    """Lanes per subgroup of the target. Raises a located diagnostic when no target says."""
    size = frame.machine.program.facts.get("subgroup_size")
    if not isinstance(size, int):
        raise unsupported(op, "the reference device has no subgroups of its own", hint="name a target with '--target'")
    return size


SUBGROUP_QUERIES: Final[dict[str, Callable[[Lanes, int], Array]]] = {
    "kernel.subgroup.id": lambda lanes, size: lanes.item % lanes.items_per_group // size,
    "kernel.subgroup.count": lambda lanes, size: integer(-(-lanes.items_per_group // size)),
    "kernel.subgroup.size": lambda lanes, size: integer(size),
    "kernel.subgroup.lane.id": lambda lanes, size: lanes.item % lanes.items_per_group % size,
}


@evaluates(*SUBGROUP_QUERIES)
def subgroup_query(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A coordinate in or extent of subgroups, which are runs of the linear work-item order."""
    _geometry(frame, op)
    return (np.asarray(SUBGROUP_QUERIES[op.name](frame.machine.lanes, subgroup_size(frame, op))),)


@evaluates("kernel.barrier")
def barrier(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """All lanes run in lockstep, so reaching the barrier together is the rendezvous; who is missing is a fault."""
    _geometry(frame, op)
    lanes = frame.machine.lanes
    scope = lanes.group if op.scope == "workgroup" else lanes.subgroup_index(subgroup_size(frame, op))
    if frame.mask is not None:
        members = np.bincount(scope)
        present = np.bincount(scope[frame.mask], minlength=members.size)
        partial = (present > 0) & (present < members)
        if partial.any():
            missing = int(np.argmax((scope == int(np.argmax(partial))) & ~frame.mask))
            raise frame.fault(
                FaultCode.BARRIER,
                op,
                f"the barrier is not reached by all work-items of its {op.scope}: {lanes.describe(missing)} is missing",
                frame.first_active,
                control_kind="run time",
                missing=lanes.describe(missing),
            )
    reached = np.arange(lanes.count) if frame.mask is None else np.flatnonzero(frame.mask)
    frame.machine.clocks[op.space].advance(reached, op.scope)
    return ()
