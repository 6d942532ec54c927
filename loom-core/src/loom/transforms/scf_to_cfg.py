"""Structured control flow as branches between blocks (language reference, part 3, section 11).

Only a body that may have several blocks is taken apart: that of a function, kernel or template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from loom.dialects.cfg import ops as cfg
from loom.dialects.index import ops as index_ops
from loom.facts.analysis import FunctionFacts
from loom.facts.integers import MAX64, IntegerFacts
from loom.ir.core import Block, Op, Region, Value, substitute_types
from loom.ir.diagnostics import Location, fail
from loom.spec.registry import lookup
from loom.transforms.fold import make_constant
from loom.transforms.loops_positions import Cursor, group_limit, is_below
from loom.transforms.loops_refusal import require_carried_out

PASS: Final = "scf-to-cfg"


def lower_to_blocks(function: Op, target_facts: Mapping[str, object]) -> int:
    """Replace conditionals, switches and loops of a function's body by branches; how many were replaced.

    Raises STRUCTURE/035 at a loop whose step is not known to be positive, and STRUCTURE/014 at one whose policy is not
    carried out yet, before anything is changed.
    """
    facts = FunctionFacts(function, target_facts)
    _require_lowerable(function, facts)
    region = function.regions[-1]
    lowered = 0
    pending = list(region.blocks)
    while pending:
        block = pending.pop()
        for op in block:
            lower = _LOWERINGS.get(op.name)
            if lower is not None:
                pending += _Cut(region, block, op, facts).lower(lower)
                lowered += 1
                break
    return lowered


def _require_lowerable(function: Op, facts: FunctionFacts) -> None:
    loop: Any
    for loop in function.walk():
        if loop.name != "scf.for":
            continue
        require_carried_out(loop, "loops become blocks")
        if facts.integer(loop.step, loop).lo < 1:
            raise fail(
                "STRUCTURE/035",
                "the step of this loop is not known to be positive",
                loop.loc,
                emitter=PASS,
                op_name=loop.name,
                pass_name=PASS,
            )


class _Cut:
    """A block cut at a structured op: what was before it stays, what was behind it is a block of its own."""

    def __init__(self, region: Region, block: Block, op: Any, facts: FunctionFacts) -> None:
        self.region = region
        self.facts = facts
        self.block = block
        self.op = op
        self.loc: Location = op.loc
        self.added: list[Block] = []
        self.behind = Block()
        following = op.next
        while following is not None:
            after = following.next
            following.detach()
            self.behind.append(following)
            following = after

    def lower(self, rule: Callable[[_Cut], None]) -> list[Block]:
        """Apply a rule; the blocks that may still hold structured ops."""
        for result in self.op.results:
            self.behind.add_argument(result.type, result.name)
        substitute_types(self.behind.args, dict(zip(self.op.results, self.behind.args, strict=True)))
        rule(self)
        at = self.region.blocks.index(self.block) + 1
        blocks = [*self.added, self.behind]
        for number, block in enumerate(blocks):
            block.parent = self.region
            self.region.blocks.insert(at + number, block)
        for result, argument in zip(self.op.results, self.behind.args, strict=True):
            result.replace_all_uses(argument)
        self.op.erase()
        return blocks

    def take(self, region: Region) -> Block:
        """Move a region's block here."""
        block = region.entry
        region.blocks.clear()
        self.added.append(block)
        return block

    def jump(self, source: Block, target: Block, values: list[Value]) -> None:
        """End a block with a jump."""
        source.append(cfg.Br(values, [], successors=[target], segments=(len(values),), loc=self.loc))

    def choose(self, source: Block, condition: Value, yes: Block, no: Block) -> None:
        """End a block with a branch."""
        source.append(cfg.CondBr([condition], [], successors=[yes, no], loc=self.loc))

    def end(self, block: Block) -> list[Value]:
        """Take the end of a block away; what it handed on."""
        end = block.last
        assert end is not None
        values = list(end.operands)
        end.erase()
        return values


def _conditional(cut: _Cut) -> None:
    op = cut.op
    sides = [cut.take(region) for region in op.regions]
    for side in sides:
        cut.jump(side, cut.behind, cut.end(side))
    if len(sides) == 1:
        # A block with arguments is reached by jumps only; this one has none.
        sides.append(cut.behind)
    cut.choose(cut.block, op.condition, sides[0], sides[1])


