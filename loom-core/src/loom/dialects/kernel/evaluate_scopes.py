"""Who meets whom: the launch geometry, subgroups and workgroups of a batch of work-items."""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np

from loom.evaluate.faults import FaultCode, unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.launch import LaunchGeometry
from loom.evaluate.numeric.formats import Array
from loom.evaluate.values import per_lane
from loom.ir.core import Op

WORKGROUP: Final = "workgroup"
SUBGROUP: Final = "subgroup"


def geometry_of(frame: Frame, op: Op) -> LaunchGeometry:
    """The geometry of the dispatch. Raises a located diagnostic in a host function."""
    geometry = frame.machine.lanes.geometry
    if geometry is None:
        raise unsupported(op, f"'{op.name}' asks for a kernel invocation, but a host function runs")
    return geometry


def subgroup_size(frame: Frame, op: Op) -> int:
    """Lanes per subgroup of the target. Raises a located diagnostic when no target says."""
    size = frame.machine.program.facts.get("subgroup_size")
    if not isinstance(size, int):
        raise unsupported(op, "the reference device has no subgroups of its own", hint="name a target with '--target'")
    return size


def require_everyone(frame: Frame, op: Op, scope: str, what: str) -> None:
    """Fault unless each workgroup or subgroup that has an active work-item is active as a whole."""
    if frame.mask is None:
        return
    lanes = frame.machine.lanes
    members = lanes.group if scope == WORKGROUP else lanes.subgroup_index(subgroup_size(frame, op))
    total = np.bincount(members)
    present = np.bincount(members[frame.mask], minlength=total.size)
    partial = (present > 0) & (present < total)
    if partial.any():
        missing = int(np.argmax((members == int(np.argmax(partial))) & ~frame.mask))
        raise frame.fault(
            FaultCode.BARRIER,
            op,
            f"the {what} is not reached by all work-items of its {scope}: {lanes.describe(missing)} is missing",
            frame.first_active,
            control_kind="run time",
            missing=lanes.describe(missing),
        )


@attrs.frozen(eq=False)
class Teams:
    """Sets of work-items that exchange values, as the rows of a table: one column for each place in a team.

    ``row`` and ``column`` give the place of each work-item of the batch (``int64[lanes]``); places that no active
    work-item has are false in ``active`` (``bool[teams, width]``).
    """

    row: Array
    column: Array
    active: Array

    @property
    def width(self) -> int:
        """Places of one team."""
        return int(self.active.shape[1])

    def table(self, value: Array, rank: int) -> Array:
        """A value of the work-items as ``[teams, width, *extents]``; zero in places without work-item."""
        lanes = per_lane(value, self.row.size, rank)
        table = np.zeros((*self.active.shape, *lanes.shape[1:]), dtype=lanes.dtype)
        table[self.row, self.column] = lanes
        return table

    def of_places(self, table: Array) -> Array:
        """The entry of each work-item's place."""
        return np.asarray(table[self.row, self.column])

    def of_teams(self, values: Array) -> Array:
        """The entry of each work-item's team."""
        return np.asarray(values[self.row])


def _teams(frame: Frame, row: Array, column: Array, rows: int, width: int) -> Teams:
    active = np.zeros((rows, width), dtype=np.bool_)
    active[row, column] = True if frame.mask is None else frame.mask
    return Teams(row, column, active)


def workgroups(frame: Frame, op: Op) -> Teams:
    """Workgroups in linear work-item order."""
    geometry_of(frame, op)
    lanes = frame.machine.lanes
    return _teams(frame, lanes.group, lanes.item % lanes.items_per_group, lanes.group_count, lanes.items_per_group)


def subgroups(frame: Frame, op: Op, cluster: int | None = None, stride: int | None = None) -> Teams:
    """Subgroups in lane order, or their clusters: ``cluster`` lanes that stand ``stride`` apart."""
    geometry_of(frame, op)
    lanes = frame.machine.lanes
    size = subgroup_size(frame, op)
    subgroup, lane = lanes.subgroup_index(size), lanes.item % lanes.items_per_group % size
    count = int(subgroup[-1]) + 1
    if cluster is None:
        return _teams(frame, subgroup, lane, count, size)
    step = stride or 1
    block = cluster * step
    clusters = -(-size // block) * step
    row = subgroup * clusters + lane // block * step + lane % step
    return _teams(frame, row, lane % block // step, count * clusters, cluster)
