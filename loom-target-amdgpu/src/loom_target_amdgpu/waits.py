"""Waiting for memory: a forward analysis over encoded instructions, then the insertion of wait instructions.

Per hardware counter the state keeps, for every register with a pending transfer, how many younger operations of
the same counter have certainly been issued since: that many may stay outstanding when the register is needed. At
joins the smaller number counts. Scalar loads complete in any order, so needing one (or needing a workgroup
transfer while scalar loads share its counter) drains the counter.

Source: LLVM "User Guide for AMDGPU Backend", section Memory Model.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from operator import is_
from typing import Final

from loom.ir.records import mutable_record
from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.isa.tables import Row
from loom_target_amdgpu.isa.waits import Counter, maximum, same_counter, waitcnt_immediate
from loom_target_amdgpu.machine_code import Assembler, Code, spliced

_VECTOR_MEMORY: Final = frozenset(
    {"GLOBAL", "VGLOBAL", "SCRATCH", "VSCRATCH", "MUBUF", "VBUFFER", "MTBUF", "FLAT", "VFLAT"}
)
_FLAT: Final = frozenset({"FLAT", "VFLAT"})
_COUNTER_OF_FIELD: Final = {
    "vmcnt": Counter.LOAD,
    "lgkmcnt": Counter.LDS,
    "vscnt": Counter.STORE,
    "loadcnt": Counter.LOAD,
    "storecnt": Counter.STORE,
    "dscnt": Counter.LDS,
    "kmcnt": Counter.SCALAR,
}
_State = list["_Pending"]
BARRIERS: Final = frozenset({"s_barrier", "s_barrier_signal"})
_SPLIT: Final = {
    Counter.LOAD: "s_wait_loadcnt",
    Counter.STORE: "s_wait_storecnt",
    Counter.LDS: "s_wait_dscnt",
    Counter.SCALAR: "s_wait_kmcnt",
}


@cache
def events(row: Row) -> tuple[Counter, ...]:
    """The kinds of operations that an instruction starts."""
    if row.format == "SMEM":
        return (Counter.SCALAR,) if "load" in row.flags else ()
    if row.format == "DS":
        return (Counter.LDS,)
    if row.format in _VECTOR_MEMORY:
        if not row.flags:
            return ()
        returns = any(o.direction != "in" and o.ranges for o in row.operands)
        kind = Counter.LOAD if returns else Counter.STORE
        return (kind, Counter.LDS) if row.format in _FLAT else (kind,)
    if row.mnemonic.startswith("s_sendmsg_rtn"):
        return (Counter.SCALAR,)
    return ()


class _Pending:
    """One hardware counter: registers with a pending transfer, and what is known of the rest.

    ``ordered`` has the number of the operation that a register waits for, counted as ``issued`` counts them from the
    start of the block; what was issued before the block has numbers from 0 down. What several blocks start with is
    ``shared``, and stays as it is.
    """

    __slots__ = ("busy", "flat", "issued", "ordered", "shared", "unordered")

    def __init__(self) -> None:
        self.issued = 0
        self.ordered: dict[int, int] = {}
        self.unordered: set[int] = set()
        self.busy = False
        self.flat = False
        self.shared = False

    def copy(self, limit: int) -> _Pending:
        """The same at the start of a block. More than ``limit`` younger operations are as good as so many."""
        fresh = _Pending()
        issued = self.issued
        oldest = issued - limit
        fresh.ordered = {u: number - issued if number > oldest else -limit for u, number in self.ordered.items()}
        fresh.unordered = self.unordered.copy()
        fresh.busy, fresh.flat = self.busy, self.flat
        return fresh

    def following(self, limit: int) -> _Pending:
        """What blocks that follow start with."""
        found = self.copy(limit) if self.issued else self
        found.shared = True
        return found

    def joined(self, other: _Pending) -> _Pending:
        """With another path to the start of a block; the same object where that adds nothing."""
        if other is self:
            return self
        known = self.ordered
        nearer = {unit: n for unit, n in other.ordered.items() if unit not in known or known[unit] < n}
        flags = (self.busy or other.busy, self.flat or other.flat)
        if not nearer and other.unordered <= self.unordered and flags == (self.busy, self.flat):
            return self
        found = _Pending()
        found.ordered = {**known, **nearer}
        found.unordered = self.unordered | other.unordered
        found.busy, found.flat = flags
        found.shared = True
        return found

    def needed(self, units: tuple[int, ...]) -> int | None:
        """How many operations may stay outstanding once these registers are touched; None: any number."""
        if not self.unordered.isdisjoint(units):
            return 0
        ordered = self.ordered
        if ordered.keys().isdisjoint(units):
            return None
        if self.unordered or self.flat:
            return 0
        return self.issued - max(ordered[unit] for unit in units if unit in ordered)

    def after(self, count: int) -> _Pending:
        """The same when at most ``count`` operations are outstanding any more."""
        found = _Pending()
        if count:
            oldest = self.issued - count
            found.issued = self.issued
            found.ordered = {unit: number for unit, number in self.ordered.items() if number > oldest}
            found.unordered = self.unordered.copy()
            found.busy, found.flat = self.busy, self.flat
        return found


@mutable_record
class WaitCounts:
    """Waits of a function: the authored ones, and places where the compiler waits for everything of some counters
    (``full``) or lets younger operations stay outstanding (``partial``)."""

    explicit: int
    full: int = 0
    partial: int = 0


@cache
def _counters(family: str) -> tuple[tuple[Counter, ...], dict[Counter, int], tuple[int, ...]]:
    """The counters of a family by name, the place of the one that counts each kind of operation, and the largest
    counts. Kinds that share a counter are represented by the first of them."""
    identity = {kind: next(first for first in Counter if same_counter(family, first, kind)) for kind in Counter}
    found = sorted(set(identity.values()) - {Counter.EXPORT}, key=lambda c: c.name)
    places = {kind: found.index(first) for kind, first in identity.items() if first in found}
    return tuple(found), places, tuple(maximum(family, counter) for counter in found)


class WaitInserter:
    """Inserts waits into the blocks of one function, in place."""

    def __init__(self, blocks: list[CodeBlock], assembler: Assembler) -> None:
        self._blocks = blocks
        self._asm = assembler
        self._family = assembler.family
        self._counters, self._places, self._limits = _counters(assembler.family)
        self._started: dict[Row, tuple[int, ...]] = {}
        self._instructions: dict[tuple[tuple[int, int], ...], list[tuple[str, dict[str, int]]]] = {}
        self.counts = WaitCounts(explicit=sum(code.drains is not None for block in blocks for code in block.code))

    def run(self) -> None:
        """Analyse to a fixed point; what the last visit of a block finds is what to insert there."""
        by_label = {block.label: block for block in self._blocks}
        before: dict[str, _State] = {}
        if not self._blocks:
            return
        before[self._blocks[0].label] = [_Pending().following(limit) for limit in self._limits]
        work = [self._blocks[0].label]
        found: dict[str, list[tuple[int, dict[int, int]]]] = {}
        while work:
            label = work.pop()
            block = by_label[label]
            state = before[label].copy()
            steps = ((position, self._step(code, state)) for position, code in enumerate(block.code))
            found[label] = [step for step in steps if step[1]]
            if not block.successors:
                continue
            state = [pending.following(limit) for pending, limit in zip(state, self._limits, strict=True)]
            for successor in block.successors:
                known = before.get(successor)
                joined = state
                if known is not None:
                    joined = [one.joined(other) for one, other in zip(known, state, strict=True)]
                    if all(map(is_, joined, known)):
                        continue
                before[successor] = joined
                work.append(successor)
        for block in self._blocks:
            if found.get(block.label):
                waits = ((at, self._waits(needs, block.code[at].loc)) for at, needs in found[block.label])
                block.code = spliced(block.code, waits)

    def _step(self, code: Code, state: _State) -> dict[int, int]:
        """Wait for what the instruction needs, then account for what it starts; returns the waits."""
        waits: dict[int, int] = {}
        units: tuple[int, ...] | None = None
        for counter, pending in enumerate(state):
            if pending.ordered or pending.unordered:
                if units is None:
                    units = code.reads + code.writes
                count = pending.needed(units)
                if count is not None:
                    waits[counter] = min(count, self._limits[counter] - 1)
        row = code.row
        if row.mnemonic in BARRIERS:
            lds = self._places[Counter.LDS]
            if state[lds].busy:
                waits[lds] = 0
        for counter, count in waits.items():
            state[counter] = state[counter].after(count)
        if code.drains is not None:
            for name, count in code.drains.items():
                counter = self._places[_COUNTER_OF_FIELD[name]]
                if count < self._limits[counter]:
                    state[counter] = state[counter].after(count)
        started = self._started.get(row)
        if started is None:
            started = self._started[row] = tuple(self._places[kind] for kind in events(row))
        if started:
            self._issue(code, started, state)
        return waits

    def _issue(self, code: Code, started: tuple[int, ...], state: _State) -> None:
        for counter, kind in zip(started, events(code.row), strict=True):
            pending = state[counter]
            if pending.shared:
                pending = state[counter] = pending.copy(self._limits[counter])
            pending.issued += 1
            pending.busy = True
            if kind is Counter.SCALAR:
                pending.unordered.update(code.writes)
                continue
            for unit in code.writes:
                pending.ordered[unit] = pending.issued
            # gfx9 may report a flat access early in the domain it did not use.
            if len(started) > 1 and self._family == "gfx942":
                pending.flat = True

    def _waits(self, needs: Mapping[int, int], loc: object) -> list[Code]:
        if any(needs.values()):
            self.counts.partial += 1
        else:
            self.counts.full += 1
        key = tuple(needs.items())
        instructions = self._instructions.get(key)
        if instructions is None:
            instructions = self._instructions[key] = self._instructions_of(needs)
        return [self._asm.plain(name, loc, **codes) for name, codes in instructions]  # type: ignore[arg-type]  # operands

    def _instructions_of(self, needs: Mapping[int, int]) -> list[tuple[str, dict[str, int]]]:
        """Mnemonics and operands of what waits for some counters."""
        waits = {self._counters[place]: count for place, count in needs.items()}
        if self._family == "gfx12":
            return [(_SPLIT[c], {"simm16": n}) for c, n in sorted(waits.items(), key=lambda i: i[0].name)]
        counts: dict[str, int] = {}
        found = []
        for counter, count in waits.items():
            if counter is Counter.STORE:
                found.append(("s_waitcnt_vscnt", {"sdst": self._asm.names["null"], "simm16": count}))
            else:
                counts["vmcnt" if counter is Counter.LOAD else "lgkmcnt"] = count
        if counts:
            found.insert(0, ("s_waitcnt", {"simm16": waitcnt_immediate(self._family, counts)}))
        return found
