"""List scheduling of machine code before register allocation.

Instructions are placed cycle by cycle on a machine that starts one instruction per cycle. Among those
that could start, the one on the longest latency path goes first; when that would take a register bank
over its limit, one that needs fewer registers goes instead, even if its operands are not ready yet:
waiting is cheaper than spilling. Ties go to source order, so the result is deterministic.
"""

from __future__ import annotations

import enum
import heapq
from bisect import insort
from collections.abc import Mapping
from typing import Protocol

from loom.ir.records import field, record
from loom.low.dependence import DependenceGraph, build
from loom.low.descriptors import Descriptor
from loom.low.implicit import ImplicitEffects, implicit_live_out
from loom.low.liveness import Liveness
from loom.low.machine import MARKERS, Block, Function, Instruction, Kind, VReg
from loom.low.scopes import annotate_scopes
from loom.low.updates import update_last, updates_of

_NONE: frozenset[str] = frozenset()
_LOOK = 8
"""Candidates compared with each other when registers run short or pairs are wanted."""


class Strategy(enum.Enum):
    """``source`` keeps the order, ``latency`` hides latency within the register limits,
    ``pressure`` always prefers fewer live registers."""

    SOURCE = "source"
    LATENCY = "latency"
    PRESSURE = "pressure"


class ScheduleModel(Protocol):
    """What a target tells the scheduler about its processor."""

    def latency(self, descriptor: Descriptor) -> int:
        """Cycles from start to results that can be used."""

    def resources(self, descriptor: Descriptor) -> tuple[tuple[str, int], ...]:
        """(resource, cycles it stays busy) pairs."""

    def pressure_limit(self, bank: str) -> int | None:
        """Units of a register bank the scheduler should stay within; None for no limit."""

    @property
    def has_pairs(self) -> bool:
        """False when :meth:`affinity` is always 0, which saves asking."""

    def affinity(self, first: Descriptor, second: Descriptor) -> int:
        """How much is gained by placing ``second`` directly after ``first``; usually 0."""


@record
class TableModel:
    """A :class:`ScheduleModel` made of tables keyed by schedule class and bank."""

    latencies: Mapping[str, int] = field(factory=dict)
    busy: Mapping[str, tuple[tuple[str, int], ...]] = field(factory=dict)
    limits: Mapping[str, int] = field(factory=dict)
    pairs: Mapping[tuple[str, str], int] = field(factory=dict)
    default_latency: int = 1

    def latency(self, descriptor: Descriptor) -> int:
        """See :class:`ScheduleModel`."""
        return self.latencies.get(descriptor.schedule_class, self.default_latency)

    def resources(self, descriptor: Descriptor) -> tuple[tuple[str, int], ...]:
        """See :class:`ScheduleModel`."""
        return self.busy.get(descriptor.schedule_class, ())

    def pressure_limit(self, bank: str) -> int | None:
        """See :class:`ScheduleModel`."""
        return self.limits.get(bank)

    @property
    def has_pairs(self) -> bool:
        """See :class:`ScheduleModel`."""
        return bool(self.pairs)

    def affinity(self, first: Descriptor, second: Descriptor) -> int:
        """See :class:`ScheduleModel`."""
        return self.pairs.get((first.schedule_class, second.schedule_class), 0)


def schedule(function: Function, model: ScheduleModel, strategy: Strategy = Strategy.LATENCY) -> int:
    """Reorder the instructions of every block in place; returns the number of scopes honoured.

    Scope markers disappear (each instruction keeps its path in ``scope_events``); fences stay where
    they separate. Take ``function.order()`` first to check the result.

    Raises:
        MachineError: misplaced scope markers.
    """
    scopes = annotate_scopes(function)
    if scopes:
        for block in function.blocks:
            block.instructions = [inst for inst in block.instructions if inst.kind not in MARKERS]
    if strategy is Strategy.SOURCE:
        return scopes
    effects = ImplicitEffects(function.descriptor_set.registers)
    implicit = implicit_live_out(function, effects)
    liveness = Liveness(function)
    updates = updates_of(function)
    banks = _limited_banks(function, model, strategy)
    for block in function.blocks:
        if len(block.instructions) > 2:
            graph = build(function, block, model.latency, effects, implicit[block])
            live_in, live_out = liveness.live_in(block), set(liveness.live_out(block))
            if updates:
                update_last(graph, updates, live_out)
            pressure = None
            if strategy is Strategy.PRESSURE or not _has_room(block, banks, live_in):
                pressure = _Pressure(block, graph, banks, live_in, live_out)
            placed = _BlockScheduler(graph, model, strategy, pressure).run()
            live_ins = [inst for inst in block.instructions if inst.kind is Kind.LIVE_IN]
            block.instructions = [*live_ins, *placed, block.instructions[-1]]
    return scopes


