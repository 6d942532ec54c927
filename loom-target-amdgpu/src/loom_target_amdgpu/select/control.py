"""Selection of structured control flow (``scf``) and of ``cfg`` branches.

A uniform condition becomes a scalar branch. A condition per lane narrows the execution mask: the wave walks through
every arm in which some lane is active, and the mask is restored behind it. Values that such an arm yields are
chosen with the mask while all lanes of the join are active, so they are right wherever registers end up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

from loom.ir.core import Block, Op, Region, Value
from loom.ir.types import I1, RegType
from loom_target_amdgpu.select import merge
from loom_target_amdgpu.select.compare import compare_words
from loom_target_amdgpu.select.index import compare
from loom_target_amdgpu.select.layouts import choose_layout
from loom_target_amdgpu.select.merge import Shape, rebuild, registers_of, shape_for, types_of
from loom_target_amdgpu.select.scalar import pick
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import (
    S2,
    Condition,
    Layout,
    Mask,
    Number,
    Root,
    ScalarTest,
    Selected,
    Vector,
    View,
    Word,
)

Arm = Callable[[], list[Selected]]


# -- pieces --------------------------------------------------------------------------------------------------------


def _finish(s: Selector, at: Block, target: Block, args: Sequence[Value]) -> None:
    """End a block with a jump."""
    s.emit.builder.block = at
    s.emit.builder.branch(target, args)


def _yielded(s: Selector, region: Region) -> list[Selected]:
    """Select a region's block; the values its terminator hands on."""
    end = s.block(region.entry)
    assert end is not None
    return [s.get(v) for v in end.operands]


@contextmanager
def _some_lanes(s: Selector) -> Iterator[None]:
    """Code that only some lanes of the wave execute."""
    s.divergent += 1
    try:
        yield
    finally:
        s.divergent -= 1


def _start(s: Selector, block: Block) -> None:
    s.emit.builder.enter(block)


def _save_exec(s: Selector, mask: Value) -> tuple[Value, Value]:
    saved, active = s.emit.packet("s_and_saveexec_b64", mask)
    return saved, active


def _restore(s: Selector, saved: Value) -> None:
    s.emit.packet("s_mov_b64_exec", saved)


# -- if ------------------------------------------------------------------------------------------------------------


def _if(s: Selector, op: Any) -> None:
    condition = s.condition(op.condition)
    else_region = op.else_region
    arms: list[Arm] = [lambda: _yielded(s, op.then_region)]
    if else_region is not None and (op.results or len(else_region.entry) > 1):
        arms.append(lambda: _yielded(s, else_region))
    values = conditional(s, op, condition, arms, op.results)
    for result, value in zip(op.results, values, strict=True):
        s.set(result, value)


def conditional(s: Selector, op: Op, condition: Condition, arms: list[Arm], results: Sequence[Value]) -> list[Selected]:
    """Run the first arm where the condition holds, the second (if any) elsewhere; the merged results."""
    if isinstance(condition, bool):
        if condition:
            return arms[0]()
        return arms[1]() if len(arms) > 1 else []
    if isinstance(condition, ScalarTest):
        return _uniform(s, op, condition, arms, results)
    if s.facts.is_uniform(op.operands[0]) and op.name == "scf.if":
        # All lanes agree, so some active lane decides for all.
        any_active = s.emit.packet("s_and_b64_exec", condition.value)[1]
        return _branch(s, op, any_active, arms, results)
    if len(arms) == 1 or not results:
        return _divergent_plain(s, condition, arms)
    return _divergent_merge(s, op, condition, arms, results)


def _uniform(s: Selector, op: Op, condition: ScalarTest, arms: list[Arm], results: Sequence[Value]) -> list[Selected]:
    return _branch(s, op, s.arith.test(condition), arms, results)


