"""Vectors as one value per element: lane-wise arithmetic by the scalar rules, construction and movement."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

from loom.ir.core import Block, Op, Value
from loom.ir.types import ADDRESSES, I1, ScalarType, ShapedType, Type
from loom.spec.registry import lookup
from loom.text.directives import index_entries
from loom_target_amdgpu.select import (
    conversions,
    error_function,
    hyperbolic,
    math_functions,
    powers,
    scalar,
    scalar_float,
    trigonometry,
)
from loom_target_amdgpu.select.compare import compare_words
from loom_target_amdgpu.select.control import choose
from loom_target_amdgpu.select.packed_lanes import paired_lanewise
from loom_target_amdgpu.select.packing import unpacked
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Condition, Number, Packed, Vector, constant

Element = Number | Condition
_SCALAR_RULES: Final = {
    **scalar.RULES,
    **scalar_float.RULES,
    **conversions.RULES,
    **math_functions.RULES,
    **hyperbolic.RULES,
    **trigonometry.RULES,
    **error_function.RULES,
    **powers.RULES,
}


def shape(value: Value) -> tuple[int, ...]:
    """Static extents of a vector."""
    type_ = value.type
    assert isinstance(type_, ShapedType)
    return tuple(d for d in type_.dims if isinstance(d, int))


def element_type(value: Value) -> ScalarType:
    """Element type of a vector, or the type of a scalar."""
    type_ = value.type
    if isinstance(type_, ShapedType):
        return type_.element
    assert isinstance(type_, ScalarType)
    return type_


def elements(s: Selector, value: Value) -> tuple[Element, ...]:
    """The elements of a vector, row-major; a scalar is its own single element."""
    found = s.get(value)
    if isinstance(found, Packed):
        return unpacked(s, found)
    if isinstance(found, Vector):
        return found.elements
    assert isinstance(found, Number | bool) or not isinstance(value.type, ShapedType)
    return (found,)  # type: ignore[return-value]  # scalars are numbers or conditions


def coordinates(extents: Sequence[int]) -> list[tuple[int, ...]]:
    """Row-major coordinates of a shape."""
    return list(itertools.product(*(range(n) for n in extents)))


def flat(position: Sequence[int], extents: Sequence[int]) -> int:
    """Row-major number of a coordinate."""
    number = 0
    for index, extent in zip(position, extents, strict=True):
        number = number * extent + index
    return number


def placeholder(s: Selector, element: Element, type_: Type) -> Value:
    """A value of the given type that stands for an element."""
    value = Block([type_]).args[0]
    s.set(value, element)
    return value


def apply_scalar(
    s: Selector, name: str, operands: Sequence[tuple[Element, Type]], result: Type, like: Op | None = None
) -> Element:
    """The scalar operation ``name`` on elements; attributes come from a vector operation of the same fields."""
    cls = lookup(f"scalar.{name}")
    assert cls is not None
    values = [placeholder(s, element, type_) for element, type_ in operands]
    attributes: list[object] = [None] * len(cls.spec.attributes)
    if like is not None:
        for field, index in cls.spec.attribute_index.items():
            if field in like.spec.attribute_index:
                attributes[index] = like.attribute(field)
    op = cls(values, attributes, [result], loc=like.loc if like is not None else s.emit.loc)
    rule = _SCALAR_RULES.get(op.name)
    if rule is None:
        raise s.unsupported(like if like is not None else op, f"'{op.name}' is not supported on {s.processor.name}")
    rule(s, op)
    found = s.get(op.results[0])
    op.drop_references()
    return found  # type: ignore[return-value]  # scalar results are numbers or conditions


def _lanewise(s: Selector, op: Any) -> None:
    name = op.name.removeprefix("vector.")
    columns = [elements(s, v) for v in op.operands]
    types = [element_type(v) for v in op.operands]
    out = element_type(op.result)
    if all(type_ is out for type_ in types):
        vectors = [v if isinstance(v := s.get(operand), Vector) else None for operand in op.operands]
        together = paired_lanewise(s, name, vectors, out)
        if together is not None:
            s.set(op.result, together)
            return
    found = [apply_scalar(s, name, list(zip(row, types, strict=True)), out, op) for row in zip(*columns, strict=True)]
    s.set(op.result, Vector(tuple(found)))


def _constant(s: Selector, op: Any) -> None:
    type_ = element_type(op.result)
    count = len(coordinates(shape(op.result)))
    literal = op.value
    if type_ is I1:
        element: Element = bool(literal)
    elif type_.text[0] == "f" or type_.text == "bf16":
        element = constant(scalar.float_bits(float(literal), type_), 2 if type_.width == 64 else 1)
    else:
        element = constant(int(literal) & (1 << type_.width) - 1, 2 if type_.width == 64 else 1)
    s.set(op.result, Vector((element,) * count))


def _poison(s: Selector, op: Any) -> None:
    type_ = element_type(op.result)
    element: Element = False if type_ is I1 else constant(0, 2 if type_.width == 64 else 1)
    s.set(op.result, Vector((element,) * len(coordinates(shape(op.result)))))


def _empty(s: Selector, op: Any) -> None:
    s.set(op.result, Vector(()))


def _splat(s: Selector, op: Any) -> None:
    element = elements(s, op.scalar)[0]
    s.set(op.result, Vector((element,) * len(coordinates(shape(op.result)))))


def _step(s: Selector, base: Element, step: Element, type_: ScalarType, count: int) -> list[Element]:
    """base + i * step for the first ``count`` numbers, wrapping in the type."""
    assert isinstance(base, Number)
    assert isinstance(step, Number)
    found: list[Element] = []
    wide = type_.width == 64
    for i in range(count):
        if wide:
            scaled = s.arith.mul64(s.extend(step), (i, 0))
            found.append(Number(s.arith.add64(s.extend(base), scaled), True))
        else:
            found.append(Number((s.arith.mul_add(step.lo, i, base.lo, False),)))
    return found


def _iota(s: Selector, op: Any) -> None:
    count = len(coordinates(shape(op.result)))
    s.set(
        op.result,
        Vector(tuple(_step(s, elements(s, op.base)[0], elements(s, op.step)[0], element_type(op.base), count))),
    )


def _mask_range(s: Selector, op: Any) -> None:
    count = len(coordinates(shape(op.result)))
    type_ = element_type(op.lower)
    positions = _step(s, elements(s, op.lower)[0], elements(s, op.step)[0], type_, count)
    upper = elements(s, op.upper)[0]
    assert isinstance(upper, Number)
    found: list[Element] = []
    for position in positions:
        assert isinstance(position, Number)
        if type_.width == 64:
            found.append(compare_words(s, "slt", s.extend(position), s.extend(upper)))
        else:
            words = (s.arith.extend(n.lo, type_.width, True) for n in (position, upper))
            a, b = words
            found.append(compare_words(s, "slt", (a,), (b,)))
    s.set(op.result, Vector(tuple(found)))


def _from_elements(s: Selector, op: Any) -> None:
    s.set(op.result, Vector(tuple(elements(s, v)[0] for v in op.elements)))


def _broadcast(s: Selector, op: Any) -> None:
    source, target = shape(op.source), shape(op.result)
    values = elements(s, op.source)
    missing = len(target) - len(source)
    found = []
    for position in coordinates(target):
        own = [0 if extent == 1 else i for i, extent in zip(position[missing:], source, strict=True)]
        found.append(values[flat(own, source)])
    s.set(op.result, Vector(tuple(found)))


def _static(s: Selector, op: Any, entries: Sequence[int | Value]) -> list[int] | None:
    """Indices as numbers, when all of them are known."""
    found = []
    for entry in entries:
        exact = entry if isinstance(entry, int) else s.facts.exact(entry)
        if exact is None:
            return None
        found.append(exact)
    return found


def _dynamic_position(s: Selector, op: Any, entries: Sequence[int | Value], extents: Sequence[int]) -> list[Condition]:
    """For every sub-vector that the leading indices can name: whether they name it."""
    found: list[Condition] = []
    for position in coordinates(extents[: len(entries)]):
        matches: Condition = True
        for entry, number in zip(entries, position, strict=True):
            if isinstance(entry, int):
                same: Condition = entry == number
            else:
                words = s.number(entry).words
                same = compare_words(s, "eq", words, tuple(number >> 32 * i & 0xFFFFFFFF for i in range(len(words))))
            matches = scalar.combine(s, "and", matches, same)
        found.append(matches)
    return found


def _extract(s: Selector, op: Any) -> None:
    extents = shape(op.source)
    values = elements(s, op.source)
    entries = index_entries(op.indices, op.static_indices)
    rest = extents[len(entries) :]
    size = len(coordinates(rest))
    static = _static(s, op, entries)
    if static is not None:
        start = flat(static, extents[: len(entries)]) * size
        found = list(values[start : start + size])
    else:
        found = list(values[:size])
        for number, matches in enumerate(_dynamic_position(s, op, entries, extents)):
            for k in range(size):
                found[k] = pick_element(s, op, matches, values[number * size + k], found[k], element_type(op.source))
    s.set(op.result, Vector(tuple(found)) if isinstance(op.result.type, ShapedType) else found[0])


def pick_element(s: Selector, op: Op, condition: Condition, a: Element, b: Element, type_: Type) -> Element:
    """An element where the condition holds, another elsewhere."""
    if a is b:
        return a
    chosen = choose(s, op, condition, a, b, Block([type_]).args[0])
    return chosen  # type: ignore[return-value]  # elements in, element out


def _insert(s: Selector, op: Any) -> None:
    extents = shape(op.target)
    values = list(elements(s, op.target))
    new = elements(s, op.value)
    entries = index_entries(op.indices, op.static_indices)
    size = len(new)
    static = _static(s, op, entries)
    if static is not None:
        start = flat(static, extents[: len(entries)]) * size
        values[start : start + size] = new
    else:
        for number, matches in enumerate(_dynamic_position(s, op, entries, extents)):
            for k in range(size):
                at = number * size + k
                values[at] = pick_element(s, op, matches, new[k], values[at], element_type(op.target))
    s.set(op.result, Vector(tuple(values)))


def _slice(s: Selector, op: Any) -> None:
    source = shape(op.source)
    values = elements(s, op.source)
    entries = index_entries(op.offsets, op.static_offsets)
    static = _static(s, op, entries)
    if static is None:
        raise s.unsupported(op, f"a slice at a position known at run time only is not supported on {s.processor.name}")
    found = []
    for position in coordinates(shape(op.result)):
        found.append(values[flat([a + b for a, b in zip(position, static, strict=True)], source)])
    s.set(op.result, Vector(tuple(found)))


def _concat(s: Selector, op: Any) -> None:
    target = shape(op.result)
    parts = [(shape(v), elements(s, v)) for v in op.parts]
    found = []
    for position in coordinates(target):
        place = list(position)
        for extents, values in parts:
            if place[op.axis] < extents[op.axis]:
                found.append(values[flat(place, extents)])
                break
            place[op.axis] -= extents[op.axis]
    s.set(op.result, Vector(tuple(found)))


def _transpose(s: Selector, op: Any) -> None:
    source = shape(op.source)
    values = elements(s, op.source)
    found = []
    for position in coordinates(shape(op.result)):
        place = [0] * len(source)
        for axis, came_from in enumerate(op.permutation):
            place[came_from] = position[axis]
        found.append(values[flat(place, source)])
    s.set(op.result, Vector(tuple(found)))


def _shuffle(s: Selector, op: Any) -> None:
    values = elements(s, op.source)
    s.set(op.result, Vector(tuple(values[lane] for lane in op.lanes)))


def _interleave(s: Selector, op: Any) -> None:
    source = shape(op.even)
    even, odd = elements(s, op.even), elements(s, op.odd)
    found = []
    for position in coordinates(shape(op.result)):
        place = list(position)
        place[op.axis] //= 2
        found.append((odd if position[op.axis] & 1 else even)[flat(place, source)])
    s.set(op.result, Vector(tuple(found)))


def _deinterleave(s: Selector, op: Any) -> None:
    source = shape(op.source)
    values = elements(s, op.source)
    for parity, result in ((0, op.even), (1, op.odd)):
        found = []
        for position in coordinates(shape(result)):
            place = list(position)
            place[op.axis] = 2 * place[op.axis] + parity
            found.append(values[flat(place, source)])
        s.set(result, Vector(tuple(found)))


def _select(s: Selector, op: Any) -> None:
    conditions = elements(s, op.condition)
    a, b = elements(s, op.true_value), elements(s, op.false_value)
    type_ = element_type(op.result)
    if len(conditions) == 1 and len(a) != 1:
        conditions = conditions * len(a)
    found = []
    for condition, x, y in zip(conditions, a, b, strict=True):
        assert not isinstance(condition, Number)
        found.append(pick_element(s, op, condition, x, y, type_))
    s.set(op.result, Vector(tuple(found)))


def _table_lookup(s: Selector, op: Any) -> None:
    table = elements(s, op.table)
    found = []
    index_type = element_type(op.indices)
    for index in elements(s, op.indices):
        assert isinstance(index, Number)
        current = table[0]
        for number, entry in enumerate(table[1:], 1):
            bits = 32 if index_type in ADDRESSES else index_type.width
            word = index.lo if bits >= 32 else s.arith.extend(index.lo, bits, False)
            current = pick_element(
                s, op, compare_words(s, "eq", (word,), (number,)), entry, current, element_type(op.table)
            )
        found.append(current)
    s.set(op.result, Vector(tuple(found)))


_SPECIAL: Final[dict[str, Callable[[Selector, Any], None]]] = {
    "vector.constant": _constant,
    "vector.poison": _poison,
    "vector.empty": _empty,
    "vector.splat": _splat,
    "vector.iota": _iota,
    "vector.mask.range": _mask_range,
    "vector.from_elements": _from_elements,
    "vector.broadcast": _broadcast,
    "vector.extract": _extract,
    "vector.insert": _insert,
    "vector.slice": _slice,
    "vector.concat": _concat,
    "vector.transpose": _transpose,
    "vector.shuffle": _shuffle,
    "vector.interleave": _interleave,
    "vector.deinterleave": _deinterleave,
    "vector.select": _select,
    "vector.table.lookup": _table_lookup,
}
# Names whose scalar form is no lane-wise operation of a vector.
_NOT_LANEWISE: Final = frozenset({"constant", "assume", "poison", "bitcast"})

RULES: Final[dict[str, Rule]] = {
    **{
        name.replace("scalar.", "vector.", 1): _lanewise
        for name in _SCALAR_RULES
        if name.removeprefix("scalar.") not in _NOT_LANEWISE
    },
    **_SPECIAL,
}
