"""Asynchronous transfers. They happen where they start, which is one of the times when they may.

Whether a program waits before it looks is a matter of its verification; groups and waits have nothing to do here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from loom.dialects.kernel.evaluate_scopes import subgroups
from loom.evaluate import accesses
from loom.evaluate.accesses import memory_dtype
from loom.evaluate.faults import unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.numeric.formats import Array
from loom.evaluate.races import Access
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue, format_of
from loom.ir.core import Op

#: Tokens and groups carry nothing: what they stand for is done.
DONE = "done"


@evaluates("kernel.async.copy", "kernel.async.copy.mask", "kernel.async.gather", "kernel.async.gather.mask")
def transfer(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Moves the bytes of each work-item's source; a gather puts them into the slot of its lane."""
    given = {name: operands[at] for name, at in op.spec.operand_index.items()}
    source, target = given["source"], given["target"]
    chosen = np.broadcast_to(given.get("predicate", np.asarray(True)), (frame.machine.lanes.count,))
    items = np.flatnonzero(chosen if frame.mask is None else chosen & frame.mask)
    if items.size == 0:
        return (DONE,)
    from_type, to_type = op.source.type, op.target.type
    elements = _positions(from_type.dims, math.prod(from_type.dims))
    place = accesses.locate_elements(frame, op, source, from_type, *_of_items(elements, items))
    values = accesses.read(frame, op, place)
    raw = np.ascontiguousarray(accesses.to_memory(place.format, values)).view(np.uint8).reshape(items.size, -1)
    size = memory_dtype(format_of(to_type)).itemsize
    if raw.shape[1] % size:
        raise unsupported(op, f"{raw.shape[1]} bytes into elements of {size} bytes")
    into = np.ascontiguousarray(raw).view(memory_dtype(format_of(to_type))).reshape(-1)
    slots = "gather" in op.name
    dims = to_type.dims[1:] if slots else to_type.dims
    positions, holders = _of_items(_positions(dims, into.size // items.size), items)
    if slots:
        positions = [subgroups(frame, op).column[holders], *positions]
    place = accesses.locate_elements(frame, op, target, to_type, positions, holders)
    accesses.store(frame, op, place, accesses.from_memory(place.format, into), Access.WRITE)
    return (DONE,)


def _positions(dims: Sequence[int], count: int) -> list[Array]:
    """The coordinates of the first elements of a grid, row-major."""
    return [np.asarray(c, dtype=np.int64) for c in np.unravel_index(np.arange(count), tuple(dims))]


def _of_items(coordinates: Sequence[Array], items: Array) -> tuple[list[Array], Array]:
    """The coordinates once for each work-item, and the work-item of each."""
    length = coordinates[0].size if coordinates else 1
    return [np.tile(c, items.size) for c in coordinates], np.repeat(items, length)


@evaluates("kernel.async.group")
def group(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Transfers that complete together."""
    return (DONE,)


@evaluates("kernel.async.wait")
def wait(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Everything is complete already."""
    return ()
