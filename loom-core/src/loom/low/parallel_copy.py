"""Turning a set of simultaneous moves into a sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from loom.ir.records import record

Location = TypeVar("Location")


@record
class Step(Generic[Location]):
    """``target = source``, or an exchange of the two when ``swap`` is set."""

    target: Location
    source: Location
    swap: bool = False


class NoScratch(Exception):
    """A cycle of moves needs a free location near ``location`` and there is none."""

    def __init__(self, location: object) -> None:
        super().__init__(f"no free location to break a cycle of moves through {location!r}")
        self.location = location


def sequentialize(
    moves: Iterable[tuple[Location, Location]],
    scratch: Callable[[Location], Location | None],
    can_swap: Callable[[Location], bool],
) -> list[Step[Location]]:
    """Order (target, source) pairs so that no source is overwritten before it is read.

    Each target may occur once. Only pure cycles need help: ``scratch`` gives a free location that can
    hold what the given one holds, else ``can_swap`` says whether the two can be exchanged.

    Raises:
        NoScratch: a cycle, and neither help is available.
    """
    pending = {target: source for target, source in moves if target != source}
    readers: dict[Location, int] = {}
    for source in pending.values():
        readers[source] = readers.get(source, 0) + 1
    free = [target for target in pending if target not in readers]
    free.reverse()
    steps: list[Step[Location]] = []

    def drain() -> None:
        while free:
            target = free.pop()
            source = pending.pop(target)
            steps.append(Step(target, source))
            readers[source] -= 1
            if not readers[source] and source in pending:
                free.append(source)

    drain()
    while pending:
        # What is left are cycles, and every location in them has exactly one reader.
        target = next(iter(pending))
        spare = scratch(target)
        if spare is not None:
            steps.append(Step(spare, target))
            for other, source in pending.items():
                if source == target:
                    pending[other] = spare
            readers[spare] = readers.pop(target)
            free.append(target)
            drain()
        elif can_swap(target):
            source = pending.pop(target)
            steps.append(Step(target, source, swap=True))
            for other, wanted in list(pending.items()):
                if wanted == target:
                    if other == source:
                        del pending[other]
                    else:
                        pending[other] = source
        else:
            raise NoScratch(target)
    return steps
