"""Values at joins: what each arm of a conditional or iteration of a loop hands on, in registers of one shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loom.facts.integers import IntegerFacts
from loom.ir.core import Op, Value
from loom.ir.diagnostics import fail
from loom.ir.records import record
from loom.ir.types import ADDRESSES, I1, RegType, ScalarType, ShapedType
from loom_target_amdgpu.select.layout_origins import origins
from loom_target_amdgpu.select.packing import as_packed, as_vector
from loom_target_amdgpu.select.values import (
    S1,
    S2,
    V1,
    Done,
    Layout,
    Linear,
    Mask,
    Number,
    Packed,
    Root,
    ScalarTest,
    Selected,
    Stride,
    Vector,
    View,
    Word,
    as_stride,
)

if TYPE_CHECKING:
    from loom_target_amdgpu.select.selector import Selector


@record
class Shape:
    """How a value travels: registers of the given types, and how to put them together again.

    ``kind`` is ``number``, ``test`` (a uniform 0 or 1), ``mask``, ``fixed`` (nothing travels: the value itself is
    known), ``vector`` with one shape per element, ``packed``: a register tuple (see :class:`Packed`), ``view``: the
    byte position in ``root``, or ``layout``: one shape per stride that differs.
    """

    kind: str
    types: tuple[RegType, ...] = ()
    signed: bool = False
    value: Selected | None = None
    parts: tuple[Shape, ...] = ()
    root: Root | None = None
    view_type: ShapedType | None = None
    facts: IntegerFacts | None = None
    bits: int = 0
    count: int = 0


def shape_for(
    s: Selector,
    result: Value,
    candidates: Sequence[Selected],
    divergent: bool,
    op: Op,
    *,
    fixed_candidates: bool = True,
) -> Shape:
    """The shape that all candidates of a result can take. In divergent flow nothing may stay in scalar registers.

    ``fixed_candidates`` says that the candidates are all there are; a loop that has not been selected yet may yield
    other memory than it starts with.
    """
    first = candidates[0]
    type_ = result.type
    if type_ is I1:
        uniform = not divergent and all(isinstance(c, bool | ScalarTest) for c in candidates)
        return Shape("test", (S1,)) if uniform else Shape("mask", (S2,))
    if isinstance(first, Number):
        assert isinstance(type_, ScalarType)
        if type_ in ADDRESSES:
            count, signed = s.shape_of(s.facts.integer(result))
        else:
            count, signed = len(first.words), False
        scalar = not divergent and all(isinstance(c, Number) and c.scalar for c in candidates)
        return Shape("number", ((S1 if scalar else V1),) * count, signed)
    if any(isinstance(c, Packed) for c in candidates):
        tuples = [c for c in candidates if isinstance(c, Packed)]
        assert isinstance(tuples[0].registers.type, RegType)
        return Shape("packed", (tuples[0].registers.type,), bits=tuples[0].bits, count=tuples[0].count)
    if isinstance(first, Vector):
        assert isinstance(type_, ShapedType)
        return Shape(
            "vector", parts=tuple(_element_shape(candidates, i, divergent) for i in range(len(first.elements)))
        )
    if isinstance(first, Done):
        return Shape("fixed", value=first)
    if isinstance(first, Root | View) and fixed_candidates and all(_same_memory(first, c) for c in candidates):
        return Shape("fixed", value=first)
    if isinstance(first, Layout):
        if fixed_candidates:
            return _layout_shape(s, candidates, divergent, op)
        return _carried_layout_shape(s, result, divergent, op)
    if isinstance(first, View):
        found = _view_shape(s, candidates, divergent)
        if found is not None:
            return found
    raise s.unsupported(
        op, f"a choice between values of type {type_} is not supported on {s.processor.name}", actual_type=str(type_)
    )


def _element_shape(candidates: Sequence[Selected], index: int, divergent: bool) -> Shape:
    elements = [c.elements[index] for c in candidates if isinstance(c, Vector)]
    first = elements[0]
    if isinstance(first, Number):
        scalar = not divergent and all(isinstance(e, Number) and e.scalar for e in elements)
        return Shape("number", ((S1 if scalar else V1),) * len(first.words))
    return Shape("mask", (S2,))


def _same_memory(a: Selected, b: Selected) -> bool:
    if isinstance(a, Root):
        return a is b
    return isinstance(a, View) and isinstance(b, View) and a.root is b.root and a.offset == b.offset


def _layout_shape(s: Selector, candidates: Sequence[Selected], divergent: bool, op: Op) -> Shape:
    layouts = [c.strides for c in candidates if isinstance(c, Layout)]
    if any(strides is None or len(strides) != len(layouts[0] or ()) for strides in layouts):
        raise s.unsupported(op, f"a choice between these layouts is not supported on {s.processor.name}")
    parts = []
    for column in zip(*(strides for strides in layouts if strides is not None), strict=True):
        if all(isinstance(stride, int) and stride == column[0] for stride in column):
            parts.append(Shape("fixed", value=Layout((column[0],))))
            continue
        strides = [as_stride(stride) for stride in column]
        scalar = not divergent and all(stride.number.scalar for stride in strides)
        parts.append(_stride_shape(s, [stride.facts for stride in strides], scalar))
    return Shape("layout", parts=tuple(parts))


def _stride_shape(s: Selector, facts: Sequence[IntegerFacts], scalar: bool) -> Shape:
    """A stride that is one of several."""
    joined = facts[0]
    for other in facts[1:]:
        joined = joined.join(other)
    count, signed = s.shape_of(joined)
    return Shape("number", ((S1 if scalar else V1),) * count, signed, facts=joined)


def _carried_layout_shape(s: Selector, carried: Value, divergent: bool, op: Op) -> Shape:
    """A layout that a loop carries is one of those that flow to it, most of which have not been selected yet."""
    layouts = origins(carried)
    if layouts is None or any(len(strides) != len(layouts[0]) for strides in layouts):
        raise s.unsupported(op, f"a choice between these layouts is not supported on {s.processor.name}")
    parts = []
    for column in zip(*layouts, strict=True):
        exact = {stride if isinstance(stride, int) else s.facts.exact(stride) for stride in column}
        if len(exact) == 1 and None not in exact:
            parts.append(Shape("fixed", value=Layout(tuple(stride for stride in exact if stride is not None))))
            continue
        facts = [IntegerFacts(x, x) if isinstance(x, int) else s.facts.integer(x) for x in column]
        parts.append(_stride_shape(s, facts, not divergent))
    return Shape("layout", parts=tuple(parts))


def _view_shape(s: Selector, candidates: Sequence[Selected], divergent: bool) -> Shape | None:
    """Views travel as byte positions: in one root, or anywhere in workgroup or private storage."""
    views = [c for c in candidates if isinstance(c, View)]
    first = views[0]
    space = first.root.space
    if space == "global":
        if any(view.root.key != first.root.key for view in views):
            return None
        return Shape("view", (V1, V1), root=first.root, view_type=first.type)
    everything = Root(space, None, 0, f"{space}*", alignment=4)
    return Shape("view", (V1,), root=everything, view_type=first.type)


def _view_registers(s: Selector, view: View, shape: Shape) -> list[Value]:
    from loom_target_amdgpu.select.addressing import pair_sum, word_sum

    assert shape.root is not None
    if shape.root.space == "global":
        if view.root.key != shape.root.key:
            raise fail(
                "TARGET/001",
                "views of different buffers cannot take turns on this processor",
                s.emit.loc,
                emitter="source-to-low",
                op_name="scf.yield",
                target_name=s.processor.name,
            )
        return [s.emit.register(word, False) for word in pair_sum(s, view.offset)]
    position = Linear(view.offset.constant + view.root.offset, view.offset.terms)
    return [s.emit.register(word_sum(s, position), False)]


def types_of(shape: Shape) -> list[RegType]:
    """Register types that travel."""
    return list(shape.types) + [t for part in shape.parts for t in types_of(part)]


def registers_of(s: Selector, selected: Selected, shape: Shape) -> list[Value]:
    """The registers a value hands on, in the shape agreed on."""
    if shape.kind == "fixed":
        return []
    if shape.kind == "packed":
        assert isinstance(selected, Packed | Vector)
        return [as_packed(s, selected, shape.bits).registers]
    if shape.kind == "vector":
        assert isinstance(selected, Packed | Vector)
        selected = as_vector(s, selected)
        return [r for e, part in zip(selected.elements, shape.parts, strict=True) for r in registers_of(s, e, part)]
    if shape.kind == "layout":
        assert isinstance(selected, Layout)
        assert selected.strides is not None
        pairs = zip(selected.strides, shape.parts, strict=True)
        return [
            r
            for stride, part in pairs
            if part.kind == "number"
            for r in registers_of(s, as_stride(stride).number, part)
        ]
    if shape.kind == "view":
        assert isinstance(selected, View)
        return _view_registers(s, selected, shape)
    if shape.kind == "number":
        assert isinstance(selected, Number)
        words: tuple[Word, ...] = selected.words
        if len(words) < len(shape.types):
            words = s.extend(selected)
        words = words[: len(shape.types)]
        scalar = shape.types[0] == S1
        return [s.emit.register(word, scalar) for word in words]
    assert isinstance(selected, bool | ScalarTest | Mask)
    if shape.kind == "mask":
        return [s.arith.mask(selected)]
    word = s.condition_word(selected)
    return [s.emit.register(word, True)]


def _stride(s: Selector, part: Shape, registers: list[Value]) -> int | Stride:
    if isinstance(part.value, Layout) and part.value.strides is not None:
        return part.value.strides[0]
    number = rebuild(s, part, registers)
    assert isinstance(number, Number)
    assert part.facts is not None
    return Stride(number, part.facts)


def rebuild(s: Selector, shape: Shape, registers: list[Value]) -> Selected:
    """A value from its registers, which are taken off the front of the list."""
    if shape.kind == "fixed":
        assert shape.value is not None
        return shape.value
    if shape.kind == "vector":
        return Vector(tuple(rebuild(s, part, registers) for part in shape.parts))  # type: ignore[misc]  # parts are elements
    if shape.kind == "layout":
        return Layout(tuple(_stride(s, part, registers) for part in shape.parts))
    taken = [registers.pop(0) for _ in shape.types]
    if shape.kind == "packed":
        return Packed(taken[0], shape.bits, shape.count)
    if shape.kind == "view":
        assert shape.root is not None
        assert shape.view_type is not None
        return View(shape.root, s.computed(Number(tuple(taken), True)), shape.view_type)
    if shape.kind == "number":
        return Number(tuple(taken), shape.signed)
    if shape.kind == "mask":
        return Mask(taken[0])
    return ScalarTest("s_cmp_lg_i32", taken[0], 0)
