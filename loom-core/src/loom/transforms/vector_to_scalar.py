"""Arithmetic and movement of vectors lane by lane (pass ``vector-to-scalar``; language reference, part 3, section 11).

For targets without vector arithmetic, and for functions whose lanes go different ways: constants fold in each lane and
unused lanes disappear. Operations on vectors of static shape with at most ``MAX_LANES`` lanes are rewritten; whoever
still wants a vector (memory, loops that carry one, returns) gets it put together. Matrix fragments, code books, bit
streams, atomics and positions that only a run knows are left alone, and memory is the subject of
``vector-memory-to-scalar``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from loom.dialects.index import ops as index_ops
from loom.dialects.scalar import ops as scalar_ops
from loom.dialects.scf import ops as scf_ops
from loom.facts.analysis import FunctionFacts
from loom.facts.integers import MAX64, MIN64
from loom.ir.core import Op, Value
from loom.ir.types import ADDRESSES, F32, I1, I8, I16, I32, I64, ScalarType
from loom.spec.kinds import DYNAMIC
from loom.spec.registry import lookup
from loom.transforms.lanes import Emitter, Lanes, coordinates, in_front_of, lane_count

Rule = Callable[[Any, Lanes, FunctionFacts], "Sequence[Sequence[Value]] | None"]
"""The lanes of each result of an operation, in lane order, or nothing where it has to stay."""


def scalarize_vectors(function: Op, target_facts: Mapping[str, object]) -> int:
    """Rewrite the vector operations of a function lane by lane; how many there were. Dead vectors are left behind."""
    lanes, facts = Lanes(), FunctionFacts(function, target_facts)
    rewritten = 0
    for op in list(function.walk()):
        if op.name.startswith("vector.") and _is_small(op):
            rewritten += _rewrite(op, lanes, facts)
    return rewritten


def _is_small(op: Op) -> bool:
    """Whether all vectors of an operation may be taken apart."""
    values = (*op.operands, *op.results)
    return all(lane_count(v.type) is not None for v in values if getattr(v.type, "kind", "") == "vector")


def _rewrite(op: Any, lanes: Lanes, facts: FunctionFacts) -> bool:
    rule = RULES.get(op.name)
    if rule is None:
        if lookup(f"scalar.{op.name.removeprefix('vector.')}") is None:
            return False
        rule = _lanewise
    made = rule(op, lanes, facts)
    if made is None:
        return False
    if isinstance(op.results[0].type, ScalarType):
        op.replace_with([values[0] for values in made])
    else:
        lanes.put(op, *made)
    return True


# -- lane by lane ----------------------------------------------------------------------------------------------------


def _lanewise(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]]:
    """The scalar operation of the same name for each lane."""
    emit, element = in_front_of(op), op.results[0].type.element
    name = op.name.removeprefix("vector.")
    columns = zip(*(lanes.of(v) for v in op.operands), strict=True)
    return [[emit.scalar_like(op, name, column, element) for column in columns]]


def _select(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]]:
    emit = in_front_of(op)
    columns = zip(*(lanes.of(v) for v in op.operands), strict=True)
    return [[emit(scf_ops.Select(list(column), [], [column[1].type])) for column in columns]]


_INTEGER_OF_WIDTH: Final[dict[int, ScalarType]] = {8: I8, 16: I16, 32: I32, 64: I64}


def _bitcast(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]] | None:
    """Lanes of one width are cast one by one; wider ones are cut, narrower ones joined, the low bits first."""
    source, target = op.input.type.element, op.result.type.element
    emit, parts = in_front_of(op), lanes.of(op.input)
    if source.width == target.width:
        return [[_cast(emit, lane, target) for lane in parts]]
    if not {source.width, target.width} <= set(_INTEGER_OF_WIDTH):
        return None
    whole, piece = _INTEGER_OF_WIDTH[source.width], _INTEGER_OF_WIDTH[target.width]
    bits = [_cast(emit, lane, whole) for lane in parts]
    if source.width > target.width:
        cut = (
            emit.scalar("trunci", [_shifted(emit, "shrui", lane, at)], piece)
            for lane in bits
            for at in range(0, source.width, target.width)
        )
        return [[_cast(emit, lane, target) for lane in cut]]
    count = target.width // source.width
    groups = (bits[first : first + count] for first in range(0, len(bits), count))
    return [[_cast(emit, _joined(emit, group, source.width, piece), target) for group in groups]]


def _joined(emit: Emitter, parts: Sequence[Value], width: int, type_: ScalarType) -> Value:
    total = emit.scalar("extui", [parts[0]], type_)
    for number, part in enumerate(parts[1:], 1):
        moved = _shifted(emit, "shli", emit.scalar("extui", [part], type_), number * width)
        total = emit.scalar("ori", [total, moved], type_)
    return total


def _cast(emit: Emitter, value: Value, type_: ScalarType) -> Value:
    return value if value.type is type_ else emit.scalar("bitcast", [value], type_)


def _shifted(emit: Emitter, name: str, value: Value, count: int) -> Value:
    return value if count == 0 else emit.scalar(name, [value, emit.constant(value.type, count)], value.type)


# -- counting --------------------------------------------------------------------------------------------------------


def _counted(op: Any, base: Value, step: Value, count: int, facts: FunctionFacts) -> list[Value] | None:
    """base + n * step for each n; integers wrap, addresses have to be proven not to."""
    emit, type_ = in_front_of(op), base.type
    values = [base]
    if type_ in ADDRESSES:
        first, each = facts.integer(base, op), facts.integer(step, op)
        ends = [start + (count - 1) * distance for start in (first.lo, first.hi) for distance in (each.lo, each.hi)]
        if min(ends) <= MIN64 or max(ends) >= MAX64 or (type_.text == "offset" and min(ends) < 0):
            return None
        for _ in range(1, count):
            values.append(emit.sum_of(values[-1], step))
    else:
        for _ in range(1, count):
            values.append(emit.scalar("addi", [values[-1], step], type_))
    return values[:count]


def _iota(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]] | None:
    values = _counted(op, op.base, op.step, lane_count(op.result.type) or 0, facts)
    return None if values is None else [values]


def _mask_range(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]] | None:
    positions = _counted(op, op.lower, op.step, lane_count(op.result.type) or 0, facts)
    if positions is None:
        return None
    emit = in_front_of(op)
    if op.upper.type in ADDRESSES:
        return [[emit(index_ops.Cmp([place, op.upper], ["slt"], [I1])) for place in positions]]
    return [[emit(scalar_ops.CmpI([place, op.upper], ["slt"], [I1])) for place in positions]]


# -- movement --------------------------------------------------------------------------------------------------------


def _grid(value: Value, lanes: Lanes) -> dict[tuple[int, ...], Value]:
    """The lanes of a vector by coordinate."""
    type_: Any = value.type
    return dict(zip(coordinates(type_.dims), lanes.of(value), strict=True))


def _moved(op: Any, lanes: Lanes, source: Value, place: Callable[[tuple[int, ...]], tuple[int, ...]]) -> list[Value]:
    """The lanes of an operation's result, each from its place in the source."""
    grid = _grid(source, lanes)
    return [grid[place(at)] for at in coordinates(op.results[0].type.dims)]


