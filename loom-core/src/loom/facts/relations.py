"""Order between values: what follows of comparisons, assumptions and arithmetic by adding up differences.

An edge ``(u, v, w)`` says ``u <= v + w`` of the mathematical values. A search upwards from one value and downwards
from another one meets where both are compared with a third; its length is limited, so that a question has a bounded
cost. Ranges are not looked at: they are facts of single values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from loom.facts.integers import COMPARISONS, MIRRORED
from loom.ir.attributes import Predicate, Ref
from loom.ir.core import Block, Value
from loom.ir.types import ADDRESSES, I1

if TYPE_CHECKING:
    from loom.facts.paths import Context, Paths

#: Values that one search looks at.
MAX_VALUES: Final = 32

#: A neighbour and the weight of the edge to it.
Edge = tuple[Value, int]
#: Comparison -> what it adds to the right side to bound the left one from above; no entry: nothing.
_AT_MOST: Final = {"slt": -1, "sle": 0, "eq": 0}


class Relations:
    """Differences between the values of one function."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self._compared: dict[Context, dict[Value, list[tuple[str, Value]]]] = {}

    def decide(self, predicate: str, left: Value, right: Value, context: Context | None) -> bool | None:
        """The outcome of a signed comparison or one for equality, if order settles it."""
        if predicate in ("sgt", "sge"):
            left, right, predicate = right, left, MIRRORED[predicate]
        if predicate in ("slt", "sle"):
            at_most = self.difference(left, right, context)
            if at_most is not None and at_most <= _AT_MOST[predicate]:
                return True
            # The opposite of a < b is b <= a, that of a <= b is b < a.
            opposite = self.difference(right, left, context)
            return False if opposite is not None and opposite <= -1 - _AT_MOST[predicate] else None
        if predicate not in ("eq", "ne"):
            return None
        above, below = self.difference(left, right, context), self.difference(right, left, context)
        if (above is not None and above < 0) or (below is not None and below < 0):
            return predicate == "ne"
        return predicate == "eq" if above == below == 0 else None

    def difference(self, left: Value, right: Value, context: Context | None) -> int | None:
        """The least ``w`` that is found with ``left <= right + w``."""
        above = self._reach(left, context, _upwards, _AT_MOST)
        below = self._reach(right, context, _downwards, {MIRRORED[name]: w for name, w in _AT_MOST.items()})
        return min((above[v] + below[v] for v in above.keys() & below.keys()), default=None)

    def _reach(
        self, start: Value, context: Context | None, step: Callable[[Value], Iterator[Edge]], weights: dict[str, int]
    ) -> dict[Value, int]:
        found = {start: 0}
        queue = [start]
        for value in queue:
            edges = [*step(value), *self._from_paths(value, context, weights), *_from_predicates(value, weights)]
            for neighbour, weight in edges:
                total = found[value] + weight
                if neighbour not in found:
                    if len(queue) >= MAX_VALUES:
                        continue
                    queue.append(neighbour)
                elif total >= found[neighbour]:
                    continue
                # A shorter way found late improves this value only, not those behind it: still true, if less sharp.
                found[neighbour] = total
        return found

    def _from_paths(self, value: Value, context: Context | None, weights: dict[str, int]) -> Iterator[Edge]:
        while context is not None:
            for predicate, other in self._comparisons(context).get(value, ()):
                weight = weights.get(predicate)
                if weight is not None:
                    yield other, weight
            context = self.paths.outside(context)

    def _comparisons(self, context: Context) -> dict[Value, list[tuple[str, Value]]]:
        """What a context's own constraints compare, by the left side."""
        found = self._compared.get(context)
        if found is None:
            found = self._compared[context] = {}
            for predicate, left, right in self.paths.constraints(context):
                if isinstance(right, Value):
                    found.setdefault(left, []).append((predicate, right))
                    found.setdefault(right, []).append((MIRRORED[predicate], left))
        return found


