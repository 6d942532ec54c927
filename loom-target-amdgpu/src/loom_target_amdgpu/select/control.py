"""Selection of conditionals and choices of the ``scf`` dialect.

A uniform condition becomes a scalar branch. A condition per lane narrows the execution mask: the wave walks through
every arm in which some lane is active, and the mask is restored behind it. Values that such an arm yields are
chosen with the mask while all lanes of the join are active, so they are right wherever registers end up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from loom.ir.core import Block, Op, Region, Value
from loom.ir.types import RegType
from loom_target_amdgpu.select.compare import compare_words
from loom_target_amdgpu.select.layouts import choose_layout
from loom_target_amdgpu.select.merge import Shape, rebuild, registers_of, shape_for, types_of
from loom_target_amdgpu.select.packing import as_vector
from loom_target_amdgpu.select.scalar import pick
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import (
    S2,
    V1,
    Condition,
    Layout,
    Mask,
    Number,
    Packed,
    Root,
    ScalarTest,
    Selected,
    Vector,
    View,
    Word,
)

Arm = Callable[[], list[Selected]]
_SHORT: Final = 10
# Operations that become a few instructions without control flow, none of which matters when no lane is active.
_STRAIGHT: Final = frozenset(
    [
        f"scalar.{name}"
        for name in ("addf", "subf", "mulf", "fmaf", "negf", "addi", "subi", "muli", "andi", "ori", "xori")
    ]
    + [f"scalar.{name}" for name in ("shli", "shrsi", "shrui", "cmpf", "cmpi", "constant", "extf", "bitcast")]
    + [f"index.{name}" for name in ("add", "sub", "mul", "madd", "cmp", "cast", "constant", "assume")]
    + ["view.load", "view.store", "scf.yield"]
)


# -- pieces --------------------------------------------------------------------------------------------------------


def yielded(s: Selector, region: Region) -> list[Selected]:
    """Select a region's block; the values its terminator hands on."""
    end = s.block(region.entry)
    assert end is not None
    return [s.get(v) for v in end.operands]


@contextmanager
def some_lanes(s: Selector) -> Iterator[None]:
    """Code that only some lanes of the wave execute."""
    s.divergent += 1
    try:
        yield
    finally:
        s.divergent -= 1


def start(s: Selector, block: Block) -> None:
    """Select into another block from here."""
    s.emit.builder.enter(block)


def save_exec(s: Selector, mask: Value) -> tuple[Value, Value]:
    """Go on with the active lanes of a mask: the lanes before, and whether any is left."""
    saved, active = s.emit.packet("s_and_saveexec_b64", mask)
    return saved, active


def restore(s: Selector, saved: Value) -> None:
    """Go on with the lanes that were saved."""
    s.emit.packet("s_mov_b64_exec", saved)


# -- if ------------------------------------------------------------------------------------------------------------


def _if(s: Selector, op: Any) -> None:
    condition = s.condition(op.condition)
    else_region = op.else_region
    arms: list[Arm] = [lambda: yielded(s, op.then_region)]
    if else_region is not None and (op.results or len(else_region.entry) > 1):
        arms.append(lambda: yielded(s, else_region))
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
    if op.name == "scf.if" and _walked_through(op.regions[0]) and _constant(op.regions[1]):
        return _divergent_or_constant(s, op, condition, arms, results)
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
        start(s, block)
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
    return join_values(s, join, shapes)


def join_values(s: Selector, join: Block, shapes: list[Shape]) -> list[Selected]:
    """Enter a join block whose arguments carry values of the given shapes."""
    for shape in shapes:
        for type_ in types_of(shape):
            join.add_argument(type_)
    start(s, join)
    registers = [s.emit.define(arg) for arg in join.args]
    return [rebuild(s, shape, registers) for shape in shapes]


def _divergent_plain(s: Selector, condition: Mask, arms: list[Arm]) -> list[Selected]:
    """Arms without results: ``exec &= mask``, skip an arm without active lanes, restore behind it."""
    builder = s.emit.builder
    entry = builder.block
    saved, active = save_exec(s, condition.value)
    then, join = builder.new_block(), builder.new_block()
    builder.cond_branch(active, then, join)
    s.emit.enter_scope(False, entry)
    start(s, then)
    with some_lanes(s):
        arms[0]()
    builder.branch(join)
    s.emit.leave_scope()
    start(s, join)
    if len(arms) > 1:
        active = s.emit.op("s_xor_b64_exec", saved)
        other, last = builder.new_block(), builder.new_block()
        builder.cond_branch(active, other, last)
        s.emit.enter_scope(False, join)
        start(s, other)
        with some_lanes(s):
            arms[1]()
        builder.branch(last)
        s.emit.leave_scope()
        start(s, last)
    restore(s, saved)
    return []


def _walked_through(region: Region) -> bool:
    """Whether a wave rather walks through an arm without active lanes than branches around it."""
    names = [op.name for op in region.entry]
    return len(names) <= _SHORT and all(name in _STRAIGHT for name in names)


def _constant(region: Region) -> bool:
    """Whether an arm computes nothing."""
    return all(op.name in ("scf.yield", "scalar.constant", "index.constant") for op in region.entry)


