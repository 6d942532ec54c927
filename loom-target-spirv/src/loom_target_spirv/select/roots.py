"""Which scratch allocation every buffer and view of a kernel comes from, and how each allocation is accessed.

Scratch becomes array variables, so what a view points into must be known when its accesses are written: views of
different allocations cannot meet.  Device memory is addressed by number and needs no such knowledge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from loom.ir.core import Op, Value
from loom.ir.types import BUFFER, ScalarType, ShapedType

_SAME_ROOT: Final = frozenset(
    {
        "buffer.assume.alignment",
        "buffer.assume.memory_space",
        "buffer.assume.noalias",
        "buffer.view",
        "view.refine",
        "view.subview",
    }
)


@attrs.define(eq=False)
class ScratchUse:
    """What accesses an allocation: element types through its views, the weakest alignment in bytes, and whether
    atomics are among the accesses.
    """

    elements: dict[ScalarType, None] = attrs.field(factory=dict)
    alignment: int = 8
    atomic: bool = False


@attrs.define(eq=False)
class Roots:
    """`of` maps buffers and views to their `buffer.alloca`, or to None where they lie in device memory.

    `conflict` is the first operation where values of different allocations, or of an allocation and of device
    memory, meet.
    """

    of: dict[Value, Op | None] = attrs.field(factory=dict)
    uses: dict[Op, ScratchUse] = attrs.field(factory=dict)
    conflict: Op | None = None


def find_roots(kernel: Op) -> Roots:
    """Follow every allocation of a kernel through views, assumptions and structured control flow.

    One pass in program order suffices: a loop keeps the root of its initial values.
    """
    roots = Roots()
    for op in kernel.regions[-1].entry:
        for inner in op.walk():
            _visit(inner, roots)
    return roots


def _visit(op: Op, roots: Roots) -> None:
    name = op.name
    if name == "buffer.alloca":
        roots.of[op.results[0]] = op
        roots.uses[op] = ScratchUse()
    elif name in _SAME_ROOT:
        _join(op, op.operands, op.results, roots)
    elif name == "buffer.assume.same_root":
        _join(op, op.operands[1:], op.results, roots)
    elif name == "scf.select":
        for value in op.operands[1:]:
            _join(op, (value,), op.results, roots)
    elif name == "scf.lookup":
        columns = len(op.results)
        for index, value in enumerate(op.group(1)):
            _join(op, (value,), op.results[index % columns :][:1], roots)
    elif name == "scf.for":
        _join(op, op.group(3), op.regions[0].entry.args[1:], roots)
        _join(op, op.group(3), op.results, roots)
    elif name == "scf.while":
        _join(op, op.operands, op.regions[0].entry.args, roots)
    elif name == "scf.condition":
        loop = op.parent_op
        assert loop is not None
        _join(op, op.operands[1:], loop.regions[1].entry.args, roots)
        _join(op, op.operands[1:], loop.results, roots)
    elif name.startswith("view.atomic."):
        for value in op.operands:
            root = roots.of.get(value)
            if root is not None:
                roots.uses[root].atomic = True
    elif name == "scf.yield":
        parent = op.parent_op
        assert parent is not None
        if parent.name == "scf.for":
            targets = parent.regions[0].entry.args[1:]
        elif parent.name == "scf.while":
            targets = parent.regions[0].entry.args
        else:
            targets = parent.results
        _join(op, op.operands, targets, roots)


def _join(op: Op, sources: Iterable[Value], targets: Sequence[Value], roots: Roots) -> None:
    """Say that every target holds what its source holds, at least on one way through the program."""
    for source, target in zip(sources, targets, strict=False):
        type_ = target.type
        is_view = isinstance(type_, ShapedType) and type_.kind == "view"
        if type_ is not BUFFER and not is_view:
            continue
        root = roots.of.get(source)
        if roots.of.setdefault(target, root) is not root:
            roots.conflict = roots.conflict or op
        elif root is not None and isinstance(type_, ShapedType):
            use = roots.uses[root]
            use.elements[type_.element] = None
            use.alignment = min(use.alignment, type_.access_alignment)
