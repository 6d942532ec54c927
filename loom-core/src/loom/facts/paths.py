"""What holds on the way to a place: conditions, cases and the bounds of loops around it.

A place has a context, the innermost region or block around or in front of it that adds something: regions that run only
under conditions, and blocks that one side of a branch alone leads to, which every block behind them inherits.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from loom.facts.integers import IMPLIED, MIRRORED, NEGATED
from loom.ir.core import Block, Op, Region, Value
from loom.ir.types import ADDRESSES, FLOATS, I1, INTEGERS, OFFSET

Context = Region | Block
# A comparison known to hold: predicate, left side, right side (a value or a number); ``multiple`` of a number, too.
Constraint = tuple[str, Value, Value | int]
# Outcomes of a comparison of floats that are left; a value alone is no infinity.
FloatConstraint = tuple[int, Value, Value | None]

# How far path facts of one region reach: values that depend on what a condition compares, and uses looked at.
MAX_REACH: Final = 64
MAX_REACH_USES: Final = 256

# What is computed from a value: which of its uses that is, the number of the user in the function's text, its results.
_Follower = tuple[int, int, list[Value]]


class Paths:
    """Regions of one function that run only under conditions, the comparisons that hold there, and what they reach."""

    def __init__(self, function: Op) -> None:
        self.function = function
        self._own: dict[Context, tuple[Constraint, ...]] = {}
        self._floats: dict[Context, tuple[FloatConstraint, ...]] = {}
        self._reach: dict[Context, set[Value]] = {}
        self._numbers: dict[Op, int] | None = None
        self._following: dict[Value, tuple[int, list[_Follower]]] = {}
        self._graphs: dict[Region, _Graph] = {}

    def context(self, at: Op) -> Context | None:
        """The innermost context of an operation."""
        block = at.parent
        while block is not None and block.parent is not None:
            region = block.parent
            if len(region.blocks) > 1 and (guarded := self.graph(region).guarded(block)) is not None:
                return guarded
            parent = region.parent
            if parent is None or parent is self.function:
                return None
            if parent.name in _ADDS_FACTS:
                return region
            block = parent.parent
        return None

    def incoming(self, block: Block) -> list[tuple[list[Value], Context | None]]:
        """What is handed to the arguments of a block, and in which context.

        For blocks that branches lead to and those of a ``scf.while``; empty where something else leads there.
        """
        region = block.parent
        parent = region.parent if region is not None else None
        if region is None or parent is None:
            return []
        if block is not region.entry:
            branches = self.graph(region).leading.get(block, [])
            if any(b.name != "cfg.br" or b.parent is None for b in branches):
                return []
            return [(branch.operands, self.context(branch)) for branch in branches]
        if parent.name != "scf.while":
            return []
        first, second = (each.entry.last for each in parent.regions)
        if first is None or second is None:
            return []
        if region is parent.regions[1]:
            return [(first.operands[1:], region)]
        return [(parent.operands, self.context(parent)), (second.operands, self.context(second))]

    def graph(self, region: Region) -> _Graph:
        """The branches between the blocks of a region."""
        found = self._graphs.get(region)
        if found is None:
            found = self._graphs[region] = _Graph(region)
        return found

    def outside(self, context: Context) -> Context | None:
        """The next context outwards: for a block that of its dominators, which are in front of it."""
        region = context
        if isinstance(context, Block):
            assert context.parent is not None
            region = context.parent
            above = self.graph(region).above(context)
            if above is not None:
                return above
            parent = region.parent
            if parent is None or parent is self.function:
                return None
            if parent.name in _ADDS_FACTS:
                return region
        assert isinstance(region, Region)
        assert region.parent is not None
        return self.context(region.parent)

    def constraints(self, context: Context) -> tuple[Constraint, ...]:
        """The comparisons that hold in a context because of what leads into it."""
        found = self._own.get(context)
        if found is None:
            assert context.parent is not None
            if isinstance(context, Block):
                condition = self.graph(context.parent).condition(context)
                made = _condition(*condition) if condition is not None else []
            else:
                made = _ADDS_FACTS[context.parent.name](context.parent, context)
            found = self._own[context] = tuple(made)
        return found

    def float_constraints(self, context: Context) -> tuple[FloatConstraint, ...]:
        """What holds of floats in a context because of what leads into it."""
        found = self._floats.get(context)
        if found is None:
            assert context.parent is not None
            if isinstance(context, Block):
                condition = self.graph(context.parent).condition(context)
                made = _float_condition(*condition) if condition is not None else []
            elif context.parent.name == "scf.if":
                made = _float_condition(context.parent.operands[0], context is context.parent.regions[0])
            else:
                made = []
            found = self._floats[context] = tuple(made)
        return found

    def reached(self, context: Context) -> set[Value]:
        """The values whose facts a context's own constraints may sharpen: what they compare and what depends on it."""
        found = self._reach.get(context)
        if found is None:
            known: list[tuple[Any, ...]] = [*self.constraints(context), *self.float_constraints(context)]
            compared = [v for _, *sides in known for v in sides if isinstance(v, Value)]
            found = self._reach[context] = self._dependents([v for v in compared if not _is_constant(v)], context)
        return found

    def _dependents(self, start: list[Value], context: Context) -> set[Value]:
        """Values computed from some values without leaving a region at its end, the nearest first up to a limit.

        What a block's condition is about may be used in blocks anywhere behind it.
        """
        last = self._last_number(context) if isinstance(context, Region) else None
        # The same order in every run: what is cut off beyond the limit must not depend on where objects lie.
        queue = list(dict.fromkeys(start))
        found = set(queue)
        looked = 0
        for value in queue:
            for place, number, results in self._followers(value):
                if looked + place > MAX_REACH_USES or len(queue) > MAX_REACH:
                    return found
                # What is defined behind the region never asks for facts inside it.
                if last is not None and number > last:
                    continue
                for result in results:
                    if result not in found:
                        found.add(result)
                        queue.append(result)
            looked += len(value.uses)
            if looked > MAX_REACH_USES:
                break
        return found

    def _followers(self, value: Value) -> list[_Follower]:
        """What is computed from a value directly.

        A bound may be that of hundreds of loops, which follow it nowhere: users are looked at when their number is new.
        """
        known = self._following.get(value)
        if known is not None and known[0] == len(value.uses):
            return known[1]
        numbers = self._numbered()
        found = []
        for place, user in enumerate(islice(value.uses, MAX_REACH_USES), 1):
            results = user.results
            if not results and user.name == "scf.yield":
                owner = user.parent_op
                results = owner.results if owner is not None and owner.name in ("scf.if", "scf.switch") else []
            elif user.regions:
                continue
            results = [result for result in results if result.type in _FOLLOWED]
            if results:
                # An operation that rewriting has made has no number.
                found.append((place, numbers.get(user, 0), results))
        self._following[value] = len(value.uses), found
        return found

    def _last_number(self, region: Region) -> int | None:
        """The number of the last op of a region in the order of the function's text, as far as it has one."""
        end = region.blocks[-1].last
        return None if end is None else self._numbered().get(end)

    def _numbered(self) -> dict[Op, int]:
        """Operations by their place in the function's text."""
        if self._numbers is None:
            self._numbers = {op: number for number, op in enumerate(self.function.walk())}
        return self._numbers

    def known(self, predicate: str, left: Value, right: Value, context: Context | None) -> bool | None:
        """The outcome of a comparison that contexts of a place settle by comparing the same two values."""
        while context is not None:
            for known, a, b in self.constraints(context):
                if a is right and b is left:
                    known = MIRRORED[known]
                elif a is not left or b is not right:
                    continue
                if predicate in IMPLIED[known]:
                    return True
                if NEGATED[predicate] in IMPLIED[known]:
                    return False
            context = self.outside(context)
        return None


