"""Memory operations in flight: which registers hold results that no wait has covered yet.

What is in flight depends only on the path of the program counter, so it is followed while code is translated and
is part of what a block is specialized on; at run time the checks cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from loom_sim.amdgpu.execute import access
from loom_sim.amdgpu.instruction import AGPR, OFF, VGPR, Instruction, Operand
from loom_sim.amdgpu.synchronization import WaitStep
from loom_sim.amdgpu.traits import Traits

_VECTOR_FORMATS = frozenset({"FLAT", "GLOBAL", "SCRATCH", "MUBUF", "MTBUF", "VFLAT", "VGLOBAL", "VSCRATCH", "VBUFFER"})
SCALAR_FORMATS = frozenset({"SOP1", "SOP2", "SOPC", "SOPK"})
"""What the scalar unit computes."""
_FLAT_FORMATS = frozenset({"FLAT", "VFLAT"})
_CACHE_CONTROL = frozenset(
    {
        "buffer_gl0_inv",
        "buffer_gl1_inv",
        "buffer_inv",
        "buffer_wbl2",
        "buffer_wbinvl1",
        "buffer_wbinvl1_vol",
        "global_inv",
        "global_wb",
        "global_wbinv",
    }
)

# Counters by role. gfx942 and gfx11 count LDS and scalar memory together.
LOAD, STORE, LDS, SCALAR = "load", "store", "lds", "scalar"
_LIMIT = 63

_SPLIT_WAITS = {
    "s_wait_loadcnt": (LOAD,),
    "s_wait_storecnt": (STORE,),
    "s_wait_dscnt": (LDS,),
    "s_wait_kmcnt": (SCALAR,),
    "s_wait_loadcnt_dscnt": (LOAD, LDS),
    "s_wait_storecnt_dscnt": (STORE, LDS),
}


@attrs.frozen(slots=True)
class Pending:
    """One operation in flight: its destination registers, and whether it completes in order."""

    registers: frozenset[int]
    ordered: bool


State = tuple[tuple[str, tuple[Pending, ...]], ...]
"""Queues by counter, oldest first; only counters with something in flight."""

NONE: State = ()


def register_units(operand: Operand, wave_size: int) -> range:
    """Registers of an operand as numbers: scalar registers by code, vector registers from 256."""
    code = operand.code
    if operand.kind in ("imm", "imm16", "simm16", "branch16", "hwreg16", "offset", "lit32", "lit16", "off"):
        return range(0)
    if code == OFF or 128 <= code < VGPR:
        return range(0)
    bits = wave_size if operand.bits <= 1 else operand.bits
    return range(code, code + max(1, bits // 32))


def _implicit(names: tuple[str, ...], traits: Traits, wave_size: int) -> set[int]:
    units: set[int] = set()
    if "vcc" in names:
        units.update(range(106, 106 + wave_size // 32))
    if "m0" in names:
        units.add(traits.m0_code)
    return units


def uses(inst: Instruction, traits: Traits, wave_size: int) -> tuple[set[int], set[int]]:
    """Registers an instruction reads and writes, the null register excepted."""
    reads = _implicit(inst.implicit_reads, traits, wave_size)
    writes = _implicit(inst.implicit_writes, traits, wave_size)
    for half in (inst, inst.second):
        if half is None:
            continue
        for operand in half.operands:
            units = register_units(operand, wave_size)
            if operand.is_source:
                reads.update(units)
            if operand.is_result:
                writes.update(units)
    reads.discard(traits.null_code)
    writes.discard(traits.null_code)
    return reads, writes


def is_vector_memory(inst: Instruction) -> bool:
    """Counts in the vector memory counters."""
    return inst.format in _VECTOR_FORMATS and inst.mnemonic not in _CACHE_CONTROL


class Tracker:
    """Follows one path through the code."""

    def __init__(self, traits: Traits, wave_size: int, state: State) -> None:
        self.traits = traits
        self.wave_size = wave_size
        self.queues: dict[str, list[Pending]] = {name: list(queue) for name, queue in state}

    def state(self) -> State:
        """The canonical state, for comparing and hashing."""
        result = []
        for name in sorted(self.queues):
            queue = self.queues[name]
            while queue and not queue[0].registers:
                queue.pop(0)  # nothing can depend on an oldest operation without a result
            if queue:
                result.append((name, tuple(queue)))
        return tuple(result)

    def conflict(self, inst: Instruction) -> str | None:
        """What is wrong if the instruction executes now: the register and the counter not waited for."""
        if not self.queues:
            return None
        reads, writes = uses(inst, self.traits, self.wave_size)
        counters = self._counters(inst)
        for name, queue in self.queues.items():
            for pending in queue:
                touched = pending.registers & reads
                how = "reads"
                if not touched:
                    # Results of one counter arrive in order, so a later load may reuse a register.
                    if name in counters and pending.ordered:
                        continue
                    touched = pending.registers & writes
                    how = "overwrites"
                elif name in counters and pending.ordered and self._keeps_half(inst, touched):
                    continue
                if touched:
                    register = min(touched)
                    counter = self._counter_name(name)
                    return f"{how} {register_name(register)}, which a load still in flight writes: no wait on {counter}"
        return None

    def _keeps_half(self, inst: Instruction, touched: frozenset[int]) -> bool:
        """A 16-bit load that only merges into the register another load of the same kind fills."""
        move = access.parse(inst.mnemonic)
        if move is None or not move.half or move.store:
            return False
        sources = {u for o in inst.sources for u in register_units(o, self.wave_size)}
        return not touched & sources

    def _counter_name(self, role: str) -> str:
        if self.traits.split_counters:
            return {LOAD: "loadcnt", STORE: "storecnt", LDS: "dscnt", SCALAR: "kmcnt"}[role]
        return {LOAD: "vmcnt", STORE: "vscnt", LDS: "lgkmcnt", SCALAR: "lgkmcnt"}[role]

    def _counters(self, inst: Instruction) -> tuple[str, ...]:
        """Counters an instruction increments, by role."""
        if inst.format == "DS":
            return (LDS,)
        if inst.format == "SMEM":
            return (SCALAR if self.traits.split_counters else LDS,) if inst.results else ()
        if not is_vector_memory(inst):
            return ()
        stores = not inst.results
        memory = STORE if stores and self.traits.separate_stores else LOAD
        return (memory, LDS) if inst.format in _FLAT_FORMATS else (memory,)

    def issue(self, inst: Instruction) -> None:
        """Account for a memory instruction."""
        counters = self._counters(inst)
        if not counters:
            return
        registers: set[int] = set()
        for operand in inst.results:
            registers.update(register_units(operand, self.wave_size))
        registers.discard(self.traits.null_code)
        # Flat operations go to memory or LDS, and the two paths are not ordered with each other.
        pending = Pending(frozenset(registers), inst.format != "SMEM")
        for name in counters:
            queue = self.queues.setdefault(name, [])
            queue.append(pending)
            if len(queue) > _LIMIT:
                queue.pop(0)  # the counter cannot go higher: issue has stalled until this one was done

    def _wait(self, name: str, count: int) -> None:
        queue = self.queues.get(name)
        if not queue:
            return
        if count == 0:
            self.queues.pop(name)
            return
        if all(p.ordered for p in queue):
            del queue[: max(0, len(queue) - count)]
            return
        # Scalar loads complete in any order: only the ordered operations beyond the newest `count` are certain.
        ordered = [i for i, p in enumerate(queue) if p.ordered]
        done = set(ordered[: max(0, len(ordered) - count)])
        self.queues[name] = [p for i, p in enumerate(queue) if i not in done]

    def wait(self, inst: Instruction) -> WaitStep | None:
        """Account for a wait for memory and say what it waited for; None for other instructions."""
        demands = self._demands(inst)
        if not demands:
            return None
        before = self._in_flight(demands)
        for name, count in demands.items():
            self._wait(name, count)
        return WaitStep(inst.address, before, before - self._in_flight(demands))

    def _in_flight(self, roles: Iterable[str]) -> int:
        """Operations with results that count in some of these counters, each once."""
        return len({id(p) for name in roles for p in self.queues.get(name, ()) if p.registers})

    def _demands(self, inst: Instruction) -> Mapping[str, int]:
        """How many operations may stay in flight, by counter; counters that are not waited for are left out."""
        name = inst.mnemonic
        if not name.startswith("s_wait"):
            return {}
        if name == "s_wait_idle":
            return dict.fromkeys((LOAD, STORE, LDS, SCALAR), 0)
        immediate = inst.operand("simm16")
        value = immediate.code & 0xFFFF if immediate is not None else 0
        if name == "s_waitcnt":
            if self.traits.family == "gfx942":
                found = {LOAD: value & 15 | value >> 14 << 4, LDS: value >> 8 & 15}
                return {role: count for role, count in found.items() if count < (_LIMIT if role == LOAD else 15)}
            found = {LOAD: value >> 10 & 63, LDS: value >> 4 & 63}
            return {role: count for role, count in found.items() if count < _LIMIT}
        single = {"s_waitcnt_vscnt": STORE, "s_waitcnt_vmcnt": LOAD, "s_waitcnt_lgkmcnt": LDS}.get(name)
        roles = _SPLIT_WAITS.get(name, ()) if single is None else (single,)
        counts = (value >> 8 & 63, value & 63)[-len(roles) :] if roles else ()
        return dict(zip(roles, counts, strict=True))


def register_name(unit: int) -> str:
    """Assembly name of a register number."""
    if unit >= AGPR:
        return f"a{unit - AGPR}"
    if unit >= VGPR:
        return f"v{unit - VGPR}"
    return {106: "vcc_lo", 107: "vcc_hi", 126: "exec_lo", 127: "exec_hi"}.get(unit, f"s{unit}")
