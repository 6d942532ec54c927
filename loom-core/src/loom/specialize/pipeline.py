"""The specialization pipeline: configuration, target facts, templates, inlining, folding, dead code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from loom.facts.version import Version
from loom.ir.attributes import Encoding
from loom.ir.core import Module, Op
from loom.ir.diagnostics import fail
from loom.ir.records import field, mutable_record
from loom.ir.recursion import deep_recursion
from loom.ir.types import is_vector
from loom.specialize.contradictions import CallChecks, check_assumptions
from loom.specialize.select import Selection, bind, require_provider_holds, select
from loom.specialize.targets import accepts_record, check_authored_target, is_foreign
from loom.transforms.canonicalize import canonicalize
from loom.transforms.dce import eliminate_dead_symbols, is_root
from loom.transforms.exits import nest_exits
from loom.transforms.fold import make_constant
from loom.transforms.inline import MAX_DEPTH, inline_calls, inline_required
from loom.transforms.loops import apply_loop_policies

if TYPE_CHECKING:
    from loom.plugins.records import TargetProfile
    from loom.transforms.loops_report import PolicyDetail

CODE = ("func.def", "kernel.def", "pipeline.def")


@mutable_record
class Specialization:
    """The result: a new module and what was decided on the way."""

    module: Module
    selections: list[Selection] = field(factory=list)
    loops: list[PolicyDetail] = field(factory=list)


def specialize(
    module: Module, target: TargetProfile | None, roots: Sequence[str] = (), *, leave_foreign: bool = False
) -> Specialization:
    """Specialize every function and kernel of a linked module for a target.

    Applications are bound with the facts of the enclosing function version and inlined; calls are inlined unless
    ``noinline``; constants fold; unreachable symbols go. ``roots`` names symbols to keep besides exported ones.
    The input module is left alone. With ``leave_foreign`` code authored for another target stays as it is, for those
    who may never run it; otherwise it is an error. Raises :class:`~loom.ir.diagnostics.LoomError`.
    """
    result = Specialization(module.clone())
    work = result.module
    symbols = work.symbols()
    kept = [op for op in work.body if is_root(op) or "check" in op.spec.traits or _name(op) in roots]
    if roots:
        kept = [op for op in work.body if _name(op) in roots]
    eliminate_dead_symbols(work, kept, keep_providers=True)
    symbols = work.symbols()
    with deep_recursion():
        for op in list(work.body):
            if op.name in CODE and not (leave_foreign and is_foreign(op, symbols, target)):
                result.loops += _specialize_function(op, symbols, target, result.selections)
    eliminate_dead_symbols(work, kept)
    return result


def _name(op: Op) -> str | None:
    index = op.spec.symbol_attribute
    return None if index is None else op.attributes[index]  # type: ignore[return-value]  # symbol names are text


def _specialize_function(
    function: Any, symbols: dict[str, Op], target: TargetProfile | None, log: list[Selection]
) -> list[PolicyDetail]:
    """Specialize one body in place; returns what was done about its loops."""
    if target is not None:
        check_authored_target(function, symbols, target)
    facts = target.facts if target is not None else {}
    bind_configuration(function, symbols)
    nest_exits(function)
    version = Version(function, facts)
    for _ in range(MAX_DEPTH):
        if inline_calls(function, symbols, check=CallChecks(version)):
            version.changed()
        check_assumptions(version)
        canonicalize(function, symbols, version=version)
        if not _bind_templates(version, symbols, target, log):
            break
        version.changed()
    else:
        raise fail(
            "LOWERING/044",
            f"templates of '@{function.callee}' do not stop expanding",
            function.loc,
            emitter="select-templates",
            op_name=function.name,
            phase_name="select-templates",
            callee_name=function.callee,
            failure_code="recursive_body",
        )
    details = apply_loop_policies(function, facts, symbols, version=version)
    if any(is_vector(r.type) for op in function.walk() if op.name in ("scf.for", "scf.while") for r in op.results):
        from loom.transforms.banks import decompose_banks

        # Only now copies of iterations may have told which slots are meant.
        details += decompose_banks(function, facts, version=version)
    if details:
        canonicalize(function, symbols, version=version)
    check_assumptions(version)
    return details


def bind_configuration(function: Op, symbols: dict[str, Op]) -> None:
    """Replace every ``config.get`` of a defined key by its value."""
    from loom.dialects.encoding.ops import Define

    for op in list(function.walk()):
        if op.name != "config.get":
            continue
        definition: Any = symbols.get(str(op.attribute("key")))
        if definition is None or definition.name != "config.def":
            raise fail(
                "SYMBOL/002",
                f"configuration key '@{op.attribute('key')}' has no value",
                op.loc,
                emitter="specialize",
                hint="give one with --config or a 'config.def'",
                symbol_name=op.attribute("key"),
            )
        value = definition.value
        constant = (
            Define([], [value, None], [op.results[0].type], segments=(0,), loc=op.loc)
            if isinstance(value, Encoding)
            else make_constant(op.results[0].type, value, op.loc)
        )
        constant.insert_before(op)
        op.replace_with(constant.results)


def providers_of(symbols: dict[str, Op], family: str) -> list[Any]:
    """All providers of a family, by name."""
    return sorted(
        (
            op
            for op in symbols.values()
            if op.name in ("template.def", "template.ukernel") and op.attribute("family") == family
        ),
        key=lambda op: op.callee,
    )


def target_test(symbols: dict[str, Op], target: TargetProfile | None) -> Callable[[Any], bool | None]:
    """Whether a provider's target record covers the target in use."""
    return lambda provider: accepts_record(target, symbols.get(provider.target))


def _bind_templates(
    version: Version, symbols: dict[str, Op], target: TargetProfile | None, log: list[Selection]
) -> bool:
    """Bind and inline the applications that stand in a body now. Returns whether there were any."""
    function: Any = version.function
    sites = [op for op in function.walk() if op.name in ("template.apply", "template.call")]
    if not sites:
        return False
    facts = version.facts
    applies = target_test(symbols, target)
    for site in sites:
        if site.name == "template.apply":
            providers = providers_of(symbols, site.family)
            chosen = select(site, providers, facts, target, applies, final=True)
            assert chosen is not None
            log.append(Selection.of(function.callee, site, chosen, target))
            call: Any = bind(site, chosen.provider)
        else:
            call = site
            require_provider_holds(call, symbols[call.callee], facts, target, applies)
        provider: Any = symbols[call.callee]
        if provider.name == "template.ukernel":
            raise fail(
                "LOWERING/045",
                f"'@{provider.callee}' is supplied outside the program and cannot be inlined",
                call.loc,
                emitter="select-templates",
                op_name=call.name,
                phase_name="select-templates",
                contract_key=provider.family,
                failure_code="materialization_blocked",
            )
        inline_required(call, provider, "select-templates")
    return True
