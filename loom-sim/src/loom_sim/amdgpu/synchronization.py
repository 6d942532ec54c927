"""What waits and barriers of a launch did: counted while it runs, and as its report shows it.

Waits are counted in strict runs, which follow the operations in flight: of a wait instruction it is known how many
operations with a result were in flight that it may have had to wait for. Stores have no result that anybody could use
too early, so they are not followed and not counted.

At a barrier, what is counted is how many instructions the waves of a workgroup have executed since they last left one:
the difference between the most and the least is work that some waves did while others stood still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from loom_sim.amdgpu.state import Array


@attrs.frozen(slots=True)
class WaitUse:
    """A wait instruction, in numbers of waves.

    Attributes:
        address, instruction: of the wait.
        executions: how many waves executed it.
        needed: how many of them had to wait for an operation with a result.
        in_flight: operations with results that were in flight before it, summed over the waves.
        most_in_flight: the most of them in one wave.
    """

    address: int
    instruction: str
    executions: int
    needed: int
    in_flight: int
    most_in_flight: int


@attrs.frozen(slots=True)
class BarrierUse:
    """A barrier instruction.

    Attributes:
        address, instruction: of the barrier, or of the wait of a split one.
        passes: how often a workgroup passed it.
        arrivals: waves that arrived.
        spread: instructions that the wave with the most of them executed before it arrived more than the one with the
            least, summed over the passes.
        widest: the largest such difference.
    """

    address: int
    instruction: str
    passes: int
    arrivals: int
    spread: int
    widest: int


@attrs.frozen(slots=True)
class WaitStep:
    """A wait as it stands in a block: operations with results in flight before it, and how many it completes."""

    address: int
    in_flight: int
    completed: int


@attrs.define(slots=True)
class SynchronizationCounts:
    """Numbers of waits and barriers by address: the fields of `WaitUse` and `BarrierUse` behind the instruction."""

    waits: dict[int, tuple[int, int, int, int]] = attrs.field(factory=dict)
    barriers: dict[int, tuple[int, int, int, int]] = attrs.field(factory=dict)

    def count_waits(self, steps: Iterable[WaitStep], waves: int) -> None:
        """Waves executed these waits."""
        for step in steps:
            found = waves, waves * (step.completed > 0), waves * step.in_flight, step.in_flight
            _merge(self.waits, {step.address: found})

    def count_barrier(self, address: int, arrivals: int, spreads: Array) -> None:
        """Workgroups passed a barrier; `spreads` has the difference of each."""
        _merge(self.barriers, {address: (spreads.size, arrivals, int(spreads.sum()), int(spreads.max()))})

    def add(self, other: SynchronizationCounts) -> None:
        """Count another part of the launch too."""
        _merge(self.waits, other.waits)
        _merge(self.barriers, other.barriers)

    def wait_uses(self, text: Callable[[int], str]) -> tuple[WaitUse, ...]:
        """The waits in address order; `text` gives an instruction's assembly."""
        return tuple(WaitUse(address, text(address), *self.waits[address]) for address in sorted(self.waits))

    def barrier_uses(self, text: Callable[[int], str]) -> tuple[BarrierUse, ...]:
        """The barriers in address order."""
        return tuple(BarrierUse(address, text(address), *self.barriers[address]) for address in sorted(self.barriers))


def _merge(total: dict[int, tuple[int, int, int, int]], other: Mapping[int, tuple[int, int, int, int]]) -> None:
    """Add up all numbers but the last, of which the larger stays."""
    for address, (a, b, c, most) in other.items():
        x, y, z, known = total.get(address, (0, 0, 0, 0))
        total[address] = x + a, y + b, z + c, max(known, most)


class Arrivals:
    """Instructions that each wave of a batch has executed since it last left a barrier."""

    def __init__(self, slot: Array) -> None:
        self._slot = slot
        self._workgroups = int(slot.max()) + 1
        self._executed = np.zeros(len(slot), np.int64)

    def executed(self, waves: Array, count: int) -> None:
        """Waves have executed this many instructions."""
        self._executed[waves] += count

    def passed(self, waves: Array, counts: SynchronizationCounts, address: int) -> None:
        """All waves of some workgroups leave a barrier."""
        executed, slots = self._executed[waves], self._slot[waves]
        most = np.full(self._workgroups, -1, np.int64)
        least = np.full(self._workgroups, np.iinfo(np.int64).max)
        np.maximum.at(most, slots, executed)
        np.minimum.at(least, slots, executed)
        here = most >= 0
        counts.count_barrier(address, len(waves), most[here] - least[here])
        self._executed[waves] = 0
