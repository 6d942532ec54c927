"""Transfers between global and workgroup memory, and raw bytes.

The processors have no transfer that runs beside a wave and serves every shape, so a transfer is a load and a store
where it starts. That is what the language asks for and no more: a group is complete once it is committed, and waiting
for one has nothing left to do; other invocations need a barrier, as they do anyway.
"""

from __future__ import annotations

import math
from typing import Any, Final

from loom.facts.integers import IntegerFacts
from loom.ir.core import Op, Value
from loom.ir.types import BUFFER, I8, ShapedType
from loom_target_amdgpu.select.control import conditional
from loom_target_amdgpu.select.kernel import lane_id
from loom_target_amdgpu.select.layouts import scaled_index, scaled_number, strides
from loom_target_amdgpu.select.linear import plus
from loom_target_amdgpu.select.memory import load_words, store_words
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Done, Linear, Number, Root, View, Word
from loom_target_amdgpu.select.vector_bits import fields_of_words, words_of_elements
from loom_target_amdgpu.select.vector_lanes import Element, coordinates
from loom_target_amdgpu.select.vector_memory import load_lanes, store_lanes, view_of

_MOST_BYTES: Final = 1024
"""Bytes that one work-item may transfer at once: they pass through its registers."""


def _all_positions(s: Selector, op: Op, view: View, first: Linear, skip: int = 0) -> list[Linear]:
    """Byte position of every element of a view of static extents, leading axes left out."""
    dims = tuple(d for d in view.type.dims[skip:] if isinstance(d, int))
    steps = strides(s, op, view.type)[skip:]
    found = []
    for position in coordinates(dims):
        form = first
        for index, step in zip(position, steps, strict=True):
            form = plus(form, scaled_index(s, index, step), view.type.element.byte_size)
        found.append(form)
    return found


def _bytes(type_: ShapedType, skip: int = 0) -> int | None:
    """Bytes of a footprint; None for dynamic extents."""
    dims = type_.dims[skip:]
    if any(not isinstance(d, int) for d in dims):
        return None
    return math.prod(d for d in dims if isinstance(d, int)) * type_.element.byte_size


def _move(s: Selector, op: Any, gather: bool) -> None:
    source, target = view_of(s, op.source), view_of(s, op.target)
    size = _bytes(source.type)
    if size is None or size > _MOST_BYTES:
        raise s.unsupported(op, f"a transfer of more than {_MOST_BYTES} bytes is not supported on {s.processor.name}")
    origin = target.offset
    if gather:
        step = strides(s, op, target.type)[0]
        lane = Number((lane_id(s),))
        slot = scaled_number(s, lane, IntegerFacts(0, s.wave - 1), step)
        origin = plus(origin, slot, target.type.element.byte_size)
    read = load_lanes(s, op, source, _all_positions(s, op, source, source.offset), source.type.element)
    from_type, to_type = source.type.element, target.type.element
    values: list[Element] = list(read)
    if from_type.width != to_type.width:
        words = words_of_elements(s, values, from_type.width)
        values = fields_of_words(s, words, to_type.width, 8 * size // to_type.width, False, to_type.width)
    positions = _all_positions(s, op, target, origin, 1 if gather else 0)[: len(values)]
    store_lanes(s, op, target, positions, values, to_type)


def _transfer(s: Selector, op: Any) -> None:
    gather = "gather" in op.name
    if op.name.endswith(".mask"):

        def arm() -> list[Any]:
            _move(s, op, gather)
            return []

        conditional(s, op, s.condition(op.predicate), [arm], [])
    else:
        _move(s, op, gather)
    s.set(op.result, Done())


def _group(s: Selector, op: Any) -> None:
    s.set(op.result, Done())


def _wait(s: Selector, op: Op) -> None:
    """Everything before is complete as far as this invocation can tell."""
    s.emit.builder.fence()


# -- bytes -----------------------------------------------------------------------------------------------------------


def _byte(s: Selector, buffer: Value, offset: Value) -> tuple[Root, Linear]:
    root = s.get(buffer)
    assert isinstance(root, Root)
    assert buffer.type is BUFFER
    return root, plus(root.start, s.linear.of(offset))


def _load_byte(s: Selector, op: Any) -> None:
    root, form = _byte(s, op.source, op.byte_offset)
    words: tuple[Word, ...] = load_words(s, op, root, form, I8.width, op.result.name)
    s.set(op.result, Number(words))


def _store_byte(s: Selector, op: Any) -> None:
    root, form = _byte(s, op.target, op.byte_offset)
    store_words(s, op, root, form, (s.number(op.value).lo,), I8.width)


RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys((f"kernel.async.{n}" for n in ("copy", "copy.mask", "gather", "gather.mask")), _transfer),
    "kernel.async.group": _group,
    "kernel.async.wait": _wait,
    "buffer.load.i8.u": _load_byte,
    "buffer.store.i8": _store_byte,
}
