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
from loom.ir.attributes import Predicate, Ref
from loom.ir.core import Op, Value
from loom.ir.diagnostics import Diagnostic, LoomError, Related
from loom.ir.predicates import failing_scalar_predicate, predicate_text

_ON_NUMBERS: Final = frozenset({"index.assume", "scalar.assume"})
_ON_ENCODINGS: Final = frozenset(
    {
        "encoding.assume.match",
        "encoding.assume.spec",
        "encoding.layout.assume.dense",
        "encoding.layout.assume.strided",
    }
)


def check_assumptions(function: Op, target_facts: Any) -> None:
    """Raise :class:`~loom.ir.diagnostics.LoomError` with every assumption of a body that facts refute."""
    body = [op for op in function.regions[-1].entry if op.name in _ON_NUMBERS or op.name in _ON_ENCODINGS]
    if not body:
        return
    facts = FunctionFacts(function, target_facts)
    findings: list[Diagnostic] = []
    for op in body:
        if op.name in _ON_NUMBERS:
            findings += _refuted(op, facts)
        elif op.spec.verify is not None:
            # The rules of these operations compare with definitions, which inlining may have brought along.
            findings += op.spec.verify(op) or []
    if findings:
        raise LoomError(findings)


def _refuted(op: Any, facts: FunctionFacts) -> list[Diagnostic]:
    return [
        _contradiction(op, predicate, facts)
        for predicate in op.predicates
        if facts.decide_predicate(predicate, op.mentioned, op) is False or _false_of_constants(op, predicate)
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


def _false_of_constants(op: Any, predicate: Predicate) -> bool:
    """Whether a predicate that speaks of float constants alone is false."""
    constants = [_float_constant(op.mentioned[a.index]) for a in predicate.args if isinstance(a, Ref)]
    if not constants or any(c is None for c in constants):
        return False
    values = [_float_constant(v) for v in op.mentioned]
    return failing_scalar_predicate([predicate], values, op.mentioned) is not None


def _contradiction(op: Any, predicate: Predicate, facts: FunctionFacts) -> Diagnostic:
    mentioned: Sequence[Value] = op.mentioned
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
    return Diagnostic(
        code,
        f"the assumption '{text}' cannot be so: {why}",
        op.loc,
        params,
        related=related,
        emitter="specialize",
    )
