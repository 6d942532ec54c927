"""In which memory space the storage behind a view or a buffer lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from loom.ir.core import Block, Op, Value
from loom.ir.types import BufferType, ShapedType

UNKNOWN: Final = "unknown"

# What a value says about its space: the space itself, or the values that it stands for.
Origin = str | Sequence[Value]


def is_storage(value: Value) -> bool:
    """Whether a value refers to memory."""
    type_ = value.type
    return isinstance(type_, BufferType) or (isinstance(type_, ShapedType) and type_.kind == "view")


def touched_spaces(op: Op) -> frozenset[str]:
    """The spaces of everything that an access names."""
    return frozenset(space_of(v) for v in op.operands if is_storage(v))


def space_of(value: Value) -> str:
    """The space that the program establishes for a view or buffer, or ``unknown``.

    Views that rotate through loops or are chosen by conditionals lie in a space if all of their origins do.
    Promises about aliasing establish nothing.
    """
    found: set[str] = set()
    seen = {value}
    pending = [value]
    while pending:
        origin = _origin(pending.pop())
        if isinstance(origin, str):
            found.add(origin)
            continue
        for source in origin:
            if source not in seen:
                seen.add(source)
                pending.append(source)
    return found.pop() if len(found) == 1 else UNKNOWN


def _origin(value: Value) -> Origin:
    op = value.defining_op
    if op is not None:
        rule = _ORIGINS.get(op.name)
        return rule(op, value.index) if rule is not None else UNKNOWN
    region = value.owner.parent if isinstance(value.owner, Block) else None
    if region is None or region.parent is None:
        return UNKNOWN
    parent = region.parent
    if parent.name == "kernel.def" and region is parent.regions[-1] and isinstance(value.type, BufferType):
        # Bindings of a kernel are device memory (language reference, part 2, section 12.1).
        return "global"
    end = region.entry.last
    if parent.name == "scf.for" and value.index > 0 and end is not None:
        return (parent.operands[2 + value.index], end.operands[value.index - 1])
    return UNKNOWN


def _yielded(op: Op, index: int) -> Origin:
    return [region.entry.last.operands[index] for region in op.regions if region.entry.last is not None]


def _first(op: Op, index: int) -> Origin:
    return op.operands[:1]


def _same_position(op: Op, index: int) -> Origin:
    return op.operands[index : index + 1]


def _authored(op: Op, index: int) -> Origin:
    return str(op.attribute("space"))


_ORIGINS: Final[dict[str, Callable[[Op, int], Origin]]] = {
    "buffer.alloca": _authored,
    "buffer.assume.memory_space": _authored,
    "kernel.workgroup.storage": lambda op, index: "workgroup",
    "buffer.assume.alignment": _same_position,
    "buffer.assume.noalias": _same_position,
    "buffer.assume.same_root": _first,
    "buffer.view": _first,
    "view.subview": _first,
    "view.refine": _first,
    "scf.select": lambda op, index: op.operands[1:],
    "scf.lookup": lambda op, index: op.operands[1 + index :: len(op.results)],
    "scf.if": _yielded,
    "scf.switch": _yielded,
    "scf.for": lambda op, index: [op.operands[3 + index], *_yielded(op, index)],
}