def _branch(s: Selector, op: Op, scc: Value, arms: list[Arm], results: Sequence[Value]) -> list[Selected]:
    builder = s.emit.builder
    entry = builder.block
    blocks = [builder.new_block() for _ in arms]
    join = builder.new_block()
    builder.cond_branch(scc, blocks[0], blocks[1] if len(arms) > 1 else join)
    ends: list[tuple[Block, list[Selected]]] = []
    for arm, block in zip(arms, blocks, strict=True):
        s.emit.enter_scope(False, entry)
        _start(s, block)
        values = arm()
        ends.append((builder.block, values))
        s.emit.leave_scope()
    shapes = [shape_for(s, r, [values[i] for _, values in ends], False, op) for i, r in enumerate(results)]
    for block, values in ends:
        builder.block = block
        s.emit.enter_scope(False, block)
        args = [r for value, shape in zip(values, shapes, strict=True) for r in registers_of(s, value, shape)]
        s.emit.leave_scope()
        builder.branch(join, args)
    return _join(s, join, shapes)


def _join(s: Selector, join: Block, shapes: list[Shape]) -> list[Selected]:
    """Enter a join block whose arguments carry values of the given shapes."""
    for shape in shapes:
        for type_ in types_of(shape):
            join.add_argument(type_)
    _start(s, join)
    registers = [s.emit.define(arg) for arg in join.args]
    return [rebuild(s, shape, registers) for shape in shapes]


def _divergent_plain(s: Selector, condition: Mask, arms: list[Arm]) -> list[Selected]:
    """Arms without results: ``exec &= mask``, skip an arm without active lanes, restore behind it."""
    builder = s.emit.builder
    entry = builder.block
    saved, active = _save_exec(s, condition.value)
    then, join = builder.new_block(), builder.new_block()
    builder.cond_branch(active, then, join)
    s.emit.enter_scope(False, entry)
    _start(s, then)
    with _some_lanes(s):
        arms[0]()
    builder.branch(join)
    s.emit.leave_scope()
    _start(s, join)
    if len(arms) > 1:
        active = s.emit.op("s_xor_b64_exec", saved)
        other, last = builder.new_block(), builder.new_block()
        builder.cond_branch(active, other, last)
        s.emit.enter_scope(False, join)
        _start(s, other)
        with _some_lanes(s):
            arms[1]()
        builder.branch(last)
        s.emit.leave_scope()
        _start(s, last)
    _restore(s, saved)
    return []


def _divergent_merge(s: Selector, op: Op, condition: Mask, arms: list[Arm], results: Sequence[Value]) -> list[Selected]:
    """Two arms with results. Lanes of the first arm keep their values in registers while the second runs; behind
    it every lane chooses with the mask."""
    emit, builder = s.emit, s.emit.builder
    entry = builder.block
    mask = condition.value
    saved, active = _save_exec(s, mask)
    then, skip, middle = builder.new_block(), builder.new_block(), builder.new_block()
    builder.cond_branch(active, then, skip)
    emit.enter_scope(False, entry)
    _start(s, then)
    with _some_lanes(s):
        first = arms[0]()
    then_end = builder.block
    emit.leave_scope()

    _start(s, skip)
    skip_end = builder.block
    _start(s, middle)
    other_active = emit.op("s_xor_b64_exec", saved)
    other, none = builder.new_block(), builder.new_block()
    builder.cond_branch(other_active, other, none)
    emit.enter_scope(False, middle)
    _start(s, other)
    with _some_lanes(s):
        second = arms[1]()
    other_end = builder.block
    emit.leave_scope()

    shapes = [shape_for(s, r, [a, b], True, op) for r, a, b in zip(results, first, second, strict=True)]
    types = [t for shape in shapes for t in types_of(shape)]
    builder.block = then_end
    emit.enter_scope(False, then_end)
    builder.branch(
        middle, [r for value, shape in zip(first, shapes, strict=True) for r in registers_of(s, value, shape)]
    )
    emit.leave_scope()
    builder.block = skip_end
    emit.enter_scope(False, skip_end)
    builder.branch(middle, [_anything(s, t) for t in types])
    emit.leave_scope()
    kept = [emit.define(middle.add_argument(t)) for t in types]

    join = builder.new_block()
    builder.block = other_end
    emit.enter_scope(False, other_end)
    mine = [r for value, shape in zip(second, shapes, strict=True) for r in registers_of(s, value, shape)]
    _restore(s, saved)
    chosen = [_choose(s, mask, a, b) for a, b in zip(kept, mine, strict=True)]
    builder.branch(join, chosen)
    emit.leave_scope()
    _start(s, none)
    _restore(s, saved)
    builder.branch(join, kept)
    return _join(s, join, shapes)


