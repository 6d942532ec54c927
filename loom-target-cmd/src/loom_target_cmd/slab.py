"""Packing: parameters behind each other in their root, scratch with disjoint lifetimes over each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loom_target_cmd.storage import PARAMETER_ALIGNMENT, ParameterSlot, Transient


def align_up(value: int, alignment: int) -> int:
    """The smallest multiple of ``alignment`` that is not below ``value``."""
    return -(-value // alignment) * alignment


def pack_parameters(slots: Iterable[ParameterSlot]) -> int:
    """Give each parameter of one root an aligned offset, in order; returns the root's byte length."""
    end = 0
    for slot in slots:
        slot.offset = align_up(end, PARAMETER_ALIGNMENT)
        end = slot.offset + slot.length
    return end


def pack_transients(transients: Sequence[Transient]) -> tuple[int, int]:
    """Give each scratch root an offset in the slab; returns the slab's byte length and alignment.

    Roots whose waves are disjoint may share bytes: every wave boundary is a full barrier. Large ones are placed
    first, each at the lowest offset that is free in all its waves.
    """
    placed: list[Transient] = []
    for root in sorted(transients, key=lambda t: (-t.size, t.first)):
        root.offset = 0
        neighbours = [p for p in placed if p.first <= root.last and root.first <= p.last]
        for other in sorted(neighbours, key=lambda p: p.offset):
            if root.offset + root.size <= other.offset:
                break
            root.offset = max(root.offset, align_up(other.offset + other.size, root.alignment))
        placed.append(root)
    length = max((t.offset + t.size for t in placed), default=0)
    return length, max((t.alignment for t in placed), default=1)
