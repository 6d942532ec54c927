"""Selection of loops: scalar counters where bounds are uniform, an execution mask where trip counts differ."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Final

from loom.facts.integers import IntegerFacts
from loom.ir.core import Op, Value
from loom.ir.types import RegType
from loom_target_amdgpu.select.compare import compare_words
from loom_target_amdgpu.select.control import join_values, restore, save_exec, some_lanes, start, yielded
from loom_target_amdgpu.select.merge import Shape, rebuild, registers_of, shape_for, types_of
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import S2, Condition, Mask, Number, ScalarTest, Selected, Word

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
    # Loop-carried values settle in vector registers unless they are addresses or conditions known to stay uniform.
    shapes = _loop_shapes(s, op, inits, carried, False)
    # In front of the guard: a loop that does not run hands on the same registers.
    args = [r for value, shape in zip(inits, shapes, strict=True) for r in registers_of(s, value, shape)]
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
        assert scc.defining_op is not None
        emit.enter_guard(entry, scc.defining_op)
        start(s, enter)
    first = [emit.register(w, True) for w in lower]
    types = [RegType("amdgpu.sgpr")] * count + [t for shape in shapes for t in types_of(shape)]
    body = builder.new_block(types)
    preheader = builder.block
    builder.branch(body, [*first, *args])
    emit.enter_scope(True, preheader)
    start(s, body)
    registers = [emit.define(arg) for arg in body.args]
    counter = tuple(registers[:count])
    _set_counter(s, op, counter, signed)
    rest = registers[count:]
    for value, shape in zip(carried, shapes, strict=True):
        s.set(value, rebuild(s, shape, rest))
    following_values = yielded(s, op.body)
    following = [
        r for value, shape in zip(following_values, shapes, strict=True) for r in registers_of(s, value, shape)
    ]
    advanced = tuple(emit.register(w, True) for w in _advance(s, counter, step))
    again = _below(s, advanced, upper, signed)
    if isinstance(again, Mask):
        scc = emit.packet("s_and_b64_exec", again.value)[1]
    else:
        assert isinstance(again, ScalarTest)
        scc = s.arith.test(again)
    latch, done = builder.new_block(), builder.new_block()
    builder.cond_branch(scc, latch, done)
    start(s, latch)
    builder.branch(body, [*advanced, *following])
    emit.leave_scope()
    start(s, done)
    if runs is None:
        emit.leave_scope()
        join = builder.new_block()
        builder.branch(join, following)
        start(s, skip)
        builder.branch(join, args)
        results = join_values(s, join, shapes)
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
    first = [emit.register(w, scalar_counter) for w in lower]
    args = [r for value, shape in zip(inits, shapes, strict=True) for r in registers_of(s, value, shape)]
    counter_type = RegType("amdgpu.sgpr") if scalar_counter else RegType("amdgpu.vgpr")
    head = builder.new_block([counter_type] * count + [t for shape in shapes for t in types_of(shape)])
    saved = emit.op("s_mov_b64_exec_read")
    preheader = builder.block
    builder.branch(head, [*first, *args])
    emit.enter_scope(True, preheader)
    start(s, head)
    registers = [emit.define(arg) for arg in head.args]
    kept = registers[count:]
    counter = tuple(registers[:count])
    inside = _below(s, counter, upper, signed)
    assert isinstance(inside, Mask)
    _, active = save_exec(s, inside.value)
    body, done = builder.new_block(), builder.new_block()
    builder.cond_branch(active, body, done)
    start(s, body)
    _set_counter(s, op, counter, signed)
    rest = list(kept)
    for value, shape in zip(carried, shapes, strict=True):
        s.set(value, rebuild(s, shape, rest))
    with some_lanes(s):
        following_values = yielded(s, op.body)
    following = [
        r for value, shape in zip(following_values, shapes, strict=True) for r in registers_of(s, value, shape)
    ]
    following = [_keep_inactive(s, old, new) for old, new in zip(kept, following, strict=True)]
    advanced = [emit.register(w, scalar_counter) for w in _advance(s, counter, step)]
    builder.branch(head, [*advanced, *following])
    emit.leave_scope()
    start(s, done)
    restore(s, saved)
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
    start(s, head)
    registers = [emit.define(arg) for arg in head.args]
    old = list(registers)
    for value, shape in zip(header_args, shapes, strict=True):
        s.set(value, rebuild(s, shape, registers))
    with some_lanes(s) if divergent else nullcontext():
        end = s.block(op.before.entry)
    assert end is not None
    condition = s.condition(end.operands[0])
    forwarded = [s.get(v) for v in end.operands[1:]]
    out_shapes = [shape_for(s, r, [v], divergent, op) for r, v in zip(op.results, forwarded, strict=True)]
    leaving = [r for value, shape in zip(forwarded, out_shapes, strict=True) for r in registers_of(s, value, shape)]
    if divergent:
        leaving = [_own_copy(s, r) for r in leaving]
    body, done = builder.new_block(), builder.new_block()
    builder.cond_branch(loop_test(s, condition, divergent), body, done)
    start(s, body)
    for value, selected in zip(op.after.entry.args, forwarded, strict=True):
        s.set(value, selected)
    with some_lanes(s) if divergent else nullcontext():
        following_values = yielded(s, op.after)
    following = [
        r for value, shape in zip(following_values, shapes, strict=True) for r in registers_of(s, value, shape)
    ]
    if divergent:
        following = [_keep_inactive(s, a, b) for a, b in zip(old, following, strict=True)]
    builder.branch(head, following)
    emit.leave_scope()
    start(s, done)
    if saved is not None:
        restore(s, saved)
    registers = [emit.define(r) for r in leaving]
    for result, shape in zip(op.results, out_shapes, strict=True):
        s.set(result, rebuild(s, shape, registers))


def _own_copy(s: Selector, register: Value) -> Value:
    """A copy that is written in every evaluation of the condition, by the lanes that are still active."""
    if register.type == S2:
        return register
    return s.emit.define(s.emit.builder.copy(register))


def loop_test(s: Selector, condition: Condition, divergent: bool) -> Value:
    """The scalar condition bit that says whether any lane goes on; a divergent loop narrows the mask."""
    if divergent:
        return save_exec(s, s.arith.mask(condition))[1]
    if isinstance(condition, Mask):
        return s.emit.packet("s_and_b64_exec", condition.value)[1]
    if isinstance(condition, bool):
        return s.arith.test(ScalarTest("s_cmp_eq_i32", s.emit.constant(int(condition), True), 1))
    return s.arith.test(condition)


RULES: Final[dict[str, Rule]] = {"scf.for": _for, "scf.while": _while}
