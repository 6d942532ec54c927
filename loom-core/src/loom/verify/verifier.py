"""Verification of whole modules."""

from __future__ import annotations

from typing import Final

from loom.dialects.channel.ownership import check_ownership, is_obligation
from loom.ir.core import Module, Op, symbol_name
from loom.ir.diagnostics import Diagnostic, LoomError
from loom.ir.records import record
from loom.ir.recursion import deep_recursion
from loom.ir.types import Type
from loom.verify.compiled import Check, check_of
from loom.verify.consumption import check_consumption, check_signature_ties, check_ties, ties_of
from loom.verify.convergence import MEETINGS, check_convergence
from loom.verify.dominance import DominanceChecker
from loom.verify.effects import EFFECTFUL, Purity, check_poison, check_pure_call, check_purity
from loom.verify.phases import ARRIVE, WAIT, check_phases
from loom.verify.predicates import check_predicates
from loom.verify.symbols import RELATIONS, USES, check_references, check_symbols
from loom.verify.types import check_types

FINDING_LIMIT: Final = 100

# Traits of ops that may stand at module level.
MODULE_LEVEL: Final = frozenset({"symbol", "module_record"})


def verify_module(module: Module) -> list[Diagnostic]:
    """Return the findings of all rules, at most :data:`FINDING_LIMIT`; an empty list means the module is valid."""
    symbols = module.symbols()
    findings = check_symbols(module, symbols)
    purity = Purity(symbols)
    sound: set[Type] = set()
    with deep_recursion():
        for op in module.body:
            if not op.spec.traits & MODULE_LEVEL:
                findings.append(
                    Diagnostic(
                        "STRUCTURE/011", f"'{op.name}' cannot stand at module level", op.loc, {"op_name": op.name}
                    )
                )
                continue
            findings += _verify_root(op, symbols, purity, sound)
            if len(findings) >= FINDING_LIMIT:
                break
    return findings[:FINDING_LIMIT]


def require_valid(module: Module) -> None:
    """Raise :class:`LoomError` unless the module is valid."""
    findings = verify_module(module)
    if findings:
        raise LoomError(findings)


@record(eq=False)
class _Rules:
    """What is checked of the operations of one class, by what they are declared to be.

    ``meets``, ``splits`` and ``owes`` say that there are rules for the whole body that such an operation is in.
    """

    check: Check
    meets: bool
    splits: bool
    owes: bool
    promises: bool
    names: bool
    function: bool
    calls: bool
    observes: bool
    declares: bool
    ties: bool


_RULES: Final[dict[type[Op], _Rules]] = {}


def _rules_of(cls: type[Op]) -> _Rules:
    found = _RULES.get(cls)
    if found is None:
        found = _RULES[cls] = _make_rules(cls)
    return found


def _make_rules(cls: type[Op]) -> _Rules:
    spec, name = cls.spec, cls.name
    traits, indices = spec.traits, spec.attribute_index
    function = "function" in traits
    effects = bool(traits & EFFECTFUL)
    names = name in USES or name in RELATIONS or "target" in indices or "witness" in indices
    observed = "poison_boundary" in traits
    special = names or effects or observed or function
    return _Rules(
        check=check_of(cls),
        meets=name in MEETINGS,
        splits=name in (ARRIVE, WAIT),
        owes=spec.dialect == "channel",
        promises="predicates" in indices,
        names=names,
        function=function,
        calls=name in ("func.call", "template.call"),
        observes=observed or effects,
        declares=special and bool(spec.result_spec_attributes),
        ties=special and "ties" in indices,
    )


def _verify_root(root: Op, symbols: dict[str, Op], purity: Purity, sound: set[Type]) -> list[Diagnostic]:
    findings: list[Diagnostic] = []
    name = symbol_name(root) or root.name
    last_type: Type | None = None
    ties = False
    met: set[_Rules] = set()
    for op in root.walk():
        rules = _rules_of(type(op))
        met.add(rules)
        # Before the rules of the op, which look into its types.
        for result in op.results:
            if result.type is not last_type:
                last_type = result.type
                if last_type not in sound:
                    findings += check_types(op, "results", op.results, sound)
        for region in op.regions:
            for block in region.blocks:
                if block.args:
                    findings += check_types(op, "arguments", block.args, sound)
        found = rules.check(op)
        if found:
            findings += found
        if rules.promises and not found and op.attribute("predicates"):
            findings += check_predicates(op)
        if rules.names:
            findings += check_references(op, symbols)
        if rules.function:
            findings += check_purity(op, purity)
        if rules.calls:
            findings += check_pure_call(op, symbols, purity, name)
        if rules.observes:
            findings += check_poison(op)
        if rules.declares:
            findings += check_signature_ties(op)
        elif rules.ties and ties_of(op):
            ties = True
            findings += check_ties(op, op.operands, len(op.results))
    checker = DominanceChecker()
    checker.op(root)
    findings += checker.findings
    if any(rules.meets for rules in met) and not findings:
        findings += check_convergence(root)
    if any(rules.splits for rules in met) and not findings:
        findings += check_phases(root, purity)
    if ties and not findings:
        findings += check_consumption(root)
    owes = any(is_obligation(a) for region in root.regions for block in region.blocks[:1] for a in block.args)
    if (owes or any(rules.owes for rules in met)) and not findings:
        findings += check_ownership(root)
    return findings
