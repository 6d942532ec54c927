"""What holds on the way to a place: conditions, cases and the bounds of loops around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loom.facts.integers import IMPLIED, MIRRORED, NEGATED
from loom.ir.core import Op, Region, Value
from loom.ir.types import ADDRESSES, FLOATS, I1, INTEGERS, OFFSET

# A comparison known to hold: predicate, left side, right side (a value or a number); ``multiple`` of a number, too.
Constraint = tuple[str, Value, Value | int]
# Outcomes of a comparison of floats that are left; a value alone is no infinity.
FloatConstraint = tuple[int, Value, Value | None]

# How far path facts of one region reach: values that depend on what a condition compares, and uses looked at.
MAX_REACH: Final = 64
MAX_REACH_USES: Final = 256


class Paths:
    """Regions of one function that run only under conditions, the comparisons that hold there, and what they reach."""

    def __init__(self, function: Op) -> None:
        self.function = function
        self._own: dict[Region, tuple[Constraint, ...]] = {}
        self._floats: dict[Region, tuple[FloatConstraint, ...]] = {}
        self._reach: dict[Region, set[Value]] = {}
        self._numbers: dict[Op, int] | None = None

    def context(self, at: Op) -> Region | None:
        """The innermost enclosing region that adds path facts."""
        block = at.parent
        while block is not None and block.parent is not None:
            region = block.parent
            parent = region.parent
            if parent is None or parent is self.function:
                return None
            if parent.name in _ADDS_FACTS:
                return region
            block = parent.parent
        return None

    def outside(self, region: Region) -> Region | None:
        """The next region outwards that adds path facts."""
        assert region.parent is not None
        return self.context(region.parent)

    def constraints(self, region: Region) -> tuple[Constraint, ...]:
        """The comparisons that hold in a region because of the op that it belongs to."""
        found = self._own.get(region)
        if found is None:
            parent = region.parent
            assert parent is not None
            found = self._own[region] = tuple(_ADDS_FACTS[parent.name](parent, region))
        return found

    def float_constraints(self, region: Region) -> tuple[FloatConstraint, ...]:
        """What holds of floats in a region because of the op that it belongs to."""
        found = self._floats.get(region)
        if found is None:
            parent = region.parent
            assert parent is not None
            made = _float_branch(parent, region) if parent.name == "scf.if" else []
            found = self._floats[region] = tuple(made)
        return found

    def reached(self, region: Region) -> set[Value]:
        """The values whose facts a region's own constraints may sharpen: what they compare and what depends on it."""
        found = self._reach.get(region)
        if found is None:
            known: list[tuple[Any, ...]] = [*self.constraints(region), *self.float_constraints(region)]
            compared = [v for _, *sides in known for v in sides if isinstance(v, Value)]
            found = self._reach[region] = self._dependents([v for v in compared if not _is_constant(v)], region)
        return found

    def _dependents(self, start: list[Value], region: Region) -> set[Value]:
        """Values computed from some values without leaving a region at its end, the nearest first up to a limit."""
        last = self._last_number(region)
        numbers = self._numbers or {}
        # The same order in every run: what is cut off beyond the limit must not depend on where objects lie.
        queue = list(dict.fromkeys(start))
        found = set(queue)
        looked = 0
        for value in queue:
            for user in value.uses:
                looked += 1
                if looked > MAX_REACH_USES or len(queue) > MAX_REACH:
                    return found
                results = user.results
                if not results and user.name == "scf.yield":
                    owner = user.parent_op
                    results = owner.results if owner is not None and owner.name in ("scf.if", "scf.switch") else []
                elif user.regions:
                    continue
                # What is defined behind the region never asks for facts inside it; a new op has no number.
                if not results or (last is not None and numbers.get(user, last) > last):
                    continue
                for result in results:
                    if result not in found and result.type in _FOLLOWED:
                        found.add(result)
                        queue.append(result)
        return found

    def _last_number(self, region: Region) -> int | None:
        """The number of the last op of a region in the order of the function's text, as far as it has one."""
        if self._numbers is None:
            self._numbers = {op: number for number, op in enumerate(self.function.walk())}
        end = region.blocks[-1].last
        return None if end is None else self._numbers.get(end)

    def known(self, predicate: str, left: Value, right: Value, region: Region | None) -> bool | None:
        """The outcome of a comparison that regions around a place settle by comparing the same two values."""
        while region is not None:
            for known, a, b in self.constraints(region):
                if a is right and b is left:
                    known = MIRRORED[known]
                elif a is not left or b is not right:
                    continue
                if predicate in IMPLIED[known]:
                    return True
                if NEGATED[predicate] in IMPLIED[known]:
                    return False
            region = self.outside(region)
        return None


def on_numbers(predicate: str, operand: Value) -> str:
    """The predicate as it orders the numbers of facts.

    A signed reading of true is -1, where facts have 1. Offsets are never negative: signed and unsigned agree.
    """
    if operand.type is I1 and predicate.startswith("s"):
        return MIRRORED[predicate]
    return "s" + predicate[1:] if operand.type is OFFSET and predicate.startswith("u") else predicate


