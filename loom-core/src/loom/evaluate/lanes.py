"""The work-items that are evaluated together: one lane of every array each.

Lanes are ordered by linear workgroup coordinate and, inside a workgroup, by linear work-item coordinate, x
fastest (language reference, part 2, section 12.4).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from loom.evaluate.launch import LaunchGeometry
from loom.evaluate.numeric.formats import Array

Triple = tuple[int, int, int]

AXES = ("x", "y", "z")


@attrs.frozen(eq=False)
class Lanes:
    """A batch of whole workgroups of one dispatch, or the single invocation of a host function.

    ``count`` lanes; ``item`` is the dispatch-wide linear work-item number of each lane and ``group`` the index of
    its workgroup within the batch (both ``int64[count]``). ``geometry`` is ``None`` for a host function. A strand of
    a pipeline is one lane whose ``item`` is its number in ``names``.
    """

    count: int
    item: Array
    group: Array
    group_count: int
    first_group: int = 0
    geometry: LaunchGeometry | None = None
    subgroup_size: int | None = None
    names: Sequence[str] = ()

    @property
    def items_per_group(self) -> int:
        """Work-items of one workgroup."""
        return self.count // self.group_count

    def workitem_id(self, axis: int) -> Array:
        """The coordinate of each lane in its workgroup along an axis, ``int64[count]``."""
        assert self.geometry is not None
        return _coordinate(self.item % self.items_per_group, self.geometry.workgroup_size, axis)

    def workgroup_id(self, axis: int) -> Array:
        """The coordinate of each lane's workgroup in the grid along an axis; scalar for a single workgroup."""
        assert self.geometry is not None
        if self.group_count == 1:
            return _coordinate(np.asarray(self.first_group, dtype=np.int64), self.geometry.workgroups, axis)
        return _coordinate(self.item // self.items_per_group, self.geometry.workgroups, axis)

    def subgroup_index(self, size: int) -> Array:
        """The index of each lane's subgroup within the batch, ``int64[count]``."""
        per_group = -(-self.items_per_group // size)
        return np.asarray(self.group * per_group + self.item % self.items_per_group // size)

    def describe(self, lane: int) -> str:
        """The lane's work-item in words; empty for a host function."""
        return self.describe_item(int(self.item[lane]))

    def describe_item(self, item: int) -> str:
        """A work-item of the dispatch, by its linear number, in words; empty for a host function."""
        if self.geometry is None:
            return self.names[item] if self.names else ""
        local, group = (
            tuple(int(_coordinate(np.asarray(number), size, axis)) for axis in range(3))
            for number, size in (
                (item % self.items_per_group, self.geometry.workgroup_size),
                (item // self.items_per_group, self.geometry.workgroups),
            )
        )
        return f"work-item {local} of workgroup {group}"


def _coordinate(linear: Array, size: Triple, axis: int) -> Array:
    return np.asarray(linear // math.prod(size[:axis]) % size[axis])


def host_lane() -> Lanes:
    """The one lane of a host function."""
    zero = np.zeros(1, dtype=np.int64)
    return Lanes(count=1, item=zero, group=zero, group_count=1)


def strand_lane(number: int, names: Sequence[str]) -> Lanes:
    """The one lane of a strand, which has a name to be called by."""
    item = np.asarray([number], dtype=np.int64)
    return Lanes(count=1, item=item, group=np.zeros(1, dtype=np.int64), group_count=1, names=names)


def batches(geometry: LaunchGeometry, target_lanes: int, subgroup_size: int | None) -> Iterator[Lanes]:
    """Cut a dispatch into batches of about ``target_lanes`` lanes: whole workgroups, and whole clusters of them."""
    items = math.prod(geometry.workgroup_size)
    groups = math.prod(geometry.workgroups)
    unit = _cluster_run(geometry)
    step = max(1, target_lanes // (items * unit)) * unit
    for first in range(0, groups, step):
        count = min(step, groups - first)
        lane = np.arange(count * items, dtype=np.int64)
        yield Lanes(
            count=count * items,
            item=lane + first * items,
            group=lane // items,
            group_count=count,
            first_group=first,
            geometry=geometry,
            subgroup_size=subgroup_size,
        )


def _cluster_run(geometry: LaunchGeometry) -> int:
    """How many workgroups in linear order hold whole clusters: a run of rows or planes when clusters span them."""
    for axis in (2, 1):
        if geometry.cluster_size[axis] > 1:
            return math.prod(geometry.workgroups[:axis]) * geometry.cluster_size[axis]
    return geometry.cluster_size[0]