def _divergent_or_constant(
    s: Selector, op: Op, condition: Mask, arms: list[Arm], results: Sequence[Value]
) -> list[Selected]:
    """A short arm whose results replace values that are there already: straight code under the narrowed mask, then
    a choice. Nothing in the arm may access memory for the wave as a whole."""
    emit = s.emit
    saved, _ = save_exec(s, condition.value)
    emit.enter_scope(False, emit.builder.block)
    s.guarded = False
    with some_lanes(s):
        first = arms[0]()
    s.guarded = True
    emit.leave_scope()
    restore(s, saved)
    second = arms[1]()
    found: list[Selected] = []
    for result, a, b in zip(results, first, second, strict=True):
        shape = shape_for(s, result, [a, b], True, op)
        if isinstance(a, Number) and isinstance(b, Number):
            count = len(shape.types)
            pairs = zip(_resized(s, a, count), _resized(s, b, count), strict=True)
            words = tuple(s.arith.select(condition, x, y) for x, y in pairs)
            found.append(Number(words, shape.signed))
            continue
        registers = zip(registers_of(s, a, shape), registers_of(s, b, shape), strict=True)
        found.append(rebuild(s, shape, [_choose(s, condition.value, x, y) for x, y in registers]))
    return found


def _resized(s: Selector, number: Number, count: int) -> tuple[Word, ...]:
    """The low words of a number, extended where it has fewer."""
    return number.words[:count] if len(number.words) >= count else s.extend(number)


def _divergent_merge(s: Selector, op: Op, condition: Mask, arms: list[Arm], results: Sequence[Value]) -> list[Selected]:
    """Two arms with results. Lanes of the first arm keep their values in registers while the second runs; behind
    it every lane chooses with the mask."""
    emit, builder = s.emit, s.emit.builder
    entry = builder.block
    mask = condition.value
    saved, active = save_exec(s, mask)
    then, skip, middle = builder.new_block(), builder.new_block(), builder.new_block()
    builder.cond_branch(active, then, skip)
    emit.enter_scope(False, entry)
    start(s, then)
    with some_lanes(s):
        first = arms[0]()
    then_end = builder.block
    emit.leave_scope()

    start(s, skip)
    skip_end = builder.block
    start(s, middle)
    other_active = emit.op("s_xor_b64_exec", saved)
    other, none = builder.new_block(), builder.new_block()
    builder.cond_branch(other_active, other, none)
    emit.enter_scope(False, middle)
    start(s, other)
    with some_lanes(s):
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
    restore(s, saved)
    chosen = [_choose(s, mask, a, b) for a, b in zip(kept, mine, strict=True)]
    builder.branch(join, chosen)
    emit.leave_scope()
    start(s, none)
    restore(s, saved)
    builder.branch(join, kept)
    return join_values(s, join, shapes)


def _anything(s: Selector, type_: RegType) -> Value:
    """A register that no active lane reads."""
    scalar = type_.reg_class == "amdgpu.sgpr"
    return s.emit.constant(0, scalar, type_.count)


def _choose(s: Selector, mask: Value, a: Value, b: Value) -> Value:
    """a in the lanes of the mask, b in the others."""
    emit = s.emit
    if a.type == S2:
        return emit.op("s_or_b64", emit.op("s_and_b64", a, mask), emit.op("s_andn2_b64", b, mask))
    if a.type != V1:
        pairs = zip(emit.words(a), emit.words(b), strict=True)
        return emit.concat(*(emit.op("v_cndmask_b32", y, x, mask) for x, y in pairs))
    return emit.op("v_cndmask_b32", b, a, mask)


# -- switch, select, lookup ------------------------------------------------------------------------------------------


def _switch(s: Selector, op: Any) -> None:
    exact = s.facts.exact(op.selector)
    keys = list(op.case_keys)
    if exact is not None:
        region = op.case_regions[keys.index(exact)] if exact in keys else op.default_region
        values = yielded(s, region)
    else:
        values = _cases(s, op, 0)
    for result, value in zip(op.results, values, strict=True):
        s.set(result, value)


def _cases(s: Selector, op: Any, position: int) -> list[Selected]:
    if position == len(op.case_keys):
        return yielded(s, op.default_region)
    matches = _equals(s, op.selector, op.case_keys[position])
    return conditional(
        s,
        op,
        matches,
        [lambda: yielded(s, op.case_regions[position]), lambda: _cases(s, op, position + 1)],
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
    if isinstance(a, Vector | Packed) and isinstance(b, Vector | Packed):
        a, b = as_vector(s, a), as_vector(s, b)
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
    if isinstance(a, Root | View) and isinstance(b, Root | View):
        return _choose_memory(s, op, condition, a, b, result)
    raise s.unsupported(op, f"a choice between values of type {result.type} is not supported on {s.processor.name}")


def _choose_memory(
    s: Selector, op: Op, condition: Condition, a: Root | View, b: Root | View, result: Value
) -> Selected:
    """One of two views into the same memory: one of two byte positions."""
    shape = shape_for(s, result, [a, b], True, op)
    if shape.kind == "fixed":
        return a
    first, second = tuple(registers_of(s, a, shape)), tuple(registers_of(s, b, shape))
    return rebuild(s, shape, [s.emit.register(word, False) for word in pick(s, condition, first, second)])


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


def _fence(s: Selector, op: Op) -> None:
    s.emit.builder.fence()


RULES: Final[dict[str, Rule]] = {
    "scf.if": _if,
    "scf.switch": _switch,
    "scf.select": _select,
    "scf.lookup": _lookup,
    "scf.schedule.fence": _fence,
}
