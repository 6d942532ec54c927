"""Building the startup, steady state and drain of a loop that reads ahead.

Language reference, part 3, section 10.2, "resulting shape". The queue holds the read values of the ``depth - 1``
iterations that were read and not yet consumed, oldest first.
"""

from __future__ import annotations

from typing import Any

from loom.dialects.scf import ops as scf
from loom.facts.integers import IntegerFacts
from loom.ir.core import Block, Region, Value
from loom.ir.records import record
from loom.transforms.loops_positions import Cursor, displaced, group_limit, is_below, literal, take_types
from loom.transforms.pipeline_partition import Partition
from loom.transforms.unroll import conditional


@record
class Bounds:
    """Facts of a loop's bounds where it stands, and its exact step."""

    lower: IntegerFacts
    upper: IntegerFacts
    step: int

    def reaches(self, distance: int) -> bool | None:
        """Whether ``lower + distance`` is an iteration's position; ``None`` when only the run shows it."""
        if self.lower.hi + distance < self.upper.lo:
            return True
        return False if self.lower.lo + distance >= self.upper.hi else None

    @property
    def last(self) -> int | None:
        """The last position of a loop with exact bounds that runs at least once."""
        if self.lower.exact is None or self.upper.exact is None:
            return None
        return self.lower.exact + (self.upper.exact - 1 - self.lower.exact) // self.step * self.step


def build_pipeline(loop: Any, depth: int, bounds: Bounds, parts: Partition) -> None:
    """Replace a loop, which clears its depth. Loops too short for the queue run serially, also at run time."""
    loop.pipeline_depth = None
    distance = (depth - 1) * bounds.step
    enough = bounds.reaches(distance)
    if enough is False:
        return
    cursor = Cursor(before=loop)
    if enough:
        loop.replace_with(_Stages(loop, depth, bounds, parts).build(cursor))
        return
    limit = group_limit(cursor, loop.upper, distance, bounds.lower.lo, bounds.upper, loop.loc)
    condition = is_below(cursor, loop.lower, limit, loop.loc)
    ahead, serial = Block(), Block()
    taken = _Stages(loop, depth, bounds, parts).build(Cursor(block=ahead))
    copy = loop.clone({})
    serial.append(copy)
    loop.replace_with(conditional(cursor, condition, ahead, taken, serial, copy.results, loop))


class _Stages:
    """The pieces of one loop known to have at least ``depth`` iterations."""

    def __init__(self, loop: Any, depth: int, bounds: Bounds, parts: Partition) -> None:
        self.loop = loop
        self.body: Block = loop.body.entry
        self.ahead = depth - 1
        self.bounds = bounds
        self.parts = parts

    def build(self, cursor: Cursor) -> list[Value]:
        """Add everything at a cursor and return the values that take the place of the loop's results."""
        loop, step = self.loop, self.bounds.step
        queue: list[Value] = []
        for number in range(self.ahead):
            at = displaced(cursor, loop.lower, number * step, self.bounds.lower.exact, loop.loc)
            queue += self._read(cursor, at)
        start = displaced(cursor, loop.lower, self.ahead * step, self.bounds.lower.exact, loop.loc)
        carried, queue, oldest = self._steady(cursor, start, queue)
        width = len(self.parts.queued)
        for number in range(self.ahead):
            position = self._drain_position(cursor, number, oldest)
            carried = self._consume(cursor, position, carried, queue[number * width : (number + 1) * width])
        return carried

    def _read(self, cursor: Cursor, position: Value) -> list[Value]:
        """The producer of one iteration; returns its record."""
        mapping = {self.body.args[0]: position}
        for op in self.parts.producer:
            cursor.add(op.clone(mapping))
        return [mapping[v] for v in self.parts.queued]

    def _consume(
        self, cursor: Cursor, position: Value | None, carried: list[Value], record: list[Value]
    ) -> list[Value]:
        """The consumer of one iteration; returns the carried values behind it."""
        mapping = dict(zip(self.body.args[1:], carried, strict=True))
        mapping.update(zip(self.parts.queued, record, strict=True))
        if position is not None:
            mapping[self.body.args[0]] = position
        for op in self.parts.consumer:
            cursor.add(op.clone(mapping))
        end = self.body.last
        assert end is not None
        return [mapping.get(v, v) for v in end.operands]

    @property
    def _carries_position(self) -> bool:
        """Whether the loop hands the oldest queued position to the drain: it is needed and not a constant."""
        return self.parts.consumer_needs_position and self.bounds.last is None

    def _steady(
        self, cursor: Cursor, start: Value, queue: list[Value]
    ) -> tuple[list[Value], list[Value], Value | None]:
        """The main loop; returns carried values, queue, and the position of the oldest queued iteration."""
        loop, step = self.loop, self.bounds.step
        inits = [*loop.iter_args, *queue]
        if self._carries_position:
            inits.append(loop.lower)
        block = Block()
        for arg in self.body.args:
            block.add_argument(arg.type)
        take_types(block.args, self.body.args)
        position, carried = block.args[0], block.args[1:]
        for value in inits[len(carried) :]:
            block.add_argument(value.type, value.name)
        queued = block.args[1 + len(carried) : 1 + len(carried) + len(queue)]
        inside = Cursor(block=block)
        record = self._read(inside, position)
        oldest = None
        if self.parts.consumer_needs_position:
            oldest = displaced(inside, position, -self.ahead * step, None, loop.loc)
        width = len(self.parts.queued)
        yielded = self._consume(inside, oldest, carried, queued[:width])
        yielded += [*queued[width:], *record]
        if self._carries_position:
            yielded.append(displaced(inside, position, -(self.ahead - 1) * step, None, loop.loc))
        block.append(scf.Yield(yielded, [], segments=(len(yielded),), loc=loop.loc))
        new = scf.For.build(
            lower=start,
            upper=loop.upper,
            step=loop.step,
            iter_args=inits,
            unroll_factor=loop.unroll_factor,
            unroll_policy=loop.unroll_policy,
            unroll_schedule=loop.unroll_schedule,
            result_types=[*(r.type for r in loop.results), *(v.type for v in inits[len(carried) :])],
            regions=[Region([block])],
            loc=loop.loc,
        )
        cursor.add(new)
        count = len(loop.results)
        take_types(new.results[:count], loop.results)
        rest = list(new.results[count:])
        if self._carries_position:
            return list(new.results[:count]), rest[:-1], rest[-1]
        return list(new.results[:count]), rest, None

    def _drain_position(self, cursor: Cursor, number: int, oldest: Value | None) -> Value | None:
        """Where the consumer stands that drains entry ``number`` of the queue."""
        if not self.parts.consumer_needs_position:
            return None
        step, last = self.bounds.step, self.bounds.last
        if last is not None:
            return literal(cursor, self.loop.lower.type, last - (self.ahead - 1 - number) * step, self.loop.loc)
        assert oldest is not None
        return displaced(cursor, oldest, number * step, None, self.loop.loc)