class _Graph:
    """Blocks of one region as branches connect them when they are first looked at.

    What holds in a block stays true while branches are decided and blocks are merged.
    """

    def __init__(self, region: Region) -> None:
        from loom.verify.dominance import dominators

        self.dominators = dominators(region)
        self.order = _reverse_postorder(region)
        #: Blocks that only one side of a conditional branch leads to: the branch, and whether its condition holds here.
        self.conditions: dict[Block, tuple[Op, bool]] = {}
        #: The branches that lead to each block; one that leads there either way counts twice.
        self.leading: dict[Block, list[Op]] = {}
        for block in self.dominators:
            end = block.last
            if end is not None:
                for target in end.successors:
                    self.leading.setdefault(target, []).append(end)
        for block in self.dominators:
            end = block.last
            if end is not None and end.name == "cfg.cond_br":
                for holds, target in zip((True, False), end.successors, strict=True):
                    if len(self.leading[target]) == 1 and target is not region.entry:
                        self.conditions[target] = (end, holds)
        self._guarded: dict[Block, Block | None] = {}

    def condition(self, block: Block) -> tuple[Value, bool] | None:
        """The condition that leads to such a block and its outcome, while its branch is there."""
        branch, holds = self.conditions[block]
        return (branch.operands[0], holds) if branch.parent is not None else None

    def guarded(self, block: Block) -> Block | None:
        """The nearest of a block and its dominators that a condition leads to."""
        passed = []
        current: Block | None = block
        while current is not None and current not in self._guarded and current not in self.conditions:
            passed.append(current)
            current = self.dominators.get(current)
        found = current if current is None or current in self.conditions else self._guarded[current]
        for each in passed:
            self._guarded[each] = found
        return found

    def above(self, block: Block) -> Block | None:
        """The next such block in front of one of them."""
        dominator = self.dominators.get(block)
        return None if dominator is None else self.guarded(dominator)


