"""Folding: what an operation computes from constants and facts (language reference, part 1, sections 14.11, 15.3).

Integers fold by the facts of the result: a value that can only be one number becomes a constant. Floats fold
through double precision, which rounds once more to the narrower type without error for the operations here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from loom.dialects.index import ops as index_ops
from loom.dialects.scalar import ops as scalar_ops
from loom.facts.analysis import FunctionFacts
from loom.facts.float_analysis import has_flag
from loom.facts.floats import round_to
from loom.ir.core import Op, Value
from loom.ir.diagnostics import Location
from loom.ir.types import ADDRESSES, FLOATS, I1, INTEGERS, Type

FLOAT_FOLDS: Final[dict[str, Callable[..., float]]] = {
    "scalar.addf": lambda a, b: a + b,
    "scalar.subf": lambda a, b: a - b,
    "scalar.mulf": lambda a, b: a * b,
    "scalar.negf": lambda a: -a,
    "scalar.absf": abs,
}


def constant_of(value: Value) -> object:
    """The literal of a constant's result, or ``None``."""
    op = value.defining_op
    if op is not None and op.name in ("scalar.constant", "index.constant"):
        return op.attribute("value")
    return None


def make_constant(type_: Type, literal: object, loc: Location) -> Op:
    """A constant operation of an integer, float or address type."""
    if type_ in ADDRESSES:
        return index_ops.Constant([], [literal], [type_], loc=loc)
    if type_ is I1:
        literal = bool(literal)
    return scalar_ops.Constant([], [literal], [type_], loc=loc)


def fold(op: Op, facts: FunctionFacts) -> list[Value | object] | None:
    """What the results of a pure operation may be replaced by: values, or Python literals for constants."""
    rule = _RULES.get(op.name)
    if rule is not None:
        found = rule(op, facts)
        if found is not None:
            return found
    if len(op.results) != 1:
        return None
    result = op.results[0]
    type_ = result.type
    if type_ in INTEGERS or type_ in ADDRESSES:
        if "constant" in op.spec.traits or "pure" not in op.spec.traits or op.name in _OPAQUE:
            return None
        exact = facts.exact(result, op)
        return None if exact is None else [bool(exact) if type_ is I1 else exact]
    folder = FLOAT_FOLDS.get(op.name)
    if folder is not None and type_ in FLOATS:
        operands = [constant_of(v) for v in op.operands]
        if all(isinstance(v, float) for v in operands):
            exact_inputs = [round_to(v, type_) for v in operands]  # type: ignore[arg-type]
            if all(v is not None for v in exact_inputs):
                value = round_to(folder(*exact_inputs), type_)
                # What a flag promises that it does not happen is left for those who report it.
                if value is not None and not math.isnan(value) and not _breaks_promise(op, value, exact_inputs):
                    return [value]
    return None


def _breaks_promise(op: Op, value: float, operands: Sequence[float | None]) -> bool:
    """Whether an infinity occurs where a flag says that there is none; a NaN does not get here."""
    return has_flag(op, "ninf") and any(v is not None and math.isinf(v) for v in (value, *operands))


# Integer results of these are identities of memory or of the environment; their range is no reason to fold.
_OPAQUE: Final = frozenset({"scalar.poison", "config.get"})


def _comparison(op: Op, facts: FunctionFacts) -> list[Value | object] | None:
    left, right = op.operands
    decided = facts.decide(str(op.attribute("predicate")), left, right, op)
    return None if decided is None else [decided]


def _select(op: Op, facts: FunctionFacts) -> list[Value | object] | None:
    condition, if_true, if_false = op.operands
    known = facts.exact(condition, op)
    if known is not None:
        return [if_true if known else if_false]
    if if_true is if_false:
        return [if_true]
    return None


def _neutral(
    right: int | None = None, left: int | None = None
) -> Callable[[Op, FunctionFacts], list[Value | object] | None]:
    """x op right -> x, left op x -> x."""

    def rule(op: Op, facts: FunctionFacts) -> list[Value | object] | None:
        a, b = op.operands
        if right is not None and constant_of(b) == right and not isinstance(constant_of(b), float):
            return [a]
        if left is not None and constant_of(a) == left and not isinstance(constant_of(a), float):
            return [b]
        return None

    return rule


