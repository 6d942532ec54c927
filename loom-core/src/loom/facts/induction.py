"""Facts of the values that loops carry and that branches hand over, by induction with widening.

What holds of the initial values and, if it holds of the carried values, of the yielded ones, holds in every iteration.
The first guess is what is known of the initial values, the second one what one iteration adds. An end of a range that
still moves is given up, a divisor shrinks to a common one, and what is not stable after a few rounds is known by its
type only. What was given up is then looked at once more: a condition that ends the loop may bound it after all.

Arguments of blocks are guessed together, from the entry block on; a block that no branch has led to yet adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from loom.facts import integers
from loom.facts.analysis import FunctionFacts
from loom.facts.integers import IntegerFacts
from loom.facts.paths import Context
from loom.ir.core import Block, Op, Region, Value
from loom.ir.types import ADDRESSES, INTEGERS

MAX_ROUNDS: Final = 4
#: Rounds over the blocks of a region; loops in loops settle from the inside out.
MAX_GRAPH_ROUNDS: Final = 16

Guess = dict[Value, IntegerFacts]


def carried_facts(facts: FunctionFacts, loop: Op) -> Guess:
    """Facts of the integer and address arguments that a ``scf.for`` or ``scf.while`` carries, besides its position."""
    block = loop.regions[0].entry
    end = loop.regions[-1].entry.last
    # A counted loop has its position in front of what it carries, and its bounds in front of the initial values.
    shift, inits = (1, 2) if loop.name == "scf.for" else (0, 0)
    arguments = [a for a in block.args[shift:] if a.type in INTEGERS or a.type in ADDRESSES]
    if end is None or not arguments:
        return {}
    outside = facts.paths.context(loop)
    first = {a: facts._facts(loop.operands[inits + a.index], outside) for a in arguments}

    def following(guess: Guess) -> Guess:
        trial = _Trial(facts, loop.regions, guess)
        return {a: trial.integer(end.operands[a.index - shift], end) for a in arguments}

    return _settled(arguments, first, following)


def _settled(arguments: Sequence[Value], first: Guess, following: Callable[[Guess], Guess]) -> Guess:
    """A guess that holds of the first values and that no iteration breaks."""
    found = dict(first)
    for number in range(MAX_ROUNDS + len(arguments)):
        yielded = following(found)
        moved = [a for a in arguments if not _holds(yielded[a], found[a])]
        if not moved:
            return _narrowed(found, first, following) if number > 1 else found
        for argument in moved:
            domain = integers.domain(argument.type)
            guess = found[argument].join(yielded[argument])
            if number:
                guess = _widened(found[argument], guess, domain)
            found[argument] = guess if number < MAX_ROUNDS else domain
    return {a: integers.domain(a.type) for a in arguments}


def _narrowed(found: Guess, first: Guess, following: Callable[[Guess], Guess]) -> Guess:
    """A sharper guess made of what one more iteration gives, if it holds as well."""
    closer = _sharpened(found, {a: first[a].join(facts) for a, facts in following(found).items()})
    if closer == found:
        return found
    yielded = following(closer)
    return closer if all(_holds(first[a], closer[a]) and _holds(yielded[a], closer[a]) for a in closer) else found


def _sharpened(found: Guess, supplied: Mapping[Value, IntegerFacts]) -> Guess:
    return {
        a: IntegerFacts(max(facts.lo, supplied[a].lo), min(facts.hi, supplied[a].hi), facts.divisor)
        if a in supplied
        else facts
        for a, facts in found.items()
    }


def argument_facts(facts: FunctionFacts, region: Region) -> Guess:
    """Facts of the integer and address arguments of all blocks of a region but its entry."""
    graph = facts.paths.graph(region)
    if any(branch.parent is None for branches in graph.leading.values() for branch in branches):
        return {}  # Rewriting has replaced some, and what leads where now is not known here.
    found = dict(_supplied(facts, region, {}))
    for number in range(MAX_GRAPH_ROUNDS):
        moved = False
        for argument, supplied in _supplied(facts, region, found):
            known = found[argument]
            if not _holds(supplied, known):
                moved = True
                domain = integers.domain(argument.type)
                guess = known.join(supplied)
                if number:
                    guess = _widened(known, guess, domain)
                found[argument] = guess if number < MAX_ROUNDS else domain
        if not moved:
            break
    else:
        return {}
    if number < 2:
        return found
    closer = _sharpened(found, dict(_supplied(facts, region, found)))
    return closer if all(_holds(supplied, closer[a]) for a, supplied in _supplied(facts, region, closer)) else found


def _supplied(facts: FunctionFacts, region: Region, guess: Guess) -> Iterator[tuple[Value, IntegerFacts]]:
    """What branches hand over to each argument under a guess about all of them, which may change meanwhile.

    Without any guess arguments get theirs from the branches in front of them.
    """
    graph = facts.paths.graph(region)
    start = not guess
    trial = _Trial(facts, [region], guess)
    reached = {region.entry}
    for block in graph.order:
        if block is region.entry:
            continue
        branches = [b for b in graph.leading[block] if not start or b.parent in reached]
        reached.add(block)
        for argument in block.args:
            if argument.type not in INTEGERS and argument.type not in ADDRESSES:
                continue
            joined: IntegerFacts | None = None
            for branch in branches:
                known = integers.domain(argument.type)
                if branch.name == "cfg.br":
                    known = trial.integer(branch.operands[argument.index], branch)
                joined = known if joined is None else joined.join(known)
            assert joined is not None
            if start:
                guess[argument] = joined
            yield argument, joined


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
    """Facts inside some regions under a guess about arguments of their blocks; what is outside is as it was."""

    def __init__(self, facts: FunctionFacts, regions: Sequence[Region], guess: Guess) -> None:
        super().__init__(facts.function, facts.target_facts)
        self.paths = facts.paths
        self.relations = facts.relations
        self._outer = facts
        self._body = frozenset(regions)
        self._guess = guess
        self._places: dict[Region, bool] = {}

    def _facts(self, value: Value, context: Context | None) -> IntegerFacts:
        guessed = self._guess.get(value)
        if guessed is not None:
            return guessed if context is None else self._on_path(value, guessed, context)
        if not self._is_inside(value):
            return self._outer._facts(value, context)
        return super()._facts(value, context)

    def _carried(self, loop: Op, value: Value) -> IntegerFacts:
        """A loop inside gets no induction of its own: the cost would multiply with every level."""
        return self._handed_on(loop, value)

    def _handed_over(self, region: Region) -> Guess:
        """Nor do blocks inside; those of the region itself have their guesses."""
        return {}

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
        while region is not None and region not in self._body:
            parent = region.parent
            region = parent.parent.parent if parent is not None and parent.parent is not None else None
        return region is not None
