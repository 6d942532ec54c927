"""Float operations that facts and flags decide (language reference, part 1, sections 14.2, 14.11).

A rule holds for every value that facts and the operation's own flags leave possible, bit by bit up to the bits of a
NaN; ``nsz`` lets the sign of a zero differ. A broken promise of a flag is undefined: a rule may use the promise, the
evaluator reports the operation as long as it is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from loom.facts import floats
from loom.facts.analysis import FunctionFacts
from loom.facts.float_analysis import has_flag, promised
from loom.facts.floats import FloatFacts
from loom.ir.core import Op, Value

Found = list[Value | object] | None


def _of(op: Op, facts: FunctionFacts, index: int) -> FloatFacts:
    """What an operand may be, given the flags of the operation."""
    value = op.operands[index]
    return promised(op, value, facts.floating(value, op))


def _is_zero(known: FloatFacts) -> bool:
    return not known.nan and known.lo == known.hi == 0.0


def compare(op: Op, facts: FunctionFacts) -> Found:
    """A comparison whose outcome ranges, NaN exclusions or comparisons around it settle."""
    left, right = op.operands
    outcomes = facts.floats.outcomes(left, right, op)
    known = floats.decide(floats.OUTCOMES[str(op.attribute("predicate"))], outcomes)
    return None if known is None else [known]


def test(op: Op, facts: FunctionFacts) -> Found:
    """A test for NaNs or infinities that facts decide."""
    predicate, negated = _TESTS[op.name]
    known = _of(op, facts, 0)
    decided = floats.decide_predicate(predicate, known, known)
    return None if decided is None else [decided != negated]


def add(op: Op, facts: FunctionFacts) -> Found:
    """A zero added changes nothing but negative zeros, a negative zero nothing at all."""
    known = _of(op, facts, 0), _of(op, facts, 1)
    for index, other in ((1, 0), (0, 1)):
        zero, kept = known[index], known[other]
        if _is_zero(zero) and (has_flag(op, "nsz") or not kept.negative_zero or _is_negative_zero(op.operands[index])):
            return [op.operands[other]]
    return None


def subtract(op: Op, facts: FunctionFacts) -> Found:
    """x - x is zero where x is finite; zero subtracted changes nothing, a negative zero only negative zeros."""
    left, right = op.operands
    kept, taken = _of(op, facts, 0), _of(op, facts, 1)
    if left is right and kept.finite and kept.number:
        return [0.0]
    unchanged = has_flag(op, "nsz") or not kept.negative_zero or not taken.negative_zero
    return [left] if _is_zero(taken) and unchanged else None


def multiply(op: Op, facts: FunctionFacts) -> Found:
    """A finite number times zero is zero, with the sign that both make."""
    known = _of(op, facts, 0), _of(op, facts, 1)
    for index, other in ((1, 0), (0, 1)):
        zero, number = known[index], known[other]
        if not _is_zero(zero) or not number.finite or not number.number:
            continue
        if has_flag(op, "nsz"):
            return [0.0]
        if zero.negative_zero:
            continue
        if not number.signed:
            return [0.0]
        if not number.unsigned:
            return [-0.0]
    return None


def divide(op: Op, facts: FunctionFacts) -> Found:
    """x / x is one where x is finite and not zero."""
    known = _of(op, facts, 0)
    return [1.0] if op.operands[0] is op.operands[1] and known.finite and known.number and not known.zero else None


def absolute(op: Op, facts: FunctionFacts) -> Found:
    """The magnitude of what has no negative sign."""
    known = _of(op, facts, 0)
    if known.nan or known.lo < 0.0 or (known.negative_zero and not has_flag(op, "nsz")):
        return None
    return [op.operands[0]]


def _extremum(first_wins: int) -> Callable[[Op, FunctionFacts], Found]:
    """The operand that wins in every outcome; zeros of different signs are no tie."""

    def rule(op: Op, facts: FunctionFacts) -> Found:
        left, right = op.operands
        if left is right:
            return [left]
        outcomes = facts.floats.outcomes(left, right, op)
        if not outcomes or outcomes & floats.UNORDERED:
            return None
        a, b = _of(op, facts, 0), _of(op, facts, 1)
        # Of equal operands either will do unless they are zeros.
        free = has_flag(op, "nsz") or not (a.zero and b.zero)
        ties = floats.EQUAL if free else 0
        if not outcomes & ~(first_wins | ties):
            return [left]
        return [right] if not outcomes & ~(floats.mirrored(first_wins) | ties) else None

    return rule


def clamp(op: Any, facts: FunctionFacts) -> Found:
    """A value that lies between the bounds. Bounds that are zeros may change the sign of one, but in ``ordered``."""
    value, lower, upper = (_of(op, facts, index) for index in range(3))
    if value.nan or lower.nan or upper.nan or not (value.number and lower.number and upper.number):
        return None
    if not (lower.hi <= value.lo and value.hi <= upper.lo):
        return None
    tie = value.zero and (lower.zero or upper.zero)
    return None if tie and op.mode != "ordered" and not has_flag(op, "nsz") else [op.operands[0]]


def _is_negative_zero(value: Value) -> bool:
    maker = value.defining_op
    literal = maker.attribute("value") if maker is not None and maker.name == "scalar.constant" else None
    return isinstance(literal, float) and literal == 0.0 and math.copysign(1.0, literal) < 0


# Test -> the predicate that it asks, and whether it is true where that is false.
_TESTS: Final[Mapping[str, tuple[str, bool]]] = {
    "scalar.isnanf": ("not_nan", True),
    "scalar.isfinitef": ("finite", False),
    "scalar.isinff": ("not_inf", True),
}

RULES: Final[Mapping[str, Callable[[Any, FunctionFacts], Found]]] = {
    "scalar.cmpf": compare,
    "scalar.isnanf": test, "scalar.isinff": test, "scalar.isfinitef": test,
    "scalar.addf": add, "scalar.subf": subtract, "scalar.mulf": multiply, "scalar.divf": divide,
    "scalar.absf": absolute, "scalar.clampf": clamp,
    "scalar.minimumf": _extremum(floats.LESS), "scalar.maximumf": _extremum(floats.GREATER),
    "scalar.minnumf": _extremum(floats.LESS), "scalar.maxnumf": _extremum(floats.GREATER),
}  # fmt: skip