def _broadcast(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]]:
    dims = op.source.type.dims

    def place(at: tuple[int, ...]) -> tuple[int, ...]:
        own = at[len(at) - len(dims) :]
        return tuple(0 if extent == 1 else n for n, extent in zip(own, dims, strict=True))

    return [_moved(op, lanes, op.source, place)]


def _extract(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]] | None:
    if DYNAMIC in op.static_indices:
        return None
    outer = tuple(op.static_indices)
    if isinstance(op.result.type, ScalarType):
        # This is how a vector is taken apart.
        return [[_grid(op.source, lanes)[outer]]] if lanes.are_known(op.source) else None
    return [_moved(op, lanes, op.source, lambda at: outer + at)]


def _insert(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]] | None:
    if DYNAMIC in op.static_indices:
        return None
    outer = tuple(op.static_indices)
    grid = _grid(op.target, lanes)
    if isinstance(op.value.type, ScalarType):
        grid[outer] = op.value
    else:
        grid.update({outer + at: lane for at, lane in _grid(op.value, lanes).items()})
    return [list(grid.values())]


def _slice(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]] | None:
    if DYNAMIC in op.static_offsets:
        return None
    return [_moved(op, lanes, op.source, lambda at: tuple(map(sum, zip(at, op.static_offsets, strict=True))))]


