"""Rules of the ``check`` dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loom.dialects.kernel.verify import check_arguments
from loom.dialects.scalar.verify import wrong_kind
from loom.ir.core import Op, Value
from loom.ir.diagnostics import Diagnostic, Related
from loom.ir.types import ERROR, FLOATS, I1, element_type

# What may stand in the body of a comparison.
_COMPARISONS: Final = (
    "check.expect.equal",
    "check.expect.bitwise",
    "check.expect.close",
    "check.expect",
    "check.return",
)


def _misplaced(op: Op, kind: str, wanted: str, message: str) -> Diagnostic:
    return Diagnostic(
        "STRUCTURE/029",
        message,
        op.loc,
        {
            "op_name": op.name,
            "constraint_kind": kind,
            "ancestor_name": wanted,
            "actual_ancestor": op.parent_op.name if op.parent_op else "module",
        },
    )


def in_case(op: Op) -> list[Diagnostic] | None:
    """Stands in a check case or scenario."""
    if any(a.name in ("check.case", "check.scenario") for a in op.ancestors()):
        return None
    return [_misplaced(op, "ancestor", "check.case", f"'{op.name}' stands only in a 'check.case'")]


def in_scenario(op: Op) -> list[Diagnostic] | None:
    """Stands in a scenario."""
    if any(a.name == "check.scenario" for a in op.ancestors()):
        return None
    return [_misplaced(op, "ancestor", "check.scenario", f"'{op.name}' stands only in a 'check.scenario'")]


def _in(op: Op, parent: str) -> list[Diagnostic]:
    if op.parent_op is not None and op.parent_op.name == parent:
        return []
    return [_misplaced(op, "parent", parent, f"'{op.name}' stands only in a '{parent}'")]


def _positive(op: Op, name: str, count: int) -> list[Diagnostic]:
    if count >= 1:
        return []
    return [
        Diagnostic(
            "STRUCTURE/014",
            f"the number in '{op.name}[{count}]' must be at least 1",
            op.loc,
            {"attr_name": name, "actual_value": count, "expected_constraint": "at least 1"},
        )
    ]


def _numbered_entropy(op: Op, arguments: Sequence[Value]) -> list[Diagnostic]:
    """The arguments of a trial or configuration: its number, and its entropy."""
    if len(arguments) != 2:
        message = f"takes a number and an entropy, not {len(arguments)} arguments"
        return [Diagnostic("STRUCTURE/007", message, op.loc, {"actual_count": len(arguments), "expected_count": 2})]
    return [
        Diagnostic(
            "TYPE/014",
            f"%{value.name} is {value.type}, but must be {wanted}",
            op.loc,
            {"argument_name": value.name or "", "actual_type": value.type, "expected_constraint": wanted},
        )
        for value, wanted in zip(arguments, ("index", "check.entropy"), strict=True)
        if str(value.type) != wanted and value.type is not ERROR
    ]


def scenario(op: Any) -> list[Diagnostic] | None:
    """Requirements and trials, behind what a configuration makes for them."""
    from loom.dialects.check.syntax import AFTER_SETUP, first_after_setup

    block = op.body.entry
    found: list[Diagnostic] = []
    if op.configurations is not None:
        found += _positive(op, "configurations", op.configurations)
        found += _numbered_entropy(op, block.args)
    inner = first_after_setup(block) if op.configurations is not None else block.first
    while inner is not None:
        if inner.name not in AFTER_SETUP:
            message = f"'{inner.name}' stands in a trial or a 'configure' block, not beside the trials of a scenario"
            found.append(_misplaced(inner, "parent", "check.trial", message))
        inner = inner.next
    return found


def trial(op: Any) -> list[Diagnostic] | None:
    """Stands in a scenario, runs at least once, and takes a number and an entropy."""
    return _in(op, "check.scenario") + _positive(op, "count", op.count) + _numbered_entropy(op, op.body.entry.args)


def entropy_read(op: Any) -> list[Diagnostic] | None:
    """Reads one position."""
    found = in_scenario(op) or []
    if len(op.static_index) != 1:
        message = f"reads one position, not {len(op.static_index)}"
        params = {"op_name": op.name, "actual_count": len(op.static_index), "expected_count": 1}
        found.append(Diagnostic("STRUCTURE/001", message, op.loc, params))
    return found


def compare(op: Any) -> list[Diagnostic] | None:
    """Stands in a trial, holds expectations, and has as many actual as expected values, of the same types."""
    found = _in(op, "check.trial")
    for inner in op.body.entry:
        if inner.name not in _COMPARISONS:
            found.append(_misplaced(inner, "parent", "check.trial", f"'{inner.name}' is no comparison of two values"))
    values = op.body.entry.args
    half = len(values) // 2
    for actual, expected in zip(values[:half], values[half:], strict=False):
        if actual.type != expected.type and ERROR not in (actual.type, expected.type):
            found.append(
                Diagnostic(
                    "TYPE/001",
                    f"the actual %{actual.name} is {actual.type}, but the expected %{expected.name} is {expected.type}",
                    op.loc,
                    {"field_a": "actual", "type_a": actual.type, "field_b": "expected", "type_b": expected.type},
                )
            )
    return found


def check_invoke(op: Any, target: Any) -> list[Diagnostic]:
    """Arguments and results suit the function's signature."""
    return _check_function(op, target, op.results)


