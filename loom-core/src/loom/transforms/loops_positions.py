"""Building loop positions without overflow: places to insert at, distances, and limits of whole groups.

Address values never wrap; a result outside 64 bits makes the program invalid (language reference, part 1,
section 15). What is built here therefore only adds a distance where the sum is known to lie below the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loom.dialects.index import ops as index_ops
from loom.dialects.scf import ops as scf
from loom.facts.integers import MAX64, IntegerFacts
from loom.ir.core import Block, Op, Value, substitute_types
from loom.ir.diagnostics import Location
from loom.ir.records import record
from loom.ir.types import INDEX, Type
from loom.spec.registry import lookup
from loom.transforms.fold import make_constant


@record
class Cursor:
    """Where new operations go: in front of an operation, or at the end of a block."""

    block: Block | None = None
    before: Op | None = None

    def add(self, op: Op) -> Op:
        """Insert a detached operation and return it."""
        if self.before is not None:
            op.insert_before(self.before)
        else:
            assert self.block is not None
            self.block.append(op)
        return op


def literal(cursor: Cursor, type_: Type, value: int, loc: Location) -> Value:
    """An address constant."""
    return cursor.add(make_constant(type_, value, loc)).results[0]


def _binary(cursor: Cursor, name: str, left: Value, right: Value, loc: Location) -> Value:
    cls: Any = lookup(name)
    return cursor.add(cls([left, right], [], [left.type], loc=loc)).results[0]


def displaced(cursor: Cursor, position: Value, distance: int, exact: int | None, loc: Location) -> Value:
    """``position + distance`` for a distance of either sign; a constant when the position is known exactly."""
    if distance == 0:
        return position
    if exact is not None:
        return literal(cursor, position.type, exact + distance, loc)
    step = literal(cursor, position.type, abs(distance), loc)
    return _binary(cursor, "index.add" if distance > 0 else "index.sub", position, step, loc)


def is_below(cursor: Cursor, left: Value, right: Value, loc: Location) -> Value:
    """Whether one position lies below another of the same address type."""
    predicate = "slt" if left.type is INDEX else "ult"
    return cursor.add(index_ops.Cmp.build(predicate=predicate, lhs=left, rhs=right, loc=loc)).results[0]


def group_limit(
    cursor: Cursor, upper: Value, distance: int, floor: int, upper_facts: IntegerFacts, loc: Location
) -> Value:
    """A limit L such that, for every position p >= ``floor``: p < L exactly if p + ``distance`` < ``upper``.

    Nothing computed here leaves 64 bits: the upper bound is first raised to ``floor + distance`` unless facts
    say that it already reaches there.
    """
    least = floor + distance
    if least > MAX64:
        return literal(cursor, upper.type, floor, loc)
    if upper_facts.exact is not None:
        return literal(cursor, upper.type, max(upper_facts.exact, least) - distance, loc)
    raised = upper
    if upper_facts.lo < least:
        bound = literal(cursor, upper.type, least, loc)
        if upper.type is INDEX:
            raised = _binary(cursor, "index.max", upper, bound, loc)
        else:
            below = is_below(cursor, upper, bound, loc)
            choice = scf.Select.build(condition=below, true_value=bound, false_value=upper, loc=loc)
            raised = cursor.add(choice).results[0]
    return displaced(cursor, raised, -distance, None, loc)


def take_types(new: Sequence[Value], old: Sequence[Value]) -> None:
    """Give new values the names of old ones, and make types that name old siblings name the new ones."""
    mapping = dict(zip(old, new, strict=True))
    for known, fresh in mapping.items():
        fresh.name = known.name
    substitute_types(new, mapping)
