"""The dependence graph of one block: what must stay before what, and by how many cycles.

A node is one instruction, a whole locked sequence (nothing may enter it, so it moves as a unit), or a
*join*: an empty node that stands for "everything so far", which keeps the number of edges near linear
where every member of one set precedes every member of another (fences, phases, long runs of readers).
"""

from __future__ import annotations

from collections.abc import Callable

from loom.ir.records import field, mutable_record
from loom.low.descriptors import NO_EFFECTS, Descriptor
from loom.low.implicit import ImplicitEffects
from loom.low.machine import Block, Function, Instruction, Kind, MemoryAccess, VReg

_WINDOW = 48
"""Outstanding accesses compared one by one before they are folded into a join."""

_NONE: frozenset[str] = frozenset()
_STORAGE_ACCESS = {
    Kind.SPILL: (_NONE, frozenset({"private"})),
    Kind.RELOAD: (frozenset({"private"}), _NONE),
}


@mutable_record
class DependenceGraph:
    """Nodes in source order.

    Attributes:
        members: the instructions of each node; empty for joins.
        predecessors: per node, predecessor -> least number of cycles between the two.
    """

    members: list[list[Instruction]] = field(factory=list)
    predecessors: list[dict[int, int]] = field(factory=list)

    def successors(self) -> list[list[tuple[int, int]]]:
        """Per node, (successor, cycles) pairs."""
        result: list[list[tuple[int, int]]] = [[] for _ in self.members]
        for node, before in enumerate(self.predecessors):
            for other, cycles in before.items():
                result[other].append((node, cycles))
        return result


def memory_spaces(instruction: Instruction) -> tuple[frozenset[str], frozenset[str]]:
    """(spaces read, spaces written), memory that nobody can change left out."""
    if instruction.descriptor is None:
        return _STORAGE_ACCESS.get(instruction.kind, (_NONE, _NONE))
    effects = instruction.descriptor.effects
    if not effects.reads and not effects.writes:
        return _NONE, _NONE
    reads = effects.reads - {"constant"}
    if reads and not effects.writes and instruction.memory is not None and instruction.memory.invariant:
        reads = frozenset()
    return reads, effects.writes


def may_overlap(first: MemoryAccess | None, second: MemoryAccess | None) -> bool:
    """False only where two accesses are known to touch different bytes."""
    if first is None or second is None or first.root is None or second.root is None:
        return True
    if first.root != second.root:
        return False
    if first.index != second.index or first.begin is None or second.begin is None:
        return True
    if first.end is None or second.end is None:
        return True
    return first.begin < second.end and second.begin < first.end


def spaces_overlap(first: frozenset[str], second: frozenset[str]) -> bool:
    """True when two sets of memory spaces may name the same memory."""
    if not first or not second:
        return False
    return "generic" in first or "generic" in second or not first.isdisjoint(second)


def build(
    function: Function,
    block: Block,
    latency: Callable[[Descriptor], int],
    effects: ImplicitEffects,
    live_out: frozenset[str],
) -> DependenceGraph:
    """Build the graph of ``block`` without its terminator and leading live-ins.

    ``live_out`` names the implicit registers read after the block. Scope paths must have been stored
    (:func:`loom.low.scopes.annotate_scopes`).
    """
    builder = _Builder(latency, effects)
    for group in schedulable_groups(function, block):
        builder.add(group)
    builder.finish(block.instructions[-1], live_out)
    return builder.graph


def schedulable_groups(function: Function, block: Block) -> list[list[Instruction]]:
    """Instructions that may move, locked sequences together; live-ins and the terminator left out."""
    locked = dict(function.locked_ranges(block))
    instructions = block.instructions
    index = 0
    while instructions[index].kind is Kind.LIVE_IN:
        index += 1
    if not locked:
        return [[instruction] for instruction in instructions[index:-1]]
    groups = []
    while index < len(instructions) - 1:
        end = locked.get(index, index + 1)
        groups.append(instructions[index:end])
        index = end
    return groups


_Group = tuple[frozenset[str], str | None, object]
"""Memory spaces, root and index of accesses."""