def check_subject(op: Any, target: Any) -> list[Diagnostic]:
    """Arguments suit the function's signature, and the named actual values its results; the oracle's are the same."""
    values = op.body.entry.args
    # An empty list compares the arguments alone, whatever the function returns.
    return _check_function(op, target, values[: len(values) // 2]) if values else _check_function(op, target, None)


def _check_function(op: Any, target: Any, results: Sequence[Value] | None) -> list[Diagnostic]:
    found = check_arguments(op, target, "args", op.args, target.body.entry.args)
    if found or results is None:
        return found
    where = (Related(f"'@{target.callee}' is declared here", target.loc),)
    specs = target.result_specs
    if len(specs) != len(results):
        message = f"'@{target.callee}' has {len(specs)} results, not {len(results)}"
        params = {"op_name": op.name, "actual_count": len(results), "expected_count": len(specs)}
        return [Diagnostic("STRUCTURE/002", message, op.loc, params, related=where)]
    mapping: dict[Value, Value] = dict(zip(target.body.entry.args, op.args, strict=True))
    mapping |= {spec.value: result for spec, result in zip(specs, results, strict=True) if spec.value is not None}
    for i, (result, spec) in enumerate(zip(results, specs, strict=True)):
        expected = spec.type.substitute(mapping)
        if result.type not in (expected, ERROR):
            message = f"results[{i}] has type {result.type}, but '@{target.callee}' declares {expected}"
            types = {"type_a": result.type, "type_b": expected}
            params = {"field_a": f"results[{i}]", "field_b": target.callee, **types}
            found.append(Diagnostic("TYPE/001", message, op.loc, params, related=where))
    return found


def literal_kind(op: Any, name: str, value: object, type_: Any) -> list[Diagnostic]:
    """A literal suits the element type: a float for floats, an integer otherwise."""
    element = element_type(type_)
    if value is None:
        return []
    if element in FLOATS:
        ok, expected = isinstance(value, float), "float"
    elif element is I1:
        ok, expected = isinstance(value, bool) or value in (0, 1), "bool"
    else:
        ok, expected = isinstance(value, int) and not isinstance(value, bool), "integer"
    if ok:
        return []
    actual = "bool" if isinstance(value, bool) else "float" if isinstance(value, float) else "integer"
    return [
        wrong_kind(
            op, name, actual, expected, f"write '{value}.0'" if expected == "float" and actual == "integer" else None
        )
    ]


def literal(op: Any) -> list[Diagnostic] | None:
    """The value suits the type."""
    return (in_case(op) or []) + literal_kind(op, "value", op.value, op.results[0].type)


def generator(op: Any) -> list[Diagnostic] | None:
    """Literals suit the element type."""
    found = in_case(op) or []
    for name in ("offset", "step", "value", "lower", "upper"):
        if name in op.spec.attribute_index:
            found += literal_kind(op, name, op.attribute(name), op.results[0].type)
    return found
