"""Separating a conditional that reads and also uses carried values: a guarded read in front of its consumer.

Language reference, part 3, section 10.2, "guarded partition". The rewrite keeps the original conditional, so the
branch not taken, the yields and the skipped updates stay as authored.
"""

from __future__ import annotations

from typing import Any

from loom.dialects.scf import ops as scf
from loom.ir.core import Block, Op, Region, Value
from loom.ir.types import ADDRESSES, FLOATS, INTEGERS, ShapedType, Type
from loom.spec.registry import lookup
from loom.transforms.fold import make_constant
from loom.transforms.pipeline_partition import (
    Taint,
    blame_prerequisite,
    captured,
    consumer_of,
    producer_of,
    require_invariant_types,
)
from loom.transforms.pipeline_rules import ORDERED, Role, Roles, broken


def separate_guarded_reads(loop: Any, roles: Roles) -> bool:
    """Separate every conditional of a loop's body that needs it. Returns whether there was one.

    Raises the diagnostic of the broken rule for a conditional that cannot be separated.
    """
    block: Block = loop.body.entry
    taint = Taint(block.args[1:])
    changed = False
    for op in list(block):
        effects = roles.effects(op)
        if op.name == "scf.if" and effects.has(Role.READ) and not effects.has(*ORDERED) and taint.touches_carried(op):
            _separate(loop, op, taint, roles)
            changed = True
        taint.visit(op, roles)
    return changed


def _separate(loop: Op, choice: Op, taint: Taint, roles: Roles) -> None:
    condition = choice.operands[0]
    if condition in taint.reasons:
        reason = taint.reasons[condition]
        source = f"the result of '{reason.name}'" if reason is not None else "carried state"
        raise broken(loop, roles.depth, "prerequisite", choice, f"the condition depends on {source}")
    if len(choice.regions) < 2:
        raise broken(loop, roles.depth, "partition", choice, "this conditional has no 'else'")
    branches = [region.entry for region in choice.regions]
    reading = [b for b in branches if any(roles.effects(op).has(Role.READ) for op in b)]
    if len(reading) != 1:
        raise broken(loop, roles.depth, "partition", choice, "both branches of this conditional read")
    branch = reading[0]
    reads = _branch_reads(loop, branch, taint, roles)
    wanted: set[Value] = captured(branch.last) if branch.last is not None else set()
    for op in consumer_of(branch, reads, roles):
        wanted |= captured(op)
    handed = [result for op in reads for result in op.results if result in wanted]
    require_invariant_types(loop, handed, roles)
    guarded = _guarded_read(loop, choice, branch, handed, roles)
    guarded.insert_before(choice)
    for old, new in zip(handed, guarded.results, strict=True):
        new.name = old.name
        old.replace_all_uses(new)
    for op in reversed(reads):
        op.erase()


def _branch_reads(loop: Op, branch: Block, taint: Taint, roles: Roles) -> list[Op]:
    """The operations of a branch that read; none may depend on what keeps its place."""
    local = Taint(())
    local.reasons.update(taint.reasons)
    found = []
    for op in branch:
        effects = roles.effects(op)
        if effects.has(Role.READ):
            if effects.has(Role.COLLECTIVE):
                raise broken(loop, roles.depth, "convergent_mixed", op)
            blame_prerequisite(loop, op, local, roles)
            found.append(op)
        local.visit(op, roles)
    return found


def _guarded_read(loop: Op, choice: Op, branch: Block, handed: list[Value], roles: Roles) -> Op:
    """The conditional that only reads; where it does not, placeholders stand for the values nobody will use."""
    taken, skipped = Block(), Block()
    mapping: dict[Value, Value] = {}
    for op in producer_of(branch, handed):
        taken.append(op.clone(mapping))
    values = [mapping[v] for v in handed]
    taken.append(scf.Yield(values, [], segments=(len(values),), loc=choice.loc))
    placeholders = []
    for value in handed:
        zero = _placeholder(value.type, choice)
        if zero is None:
            label = f"this makes a value of type {value.type}"
            raise broken(loop, roles.depth, "placeholder", value.defining_op, label)
        skipped.append(zero)
        placeholders.append(zero.results[0])
    skipped.append(scf.Yield(placeholders, [], segments=(len(placeholders),), loc=choice.loc))
    blocks = [taken, skipped] if choice.regions[0].entry is branch else [skipped, taken]
    return scf.If.build(
        condition=choice.operands[0],
        result_types=[v.type for v in handed],
        regions=[Region([block]) for block in blocks],
        loc=choice.loc,
    )


def _placeholder(type_: Type, like: Op) -> Op | None:
    """A zero of a scalar or vector type; ``None`` for other types."""
    if isinstance(type_, ShapedType):
        zero = _zero(type_.element)
        if type_.kind != "vector" or zero is None or 0 in type_.dims:
            return None
        constant: Any = lookup("vector.constant")
        found: Op = constant([], [zero], [type_], loc=like.loc)
        return found
    zero = _zero(type_)
    return None if zero is None else make_constant(type_, zero, like.loc)


def _zero(type_: Type) -> object:
    if type_ in FLOATS:
        return 0.0
    return 0 if type_ in INTEGERS or type_ in ADDRESSES else None
