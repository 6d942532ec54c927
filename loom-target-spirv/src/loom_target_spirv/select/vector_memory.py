"""Selection of vector loads, stores, gathers and scatters, plain and masked: one access per lane.

A lane that is off performs no access, so every masked access is a conditional of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from loom.ir.core import Op
from loom.ir.core import Value as SourceValue
from loom_target_spirv.module import Value
from loom_target_spirv.select.context import Context
from loom_target_spirv.select.memory import (
    displaced,
    element_position,
    load_element,
    operand,
    store_element,
    view_type,
)
from loom_target_spirv.select.rules import Rule
from loom_target_spirv.select.values import Vector
from loom_target_spirv.select.vectors import coordinates, extents
from loom_target_spirv.structured import Selection

Positions = Callable[[Context, Op, str, SourceValue], "list[Callable[[], Value]]"]
"""positions(context, operation, name of the view operand, vector) -> for every lane, what computes its address"""


def _footprint(context: Context, op: Op, field: str, vector: SourceValue) -> list[Callable[[], Value]]:
    """Lanes cover the trailing axes of the view from the index list on."""
    target = operand(op, field)
    view, type_ = context.view(target), view_type(target)
    shape = extents(context, vector, op)
    lead = (0,) * (type_.rank - len(shape))

    def at(place: Sequence[int]) -> Callable[[], Value]:
        return lambda: element_position(context, view, op, type_, place)

    return [at(lead + place) for place in coordinates(shape)]


def _offsets(context: Context, op: Op, field: str, vector: SourceValue) -> list[Callable[[], Value]]:
    """Every lane has an offset along the last axis of the view, added to the index list."""
    target = operand(op, field)
    view, type_ = context.view(target), view_type(target)

    def at(offset: Value) -> Callable[[], Value]:
        return lambda: displaced(context, view, op, type_, offset)

    return [at(offset) for offset in context.lanes(operand(op, "offsets"))]


@attrs.frozen
class _Form:
    """Where the lanes of an operation lie, and whether a mask decides which are accessed."""

    positions: Positions
    masked: bool


def _load(form: _Form) -> Rule:
    def load(context: Context, op: Op) -> None:
        source = operand(op, "source")
        view, type_ = context.view(source), view_type(source)
        places = form.positions(context, op, "source", op.results[0])
        if not form.masked:
            lanes = [load_element(context, view, place(), type_, op) for place in places]
            context.bind(op.results[0], Vector(tuple(lanes)))
            return
        lanes = []
        mask, before = (context.lanes(operand(op, name)) for name in ("mask", "passthrough"))
        for place, on, old in zip(places, mask, before, strict=True):
            selection = Selection(context.function, on)
            selection.otherwise([load_element(context, view, place(), type_, op)])
            lanes += selection.end([old])
        context.bind(op.results[0], Vector(tuple(lanes)))

    return load


def _store(form: _Form) -> Rule:
    def store(context: Context, op: Op) -> None:
        value, target = operand(op, "value"), operand(op, "target")
        view, type_ = context.view(target), view_type(target)
        places, lanes = form.positions(context, op, "target", value), context.lanes(value)
        if not form.masked:
            for place, lane in zip(places, lanes, strict=True):
                store_element(context, view, place(), lane, type_, op)
            return
        for place, on, lane in zip(places, context.lanes(operand(op, "mask")), lanes, strict=True):
            selection = Selection(context.function, on)
            store_element(context, view, place(), lane, type_, op)
            selection.end()

    return store


VECTOR_MEMORY_RULES: Final[dict[str, Rule]] = {
    "vector.load": _load(_Form(_footprint, masked=False)),
    "vector.store": _store(_Form(_footprint, masked=False)),
    "vector.load.mask": _load(_Form(_footprint, masked=True)),
    "vector.store.mask": _store(_Form(_footprint, masked=True)),
    "vector.gather": _load(_Form(_offsets, masked=False)),
    "vector.scatter": _store(_Form(_offsets, masked=False)),
    "vector.gather.mask": _load(_Form(_offsets, masked=True)),
    "vector.scatter.mask": _store(_Form(_offsets, masked=True)),
}
"""Vector accesses."""
