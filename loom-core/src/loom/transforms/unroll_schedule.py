"""Ordering the copies of unrolled iterations: ``linear``, ``interleaved``, ``recurrence``.

Language reference, part 3, section 10.3. A schedule only chooses among the orders that dependencies allow:
values, effects on memory, and source fences, which keep everything before them before everything behind them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Final

from loom.ir.core import Block, Op, Value

_ORDERED: Final = frozenset({"writes", "unknown_effects", "convergent", "observable", "fence", "allocates", "call"})
_TRANSPARENT: Final = frozenset({"pure", "region_effects", "terminator", "constant"})


def mentioned_values(op: Op) -> Iterator[Value]:
    """Every value that an operation uses, by operands and by types, in nested regions too."""
    for inner in op.walk():
        yield from inner.operands
        for result in inner.results:
            yield from result.type.values()
        for region in inner.regions:
            for block in region.blocks:
                for argument in block.args:
                    yield from argument.type.values()


def arrange(copies: Sequence[Sequence[Op]], body: Block, schedule: str | None) -> list[Op]:
    """All operations of the copies in the order that the schedule asks for.

    Each copy holds the operations of ``body`` without its terminator, in order.
    """
    if schedule != "recurrence" and (schedule != "interleaved" or len(copies) < 2):
        return [op for copy in copies for op in copy]
    carried = _carried_users(body) if schedule == "recurrence" else frozenset()
    ops: list[Op] = []
    keys: list[tuple[int, int, int]] = []
    for number, copy in enumerate(copies):
        for position, op in enumerate(copy):
            ops.append(op)
            if schedule == "interleaved":
                keys.append((0, position, number))
            else:
                keys.append((0 if position in carried else 1, number, position))
    return _in_order(ops, keys)


def _carried_users(body: Block) -> frozenset[int]:
    """Positions of the operations that depend on carried values."""
    reached: set[Value] = set(body.args[1:])
    positions = set()
    for position, op in enumerate(body):
        if any(value in reached for value in mentioned_values(op)):
            reached.update(op.results)
            positions.add(position)
    return frozenset(positions)


def _in_order(ops: list[Op], keys: list[tuple[int, int, int]]) -> list[Op]:
    """The topological order that takes the ready operation with the smallest key each time."""
    successors: list[list[int]] = [[] for _ in ops]
    waiting = [0] * len(ops)
    for number, before in enumerate(_dependences(ops)):
        waiting[number] = len(before)
        for earlier in before:
            successors[earlier].append(number)
    ready = [(keys[n], n) for n in range(len(ops)) if not waiting[n]]
    heapq.heapify(ready)
    result = []
    while ready:
        _, number = heapq.heappop(ready)
        result.append(ops[number])
        for later in successors[number]:
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, (keys[later], later))
    return result


def _dependences(ops: list[Op]) -> Iterator[set[int]]:
    """For each operation, in order, the earlier ones that must stay in front of it."""
    makers: dict[Value, int] = {}
    last_ordered: int | None = None
    reads: list[int] = []
    fence: int | None = None
    since_fence: list[int] = []
    for number, op in enumerate(ops):
        before = {makers[v] for v in mentioned_values(op) if v in makers}
        if fence is not None:
            before.add(fence)
        if op.name == "scf.schedule.fence":
            before.update(since_fence)
            fence, since_fence = number, []
        else:
            since_fence.append(number)
            effect = effect_of(op)
            if effect != "none" and last_ordered is not None:
                before.add(last_ordered)
            if effect == "read":
                reads.append(number)
            elif effect == "ordered":
                before.update(reads)
                last_ordered, reads = number, []
        makers.update((result, number) for result in op.results)
        yield before


def effect_of(op: Op) -> str:
    """``none``, ``read``, or ``ordered`` for whatever must keep its place among effects."""
    strongest = "none"
    for inner in op.walk():
        traits = inner.spec.traits
        if traits & _ORDERED or not (traits & _TRANSPARENT or "reads" in traits or "hint" in traits):
            return "ordered"
        if "reads" in traits:
            if "flags" in inner.spec.attribute_index and inner.attribute("flags"):
                return "ordered"
            strongest = "read"
    return strongest
