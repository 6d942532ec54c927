"""Operations whose result is one of their operands, or a number, for reasons other than exact operands.

Language reference, part 1, sections 14.11 and 15.3. Nothing is computed and no new operation is made: what folds here
is simpler afterwards, whatever the target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from loom.facts.analysis import FunctionFacts
from loom.ir.core import Op, Value
from loom.ir.types import ADDRESSES, INDEX, INTEGERS, OFFSET, ScalarType
from loom.transforms.fold import constant_of
from loom.transforms.identities_floats import RULES as FLOAT_RULES

Found = list[Value | object] | None
Rule = Callable[[Any, FunctionFacts], Found]


def simplify(op: Op, facts: FunctionFacts) -> Found:
    """What the results of an operation may be replaced by: values, or Python literals for constants."""
    rule = _RULES.get(op.name)
    found = None if rule is None else rule(op, facts)
    if found is None and (decided := FLOAT_RULES.get(op.name)) is not None:
        found = decided(op, facts)
    return found


def _idempotent(op: Any, facts: FunctionFacts) -> Found:
    """x op x is x."""
    a, b = op.operands
    return [a] if a is b else None


def _cancels(op: Any, facts: FunctionFacts) -> Found:
    """x op x is zero."""
    a, b = op.operands
    return [0] if a is b and _is_number(a) else None


def _quotient(op: Any, facts: FunctionFacts) -> Found:
    """x / x is one where x is not zero."""
    a, b = op.operands
    if a is not b or not _is_number(a):
        return None
    known = facts.integer(a, op)
    return [1] if known.lo > 0 or known.hi < 0 else None


def _is_number(value: Value) -> bool:
    return value.type in INTEGERS or value.type in ADDRESSES


def _extremum(picks_first: str, picks_second: str) -> Rule:
    """The operand that comparisons which are known to hold pick; where the operands are equal both would do."""

    def rule(op: Any, facts: FunctionFacts) -> Found:
        a, b = op.operands
        if a is b:
            return [a]
        if not _is_number(a):
            return None
        if facts.decide(picks_first, a, b, op):
            return [a]
        return [b] if facts.decide(picks_second, a, b, op) else None

    return rule


def _involution(op: Any, facts: FunctionFacts) -> Found:
    """op(op(x)) is x."""
    inner = op.operands[0].defining_op
    if inner is None or inner.name != op.name or _has_flags(op) or _has_flags(inner):
        return None
    return [inner.operands[0]]


def _settled(names: frozenset[str]) -> Rule:
    """A value that one of some operations made is not changed by another of them."""

    def rule(op: Any, facts: FunctionFacts) -> Found:
        inner = op.operands[0].defining_op
        return [op.operands[0]] if inner is not None and inner.name in names else None

    return rule


def _has_flags(op: Op) -> bool:
    return "flags" in op.spec.attribute_index and bool(op.attribute("flags"))


def _back_from(*names: str) -> Rule:
    """A conversion that undoes one of some others, back in the type it came from."""

    def rule(op: Any, facts: FunctionFacts) -> Found:
        inner = op.operands[0].defining_op
        if inner is None or inner.name not in names:
            return None
        source = inner.operands[0]
        return [source] if source.type == op.results[0].type else None

    return rule


def _address_cast(op: Any, facts: FunctionFacts) -> Found:
    """A cast back to where the value came from, if nothing was lost on the way."""
    inner = op.operands[0].defining_op
    if inner is None or inner.name != "index.cast":
        return None
    source, between = inner.operands[0], inner.results[0].type
    if source.type != op.results[0].type:
        return None
    if between in (INDEX, OFFSET):
        # Extending and taking the low bits again, or an address of the other kind: nothing is lost.
        return [source]
    assert isinstance(between, ScalarType)
    half = 1 << (between.width - 1)
    limits = (-half, half - 1) if source.type is INDEX else (0, 2 * half - 1)
    return [source] if between.width > 1 and facts.integer(source, op).within(*limits) else None


def _times_one(both: bool) -> Rule:
    """x times or by one is x."""

    def rule(op: Any, facts: FunctionFacts) -> Found:
        a, b = op.operands
        if constant_of(b) == 1.0:
            return [a]
        return [b] if both and constant_of(a) == 1.0 else None

    return rule


def _power(op: Any, facts: FunctionFacts) -> Found:
    """x to the first is x, to the power of zero one."""
    exponent = constant_of(op.operands[1])
    if not isinstance(exponent, float):
        return None
    return [op.operands[0]] if exponent == 1.0 else [1.0] if exponent == 0.0 else None


def _truth(op: Any, facts: FunctionFacts) -> Found:
    """Choosing between true and false is the condition."""
    chosen = tuple(constant_of(v) for v in op.operands[1:])
    return [op.operands[0]] if chosen == (True, False) and op.results[0].type == op.operands[0].type else None


_ROUNDED: Final = frozenset(f"scalar.{name}" for name in ("ceilf", "floorf", "truncf", "roundf", "roundevenf"))
# What is an integer, or an infinity, already.
_INTEGRAL: Final = _ROUNDED | {"scalar.sitofp", "scalar.uitofp"}

_RULES: Final[Mapping[str, Rule]] = {
    "scalar.andi": _idempotent, "scalar.ori": _idempotent, "index.andi": _idempotent, "index.ori": _idempotent,
    "vector.andi": _idempotent, "vector.ori": _idempotent,
    "scalar.subi": _cancels, "scalar.xori": _cancels, "index.sub": _cancels, "index.xori": _cancels,
    "scalar.divsi": _quotient, "scalar.divui": _quotient, "index.div": _quotient,
    "scalar.minsi": _extremum("sle", "sge"), "scalar.maxsi": _extremum("sge", "sle"),
    "scalar.minui": _extremum("ule", "uge"), "scalar.maxui": _extremum("uge", "ule"),
    "index.min": _extremum("sle", "sge"), "index.max": _extremum("sge", "sle"),
    "vector.minsi": _idempotent, "vector.maxsi": _idempotent, "vector.minui": _idempotent, "vector.maxui": _idempotent,
    "scalar.negi": _involution, "scalar.negf": _involution, "vector.negi": _involution, "vector.negf": _involution,
    "scalar.absf": _settled(frozenset({"scalar.absf"})),
    **{name: _settled(_INTEGRAL) for name in sorted(_ROUNDED)},
    "scalar.trunci": _back_from("scalar.extsi", "scalar.extui"),
    "scalar.fptrunc": _back_from("scalar.extf"),
    "scalar.bitcast": _back_from("scalar.bitcast"),
    "index.cast": _address_cast,
    "scalar.mulf": _times_one(both=True), "scalar.divf": _times_one(both=False),
    "scalar.powf": _power,
    "scf.select": _truth,
}  # fmt: skip
