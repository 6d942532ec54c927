"""Asynchronous transfers. They happen where they start; see :mod:`loom.evaluate.transfers` for what follows."""

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
from loom.evaluate.transfers import Transfer
from loom.evaluate.values import RuntimeValue, format_of
from loom.ir.core import Op


@evaluates("kernel.async.copy", "kernel.async.copy.mask", "kernel.async.gather", "kernel.async.gather.mask")
def transfer(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Moves the bytes of each work-item's source; a gather puts them into the slot of its lane."""
    given = {name: operands[at] for name, at in op.spec.operand_index.items()}
    source, target = given["source"], given["target"]
    items = taking_part(frame, given.get("predicate"))
    if items.size == 0:
        return (frozenset(),)
    from_type, to_type = op.source.type, op.target.type
    elements = grid_positions(from_type.dims, math.prod(from_type.dims))
    read_at = accesses.locate_elements(frame, op, source, from_type, *of_items(elements, items))
    into = as_elements(frame, op, read_at, to_type, items.size)
    slots = "gather" in op.name
    dims = to_type.dims[1:] if slots else to_type.dims
    # What of a slot lies behind the footprint may be written too, with anything.
    length = math.prod(dims)
    padded = np.zeros((items.size, length), dtype=into.dtype)
    padded[:, : into.shape[1]] = into
    positions, holders = of_items(grid_positions(dims, length), items)
    if slots:
        positions = [subgroups(frame, op).column[holders], *positions]
    place = accesses.locate_elements(frame, op, target, to_type, positions, holders)
    accesses.store(frame, op, place, accesses.from_memory(place.format, padded.reshape(-1)), Access.WRITE)
    padding = np.broadcast_to(np.arange(length) >= into.shape[1], (items.size, length)).reshape(-1)
    for storage, picked in accesses.parts(frame, place):
        chosen = np.flatnonzero(padding) if picked is None else picked[padding[picked]]
        storage.forget(place.addresses[chosen], into.dtype.itemsize)
    return (frame.machine.stream.start(frame, Transfer(op, read_at, place)),)


def taking_part(frame: Frame, predicate: RuntimeValue | None) -> Array:
    """The work-items that transfer something: the active ones whose predicate, if there is one, holds."""
    chosen = np.ones(frame.machine.lanes.count, dtype=np.bool_) if frame.mask is None else frame.mask
    return np.flatnonzero(chosen if predicate is None else chosen & predicate)


def as_elements(frame: Frame, op: Op, place: accesses.Located, to_type: Any, rows: int) -> Array:
    """The located source elements of so many work-items as elements of the target: ``[rows, count]``."""
    values = accesses.read(frame, op, place)
    raw = np.ascontiguousarray(accesses.to_memory(place.format, values)).view(np.uint8).reshape(rows, -1)
    dtype = memory_dtype(format_of(to_type))
    if raw.shape[1] % dtype.itemsize:
        raise unsupported(op, f"{raw.shape[1]} bytes into elements of {dtype.itemsize} bytes")
    return np.ascontiguousarray(raw).view(dtype).reshape(rows, -1)


def grid_positions(dims: Sequence[int], count: int) -> list[Array]:
    """The coordinates of the first ``count`` elements of a grid, row-major."""
    return [np.asarray(c, dtype=np.int64) for c in np.unravel_index(np.arange(count), tuple(dims))]


def of_items(coordinates: Sequence[Array], items: Array) -> tuple[list[Array], Array]:
    """The coordinates once for each work-item, and the work-item of each."""
    length = coordinates[0].size if coordinates else 1
    return [np.tile(c, items.size) for c in coordinates], np.repeat(items, length)


@evaluates("kernel.async.group")
def group(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Transfers that complete together."""
    return (frame.machine.stream.commit(frame, op, frozenset().union(*operands)),)


@evaluates("kernel.async.wait")
def wait(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The group and all before it are complete."""
    frame.machine.stream.wait(frame, op, operands[0], op.newer_groups)
    return ()
