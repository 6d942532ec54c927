"""Selection of `vector` operations that make vectors and move lanes; a vector is the list of its lanes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from loom.ir import types as lt
from loom.ir.core import Op
from loom.ir.core import Value as SourceValue
from loom.text.directives import index_entries
from loom_target_spirv import types as t
from loom_target_spirv.module import Value
from loom_target_spirv.select.context import Context
from loom_target_spirv.select.conversions import resize
from loom_target_spirv.select.memory import operand, view_type
from loom_target_spirv.select.rules import Rule
from loom_target_spirv.select.scalar import constant_lane
from loom_target_spirv.select.values import Vector

Coordinate = tuple[int, ...]


def extents(context: Context, value: SourceValue, op: Op) -> tuple[int, ...]:
    """The extents of a vector; lanes are values, so all must be static."""
    dims = view_type(value).dims
    known = tuple(dim for dim in dims if isinstance(dim, int))
    if len(known) != len(dims):
        raise context.refuse(op, "TARGET/001", f"'{op.name}' of a vector with a dynamic extent has no SPIR-V form")
    return known


def coordinates(shape: Sequence[int]) -> Iterator[Coordinate]:
    """All coordinates in lane order."""
    return itertools.product(*map(range, shape))


def ordinal(shape: Sequence[int], place: Sequence[int]) -> int:
    """The position of a coordinate in lane order."""
    result = 0
    for extent, index in zip(shape, place, strict=True):
        result = result * extent + index
    return result


def _bind(context: Context, op: Op, lanes: Sequence[Value]) -> None:
    context.bind(op.results[0], Vector(tuple(lanes)))


def _constant(context: Context, op: Op) -> None:
    element = view_type(op.results[0]).element
    lane = constant_lane(context, op, context.scalar_type(element, op))
    _bind(context, op, [lane] * math.prod(extents(context, op.results[0], op)))


def _empty(context: Context, op: Op) -> None:
    _bind(context, op, [])


def _lane(context: Context, value: SourceValue) -> Value:
    """A scalar as a lane: an address takes 64 bits there."""
    scalar = context.scalar(value)
    return context.resize(scalar, 64) if value.type in lt.ADDRESSES else scalar


def _splat(context: Context, op: Op) -> None:
    _bind(context, op, [_lane(context, op.operands[0])] * math.prod(extents(context, op.results[0], op)))


def _from_elements(context: Context, op: Op) -> None:
    _bind(context, op, [_lane(context, value) for value in op.operands])


def _steps(context: Context, base: Value, step: Value, count: int) -> list[Value]:
    """base + i * step, wrapping."""
    words = context.integers
    lanes = [base]
    while len(lanes) < count:
        lanes.append(words.binary("OpIAdd", lanes[-1], step))
    return lanes[:count]


def _iota(context: Context, op: Op) -> None:
    base, step = (_lane(context, value) for value in op.operands)
    _bind(context, op, _steps(context, base, step, math.prod(extents(context, op.results[0], op))))


def _mask_range(context: Context, op: Op) -> None:
    lower, upper, step = (_lane(context, value) for value in op.operands)
    places = _steps(context, lower, step, math.prod(extents(context, op.results[0], op)))
    _bind(context, op, [context.integers.compare("OpSLessThan", place, upper) for place in places])


def _gathered(pick: Callable[[Context, Op, Sequence[int], Coordinate], Coordinate]) -> Rule:
    """A result whose lanes are lanes of one source, `pick` naming the source coordinate."""

    def move(context: Context, op: Op) -> None:
        source = op.operands[0]
        shape, lanes = extents(context, source, op), context.lanes(source)
        result = extents(context, op.results[0], op)
        picked = (pick(context, op, shape, place) for place in coordinates(result))
        _bind(context, op, [lanes[ordinal(shape, place)] for place in picked])

    return move


def _broadcast_from(context: Context, op: Op, shape: Sequence[int], place: Coordinate) -> Coordinate:
    trailing = place[len(place) - len(shape) :]
    return tuple(0 if extent == 1 else index for extent, index in zip(shape, trailing, strict=True))


def _transpose_from(context: Context, op: Op, shape: Sequence[int], place: Coordinate) -> Coordinate:
    permutation = op.attribute("permutation")
    assert isinstance(permutation, tuple)
    source = [0] * len(place)
    for axis, index in zip(permutation, place, strict=True):
        source[axis] = index
    return tuple(source)


def _shuffle_from(context: Context, op: Op, shape: Sequence[int], place: Coordinate) -> Coordinate:
    lanes = op.attribute("lanes")
    assert isinstance(lanes, tuple)
    return (lanes[place[0]],)


def _axis(op: Op) -> int:
    axis = op.attribute("axis")
    assert isinstance(axis, int)
    return axis


def _concat(context: Context, op: Op) -> None:
    axis, parts = _axis(op), []
    for value in op.operands:
        parts.append((extents(context, value, op), context.lanes(value)))
    lanes = []
    for place in coordinates(extents(context, op.results[0], op)):
        index = place[axis]
        for shape, values in parts:
            if index < shape[axis]:
                lanes.append(values[ordinal(shape, (*place[:axis], index, *place[axis + 1 :]))])
                break
            index -= shape[axis]
    _bind(context, op, lanes)


def _interleave(context: Context, op: Op) -> None:
    axis, shape = _axis(op), extents(context, op.operands[0], op)
    parts = [context.lanes(value) for value in op.operands]
    lanes = []
    for place in coordinates(extents(context, op.results[0], op)):
        half, side = divmod(place[axis], 2)
        lanes.append(parts[side][ordinal(shape, (*place[:axis], half, *place[axis + 1 :]))])
    _bind(context, op, lanes)


def _deinterleave(context: Context, op: Op) -> None:
    axis, source = _axis(op), op.operands[0]
    shape, lanes = extents(context, source, op), context.lanes(source)
    for side, result in enumerate(op.results):
        picked = [
            lanes[ordinal(shape, (*place[:axis], 2 * place[axis] + side, *place[axis + 1 :]))]
            for place in coordinates(extents(context, result, op))
        ]
        context.bind(result, Vector(tuple(picked)))


def _static_place(context: Context, op: Op, field: str) -> Coordinate:
    """A coordinate given by literals or by values that facts settle."""
    static = op.attribute(f"static_{field}")
    assert isinstance(static, tuple)
    place = []
    for entry in index_entries(op.group(op.spec.operand_index[field]), static):
        index = entry if isinstance(entry, int) else context.facts.exact(entry)
        if index is None:
            raise context.refuse(
                op,
                "TARGET/003",
                f"'{op.name}' at a position that depends on the run has no SPIR-V form",
                subject_role="operand",
                subject_name=field,
                constraint_key="spirv.vector.index",
                hint="unroll the loop around it, or go through private memory",
            )
        place.append(index)
    return tuple(place)


def _extract(context: Context, op: Op) -> None:
    source = op.operands[0]
    shape, lanes = extents(context, source, op), context.lanes(source)
    place = _static_place(context, op, "indices")
    rest = shape[len(place) :]
    if not rest:
        context.bind(op.results[0], lanes[ordinal(shape, place)])
        return
    first = ordinal(shape, (*place, *(0 for _ in rest)))
    _bind(context, op, lanes[first : first + math.prod(rest)])


def _insert(context: Context, op: Op) -> None:
    value, target = operand(op, "value"), operand(op, "target")
    shape, lanes = extents(context, target, op), list(context.lanes(target))
    place = _static_place(context, op, "indices")
    rest = shape[len(place) :]
    new = context.lanes(value) if rest else (_lane(context, value),)
    first = ordinal(shape, (*place, *(0 for _ in rest)))
    lanes[first : first + len(new)] = new
    _bind(context, op, lanes)


def _slice_from(context: Context, op: Op, shape: Sequence[int], place: Coordinate) -> Coordinate:
    origin = _static_place(context, op, "offsets")
    return tuple(a + b for a, b in zip(origin, place, strict=True))


def _select(context: Context, op: Op) -> None:
    condition, *sides = (context.lanes(value) for value in op.operands)
    chosen = [context.integers.select(c, a, b) for c, a, b in zip(condition, *sides, strict=True)]
    _bind(context, op, chosen)


def _insert_field(context: Context, op: Op) -> None:
    """Low bits of one integer replace a field of another."""
    words = context.integers
    offset, width = op.attribute("offset"), op.attribute("width")
    assert isinstance(offset, int)
    assert isinstance(width, int)
    type_ = context.scalar_type(view_type(op.results[0]).element, op)
    if not isinstance(type_, t.IntType):
        raise context.refuse(op, "TARGET/001", f"'{op.name}' of truth values has no SPIR-V form")
    mask = ((1 << width) - 1) << offset
    lanes = []
    for field, base in zip(*(context.lanes(operand(op, name)) for name in ("field", "base")), strict=True):
        if not isinstance(field.type, t.IntType):
            raise context.refuse(op, "TARGET/001", f"'{op.name}' of truth values has no SPIR-V form")
        raised = words.binary("OpShiftLeftLogical", resize(context, field, type_, signed=False), offset)
        kept = words.binary("OpBitwiseAnd", base, ((1 << type_.width) - 1) ^ mask)
        lanes.append(words.binary("OpBitwiseOr", kept, words.binary("OpBitwiseAnd", raised, mask)))
    _bind(context, op, lanes)


VECTOR_RULES: Final[dict[str, Rule]] = {
    "vector.constant": _constant,
    "vector.empty": _empty,
    "vector.splat": _splat,
    "vector.from_elements": _from_elements,
    "vector.iota": _iota,
    "vector.mask.range": _mask_range,
    "vector.broadcast": _gathered(_broadcast_from),
    "vector.transpose": _gathered(_transpose_from),
    "vector.shuffle": _gathered(_shuffle_from),
    "vector.slice": _gathered(_slice_from),
    "vector.concat": _concat,
    "vector.interleave": _interleave,
    "vector.deinterleave": _deinterleave,
    "vector.extract": _extract,
    "vector.insert": _insert,
    "vector.select": _select,
    "vector.bitfield.insert": _insert_field,
}
"""Construction and lane movement."""
