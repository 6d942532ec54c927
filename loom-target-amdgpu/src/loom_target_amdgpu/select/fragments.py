"""Matrix fragments: loads and stores of the elements that each lane of a wave holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from loom.facts.fragments import FragmentShape, Placement, find_placement, offered_tiles
from loom.facts.integers import IntegerFacts
from loom.ir.core import Op, Value
from loom.ir.diagnostics import LoomError, fail
from loom.ir.types import ScalarType
from loom.text.directives import index_entries
from loom_target_amdgpu.select.kernel import lane_id
from loom_target_amdgpu.select.layouts import scaled_index, scaled_number, strides
from loom_target_amdgpu.select.linear import plus
from loom_target_amdgpu.select.memory import element_offset, load_words, store_words
from loom_target_amdgpu.select.packing import as_packed, pack_words, packed
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Linear, Number, Packed, Vector, View, Word
from loom_target_amdgpu.select.vector_lanes import Element, apply_scalar, element_type, elements, shape
from loom_target_amdgpu.select.vector_memory import pack, pieces, runs, unpack


def refuse_matrix(s: Selector, op: Op, message: str) -> LoomError:
    """The diagnostic for a matrix that no instruction of the processor takes."""
    return fail(
        "AMDGPU/021",
        f"{message} on {s.processor.name}",
        op.loc,
        hint=f"it multiplies {', '.join(tile.name for tile in offered_tiles(s.facts.target_facts)) or 'no matrices'}",
        emitter="source-to-low",
        op_name=op.name,
        target_name=s.processor.name,
        matrix_constraint="tile",
    )


def placement_of(s: Selector, op: Op, given: FragmentShape, value: Value) -> Placement:
    """Where the elements of a fragment lie.

    Raises:
        LoomError: extents that are not known, or a fragment that the processor does not have.
    """
    extents = [s.facts.exact(v) for v in (given.rows, given.columns)]
    rows, columns = extents
    if rows is None or columns is None:
        raise refuse_matrix(s, op, "a fragment whose shape is not known at compile time has no registers")
    length = math.prod(shape(value))
    type_ = element_type(value)
    found = find_placement(given.role, rows, columns, type_.text, length, offered_tiles(s.facts.target_facts))
    if found is None:
        raise refuse_matrix(s, op, f"no {rows}x{columns} fragment '{given.role}' is {value.type}")
    return found


def refuse_encoded(s: Selector, op: Any) -> None:
    """Only plain single matrices are supported."""
    if op.blocks is not None:
        raise refuse_matrix(s, op, "fragments of several blocks are not supported")
    if "aux" in op.spec.operand_index and op.aux:
        raise refuse_matrix(s, op, "encoded fragments are not supported")


# -- values ----------------------------------------------------------------------------------------------------------


def _fragment(s: Selector, op: Any) -> None:
    refuse_encoded(s, op)
    placement = placement_of(s, op, FragmentShape(op.role, op.rows, op.columns, op), op.result)
    value = s.get(op.data)
    assert isinstance(value, Packed | Vector)
    s.set(op.result, value if placement.alone else as_packed(s, value, element_type(op.result).width))


def _repack(s: Selector, op: Any) -> None:
    refuse_encoded(s, op)
    given = FragmentShape(op.role, op.rows, op.columns, op)
    source, target = placement_of(s, op, given, op.data), placement_of(s, op, given, op.result)
    if source != target:
        raise refuse_matrix(s, op, f"repacking {op.data.type} as {op.result.type} is not supported")
    # Row-major wholes and equal placements differ in the spelling of the type only.
    s.set(op.result, s.get(op.data))


# -- memory ----------------------------------------------------------------------------------------------------------


def _lane_parts(s: Selector, placement: Placement) -> list[tuple[Number, IntegerFacts, int]]:
    """The two numbers that rows and columns are made of: lane modulo and lane divided by the tile's extent.

    Each comes with its facts and with the first lane where it is one.
    """
    if placement.alone:
        return []
    lane, extent = lane_id(s), placement.m
    assert placement.m == placement.n
    parts = [(Number((s.arith.binary("and", lane, extent - 1),)), IntegerFacts(0, extent - 1), 1)]
    if s.wave > extent:
        high = s.arith.binary("shru", lane, extent.bit_length() - 1)
        parts.append((Number((high,)), IntegerFacts(0, s.wave // extent - 1), extent))
    return parts


def _positions(s: Selector, op: Any, view: View, placement: Placement) -> list[Linear]:
    """Byte position of every element that a lane holds.

    Rows and columns of all lane maps are sums of a number of the element and multiples of the lane's two parts.
    """
    if len(view.type.dims) < 2:
        raise refuse_matrix(s, op, f"a fragment of {view.type}, which has no rows and columns")
    size = view.type.element.byte_size
    steps = strides(s, op, view.type)[-2:]
    form = plus(view.offset, element_offset(s, op, view, index_entries(op.indices, op.static_indices)))
    first = placement.element(0, 0)
    for number, facts, lane in _lane_parts(s, placement):
        there = placement.element(lane, 0)
        for axis in range(2):
            factor = there[axis] - first[axis]
            if factor:
                form = plus(form, scaled_number(s, number, facts, steps[axis]), factor * size)
    found = []
    for at in range(placement.length):
        element = form
        for index, step in zip(placement.element(0, at), steps, strict=True):
            element = plus(element, scaled_index(s, index, step), size)
        found.append(element)
    return found


def _view(s: Selector, value: Value) -> View:
    view = s.get(value)
    assert isinstance(view, View)
    return view


def _load(s: Selector, op: Any) -> None:
    refuse_encoded(s, op)
    view = _view(s, op.source)
    type_, stored = element_type(op.result), view.type.element
    placement = placement_of(s, op, FragmentShape(op.role, op.rows, op.columns, op), op.result)
    positions = _positions(s, op, view, placement)
    bits = type_.width
    if stored is type_:
        words = _load_packed(s, op, view, positions, bits)
        s.set(op.result, Packed(s.emit.tuple_of(words, False), bits, placement.length))
        return
    found: list[Element] = []
    for run in runs(positions, stored.byte_size):
        for form, lanes in pieces(s, view.root, run, stored.byte_size):
            loaded = load_words(
                s, op, view.root, form, 8 * stored.byte_size * len(lanes), demanded=view.type.access_alignment
            )
            for element in unpack(s, loaded, stored.byte_size, len(lanes)):
                found.append(_converted(s, op, Number(element), stored, type_))
    s.set(op.result, packed(s, found, bits))


def _load_packed(s: Selector, op: Op, view: View, positions: Sequence[Linear], bits: int) -> tuple[Word, ...]:
    """Words of the elements in order; accesses of whole words are taken as they are."""
    size = bits // 8
    per_word = max(1, 32 // bits)
    words: list[Word] = []
    singles: list[Word] = []
    for run in runs(positions, size):
        for form, lanes in pieces(s, view.root, run, size):
            loaded = load_words(s, op, view.root, form, bits * len(lanes), demanded=view.type.access_alignment)
            if bits >= 32 or (not singles and len(lanes) % per_word == 0):
                words += loaded
                continue
            whole = len(lanes) > 1
            singles += [s.arith.extend(w, bits, False) if whole else w for (w,) in unpack(s, loaded, size, len(lanes))]
            if len(singles) % per_word == 0:
                words += pack_words(s, singles, bits, clean=True)
                singles = []
    if singles:
        words += pack_words(s, singles, bits, clean=True)
    return tuple(words)


def _converted(s: Selector, op: Op, element: Element, source: ScalarType, target: ScalarType) -> Element:
    """An element in another format, rounded once."""
    floats = all(t.text[0] in "fb" for t in (source, target))
    if source is target:
        return element
    if not floats or source.width == target.width:
        raise s.unsupported(op, f"converting {source} to {target} in a fragment access is not supported")
    name = "extf" if source.width < target.width else "fptrunc"
    return apply_scalar(s, name, [(element, source)], target)


def _store(s: Selector, op: Any) -> None:
    refuse_encoded(s, op)
    view = _view(s, op.target)
    type_, stored = element_type(op.value), view.type.element
    placement = placement_of(s, op, FragmentShape(op.role, op.rows, op.columns, op), op.value)
    values: list[tuple[Word, ...]] = []
    for element in elements(s, op.value):
        converted = _converted(s, op, element, type_, stored)
        assert isinstance(converted, Number)
        values.append(converted.words)
    size = stored.byte_size
    for run in runs(_positions(s, op, view, placement), size):
        for form, lanes in pieces(s, view.root, run, size):
            words = pack(s, [values[lane] for lane in lanes], size)
            store_words(s, op, view.root, form, words, 8 * size * len(lanes))


RULES: Final[dict[str, Rule]] = {
    "vector.fragment": _fragment,
    "vector.fragment.repack": _repack,
    "vector.fragment.load": _load,
    "vector.fragment.store": _store,
}
