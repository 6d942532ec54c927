"""Dropping what nobody uses in target Low (pass ``low-dce``; language reference, part 3, section 11).

For what selection leaves over where it folds operands, and for authors of Low, whose constants and addresses may be.
Memory is left alone: an instruction goes only if it neither reads nor writes it, has no side effect, and writes no
implicit register that an instruction behind it reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from loom.dialects.low import ops as low
from loom.ir.core import Block, Op
from loom.low.descriptors import DescriptorSet, Effects

# A reservation stays: instructions may know its place without naming it.
_PURE: Final = (low.Const, low.Copy, low.Move, low.Slice, low.Concat, low.Assume, low.LiveIn, low.StorageAddress)


def drop_unused_packets(function: Any) -> int:
    """Erase what nobody uses in a Low function; how many operations there were.

    A function whose contract no installed target has is left alone.
    """
    from loom.plugins.manager import descriptor_set

    known = descriptor_set(function.contract)
    if known is None:
        return 0
    blocks = [block for region in function.regions for block in region.blocks]
    inner = [block for op in function.walk() if op is not function for region in op.regions for block in region.blocks]
    return len(drop_unused([*blocks, *inner], known))


def drop_unused(blocks: Iterable[Block], known: DescriptorSet, *, loads: bool = False) -> list[Op]:
    """Erase operations without effects whose results are unused, users before definitions; those that there were.

    Args:
        blocks: the blocks of a Low function.
        known: the descriptors of its packets.
        loads: whether loads that nobody uses go as well.
    """
    blocks = list(blocks)
    # What a block reads of registers that it has not written itself may be wanted at the end of any other one.
    handed: set[str] = set()
    for block in blocks:
        wanted: set[str] = set()
        for op in reversed(list(block)):
            if isinstance(op, low.Packet):
                effects = known.by_key[op.key].effects
                wanted.difference_update(effects.implicit_writes)
                wanted.update(effects.implicit_reads)
        handed |= wanted
    dropped = []
    # Definitions precede uses in block order except around loops, whose packets may keep each other alive.
    for block in reversed(blocks):
        wanted = set(handed)
        for op in reversed(list(block)):
            packet = known.by_key[op.key].effects if isinstance(op, low.Packet) else None
            pure = isinstance(op, _PURE) if packet is None else _is_pure(packet, wanted, loads)
            if pure and op.results and not any(result.is_used for result in op.results):
                op.erase()
                dropped.append(op)
            elif packet is not None:
                wanted.difference_update(packet.implicit_writes)
                wanted.update(packet.implicit_reads)
            elif op.regions:
                wanted |= handed
    return dropped


def _is_pure(effects: Effects, wanted: set[str], loads: bool) -> bool:
    acts = effects.side_effects or effects.barrier or effects.terminator or effects.writes
    return not acts and (loads or not effects.reads - {"constant"}) and wanted.isdisjoint(effects.implicit_writes)
