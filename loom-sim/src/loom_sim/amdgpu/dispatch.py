"""Runs the waves of a batch: groups by program counter, splitting and merging, barriers, faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np

from loom_sim.amdgpu.blocks import Block, BlockKey, Translator, undefined_inputs
from loom_sim.amdgpu.errors import FaultRecord, SimulationFault, UnsupportedInstruction
from loom_sim.amdgpu.machine import Machine, UndefinedLoad
from loom_sim.amdgpu.memory import AccessError
from loom_sim.amdgpu.numerics.mode import FloatMode
from loom_sim.amdgpu.races import Race
from loom_sim.amdgpu.state import SCC, UNDEFINED, Array, Group, merge, resolve
from loom_sim.amdgpu.synchronization import Arrivals, SynchronizationCounts
from loom_sim.amdgpu.trace import Control, Observer

_ALL_UNDEFINED = np.full((1, 1), 0xFFFFFFFF, np.uint32)
_FALSE = np.zeros((1, 1), bool)

# A group that has waited this long for others to reach it runs anyway, so that waves spinning on its result end.
_PATIENCE = 2000


@attrs.define(slots=True)
class Statistics:
    """What a run did, in wave-instructions."""

    blocks: Counter[Block] = attrs.field(factory=Counter)
    steps: int = 0
    barriers: int = 0
    synchronization: SynchronizationCounts = attrs.field(factory=SynchronizationCounts)


@attrs.define(slots=True)
class _Parked:
    group: Group
    address: int


class Scheduler:
    """Runs one batch to completion."""

    def __init__(
        self,
        machine: Machine,
        translator: Translator,
        statistics: Statistics,
        max_steps: int,
        strict: bool,
        locate: Any,
        observers: Sequence[Observer] = (),
        control: Control | None = None,
    ) -> None:
        self.control = control
        self.machine = machine
        self.translator = translator
        self.statistics = statistics
        self.max_steps = max_steps
        self.strict = strict
        self.locate = locate
        self.observers = observers
        self.ready: dict[tuple[int, BlockKey, bool], list[Group]] = {}
        self.parked: list[_Parked] = []
        self.tick = 0
        slots = int(machine.slot.max()) + 1
        self.alive = np.bincount(machine.slot, minlength=slots)
        self.started = self.alive.copy()
        self.arrivals = Arrivals(machine.slot)

    def add(self, group: Group) -> None:
        """Make a group runnable."""
        group.tick = self.tick
        if not group.full and len(group.waves) >= 8:
            rows: Array = np.asarray(group.exec.all(axis=1))
            count = int(np.count_nonzero(rows))
            if count * 2 >= len(rows) and count < len(rows):
                # Most waves have all lanes active: let them run without merging under a mask.
                self._put(group.split(np.flatnonzero(rows)))
                group = group.split(np.flatnonzero(~rows))
        self._put(group)

    def _put(self, group: Group) -> None:
        self.ready.setdefault((group.pc, group.key, group.full), []).append(group)

    def run(self) -> None:
        """Run until every wave has ended.

        Raises:
            SimulationFault: see `errors`.
        """
        while True:
            if not self.ready:
                if not self.parked:
                    return
                self._release(final=True)
                continue
            self.tick += 1
            key = self._choose()
            groups = self.ready.pop(key)
            group = merge(groups)
            self._step(group)
            if self.parked and self.tick % _PATIENCE == 0:
                self._release(final=False)

    def _choose(self) -> tuple[int, BlockKey, bool]:
        keys = self.ready
        if len(keys) == 1:
            return next(iter(keys))
        lowest = min(keys, key=lambda k: (k[0], k[2]))
        if self.tick % 64 == 0:
            oldest = min(keys, key=lambda k: keys[k][0].tick)
            if self.tick - keys[oldest][0].tick > _PATIENCE:
                return oldest
        return lowest

    def _step(self, group: Group) -> None:
        key: BlockKey = group.key
        try:
            # Asked once for an instruction that is started again, to follow undefined bits or with a known selector.
            if self.control is not None and not group.loads_undefined and key.selected is None:
                text = partial(self._text, group.pc)
                self.control.before(group, self.machine, self.translator.vectors, text)
            block = self.translator.block(group.pc, group.full, False, key)
            track = self.strict and (group.loads_undefined or undefined_inputs(block, group, self.machine.wave_size))
            self.machine.tracking = track
            group.loads_undefined = False
            if track:
                block = self.translator.block(group.pc, group.full, True, key)
                self._mark_undefined(block, group)
            elif group.xv or group.xs:
                for r in block.written_vectors:
                    group.xv.pop(r, None)
                for r in block.written_scalars:
                    group.xs.pop(r, None)
            self._prepare(block, group)
            lanes = group.exec
            outcome = block.run(group)
        except UndefinedLoad:
            self._rerun(block, group, lanes)
            return
        except AccessError as error:
            raise self._fault(error, group) from error
        except SimulationFault as error:
            raise type(error)(self.locate(error.record, group, None)) from error
        except NotImplementedError as error:
            raise self._refusal(error, group) from error
        if block.end.kind != "select":
            self._account(block, group, lanes)
        statistics = self.statistics
        if statistics.steps > self.max_steps:
            record = FaultRecord(
                "step_budget",
                f"more than {self.max_steps} instructions were issued: an endless loop?",
                pc=group.pc,
                instruction=block.instructions[0].text,
            )
            raise SimulationFault(self.locate(record, group, 0))
        self._continue(block, group, outcome)

    def _text(self, pc: int) -> str:
        return self.translator.code.at(pc).text

    def _account(self, block: Block, group: Group, lanes: Array) -> None:
        for observer in self.observers:
            observer.executed(block, group.waves, lanes, self.statistics.steps)
        self.statistics.blocks[block] += len(group.waves)
        self.statistics.steps += len(block.instructions)
        self.arrivals.executed(group.waves, len(block.instructions))

    def _rerun(self, block: Block, group: Group, lanes: Array) -> None:
        """A load found undefined memory: go on from it in the variant that follows undefined bits."""
        site = self.machine.site
        position = next(k for k, inst in enumerate(block.instructions) if inst is site)
        if position:
            done = self.translator.start_of(block, group.pc, group.full, group.key, position)
            self._account(done, group, lanes)
            group.pc, group.key = done.next, done.key
        group.loads_undefined = True
        self.add(group)

    def _prepare(self, block: Block, group: Group) -> None:
        group.need_vectors(block.live_vectors)
        s = group.s
        for r in block.live_scalars:
            if r == SCC:
                value = resolve(s[SCC], group.memo, group.lanes)
                s[SCC] = _FALSE if value is None else value
            elif type(s[r]) is not np.ndarray:
                group.need_scalars((r,))

    def _mark_undefined(self, block: Block, group: Group) -> None:
        """Give registers that nothing wrote a value and all undefined bits."""
        for r in block.live_vectors:
            if group.v[r] is None:
                group.v[r] = UNDEFINED
                group.xv[r] = _ALL_UNDEFINED
            elif r in group.xv:
                group.xv[r] = resolve(group.xv[r], group.memo, group.lanes)
        scalars = list(block.live_scalars)
        for mask in block.live_masks:
            scalars += range(mask, mask + self.machine.wave_size // 32)
        for r in scalars:
            if r in group.xs:
                group.xs[r] = resolve(group.xs[r], group.memo, group.lanes)
            elif group.s[r] is None:
                group.s[r] = _FALSE if r == SCC else UNDEFINED
                if r != SCC:
                    group.xs[r] = _ALL_UNDEFINED

    def _continue(self, block: Block, group: Group, outcome: Any) -> None:
        end = block.end
        group.key = block.key
        if end.kind == "fall":
            group.pc = block.next
            self.add(group)
        elif end.kind == "jump":
            group.pc = end.target
            self.add(group)
        elif end.kind == "branch":
            self._branch(group, outcome, end.target, block.next)
        elif end.kind == "barrier":
            group.pc = block.next
            self.statistics.barriers += len(group.waves)
            group.tick = self.tick
            self.parked.append(_Parked(group, block.instructions[-1].address))
        elif end.kind == "stop":
            np.subtract.at(self.alive, self.machine.slot[group.waves], 1)
        elif end.kind == "select":
            self._scatter(group, outcome, "select")
        elif end.kind == "indirect":
            self._scatter(group, outcome - self.machine.code_address, "pc")
        else:
            group.pc = block.next
            self._scatter(group, outcome, "mode")

    def _branch(self, group: Group, condition: Array, target: int, following: int) -> None:
        if condition.all():
            group.pc = target
            self.add(group)
            return
        if not condition.any():
            group.pc = following
            self.add(group)
            return
        taken = condition[:, 0]
        for rows, pc in ((np.flatnonzero(taken), target), (np.flatnonzero(~taken), following)):
            part = group.split(rows)
            part.pc = pc
            self.add(part)

    def _scatter(self, group: Group, values: Array, what: str) -> None:
        flat = np.broadcast_to(values, (len(group.waves), 1))[:, 0]
        for value in np.unique(flat).tolist():
            rows = np.flatnonzero(flat == value)
            part = group if len(rows) == len(flat) else group.split(rows)
            if what == "pc":
                part.pc = value
            elif what == "select":
                part.key = attrs.evolve(part.key, selected=value)
            else:
                old = group.key.mode
                mode = FloatMode.from_bits(value & 0xFF, old.ieee, old.dx10_clamp)
                part.key = attrs.evolve(part.key, mode=mode)
            self.add(part)

    def _release(self, final: bool) -> None:
        """Let workgroups go on whose waves have all arrived at the barrier."""
        slot = self.machine.slot
        arrived = np.zeros_like(self.alive)
        for parked in self.parked:
            np.add.at(arrived, slot[parked.group.waves], 1)
        complete = (arrived == self.alive) & (self.alive > 0)
        if self.strict and final:
            self._check_barrier(arrived)
        if not complete.any():
            if final:
                record = FaultRecord(
                    "barrier_divergence", "waves wait at a barrier that others never reach", pc=self.parked[0].address
                )
                raise SimulationFault(self.locate(record, self.parked[0].group, 0))
            return
        self.machine.pass_barrier(np.flatnonzero(complete))
        self._count_passes(complete)
        waiting = []
        for parked in self.parked:
            go = complete[slot[parked.group.waves]]
            if go.all():
                self.add(parked.group)
                continue
            if go.any():
                self.add(parked.group.split(np.flatnonzero(go)))
                waiting.append(_Parked(parked.group.split(np.flatnonzero(~go)), parked.address))
            else:
                waiting.append(parked)
        self.parked = waiting

    def _count_passes(self, complete: Array) -> None:
        """Count the workgroups that go on, each at the barrier that most lately had a wave of it arrive."""
        slot = self.machine.slot
        waves = np.concatenate([parked.group.waves for parked in self.parked])
        waves = waves[complete[slot[waves]]]
        places = {parked.address for parked in self.parked}
        if len(places) == 1:
            self.arrivals.passed(waves, self.statistics.synchronization, places.pop())
            return
        address = np.zeros(len(complete), np.int64)
        for parked in self.parked:
            address[slot[parked.group.waves]] = parked.address
        for place in np.unique(address[slot[waves]]).tolist():
            here = waves[address[slot[waves]] == place]
            self.arrivals.passed(here, self.statistics.synchronization, place)

    def _check_barrier(self, arrived: Array) -> None:
        """Every wave of a workgroup must come to the same barrier instruction."""
        slot = self.machine.slot
        missing = (arrived > 0) & (arrived < self.started)
        first = np.full(len(arrived), -1, np.int64)
        for parked in self.parked:
            slots = slot[parked.group.waves]
            here = missing[slots]
            if here.any():
                record = FaultRecord(
                    "barrier_divergence",
                    "some waves of the workgroup ended without reaching this barrier",
                    pc=parked.address,
                    instruction=self.translator.code.at(parked.address).text,
                )
                raise SimulationFault(self.locate(record, parked.group, int(np.flatnonzero(here)[0])))
            other = (first[slots] >= 0) & (first[slots] != parked.address)
            if other.any():
                row = int(np.flatnonzero(other)[0])
                code = self.translator.code
                there = code.describe(code.at(int(first[slots[row]])))
                record = FaultRecord(
                    "barrier_divergence",
                    f"waves of one workgroup wait at different barriers, here and with {there}",
                    pc=parked.address,
                    instruction=self.translator.code.at(parked.address).text,
                )
                raise SimulationFault(self.locate(record, parked.group, row))
            first[slots] = parked.address

    def _fault(self, error: AccessError, group: Group) -> SimulationFault:
        record = FaultRecord(error.kind, error.reason, lane=error.lane, address=error.address)
        row = int(np.flatnonzero(group.waves == error.wave)[0]) if isinstance(error, Race) else error.row
        return SimulationFault(self._at_site(record, group, row))

    def _refusal(self, error: NotImplementedError, group: Group) -> UnsupportedInstruction:
        """What a value decides that is met only while the program runs, with the instruction's bytes."""
        site, message = self.machine.site, str(error)
        if site is not None:
            message += f"; its bytes are {self.translator.code.hexadecimal(site)}"
        return UnsupportedInstruction(self._at_site(FaultRecord("unsupported", message), group, None))

    def _at_site(self, record: FaultRecord, group: Group, row: int | None) -> FaultRecord:
        site = self.machine.site
        if site is not None:
            record = attrs.evolve(record, pc=site.address, instruction=site.text)
        found: FaultRecord = self.locate(record, group, row)
        return found
