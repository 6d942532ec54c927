"""View layouts: element strides, dense or stated, known at compile time or not."""

from __future__ import annotations

from typing import Any, Final

from loom.facts.integers import IntegerFacts, mul
from loom.ir.core import Op, Value
from loom.ir.types import ShapedType
from loom.text.directives import index_entries
from loom_target_amdgpu.select.linear import times
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import MASK32, Layout, Linear, Number, Stride, as_stride

MASK24: Final = (1 << 24) - 1
Factor = int | Value
AxisStride = int | Stride | tuple[Factor, ...]
"""A stride in elements: a number, one held in registers, or a product of extents."""


def strides(s: Selector, op: Op, type_: ShapedType) -> list[AxisStride]:
    """Element strides of a view type, one per axis.

    Raises:
        LoomError: a layout that is not strided.
    """
    encoding: Any = type_.encoding
    if encoding is None:
        return _dense(s, type_)
    if isinstance(encoding, Value):
        layout = s.get(encoding)
        if isinstance(layout, Layout):
            return _dense(s, type_) if layout.strides is None else list(layout.strides)
    elif encoding.family == "encoding.layout.strided":
        return [int(stride) for stride in encoding.param("strides")]
    raise s.unsupported(op, f"a view of type {type_} has a layout that is not supported on {s.processor.name}")


def _dense(s: Selector, type_: ShapedType) -> list[AxisStride]:
    """Row-major without gaps; extents of the inner axes multiply up."""
    found: list[AxisStride] = []
    constant = 1
    symbols: tuple[Value, ...] = ()
    for dim in reversed(type_.dims):
        found.append((*symbols, constant) if symbols else constant)
        exact = dim if isinstance(dim, int) else s.facts.exact(dim)
        if exact is not None:
            constant *= exact
        else:
            assert isinstance(dim, Value)
            symbols = (*symbols, dim)
    found.reverse()
    return found


def scaled_index(s: Selector, index: Factor, stride: AxisStride) -> Linear:
    """index * stride."""
    if isinstance(stride, int):
        return Linear(index * stride) if isinstance(index, int) else times(s.linear.of(index), stride)
    if isinstance(stride, Stride):
        return _by_register(s, index, stride)
    factor = 1
    symbols: list[Value] = []
    for part in (*stride, index):
        exact = part if isinstance(part, int) else s.facts.exact(part)
        if exact is not None:
            factor *= exact
        else:
            assert isinstance(part, Value)
            symbols.append(part)
    if factor == 0:
        return Linear(0)
    if not symbols:
        return Linear(factor)
    if len(symbols) == 1:
        return times(s.linear.of(symbols[0]), factor)
    if len(symbols) == 2:
        return times(s.linear.product(symbols[1], symbols[0]), factor)
    return times(s.product_of(symbols), factor)


def scaled_number(s: Selector, number: Number, facts: IntegerFacts, stride: AxisStride) -> Linear:
    """number * stride, for a number that selection has computed."""
    if isinstance(stride, int):
        return times(s.computed(number, facts), stride)
    if isinstance(stride, Stride):
        return _product(s, number, facts, stride)
    factor = 1
    for part in stride:
        exact = part if isinstance(part, int) else s.facts.exact(part)
        if exact is not None:
            factor *= exact
            continue
        assert isinstance(part, Value)
        (leaf, _), *_ = _product(s, number, facts, Stride(s.number(part), s.facts.integer(part))).terms
        number, facts = s.leaf_number(leaf), s.linear.leaf_facts(leaf, None)  # type: ignore[arg-type]  # leaves
    return times(s.computed(number, facts), factor)


def _product(s: Selector, number: Number, own: IntegerFacts, stride: Stride) -> Linear:
    facts = mul(own, stride.facts)
    if facts.within(0, MASK32) and len(stride.number.words) == 1:
        narrow = own.within(0, MASK24) and stride.facts.within(0, MASK24)
        return s.computed(Number((s.arith.multiply(number.lo, stride.number.lo, narrow),)), facts)
    return s.computed(Number(s.arith.mul64(s.extend(number), s.extend(stride.number)), True), facts)


def _by_register(s: Selector, index: Factor, stride: Stride) -> Linear:
    if isinstance(index, int):
        return times(s.computed(stride.number, stride.facts), index)
    exact = s.facts.exact(index)
    if exact is not None:
        return times(s.computed(stride.number, stride.facts), exact)
    return _product(s, s.number(index), s.facts.integer(index), stride)


def _strided(s: Selector, op: Any) -> None:
    found: list[int | Stride] = []
    for entry in index_entries(op.strides, op.static_strides):
        exact = entry if isinstance(entry, int) else s.facts.exact(entry)
        if exact is not None:
            found.append(exact)
        else:
            assert isinstance(entry, Value)
            found.append(Stride(s.number(entry), s.facts.integer(entry)))
    s.set(op.result, Layout(tuple(found)))


def _dense_layout(s: Selector, op: Any) -> None:
    s.set(op.result, Layout(None))


def _same_layout(s: Selector, op: Op) -> None:
    """An assumption about a layout: facts, no instruction."""
    s.set(op.results[0], s.get(op.operands[0]))


def choose_layout(s: Selector, op: Op, condition: Any, a: Layout, b: Layout) -> Layout:
    """A select of two strided layouts, axis by axis."""
    from loom_target_amdgpu.select.scalar import pick

    if a.strides is None or b.strides is None or len(a.strides) != len(b.strides):
        raise s.unsupported(op, f"a choice between these layouts is not supported on {s.processor.name}")
    found: list[int | Stride] = []
    for x, y in zip(a.strides, b.strides, strict=True):
        if isinstance(x, int) and x == y:
            found.append(x)
            continue
        left, right = as_stride(x), as_stride(y)
        count = max(len(left.number.words), len(right.number.words))
        words = [n.words if len(n.words) == count else s.extend(n) for n in (left.number, right.number)]
        facts: IntegerFacts = left.facts.join(right.facts)
        found.append(Stride(Number(pick(s, condition, words[0], words[1]), count == 2), facts))
    return Layout(tuple(found))


def _define(s: Selector, op: Any) -> None:
    """Layouts are values; what other specifications say is looked up where they are used."""
    family = op.definition.family
    if family == "encoding.layout.dense":
        s.set(op.result, Layout(None))
    elif family == "encoding.layout.strided" and not op.params:
        s.set(op.result, Layout(tuple(int(stride) for stride in op.definition.param("strides"))))
    elif family.startswith("encoding.layout"):
        raise s.unsupported(op, f"this layout is not supported on {s.processor.name}")


RULES: Final[dict[str, Rule]] = {
    "encoding.define": _define,
    "encoding.layout.dense": _dense_layout,
    "encoding.layout.strided": _strided,
    "encoding.layout.assume.dense": _same_layout,
    "encoding.layout.assume.strided": _same_layout,
}
