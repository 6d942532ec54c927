"""Dropping packets that nobody uses: addresses that were folded, constants that became immediates."""

from __future__ import annotations

from loom.dialects.low import ops as low
from loom.ir.core import Op, Region
from loom.low.descriptors import DescriptorSet

_PURE = (low.Const, low.Copy, low.Move, low.Slice, low.Concat, low.Assume, low.StorageAddress, low.StorageReserve)


def drop_unused(region: Region, descriptor_set: DescriptorSet) -> None:
    """Erase operations without effects whose results are unused, users before definitions."""
    # Definitions precede uses in block order except around loops, whose packets may keep each other alive.
    for block in reversed(region.blocks):
        op = block.last
        while op is not None:
            before = op.prev
            if op.results and not any(result.is_used for result in op.results) and _is_pure(op, descriptor_set):
                op.erase()
            op = before


def _is_pure(op: Op, descriptor_set: DescriptorSet) -> bool:
    if isinstance(op, _PURE):
        return True
    if not isinstance(op, low.Packet):
        return False
    effects = descriptor_set.by_key[op.key].effects
    return not (effects.side_effects or effects.writes or effects.terminator or effects.reads - {"constant"})
