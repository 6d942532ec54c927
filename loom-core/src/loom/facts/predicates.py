"""Deciding predicates by facts, in three values (language reference, part 3, section 10.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from loom.facts import integers
from loom.facts.integers import COMPARISONS, IntegerFacts, exactly
from loom.ir.attributes import Predicate, Ref

if TYPE_CHECKING:
    from loom.facts.floats import FloatFacts


def decide_predicate(predicate: Predicate, value: Callable[[int], IntegerFacts | FloatFacts | None]) -> bool | None:
    """Whether a predicate is proven true, proven false, or unknown. ``value`` gives facts by position."""

    def side(argument: int | Ref) -> IntegerFacts | FloatFacts | None:
        return value(argument.index) if isinstance(argument, Ref) else exactly(argument)

    args = [side(a) for a in predicate.args]
    name = predicate.name
    known = [a for a in args if isinstance(a, IntegerFacts)]
    if len(known) != len(args):
        return _decide_floats(name, args)
    if name in COMPARISONS:
        return integers.decide(COMPARISONS[name], known[0], known[1])
    if name == "range":
        return all_of([integers.decide("sge", known[0], known[1]), integers.decide("sle", known[0], known[2])])
    if name == "multiple_of":
        return _multiple(known[0], known[1].exact)
    if name == "power_of_two":
        exact = known[0].exact
        if exact is not None:
            return exact > 0 and exact & (exact - 1) == 0
        return False if known[0].hi <= 0 else None
    return None


def _decide_floats(name: str, args: Sequence[IntegerFacts | FloatFacts | None]) -> bool | None:
    if any(a is None for a in args):
        return None
    from loom.facts import floats

    known = [a for a in args if isinstance(a, floats.FloatFacts)]
    return floats.decide_predicate(name, known[0], known[-1]) if len(known) == len(args) else None


def _multiple(facts: IntegerFacts, divisor: int | None) -> bool | None:
    if divisor is None or divisor <= 0:
        return None
    if facts.divisor % divisor == 0:
        return True
    if facts.exact is not None:
        return facts.exact % divisor == 0
    if (facts.lo > 0 and facts.hi < divisor) or (-divisor < facts.lo and facts.hi < 0):
        return False
    return None


def all_of(answers: Sequence[bool | None]) -> bool | None:
    """Whether all hold: false as soon as one is refuted."""
    if any(a is False for a in answers):
        return False
    return None if any(a is None for a in answers) else True