def _anything(s: Selector, type_: RegType) -> Value:
    """A register that no active lane reads."""
    scalar = type_.reg_class == "amdgpu.sgpr"
    return s.emit.constant(0, scalar, type_.count)


def _choose(s: Selector, mask: Value, a: Value, b: Value) -> Value:
    """a in the lanes of the mask, b in the others."""
    emit = s.emit
    if a.type == S2:
        return emit.op("s_or_b64", emit.op("s_and_b64", a, mask), emit.op("s_andn2_b64", b, mask))
    return emit.op("v_cndmask_b32", b, a, mask)


# -- switch, select, lookup ------------------------------------------------------------------------------------------


def _switch(s: Selector, op: Any) -> None:
    exact = s.facts.exact(op.selector)
    keys = list(op.case_keys)
    if exact is not None:
        region = op.case_regions[keys.index(exact)] if exact in keys else op.default_region
        values = _yielded(s, region)
    else:
        values = _cases(s, op, 0)
    for result, value in zip(op.results, values, strict=True):
        s.set(result, value)


def _cases(s: Selector, op: Any, position: int) -> list[Selected]:
    if position == len(op.case_keys):
        return _yielded(s, op.default_region)
    matches = _equals(s, op.selector, op.case_keys[position])
    return conditional(
        s,
        op,
        matches,
        [lambda: _yielded(s, op.case_regions[position]), lambda: _cases(s, op, position + 1)],
        op.results,
    )


def _equals(s: Selector, selector: Value, key: int) -> Condition:
    facts = s.facts.integer(selector)
    if not facts.lo <= key <= facts.hi:
        return False
    words = s.number(selector).words
    return compare_words(s, "eq", words, tuple(key >> 32 * i & 0xFFFFFFFF for i in range(len(words))))


def _select(s: Selector, op: Any) -> None:
    s.set(op.result, choose(s, op, s.condition(op.condition), s.get(op.true_value), s.get(op.false_value), op.result))


def choose(s: Selector, op: Op, condition: Condition, a: Selected, b: Selected, result: Value) -> Selected:
    """A select of two whole values."""
    if isinstance(condition, bool):
        return a if condition else b
    if isinstance(a, Vector) and isinstance(b, Vector):
        chosen = [choose(s, op, condition, x, y, result) for x, y in zip(a.elements, b.elements, strict=True)]
        return Vector(tuple(e for e in chosen if isinstance(e, Number | bool | ScalarTest | Mask)))
    if isinstance(a, bool | ScalarTest | Mask) and isinstance(b, bool | ScalarTest | Mask):
        return _choose_condition(s, condition, a, b)
    if isinstance(a, Number) and isinstance(b, Number):
        count = max(len(a.words), len(b.words))
        x, y = (n.words if len(n.words) == count else s.extend(n) for n in (a, b))
        words: tuple[Word, ...] = pick(s, condition, x, y)
        if result.type.text in ("index", "offset"):
            return s.address(result, words, a.signed or b.signed)
        return Number(words)
    if isinstance(a, Layout) and isinstance(b, Layout):
        return choose_layout(s, op, condition, a, b)
    if isinstance(a, Root | View) and shape_for(s, result, [a, b], False, op).kind == "fixed":
        return a
    raise s.unsupported(op, f"a choice between values of type {result.type} is not supported on {s.processor.name}")


def _choose_condition(s: Selector, condition: Condition, a: Condition, b: Condition) -> Condition:
    from loom_target_amdgpu.select.scalar import combine

    return combine(s, "or", combine(s, "and", condition, a), combine(s, "and", s.arith.negate(condition), b))


