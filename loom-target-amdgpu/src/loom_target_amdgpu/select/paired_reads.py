"""Two reads of workgroup storage in one instruction.

``ds_read2_b32`` reads two words at multiples of four bytes from one address register. Reads of selected code that
lie at constant distances from the same register are paired in the order in which they stand, as long as nothing
between them could change the storage or the active lanes. Where only the encoded offsets (8 bits, in words) are out
of reach, a register that holds a position nearby is added, next to where the address is computed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, MutableMapping
from typing import Any, Final

from loom.dialects.low import ops as low
from loom.ir.core import Block, Op, Value
from loom.ir.types import RegType
from loom.low.assembly import make_packet
from loom.low.descriptors import DescriptorSet
from loom.low.machine import MemoryAccess
from loom_target_amdgpu.select.values import V1, VGPR

_READ: Final = "amdgpu.ds_read_b32"
_PAIR: Final = "ds_read2_b32"
_REACH: Final = 255
_WORD: Final = 4
_WORTH: Final = 4
"""Reads that make up for one more register and the instruction that computes it."""
_STRUCTURE: Final = ("low.const", "low.slice", "low.concat", "low.copy", "low.move", "low.assume")


def pair_reads(
    blocks: Iterable[Block],
    descriptor_set: DescriptorSet,
    memory: MutableMapping[Op, MemoryAccess],
    locked: Collection[Op],
) -> None:
    """Pair the reads that selection has made (those in ``memory``); authored code stays as it is."""
    for block in blocks:
        for run in _runs(block, descriptor_set, memory, locked):
            for address, reads in run.items():
                _pair(address, reads, descriptor_set, memory)


def _runs(
    block: Block, descriptor_set: DescriptorSet, memory: MutableMapping[Op, MemoryAccess], locked: Collection[Op]
) -> list[dict[Value, list[Op]]]:
    """Reads by address register, between places that no read may be moved across."""
    found: list[dict[Value, list[Op]]] = []
    current: dict[Value, list[Op]] = {}
    for op in block:
        if isinstance(op, low.Packet):
            if op.key == _READ and op in memory and op not in locked and _offset(op) % _WORD == 0:
                current.setdefault(op.operands[0], []).append(op)
                continue
            effects = descriptor_set.by_key[op.key].effects
            ordered = effects.writes & {"workgroup", "generic"} or effects.barrier or "exec" in effects.implicit_writes
            if not ordered and not (effects.side_effects and op not in memory):
                continue
        elif op.name in _STRUCTURE:
            continue
        found.append(current)
        current = {}
    return [*found, current]


def _offset(op: Op) -> int:
    immediates: Any = op.attribute("immediates")
    return int(immediates.get("offset", 0)) if immediates else 0


def _pair(
    address: Value, reads: list[Op], descriptor_set: DescriptorSet, memory: MutableMapping[Op, MemoryAccess]
) -> None:
    near = [op for op in reads if _offset(op) <= _REACH * _WORD]
    far = [op for op in reads if _offset(op) > _REACH * _WORD]
    _merge(address, near, 0, descriptor_set, memory)
    while len(far) >= _WORTH:
        start = min(map(_offset, far))
        reached = [op for op in far if _offset(op) <= start + _REACH * _WORD]
        if len(reached) >= _WORTH:
            _merge(_moved(address, start, descriptor_set), reached, start, descriptor_set, memory)
        far = [op for op in far if op not in reached]


def _moved(address: Value, distance: int, descriptor_set: DescriptorSet) -> Value:
    """The address plus a distance, computed right behind it."""
    name = "v_add_u32_lit" if distance > 64 else "v_add_u32_src0_inline"
    origin = address.defining_op
    owner = address.owner
    anchor = origin.next if origin is not None else owner.first if isinstance(owner, Block) else None
    assert anchor is not None
    packet = make_packet(descriptor_set.by_mnemonic[name], [address], {"imm32": distance}, [V1], anchor.loc)
    packet.insert_before(anchor)
    return packet.results[0]


def _merge(
    address: Value,
    reads: list[Op],
    start: int,
    descriptor_set: DescriptorSet,
    memory: MutableMapping[Op, MemoryAccess],
) -> None:
    descriptor = descriptor_set.by_mnemonic[_PAIR]
    for first, second in zip(reads[::2], reads[1::2], strict=False):
        offsets = [(_offset(op) - start) // _WORD for op in (first, second)]
        immediates = {f"offset{i}": offset for i, offset in enumerate(offsets) if offset}
        both = make_packet(descriptor, [address], immediates, [RegType(VGPR, 2)], first.loc)
        both.insert_before(first)
        memory[both] = _span(memory.pop(first), memory.pop(second))
        for unit, op in enumerate((first, second)):
            part = low.Slice([both.results[0]], [unit], [V1], loc=op.loc)
            part.results[0].name = op.results[0].name
            part.insert_before(op)
            op.replace_with(part.results)


def _span(a: MemoryAccess, b: MemoryAccess) -> MemoryAccess:
    """What covers both accesses."""
    same = a.root == b.root and a.index == b.index
    if not same or a.begin is None or b.begin is None or a.end is None or b.end is None:
        return MemoryAccess(a.root if a.root == b.root else None)
    return MemoryAccess(a.root, a.index, min(a.begin, b.begin), max(a.end, b.end), a.invariant and b.invariant)