def _concat(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]]:
    grid: dict[tuple[int, ...], Value] = {}
    start = 0
    for part in op.parts:
        for at, lane in _grid(part, lanes).items():
            grid[(*at[: op.axis], at[op.axis] + start, *at[op.axis + 1 :])] = lane
        start += part.type.dims[op.axis]
    return [[grid[at] for at in coordinates(op.result.type.dims)]]


def _transpose(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]]:
    order = [op.permutation.index(axis) for axis in range(len(op.permutation))]
    return [_moved(op, lanes, op.source, lambda at: tuple(at[axis] for axis in order))]


def _shuffle(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]]:
    return [_moved(op, lanes, op.source, lambda at: (op.lanes[at[0]],))]


def _interleave(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]]:
    sides = [_grid(v, lanes) for v in (op.even, op.odd)]
    places = coordinates(op.result.type.dims)
    return [[sides[at[op.axis] % 2][(*at[: op.axis], at[op.axis] // 2, *at[op.axis + 1 :])] for at in places]]


def _deinterleave(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]]:
    grid = _grid(op.source, lanes)
    places = coordinates(op.even.type.dims)
    return [[grid[(*at[: op.axis], 2 * at[op.axis] + side, *at[op.axis + 1 :])] for at in places] for side in (0, 1)]


# -- sums ------------------------------------------------------------------------------------------------------------


def _reduce(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]] | None:
    """The chain in lane order, which is one of the orders that ``reassoc`` permits too."""
    if op.init.type in ADDRESSES:
        return None
    emit, total = in_front_of(op), op.init
    for lane in lanes.of(op.source):
        total = emit.scalar_like(op, op.kind, [total, lane], total.type)
    return [[total]]


def _dotf(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]]:
    emit, total = in_front_of(op), op.acc
    for left, right in zip(lanes.of(op.lhs), lanes.of(op.rhs), strict=True):
        total = emit.scalar_like(op, "fmaf", [left, right, total], total.type)
    return [[total]]


def _dot2f(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]]:
    emit = in_front_of(op)
    left, right = ([emit.scalar("extf", [lane], F32) for lane in lanes.of(v)] for v in (op.lhs, op.rhs))
    sums = lanes.of(op.acc)
    for half in (0, 1):
        sums = [emit.scalar("fmaf", [left[2 * n + half], right[2 * n + half], s], F32) for n, s in enumerate(sums)]
    return [sums]


def _dot4i(op: Any, lanes: Lanes, facts: FunctionFacts) -> list[list[Value]]:
    emit = in_front_of(op)
    words = ["extui" if sign == "u" else "extsi" for sign in (op.signs[0], op.signs[2])]
    left, right = (
        [emit.scalar(word, [lane], I32) for lane in lanes.of(v)]
        for word, v in zip(words, (op.lhs, op.rhs), strict=True)
    )
    sums = []
    for number, total in enumerate(lanes.of(op.acc)):
        for at in range(4 * number, 4 * number + 4):
            total = emit.scalar("addi", [total, emit.scalar("muli", [left[at], right[at]], I32)], I32)
        sums.append(total)
    return [sums]


def _nothing_to_do(op: Any, lanes: Lanes, facts: FunctionFacts) -> None:
    """Whoever takes the vector apart makes scalars of it."""


RULES: Final[Mapping[str, Rule]] = {
    "vector.constant": _nothing_to_do,
    "vector.poison": _nothing_to_do,
    "vector.select": _select,
    "vector.bitcast": _bitcast,
    "vector.iota": _iota,
    "vector.mask.range": _mask_range,
    "vector.broadcast": _broadcast,
    "vector.extract": _extract,
    "vector.insert": _insert,
    "vector.slice": _slice,
    "vector.concat": _concat,
    "vector.transpose": _transpose,
    "vector.shuffle": _shuffle,
    "vector.interleave": _interleave,
    "vector.deinterleave": _deinterleave,
    "vector.reduce": _reduce,
    "vector.dotf": _dotf,
    "vector.dot2f": _dot2f,
    "vector.dot4i": _dot4i,
}
"""Operations that are no scalar operation for each lane; all others are found by their name."""