def _lookup(s: Selector, op: Any) -> None:
    columns = len(op.results)
    keys = list(op.case_keys)
    rows = [op.values[i * columns : (i + 1) * columns] for i in range(len(keys) + 1)]
    current = [s.get(v) for v in rows[-1]]
    for key, row in zip(reversed(keys), reversed(rows[:-1]), strict=True):
        matches = _equals(s, op.selector, key)
        current = [choose(s, op, matches, s.get(v), c, r) for v, c, r in zip(row, current, op.results, strict=True)]
    for result, value in zip(op.results, current, strict=True):
        s.set(result, value)


# -- for -------------------------------------------------------------------------------------------------------------


def _for(s: Selector, op: Any) -> None:
    bounds = [s.number(v) for v in (op.lower, op.upper, op.step)]
    step = s.facts.integer(op.step)
    if step.lo <= 0:
        raise s.unsupported(op, "the step of the loop is not known to be positive")
    words = [
        tuple(s.uniform_word(w, v) for w in n.words) for n, v in zip(bounds, (op.lower, op.upper, op.step), strict=True)
    ]
    numbers = [Number(w, n.signed) for w, n in zip(words, bounds, strict=True)]
    if all(n.scalar for n in numbers):
        _scalar_loop(s, op, numbers)
    else:
        _lane_loop(s, op, numbers)


def _counter_shape(s: Selector, op: Any) -> tuple[int, bool]:
    """Words of the induction variable, which also holds the first value past the end."""
    lower, upper, step = (s.facts.integer(v) for v in (op.lower, op.upper, op.step))
    from loom.facts.integers import IntegerFacts

    highest = max(lower.hi, upper.hi - 1 + step.hi)
    if highest >= 1 << 62:
        return 2, True
    return s.shape_of(IntegerFacts(min(lower.lo, upper.lo), highest))


def _fit(s: Selector, number: Number, count: int) -> tuple[Word, ...]:
    if count == 1:
        return number.words[:1]
    return s.extend(number)


def _below(s: Selector, a: tuple[Word, ...], b: tuple[Word, ...], signed: bool) -> Condition:
    return compare_words(s, "slt" if signed else "ult", a, b)


def _advance(s: Selector, counter: tuple[Word, ...], step: tuple[Word, ...]) -> tuple[Word, ...]:
    if len(counter) == 1:
        return (s.arith.binary("add", counter[0], step[0]),)
    return s.arith.add64((counter[0], counter[1]), (step[0], step[1]))


