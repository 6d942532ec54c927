"""Transfers into the workgroup storage of a whole cluster (language reference, part 2, section 12.8).

Each work-item's source goes to the same-numbered work-item of every workgroup that the mask names: bit ``k`` is the
workgroup with the flat number ``k`` in the cluster. Who receives takes part in the transfer too, and says where the
bytes go. What several send to one place has to be the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from loom.dialects.kernel.evaluate_scopes import geometry_of
from loom.dialects.kernel.evaluate_transfers import as_elements, grid_positions, of_items, taking_part
from loom.evaluate import accesses
from loom.evaluate.faults import FaultCode, unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.numeric.formats import Array
from loom.evaluate.races import Access
from loom.evaluate.rules import evaluates
from loom.evaluate.transfers import Transfer
from loom.evaluate.values import RuntimeValue, per_lane
from loom.ir.core import Op


@evaluates("kernel.async.cluster.gather", "kernel.async.cluster.gather.mask")
def cluster_gather(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Reads each source once and delivers it to the chosen workgroups."""
    given = {name: operands[at] for name, at in op.spec.operand_index.items()}
    items = taking_part(frame, given.get("predicate"))
    senders, receivers = _deliveries(frame, op, items, given["mask"])
    if senders.size == 0:
        return (frozenset(),)
    from_type, to_type = op.source.type, op.target.type
    elements = grid_positions(from_type.dims, math.prod(from_type.dims))
    sending = np.unique(senders)
    read_at = accesses.locate_elements(frame, op, given["source"], from_type, *of_items(elements, sending))
    rows = as_elements(frame, op, read_at, to_type, sending.size)
    sent = rows[np.searchsorted(sending, senders)]
    receiving, first, which = np.unique(receivers, return_index=True, return_inverse=True)
    _require_agreement(frame, op, senders, receivers, sent, first[which])
    into = grid_positions(to_type.dims, math.prod(to_type.dims))
    place = accesses.locate_elements(frame, op, given["target"], to_type, *of_items(into, receiving))
    accesses.store(frame, op, place, accesses.from_memory(place.format, sent[first].reshape(-1)), Access.WRITE)
    return (frame.machine.stream.start(frame, Transfer(op, read_at, place)),)


def _deliveries(frame: Frame, op: Op, items: Array, mask: Array) -> tuple[Array, Array]:
    """Who sends to whom, as lanes of the batch: one entry for each bit that is set in the mask of a work-item."""
    geometry, lanes = geometry_of(frame, op), frame.machine.lanes
    size = geometry.cluster_size
    count = math.prod(size)
    masks = per_lane(mask, lanes.count, 0)[items].astype(np.int64) & 0xFFFF_FFFF
    beyond = masks >> count != 0
    if beyond.any():
        lane = int(items[np.argmax(beyond)])
        raise frame.fault(
            FaultCode.OUT_OF_BOUNDS,
            op,
            f"the mask {int(masks[np.argmax(beyond)]):#x} names workgroups of a cluster of {count}",
            lane,
            bound=count,
        )
    at, bit = np.nonzero(masks[:, None] >> np.arange(count) & 1)
    senders = items[at]
    # The receiver's workgroup: the first one of the sender's cluster, and its place in it, axis by axis.
    local = (bit % size[0], bit // size[0] % size[1], bit // (size[0] * size[1]))
    group = np.zeros(senders.size, dtype=np.int64)
    for axis in (2, 1, 0):
        mine = np.broadcast_to(lanes.workgroup_id(axis), (lanes.count,))[senders]
        group = group * geometry.workgroups[axis] + mine - mine % size[axis] + local[axis]
    receivers = (group - lanes.first_group) * lanes.items_per_group + lanes.item[senders] % lanes.items_per_group
    if ((receivers < 0) | (receivers >= lanes.count)).any():
        raise unsupported(op, "a cluster of workgroups that are not evaluated together")
    absent = ~np.isin(receivers, items)
    if absent.any():
        missing = lanes.describe(int(receivers[np.argmax(absent)]))
        raise frame.fault(
            FaultCode.BARRIER,
            op,
            f"the mask names the workgroup of {missing}, which does not take part in the transfer",
            int(senders[np.argmax(absent)]),
            control_kind="run time",
            missing=missing,
        )
    return senders, receivers


def _require_agreement(frame: Frame, op: Op, senders: Array, receivers: Array, sent: Array, reference: Array) -> None:
    """Fault when two work-items send different bytes to one place. ``reference`` is the delivery to compare with."""
    differ = (sent.view(np.uint8) != sent[reference].view(np.uint8)).any(axis=1)
    if not differ.any():
        return
    at = int(np.argmax(differ))
    lanes = frame.machine.lanes
    other = lanes.describe(int(senders[reference[at]]))
    raise frame.fault(
        FaultCode.DATA_RACE,
        op,
        f"data race: {lanes.describe(int(receivers[at]))} is sent different bytes, the others by {other}",
        int(senders[at]),
        other_workitem=other,
    )
