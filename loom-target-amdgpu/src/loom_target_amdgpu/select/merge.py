"""Values at joins: what each arm of a conditional or iteration of a loop hands on, in registers of one shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from loom.ir.core import Op, Value
from loom.ir.types import ADDRESSES, I1, RegType, ScalarType, ShapedType
from loom_target_amdgpu.select.values import (
    S1,
    S2,
    V1,
    Mask,
    Number,
    Root,
    ScalarTest,
    Selected,
    Vector,
    View,
    Word,
)

if TYPE_CHECKING:
    from loom_target_amdgpu.select.selector import Selector


@attrs.frozen
class Shape:
    """How a value travels: registers of the given types, and how to put them together again.

    ``kind`` is ``number``, ``test`` (a uniform 0 or 1), ``mask``, ``fixed`` (nothing travels: the value itself is
    known), or ``vector`` with one shape per element.
    """

    kind: str
    types: tuple[RegType, ...] = ()
    signed: bool = False
    value: Selected | None = None
    parts: tuple[Shape, ...] = ()


def shape_for(s: Selector, result: Value, candidates: Sequence[Selected], divergent: bool, op: Op) -> Shape:
    """The shape that all candidates of a result can take. In divergent flow nothing may stay in scalar registers."""
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
    if isinstance(first, Vector):
        assert isinstance(type_, ShapedType)
        return Shape("vector", parts=tuple(_element_shape(candidates, i, divergent) for i in range(len(first.elements))))
    if isinstance(first, Root | View) and all(_same_memory(first, c) for c in candidates):
        return Shape("fixed", value=first)
    raise s.unsupported(op, f"a choice between values of type {type_} is not supported on {s.processor.name}",
                        actual_type=str(type_))


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


def types_of(shape: Shape) -> list[RegType]:
    """Register types that travel."""
    return list(shape.types) + [t for part in shape.parts for t in types_of(part)]


def registers_of(s: Selector, selected: Selected, shape: Shape) -> list[Value]:
    """The registers a value hands on, in the shape agreed on."""
    if shape.kind == "fixed":
        return []
    if shape.kind == "vector":
        assert isinstance(selected, Vector)
        return [r for e, part in zip(selected.elements, shape.parts, strict=True) for r in registers_of(s, e, part)]
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


def rebuild(shape: Shape, registers: list[Value]) -> Selected:
    """A value from its registers, which are taken off the front of the list."""
    if shape.kind == "fixed":
        assert shape.value is not None
        return shape.value
    if shape.kind == "vector":
        return Vector(tuple(rebuild(part, registers) for part in shape.parts))  # type: ignore[misc]  # parts are elements
    taken = [registers.pop(0) for _ in shape.types]
    if shape.kind == "number":
        return Number(tuple(taken), shape.signed)
    if shape.kind == "mask":
        return Mask(taken[0])
    return ScalarTest("s_cmp_lg_i32", taken[0], 0)

