"""Selection of what combines the lanes of vectors: reductions and dot products, in lane order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from loom.ir.core import Op
from loom_target_spirv import types as t
from loom_target_spirv.module import Value
from loom_target_spirv.select.context import Context
from loom_target_spirv.select.conversions import resize
from loom_target_spirv.select.floats import fused_multiply_add
from loom_target_spirv.select.memory import operand, view_type
from loom_target_spirv.select.rules import Rule
from loom_target_spirv.select.scalar import lane_result
from loom_target_spirv.select.values import Vector
from loom_target_spirv.select.vectors import coordinates, extents, ordinal


def combine(context: Context, op: Op, kind: str, a: Value, b: Value) -> Value:
    """One step of a combining kind."""
    result = lane_result(context, op, kind, (a, b))
    if result is None:
        raise context.refuse(op, "TARGET/001", f"'{op.name}<{kind}>' has no SPIR-V form here")
    return result


def _reduce(context: Context, op: Op) -> None:
    """acc = op(acc, lane) from the initial value; an order that every flag permits."""
    source, initial = operand(op, "source"), operand(op, "init")
    context.scalar_type(initial.type, op)
    accumulator = context.scalar(initial)
    for lane in context.lanes(source):
        accumulator = combine(context, op, str(op.attribute("kind")), accumulator, lane)
    context.bind(op.results[0], accumulator)


def _reduce_axes(context: Context, op: Op) -> None:
    """Every position of the remaining axes folds its own lanes."""
    source, initial = operand(op, "source"), operand(op, "init")
    context.scalar_type(view_type(source).element, op)
    axes = op.attribute("axes")
    assert isinstance(axes, tuple)
    shape, lanes = extents(context, source, op), context.lanes(source)
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    rest = [shape[axis] for axis in kept]
    results = list(context.lanes(initial))
    for place in coordinates(shape):
        at = ordinal(rest, [place[axis] for axis in kept])
        lane = lanes[ordinal(shape, place)]
        results[at] = combine(context, op, str(op.attribute("kind")), results[at], lane)
    context.bind(op.results[0], Vector(tuple(results)) if kept else results[0])


def _dot_floats(context: Context, op: Op) -> None:
    """acc = fma(l, r, acc) over all lanes."""
    lhs, rhs, initial = (operand(op, name) for name in ("lhs", "rhs", "acc"))
    context.scalar_type(initial.type, op)
    accumulator = context.scalar(initial)
    for a, b in zip(context.lanes(lhs), context.lanes(rhs), strict=True):
        accumulator = fused_multiply_add(context, op, (a, b, accumulator))
    context.bind(op.results[0], accumulator)


def _dot_pairs(context: Context, op: Op) -> None:
    """Pairs of f16 into f32, one fused step each."""
    lhs, rhs, initial = (operand(op, name) for name in ("lhs", "rhs", "acc"))
    context.scalar_type(view_type(lhs).element, op)
    wide = [
        [context.function.exact("OpFConvert", t.F32, lane) for lane in context.lanes(value)] for value in (lhs, rhs)
    ]
    results = list(context.lanes(initial))
    for index, (a, b) in enumerate(zip(*wide, strict=True)):
        results[index // 2] = fused_multiply_add(context, op, (a, b, results[index // 2]))
    context.bind(op.results[0], Vector(tuple(results)))


def _signs(op: Op) -> tuple[bool, bool]:
    """Whether the left and the right side are signed: ``u8s8`` is unsigned by signed."""
    signs = str(op.attribute("signs"))
    return signs[0] == "s", signs[2] == "s"


def _accumulate(context: Context, results: list[Value], terms: Sequence[tuple[int, Value, Value]]) -> None:
    words = context.integers
    for at, a, b in terms:
        results[at] = words.binary("OpIAdd", results[at], words.binary("OpIMul", a, b))


def _dot_bytes(context: Context, op: Op) -> None:
    """Groups of four i8 into i32, wrapping."""
    left_signed, right_signed = _signs(op)
    lhs, rhs, initial = (operand(op, name) for name in ("lhs", "rhs", "acc"))
    left = [resize(context, lane, t.U32, left_signed) for lane in context.lanes(lhs)]
    right = [resize(context, lane, t.U32, right_signed) for lane in context.lanes(rhs)]
    results = list(context.lanes(initial))
    _accumulate(context, results, [(i // 4, a, b) for i, (a, b) in enumerate(zip(left, right, strict=True))])
    context.bind(op.results[0], Vector(tuple(results)))


def _dot_nibbles(context: Context, op: Op) -> None:
    """Eight 4-bit fields of every i32 lane, wrapping."""
    words = context.integers
    signed = _signs(op)
    sides = (operand(op, "lhs"), operand(op, "rhs"))
    results = list(context.lanes(operand(op, "acc")))
    count = math.prod(extents(context, op.results[0], op))
    for lane in range(count):
        for field in range(8):
            parts = []
            for side, is_signed in zip(sides, signed, strict=True):
                raised = words.binary("OpShiftLeftLogical", context.lanes(side)[lane], 28 - 4 * field)
                name = "OpShiftRightArithmetic" if is_signed else "OpShiftRightLogical"
                parts.append(words.binary(name, raised, 28))
            _accumulate(context, results, [(lane, parts[0], parts[1])])
    context.bind(op.results[0], Vector(tuple(results)))


REDUCE_RULES: Final[dict[str, Rule]] = {
    "vector.reduce": _reduce,
    "vector.reduce.axes": _reduce_axes,
    "vector.dotf": _dot_floats,
    "vector.dot2f": _dot_pairs,
    "vector.dot4i": _dot_bytes,
    "vector.dot8i4": _dot_nibbles,
}
"""Reductions and dot products."""