def _reverse_postorder(region: Region) -> list[Block]:
    """The blocks that the entry reaches, each in front of those it leads to but for loops."""
    found: list[Block] = []
    entered = {region.entry}
    stack = [(region.entry, 0)]
    while stack:
        block, number = stack.pop()
        end = block.last
        following = end.successors if end is not None else []
        if number == len(following):
            found.append(block)
            continue
        stack.append((block, number + 1))
        if following[number] not in entered:
            entered.add(following[number])
            stack.append((following[number], 0))
    return found[::-1]


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
    return _condition(op.operands[0], region is op.regions[0])


def _condition(truth: Value, outcome: bool) -> list[Constraint]:
    """What follows of integers from the outcome of a condition."""
    found: list[Constraint] = []
    for condition, holds in _leaves(truth, outcome):
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


def _float_condition(truth: Value, outcome: bool) -> list[FloatConstraint]:
    """What follows of floats from the outcome of a condition."""
    found: list[FloatConstraint] = []
    for condition, holds in _leaves(truth, outcome):
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


def _going_on(op: Op, region: Region) -> list[Constraint]:
    """The condition of a loop holds in its second region, of what was compared and of what was handed on.

    Values of the first region are out of sight there, but the facts of arguments are those of what was handed on.
    """
    if region is op.regions[0]:
        return []
    end = op.regions[0].entry.last
    if end is None or end.name != "scf.condition":
        return []
    found = _condition(end.operands[0], True)
    handed: dict[Value, Value] = {}
    for value, argument in zip(end.operands[1:], region.entry.args, strict=False):
        handed.setdefault(value, argument)
    for predicate, left, right in list(found):
        moved = handed.get(left, left), handed.get(right, right) if isinstance(right, Value) else right
        if moved != (left, right):
            found.append((predicate, *moved))
    return found


def left_with(op: Op, value: Value) -> list[tuple[str, Value | int]]:
    """What a ``scf.while`` that ends says of a value that it hands on: comparisons with the value on the left."""
    end = op.regions[0].entry.last
    assert end is not None
    found: list[tuple[str, Value | int]] = []
    for predicate, left, right in _condition(end.operands[0], False):
        if left is value:
            found.append((predicate, right))
        elif right is value:
            found.append((MIRRORED[predicate], left))
    return found


_FOLLOWED: Final = INTEGERS | ADDRESSES | FLOATS

# Ops whose regions run only under conditions, and what holds there.
_ADDS_FACTS: Final[dict[str, Callable[[Op, Region], list[Constraint]]]] = {
    "scf.if": _branch,
    "scf.switch": _case,
    "scf.for": _iteration,
    "scf.while": _going_on,
}


def _is_constant(value: Value) -> bool:
    op = value.defining_op
    return op is not None and "constant" in op.spec.traits
