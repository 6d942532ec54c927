"""Small static vectors, lane by lane: loads, stores and reductions of the `vector` dialect."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

from loom.ir.core import Op
from loom.ir.types import ShapedType
from loom_target_x86.select import floats, integers
from loom_target_x86.select.context import Context
from loom_target_x86.select.memory import fenced, index_words, load, store
from loom_target_x86.select.rules import selects
from loom_target_x86.select.values import Lanes, Word, is_float, width_of

#: Lanes of one vector beyond which code lane by lane is no help to anybody.
MAX_LANES: Final = 256


def _require_small(c: Context, op: Op, type_: Any) -> ShapedType:
    assert isinstance(type_, ShapedType)
    size = type_.static_size
    if size is None or size > MAX_LANES:
        what = "a dynamic extent" if size is None else f"{size} lanes"
        raise c.unsupported(op, f"'{op.name}' on vectors with {what}")
    c.scalar_type(op, type_.element)
    return type_


def _footprint(c: Context, op: Any, type_: ShapedType, view_rank: int) -> Iterator[list[tuple[Word, int]]]:
    """Index lists of the lanes in row-major order; the vector's axes are the trailing ones of the view."""
    origin = index_words(c, op)
    leading = view_rank - type_.rank
    for place in itertools.product(*(range(extent) for extent in type_.dims if isinstance(extent, int))):
        yield [
            (word, constant + (place[axis - leading] if axis >= leading else 0))
            for axis, (word, constant) in enumerate(origin)
        ]


@selects("vector.load")
def _load(c: Context, op: Any) -> None:
    type_ = _require_small(c, op, op.result.type)
    if fenced(c, op):
        c.builder.fence()
    view = c.view(op.source)
    places = _footprint(c, op, type_, op.source.type.rank)
    c.bind(op.result, Lanes(tuple(load(c, op, view, type_.element, place) for place in places)))
    if fenced(c, op):
        c.builder.fence()


@selects("vector.store")
def _store(c: Context, op: Any) -> None:
    type_ = _require_small(c, op, op.value.type)
    if fenced(c, op):
        c.builder.fence()
    view = c.view(op.target)
    places = _footprint(c, op, type_, op.target.type.rank)
    for value, place in zip(c.lanes(op.value), places, strict=True):
        store(c, op, value, view, type_.element, place)
    if fenced(c, op):
        c.builder.fence()


@selects("vector.reduce")
def _reduce(c: Context, op: Any) -> None:
    type_ = _require_small(c, op, op.source.type).element
    value = c.value(op.init)
    for lane in c.lanes(op.source):
        if is_float(type_):
            value = floats.binary_form(op.kind, op.flags)(c, type_, value, lane)
        else:
            value = c.register(integers.BINARY[op.kind](c, type_, value, lane), width_of(type_))
    c.bind(op.result, value)