def heights(graph: DependenceGraph, successors: list[list[tuple[int, int]]], own: list[int]) -> list[int]:
    """Per node, cycles from its start to the end of the longest path that begins there.

    ``own`` is each node's own latency, ``successors`` what ``graph.successors()`` gives.
    """
    waiting = [len(edges) for edges in successors]
    result = list(own)
    work = [node for node, count in enumerate(waiting) if not count]
    while work:
        node = work.pop()
        for before, cycles in graph.predecessors[node].items():
            if result[before] < cycles + result[node]:
                result[before] = cycles + result[node]
            waiting[before] -= 1
            if not waiting[before]:
                work.append(before)
    return result


def _limited_banks(function: Function, model: ScheduleModel, strategy: Strategy) -> dict[str, tuple[str, int]]:
    """Register class -> its bank and the units of it that the scheduler should stay within, where there is a limit."""
    found = {}
    limits: dict[str, int] = {}
    for name, register_class in function.descriptor_set.registers.items():
        limit = model.pressure_limit(register_class.bank)
        if limit is None and strategy is Strategy.PRESSURE:
            limit = register_class.count
        if limit is not None:
            limits[register_class.bank] = limit
            found[name] = register_class.bank
    return {name: (bank, limits[bank]) for name, bank in found.items()}


def _has_room(block: Block, banks: Mapping[str, tuple[str, int]], live_in: list[VReg]) -> bool:
    """Whether all values of a block could live at once, so that no order of it runs short of registers."""
    units = dict.fromkeys(banks, 0)
    for values in (live_in, block.params, *[inst.results for inst in block.instructions]):
        for value in values:
            if value.reg_class in units:
                units[value.reg_class] += value.units
    total: dict[str, int] = {}
    for name, (bank, limit) in banks.items():
        total[bank] = total.get(bank, 0) + units[name]
        if total[bank] > limit:
            return False
    return True


