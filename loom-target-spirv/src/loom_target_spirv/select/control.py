"""Selection of the `scf` dialect: structured control flow stays structured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from loom.ir.core import Block, Op, Region
from loom_target_spirv.module import Value
from loom_target_spirv.select.context import U32_MAX, Context
from loom_target_spirv.select.rules import RegionRule, Rule
from loom_target_spirv.select.values import Bundle
from loom_target_spirv.structured import CountedLoop, Loop, Selection, Switch


def _yielded(context: Context, region: Region, op: Op, like: Sequence[Bundle] | None = None) -> list[Bundle]:
    """What a region hands to the results of `op`, checked against what another region hands over."""
    end = region.entry.last
    assert end is not None
    bundles = context.carried(end.operands, op.results)
    if like is not None:
        context.check_forms(end, like, bundles)
    return bundles


def _if(context: Context, op: Op) -> Iterator[Block]:
    selection = Selection(context.function, context.scalar(op.operands[0]))
    yield op.regions[0].entry
    if len(op.regions) == 1:
        selection.end()
        return
    first = _yielded(context, op.regions[0], op)
    selection.otherwise(context.flat(first))
    yield op.regions[1].entry
    second = _yielded(context, op.regions[1], op, first)
    context.bind_carried(op.results, first, selection.end(context.flat(second)))


def _for(context: Context, op: Op) -> Iterator[Block]:
    block = op.regions[0].entry
    bounds = op.operands[:3]
    narrow = all(context.width(value) == 32 for value in (*bounds, block.args[0]))
    lower, upper, step = (context.address(value, 32 if narrow else 64) for value in bounds)
    initial = context.carried(op.group(3), block.args[1:])
    loop = CountedLoop(context.function, lower, upper, step, context.flat(initial), signed=not narrow)
    context.bind(block.args[0], loop.induction)
    bundles = context.bind_carried(block.args[1:], initial, loop.carried)
    yield block
    end = block.last
    assert end is not None
    following = context.carried(end.operands, block.args[1:])
    context.check_forms(end, initial, following)
    loop.end(context.flat(following))
    for result, bundle in zip(op.results, bundles, strict=True):
        context.bind(result, bundle)


def _while(context: Context, op: Op) -> Iterator[Block]:
    before, after = op.regions[0].entry, op.regions[1].entry
    initial = context.carried(op.operands, before.args)
    loop = Loop(context.function, context.flat(initial))
    context.bind_carried(before.args, initial, loop.carried)
    yield before
    condition = before.last
    assert condition is not None
    # Values of the test stay usable in the body and after the loop.
    forwarded = [context.value(value) for value in condition.operands[1:]]
    loop.body(context.scalar(condition.operands[0]))
    for argument, bundle in zip(after.args, forwarded, strict=True):
        context.bind(argument, bundle)
    yield after
    end = after.last
    assert end is not None
    following = context.carried(end.operands, before.args)
    context.check_forms(end, initial, following)
    loop.end(context.flat(following))
    for result, bundle in zip(op.results, forwarded, strict=True):
        context.bind(result, bundle)


def _case_keys(op: Op) -> tuple[int, ...]:
    keys = op.attribute("case_keys")
    assert isinstance(keys, tuple)
    return keys


def _selector(context: Context, op: Op) -> Value:
    """The selector, in 32 bits when it and every key fits."""
    narrow = context.width(op.operands[0]) == 32 and all(0 <= key <= U32_MAX for key in _case_keys(op))
    return context.address(op.operands[0], 32 if narrow else 64)


def _switch(context: Context, op: Op) -> Iterator[Block]:
    default, *cases = op.regions
    switch = Switch(context.function, _selector(context, op), _case_keys(op))
    first: list[Bundle] | None = None
    values: list[Bundle] = []
    for region in (*cases, default):
        switch.next_arm(context.flat(values))
        yield region.entry
        values = _yielded(context, region, op, first)
        first = first or values
    context.bind_carried(op.results, values, switch.end(context.flat(values)))


def _chosen(context: Context, condition: Value, a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
    return [context.integers.select(condition, x, y) for x, y in zip(a, b, strict=True)]


def _select(context: Context, op: Op) -> None:
    first, second = (context.carried([value], op.results) for value in op.operands[1:])
    context.check_forms(op, first, second)
    condition = context.scalar(op.operands[0])
    chosen = _chosen(context, condition, context.flat(first), context.flat(second))
    context.bind_carried(op.results, first, chosen)


def _lookup(context: Context, op: Op) -> None:
    columns, table = len(op.results), op.group(1)
    rows = [context.carried(table[start : start + columns], op.results) for start in range(0, len(table), columns)]
    selector = _selector(context, op)
    default = rows[-1]
    chosen = context.flat(default)
    for key, row in zip(_case_keys(op), rows, strict=False):
        context.check_forms(op, default, row)
        hit = context.integers.compare("OpIEqual", selector, context.constant(selector.type, key))
        chosen = _chosen(context, hit, context.flat(row), chosen)
    context.bind_carried(op.results, default, chosen)


def _nothing(context: Context, op: Op) -> None:
    """Compiling for Vulkan passes through the driver's compiler, where source order means nothing."""


REGION_RULES: Final[dict[str, RegionRule]] = {
    "scf.if": _if,
    "scf.for": _for,
    "scf.while": _while,
    "scf.switch": _switch,
}
"""Operations with regions."""

CONTROL_RULES: Final[dict[str, Rule]] = {
    "scf.select": _select,
    "scf.lookup": _lookup,
    "scf.schedule.fence": _nothing,
}
"""Operations of `scf` without regions."""
