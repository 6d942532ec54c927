"""Structured Low control flow as blocks and branches (language reference, part 3, section 4.4).

Targets whose code is a graph of blocks lower ``low.scf.*`` before anything else looks at a body. What a loop adds
and compares comes from the target, since only that knows its instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loom.dialects.low import ops as low
from loom.ir.core import Block, Op, Region, Value
from loom.ir.diagnostics import LoomError, fail
from loom.ir.records import record

# Makes an instruction in front of an operation and gives its result; ``None`` when there is none for the registers.
Maker = Callable[[Op, Value, Value], Value | None]


@record
class LoopArithmetic:
    """Instructions of counted loops: ``less`` compares signed numbers into a branch condition, ``add`` adds.

    Both exist for the same registers.
    """

    less: Maker
    add: Maker


def lower_structured(function: low.LowFunction, arithmetic: LoopArithmetic) -> None:
    """Replace the structured operations of a body by branches, in place.

    Raises :class:`~loom.ir.diagnostics.LoomError` for a loop that asks to be unrolled, or one whose registers the
    target cannot count in.
    """
    body = function.body
    pending = list(body.blocks)
    while pending:
        block = pending.pop()
        structured = next((op for op in block if op.name in _RULES), None)
        if structured is not None:
            pending += _RULES[structured.name](body, block, structured, arithmetic)


def _split(body: Region, op: Op) -> Block:
    """Move what follows an operation into a new block behind its own."""
    block = op.parent
    assert block is not None
    after = Block()
    following = op.next
    while following is not None:
        rest = following.next
        following.detach()
        after.append(following)
        following = rest
    _insert(body, block, after)
    return after


def _insert(body: Region, before: Block, new: Block) -> None:
    body.blocks.insert(body.blocks.index(before) + 1, new)
    new.parent = body


def _move(body: Region, before: Block, region: Region) -> Block:
    """Take the only block of a nested region into the body."""
    block = region.blocks.pop()
    _insert(body, before, block)
    return block


def _jump(block: Block, target: Block, values: list[Value], loc: Any) -> None:
    block.append(low.Br(values, [], successors=[target], segments=(len(values),), loc=loc))


def _branch(block: Block, condition: Value, on_true: Block, on_false: Block, loc: Any) -> None:
    block.append(low.CondBr([condition], [], successors=[on_true, on_false], loc=loc))


def _end(block: Block) -> tuple[list[Value], Any]:
    """Take the terminator away; returns its operands and its place."""
    end = block.last
    assert end is not None
    values, loc = list(end.operands), end.loc
    end.erase()
    return values, loc


def _conditional(body: Region, block: Block, op: Any, arithmetic: LoopArithmetic) -> list[Block]:
    after = _split(body, op)
    for result in op.results:
        result.replace_all_uses(after.add_argument(result.type, result.name))
    arms = []
    for region in reversed(op.regions):
        arm = _move(body, block, region)
        values, loc = _end(arm)
        _jump(arm, after, values, loc)
        arms.append(arm)
    condition, loc = op.condition, op.loc
    op.erase()
    # An arm that is left out goes on behind; there are no results then, so no values to pass.
    _branch(block, condition, arms[-1], arms[0] if len(arms) > 1 else after, loc)
    return [after, *arms]


def _counted(body: Region, block: Block, op: Any, arithmetic: LoopArithmetic) -> list[Block]:
    if op.unroll_policy is not None or op.unroll_factor is not None:
        raise _refuse(op, "a loop over registers is not unrolled")
    after = _split(body, op)
    loop = _move(body, block, op.body)
    head = Block()
    _insert(body, block, head)
    loc = op.loc
    arguments = [head.add_argument(a.type, a.name) for a in loop.args]
    for inner, outer in zip(loop.args, arguments, strict=True):
        inner.replace_all_uses(outer)
    loop.args.clear()
    for result, outer in zip(op.results, arguments[1:], strict=True):
        result.replace_all_uses(outer)
    values, end = _end(loop)
    lower, upper, step, initial = op.lower, op.upper, op.step, list(op.iter_args)
    _jump(loop, head, [], end)
    back: Any = loop.last
    following = arithmetic.add(back, arguments[0], step)
    if following is None:
        raise _refuse(op, f"the target cannot count in {arguments[0].type}")
    back.args = [following, *values]
    op.erase()
    _jump(block, head, [lower, *initial], loc)
    # The comparison needs a place in the block: in front of a branch that the real one replaces.
    _jump(head, after, [], loc)
    placeholder: Any = head.last
    condition = arithmetic.less(placeholder, arguments[0], upper)
    placeholder.erase()
    assert condition is not None, "what can be added can be compared"
    _branch(head, condition, loop, after, loc)
    return [after, loop]


def _conditioned(body: Region, block: Block, op: Any, arithmetic: LoopArithmetic) -> list[Block]:
    after = _split(body, op)
    second = _move(body, block, op.after)
    first = _move(body, block, op.before)
    (condition, *forwarded), end = _end(first)
    for value, argument, result in zip(forwarded, second.args, op.results, strict=True):
        argument.replace_all_uses(value)
        result.replace_all_uses(value)
    second.args.clear()
    initial, loc = list(op.iter_args), op.loc
    op.erase()
    _jump(block, first, initial, loc)
    _branch(first, condition, second, after, end)
    values, end = _end(second)
    _jump(second, first, values, end)
    return [after, second, first]


def _refuse(op: Op, why: str) -> LoomError:
    return fail("TARGET/054", f"'{op.name}': {why}", op.loc, emitter="low", subject_kind=op.name)


_RULES: Final[dict[str, Callable[[Region, Block, Any, LoopArithmetic], list[Block]]]] = {
    "low.scf.if": _conditional,
    "low.scf.for": _counted,
    "low.scf.while": _conditioned,
}