def _switch(cut: _Cut) -> None:
    op = cut.op
    default, *cases = [cut.take(region) for region in op.regions]
    for side in (default, *cases):
        cut.jump(side, cut.behind, cut.end(side))
    here = cut.block
    for number, (key, case) in enumerate(zip(op.case_keys, cases, strict=True)):
        other = default if number == len(cases) - 1 else Block()
        constant = make_constant(op.selector.type, key, cut.loc)
        here.append(constant)
        compare = index_ops.Cmp.build(predicate="eq", lhs=op.selector, rhs=constant.results[0], loc=cut.loc)
        here.append(compare)
        cut.choose(here, compare.results[0], case, other)
        if other is not default:
            cut.added.append(other)
        here = other
    if not cases:
        cut.jump(cut.block, default, [])


def _counted(cut: _Cut) -> None:
    """A header tests the position; the body goes back to it with the next position and the yielded values.

    Where the position behind the last one might not be representable, the body tests before it advances.
    """
    op = cut.op
    step, upper = cut.facts.integer(op.step, op), cut.facts.integer(op.upper, op)
    if step.exact is not None and step.exact > 1 and upper.hi + step.exact - 1 > MAX64:
        _counted_near_the_end(cut, step.exact, upper, cut.facts.integer(op.lower, op).lo)
        return
    leave, header = Block(), _header(op)
    # In text a value is defined in front of its uses.
    cut.added.append(header)
    body = cut.take(op.body)
    cut.jump(cut.block, header, [op.lower, *op.iter_args])
    condition = is_below(Cursor(block=header), header.args[0], op.upper, cut.loc)
    cut.choose(header, condition, body, leave)
    for argument, value in zip(body.args, header.args, strict=True):
        argument.replace_all_uses(value)
    body.args.clear()
    yielded = cut.end(body)
    cut.jump(body, header, [_sum(body, header.args[0], op.step, cut.loc), *yielded])
    cut.jump(leave, cut.behind, list(header.args[1:]))
    cut.added.append(leave)


def _header(loop: Any) -> Block:
    """A block with the arguments of a loop's body."""
    header = Block()
    arguments = loop.body.entry.args
    for argument in arguments:
        header.add_argument(argument.type, argument.name)
    substitute_types(header.args, dict(zip(arguments, header.args, strict=True)))
    return header


def _counted_near_the_end(cut: _Cut, step: int, upper: IntegerFacts, floor: int) -> None:
    op = cut.op
    enter, skip, again, leave = Block(), Block(), Block(), Block()
    body = cut.take(op.body)
    before = Cursor(block=cut.block)
    limit = group_limit(before, op.upper, step, floor, upper, cut.loc)
    some = is_below(before, op.lower, op.upper, cut.loc)
    cut.choose(cut.block, some, enter, skip)
    cut.jump(enter, body, [op.lower, *op.iter_args])
    cut.jump(skip, cut.behind, list(op.iter_args))
    yielded = cut.end(body)
    more = is_below(Cursor(block=body), body.args[0], limit, cut.loc)
    cut.choose(body, more, again, leave)
    cut.jump(again, body, [_sum(again, body.args[0], op.step, cut.loc), *yielded])
    cut.jump(leave, cut.behind, yielded)
    cut.added += [enter, skip, again, leave]


def _sum(block: Block, left: Value, right: Value, loc: Location) -> Value:
    add: Any = lookup("index.add")
    op: Op = add([left, right], [], [left.type], loc=loc)
    block.append(op)
    return op.results[0]


def _while(cut: _Cut) -> None:
    op = cut.op
    before, after = cut.take(op.before), cut.take(op.after)
    cut.jump(cut.block, before, list(op.iter_args))
    condition, *forwarded = cut.end(before)
    leave = Block()
    cut.added.append(leave)
    cut.choose(before, condition, after, leave)
    for argument, value in zip(after.args, forwarded, strict=True):
        argument.replace_all_uses(value)
    after.args.clear()
    cut.jump(after, before, cut.end(after))
    cut.jump(leave, cut.behind, forwarded)


_LOWERINGS: Final[Mapping[str, Callable[[_Cut], None]]] = {
    "scf.if": _conditional,
    "scf.switch": _switch,
    "scf.for": _counted,
    "scf.while": _while,
}
