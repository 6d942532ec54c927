"""Vector atomics, and memory accesses whose positions depend on which lanes take part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loom.facts.integers import IntegerFacts
from loom.ir.core import Block
from loom.text.directives import index_entries
from loom_target_amdgpu.select.atomics import (
    after,
    before,
    combine_at,
    exchange_at,
    exchange_ordering,
    require_indivisible,
)
from loom_target_amdgpu.select.control import conditional
from loom_target_amdgpu.select.layouts import scaled_number, strides
from loom_target_amdgpu.select.linear import plus
from loom_target_amdgpu.select.memory import element_offset, from_memory, storage_bits
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Condition, Linear, Number, Vector, View, Word
from loom_target_amdgpu.select.vector_lanes import Element, element_type, elements
from loom_target_amdgpu.select.vector_memory import (
    guarded_load,
    guarded_store,
    indexed_positions,
    view_of,
    words_of,
)

# -- atomics ---------------------------------------------------------------------------------------------------------


def _combine(s: Selector, op: Any) -> None:
    """One atomic per active lane, one after the other; ordering surrounds them all."""
    view, type_ = view_of(s, op.target), element_type(op.value)
    values = elements(s, op.value)
    masked = op.name.endswith(".mask")
    masks: Sequence[Element] = elements(s, op.mask) if masked else [True] * len(values)
    returns = bool(op.results) and op.results[0].is_used
    others: Sequence[Element] = elements(s, op.passthrough) if masked and op.results else values
    scope, ordering = str(op.scope), str(op.ordering)
    before(s, view.root, ordering, scope)
    found: list[Element] = []
    for form, mask, value, other in zip(indexed_positions(s, op, view), masks, values, others, strict=True):
        assert not isinstance(mask, Number)
        require_indivisible(s, op, op.target, view, form)
        found += _combine_lane(s, op, view, form, mask, words_of(s, value, type_), other if returns else None)
    after(s, view.root, ordering, scope)
    if returns:
        s.set(op.result, Vector(tuple(found)))


def _combine_lane(
    s: Selector, op: Any, view: View, form: Linear, mask: Condition, words: tuple[Word, ...], other: Element | None
) -> list[Element]:
    """The atomic of one lane; its old value if there is another to stand for it."""
    type_ = element_type(op.value)
    result = Block([type_]).args[0]

    def arm() -> list[Any]:
        old = combine_at(s, op, view.root, form, type_, words, other is not None)
        return [from_memory(s, type_, old, result)] if other is not None and old is not None else []

    if other is None:
        conditional(s, op, mask, [arm], [])
        return []
    return conditional(s, op, mask, [arm, lambda: [other]], [result])  # type: ignore[return-value]  # elements


def _compare_exchange(s: Selector, op: Any) -> None:
    view, type_ = view_of(s, op.target), element_type(op.value)
    scope, ordering = str(op.scope), exchange_ordering(op)
    before(s, view.root, ordering, scope)
    found: list[Element] = []
    lanes = zip(indexed_positions(s, op, view), elements(s, op.expected), elements(s, op.value), strict=True)
    for form, expected, value in lanes:
        require_indivisible(s, op, op.target, view, form)
        given, new = (words_of(s, e, type_) for e in (expected, value))
        old = exchange_at(s, op, view.root, form, type_, given, new)
        found.append(from_memory(s, type_, old, Block([type_]).args[0]))
    after(s, view.root, ordering, scope)
    s.set(op.result, Vector(tuple(found)))


# -- dense memory for sparse lanes -----------------------------------------------------------------------------------


def _dense_positions(s: Selector, op: Any, view: View, masks: Sequence[Element]) -> list[Linear]:
    """For every lane the position behind the active lanes before it."""
    origin = plus(view.offset, element_offset(s, op, view, index_entries(op.indices, op.static_indices)))
    step = strides(s, op, view.type)[-1]
    size = view.type.element.byte_size
    before_it: Word = 0
    found = []
    for lane, mask in enumerate(masks):
        if isinstance(before_it, int):
            form = plus(origin, scaled_number(s, Number((before_it,)), IntegerFacts(before_it, before_it), step), size)
        else:
            form = plus(origin, scaled_number(s, Number((before_it,)), IntegerFacts(0, lane), step), size)
        found.append(form)
        assert not isinstance(mask, Number)
        before_it = s.arith.binary("add", before_it, s.condition_word(mask))
    return found


def _expand(s: Selector, op: Any) -> None:
    view, type_ = view_of(s, op.source), element_type(op.result)
    masks = elements(s, op.mask)
    found: list[Element] = []
    lanes = zip(_dense_positions(s, op, view, masks), masks, elements(s, op.passthrough), strict=True)
    for form, mask, old in lanes:
        assert not isinstance(mask, Number)
        found.append(guarded_load(s, op, view, form, type_, mask, old))
    s.set(op.result, Vector(tuple(found)))


def _compress(s: Selector, op: Any) -> None:
    view, type_ = view_of(s, op.target), element_type(op.value)
    masks = elements(s, op.mask)
    for form, mask, value in zip(_dense_positions(s, op, view, masks), masks, elements(s, op.value), strict=True):
        assert not isinstance(mask, Number)
        guarded_store(s, op, view, form, words_of(s, value, type_), storage_bits(type_), mask)


RULES: Final[dict[str, Rule]] = {
    "vector.atomic.reduce": _combine,
    "vector.atomic.reduce.mask": _combine,
    "vector.atomic.rmw": _combine,
    "vector.atomic.rmw.mask": _combine,
    "vector.atomic.cmpxchg": _compare_exchange,
    "vector.load.expand": _expand,
    "vector.store.compress": _compress,
}
