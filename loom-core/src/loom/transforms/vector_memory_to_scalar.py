"""Vector accesses element by element (pass ``vector-memory-to-scalar``; language reference, part 3, section 11).

For targets that load and store single elements only, and as the step in front of ``promote-private-fragments`` or
``linearize-view-accesses`` where elements matter one by one. An element of a masked access is accessed under a
conditional, so that disabled lanes touch nothing. ``volatile`` accesses stay whole, as do atomics, expansion and
compression, whose addresses depend on other lanes, and vectors of run-time extents or of more than ``MAX_LANES`` lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loom.dialects.index import ops as index_ops
from loom.dialects.scf import ops as scf_ops
from loom.dialects.view import ops as view_ops
from loom.ir.core import Block, Op, Region, Value
from loom.ir.types import INDEX, ScalarType
from loom.spec.kinds import DYNAMIC
from loom.text.directives import index_entries
from loom.transforms.lanes import Emitter, Lanes, coordinates, in_front_of, lane_count

_LOADS: Final = ("vector.load", "vector.load.mask", "vector.gather", "vector.gather.mask")
_STORES: Final = ("vector.store", "vector.store.mask", "vector.scatter", "vector.scatter.mask")

Entry = int | Value


def scalarize_accesses(function: Op) -> int:
    """Rewrite the vector accesses of a function; how many there were."""
    lanes = Lanes()
    rewritten = 0
    for op in list(function.walk()):
        if op.name in (*_LOADS, *_STORES) and _is_rewritable(op):
            _rewrite(op, lanes)
            rewritten += 1
    return rewritten


def _is_rewritable(op: Any) -> bool:
    whole = op.result if op.name in _LOADS else op.value
    flags = op.attribute("flags") if "flags" in op.spec.attribute_index else None
    return lane_count(whole.type) is not None and not flags


def _rewrite(op: Any, lanes: Lanes) -> None:
    loads = op.name in _LOADS
    type_ = op.result.type if loads else op.value.type
    masks = lanes.of(op.mask) if "mask" in op.spec.operand_index else None
    others = lanes.of(op.passthrough) if loads and masks else None
    offsets = lanes.of(op.offsets) if "offsets" in op.spec.operand_index else None
    values = None if loads else lanes.of(op.value)
    made: list[Value] = []
    for number, place in enumerate(coordinates(type_.dims)):

        def access(emit: Emitter, number: int = number, place: tuple[int, ...] = place) -> list[Value]:
            at = _at_offset(emit, op, offsets[number]) if offsets else _at_place(emit, op, place)
            if loads:
                return [_load(emit, op, at, type_.element)]
            assert values is not None
            _store(emit, op, at, values[number])
            return []

        if masks is None:
            made += access(in_front_of(op))
        else:
            made += _guarded(op, masks[number], access, [others[number]] if others else [])
    if loads:
        lanes.put(op, made)
    else:
        op.erase()


def _guarded(op: Op, condition: Value, access: Any, others: Sequence[Value]) -> list[Value]:
    """An access under a condition; elsewhere its result is another value."""
    regions = []
    for made in (access, lambda emit: list(others)):
        block = Block()
        end = scf_ops.Yield([], [], segments=(0,))
        block.append(end)
        values = made(Emitter(end, op.loc))
        end.set_operands(values, (len(values),))
        end.loc = op.loc
        regions.append(Region([block]))
    guard = scf_ops.If.build(
        condition=condition,
        regions=regions if others else [regions[0]],
        result_types=[v.type for v in others],
        loc=op.loc,
    )
    guard.insert_before(op)
    return list(guard.results)


def _at_place(emit: Emitter, op: Any, place: Sequence[int]) -> list[Entry]:
    """The index of the element at a coordinate of the vector, whose axes are the last ones of the view."""
    entries = index_entries(op.indices, op.static_indices)
    leading = len(entries) - len(place)
    return [*entries[:leading], *(_moved(emit, e, n) for e, n in zip(entries[leading:], place, strict=True))]


def _moved(emit: Emitter, entry: Entry, distance: int) -> Entry:
    if isinstance(entry, int):
        return entry + distance
    return entry if distance == 0 else emit.sum_of(entry, emit.constant(INDEX, distance))


def _at_offset(emit: Emitter, op: Any, offset: Value) -> list[Entry]:
    """The index of the element at a signed offset along the last axis."""
    *leading, last = index_entries(op.indices, op.static_indices)
    if offset.type is not INDEX:
        offset = emit(index_ops.Cast([offset], [], [INDEX]))
    if isinstance(last, int):
        return [*leading, offset if last == 0 else emit.sum_of(offset, emit.constant(INDEX, last))]
    return [*leading, emit.sum_of(last, offset)]


def _load(emit: Emitter, op: Any, at: Sequence[Entry], element: ScalarType) -> Value:
    dynamic, static = _split(at)
    attributes = [None, static, op.cache_scope, op.cache_temporal]
    return emit(view_ops.Load([op.source, *dynamic], attributes, [element], segments=(1, len(dynamic))))


def _store(emit: Emitter, op: Any, at: Sequence[Entry], value: Value) -> None:
    dynamic, static = _split(at)
    attributes = [None, static, op.cache_scope, op.cache_temporal]
    store = view_ops.Store([value, op.target, *dynamic], attributes, segments=(1, 1, len(dynamic)))
    emit.place(store)


def _split(at: Sequence[Entry]) -> tuple[list[Value], tuple[int, ...]]:
    return [e for e in at if isinstance(e, Value)], tuple(e if isinstance(e, int) else DYNAMIC for e in at)
