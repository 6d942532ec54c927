"""Facts of the values that a counted loop carries, by induction with widening.

What holds of the initial values and, if it holds of the carried values, of the yielded ones, holds in every iteration.
The first guess is what is known of the initial values, the second one what one iteration adds. An end of a range that
still moves is given up, a divisor shrinks to a common one, and what is not stable after a few rounds is known by its
type only.
"""

from __future__ import annotations

from typing import Final

from loom.facts import integers
from loom.facts.analysis import FunctionFacts
from loom.facts.integers import IntegerFacts
from loom.ir.core import Block, Op, Region, Value
from loom.ir.types import ADDRESSES, INTEGERS

MAX_ROUNDS: Final = 4


def carried_facts(facts: FunctionFacts, loop: Op) -> dict[Value, IntegerFacts]:
    """Facts of the integer and address arguments of a loop's body besides its position."""
    block = loop.regions[0].entry
    end = block.last
    arguments = [a for a in block.args[1:] if a.type in INTEGERS or a.type in ADDRESSES]
    if end is None or not arguments:
        return {}
    outside = facts.paths.context(loop)
    first = {a: facts._facts(loop.operands[2 + a.index], outside) for a in arguments}
    found = dict(first)
    for number in range(MAX_ROUNDS + len(arguments)):
        trial = _Trial(facts, loop, found)
        yielded = {a: trial.integer(end.operands[a.index - 1], end) for a in arguments}
        moved = [a for a in arguments if not _holds(yielded[a], found[a])]
        if not moved:
            return found
        for argument in moved:
            domain = integers.domain(argument.type)
            guess = found[argument].join(yielded[argument])
            if number:
                guess = _widened(found[argument], guess, domain)
            found[argument] = guess if number < MAX_ROUNDS else domain
    return {a: integers.domain(a.type) for a in arguments}


def _holds(facts: IntegerFacts, guess: IntegerFacts) -> bool:
    """Whether facts imply a guess. Zero is divisible by everything."""
    return facts.within(guess.lo, guess.hi) and (facts.exact == 0 or facts.divisor % guess.divisor == 0)


def _widened(guess: IntegerFacts, joined: IntegerFacts, domain: IntegerFacts) -> IntegerFacts:
    """An end that moved goes to zero, if that is far enough, or as far as the type allows."""
    low, high = joined.lo, joined.hi
    if low < guess.lo:
        low = 0 if low >= 0 else domain.lo
    if high > guess.hi:
        high = 0 if high <= 0 else domain.hi
    return IntegerFacts(low, high, joined.divisor)


class _Trial(FunctionFacts):
    """Facts inside one loop under a guess about what it carries; what is outside is as it was."""

    def __init__(self, facts: FunctionFacts, loop: Op, guess: dict[Value, IntegerFacts]) -> None:
        super().__init__(facts.function, facts.target_facts)
        self.paths = facts.paths
        self.relations = facts.relations
        self._outer = facts
        self._body = loop.regions[0]
        self._guess = guess
        self._places: dict[Region, bool] = {}

    def _facts(self, value: Value, context: Region | None) -> IntegerFacts:
        guessed = self._guess.get(value)
        if guessed is not None:
            return guessed if context is None else self._on_path(value, guessed, context)
        if not self._is_inside(value):
            return self._outer._facts(value, context)
        return super()._facts(value, context)

    def _carried(self, loop: Op, value: Value, context: Region | None) -> IntegerFacts:
        """A loop inside gets no induction of its own: the cost would multiply with every level."""
        return self._handed_on(loop, value)

    def _is_inside(self, value: Value) -> bool:
        owner = value.owner
        block = owner if isinstance(owner, Block) else owner.parent
        region = block.parent if block is not None else None
        if region is None:
            return False
        known = self._places.get(region)
        if known is None:
            known = self._places[region] = self._encloses(region)
        return known

    def _encloses(self, region: Region | None) -> bool:
        while region is not None and region is not self._body:
            parent = region.parent
            region = parent.parent.parent if parent is not None and parent.parent is not None else None
        return region is not None