class _Accesses:
    """Accesses of one direction. Those with one root and index are compared by their bytes only, others as a group."""

    __slots__ = ("_groups", "count")

    def __init__(self) -> None:
        self._groups: dict[_Group, list[tuple[int, MemoryAccess | None]]] = {}
        self.count = 0

    def add(self, node: int, spaces: frozenset[str], memory: MemoryAccess | None) -> None:
        key = (spaces, None, None) if memory is None else (spaces, memory.root, memory.index)
        self._groups.setdefault(key, []).append((node, memory))
        self.count += 1

    def nodes(self) -> list[int]:
        return [node for group in self._groups.values() for node, _ in group]

    def overlapping(self, spaces: frozenset[str], memory: MemoryAccess | None) -> list[int]:
        """Nodes with accesses that may touch the same bytes."""
        found: list[int] = []
        for (others, root, index), group in self._groups.items():
            if not spaces_overlap(others, spaces):
                continue
            if memory is None or root is None or memory.root is None:
                found += [node for node, _ in group]
            elif root == memory.root:
                if index == memory.index:
                    found += [node for node, other in group if may_overlap(other, memory)]
                else:
                    found += [node for node, _ in group]
        return found


class _Implicit:
    """One implicit register: its current value's writer and readers, and writes nobody reads."""

    __slots__ = ("dead", "readers", "writer")

    def __init__(self) -> None:
        self.writer = -1
        self.readers: list[int] = []
        self.dead: list[int] = []