class _Pressure:
    """Registers live at the current point of one block, per bank that has a limit."""

    def __init__(
        self,
        block: Block,
        graph: DependenceGraph,
        banks: Mapping[str, tuple[str, int]],
        live_in: list[VReg],
        live_out: set[VReg],
    ) -> None:
        self.limits = dict(banks.values())
        self.bank = bank = {name: place for name, (place, _) in banks.items()}
        self.now = dict.fromkeys(self.limits, 0)
        self.users: dict[VReg, set[int]] = {}
        self._kept = live_out
        self._kept.update(block.instructions[-1].operands)
        for edge in block.edges:
            self._kept.update(edge.args)
        self.defines: list[list[VReg]] = []
        self.reads: list[list[VReg]] = []
        # Candidates are asked again and again; their answers change only when they become the last user of a value.
        self._changes: dict[int, dict[str, int]] = {}
        users = self.users
        for node, members in enumerate(graph.members):
            defined = [v for inst in members for v in inst.results if v.reg_class in bank]
            used = [v for inst in members for v in inst.operands if v.reg_class in bank]
            if len(used) > 1:
                used = list(dict.fromkeys(used))
            for value in used:
                known = users.get(value)
                if known is None:
                    users[value] = {node}
                else:
                    known.add(node)
            self.defines.append(defined)
            self.reads.append(used)
        live = {*live_in, *block.params}
        for instruction in block.instructions:
            if instruction.kind is not Kind.LIVE_IN:
                break
            live.update(instruction.results)
        for value in live:
            if value.reg_class in bank and (value in users or value in self._kept):
                self.now[bank[value.reg_class]] += value.units

    def change(self, node: int) -> dict[str, int]:
        """Bank -> units more (or fewer) live once ``node`` has been placed."""
        known = self._changes.get(node)
        if known is None:
            known = self._changes[node] = self._compute_change(node)
        return known

    def _compute_change(self, node: int) -> dict[str, int]:
        delta: dict[str, int] = {}
        kept, users, banks = self._kept, self.users, self.bank
        defined = self.defines[node]
        for value in defined:
            known = users.get(value)
            if value in kept or known is None or len(known) != 1 or node not in known:
                bank = banks[value.reg_class]
                delta[bank] = delta.get(bank, 0) + value.units
        for value in self.reads[node]:
            if value not in kept and len(users[value]) == 1 and value not in defined:
                bank = banks[value.reg_class]
                delta[bank] = delta.get(bank, 0) - value.units
        return delta

    def tight(self, change: dict[str, int]) -> frozenset[str]:
        """Banks that a change would take over their limit."""
        now, limits = self.now, self.limits
        over = [bank for bank, units in change.items() if units > 0 and now[bank] + units > limits[bank]]
        return frozenset(over) if over else _NONE

    def place(self, node: int) -> list[int]:
        """Account for ``node``; returns the nodes that have become the last user of some value."""
        for bank, units in self.change(node).items():
            self.now[bank] += units
        last: list[int] = []
        for value in self.reads[node]:
            users = self.users[value]
            users.discard(node)
            if len(users) == 1 and value not in self._kept:
                last.extend(users)
        for value in self.defines[node]:
            known = self.users.get(value)
            if known is not None and len(known) == 1 and value not in self._kept:
                last.extend(known)
        for other in last:
            self._changes.pop(other, None)
        return last


