"""Canonicalization to a fixed point: folding, decided control flow, common subexpressions, dead code."""

from __future__ import annotations

from collections.abc import Mapping

from loom.facts.analysis import FunctionFacts
from loom.ir.core import Op, Region, Value
from loom.transforms.cse import eliminate_common
from loom.transforms.dce import eliminate_dead_ops
from loom.transforms.fold import constant_of, fold, make_constant

MAX_ROUNDS = 16


def canonicalize(
    root: Op, symbols: dict[str, Op], target_facts: Mapping[str, object] | None = None, max_rounds: int = MAX_ROUNDS
) -> None:
    """Simplify the body of a function or kernel. Meaning, effects and trapping behaviour stay as they are."""
    for _ in range(max_rounds):
        changed = _fold_all(root, FunctionFacts(root, target_facts))
        changed |= _decide_control(root, FunctionFacts(root, target_facts))
        changed |= eliminate_common(root)
        changed |= eliminate_dead_ops(root, symbols)
        if not changed:
            return


def _fold_all(root: Op, facts: FunctionFacts) -> bool:
    changed = False
    for op in list(root.walk()):
        if op.parent is None or op is root or not op.results or op.regions:
            continue
        found = fold(op, facts)
        if found is None:
            continue
        values: list[Value] = []
        for replacement, result in zip(found, op.results, strict=True):
            if isinstance(replacement, Value):
                values.append(replacement)
            else:
                constant = make_constant(result.type, replacement, op.loc)
                constant.insert_before(op)
                values.append(constant.results[0])
        op.replace_with(values)
        changed = True
    return changed


def _decide_control(root: Op, facts: FunctionFacts) -> bool:
    changed = False
    # Inner ops first: deciding an outer one may erase what is inside it.
    for op in reversed(list(root.walk())):
        if op.name == "scf.if":
            changed |= _decide_if(op)
        elif op.name == "scf.switch":
            changed |= _decide_switch(op, facts)
        elif op.name == "scf.for":
            changed |= _decide_for(op, facts)
    return changed


def splice(op: Op, region: Region) -> None:
    """Replace an op by the contents of one of its single-block regions."""
    block = region.entry
    end = block.last
    assert end is not None
    values = list(end.operands)
    end.erase()
    for inner in block:
        inner.detach()
        inner.insert_before(op)
    op.replace_with(values)


def _decide_if(op: Op) -> bool:
    known = constant_of(op.operands[0])
    if known is None:
        if not op.results and all(_is_empty(r) for r in op.regions):
            op.erase()
            return True
        return False
    if known:
        splice(op, op.regions[0])
    elif len(op.regions) > 1:
        splice(op, op.regions[1])
    else:
        op.erase()
    return True


def _is_empty(region: Region) -> bool:
    return region.entry.first is region.entry.last


def _decide_switch(op: Op, facts: FunctionFacts) -> bool:
    selector = facts.exact(op.operands[0], op)
    if selector is None:
        return False
    keys = op.attribute("case_keys")
    assert isinstance(keys, tuple)
    splice(op, op.regions[1 + keys.index(selector)] if selector in keys else op.regions[0])
    return True


def _decide_for(op: Op, facts: FunctionFacts) -> bool:
    """A loop that never runs is its initial values; one that runs once is its body."""
    lower, upper, step = (facts.integer(v, op) for v in op.operands[:3])
    if step.lo <= 0:
        return False
    inits = op.group(3)
    if lower.lo >= upper.hi:
        op.replace_with(inits)
        return True
    if lower.exact is None or upper.exact is None or step.exact is None:
        return False
    if not lower.exact < upper.exact <= lower.exact + step.exact:
        return False
    block = op.regions[0].entry
    for arg, value in zip(block.args, [op.operands[0], *inits], strict=True):
        arg.replace_all_uses(value)
    splice(op, op.regions[0])
    return True
