"""Elements of constant data that are known when a program is compiled."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from loom.ir.core import Op, Value
from loom.ir.types import BF16, F16, F32, F64, I1, INTEGERS, ScalarType, ShapedType
from loom.text.directives import index_entries

if TYPE_CHECKING:
    from loom.facts.analysis import FunctionFacts

_FLOATS: Final = {F16: "<e", F32: "<f", F64: "<d"}


def constant_element(op: Any, facts: FunctionFacts) -> list[Value | object] | None:
    """What ``view.load`` reads at a known place of ``global.rodata.def``."""
    type_ = op.source.type
    definition: Any = op.source.defining_op
    if definition is None or definition.name != "buffer.view" or type_.encoding is not None or op.flags:
        return None
    source: Any = definition.source.defining_op
    if source is None or source.name != "global.load":
        return None
    data: Any = facts.global_declaration(source.symbol)
    start = facts.exact(definition.byte_offset, op)
    at = _position(op, type_, facts)
    if data is None or data.name != "global.rodata.def" or start is None or at is None:
        return None
    size = type_.element.byte_size
    first = start + at * size
    # What is read past the end is for the evaluator to find; a misaligned element as well.
    if first % size or not 0 <= first <= len(data.data) - size:
        return None
    return _decode(type_.element, data.data[first : first + size])


def _position(op: Op, type_: ShapedType, facts: FunctionFacts) -> int | None:
    """The row-major position of the element, if extents and indices are known and agree."""
    position = 0
    entries = index_entries(op.indices, op.static_indices)  # type: ignore[attr-defined]
    for entry, extent in zip(entries, type_.dims, strict=True):
        index = facts.exact(entry, op) if isinstance(entry, Value) else entry
        if not isinstance(extent, int) or index is None or not 0 <= index < extent:
            return None
        position = position * extent + index
    return position


def _decode(type_: ScalarType, data: bytes) -> list[Value | object] | None:
    """The literal of little-endian bytes; ``None`` for formats and NaNs that no literal spells bit by bit."""
    if type_ is I1:
        return None
    if type_ in INTEGERS:
        return [int.from_bytes(data, "little", signed=True)]
    number: float
    if type_ is BF16:
        (number,) = struct.unpack("<f", b"\0\0" + data)
    elif type_ in _FLOATS:
        (number,) = struct.unpack(_FLOATS[type_], data)
    else:
        return None
    return None if number != number else [number]
