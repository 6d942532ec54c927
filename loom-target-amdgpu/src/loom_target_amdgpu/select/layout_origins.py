"""Where layouts come from that loops carry: every layout that may take the place of a carried one.

The registers of a loop are chosen before its body is selected. What a body yields is known then as text of the
program only, so that is followed: from a carried layout back to the operations that make layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loom.ir.core import Block, Region, Value
from loom.text.directives import index_entries

Axis = int | Value
_SAME: Final = ("encoding.layout.assume.dense", "encoding.layout.assume.strided")


def origins(value: Value) -> list[tuple[Axis, ...]] | None:
    """Strides of every layout that a value may be, one entry per axis; ``None`` where one of them has no strides."""
    found: list[tuple[Axis, ...]] = []
    seen: set[Value] = set()
    work = [value]
    while work:
        current = work.pop()
        if current in seen:
            continue
        seen.add(current)
        strides = _made(current)
        if strides is not None:
            found.append(strides)
            continue
        sources = _sources(current)
        if sources is None:
            return None
        work.extend(sources)
    return found


def _made(value: Value) -> tuple[Axis, ...] | None:
    """The strides of a layout that an operation makes."""
    op: Any = value.defining_op
    if op is None:
        return None
    if op.name == "encoding.layout.strided":
        return tuple(index_entries(op.strides, op.static_strides))
    if op.name == "encoding.define" and op.definition.family == "encoding.layout.strided" and not op.params:
        return tuple(int(stride) for stride in op.definition.param("strides"))
    return None


def _end(region: Region) -> Sequence[Value]:
    end = region.entry.last
    assert end is not None
    return end.operands


def _sources(value: Value) -> list[Value] | None:
    """What a value stands for: the values that flow to it; ``None`` for a value that begins here."""
    if isinstance(value.owner, Block):
        return _of_argument(value.owner, value.index)
    op: Any = value.owner
    index = value.index
    if op.name in _SAME:
        return [op.operands[0]]
    if op.name == "scf.select":
        return [op.true_value, op.false_value]
    if op.name == "scf.lookup":
        return list(op.values[index :: len(op.results)])
    if op.name == "scf.for":
        return [op.iter_args[index], _end(op.body)[index]]
    if op.name == "scf.while":
        return [_end(op.before)[index + 1]]
    if op.name in ("scf.if", "scf.switch"):
        return [_end(region)[index] for region in op.regions if region.blocks]
    return None


def _of_argument(block: Block, index: int) -> list[Value] | None:
    region = block.parent
    op: Any = region.parent if region is not None else None
    if op is None:
        return None
    if op.name == "scf.for":
        return [op.iter_args[index - 1], _end(op.body)[index - 1]]
    if op.name == "scf.while":
        if region is op.before:
            return [op.iter_args[index], _end(op.after)[index]]
        return [_end(op.before)[index + 1]]
    return None
