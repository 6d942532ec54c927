"""How often each instruction of a launch was executed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from loom_sim.amdgpu.blocks import Block
    from loom_sim.amdgpu.state import Array


@attrs.frozen(slots=True)
class Executions:
    """Executions of one instruction: by waves, and by the lanes that were active in them."""

    waves: int
    lanes: int


class ExecutionCounts:
    """An observer that counts; see `trace.Observer`.

    A block's lanes are those active at its start. That is exact for every instruction in it, because a block ends
    with the first instruction that changes which lanes are active.
    """

    def __init__(self) -> None:
        self._waves: Counter[Block] = Counter()
        self._lanes: Counter[Block] = Counter()

    def batch(self, first_workgroup: int, waves_per_workgroup: int) -> None:
        """Which workgroups run makes no difference here."""

    def executed(self, block: Block, waves: Array, lanes: Array, start: int) -> None:
        """Count one run of a block by some waves."""
        self._waves[block] += len(waves)
        self._lanes[block] += int(lanes.sum())

    def by_address(self) -> Mapping[int, Executions]:
        """Executions by instruction address, in address order; instructions never executed are not in it."""
        waves: Counter[int] = Counter()
        lanes: Counter[int] = Counter()
        for block, times in self._waves.items():
            for inst in block.instructions:
                waves[inst.address] += times
                lanes[inst.address] += self._lanes[block]
        return {address: Executions(waves[address], lanes[address]) for address in sorted(waves)}
