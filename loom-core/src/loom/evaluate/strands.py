"""Strands: bodies that run side by side, each until it has to wait for another.

Exactly one strand runs at a time and hands over only where it waits, so a run is deterministic. Each strand has a
thread of its own because it may wait anywhere, inside any nesting of regions and calls.

What one strand does before it hands a record over happens before what the receiver does behind it. Vector clocks
(Mattern, "Virtual Time and Global States of Distributed Systems", 1989) keep that order: entry ``s`` of a strand's
clock is how much of strand ``s`` it knows of.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import numpy.typing as npt

from loom.evaluate.faults import FaultCode, fault
from loom.evaluate.races import CONFLICTS, Access, Race, RaceDetector, Slots, Synchronization
from loom.ir.core import Op
from loom.ir.diagnostics import LoomError, Related

if TYPE_CHECKING:
    from loom.evaluate.limits import Limits

Clock = dict[int, int]

# Picks the strand that runs next from those that can, in order of their numbers.
Choice = Callable[[Sequence["Strand"]], "Strand"]

# How many of the others that wait a deadlock names.
_RELATED: Final = 8

# Times and sites, ``int32[2, bytes of a page]``; pages of 4096 bytes.
Times = npt.NDArray[np.int32]
_PAGE: Final = 12
_WITHIN: Final = (1 << _PAGE) - 1


class _Cancelled(BaseException):
    """Unwinds a strand whose run is over because another one failed."""


def join(clock: Clock, other: Mapping[int, int]) -> None:
    """Add to a clock what another one knows."""
    for number, known in other.items():
        if clock.get(number, 0) < known:
            clock[number] = known


class Strand:
    """One body: what it runs, what it waits for, and what it knows of the others."""

    __slots__ = (
        "baton",
        "body",
        "clock",
        "ended",
        "error",
        "name",
        "number",
        "op",
        "ready",
        "thread",
        "waits_at",
        "waits_for",
    )

    def __init__(self, number: int, op: Op, name: str, body: Callable[[Strand], None], clock: Clock) -> None:
        self.number = number
        self.op = op
        self.name = name
        self.body = body
        self.clock = clock
        self.ready: Callable[[], bool] | None = None
        self.waits_at: Op | None = None
        self.waits_for = ""
        self.baton = threading.Semaphore(0)
        self.thread: threading.Thread | None = None
        self.ended = False
        self.error: BaseException | None = None

    def send(self) -> Clock:
        """What the strand knows now, to be handed over; what it does next is news again."""
        sent = dict(self.clock)
        self.clock[self.number] += 1
        return sent

    def receive(self, clock: Mapping[int, int]) -> None:
        """Learn what a sender knew."""
        join(self.clock, clock)


@attrs.frozen(eq=False)
class _Errand:
    """Something that happens once its condition holds, by itself."""

    op: Op
    ready: Callable[[], bool]
    action: Callable[[], None]
    waits_for: str


class Strands:
    """The strands of one run of a pipeline. ``synchronization`` is what their atomics order."""

    def __init__(self, limits: Limits, choose: Choice | None = None) -> None:
        self.names: list[str] = []
        self.current: Strand | None = None
        self.synchronization = Synchronization()
        self._limits = limits
        self._choose = choose
        self._live: list[Strand] = []
        self._errands: list[_Errand] = []
        self._idle = threading.Semaphore(0)
        self._cancelled = False
        self._last = -1

    def spawn(self, op: Op, name: str, body: Callable[[Strand], None]) -> Strand:
        """Add a strand, which begins to run later. Raises a located diagnostic when there are too many."""
        number = len(self.names)
        if number >= self._limits.strands:
            raise fault(
                FaultCode.MEMORY_LIMIT,
                op,
                f"the pipeline has more than {self._limits.strands} strands",
                limit=self._limits.strands,
            )
        clock = self.current.send() if self.current is not None else {}
        clock[number] = 1
        strand = Strand(number, op, name, body, clock)
        self.names.append(name)
        self._live.append(strand)
        return strand

    def wait(self, op: Op, ready: Callable[[], bool], what: str) -> None:
        """Let others run until the condition holds. Called by the running strand.

        With a choice of one's own the others may run even if it holds already.
        """
        if self._choose is None and ready():
            return
        strand = self.current
        assert strand is not None
        strand.ready, strand.waits_at, strand.waits_for = ready, op, what
        self._idle.release()
        strand.baton.acquire()
        if self._cancelled:
            raise _Cancelled
        strand.ready = None

    def defer(self, op: Op, ready: Callable[[], bool], action: Callable[[], None], what: str) -> None:
        """Have something done as soon as a condition holds, while the strand goes on."""
        self._errands.append(_Errand(op, ready, action, what))

    def run(self) -> None:
        """Run all strands, and those they add, to their ends.

        Raises the first error of a strand, and a located diagnostic when none of those that are left can go on.
        """
        try:
            while self._live or self._errands:
                self._run_errands()
                able = [strand for strand in self._live if strand.ready is None or strand.ready()]
                if able:
                    self._resume((self._choose or self._next_in_turn)(able))
                elif self._live or self._errands:
                    raise self._deadlock()
        finally:
            self._cancel()

    def _run_errands(self) -> None:
        """Do what can be done; one errand may make room for another."""
        while (found := next((errand for errand in self._errands if errand.ready()), None)) is not None:
            self._errands.remove(found)
            found.action()

    def _next_in_turn(self, able: Sequence[Strand]) -> Strand:
        return next((strand for strand in able if strand.number > self._last), able[0])

    def _resume(self, strand: Strand) -> None:
        self._last = strand.number
        self.current = strand
        if strand.thread is None:
            strand.thread = self._start(strand)
        else:
            strand.baton.release()
        self._idle.acquire()
        self.current = None
        if strand.ended:
            strand.thread.join()
            self._live.remove(strand)
            if strand.error is not None:
                raise strand.error

    def _start(self, strand: Strand) -> threading.Thread:
        thread = threading.Thread(target=self._enter, args=(strand,), name=strand.name, daemon=True)
        try:
            thread.start()
        except RuntimeError as reason:  # the system has no more threads or memory for stacks
            raise fault(FaultCode.MEMORY_LIMIT, strand.op, f"{strand.name} cannot start: {reason}") from None
        return thread

    def _enter(self, strand: Strand) -> None:
        try:
            strand.body(strand)
        except _Cancelled:
            pass
        except BaseException as error:  # whatever it is, it is raised again where the run was asked for
            strand.error = error
        finally:
            strand.ended = True
            self._idle.release()

    def _cancel(self) -> None:
        self._cancelled = True
        for strand in self._live:
            if strand.thread is not None and strand.thread.is_alive():
                strand.baton.release()
                strand.thread.join()
        self._live.clear()

    def _deadlock(self) -> LoomError:
        waiting = [(s.waits_at, f"{s.name} waits for {s.waits_for}") for s in self._live if s.waits_at is not None]
        waiting += [(errand.op, f"a transport waits for {errand.waits_for}") for errand in self._errands]
        (op, text), *rest = waiting
        return fault(
            FaultCode.DEADLOCK,
            op,
            f"nothing can go on: {text}",
            related=tuple(Related(other, at.loc) for at, other in rest[:_RELATED]),
            waiting=len(waiting),
        )


class StrandRaces(RaceDetector):
    """The shadow of a storage that strands share: two accesses are ordered when the later strand knows of the other.

    For each strand and kind of access it is kept when the strand last did that to a byte, in pages that are made
    where it did.
    """

    def __init__(self, size: int, strands: Strands) -> None:
        super().__init__(size, 1, None, strands.synchronization)
        self._strands = strands
        # Kind -> strand -> page -> time and site of the last access to each byte; time 0 is never.
        self._pages: dict[Access, dict[int, dict[int, Times]]] = {kind: {} for kind in Access}

    def note(
        self,
        access: Access,
        addresses: npt.NDArray[np.int64],
        size: int,
        stamps: Slots,
        site: int = 0,
        scope: str = "system",
    ) -> Race | None:
        strand = self._strands.current
        if strand is None:
            return None
        if self._generation != self._synchronization.generation:
            self._generation = self._synchronization.generation
            for strands in self._pages.values():
                strands.clear()
        touched = (addresses.reshape(-1, 1) + np.arange(size)).reshape(-1)
        found: Race | None = None
        mine = self._pages[access].setdefault(strand.number, {})
        for page in np.unique(touched >> _PAGE).tolist():
            positions = np.flatnonzero(touched >> _PAGE == page)
            within = touched[positions] & _WITHIN
            found = found or self._unordered(access, strand, page, positions, within, size)
            if page not in mine:
                mine[page] = np.zeros((2, 1 << _PAGE), dtype=np.int32)
            mine[page][0, within] = strand.clock[strand.number]
            mine[page][1, within] = site
        return found

    def _unordered(
        self,
        access: Access,
        strand: Strand,
        page: int,
        positions: npt.NDArray[np.intp],
        within: npt.NDArray[np.int64],
        size: int,
    ) -> Race | None:
        for kind in CONFLICTS[access]:
            for number, pages in self._pages[kind].items():
                if number == strand.number or page not in pages:
                    continue
                unordered = pages[page][0, within] > strand.clock.get(number, 0)
                if unordered.any():
                    at = int(np.argmax(unordered))
                    return Race(int(positions[at]) // size, number, kind, int(pages[page][1, within[at]]))
        return None