def _scalar_loop(s: Selector, op: Any, bounds: list[Number]) -> None:
    """Uniform bounds: a scalar counter, tested at the bottom; guarded unless facts prove one iteration."""
    emit, builder = s.emit, s.emit.builder
    count, signed = _counter_shape(s, op)
    lower, upper, step = (_fit(s, n, count) for n in bounds)
    inits = [s.get(v) for v in op.iter_args]
    carried = op.body.entry.args[1:]
    runs = s.facts.decide("slt", op.lower, op.upper, op)
    if runs is False:
        for result, value in zip(op.results, inits, strict=True):
            s.set(result, value)
        return
    if runs is None:
        guard = _below(s, lower, upper, signed)
        if isinstance(guard, Mask):
            scc = emit.packet("s_and_b64_exec", guard.value)[1]
        else:
            assert isinstance(guard, ScalarTest)
            scc = s.arith.test(guard)
        entry = builder.block
        skip, enter = builder.new_block(), builder.new_block()
        builder.cond_branch(scc, enter, skip)
        emit.enter_scope(False, entry)
        _start(s, enter)
    # Loop-carried values settle in vector registers unless they are addresses or conditions known to stay uniform.
    shapes = _loop_shapes(s, op, inits, carried, False)
    start = [emit.register(w, True) for w in lower]
    args = [r for value, shape in zip(inits, shapes, strict=True) for r in registers_of(s, value, shape)]
    types = [RegType("amdgpu.sgpr")] * count + [t for shape in shapes for t in types_of(shape)]
    body = builder.new_block(types)
    preheader = builder.block
    builder.branch(body, [*start, *args])
    emit.enter_scope(True, preheader)
    _start(s, body)
    registers = [emit.define(arg) for arg in body.args]
    counter = tuple(registers[:count])
    _set_counter(s, op, counter, signed)
    rest = registers[count:]
    for value, shape in zip(carried, shapes, strict=True):
        s.set(value, rebuild(s, shape, rest))
    yielded = _yielded(s, op.body)
    following = [r for value, shape in zip(yielded, shapes, strict=True) for r in registers_of(s, value, shape)]
    advanced = tuple(emit.register(w, True) for w in _advance(s, counter, step))
    again = _below(s, advanced, upper, signed)
    if isinstance(again, Mask):
        scc = emit.packet("s_and_b64_exec", again.value)[1]
    else:
        assert isinstance(again, ScalarTest)
        scc = s.arith.test(again)
    latch, done = builder.new_block(), builder.new_block()
    builder.cond_branch(scc, latch, done)
    _start(s, latch)
    builder.branch(body, [*advanced, *following])
    emit.leave_scope()
    _start(s, done)
    if runs is None:
        emit.leave_scope()
        join = builder.new_block()
        builder.branch(join, following)
        _start(s, skip)
        emit.enter_scope(False, skip)
        builder.branch(
            join, [r for value, shape in zip(inits, shapes, strict=True) for r in registers_of(s, value, shape)]
        )
        emit.leave_scope()
        results = _join(s, join, shapes)
    else:
        # The last iteration's values dominate the exit, but belong to the enclosing scope now.
        registers = [emit.define(r) for r in following]
        results = [rebuild(s, shape, registers) for shape in shapes]
    for result, value in zip(op.results, results, strict=True):
        s.set(result, value)


def _loop_shapes(s: Selector, op: Op, inits: list[Selected], carried: Sequence[Value], divergent: bool) -> list[Shape]:
    """Shapes of carried values, before the body has been seen."""
    shapes = []
    for init, value in zip(inits, carried, strict=True):
        uniform = not divergent and s.facts.is_uniform(value) and _stays_scalar(value)
        shapes.append(shape_for(s, value, [init], not uniform, op, fixed_candidates=False))
    return shapes


def _stays_scalar(value: Value) -> bool:
    """Integers that scalar instructions can keep computing; floats live in vector registers."""
    return value.type.text in ("index", "offset", "i8", "i16", "i32", "i64", "i1")


def _set_counter(s: Selector, op: Any, counter: tuple[Word, ...], signed: bool) -> None:
    variable = op.body.entry.args[0]
    s.set(variable, s.address(variable, counter, signed))