def _assume(op: Any, facts: FunctionFacts) -> list[Value | object] | None:
    """An assumption whose operand is already a constant says nothing new, unless it is false."""
    if any(constant_of(v) is None for v in op.inputs):
        return None
    refuted = any(facts.decide_predicate(p, op.mentioned, op) is False for p in op.predicates)
    return None if refuted else list(op.inputs)


def _lookup(op: Op, facts: FunctionFacts) -> list[Value | object] | None:
    selector = facts.exact(op.operands[0], op)
    if selector is None:
        return None
    keys = op.attribute("case_keys")
    assert isinstance(keys, tuple)
    row = keys.index(selector) if selector in keys else len(keys)
    columns = len(op.results)
    return list(op.group(1)[row * columns : (row + 1) * columns])


def _workgroup_size(op: Op, facts: FunctionFacts) -> list[Value | object] | None:
    size = facts.static_workgroup_size["xyz".index(str(op.attribute("axis")))]
    return None if size is None else [size]


def _assertion(op: Any, facts: FunctionFacts) -> list[Value | object] | None:
    """An assertion that facts prove is the values it checks."""
    proven = all(facts.decide_predicate(p, op.mentioned, op) is True for p in op.predicates)
    return list(op.inputs[: len(op.results)]) if proven else None


def _global_constant(op: Any, facts: FunctionFacts) -> list[Value | object] | None:
    """The initial value of a constant; that of a variable may change."""
    declaration: Any = facts.global_declaration(op.symbol)
    if declaration is None or declaration.name != "global.constant" or declaration.value is None:
        return None
    return [declaration.value]


def _element(op: Any, facts: FunctionFacts) -> list[Value | object] | None:
    source = op.source.defining_op
    if source is None or source.name != "buffer.view":
        return None
    from loom.transforms.constant_data import constant_element

    return constant_element(op, facts)


def _isa(op: Any, facts: FunctionFacts) -> list[Value | object] | None:
    from loom.dialects.encoding.known import decide_isa

    decided = decide_isa(op.input, op.definition)
    return None if decided is None else [decided]


def _matches(op: Any, facts: FunctionFacts) -> list[Value | object] | None:
    from loom.dialects.encoding.known import decide_match

    decided = decide_match(op.input, op.requirements())
    return None if decided is None else [decided]


def _encoding_assumption(op: Any, facts: FunctionFacts) -> list[Value | object] | None:
    """An assumption about an encoding that its definition already proves."""
    from loom.dialects.encoding.known import proves

    return [op.operands[0]] if proves(op) else None


_RULES: Final[dict[str, Callable[[Op, FunctionFacts], list[Value | object] | None]]] = {
    "scalar.cmpi": _comparison,
    "index.cmp": _comparison,
    "scf.select": _select,
    "scf.lookup": _lookup,
    "index.assume": _assume,
    "scalar.assume": _assume,
    "index.add": _neutral(0, 0),
    "index.sub": _neutral(0),
    "index.mul": _neutral(1, 1),
    "index.div": _neutral(1),
    "index.shli": _neutral(0),
    "scalar.addi": _neutral(0, 0),
    "scalar.subi": _neutral(0),
    "scalar.muli": _neutral(1, 1),
    "scalar.ori": _neutral(0, 0),
    "scalar.xori": _neutral(0, 0),
    "scalar.shli": _neutral(0),
    "kernel.workgroup.size": _workgroup_size,
    "global.load": _global_constant,
    "view.load": _element,
    "sanitizer.assert.op": _assertion,
    "sanitizer.assert.value": _assertion,
    "encoding.isa": _isa,
    "encoding.matches": _matches,
    "encoding.assume.match": _encoding_assumption,
    "encoding.assume.spec": _encoding_assumption,
    "encoding.layout.assume.dense": _encoding_assumption,
    "encoding.layout.assume.strided": _encoding_assumption,
}
