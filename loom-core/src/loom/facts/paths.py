"""What holds on the way to a place: conditions, cases and the bounds of loops around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loom.facts.integers import IMPLIED, MIRRORED, NEGATED
from loom.ir.core import Op, Region, Value
from loom.ir.types import ADDRESSES, I1, INTEGERS, OFFSET

# A comparison known to hold: predicate, left side, right side (a value or a number).
Constraint = tuple[str, Value, Value | int]

# How far path facts of one region reach: values that depend on what a condition compares, and uses looked at.
MAX_REACH: Final = 64
MAX_REACH_USES: Final = 256


class Paths:
    """Regions of one function that run only under conditions, the comparisons that hold there, and what they reach."""

    def __init__(self, function: Op) -> None:
        self.function = function
        self._own: dict[Region, tuple[Constraint, ...]] = {}
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

    def reached(self, region: Region) -> set[Value]:
        """The values whose facts a region's own constraints may sharpen: what they compare and what depends on it."""
        found = self._reach.get(region)
        if found is None:
            compared = [v for _, *sides in self.constraints(region) for v in sides if isinstance(v, Value)]
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
                    if result not in found and (result.type in INTEGERS or result.type in ADDRESSES):
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


def _collect(condition: Value, holds: bool, out: list[Constraint]) -> None:
    """Comparisons that follow from a condition being true or false, through ``andi`` and ``ori``."""
    op = condition.defining_op
    out.append(("eq", condition, int(holds)))
    if op is None:
        return
    if op.name in ("index.cmp", "scalar.cmpi"):
        predicate = on_numbers(str(op.attribute("predicate")), op.operands[0])
        out.append((predicate if holds else NEGATED[predicate], op.operands[0], op.operands[1]))
    elif (op.name == "scalar.andi" and holds) or (op.name == "scalar.ori" and not holds):
        for operand in op.operands:
            _collect(operand, holds, out)


def _branch(op: Op, region: Region) -> list[Constraint]:
    """The condition holds in the first region and does not in the second."""
    found: list[Constraint] = []
    _collect(op.operands[0], region is op.regions[0], found)
    return found


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


# Ops whose regions run only under conditions, and what holds there.
_ADDS_FACTS: Final[dict[str, Callable[[Op, Region], list[Constraint]]]] = {
    "scf.if": _branch,
    "scf.switch": _case,
    "scf.for": _iteration,
}


def _is_constant(value: Value) -> bool:
    op = value.defining_op
    return op is not None and "constant" in op.spec.traits