def _lane_loop(s: Selector, op: Any, bounds: list[Number]) -> None:
    """Trip counts that differ between lanes: the mask keeps the lanes that still iterate. Carried registers are
    written under the mask only, so each lane keeps the values of its own last iteration."""
    emit, builder = s.emit, s.emit.builder
    count, signed = _counter_shape(s, op)
    lower, upper, step = (_fit(s, n, count) for n in bounds)
    scalar_counter = all(n.scalar for n in (bounds[0], bounds[2]))
    inits = [s.get(v) for v in op.iter_args]
    carried = op.body.entry.args[1:]
    shapes = _loop_shapes(s, op, inits, carried, True)
    start = [emit.register(w, scalar_counter) for w in lower]
    args = [r for value, shape in zip(inits, shapes, strict=True) for r in registers_of(s, value, shape)]
    counter_type = RegType("amdgpu.sgpr") if scalar_counter else RegType("amdgpu.vgpr")
    head = builder.new_block([counter_type] * count + [t for shape in shapes for t in types_of(shape)])
    saved = emit.op("s_mov_b64_exec_read")
    preheader = builder.block
    builder.branch(head, [*start, *args])
    emit.enter_scope(True, preheader)
    _start(s, head)
    registers = [emit.define(arg) for arg in head.args]
    kept = registers[count:]
    counter = tuple(registers[:count])
    inside = _below(s, counter, upper, signed)
    assert isinstance(inside, Mask)
    _, active = _save_exec(s, inside.value)
    body, done = builder.new_block(), builder.new_block()
    builder.cond_branch(active, body, done)
    _start(s, body)
    _set_counter(s, op, counter, signed)
    rest = list(kept)
    for value, shape in zip(carried, shapes, strict=True):
        s.set(value, rebuild(s, shape, rest))
    with _some_lanes(s):
        yielded = _yielded(s, op.body)
    following = [r for value, shape in zip(yielded, shapes, strict=True) for r in registers_of(s, value, shape)]
    following = [_keep_inactive(s, old, new) for old, new in zip(kept, following, strict=True)]
    advanced = [emit.register(w, scalar_counter) for w in _advance(s, counter, step)]
    builder.branch(head, [*advanced, *following])
    emit.leave_scope()
    _start(s, done)
    _restore(s, saved)
    registers = [emit.define(r) for r in kept]
    for result, shape in zip(op.results, shapes, strict=True):
        s.set(result, rebuild(s, shape, registers))


def _keep_inactive(s: Selector, old: Value, new: Value) -> Value:
    """A lane mask is one register for all lanes: lanes that have left keep their bit."""
    if old.type != S2:
        return new
    emit = s.emit
    active = emit.op("s_mov_b64_exec_read")
    return emit.op("s_or_b64", emit.op("s_andn2_b64", old, active), emit.op("s_and_b64", new, active))


# -- while -----------------------------------------------------------------------------------------------------------


def _while(s: Selector, op: Any) -> None:
    emit, builder = s.emit, s.emit.builder
    inits = [s.get(v) for v in op.iter_args]
    header_args = op.before.entry.args
    condition_value = op.before.entry.last.operands[0]
    divergent = not s.facts.is_uniform(condition_value)
    shapes = _loop_shapes(s, op, inits, header_args, divergent)
    args = [r for value, shape in zip(inits, shapes, strict=True) for r in registers_of(s, value, shape)]
    head = builder.new_block([t for shape in shapes for t in types_of(shape)])
    saved = emit.op("s_mov_b64_exec_read") if divergent else None
    preheader = builder.block
    builder.branch(head, args)
    emit.enter_scope(True, preheader)
    _start(s, head)
    registers = [emit.define(arg) for arg in head.args]
    old = list(registers)
    for value, shape in zip(header_args, shapes, strict=True):
        s.set(value, rebuild(s, shape, registers))
    with _some_lanes(s) if divergent else nullcontext():
        end = s.block(op.before.entry)
    assert end is not None
    condition = s.condition(end.operands[0])
    forwarded = [s.get(v) for v in end.operands[1:]]
    out_shapes = [shape_for(s, r, [v], divergent, op) for r, v in zip(op.results, forwarded, strict=True)]
    leaving = [r for value, shape in zip(forwarded, out_shapes, strict=True) for r in registers_of(s, value, shape)]
    if divergent:
        leaving = [_own_copy(s, r) for r in leaving]
    body, done = builder.new_block(), builder.new_block()
    builder.cond_branch(_loop_test(s, condition, divergent), body, done)
    _start(s, body)
    for value, selected in zip(op.after.entry.args, forwarded, strict=True):
        s.set(value, selected)
    with _some_lanes(s) if divergent else nullcontext():
        yielded = _yielded(s, op.after)
    following = [r for value, shape in zip(yielded, shapes, strict=True) for r in registers_of(s, value, shape)]
    if divergent:
        following = [_keep_inactive(s, a, b) for a, b in zip(old, following, strict=True)]
    builder.branch(head, following)
    emit.leave_scope()
    _start(s, done)
    if saved is not None:
        _restore(s, saved)
    registers = [emit.define(r) for r in leaving]
    for result, shape in zip(op.results, out_shapes, strict=True):
        s.set(result, rebuild(s, shape, registers))


