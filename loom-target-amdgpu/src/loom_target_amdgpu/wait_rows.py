"""Rows about the waits of a kernel: where each stands, what it lets stay outstanding, and who needs it.

One row per counter and wait instruction of the final code (language reference, part 3, section 8.6,
``wait_action_rows``). The producer is named where it stands in the same block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loom_target_amdgpu.check_waits import counts_of
from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.isa.waits import Counter, same_counter
from loom_target_amdgpu.machine_code import Code
from loom_target_amdgpu.waits import events


def wait_rows(function: str, blocks: Sequence[CodeBlock], family: str) -> Iterator[dict[str, object]]:
    """The rows of one kernel, in order of the code."""
    index = 0
    start = 0
    for block_index, block in enumerate(blocks):
        for position, code in enumerate(block.code):
            for counter, count in counts_of(code, family):
                row: dict[str, object] = {
                    "index": index,
                    "function": function,
                    "counter": counter.name.lower(),
                    "action": "full_drain" if count == 0 else "partial_wait",
                    "reason": "explicit" if code.drains is not None else "planned",
                    "block_index": block_index,
                    "block": block.label,
                    "node_index": position,
                    "scheduled_ordinal": start + position,
                    "target_count": count,
                }
                row |= _producer(block.code[:position], counter, count, family, start)
                row |= _consumer(block.code, position, family, start)
                yield row
                index += 1
        start += len(block.code)


def _producer(before: Sequence[Code], counter: Counter, count: int, family: str, start: int) -> dict[str, object]:
    """The youngest operation that is complete behind the wait, and how many were started in the block since."""
    issued = [
        position
        for position, code in enumerate(before)
        for kind in events(code.row)
        if same_counter(family, kind, counter)
    ]
    found: dict[str, object] = {"outstanding_in_block": len(issued)}
    if len(issued) > count:
        position = issued[-1 - count]
        found |= {
            "producer_node": position,
            "producer_scheduled_ordinal": start + position,
            "producer_operation": before[position].row.mnemonic,
        }
    return found


def _consumer(codes: Sequence[Code], position: int, family: str, start: int) -> dict[str, object]:
    """The first instruction behind the wait that is no wait itself."""
    for place in range(position + 1, len(codes)):
        code = codes[place]
        if any(counts_of(code, family)) or code.row.mnemonic == "s_delay_alu":
            continue
        return {
            "consumer_node": place,
            "consumer_scheduled_ordinal": start + place,
            "consumer_operation": code.row.mnemonic,
        }
    return {}
