"""Stating at private functions what all of their callers know (pass ``refine-boundaries``).

Language reference, part 3, section 11. Integer parameters get ``where`` predicates, a range and a divisor, that hold at
every call. Only functions that nothing outside of the module can reach, and that are reached by calls alone, are
refined; where calls go in circles nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from loom.facts.analysis import FunctionFacts
from loom.facts.integers import MAX64, MIN64, IntegerFacts, domain
from loom.ir.attributes import Predicate, Ref
from loom.ir.core import Module, Op, Value
from loom.ir.diagnostics import fail
from loom.ir.types import ADDRESSES, INTEGERS
from loom.transforms.dce import is_root, referenced_symbols

PASS: Final = "refine-boundaries"
CALLERS: Final = ("func.def", "kernel.def")


def refine_boundaries(module: Module, target_facts: Mapping[str, object], max_iterations: int | None = None) -> int:
    """Add the predicates; returns how many parameters got some.

    Every round carries facts one call further. Raises LOWERING/043 when ``max_iterations`` rounds are not enough.
    """
    callees = _refinable(module)
    # What the author wrote stays in front; what rounds add is replaced by what later rounds find.
    written: dict[Op, tuple[Predicate, ...]] = {op: tuple(op.predicates or ()) for op in callees}
    added: dict[Op, dict[int, IntegerFacts]] = {op: {} for op in callees}
    rounds = 0
    while _round(module, callees, target_facts, written, added):
        rounds += 1
        if max_iterations is not None and rounds >= max_iterations:
            if not _round(module, callees, target_facts, written, added):
                break
            raise fail(
                "LOWERING/043",
                f"facts still change at the boundaries of functions after {max_iterations} rounds",
                None,
                emitter=PASS,
                pass_name=PASS,
                max_iterations=max_iterations,
            )
    return sum(len(found) for found in added.values())


def _refinable(module: Module) -> dict[Any, list[Any]]:
    """Functions that only calls reach, with those calls."""
    functions: list[Any] = [op for op in module.body if op.name == "func.def" and not is_root(op)]
    named = {str(op.callee): op for op in functions}
    calls: dict[str, list[Any]] = {name: [] for name in named}
    references = dict.fromkeys(named, 0)
    for root in module.body:
        for name in referenced_symbols(root):
            if name in references:
                references[name] += 1
        if root.name in CALLERS:
            for call in root.walk():
                if call.name == "func.call" and str(call.attribute("callee")) in calls:
                    calls[str(call.attribute("callee"))].append(call)
    circular = _circular(module, named)
    return {
        op: calls[name]
        for name, op in named.items()
        if calls[name] and references[name] == len(calls[name]) and name not in circular
    }


def _circular(module: Module, named: Mapping[str, Op]) -> set[str]:
    """Functions that reach themselves."""
    reached = {name: {n for n in referenced_symbols(op) if n in named and n != name} for name, op in named.items()}
    own = {name for name, op in named.items() if any(_calls(op, name))}
    changed = True
    while changed:
        changed = False
        for found in reached.values():
            more = set().union(*(reached[n] for n in found)) - found
            changed |= bool(more)
            found |= more
    return own | {name for name, found in reached.items() if name in found}


def _calls(function: Op, name: str) -> Iterator[Op]:
    return (op for op in function.walk() if op.name == "func.call" and op.attribute("callee") == name)


def _round(
    module: Module,
    callees: Mapping[Any, Sequence[Any]],
    target_facts: Mapping[str, object],
    written: Mapping[Op, tuple[Predicate, ...]],
    added: dict[Op, dict[int, IntegerFacts]],
) -> bool:
    """Join facts over the calls of every function; whether some function knows more than before."""
    analyses: dict[Op, FunctionFacts] = {}
    changed = False
    for callee, calls in callees.items():
        found: dict[int, IntegerFacts] = {}
        for number, parameter in enumerate(callee.regions[-1].entry.args):
            if parameter.type not in INTEGERS and parameter.type not in ADDRESSES:
                continue
            joined = _joined(parameter, [(call, call.operands[number]) for call in calls], analyses, target_facts)
            if joined is not None:
                found[number] = joined
        if found != added[callee]:
            added[callee] = found
            predicates = [p for number, facts in found.items() for p in _predicates(number, facts)]
            new = [p for p in predicates if p not in written[callee]]
            callee.set_attribute("predicates", (*written[callee], *new) or None)
            changed = True
            # What is known inside of the function is no longer what an analysis of it has found.
            analyses.pop(callee, None)
    return changed


def _joined(
    parameter: Value, given: Sequence[tuple[Op, Value]], analyses: dict[Op, FunctionFacts], facts: Mapping[str, object]
) -> IntegerFacts | None:
    """What holds for the value of a parameter at every call, if that is more than its type says."""
    joined: IntegerFacts | None = None
    for call, value in given:
        root = _root(call)
        if root not in analyses:
            analyses[root] = FunctionFacts(root, facts)
        known = analyses[root].integer(value, call)
        if known.lo <= known.hi:  # Otherwise nothing reaches the call.
            joined = known if joined is None else joined.join(known)
    whole = domain(parameter.type)
    if joined is None or (joined.lo <= whole.lo and joined.hi >= whole.hi and joined.divisor == 1):
        return None
    return joined


def _root(op: Op) -> Op:
    while (region := op.parent.parent if op.parent is not None else None) is not None and region.parent is not None:
        op = region.parent
    return op


def _predicates(number: int, facts: IntegerFacts) -> Iterator[Predicate]:
    if facts.lo > MIN64 or facts.hi < MAX64:
        yield Predicate("range", (Ref(number), facts.lo, facts.hi))
    if facts.divisor > 1 and facts.exact is None:
        yield Predicate("multiple_of", (Ref(number), facts.divisor))
