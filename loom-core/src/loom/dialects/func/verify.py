"""Rules of functions, calls and returns; shared by templates (language reference, part 1, sections 8 and 9)."""

from __future__ import annotations

from typing import Any

from loom.ir.core import Op, Value
from loom.ir.diagnostics import Diagnostic, Related, did_you_mean
from loom.ir.types import ERROR


def function(op: Any) -> list[Diagnostic] | None:
    """Tied results have their argument's type."""
    found = []
    for spec in op.result_specs:
        if spec.tied is not None:
            argument = op.body.entry.args[spec.tied]
            if argument.type != spec.type:
                found.append(
                    Diagnostic(
                        "TYPE/001",
                        f"result tied to %{argument.name} has type {spec.type}, the argument {argument.type}",
                        op.loc,
                        {"field_a": "result", "type_a": spec.type, "field_b": "argument", "type_b": argument.type},
                    )
                )
    return found


def returns(op: Any) -> list[Diagnostic] | None:
    """A return matches the signature; a type naming a result means the returned value."""
    function_op = op.parent_op
    if function_op is None or not function_op.spec.result_spec_attributes:
        return None
    specs = function_op.result_specs
    if len(specs) != len(op.operands):
        return [
            Diagnostic(
                "STRUCTURE/008",
                f"returns {len(op.operands)} values where the signature has {len(specs)}",
                op.loc,
                {"actual_count": len(op.operands), "expected_count": len(specs)},
            )
        ]
    mapping = {spec.value: value for spec, value in zip(specs, op.operands, strict=True) if spec.value is not None}
    found = []
    for value, spec in zip(op.operands, specs, strict=True):
        expected = spec.type.substitute(mapping)
        if value.type != expected and value.type is not ERROR:
            found.append(
                Diagnostic(
                    "TYPE/009",
                    f"returns {value.type} where {expected} is declared",
                    op.loc,
                    {"yield_type": value.type, "expected_type": expected},
                )
            )
    return found


def call(op: Any) -> list[Diagnostic] | None:
    """Nothing local; symbol rules check the callee."""
    return None


def check_symbol(
    op: Op, symbols: dict[str, Op], name: str, kinds: tuple[str, ...], what: str
) -> tuple[Op | None, list[Diagnostic]]:
    """Resolve ``name`` to an op of one of ``kinds``."""
    target = symbols.get(name)
    if target is None:
        hint = did_you_mean(name, symbols) or f"declare it in this module with '{kinds[-1]}'"
        return None, [
            Diagnostic(
                "SYMBOL/002",
                f"'@{name}' is neither defined nor declared in this module",
                op.loc,
                {"symbol_name": name},
                hint=hint,
            )
        ]
    if target.name not in kinds:
        return None, [
            Diagnostic(
                "SYMBOL/003",
                f"'@{name}' is a '{target.name}', not {what}",
                op.loc,
                {"symbol_name": name, "actual_kind": target.name, "expected_kind": what},
                related=(Related(f"'@{name}' is defined here", target.loc),),
            )
        ]
    return target, []


def check_call_signature(op: Op, target: Any, args: list[Value], results: list[Value]) -> list[Diagnostic]:
    """Operands and results match a callable's signature after substitution (part 1, section 4.6)."""
    parameters = target.body.entry.args
    where = (Related(f"'@{target.callee}' is declared here", target.loc),)
    if len(parameters) != len(args):
        return [
            Diagnostic(
                "STRUCTURE/001",
                f"'@{target.callee}' takes {len(parameters)} arguments, not {len(args)}",
                op.loc,
                {"op_name": op.name, "actual_count": len(args), "expected_count": len(parameters)},
                related=where,
            )
        ]
    if len(target.result_specs) != len(results):
        return [
            Diagnostic(
                "STRUCTURE/002",
                f"'@{target.callee}' has {len(target.result_specs)} results, not {len(results)}",
                op.loc,
                {"op_name": op.name, "actual_count": len(results), "expected_count": len(target.result_specs)},
                related=where,
            )
        ]
    mapping: dict[Value, Value] = dict(zip(parameters, args, strict=True))
    for spec, result in zip(target.result_specs, results, strict=True):
        if spec.value is not None:
            mapping[spec.value] = result
    found = []
    pairs = [(f"args[{i}]", a, p.type) for i, (a, p) in enumerate(zip(args, parameters, strict=True))]
    pairs += [(f"results[{i}]", r, s.type) for i, (r, s) in enumerate(zip(results, target.result_specs, strict=True))]
    for field, value, declared in pairs:
        expected = declared.substitute(mapping)
        if value.type != expected and value.type is not ERROR:
            found.append(
                Diagnostic(
                    "TYPE/001",
                    f"{field} has type {value.type}, but '@{target.callee}' declares {expected}",
                    op.loc,
                    {"field_a": field, "type_a": value.type, "field_b": target.callee, "type_b": expected},
                    related=where,
                )
            )
    return found
