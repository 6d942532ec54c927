"""Asynchronous transfers between their start and the wait that completes them.

The evaluator moves the bytes where a transfer starts, which is one of the times when they may move. What a program
may see of them before their wait is undefined (language reference, part 2, section 12.8), so the bytes of both ends
are marked while a transfer is pending, and accesses that touch the marks are faults. Each work-item has one stream of
groups, which complete in the order in which they were committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from loom.evaluate import accesses
from loom.evaluate.accesses import Located
from loom.evaluate.faults import FaultCode, fault
from loom.evaluate.numeric.formats import Array
from loom.evaluate.races import Access
from loom.ir.core import Op

if TYPE_CHECKING:
    from loom.evaluate.frame import Frame

#: What tokens and groups are at run time: the numbers of the transfers or groups that some work-item means.
Numbers = frozenset[int]


@attrs.frozen(eq=False)
class Transfer:
    """One execution of a transfer by some work-items: the elements that it reads and those that it writes."""

    op: Op
    source: Located
    target: Located

    @property
    def ends(self) -> tuple[tuple[Located, Access], ...]:
        """Both ends, and how the transfer accesses each."""
        return (self.source, Access.READ), (self.target, Access.WRITE)


@attrs.frozen(eq=False)
class Group:
    """Transfers that the work-items in ``committed`` committed together; those in ``pending`` have not waited yet."""

    op: Op
    transfers: Numbers
    committed: Array
    pending: Array


class Stream:
    """The transfers and groups of a batch of work-items, in the order in which they were made."""

    def __init__(self) -> None:
        self.transfers: list[Transfer] = []
        self._groups: list[Group] = []

    def start(self, frame: Frame, transfer: Transfer) -> Numbers:
        """Mark both ends of a transfer whose bytes have just moved."""
        number = len(self.transfers)
        self.transfers.append(transfer)
        for located, access in transfer.ends:
            _mark(frame, located, access, number, pending=True)
        return frozenset((number,))

    def commit(self, frame: Frame, op: Op, transfers: Numbers) -> Numbers:
        """A group of the active work-items."""
        self._groups.append(Group(op, transfers, _everyone(frame), _everyone(frame)))
        return frozenset((len(self._groups) - 1,))

    def wait(self, frame: Frame, op: Op, groups: Numbers, newer: int) -> None:
        """Complete the groups and all that their work-items committed before them.

        Faults for a group of another stream or one that is complete, and when another number of newer groups is
        pending.
        """
        waiting = _everyone(frame)
        last = np.full(waiting.size, -1, dtype=np.int64)
        for number in sorted(groups):
            last[self._groups[number].committed] = number
        complete, younger = np.zeros(waiting.size, dtype=np.bool_), np.zeros(waiting.size, dtype=np.int64)
        for number, group in enumerate(self._groups):
            complete |= (last == number) & ~group.pending
            younger += group.pending & (number > last)
        for code, bad, reason in (
            (FaultCode.FOREIGN_GROUP, last < 0, "the group was not committed in this stream"),
            (FaultCode.COMPLETED_GROUP, complete, "the group is complete already"),
            (FaultCode.NEWER_GROUPS, younger != newer, f"not exactly {newer} newer groups are pending"),
        ):
            lane = frame.offender(bad)
            if lane is not None:
                raise frame.fault(code, op, f"'{op.name}': {reason}", lane, newer_groups=int(younger[lane]))
        for number, group in enumerate(self._groups):
            finished = group.pending & waiting & (number <= last)
            if finished.any():
                group.pending[finished] = False
                for transfer in sorted(group.transfers):
                    self._complete(frame, transfer, finished)

    def require_complete(self) -> None:
        """Fault if a work-item has ended without waiting for a group."""
        for group in self._groups:
            if group.pending.any():
                raise fault(FaultCode.NEVER_WAITED, group.op, "the kernel ends without a wait for this group")

    def _complete(self, frame: Frame, number: int, finished: Array) -> None:
        """Take the marks away. The accesses may have been made as late as now, so they count again."""
        transfer = self.transfers[number]
        for located, access in transfer.ends:
            mine = np.flatnonzero(finished[located.lanes])
            late = attrs.evolve(located, addresses=located.addresses[mine], lanes=located.lanes[mine])
            _mark(frame, late, access, number, pending=False)
            for storage, picked in accesses.parts(frame, late):
                chosen = np.arange(mine.size) if picked is None else picked
                accesses.watch(frame, transfer.op, storage, late.addresses[chosen], late.lanes[chosen], late, access)


def _everyone(frame: Frame) -> Array:
    return np.ones(frame.machine.lanes.count, dtype=np.bool_) if frame.mask is None else frame.mask.copy()


def _mark(frame: Frame, located: Located, access: Access, number: int, *, pending: bool) -> None:
    size = located.format.dtype.itemsize
    for storage, picked in accesses.parts(frame, located):
        addresses = located.addresses if picked is None else located.addresses[picked]
        marks = storage.transfer_marks(access.value)
        places = addresses[:, None] + np.arange(size)
        if pending:
            marks[places] = number + 1
        else:
            marks[places] = np.where(marks[places] == number + 1, 0, marks[places])