def _leaves(condition: Value, holds: bool) -> list[tuple[Value, bool]]:
    """Truth values that follow from one being true or false, through ``andi``, ``ori`` and negation."""
    found = []
    pending = [(condition, holds)]
    while pending:
        value, wanted = pending.pop()
        found.append((value, wanted))
        op = value.defining_op
        if op is None:
            continue
        if (op.name == "scalar.andi" and wanted) or (op.name == "scalar.ori" and not wanted):
            pending += [(operand, wanted) for operand in reversed(op.operands)]
        elif op.name == "scalar.xori":
            for operand, other in (op.operands, reversed(op.operands)):
                if _is_constant(other) and other.defining_op is not None:
                    pending.append((operand, wanted != bool(other.defining_op.attribute("value"))))
                    break
    return found


def _branch(op: Op, region: Region) -> list[Constraint]:
    """The condition holds in the first region and does not in the second."""
    found: list[Constraint] = []
    for condition, holds in _leaves(op.operands[0], region is op.regions[0]):
        found.append(("eq", condition, int(holds)))
        maker = condition.defining_op
        if maker is not None and maker.name in ("index.cmp", "scalar.cmpi"):
            left, right = maker.operands
            predicate = on_numbers(str(maker.attribute("predicate")), left)
            predicate = predicate if holds else NEGATED[predicate]
            found.append((predicate, left, right))
            if predicate == "eq":
                found += _multiples(left, right)
    return found


def _multiples(left: Value, right: Value) -> list[Constraint]:
    """What a remainder, or masked low bits, that are zero say of the value they are taken of."""
    op = left.defining_op
    if op is None or _literal(right) != 0 or op.name not in _REMAINDERS:
        return []
    divisor = _literal(op.operands[1])
    if divisor is None or divisor <= 0:
        return []
    if op.name.endswith("andi"):
        divisor += 1
    # The bits of a negative number as an unsigned one differ from it by a power of two.
    powers_only = op.name in ("scalar.remui", "scalar.andi", "index.andi")
    return [] if powers_only and divisor & (divisor - 1) else [("multiple", op.operands[0], divisor)]


_REMAINDERS: Final = frozenset({"index.rem", "scalar.remsi", "scalar.remui", "index.andi", "scalar.andi"})


def _literal(value: Value) -> int | None:
    op = value.defining_op
    literal = op.attribute("value") if op is not None and _is_constant(value) else None
    return literal if isinstance(literal, int) and not isinstance(literal, bool) else None


def _float_branch(op: Op, region: Region) -> list[FloatConstraint]:
    """Comparisons and tests of floats that hold in the first region and do not in the second."""
    found: list[FloatConstraint] = []
    for condition, holds in _leaves(op.operands[0], region is op.regions[0]):
        maker = condition.defining_op
        if maker is not None and maker.name in _FLOAT_CONDITIONS:
            found += _float_outcomes(maker, holds)
    return found


_FLOAT_CONDITIONS: Final = frozenset({"scalar.cmpf", "scalar.isnanf", "scalar.isinff", "scalar.isfinitef"})


def _float_outcomes(op: Op, holds: bool) -> list[FloatConstraint]:
    from loom.facts.floats import ANY, EQUAL, OUTCOMES, UNORDERED

    value = op.operands[0]
    if op.name == "scalar.cmpf":
        accepted = OUTCOMES[str(op.attribute("predicate"))]
        flags: Any = op.attribute("flags") or ()
        if "nnan" in flags or "fast" in flags:
            return [(accepted & ~UNORDERED if holds else ANY & ~accepted & ~UNORDERED, value, op.operands[1])]
        return [(accepted if holds else ANY & ~accepted, value, op.operands[1])]
    if op.name == "scalar.isnanf":
        return [(UNORDERED if holds else EQUAL, value, value)]
    if op.name == "scalar.isinff":
        return [(EQUAL, value, value)] if holds else [(EQUAL, value, None)]
    return [(EQUAL, value, value), (EQUAL, value, None)] if holds else []


def _case(op: Op, region: Region) -> list[Constraint]:
    """The selector equals the key of a case, and none of the keys in the default region."""
    keys: Any = op.attribute("case_keys")
    if region is op.regions[0]:
        return [("ne", op.operands[0], key) for key in keys]
    return [("eq", op.operands[0], keys[op.regions.index(region) - 1])]


def _iteration(op: Op, region: Region) -> list[Constraint]:
    """A position lies between the bounds."""
    position = region.entry.args[0]
    return [("slt", position, op.operands[1]), ("sge", position, op.operands[0])]


_FOLLOWED: Final = INTEGERS | ADDRESSES | FLOATS

# Ops whose regions run only under conditions, and what holds there.
_ADDS_FACTS: Final[dict[str, Callable[[Op, Region], list[Constraint]]]] = {
    "scf.if": _branch,
    "scf.switch": _case,
    "scf.for": _iteration,
}


def _is_constant(value: Value) -> bool:
    op = value.defining_op
    return op is not None and "constant" in op.spec.traits
