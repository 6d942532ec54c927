"""Dropping what nobody uses in target Low (pass ``low-dce``; language reference, part 3, section 11).

For what selection leaves over where it folds operands, and for authors of Low, whose constants and addresses may be.
Memory is left alone: an instruction goes only if it neither reads nor writes it, has no side effect, and writes no
implicit register that an instruction of the function reads.
"""

from __future__ import annotations

from typing import Any, Final

from loom.dialects.low import ops as low
from loom.ir.core import Region
from loom.low.descriptors import DescriptorSet, Effects

_PURE: Final = (
    low.Const, low.Copy, low.Move, low.Slice, low.Concat, low.Assume, low.StorageAddress, low.StorageReserve
)  # fmt: skip


def drop_unused_packets(function: Any) -> int:
    """Erase what nobody uses in a Low function; how many operations there were.

    A function whose contract no installed target has is left alone.
    """
    from loom.plugins.manager import descriptor_set

    known = descriptor_set(function.contract)
    if known is None:
        return 0
    return sum(drop_unused(region, known) for region in function.regions)


def drop_unused(region: Region, known: DescriptorSet) -> int:
    """Erase operations without effects whose results are unused, users before definitions; how many there were.

    Args:
        region: the blocks of a Low function.
        known: the descriptors of its packets.
    """
    # Definitions precede uses in block order except around loops, whose packets may keep each other alive.
    ops = [inner for block in region.blocks for op in block for inner in op.walk()]
    effects = {op: known.by_key[op.key].effects for op in ops if isinstance(op, low.Packet)}
    read = {name for each in effects.values() for name in each.implicit_reads}
    dropped = 0
    for op in reversed(ops):
        if op.parent is None or not op.results or any(result.is_used for result in op.results):
            continue
        if isinstance(op, _PURE) or (op in effects and _is_pure(effects[op], read)):
            op.erase()
            dropped += 1
    return dropped


def _is_pure(effects: Effects, read: set[str]) -> bool:
    acts = effects.side_effects or effects.barrier or effects.terminator or effects.writes
    return not acts and not effects.reads - {"constant"} and read.isdisjoint(effects.implicit_writes)
