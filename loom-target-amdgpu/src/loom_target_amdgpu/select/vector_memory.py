"""Vector loads and stores: runs of neighbouring elements in as few machine accesses as their alignment allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from loom.ir.core import Block, Value
from loom.ir.records import evolve, record
from loom.ir.types import I1, ScalarType
from loom.text.directives import index_entries
from loom_target_amdgpu.select.control import conditional
from loom_target_amdgpu.select.layouts import scaled_index, strides
from loom_target_amdgpu.select.linear import plus, times
from loom_target_amdgpu.select.memory import element_offset, from_memory, load_words, storage_bits, store_words
from loom_target_amdgpu.select.packed_lanes import paired
from loom_target_amdgpu.select.packing import pack_words
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Condition, Linear, Number, Root, Vector, View, Word
from loom_target_amdgpu.select.vector_lanes import Element, coordinates, element_type, elements, shape


@record
class Run:
    """Neighbouring elements: position of the first, and their numbers in the vector."""

    form: Linear
    lanes: tuple[int, ...]


def _positions(s: Selector, op: Any, view: View, value: Value) -> list[Linear]:
    """Byte position of every element of a vector access."""
    indices = index_entries(op.indices, op.static_indices)
    origin = plus(view.offset, element_offset(s, op, view, indices))
    extents = shape(value)
    steps = strides(s, op, view.type)[len(view.type.dims) - len(extents) :]
    size = view.type.element.byte_size
    found = []
    for position in coordinates(extents):
        form = origin
        for index, stride in zip(position, steps, strict=True):
            form = plus(form, scaled_index(s, index, stride), size)
        found.append(form)
    return found


def runs(forms: Sequence[Linear], size: int) -> list[Run]:
    """Maximal runs of elements that follow each other in memory."""
    found: list[Run] = []
    for lane, form in enumerate(forms):
        last = found[-1] if found else None
        if (
            last is not None
            and form.terms == last.form.terms
            and form.constant == last.form.constant + size * len(last.lanes)
        ):
            found[-1] = evolve(last, lanes=(*last.lanes, lane))
        else:
            found.append(Run(form, (lane,)))
    return found


def known_alignment(s: Selector, root: Root, form: Linear) -> int:
    """The alignment of a position in bytes that its root and its terms show."""
    known = math.gcd(root.alignment, form.constant + root.offset) if form.constant + root.offset else root.alignment
    for leaf, scale in form.terms:
        known = math.gcd(known, scale * s.linear.leaf_facts(leaf, None).divisor)
    return known


def pieces(s: Selector, root: Root, run: Run, size: int) -> list[tuple[Linear, tuple[int, ...]]]:
    """A run cut into machine accesses: (position, lanes)."""
    found = []
    done = 0
    while done < len(run.lanes):
        form = plus(run.form, Linear(done * size))
        left = (len(run.lanes) - done) * size
        width = _width(s, root, form, size, left)
        count = max(1, width // size)
        found.append((form, run.lanes[done : done + count]))
        done += count
    return found


def _width(s: Selector, root: Root, form: Linear, size: int, left: int) -> int:
    """Bytes of the next access."""
    # Global memory may be read at element alignment; that buffers begin at words decides only what is worth merging.
    presumed = evolve(root, alignment=4) if root.space == "global" and root.alignment < 4 else root
    alignment = max(known_alignment(s, presumed, form), size)
    if size < 4 and alignment < 4:
        return size
    for width in (16, 12, 8, 4):
        if width > left or width % size:
            continue
        # Workgroup storage wants the natural alignment of wide accesses; other memory wants whole words only.
        if root.space == "workgroup" and width > 4 and alignment % (16 if width == 12 else width):
            continue
        return width
    return size


def unpack(s: Selector, words: tuple[Word, ...], size: int, count: int) -> list[tuple[Word, ...]]:
    """Elements of ``size`` bytes from loaded words."""
    if size == 8:
        return [words[2 * i : 2 * i + 2] for i in range(count)]
    if size == 4 or count == 1:
        return [words[i : i + 1] for i in range(count)]
    per_word = 4 // size
    found: list[tuple[Word, ...]] = []
    for i in range(count):
        # Upper bits of narrow elements are undefined: the lowest element of a word is the word itself.
        found.append((s.arith.binary("shru", words[i // per_word], 8 * size * (i % per_word)),))
    return found


def pack(s: Selector, values: Sequence[tuple[Word, ...]], size: int) -> tuple[Word, ...]:
    """Words to store from elements of ``size`` bytes."""
    if size >= 4 or len(values) == 1:
        return tuple(word for value in values for word in value)
    return pack_words(s, [word for (word,) in values], 8 * size)


def view_of(s: Selector, value: Value) -> View:
    """What the selector knows of a view."""
    view = s.get(value)
    assert isinstance(view, View)
    return view


def _load(s: Selector, op: Any) -> None:
    view, type_ = view_of(s, op.source), element_type(op.result)
    forms = _positions(s, op, view, op.result)
    pairs = _in_pairs(s, view, forms) if type_.width == 16 else None
    if pairs is None:
        s.set(op.result, Vector(tuple(load_lanes(s, op, view, forms, type_))))
        return
    words: list[Word] = []
    for form, lanes in pairs:
        words += load_words(s, op, view.root, form, 16 * len(lanes), demanded=view.type.access_alignment)
    s.set(op.result, paired(s, tuple(words)))


def _in_pairs(s: Selector, view: View, forms: Sequence[Linear]) -> list[tuple[Linear, tuple[int, ...]]] | None:
    """The accesses of 16-bit elements, if each of them is of whole words."""
    found = [piece for run in runs(forms, 2) for piece in pieces(s, view.root, run, 2)]
    return found if found and all(len(lanes) % 2 == 0 for _, lanes in found) else None


def load_lanes(s: Selector, op: Any, view: View, forms: Sequence[Linear], type_: ScalarType) -> list[Element]:
    """The elements at byte positions of a view."""
    size = view.type.element.byte_size
    found: list[Element | None] = [None] * len(forms)
    for run in runs(forms, size):
        for form, lanes in pieces(s, view.root, run, size):
            words = load_words(s, op, view.root, form, 8 * size * len(lanes), demanded=view.type.access_alignment)
            for lane, value in zip(lanes, unpack(s, words, size, len(lanes)), strict=True):
                found[lane] = from_memory(s, type_, value, Block([type_]).args[0])
    return [element for element in found if element is not None]


def words_of(s: Selector, element: Element, type_: ScalarType) -> tuple[Word, ...]:
    """The words that a store of an element writes."""
    if type_ is I1:
        assert not isinstance(element, Number)
        return (s.condition_word(element),)
    assert isinstance(element, Number)
    if storage_bits(type_) == 64 and len(element.words) == 1:
        return s.extend(element)
    return element.words


def _store(s: Selector, op: Any) -> None:
    view = view_of(s, op.target)
    forms, held = _positions(s, op, view, op.value), s.get(op.value)
    halves = held.halves if isinstance(held, Vector) else None
    pairs = _in_pairs(s, view, forms) if halves is not None else None
    if halves is None or pairs is None:
        store_lanes(s, op, view, forms, elements(s, op.value), element_type(op.value))
        return
    for form, lanes in pairs:
        words = halves[lanes[0] // 2 : lanes[-1] // 2 + 1]
        store_words(s, op, view.root, form, words, 16 * len(lanes))


def store_lanes(
    s: Selector, op: Any, view: View, forms: Sequence[Linear], lanes: Sequence[Element], type_: ScalarType
) -> None:
    """Write elements to byte positions of a view."""
    size = view.type.element.byte_size
    values = [words_of(s, e, type_) for e in lanes]
    for run in runs(forms, size):
        for form, part in pieces(s, view.root, run, size):
            store_words(s, op, view.root, form, pack(s, [values[lane] for lane in part], size), 8 * size * len(part))


# -- masked and indexed forms ----------------------------------------------------------------------------------------


def guarded_load(
    s: Selector, op: Any, view: View, form: Linear, type_: ScalarType, condition: Condition, otherwise: Element
) -> Element:
    """An element read where the condition holds, another one elsewhere."""
    result = Block([type_]).args[0]

    def arm() -> list[Any]:
        words = load_words(s, op, view.root, form, storage_bits(type_), demanded=view.type.access_alignment)
        return [from_memory(s, type_, words, result)]

    found = conditional(s, op, condition, [arm, lambda: [otherwise]], [result])
    return found[0]  # type: ignore[return-value]  # an element per arm


def guarded_store(
    s: Selector, op: Any, view: View, form: Linear, words: tuple[Word, ...], bits: int, condition: Condition
) -> None:
    """Words written where the condition holds."""
    def arm() -> list[Any]:
        store_words(s, op, view.root, form, words, bits)
        return []

    conditional(s, op, condition, [arm], [])


def _load_mask(s: Selector, op: Any) -> None:
    view = view_of(s, op.source)
    type_ = element_type(op.result)
    forms = _positions(s, op, view, op.result)
    masks = elements(s, op.mask)
    if all(mask is True for mask in masks):
        s.set(op.result, Vector(tuple(load_lanes(s, op, view, forms, type_))))
        return
    found = []
    for form, mask, old in zip(forms, masks, elements(s, op.passthrough), strict=True):
        assert not isinstance(mask, Number)
        found.append(guarded_load(s, op, view, form, type_, mask, old))
    s.set(op.result, Vector(tuple(found)))


def _store_mask(s: Selector, op: Any) -> None:
    view = view_of(s, op.target)
    type_ = element_type(op.value)
    for form, mask, value in zip(
        _positions(s, op, view, op.value), elements(s, op.mask), elements(s, op.value), strict=True
    ):
        assert not isinstance(mask, Number)
        guarded_store(s, op, view, form, words_of(s, value, type_), storage_bits(type_), mask)


def indexed_positions(s: Selector, op: Any, view: View) -> list[Linear]:
    """Origin plus signed element offsets along the last axis."""
    indices = index_entries(op.indices, op.static_indices)
    origin = plus(view.offset, element_offset(s, op, view, indices))
    last = strides(s, op, view.type)[-1]
    if not isinstance(last, int):
        raise s.unsupported(op, "gathers along an axis of dynamic stride are not supported")
    scale = last * view.type.element.byte_size
    type_ = element_type(op.offsets)
    found = []
    for offset in elements(s, op.offsets):
        assert isinstance(offset, Number)
        if type_.width == 64:
            number = Number(s.extend(offset), True)
        else:
            word = s.arith.extend(offset.lo, type_.width, True)
            number = Number((word, s.arith.sign(word)), True)
        found.append(plus(origin, times(s.computed(number), scale)))
    return found


def _gather(s: Selector, op: Any) -> None:
    view = view_of(s, op.source)
    type_ = element_type(op.result)
    found = []
    for form in indexed_positions(s, op, view):
        words = load_words(s, op, view.root, form, storage_bits(type_), demanded=view.type.access_alignment)
        found.append(from_memory(s, type_, words, Block([type_]).args[0]))
    s.set(op.result, Vector(tuple(found)))


def _gather_mask(s: Selector, op: Any) -> None:
    view = view_of(s, op.source)
    type_ = element_type(op.result)
    found = []
    for form, mask, old in zip(
        indexed_positions(s, op, view), elements(s, op.mask), elements(s, op.passthrough), strict=True
    ):
        assert not isinstance(mask, Number)
        found.append(guarded_load(s, op, view, form, type_, mask, old))
    s.set(op.result, Vector(tuple(found)))


def _scatter(s: Selector, op: Any) -> None:
    view = view_of(s, op.target)
    type_ = element_type(op.value)
    masks: Sequence[Element] = (
        elements(s, op.mask) if op.name.endswith(".mask") else [True] * len(elements(s, op.value))
    )
    for form, mask, value in zip(indexed_positions(s, op, view), masks, elements(s, op.value), strict=True):
        assert not isinstance(mask, Number)
        guarded_store(s, op, view, form, words_of(s, value, type_), storage_bits(type_), mask)


RULES: Final[dict[str, Rule]] = {
    "vector.load": _load,
    "vector.store": _store,
    "vector.load.mask": _load_mask,
    "vector.store.mask": _store_mask,
    "vector.gather": _gather,
    "vector.gather.mask": _gather_mask,
    "vector.scatter": _scatter,
    "vector.scatter.mask": _scatter,
}
