"""Tensor transfers: a tile between a tensor in memory and workgroup storage, as a descriptor says.

A subgroup starts one transfer, whatever lanes are active; the first active one stands for it. The views are the
endpoints, so the addresses in the descriptor are not looked at; all else in it has to agree with the views. Elements
of the tile outside of the tensor are read as zero and not written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from loom.dialects.kernel.evaluate_scopes import subgroups
from loom.dialects.kernel.evaluate_transfers import grid_positions
from loom.dialects.kernel.tensor_descriptor import IMAGE_TYPE, RANK_OF_TWO_GROUPS, VALID_COUNT, Descriptor
from loom.evaluate import accesses
from loom.evaluate.accesses import memory_dtype
from loom.evaluate.faults import FaultCode, unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.numeric.formats import Array
from loom.evaluate.races import Access
from loom.evaluate.rules import evaluates
from loom.evaluate.transfers import Transfer
from loom.evaluate.values import RuntimeValue, View, format_of
from loom.ir.core import Op


@attrs.frozen(eq=False)
class Words:
    """The groups of a descriptor as vectors: ``int32[words]`` or ``[lanes, words]`` each."""

    groups: tuple[Array, ...]


@evaluates("kernel.tensor.lds.descriptor")
def descriptor(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The words, which mean something to a transfer only."""
    return (Words(tuple(operands)),)


@evaluates("kernel.async.tensor.load.to.lds", "kernel.async.tensor.store.from.lds")
def tensor_transfer(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Moves one tile for each subgroup."""
    source, target, words = operands
    loads = op.name == "kernel.async.tensor.load.to.lds"
    tensor, tile = (source, target) if loads else (target, source)
    rank = len(tile.extents)
    spots: list[Array] = []
    inside: list[Array] = []
    actors: list[Array] = []
    for lane in _actors(frame, op, words, (tensor, tile)):
        extents, bounds = _check(frame, op, lane, words, tensor, tile)
        count = math.prod(extents)
        grid = np.stack(grid_positions(extents, count)) if count else np.zeros((rank, 0), dtype=np.int64)
        spots.append(grid)
        inside.append(np.asarray((grid < np.asarray(bounds)[:, None]).all(axis=0)))
        actors.append(np.full(count, lane))
    positions, present, lanes = np.concatenate(spots, axis=1), np.concatenate(inside), np.concatenate(actors)
    within = [axis[present] for axis in positions]
    # Loads write the whole tile; stores read of it only what the tensor has room for.
    read_where, read_lanes = within, lanes[present]
    write_where, write_lanes = (list(positions), lanes) if loads else (within, lanes[present])
    read_at = accesses.locate_elements(frame, op, source, op.source.type, read_where, read_lanes)
    values = accesses.read(frame, op, read_at)
    moved = np.zeros(write_lanes.size, dtype=values.dtype)
    moved[present if loads else slice(None)] = values
    place = accesses.locate_elements(frame, op, target, op.target.type, write_where, write_lanes)
    accesses.store(frame, op, place, moved, Access.WRITE)
    return (frame.machine.stream.start(frame, Transfer(op, read_at, place)),)


def _actors(frame: Frame, op: Op, words: Words, views: Sequence[View]) -> Iterator[int]:
    """The first active lane of each subgroup that has one; its active lanes have to agree on everything."""
    row = subgroups(frame, op).row
    active = np.arange(frame.machine.lanes.count) if frame.mask is None else np.flatnonzero(frame.mask)
    arrays = [a for view in views for a in (view.origin, *view.extents, *view.strides, view.buffer.base)]
    arrays += [view.buffer.which for view in views if view.buffer.which is not None]
    varying = [a for a in arrays if a.ndim] + [group for group in words.groups if group.ndim > 1]
    for members in np.split(active, np.flatnonzero(np.diff(row[active])) + 1):
        lane = int(members[0])
        for values in varying:
            differs = (values[members] != values[lane]).reshape(members.size, -1).any(axis=1)
            if differs.any():
                raise frame.fault(
                    FaultCode.UNDEFINED_RESULT,
                    op,
                    f"'{op.name}' has other operands than the first work-item of its subgroup",
                    int(members[np.argmax(differs)]),
                    reason="not uniform",
                )
        yield lane


def _check(
    frame: Frame, op: Any, lane: int, words: Words, tensor: View, tile: View
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The extents of the tile and of the tensor, outermost first, once the descriptor agrees with the views."""

    def one(array: Array) -> int:
        return int(array if array.ndim == 0 else array[lane])

    said = Descriptor.of_words([(g[lane] if g.ndim > 1 else g).tolist() for g in words.groups])
    extents, bounds = tuple(map(one, tile.extents)), tuple(map(one, tensor.extents))
    rank = len(extents)
    loads = op.name == "kernel.async.tensor.load.to.lds"
    for name in ("is_restore", "gather_mode", "atomic_barrier_enable", "iterate_enable"):
        if said.field(name):
            raise unsupported(op, f"a tensor descriptor with '{name}'")
    # A store ignores both.
    for name in ("workgroup_mask", "pad_enable"):
        if loads and said.field(name):
            raise unsupported(op, f"a tensor descriptor with '{name}'")
    size = memory_dtype(format_of(op.source.type)).itemsize
    expected = [
        ("count", said.field("count"), VALID_COUNT),
        ("type", said.field("type"), IMAGE_TYPE),
        ("data_size", said.field("data_size"), size.bit_length() - 1),
    ]
    steps, dense = tuple(map(one, tensor.strides)), 1
    for k, axis in enumerate(reversed(range(rank))):
        expected += [
            (f"tile_dim{k}", said.tile[k], extents[axis]),
            (f"tensor_dim{k}", said.tensor[k], bounds[axis]),
        ]
        if bounds[axis] > 1:
            expected.append((f"the stride of dimension {k}", said.strides[k], steps[axis]))
        if extents[axis] > 1:
            expected.append((f"the stride of dimension {k} of the tile", dense, one(tile.strides[axis])))
        dense *= extents[axis]
    expected += [(f"tile_dim{k}", min(said.tile[k], 1), said.tile[k]) for k in range(rank, len(said.tile))]
    if rank > RANK_OF_TWO_GROUPS:
        expected.append(("the number of groups", len(said.groups), 4))
    for name, actual, wanted in expected:
        if actual != wanted:
            raise frame.fault(
                FaultCode.UNDEFINED_RESULT,
                op,
                f"the tensor descriptor says {actual} for {name}, the views say {wanted}",
                lane,
                reason="descriptor",
            )
    return extents, bounds