def _own_copy(s: Selector, register: Value) -> Value:
    """A copy that is written in every evaluation of the condition, by the lanes that are still active."""
    if register.type == S2:
        return register
    return s.emit.define(s.emit.builder.copy(register))


def _loop_test(s: Selector, condition: Condition, divergent: bool) -> Value:
    """The scalar condition bit that says whether any lane goes on; a divergent loop narrows the mask."""
    if divergent:
        return _save_exec(s, s.arith.mask(condition))[1]
    if isinstance(condition, Mask):
        return s.emit.packet("s_and_b64_exec", condition.value)[1]
    if isinstance(condition, bool):
        return s.arith.test(ScalarTest("s_cmp_eq_i32", s.emit.constant(int(condition), True), 1))
    return s.arith.test(condition)


def _fence(s: Selector, op: Op) -> None:
    s.emit.builder.fence()


# -- cfg -------------------------------------------------------------------------------------------------------------


def select_cfg(s: Selector, region: Region) -> None:
    """Blocks with branches between them. Conditions must be uniform."""
    builder = s.emit.builder
    targets: dict[Block, Block] = {region.entry: builder.block}
    shapes: dict[Block, list[Shape]] = {}
    for block in region.blocks[1:]:
        kinds = [_block_argument_shape(s, arg) for arg in block.args]
        shapes[block] = kinds
        targets[block] = builder.new_block([t for shape in kinds for t in types_of(shape)])
    _terminate(s, _end_of(s, region.entry), targets, shapes)
    entry = builder.block
    for block in region.blocks[1:]:
        # Only what the entry computes is certain to be there in every other block.
        s.emit.enter_scope(False, entry)
        _start(s, targets[block])
        registers = [s.emit.define(arg) for arg in targets[block].args]
        for value, shape in zip(block.args, shapes[block], strict=True):
            s.set(value, rebuild(s, shape, registers))
        _terminate(s, _end_of(s, block), targets, shapes)
        s.emit.leave_scope()


def _end_of(s: Selector, block: Block) -> Op:
    end = s.block(block)
    assert end is not None
    return end


def _block_argument_shape(s: Selector, arg: Value) -> Shape:
    type_ = arg.type
    if type_ is I1:
        return Shape("mask", (S2,))
    if type_.text in ("index", "offset"):
        count, signed = s.shape_of(s.facts.integer(arg))
        return Shape("number", (RegType("amdgpu.vgpr"),) * count, signed)
    return Shape("number", (RegType("amdgpu.vgpr"),) * (2 if getattr(type_, "width", 32) == 64 else 1))


def _terminate(s: Selector, end: Any, targets: dict[Block, Block], shapes: dict[Block, list[Shape]]) -> None:
    builder = s.emit.builder
    if end.name == "cfg.br":
        dest = end.successors[0]
        values = [s.get(v) for v in end.operands]
        builder.branch(
            targets[dest], [r for v, p in zip(values, shapes[dest], strict=True) for r in registers_of(s, v, p)]
        )
    elif end.name == "cfg.cond_br":
        condition = s.condition(end.operands[0])
        if isinstance(condition, Mask) and not s.facts.is_uniform(end.operands[0]):
            raise s.unsupported(end, "a branch whose condition differs between lanes is not supported; use scf.if")
        then, other = (targets[b] for b in end.successors)
        builder.cond_branch(_loop_test(s, condition, False), then, other)
    elif "return" not in end.spec.traits:
        raise s.unsupported(end, f"'{end.name}' is not supported on {s.processor.name}")


RULES: Final[dict[str, Rule]] = {
    "scf.if": _if,
    "scf.for": _for,
    "scf.while": _while,
    "scf.switch": _switch,
    "scf.select": _select,
    "scf.lookup": _lookup,
    "scf.schedule.fence": _fence,
}

__all__ = ["RULES", "choose", "compare", "conditional", "merge", "select_cfg"]