class _BlockScheduler:
    def __init__(
        self, graph: DependenceGraph, model: ScheduleModel, strategy: Strategy, pressure: _Pressure | None
    ) -> None:
        """``pressure`` is None where registers cannot run short."""
        self._graph = graph
        self._model = model
        self._strategy = strategy
        self._pressure = pressure
        self._successors = graph.successors()
        self._missing = [len(before) for before in graph.predecessors]
        self._earliest = [0] * len(graph.members)
        own = [
            max([model.latency(inst.descriptor) for inst in group if inst.descriptor is not None], default=0)
            for group in graph.members
        ]
        self._height = heights(graph, self._successors, own)
        self._pairs = model.has_pairs
        self._done = [False] * len(graph.members)
        self._pending: list[tuple[int, int]] = []
        self._ready: list[tuple[int, int]] = []
        self._by_source: list[int] = []
        self._killers: list[int] = []
        self._last_users: set[int] = set()
        self._busy: dict[str, int] = {}
        self._cycle = 0
        self._last: Descriptor | None = None
        self._placed: list[Instruction] = []

    def run(self) -> list[Instruction]:
        """Place every node; returns the new order."""
        self._release([node for node, missing in enumerate(self._missing) if not missing])
        while (node := self._choose()) is not None:
            self._place(node)
        return self._placed

    def _release(self, nodes: list[int]) -> None:
        """Make nodes available whose predecessors have all been placed; joins are done at once."""
        work = nodes
        while work:
            node = work.pop()
            if not self._graph.members[node]:
                self._done[node] = True
                work.extend(self._satisfy(node, self._earliest[node]))
                continue
            heapq.heappush(self._pending, (self._earliest[node], node))
            if self._pressure is not None:
                insort(self._by_source, node)
                if node in self._last_users:
                    insort(self._killers, node)

    def _satisfy(self, node: int, start: int) -> list[int]:
        """Tell the successors of ``node``; returns those that wait for nothing else."""
        free = []
        earliest, missing = self._earliest, self._missing
        for after, cycles in self._successors[node]:
            if earliest[after] < start + cycles:
                earliest[after] = start + cycles
            missing[after] -= 1
            if not missing[after]:
                free.append(after)
        return free

    def _place(self, node: int) -> None:
        members = self._graph.members[node]
        start = max(self._cycle, self._earliest[node])
        if self._busy:
            start = max(start, self._resources_free(node))
        for instruction in members:
            self._last = instruction.descriptor
            if self._last is not None:
                for resource, cycles in self._model.resources(self._last):
                    self._busy[resource] = max(start, self._busy.get(resource, 0)) + cycles
        self._cycle = start + len(members)
        self._placed += members
        self._done[node] = True
        if self._pressure is not None:
            for last in self._pressure.place(node):
                self._last_users.add(last)
                if not self._missing[last] and not self._done[last]:
                    insort(self._killers, last)
        self._release(self._satisfy(node, self._cycle - 1))

    def _resources_free(self, node: int) -> int:
        """First cycle at which the resources of the node's first instruction are free."""
        if not self._busy:
            return 0
        descriptor = self._graph.members[node][0].descriptor
        if descriptor is None:
            return 0
        return max((self._busy.get(name, 0) for name, _ in self._model.resources(descriptor)), default=0)

    def _choose(self) -> int | None:
        """The node to place next, None when all are placed."""
        pressure = self._pressure
        if pressure is None:
            return self._most_urgent()
        if self._strategy is Strategy.PRESSURE:
            return self._fewest_registers(pressure, None)
        best = self._most_urgent()
        if best is None:
            return None
        tight = pressure.tight(pressure.change(best))
        if not tight:
            return best
        other = self._fewest_registers(pressure, tight)
        return best if other is None else other

    def _most_urgent(self) -> int | None:
        """The ready node on the longest path; advances the clock when none is ready."""
        done, height = self._done, self._height
        while True:
            while self._pending and (done[self._pending[0][1]] or self._pending[0][0] <= self._cycle):
                _, node = heapq.heappop(self._pending)
                if not done[node]:
                    heapq.heappush(self._ready, (-height[node], node))
            while self._ready and done[self._ready[0][1]]:
                heapq.heappop(self._ready)
            if self._ready:
                node = self._ready[0][1]
                if self._busy or self._pairs:
                    node = self._preferred()
                if not self._busy or not self._pending or self._pending[0][0] >= self._resources_free(node):
                    return node
                # Something is ready before what this one needs is free.
                self._cycle = self._pending[0][0]
                continue
            if not self._pending:
                return None
            self._cycle = self._pending[0][0]

    def _preferred(self) -> int:
        """The first ready node, or a near one that pairs with the last or finds its resource free."""
        first = self._ready[0][1]
        if self._last is None:
            return first
        looked = self._take(self._ready)
        chosen, gain = first, 0
        stalled = self._resources_free(first) > self._cycle
        for _, node in looked:
            descriptor = self._graph.members[node][0].descriptor
            if descriptor is None or self._resources_free(node) > self._cycle:
                continue
            affinity = self._model.affinity(self._last, descriptor)
            if affinity > gain or (stalled and chosen is first):
                chosen, gain = node, affinity
        for entry in looked:
            heapq.heappush(self._ready, entry)
        return chosen

    def _take(self, heap: list[tuple[int, int]]) -> list[tuple[int, int]]:
        taken: list[tuple[int, int]] = []
        while heap and len(taken) < _LOOK:
            entry = heapq.heappop(heap)
            if not self._done[entry[1]]:
                taken.append(entry)
        return taken

    def _fewest_registers(self, pressure: _Pressure, banks: frozenset[str] | None) -> int | None:
        """Among the next nodes in source order and those that end some value's life, the one that
        frees most registers of ``banks`` (all, if None); the first in source order if none frees any."""
        best: tuple[int, int] | None = None
        first: int | None = None
        for nodes in (self._by_source, self._killers):
            place = 0
            while place < len(nodes) and place < _LOOK:
                node = nodes[place]
                if self._done[node]:
                    del nodes[place]
                    continue
                place += 1
                units = 0
                for bank, count in pressure.change(node).items():
                    if banks is None or bank in banks:
                        units += count
                if best is None or (units, node) < best:
                    best = (units, node)
            if place and first is None:
                first = nodes[0]
        if best is None:
            return None
        return best[1] if best[0] <= 0 else first
