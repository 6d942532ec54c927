"""Verification of whole modules."""

from __future__ import annotations

from typing import Final

from loom.dialects.channel.ownership import check_ownership, is_obligation
from loom.ir.core import Module, Op, symbol_name
from loom.ir.diagnostics import Diagnostic, LoomError
from loom.ir.recursion import deep_recursion
from loom.ir.types import Type
from loom.verify.compiled import check_of
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


def _verify_root(root: Op, symbols: dict[str, Op], purity: Purity, sound: set[Type]) -> list[Diagnostic]:
    findings: list[Diagnostic] = []
    name = symbol_name(root) or root.name
    last_name = ""
    last_type: Type | None = None
    check = None
    special = False
    meets = splits = ties = promises = False
    owes = any(is_obligation(a) for region in root.regions for block in region.blocks[:1] for a in block.args)
    for op in root.walk():
        if op.name != last_name:
            # Runs of equal ops are common; look their rules up once.
            last_name = op.name
            check = check_of(type(op))
            traits = op.spec.traits
            indices = op.spec.attribute_index
            meets = meets or last_name in MEETINGS
            promises = "predicates" in indices
            splits = splits or last_name in (ARRIVE, WAIT)
            owes = owes or op.spec.dialect == "channel"
            special = (
                last_name in USES
                or last_name in RELATIONS
                or "target" in indices
                or "witness" in indices
                or bool(traits & EFFECTFUL)
                or "poison_boundary" in traits
                or "function" in traits
            )
        assert check is not None
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
        found = check(op)
        if found:
            findings += found
        if promises and not found and op.attribute("predicates"):
            findings += check_predicates(op)
        if special:
            findings += check_references(op, symbols)
            findings += check_purity(op, purity)
            findings += check_pure_call(op, symbols, purity, name)
            findings += check_poison(op)
            if op.spec.result_spec_attributes:
                findings += check_signature_ties(op)
            elif ties_of(op):
                ties = True
                findings += check_ties(op, op.operands, len(op.results))
    checker = DominanceChecker()
    checker.op(root)
    findings += checker.findings
    if meets and not findings:
        findings += check_convergence(root)
    if splits and not findings:
        findings += check_phases(root, purity)
    if ties and not findings:
        findings += check_consumption(root)
    if owes and not findings:
        findings += check_ownership(root)
    return findings
