"""Assumptions that facts refute: the program states what cannot be so (language reference, part 3, section 12.5).

Only what every execution of a function reaches is looked at. In a branch a contradiction may just mean that nothing
takes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from loom.facts.analysis import FunctionFacts
from loom.facts.floats import FloatFacts
from loom.facts.integers import IntegerFacts
from loom.facts.version import Version
from loom.ir.attributes import Predicate, Ref
from loom.ir.core import Op, Value
from loom.ir.diagnostics import Diagnostic, LoomError, Related
from loom.ir.predicates import failing_scalar_predicate, predicate_text

_ON_NUMBERS: Final = frozenset({"index.assume", "scalar.assume"})
_ON_STORAGE: Final = frozenset(
    {
        "buffer.assume.noalias",
        "buffer.assume.same_root",
        "buffer.assume.memory_space",
        "view.refine",
        "kernel.subgroup.broadcast",
    }
)
_ON_ENCODINGS: Final = frozenset(
    {
        "encoding.assume.match",
        "encoding.assume.spec",
        "encoding.layout.assume.dense",
        "encoding.layout.assume.strided",
    }
)


_STATEMENTS: Final = _ON_NUMBERS | _ON_STORAGE | _ON_ENCODINGS


def check_assumptions(version: Version) -> None:
    """Raise :class:`~loom.ir.diagnostics.LoomError` with every assumption of a body that facts refute."""
    function = version.function
    body: list[Any] = [op for op in function.regions[-1].entry if op.name in _STATEMENTS]
    if not body:
        return
    facts = version.facts
    findings: list[Diagnostic] = []
    for op in body:
        if op.name in _ON_NUMBERS:
            findings += _refuted(op, op.predicates, op.mentioned, facts)
        elif op.name in _ON_STORAGE:
            from loom.specialize.storage_contradictions import CHECKS

            findings += CHECKS[op.name](op, facts)
        elif op.spec.verify is not None:
            # The rules of these operations compare with definitions, which inlining may have brought along.
            findings += op.spec.verify(op) or []
    if findings:
        raise LoomError(findings)


class CallChecks:
    """Checks calls against the clauses of the functions that they call while these calls go away one by one."""

    def __init__(self, version: Version) -> None:
        self.version = version

    def __call__(self, call: Op, callee: Any) -> None:
        """Raise :class:`~loom.ir.diagnostics.LoomError` with every clause that the call's operands refute."""
        predicates = [p for p in callee.predicates or () if _speaks_of(p, len(call.operands))]
        if not predicates or call.parent is not self.version.function.regions[-1].entry:
            return
        findings = _refuted(call, predicates, call.operands, self.version.facts, callee)
        if findings:
            raise LoomError(findings)


def _speaks_of(predicate: Predicate, arguments: int) -> bool:
    return all(a.index < arguments for a in predicate.args if isinstance(a, Ref))


def _refuted(
    op: Op, predicates: Sequence[Predicate], named: Sequence[Value], facts: FunctionFacts, callee: Any = None
) -> list[Diagnostic]:
    return [
        _contradiction(op, predicate, named, facts, callee)
        for predicate in predicates
        if facts.decide_predicate(predicate, named, op) is False or _false_of_constants(named, predicate)
    ]


def _float_constant(value: Value) -> float | None:
    op = value.defining_op
    literal = op.attribute("value") if op is not None and op.name == "scalar.constant" else None
    return literal if isinstance(literal, float) else None


def _class_of(literal: float | None, known: FloatFacts | None) -> str:
    if literal is None:
        if known is None or known.number:
            return "infinity" if known is not None and known.lo == known.hi and known.infinite else "finite"
        return "nan"
    if math.isfinite(literal):
        return "finite"
    return "nan" if math.isnan(literal) else "infinity"


def _described(literal: float | None, known: FloatFacts | None) -> str:
    if literal is not None or known is None:
        return str(literal)
    if not known.number:
        return "a NaN"
    return str(known.lo) if known.lo == known.hi else f"between {known.lo} and {known.hi}"


def _false_of_constants(named: Sequence[Value], predicate: Predicate) -> bool:
    """Whether a predicate that speaks of float constants alone is false."""
    constants = [_float_constant(named[a.index]) for a in predicate.args if isinstance(a, Ref)]
    if not constants or any(c is None for c in constants):
        return False
    values = [_float_constant(v) for v in named]
    return failing_scalar_predicate([predicate], values, named) is not None


def _contradiction(
    op: Op, predicate: Predicate, mentioned: Sequence[Value], facts: FunctionFacts, callee: Any
) -> Diagnostic:
    about = next((mentioned[a.index] for a in predicate.args if isinstance(a, Ref)), None)
    text = predicate_text(predicate, mentioned)
    params: dict[str, object] = {
        "op_name": op.name,
        "predicate_name": predicate.name,
        "value_name": (about.name if about is not None else None) or "?",
    }
    known = facts.about(about, op) if about is not None else None
    related: tuple[Related, ...] = ()
    if about is not None and isinstance(about.owner, Op):
        related = (Related(f"%{params['value_name']} is defined here", about.owner.loc),)
    if isinstance(known, IntegerFacts) and known.exact is not None:
        code, why = "TARGET/060", f"%{params['value_name']} is {known.exact}"
        params["known_value"] = known.exact
    elif isinstance(known, IntegerFacts):
        code, why = "TARGET/059", f"%{params['value_name']} is between {known.lo} and {known.hi}"
        if known.divisor > 1:
            why += f" and a multiple of {known.divisor}"
        params |= {"known_min": known.lo, "known_max": known.hi}
    else:
        literal = _float_constant(about) if about is not None else None
        params["value_class"] = _class_of(literal, known)
        code, why = "TARGET/061", f"%{params['value_name']} is {_described(literal, known)}"
    what = f"the assumption '{text}'"
    if callee is not None:
        what = f"what '@{callee.callee}' asks of its arguments, '{text}',"
        related = (Related(f"'@{callee.callee}' is here", callee.loc), *related)
    return Diagnostic(
        code,
        f"{what} cannot be so: {why}",
        op.loc,
        params,
        related=related,
        emitter="specialize",
    )