class _Builder:
    def __init__(self, latency: Callable[[Descriptor], int], effects: ImplicitEffects) -> None:
        self.graph = DependenceGraph()
        self._latency = latency
        self._effects = effects
        self._definition: dict[VReg, tuple[int, int]] = {}
        self._fence = -1
        self._since_fence: list[int] = []
        self._barrier = -1
        self._since_barrier: list[int] = []
        self._side_effect = -1
        self._loads = _Accesses()
        self._stores = _Accesses()
        self._scopes: dict[int, tuple[int, int, list[int]]] = {}
        self._order: list[int] = []

    def _node(self, members: list[Instruction]) -> int:
        self.graph.members.append(members)
        self.graph.predecessors.append({})
        return len(self.graph.members) - 1

    def _edge(self, before: int, after: int, cycles: int = 0) -> None:
        if before < 0 or before == after:
            return
        known = self.graph.predecessors[after]
        if known.get(before, -1) < cycles:
            known[before] = cycles

    def _join(self, nodes: list[int]) -> int:
        join = self._node([])
        self.graph.predecessors[join] = dict.fromkeys(nodes, 0)
        return join

    def add(self, group: list[Instruction]) -> None:
        node = self._node(group)
        full_fence = False
        for instruction in group:
            self._values(node, instruction)
            descriptor = instruction.descriptor
            if descriptor is not None:
                if descriptor.effects is not NO_EFFECTS:
                    self._memory(node, instruction)
            elif instruction.kind is Kind.FENCE:
                full_fence = True
            elif instruction.kind in _STORAGE_ACCESS:
                self._memory(node, instruction)
            if instruction.scope_events:
                self._phases(node, instruction)
        self._order.append(node)
        if full_fence:
            for other in self._since_fence:
                self._edge(other, node)
            self._edge(self._fence, node)
            self._fence, self._since_fence = node, []
        else:
            if self._fence >= 0:
                self._edge(self._fence, node)
            self._since_fence.append(node)

    def _values(self, node: int, instruction: Instruction) -> None:
        definition = self._definition
        known = self.graph.predecessors[node]
        for value in instruction.operands:
            found = definition.get(value)
            if found is not None:
                before, cycles = found
                if before != node and known.get(before, -1) < cycles:
                    known[before] = cycles
        if instruction.results:
            cycles = self._latency(instruction.descriptor) if instruction.descriptor is not None else 0
            for value in instruction.results:
                definition[value] = (node, cycles)

    def _memory(self, node: int, instruction: Instruction) -> None:
        descriptor = instruction.descriptor
        if descriptor is not None:
            if descriptor.effects.side_effects:
                self._edge(self._side_effect, node)
                self._side_effect = node
            if descriptor.effects.barrier:
                for other in self._since_barrier:
                    self._edge(other, node)
                self._edge(self._barrier, node)
                self._barrier, self._since_barrier = node, []
                self._loads, self._stores = _Accesses(), _Accesses()
                return
            if descriptor.effects.side_effects:
                self._edge(self._barrier, node)
                self._since_barrier.append(node)
        reads, writes = memory_spaces(instruction)
        if not reads and not writes:
            return
        self._edge(self._barrier, node)
        self._since_barrier.append(node)
        spaces, memory = reads | writes, instruction.memory
        for other in self._stores.overlapping(spaces, memory):
            self._edge(other, node)
        if writes:
            for other in self._loads.overlapping(spaces, memory):
                self._edge(other, node)
            self._stores.add(node, spaces, memory)
        else:
            self._loads.add(node, spaces, memory)
        if self._stores.count > _WINDOW or self._loads.count > _WINDOW * 64:
            join = self._join([*self._loads.nodes(), *self._stores.nodes()])
            self._loads, self._stores = _Accesses(), _Accesses()
            self._stores.add(join, frozenset({"generic"}), None)

    def _phases(self, node: int, instruction: Instruction) -> None:
        for scope, phase in instruction.scope_events:
            current, boundary, members = self._scopes.get(scope, (phase, -1, []))
            if current != phase:
                if members and members[-1] == node:
                    # A locked sequence spans the phases: it is the boundary itself.
                    for other in members[:-1]:
                        self._edge(other, node)
                    self._edge(boundary, node)
                    boundary = node
                else:
                    join = self._join(members)
                    self._edge(boundary, join)
                    boundary = join
                members = []
            self._edge(boundary, node)
            if not members or members[-1] != node:
                members.append(node)
            self._scopes[scope] = (phase, boundary, members)

    def finish(self, terminator: Instruction, live_out: frozenset[str]) -> None:
        """Add the edges of implicit registers, for which later readers must be known."""
        touched = [self._touched(node) for node in self._order]
        alive = set(live_out) | set(self._effects(terminator)[0])
        live_writes: list[frozenset[str] | set[str]] = []
        written: set[str] = set()
        for reads, writes in reversed(touched):
            if writes:
                live_writes.append(alive.intersection(writes))
                alive.difference_update(writes)
                written.update(writes)
            else:
                live_writes.append(_NONE)
            alive.update(reads)
        if not written:
            return
        live_writes.reverse()
        state = {name: _Implicit() for name in written}
        for node, (reads, writes), live in zip(self._order, touched, live_writes, strict=True):
            for name in reads:
                register = state.get(name)
                if register is not None:
                    if register.writer >= 0:
                        self._edge(register.writer, node, self._write_latency(register.writer, name))
                    register.readers.append(node)
            for name in writes:
                self._write(state[name], node, name in live)

    def _touched(self, node: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        members = self.graph.members[node]
        if len(members) == 1:
            return self._effects(members[0])
        reads: dict[str, None] = {}
        writes: dict[str, None] = {}
        for instruction in members:
            read, written = self._effects(instruction)
            reads.update((name, None) for name in read if name not in writes)
            writes.update(dict.fromkeys(written))
        return tuple(reads), tuple(writes)

    def _write_latency(self, node: int, name: str) -> int:
        for instruction in reversed(self.graph.members[node]):
            if name in self._effects(instruction)[1]:
                return 0 if instruction.descriptor is None else self._latency(instruction.descriptor)
        return 0

    def _write(self, register: _Implicit, node: int, live: bool) -> None:
        """A write that is read later ends the current value; one that is not only keeps clear of it."""
        readers = [reader for reader in register.readers if reader != node]
        if len(readers) > 8:
            join = self._join(readers)
            register.readers = readers = [join]
        for reader in readers:
            self._edge(reader, node)
        self._edge(register.writer, node)
        if not live:
            register.dead.append(node)
            return
        for dead in register.dead:
            self._edge(dead, node)
        register.writer, register.readers, register.dead = node, [], []
