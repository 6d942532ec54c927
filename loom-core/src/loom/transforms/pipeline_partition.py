"""Dividing the body of a loop into the reads that run ahead and the consumer that keeps its order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loom.ir.core import Block, Op, Value
from loom.ir.records import record
from loom.transforms.pipeline_rules import ORDERED, Role, Roles, broken
from loom.transforms.unroll_schedule import mentioned_values


def captured(op: Op) -> set[Value]:
    """The values that an operation and everything inside it take from outside."""
    own: set[Value] = set()
    for inner in op.walk():
        own.update(inner.results)
        for region in inner.regions:
            for block in region.blocks:
                own.update(block.args)
    return {value for value in mentioned_values(op) if value not in own}


@record
class Partition:
    """Both halves of one iteration, each in source order, and the read values that the queue holds."""

    producer: list[Op]
    consumer: list[Op]
    queued: list[Value]
    consumer_needs_position: bool
    read_count: int
    """How many operations of the producer read."""


class Taint:
    """Which values a read ahead must not depend on, each with the operation to blame (``None``: carried state)."""

    def __init__(self, carried: Iterable[Value]) -> None:
        self.reasons: dict[Value, Op | None] = dict.fromkeys(carried)

    def of(self, op: Op) -> Value | None:
        """A forbidden value that an operation takes."""
        return next((v for v in captured(op) if v in self.reasons), None)

    def visit(self, op: Op, roles: Roles) -> None:
        """Follow the effect of an operation on its results, operations being visited in order."""
        effects = roles.effects(op)
        for role in (Role.COLLECTIVE, Role.LOCAL_READ):
            if effects.has(role):
                self._add(op, effects.first[role])
                return
        source = self.of(op)
        if source is not None:
            self._add(op, self.reasons[source])

    def _add(self, op: Op, reason: Op | None) -> None:
        for result in op.results:
            self.reasons.setdefault(result, reason)

    def touches_carried(self, op: Op) -> bool:
        """Whether an operation depends on carried state."""
        return any(self.reasons.get(v, op) is None for v in captured(op))


def partition(loop: Any, roles: Roles) -> Partition:
    """Divide the body of a loop. Raises the diagnostic of the rule of section 10.2 that the body breaks."""
    block: Block = loop.body.entry
    end = block.last
    assert end is not None
    reads = _reading_units(loop, block, roles)
    if not reads:
        raise broken(loop, roles.depth, "nothing")
    consumer = consumer_of(block, reads, roles)
    wanted = captured(end)
    for op in consumer:
        wanted |= captured(op)
    queued = [result for op in reads for result in op.results if result in wanted]
    if not queued:
        raise broken(loop, roles.depth, "nothing")
    require_invariant_types(loop, queued, roles)
    producer = producer_of(block, queued)
    read_count = len(set(reads).intersection(producer))
    return Partition(producer, consumer, queued, block.args[0] in wanted, read_count)


def _reading_units(loop: Op, block: Block, roles: Roles) -> list[Op]:
    """The operations of the body that read ahead, whole."""
    taint = Taint(block.args[1:])
    found = []
    for op in block:
        effects = roles.effects(op)
        if effects.has(Role.READ):
            if effects.has(*ORDERED):
                raise broken(loop, roles.depth, "mixed", op)
            if effects.has(Role.COLLECTIVE):
                raise broken(loop, roles.depth, "convergent_mixed", op)
            blame_prerequisite(loop, op, taint, roles)
            found.append(op)
        taint.visit(op, roles)
    return found


def blame_prerequisite(loop: Op, op: Op, taint: Taint, roles: Roles) -> None:
    """Report a read that depends on carried state or on something that keeps its place."""
    source = taint.of(op)
    if source is None:
        return
    reason = taint.reasons[source]
    if reason is None:
        raise broken(loop, roles.depth, "prerequisite", op, f"'{op.name}' depends on carried state")
    raise broken(loop, roles.depth, "prerequisite", op, f"'{op.name}' depends on the result of '{reason.name}'")


def consumer_of(block: Block, reads: list[Op], roles: Roles) -> list[Op]:
    """Operations with effects that keep their place, and the pure ones that they and the yield need."""
    end = block.last
    assert end is not None
    ahead = set(reads)
    needed = captured(end)
    kept = []
    for op in list(block)[-2::-1]:
        if op in ahead:
            continue
        if not roles.effects(op).is_pure or any(r in needed for r in op.results):
            kept.append(op)
            needed |= captured(op)
    return kept[::-1]


def producer_of(block: Block, queued: list[Value]) -> list[Op]:
    """The reads that the queue needs, with their prerequisites."""
    needed = set(queued)
    kept = []
    for op in list(block)[-2::-1]:
        if any(r in needed for r in op.results):
            kept.append(op)
            needed |= captured(op)
    return kept[::-1]


def require_invariant_types(loop: Op, values: list[Value], roles: Roles) -> None:
    """No type of a value that crosses may name something that the loop itself makes."""
    for value in values:
        for named in value.type.values():
            if named.is_inside(loop):
                op = value.defining_op
                raise broken(loop, roles.depth, "type", op)
