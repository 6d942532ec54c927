"""What the arguments of predicates may be (language reference, part 1, section 2.12)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loom.ir.attributes import PREDICATES, Predicate, Ref
from loom.ir.core import Op, Value
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import ADDRESSES, ERROR, FLOATS, I1, INDEX, INTEGERS, OFFSET, RegType, ScalarType, Type

# Domain of a predicate -> the types of its values, and what to call them.
DOMAINS: Final = {
    "any": (INTEGERS | ADDRESSES | FLOATS, "an integer, index, offset or float"),
    "number": (INTEGERS | ADDRESSES, "an integer, index or offset"),
    "integer": (INTEGERS, "an integer of fixed width"),
    "float": (FLOATS, "a float"),
}
UNSIGNED: Final = frozenset({"ult", "ule", "ugt", "uge"})
ADDRESS_LIMIT: Final = 1 << 63


def check_predicates(op: Any) -> list[Diagnostic]:
    """Findings about the predicates of an op; they are well formed as data."""
    signature = "mentioned" not in op.spec.operand_index
    values = _signature(op) if signature else op.group(op.spec.operand_index["mentioned"])
    found: list[Diagnostic] = []
    for predicate in op.predicates:
        problem = _problem(op, predicate, values, signature)
        if problem is not None:
            found.append(problem)
    return found


def _signature(op: Any) -> list[Value | None]:
    specs = op.result_specs if op.spec.result_spec_attributes else ()
    return [*op.body.entry.args, *(spec.value for spec in specs or ())]


def _problem(op: Op, predicate: Predicate, values: Sequence[Value | None], signature: bool) -> Diagnostic | None:
    arguments = [values[a.index] if isinstance(a, Ref) and a.index < len(values) else a for a in predicate.args]
    if any(isinstance(a, Ref) or a is None for a in arguments) or (signature and not isinstance(arguments[0], Value)):
        return Diagnostic(
            "STRUCTURE/032",
            f"'{predicate.name}' says nothing about an argument or named result of the signature",
            op.loc,
            {"op_name": op.name, "field_name": "predicates", "required_origin": "signature"},
        )
    named = [a for a in arguments if isinstance(a, Value) and a.type is not ERROR]
    # Registers hold bits; what a predicate takes them for is up to who reads them.
    if not named or any(isinstance(value.type, RegType) for value in named):
        return None
    types, wanted = DOMAINS[PREDICATES[predicate.name][1]]
    for value in named:
        if value.type not in types:
            return Diagnostic(
                "TYPE/003",
                f"'%{value.name}' in '{predicate.name}' is {value.type}, but must be {wanted}",
                op.loc,
                {"operand_name": value.name or "?", "actual_type": value.type, "expected_constraint": wanted},
            )
    return _mixed(op, predicate, named, arguments) or _literals(op, predicate, named[0].type, arguments)


def _mixed(op: Op, predicate: Predicate, named: Sequence[Value], arguments: Sequence[object]) -> Diagnostic | None:
    """Floats are compared with values of the same type only."""
    floats = [value for value in named if value.type in FLOATS]
    if not floats or len(arguments) == 1:
        return None
    first = floats[0]
    for argument in arguments:
        other: object = argument.type if isinstance(argument, Value) else "integer literal"
        if other is not first.type and other is not ERROR:
            name = argument.name if isinstance(argument, Value) else str(argument)
            return Diagnostic(
                "TYPE/001",
                f"'{predicate.name}' compares '%{first.name}' of type {first.type} with {other} '{name}'",
                op.loc,
                {"field_a": first.name or "?", "type_a": first.type, "field_b": name or "?", "type_b": other},
            )
    return None


def _literals(op: Op, predicate: Predicate, type_: Type, arguments: Sequence[object]) -> Diagnostic | None:
    """Literals lie in the domain of the value they are compared with."""
    low, high = _range(type_, predicate.name in UNSIGNED)
    if predicate.name == "multiple_of":
        low = 1
    for argument in arguments:
        if isinstance(argument, int) and not low <= argument <= high:
            wanted = f"in {low}..{high}"
            return Diagnostic(
                "STRUCTURE/014",
                f"'{predicate.name}' compares a value of type {type_} with {argument}, which is not {wanted}",
                op.loc,
                {"attr_name": "predicates", "actual_value": argument, "expected_constraint": wanted},
            )
    return None


def _range(type_: Type, unsigned: bool) -> tuple[int, int]:
    if type_ is INDEX or not isinstance(type_, ScalarType):
        return -ADDRESS_LIMIT, ADDRESS_LIMIT - 1
    if type_ is OFFSET:
        return 0, ADDRESS_LIMIT - 1
    if type_ is I1:
        return 0, 1
    half = 1 << (type_.width - 1)
    return -half, 2 * half - 1 if unsigned else half - 1
