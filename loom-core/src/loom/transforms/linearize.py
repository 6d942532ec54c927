"""Accesses through views of one axis (pass ``linearize-view-accesses``; language reference, part 3, section 11).

For targets that address flat arrays, and for programs whose accesses share rows: the place of an element becomes index
arithmetic, in which equal parts merge and invariant ones leave loops. An access is rewritten if

- its view is formed of a buffer, is dense, has more than one axis, and is proven to have no more elements than an index
  of the target can count;
- it accesses one element, or a vector along the last axis.

A view that is handed on, to calls, loops or other views, stays beside the flat one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from loom.dialects.buffer import ops as buffer_ops
from loom.dialects.index import ops as index_ops
from loom.facts.analysis import FunctionFacts
from loom.ir.core import Op, Value
from loom.ir.types import INDEX, ScalarType, ShapedType
from loom.spec.kinds import DYNAMIC
from loom.spec.registry import lookup
from loom.text.directives import index_entries
from loom.transforms.lanes import Emitter, in_front_of

_ACCESSES: Final = {"view.load": "source", "view.store": "target", "vector.load": "source", "vector.store": "target"}

Entry = int | Value


def linearize_accesses(function: Op, target_facts: Mapping[str, object]) -> int:
    """Rewrite the accesses of a function; how many there were."""
    facts = FunctionFacts(function, target_facts)
    width = target_facts.get("index_bitwidth", 64)
    assert isinstance(width, int)
    flat: dict[Value, Value] = {}
    rewritten = 0
    for op in list(function.walk()):
        if op.name in _ACCESSES and _is_rewritable(op, facts, (1 << width - 1) - 1):
            _rewrite(op, flat)
            rewritten += 1
    return rewritten


def _accessed(op: Any) -> Value:
    value: Value = getattr(op, _ACCESSES[op.name])
    return value


def _is_rewritable(op: Any, facts: FunctionFacts, most: int) -> bool:
    view = _accessed(op)
    type_: Any = view.type
    maker = view.defining_op
    if maker is None or maker.name != "buffer.view" or type_.rank < 2 or type_.encoding is not None:
        return False
    if math.prod(d if isinstance(d, int) else facts.integer(d, op).hi for d in type_.dims) > most:
        return False
    value = op.result if op.name.endswith("load") else op.value
    return isinstance(value.type, ScalarType) or value.type.rank == 1


def _rewrite(op: Any, flat: dict[Value, Value]) -> None:
    view = _accessed(op)
    if view not in flat:
        flat[view] = _flattened(view)
    at = _place(in_front_of(op), op, view)
    constant = isinstance(at, int)
    named = {"indices": [] if constant else [at], "static_indices": (at,) if constant else (DYNAMIC,)}
    fields = {a.name: op.attribute(a.name) for a in op.spec.attributes if a.name != "static_indices"}
    operands = {_ACCESSES[op.name]: flat[view]}
    if not op.results:
        operands["value"] = op.value
    made = type(op).build(**fields, **operands, **named, result_types=[r.type for r in op.results], loc=op.loc)
    made.insert_before(op)
    op.replace_with(list(made.results))


def _flattened(view: Value) -> Value:
    """A view of the same elements with one axis, in front of the view itself."""
    maker: Any = view.defining_op
    type_: Any = view.type
    emit = in_front_of(maker)
    size: Entry = 1
    for extent in type_.dims:
        size = _product(emit, size, extent)
    flat = ShapedType.get("view", (size,), type_.element, None, type_.align)
    made = emit(buffer_ops.View([maker.source, maker.byte_offset], [], [flat]))
    made.name = f"{view.name}_flat" if view.name else None
    return made


def _place(emit: Emitter, op: Any, view: Value) -> Entry:
    """The number of an element in the order of the last axis: Horner's rule over the axes."""
    dims: Any = view.type.dims  # type: ignore[attr-defined]  # a view
    total: Entry = 0
    for extent, entry in zip(dims, index_entries(op.indices, op.static_indices), strict=True):
        total = _sum(emit, _product(emit, total, extent), entry)
    return total


def _product(emit: Emitter, a: Entry, b: Entry) -> Entry:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    for one, other in ((a, b), (b, a)):
        if one == 0:
            return 0
        if one == 1:
            return other
    mul = lookup("index.mul")
    assert mul is not None
    return emit(mul([_value(emit, a), _value(emit, b)], [], [INDEX]))


def _sum(emit: Emitter, a: Entry, b: Entry) -> Entry:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    for one, other in ((a, b), (b, a)):
        if one == 0:
            return other
    return emit.sum_of(_value(emit, a), _value(emit, b))


def _value(emit: Emitter, entry: Entry) -> Value:
    return emit(index_ops.Constant([], [entry], [INDEX])) if isinstance(entry, int) else entry
