"""Flattening nested serial and concurrent regions into waves (language reference, part 3, section 2.2)."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from loom.ir.core import Op


@attrs.frozen
class Scheduled:
    """A command and its wave. Waves are separated by execution barriers; within one nothing is ordered."""

    op: Op
    wave: int


def schedule(program: Op) -> list[Scheduled]:
    """The commands of a prepared program by wave, in source order within a wave.

    The body and serial regions run child after child. Children of a concurrent region start together; it ends when
    the longest of them ends.
    """
    found: list[Scheduled] = []
    _children(program.regions[-1].entry, 0, True, found)
    found.sort(key=lambda scheduled: scheduled.wave)
    return found


def _children(ops: Iterable[Op], start: int, serial: bool, found: list[Scheduled]) -> int:
    """Place the commands of a region from a wave on; returns the first wave behind the region."""
    end = start
    for op in ops:
        if "command" not in op.spec.traits:
            continue
        begin = end if serial else start
        if op.name == "command.serial" or op.name == "command.concurrent":
            after = _children(op.regions[0].entry, begin, op.name == "command.serial", found)
        else:
            found.append(Scheduled(op, begin))
            after = begin + 1
        end = max(end, after)
    return end
