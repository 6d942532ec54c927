"""Waiting for memory: a forward analysis over encoded instructions, then the insertion of wait instructions.

Per hardware counter the state keeps, for every register with a pending transfer, how many younger operations of
the same counter have certainly been issued since: that many may stay outstanding when the register is needed. At
joins the smaller number counts. Scalar loads complete in any order, so needing one (or needing a workgroup
transfer while scalar loads share its counter) drains the counter.

Source: LLVM "User Guide for AMDGPU Backend", section Memory Model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from loom.ir.records import mutable_record
from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.isa.tables import Row
from loom_target_amdgpu.isa.waits import Counter, maximum, same_counter
from loom_target_amdgpu.machine_code import Assembler, Code

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
BARRIERS: Final = frozenset({"s_barrier", "s_barrier_signal"})
_SPLIT: Final = {
    Counter.LOAD: "s_wait_loadcnt",
    Counter.STORE: "s_wait_storecnt",
    Counter.LDS: "s_wait_dscnt",
    Counter.SCALAR: "s_wait_kmcnt",
}


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
    """One hardware counter: registers with a pending transfer, and what is known of the rest."""

    __slots__ = ("busy", "flat", "ordered", "unordered")

    def __init__(self) -> None:
        self.ordered: dict[int, int] = {}
        self.unordered: set[int] = set()
        self.busy = False
        self.flat = False

    def copy(self) -> _Pending:
        fresh = _Pending()
        fresh.ordered = dict(self.ordered)
        fresh.unordered = set(self.unordered)
        fresh.busy, fresh.flat = self.busy, self.flat
        return fresh

    def join(self, other: _Pending) -> bool:
        """Take in another path; whether anything changed."""
        changed = False
        for unit, younger in other.ordered.items():
            if self.ordered.get(unit, younger + 1) > younger:
                self.ordered[unit] = younger
                changed = True
        if not other.unordered <= self.unordered:
            self.unordered |= other.unordered
            changed = True
        if (other.busy and not self.busy) or (other.flat and not self.flat):
            self.busy, self.flat = self.busy or other.busy, self.flat or other.flat
            changed = True
        return changed

    def needed(self, units: Iterable[int]) -> int | None:
        """How many operations may stay outstanding once these registers are touched; None: any number."""
        count: int | None = None
        for unit in units:
            if unit in self.unordered:
                return 0
            younger = self.ordered.get(unit)
            if younger is not None and (count is None or younger < count):
                count = younger
        if count is not None and (self.unordered or self.flat):
            return 0
        return count

    def wait(self, count: int) -> None:
        """At most ``count`` operations are outstanding now."""
        if count == 0:
            self.ordered.clear()
            self.unordered.clear()
            self.busy = self.flat = False
            return
        self.ordered = {unit: younger for unit, younger in self.ordered.items() if younger < count}


@mutable_record
class WaitCounts:
    """Waits of a function: the authored ones, and places where the compiler waits for everything of some counters
    (``full``) or lets younger operations stay outstanding (``partial``)."""

    explicit: int
    full: int = 0
    partial: int = 0


class WaitInserter:
    """Inserts waits into the blocks of one function, in place."""

    def __init__(self, blocks: list[CodeBlock], assembler: Assembler) -> None:
        self._blocks = blocks
        self._asm = assembler
        self._family = assembler.family
        # Kinds that share a counter are represented by the first of them.
        self._identity = {
            kind: next(first for first in Counter if same_counter(self._family, first, kind)) for kind in Counter
        }
        self._counters = sorted(set(self._identity.values()) - {Counter.EXPORT}, key=lambda c: c.name)
        self.counts = WaitCounts(explicit=sum(code.drains is not None for block in blocks for code in block.code))

    def run(self) -> None:
        """Analyse to a fixed point, then insert."""
        by_label = {block.label: block for block in self._blocks}
        before: dict[str, dict[Counter, _Pending]] = {}
        if not self._blocks:
            return
        before[self._blocks[0].label] = self._empty()
        work = [self._blocks[0].label]
        while work:
            label = work.pop()
            block = by_label[label]
            state = {counter: pending.copy() for counter, pending in before[label].items()}
            for code in block.code:
                self._step(code, state)
            for successor in block.successors:
                known = before.get(successor)
                if known is None:
                    before[successor] = {counter: pending.copy() for counter, pending in state.items()}
                    work.append(successor)
                else:
                    changed = [known[counter].join(state[counter]) for counter in self._counters]
                    if any(changed):
                        work.append(successor)
        for block in self._blocks:
            start = before.get(block.label)
            if start is None:
                continue
            out: list[Code] = []
            for code in block.code:
                out += self._waits(self._step(code, start), code.loc)
                out.append(code)
            block.code = out

    def _empty(self) -> dict[Counter, _Pending]:
        return {counter: _Pending() for counter in self._counters}

    def _step(self, code: Code, state: dict[Counter, _Pending]) -> dict[Counter, int]:
        """Wait for what the instruction needs, then account for what it starts; returns the waits."""
        waits: dict[Counter, int] = {}
        for counter in self._counters:
            pending = state[counter]
            count = pending.needed((*code.reads, *code.writes))
            if count is not None:
                waits[counter] = min(count, maximum(self._family, counter) - 1)
        if code.row.mnemonic in BARRIERS:
            lds = self._identity[Counter.LDS]
            if state[lds].busy:
                waits[lds] = 0
        for counter, count in waits.items():
            state[counter].wait(count)
        if code.drains is not None:
            for name, count in code.drains.items():
                counter = self._identity[_COUNTER_OF_FIELD[name]]
                if count < maximum(self._family, counter):
                    state[counter].wait(count)
        started = events(code.row)
        for kind in started:
            self._issue(kind, code, state, len(started) > 1)
        return waits

    def _issue(self, kind: Counter, code: Code, state: dict[Counter, _Pending], flat: bool) -> None:
        pending = state[self._identity[kind]]
        limit = maximum(self._family, kind)
        for unit, younger in pending.ordered.items():
            if younger < limit:
                pending.ordered[unit] = younger + 1
        pending.busy = True
        if kind is Counter.SCALAR:
            pending.unordered.update(code.writes)
            return
        for unit in code.writes:
            pending.ordered[unit] = 0
        # gfx9 may report a flat access early in the domain it did not use.
        if flat and self._family == "gfx942":
            pending.flat = True

    def _waits(self, waits: Mapping[Counter, int], loc: object) -> list[Code]:
        if not waits:
            return []
        asm = self._asm
        if any(waits.values()):
            self.counts.partial += 1
        else:
            self.counts.full += 1
        if self._family == "gfx12":
            return [asm.plain(_SPLIT[c], loc, simm16=n) for c, n in sorted(waits.items(), key=lambda i: i[0].name)]
        from loom_target_amdgpu.isa.waits import waitcnt_immediate

        counts: dict[str, int] = {}
        code = []
        for counter, count in waits.items():
            if counter is Counter.STORE:
                code.append(asm.plain("s_waitcnt_vscnt", loc, sdst=asm.names["null"], simm16=count))
            else:
                counts["vmcnt" if counter is Counter.LOAD else "lgkmcnt"] = count
        if counts:
            code.insert(0, asm.plain("s_waitcnt", loc, simm16=waitcnt_immediate(self._family, counts)))
        return code
