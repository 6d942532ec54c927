"""What pool operations mean. Importing this module registers the rules of the dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loom.evaluate import accesses
from loom.evaluate.accesses import Located, memory_dtype
from loom.evaluate.faults import FaultCode, unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.layouts import dense_strides
from loom.evaluate.numeric.formats import Array
from loom.evaluate.pools import Pool
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue, View, format_of, integer
from loom.ir.core import Op
from loom.ir.types import ShapedType


def _page(frame: Frame, op: Op, pool: Pool, page: Array, page_bytes: Array, byte: Array, tile: ShapedType) -> Located:
    """Where a tile lies that starts at a byte of a page; it has to lie in the page, and the page in the pool."""
    if tile.encoding is not None:
        raise unsupported(op, f"a tile with the encoding {tile.encoding}")
    extents = tuple(frame.uniform(op, frame.extent(d), "an extent of the tile") for d in tile.dims)
    size = int(np.prod(extents, dtype=np.int64)) * memory_dtype(format_of(tile)).itemsize
    page = page.astype(np.int64)
    whole = pool.buffer.length // np.maximum(page_bytes, 1)
    lane = frame.offender(np.asarray((page < 0) | (page >= whole)))
    if lane is not None:
        number, most = (int(a if a.ndim == 0 else a[lane]) for a in (page, whole))
        raise frame.fault(
            FaultCode.OUT_OF_BOUNDS, op, f"page {number} of a pool of {most} pages", lane, offset=number, bound=most
        )
    lane = frame.offender(np.asarray((byte < 0) | (byte > page_bytes - size)))
    if lane is not None:
        at, most = (int(a if a.ndim == 0 else a[lane]) for a in (byte, page_bytes))
        raise frame.fault(
            FaultCode.OUT_OF_BOUNDS,
            op,
            f"bytes {at} to {at + size - 1} of a page of {most} bytes",
            lane,
            offset=at,
            bound=most,
        )
    ranges = tuple(map(integer, extents))
    view = View(pool.buffer, np.asarray(page * page_bytes + byte), ranges, dense_strides(ranges))
    return accesses.locate(frame, op, view, tile, [integer(0)] * len(extents), extents)


@evaluates("pool.load")
def load(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The elements at the start of a page, row-major."""
    pool, page, page_bytes = operands
    place = _page(frame, op, pool, page, page_bytes, integer(0), op.result.type)
    return (accesses.load(frame, op, place),)


@evaluates("pool.store")
def store(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Puts the elements of a tile into a page, row-major."""
    pool, page, page_bytes, byte, tile = operands
    place = _page(frame, op, pool, page, page_bytes, byte, op.tile.type)
    accesses.store(frame, op, place, tile)
    return ()


def _blocks(frame: Frame, op: Any, pool: Pool, block: Array) -> Array:
    """The block of each active lane; makes the pin counts."""
    size = frame.uniform(op, frame.extent(op.pool.type.dims[0]), "the size of a block")
    length = frame.uniform(op, pool.buffer.length, "the size of the pool")
    count = length // size if size > 0 else 0
    if pool.pins.size != count:
        pool.pins = np.zeros(count, dtype=np.int64)
    block = np.broadcast_to(block.astype(np.int64), (frame.machine.lanes.count,))
    lane = frame.offender(np.asarray((block < 0) | (block >= count)))
    if lane is not None:
        raise frame.fault(
            FaultCode.OUT_OF_BOUNDS,
            op,
            f"block {int(block[lane])} of a pool of {count} blocks",
            lane,
            offset=int(block[lane]),
            bound=count,
        )
    return block if frame.mask is None else block[frame.mask]


@evaluates("pool.pin")
def pin(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """One more pin for each lane."""
    pool: Pool = operands[0]
    blocks = _blocks(frame, op, pool, operands[1])
    np.add.at(pool.pins, blocks, 1)
    return ()


@evaluates("pool.unpin")
def unpin(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """One pin less for each lane; there has to be one."""
    pool: Pool = operands[0]
    blocks = _blocks(frame, op, pool, operands[1])
    np.subtract.at(pool.pins, blocks, 1)
    if (pool.pins[blocks] < 0).any():
        number = int(blocks[np.argmax(pool.pins[blocks] < 0)])
        raise frame.fault(
            FaultCode.UNDEFINED_RESULT, op, f"block {number} is not pinned", frame.first_active, reason="pin count"
        )
    return ()


@evaluates("pool.buffer")
def buffer(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The bytes of the pool."""
    return (operands[0].buffer,)
