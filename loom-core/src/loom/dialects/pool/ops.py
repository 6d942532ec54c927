"""Declarations of the ``pool`` dialect (language reference, part 2, section 14.1)."""

from __future__ import annotations

from typing import Final

from loom.dialects.pool import verify as v
from loom.ir.core import Op, Value
from loom.ir.types import OpaqueType
from loom.spec import constraints as c
from loom.spec import model as s

# The device's own handle of a buffer; nothing in the language looks inside.
HAL_BUFFER: Final = OpaqueType("hal.buffer")


@s.op(
    "pool.load",
    " $pool, $page, $page_bytes : type($pool), type($page), type($page_bytes) -> type($result)",
    traits=("reads",),
    verify=v.blocks,
)
class Load(Op):
    """The tile at the start of a page; the page with number ``page`` begins at byte ``page * page_bytes``."""

    pool: Value = s.operand(c.POOL)
    page: Value = s.operand(c.INTEGER)
    page_bytes: Value = s.operand(c.OFFSET)
    result: Value = s.result(c.TILE)


@s.op(
    "pool.store",
    " $pool, $page, $page_bytes, $byte_offset, $tile"
    " : type($pool), type($page), type($page_bytes), type($byte_offset), type($tile)",
    traits=("writes",),
    verify=v.blocks,
)
class Store(Op):
    """Writes a tile into a page, from a byte of the page on."""

    pool: Value = s.operand(c.POOL)
    page: Value = s.operand(c.INTEGER)
    page_bytes: Value = s.operand(c.OFFSET)
    byte_offset: Value = s.operand(c.OFFSET)
    tile: Value = s.operand(c.TILE)


@s.op("pool.pin", " $pool, $block : type($pool), type($block)", traits=("writes",), verify=v.blocks)
class Pin(Op):
    """Adds one to the pin count of a block, atomically."""

    pool: Value = s.operand(c.POOL)
    block: Value = s.operand(c.INTEGER)


@s.op("pool.unpin", " $pool, $block : type($pool), type($block)", traits=("writes",), verify=v.blocks)
class Unpin(Op):
    """Takes one from the pin count of a block, atomically. A block that is not pinned cannot be unpinned."""

    pool: Value = s.operand(c.POOL)
    block: Value = s.operand(c.INTEGER)


@s.op("pool.buffer", " $pool : type($pool) -> type($result)", traits=("pure",), verify=v.blocks)
class Buffer(Op):
    """The raw device buffer behind a pool."""

    pool: Value = s.operand(c.POOL)
    result: Value = s.result(c.exactly(HAL_BUFFER))
