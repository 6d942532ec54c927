"""Control flow: the `scf` and `cfg` dialects, calls and returns (language reference, part 1, sections 8, 12, 13)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from loom.dialects.low import ops as low
from loom.ir.core import Block, Op, Region, Value
from loom.ir.types import ScalarType
from loom_target_x86.select.boundary import crossing_register, incoming, outgoing
from loom_target_x86.select.context import Context
from loom_target_x86.select.rules import selects
from loom_target_x86.select.values import Bundle, Word, flatten, rebuild

# -- conditionals ---------------------------------------------------------------------------------


def _run(c: Context, region: Region | None, targets: Sequence[Value]) -> list[Bundle]:
    """The body of a region under a condition; returns what it yields, ready to be handed on."""
    if region is None:
        return []
    c.select_block(region.entry)
    end = region.entry.last
    return c.carry(end.operands, targets) if end is not None else []


#: A condition (None: always) and a region that yields the results.
_Alternative = tuple[Callable[[], Value | None], Region | None]


def _choices(c: Context, op: Op, results: Sequence[Value], alternatives: Sequence[_Alternative]) -> None:
    """A chain of alternatives, of which the last has no condition."""
    join: Block | None = None
    forms: list[Bundle] = []
    for number, (condition, region) in enumerate(alternatives):
        flag = condition()
        following: Block | None = None
        if flag is not None:
            chosen, following = c.new_block(), c.new_block()
            c.cond_branch(flag, chosen, following)
            c.open_branch()
            c.enter(chosen)
        yielded = _run(c, region, results)
        if join is None:
            forms = yielded
            join = c.new_block(c.types_of(forms))
        c.check_forms(op, forms, yielded)
        c.branch(join, c.flat(yielded))
        if flag is not None:
            c.close()
        # Everything behind the first test runs under a condition as well.
        if number == 0:
            c.open_branch()
        if following is not None:
            c.enter(following)
    c.close()
    assert join is not None
    c.enter(join)
    c.receive(results, forms, join.args)


@selects("scf.if")
def _if(c: Context, op: Any) -> None:
    known = c.facts.exact(op.condition, op)
    if known is not None:
        region = op.then_region if known else op.else_region
        yielded = _run(c, region, op.results)
        c.receive(op.results, yielded, c.flat(yielded))
        return
    _choices(c, op, op.results, [(lambda: c.value(op.condition), op.then_region), (lambda: None, op.else_region)])


@selects("scf.switch")
def _switch(c: Context, op: Any) -> None:
    def test(key: int) -> Callable[[], Value]:
        return lambda: c.compare("eq", c.value(op.selector), key, 64)

    known = c.facts.exact(op.selector, op)
    if known is not None or not op.case_keys:
        cases = dict(zip(op.case_keys, op.case_regions, strict=True))
        yielded = _run(c, cases.get(known, op.default_region), op.results)
        c.receive(op.results, yielded, c.flat(yielded))
        return
    alternatives: list[_Alternative] = [
        (test(key), region) for key, region in zip(op.case_keys, op.case_regions, strict=True)
    ]
    _choices(c, op, op.results, [*alternatives, (lambda: None, op.default_region)])


def _choose(c: Context, op: Op, condition: Value, first: Value, second: Value, result: Value) -> None:
    """Bind a result to one of two values of any kind."""
    type_ = result.type
    if isinstance(type_, ScalarType):
        c.scalar_type(op, type_)
        c.bind(result, c.choose(condition, c.value(first), c.value(second), type_))
        return
    a, b = c.carried(first, type_), c.carried(second, type_)
    c.check_forms(op, [a], [b])
    chosen = [_choose_register(c, condition, x, y) for x, y in zip(flatten(a), flatten(b), strict=True)]
    c.bind(result, rebuild(a, iter(chosen)))


def _choose_register(c: Context, condition: Value, a: Value, b: Value) -> Value:
    if a is b:
        return a
    register_class = str(getattr(a.type, "reg_class", ""))
    if register_class == "x86.xmm":
        return c.fp("select", condition, a, b)
    return c.op(f"select.{register_class.removeprefix('x86.')}", condition, a, b)


@selects("scf.select")
def _select(c: Context, op: Any) -> None:
    if isinstance(op.result.type, ScalarType) and c.is_known(op.result):
        return
    known = c.facts.exact(op.condition, op)
    if known is not None:
        c.bind(op.result, c.bundle(op.true_value if known else op.false_value))
        return
    _choose(c, op, c.value(op.condition), op.true_value, op.false_value, op.result)


@selects("scf.lookup")
def _lookup(c: Context, op: Any) -> None:
    columns = len(op.results)
    rows = [op.values[start : start + columns] for start in range(0, len(op.values), columns)]
    known = c.facts.exact(op.selector, op)
    selector = c.word(op.selector)
    for column, result in enumerate(op.results):
        if isinstance(result.type, ScalarType) and c.is_known(result):
            continue
        if known is not None or isinstance(selector, int):
            row = dict(zip(op.case_keys, rows, strict=False)).get(known, rows[-1])
            c.bind(result, c.bundle(row[column]))
            continue
        form = c.carried(rows[-1][column], result.type)
        registers = flatten(form)
        for key, row in zip(op.case_keys, rows, strict=False):
            other = c.carried(row[column], result.type)
            c.check_forms(op, [form], [other])
            hit = c.compare("eq", selector, key, 64)
            registers = [_choose_register(c, hit, a, b) for a, b in zip(flatten(other), registers, strict=True)]
        c.bind(result, rebuild(form, iter(registers)))


@selects("scf.schedule.fence")
def _fence(c: Context, op: Op) -> None:
    c.builder.fence()


# -- loops ----------------------------------------------------------------------------------------


@selects("scf.for")
def _for(c: Context, op: Any) -> None:
    if c.facts.integer(op.step, op).lo <= 0:
        raise c.refuse(
            op,
            "STRUCTURE/035",
            "the step of 'scf.for' must be positive, which nothing here proves",
            hint="state it: 'index.assume %step [gt(%step, 0)]'",
        )
    lower, upper, step = c.word(op.lower), c.word(op.upper), c.word(op.step)
    inits = c.carry(op.iter_args, op.results)
    runs = c.facts.decide("slt", op.lower, op.upper, op)
    if runs is False:
        c.receive(op.results, inits, c.flat(inits))
        return
    leave = c.new_block(c.types_of(inits))
    skip: Block | None = None
    if runs is None:
        front, skip = c.new_block(), c.new_block()
        c.cond_branch(c.compare("slt", lower, upper, 64), front, skip)
        c.open_branch()
        c.enter(front)

    def body(position: Value, carried: Sequence[Value]) -> list[Value]:
        block = op.body.entry
        c.bind(block.args[0], position)
        c.receive(block.args[1:], inits, carried)
        c.select_block(block)
        yielded = c.carry(block.last.operands, block.args[1:])
        c.check_forms(op, inits, yielded)
        return c.flat(yielded)

    span = c.facts.integer(op.upper, op).hi + c.facts.integer(op.step, op).hi
    results = counted_loop(c, lower, upper, step, c.flat(inits), body, wraps=span >= 1 << 63)
    c.branch(leave, results)
    if skip is not None:
        c.close()
        c.enter(skip)
        c.branch(leave, c.flat(inits))
    c.enter(leave)
    c.receive(op.results, inits, leave.args)


def counted_loop(
    c: Context,
    lower: Word,
    upper: Word,
    step: Word,
    inits: Sequence[Value],
    body: Callable[[Value, Sequence[Value]], list[Value]],
    *,
    wraps: bool = False,
) -> list[Value]:
    """A loop that runs at least once, with its test at the end; returns the carried values behind it.

    `body` is given the position and the carried values and returns the next ones. With `wraps` the position behind
    the last one may not be representable.
    """
    start = c.register(lower, 64)
    types = [start.type, *(value.type for value in inits)]
    again, back, done = c.new_block(types), c.new_block(), c.new_block()  # type: ignore[arg-type]  # registers
    front = c.block
    c.branch(again, [start, *inits])
    c.open_loop(front)
    c.enter(again)
    position, *carried = again.args
    following = body(position, carried)
    if wraps:
        # What is left is positive, and the loop goes on if it exceeds the step.
        more = c.compare("ult", step, c.arith("sub", 64, upper, position), 64)
        next_position = c.register(c.add(position, step), 64)
    else:
        next_position = c.register(c.add(position, step), 64)
        more = c.compare("slt", next_position, upper, 64)
    c.cond_branch(more, back, done)
    c.enter(back)
    c.branch(again, [next_position, *following])
    c.close()
    c.enter(done)
    return following


@selects("scf.while")
def _while(c: Context, op: Any) -> None:
    inits = c.carry(op.iter_args, op.before.entry.args)
    again, more, leave = c.new_block(c.types_of(inits)), c.new_block(), c.new_block()
    front = c.block
    c.branch(again, c.flat(inits))
    c.open_loop(front)
    c.enter(again)
    c.receive(op.before.entry.args, inits, again.args)
    c.select_block(op.before.entry)
    condition, *forwarded = op.before.entry.last.operands
    bundles = [c.bundle(value) for value in forwarded]
    c.cond_branch(c.value(condition), more, leave)
    c.open_branch()
    c.enter(more)
    for argument, bundle in zip(op.after.entry.args, bundles, strict=True):
        c.bind(argument, bundle)
    c.select_block(op.after.entry)
    following = c.carry(op.after.entry.last.operands, op.before.entry.args)
    c.check_forms(op, inits, following)
    c.branch(again, c.flat(following))
    c.close()
    c.close()
    c.enter(leave)
    for result, bundle in zip(op.results, bundles, strict=True):
        c.bind(result, bundle)


# -- branches -------------------------------------------------------------------------------------


def select_body(c: Context, region: Region) -> None:
    """All blocks of a function or kernel body, the entry in the current block.

    Blocks come in an order in which definitions precede uses.
    """
    if len(region.blocks) == 1:
        c.select_block(region.entry)
        _terminate(c, region.entry)
        return
    order = _reverse_postorder(region)
    blocks: dict[Block, Block] = {block: c.new_block() for block in order[1:]}
    forms: dict[Block, list[Bundle]] = {}
    for block in order:
        if block is not region.entry:
            # A block that nothing seen so far branches to has no arguments to receive.
            c.enter(blocks[block])
            c.receive(block.args, forms.get(block, []), blocks[block].args)
        c.open_branch()
        c.select_block(block)
        _leave(c, block, blocks, forms)
        c.close()


def _reverse_postorder(region: Region) -> list[Block]:
    order: list[Block] = []
    seen = {region.entry}
    stack = [(region.entry, iter(_successors(region.entry)))]
    while stack:
        block, rest = stack[-1]
        following = next(rest, None)
        if following is None:
            order.append(block)
            stack.pop()
        elif following not in seen:
            seen.add(following)
            stack.append((following, iter(_successors(following))))
    return order[::-1]


def _successors(block: Block) -> list[Block]:
    return list(reversed(block.last.successors)) if block.last is not None else []


def _leave(c: Context, block: Block, blocks: dict[Block, Block], forms: dict[Block, list[Bundle]]) -> None:
    op: Any = block.last
    c.builder.loc = op.loc
    if op.name == "cfg.br":
        bundles = c.carry(op.args, op.dest.args)
        if op.dest not in forms:
            forms[op.dest] = bundles
            for type_ in c.types_of(bundles):
                blocks[op.dest].add_argument(type_)
            c.adopt(blocks[op.dest].args)
        c.check_forms(op, forms[op.dest], bundles)
        c.branch(blocks[op.dest], c.flat(bundles))
    elif op.name == "cfg.cond_br":
        known = c.facts.exact(op.condition, op)
        if known is not None or op.true_dest is op.false_dest:
            c.branch(blocks[op.false_dest if known == 0 else op.true_dest])
        else:
            c.cond_branch(c.value(op.condition), blocks[op.true_dest], blocks[op.false_dest])
    else:
        _terminate(c, block)


def _terminate(c: Context, block: Block) -> None:
    op = block.last
    assert op is not None
    c.select(op)


# -- calls ----------------------------------------------------------------------------------------


@selects("func.return")
def _return(c: Context, op: Any) -> None:
    c.builder.ret([outgoing(c, op, value) for value in op.values])


@selects("func.call")
def _call(c: Context, op: Any) -> None:
    args = [outgoing(c, op, value) for value in op.args]
    results = [crossing_register(c, op, result.type) for result in op.results]
    call = c.append(low.Call(args, [None, None, op.callee, None], results, segments=(len(args),)))
    for result, register in zip(op.results, call.results, strict=True):
        incoming(c, op, result, register)