def _from_predicates(value: Value, weights: dict[str, int]) -> Iterator[Edge]:
    """What assumptions about a value and clauses of the function compare it with."""
    op: Any = value.defining_op
    if op is None:
        block = value.owner
        assert isinstance(block, Block)
        region = block.parent
        function: Any = region.parent if region is not None else None
        if function is None or "predicates" not in function.spec.attribute_index or region is not function.regions[-1]:
            return
        if block is region.entry:
            yield from _compared(value, function.attribute("predicates") or (), block.args, weights)
    elif op.name in _ASSUMPTIONS:
        source = op.group(0)[value.index]
        yield source, 0
        yield from _compared(source, op.attribute("predicates"), op.group(1), weights)


def _compared(value: Value, predicates: Any, named: list[Value], weights: dict[str, int]) -> Iterator[Edge]:
    for predicate in predicates:
        comparison = COMPARISONS.get(predicate.name)
        sides = [named[a.index] for a in predicate.args if isinstance(a, Ref) and a.index < len(named)]
        if comparison is None or len(sides) != 2 or value not in sides:
            continue
        weight = weights.get(comparison if sides[0] is value else MIRRORED[comparison])
        if weight is not None:
            yield sides[sides[0] is value], weight


_ASSUMPTIONS: Final = frozenset({"index.assume", "scalar.assume", "sanitizer.assert.value"})
_MINIMA: Final = frozenset({"index.min", "scalar.minsi"})
_MAXIMA: Final = frozenset({"index.max", "scalar.maxsi"})


def _upwards(value: Value) -> Iterator[Edge]:
    """What the value is at most, by how it is made."""
    op = value.defining_op
    if op is None or value.type is I1 or op.parent is None:
        return  # Among those without a block are operations that rewriting has erased, which guards may still name.
    yield from _moved(op)
    if op.name in _MINIMA:
        yield from ((operand, 0) for operand in op.operands)
    elif op.name == "index.rem":
        # The dividend is not negative and the divisor positive, or the program is undefined.
        yield op.operands[0], 0
        yield op.operands[1], -1
    elif op.name == "index.div":
        yield op.operands[0], 0


def _downwards(value: Value) -> Iterator[Edge]:
    """What the value is at least; an edge to ``v`` with ``w`` says ``v <= value + w``."""
    op = value.defining_op
    if op is None or value.type is I1 or op.parent is None:
        return
    yield from ((operand, -weight) for operand, weight in _moved(op))
    if op.name in _MAXIMA:
        yield from ((operand, 0) for operand in op.operands)


def _moved(op: Any) -> Iterator[Edge]:
    """Sums and differences with constants that cannot wrap, and casts that keep the value."""
    if op.name == "index.cast":
        if op.operands[0].type in ADDRESSES and op.results[0].type in ADDRESSES:
            yield op.operands[0], 0
        return
    sign = _SIGNS.get(op.name)
    if sign is None or (op.name.startswith("scalar.") and "nsw" not in (op.flags or ())):
        return
    a, b = op.operands
    if (constant := _constant(b)) is not None:
        yield a, sign * constant
    elif sign > 0 and (constant := _constant(a)) is not None:
        yield b, constant


_SIGNS: Final = {"index.add": 1, "index.sub": -1, "scalar.addi": 1, "scalar.subi": -1}


def _constant(value: Value) -> int | None:
    op = value.defining_op
    literal = op.attribute("value") if op is not None and "constant" in op.spec.traits else None
    return literal if isinstance(literal, int) and not isinstance(literal, bool) else None


def compared_values(predicate: Predicate, named: Sequence[Value]) -> tuple[str, Value, Value] | None:
    """The comparison of two values that a predicate is, if it is one."""
    comparison = COMPARISONS.get(predicate.name)
    sides = [a.index for a in predicate.args if isinstance(a, Ref) and a.index < len(named)]
    return None if comparison is None or len(sides) != 2 else (comparison, named[sides[0]], named[sides[1]])
