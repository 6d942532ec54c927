"""Symbol rules: unique names, references of the right kind, calls that match signatures (part 1, section 6.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loom.dialects.command.verify import check_program_launch
from loom.dialects.func.verify import check_call_signature, check_symbol
from loom.dialects.global_.verify import RODATA, check_conflicts, check_constant_store, loads, stores
from loom.dialects.kernel.verify import check_dispatch, check_launch
from loom.dialects.template.verify import check_execution_choices
from loom.ir.core import Module, Op, symbol_name
from loom.ir.diagnostics import Diagnostic, Related, did_you_mean
from loom.ir.records import record


@record
class SymbolUse:
    """How an op refers to a symbol: attribute, kinds it accepts, what to call them, and a signature check.

    ``also`` is a second reference of the same op.
    """

    attribute: str
    kinds: tuple[str, ...]
    what: str
    check: Callable[[Any, Any], list[Diagnostic]] | None = None
    also: SymbolUse | None = None


def _call(op: Any, target: Any) -> list[Diagnostic]:
    return check_call_signature(op, target, op.args, op.results)


def _provider(op: Any, family: Any) -> list[Diagnostic]:
    """A provider's signature equals its family's after positional renaming."""
    found: list[Diagnostic] = []
    where = (Related(f"family '@{family.callee}' is declared here", family.loc),)
    for role, mine, theirs in (
        ("argument", [a.type for a in op.body.entry.args], [a.type for a in family.body.entry.args]),
        ("result", [r.type for r in op.result_specs], [r.type for r in family.result_specs]),
    ):
        if len(mine) != len(theirs):
            code = "STRUCTURE/001" if role == "argument" else "STRUCTURE/002"
            found.append(
                Diagnostic(
                    code,
                    f"'@{op.callee}' has {len(mine)} {role}s, its family {len(theirs)}",
                    op.loc,
                    {"op_name": op.name, "actual_count": len(mine), "expected_count": len(theirs)},
                    related=where,
                )
            )
            continue
        renaming = dict(zip(family.body.entry.args, op.body.entry.args, strict=False))
        for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            expected = b.substitute(renaming)
            if a != expected:
                found.append(
                    Diagnostic(
                        "TYPE/001",
                        f"implementation {role} {i} is {a}, the contract says {expected}",
                        op.loc,
                        {
                            "field_a": f"implementation {role}",
                            "type_a": a,
                            "field_b": f"contract {role}",
                            "type_b": expected,
                        },
                        related=where,
                    )
                )
    return found


def _config(op: Any, target: Any) -> list[Diagnostic]:
    if op.results[0].type == target.type:
        return []
    return [
        Diagnostic(
            "TYPE/001",
            f"'@{target.key}' is declared as {target.type}, not {op.results[0].type}",
            op.loc,
            {"field_a": "result", "type_a": op.results[0].type, "field_b": target.key, "type_b": target.type},
            related=(Related("declared here", target.loc),),
        )
    ]


def _compose(op: Any, target: Any) -> list[Diagnostic]:
    from loom.dialects.pipeline.verify import check_compose

    return check_compose(op, target)


def _stage(op: Any, target: Any) -> list[Diagnostic]:
    from loom.dialects.pipeline.verify_flow import check_stage

    return check_stage(op, target)


def _check_invoke(op: Any, target: Any) -> list[Diagnostic]:
    from loom.dialects.check.verify import check_invoke

    return check_invoke(op, target)


def _check_subject(op: Any, target: Any) -> list[Diagnostic]:
    from loom.dialects.check.verify import check_subject

    return check_subject(op, target)


FUNCTIONS: Final = ("func.def", "func.decl")
FAMILIES: Final = ("template.decl",)
PROVIDERS: Final = ("template.def", "template.ukernel")
ENTRIES: Final = ("kernel.def", "kernel.entry.decl")
KERNELS: Final = ("kernel.def", "kernel.decl")
PROGRAMS: Final = ("command.program.def", "command.program.decl")
PIPELINES: Final = ("pipeline.def",)
LOW_FUNCTIONS: Final = ("low.func.def", "low.func.decl")

USES: Final[dict[str, SymbolUse]] = {
    "func.call": SymbolUse("callee", FUNCTIONS, "a function", _call),
    "template.apply": SymbolUse("family", FAMILIES, "a template family", _call),
    "template.def": SymbolUse("family", FAMILIES, "a template family", _provider),
    "template.ukernel": SymbolUse("family", FAMILIES, "a template family", _provider),
    "template.call": SymbolUse("callee", PROVIDERS, "a template provider", _call),
    "config.get": SymbolUse("key", ("config.def", "config.decl"), "a configuration key", _config),
    "kernel.launch": SymbolUse("callee", (*PIPELINES, *KERNELS), "a kernel", check_launch),
    "kernel.dispatch": SymbolUse("callee", ENTRIES, "an executable entry", check_dispatch),
    "command.program.launch": SymbolUse("callee", PROGRAMS, "a command program", check_program_launch),
    "pipeline.compose": SymbolUse("callee", PIPELINES, "a pipeline", _compose),
    "pipeline.stage": SymbolUse("callee", FUNCTIONS, "a function", _stage),
    "pipeline.reduce": SymbolUse("callee", FUNCTIONS, "a function"),
    "check.benchmark": SymbolUse("case", ("check.case", "check.scenario"), "a check case or scenario"),
    "check.invoke": SymbolUse("callee", FUNCTIONS, "a function", _check_invoke),
    "check.compare": SymbolUse(
        "subject",
        FUNCTIONS,
        "a function",
        _check_subject,
        SymbolUse("oracle", FUNCTIONS, "a function", _check_subject),
    ),
    "low.func.call": SymbolUse("callee", LOW_FUNCTIONS, "a Low function", _call),
    "low.invoke": SymbolUse("callee", LOW_FUNCTIONS, "a Low function"),
    "pass.call": SymbolUse("callee", ("pass.pipeline",), "a pass pipeline"),
    "global.load": SymbolUse("symbol", ("global.constant", "global.variable", *RODATA), "a global", loads),
    "global.store": SymbolUse("symbol", ("global.variable", "global.constant"), "a variable", stores),
}

# Rules about several symbols at once.
RELATIONS: Final[dict[str, Callable[[Any, dict[str, Op]], list[Diagnostic]]]] = {
    "global.store": check_constant_store,
    "template.def": check_execution_choices,
    "template.ukernel": check_execution_choices,
    "global.rodata.def": check_conflicts,
}


def check_symbols(module: Module, symbols: dict[str, Op]) -> list[Diagnostic]:
    """Report duplicate symbols of a module."""
    found = []
    for op in module.body:
        name = symbol_name(op)
        if name is None:
            continue
        first = symbols[name]
        if first is not op:
            found.append(
                Diagnostic(
                    "SYMBOL/005",
                    f"'@{name}' is defined twice",
                    op.loc,
                    {"symbol_name": name},
                    related=(Related("first defined here", first.loc),),
                )
            )
    return found


def check_references(op: Op, symbols: dict[str, Op]) -> list[Diagnostic]:
    """Check the symbol references of one operation."""
    found: list[Diagnostic] = []
    use = USES.get(op.name)
    while use is not None:
        name = op.attribute(use.attribute)
        if isinstance(name, str):
            target, faults = check_symbol(op, symbols, name, use.kinds, use.what)
            found += use.check(op, target) if target is not None and use.check is not None else faults
        use = use.also
    relation = RELATIONS.get(op.name)
    if relation is not None:
        found += relation(op, symbols)
    for attribute in ("target", "witness"):
        if attribute in op.spec.attribute_index:
            name = op.attribute(attribute)
            if isinstance(name, str):
                found = [*found, *_target_record(op, symbols, name)]
    return found


def _records(symbols: dict[str, Op]) -> list[str]:
    return [name for name, op in symbols.items() if "target_record" in op.spec.traits]


def _target_record(op: Op, symbols: dict[str, Op], name: str) -> list[Diagnostic]:
    record = symbols.get(name)
    if record is None:
        return [
            Diagnostic(
                "SYMBOL/002",
                f"target '@{name}' is not in this module",
                op.loc,
                {"symbol_name": name},
                hint=did_you_mean(name, _records(symbols)) or "add the target record or 'target.decl'",
            )
        ]
    if "target_record" not in record.spec.traits:
        return [
            Diagnostic(
                "SYMBOL/003",
                f"'@{name}' is a '{record.name}', not a target record",
                op.loc,
                {"symbol_name": name, "actual_kind": record.name, "expected_kind": "target record"},
                related=(Related("defined here", record.loc),),
            )
        ]
    return []
