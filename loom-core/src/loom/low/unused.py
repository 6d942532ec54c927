"""Dropping what nobody uses in target Low (pass ``low-dce``; language reference, part 3, section 11).

For authors of Low, whose constants and addresses may be left over, and behind passes of a target that fold operands.
Memory is left alone: an instruction goes only if it neither reads nor writes it, has no side effect, and writes no
implicit register that an instruction of the function reads.
"""

from __future__ import annotations

from typing import Any, Final

from loom.dialects.low import ops as low
from loom.low.descriptors import DescriptorSet, Effects

_PURE: Final = (low.Const, low.Copy, low.Move, low.Slice, low.Concat, low.StorageAddress)


def drop_unused_packets(function: Any) -> int:
    """Erase such operations of a Low function, users before definitions; how many there were.

    A function whose contract no installed target has is left alone.
    """
    from loom.plugins.manager import descriptor_set

    known = descriptor_set(function.contract)
    if known is None:
        return 0
    packets = [op for op in function.walk() if isinstance(op, low.Packet)]
    read = {name for op in packets for name in _effects(op, known).implicit_reads}
    dropped = 0
    for op in reversed(list(function.walk())):
        if op is function or op.parent is None or not op.results or any(r.is_used or r.dependents for r in op.results):
            continue
        if isinstance(op, _PURE) or (isinstance(op, low.Packet) and _is_pure(_effects(op, known), read)):
            op.erase()
            dropped += 1
    return dropped


def _effects(op: low.Packet, known: DescriptorSet) -> Effects:
    return known.by_key[op.key].effects


def _is_pure(effects: Effects, read: set[str]) -> bool:
    acts = effects.side_effects or effects.barrier or effects.terminator or effects.writes
    return not acts and not effects.reads - {"constant"} and read.isdisjoint(effects.implicit_writes)
