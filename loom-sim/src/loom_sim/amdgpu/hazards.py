"""Distances between instructions that software must keep because hardware does not.

The code is looked at once, along all its paths, before it runs; an instruction that comes too early after another on
some path is a fault when it is executed. Where a jump goes to a computed address nothing is assumed of what came
before. Distances are kept per register: wait states on gfx942 (every instruction is one, `s_nop N` is N + 1), vector
instructions on gfx11 and gfx12.

Checked are the rules between scalar and vector registers, lane moves, masks, M0, hardware registers, transcendental
results, dot products, wide stores and matrix operands (`matrix_distances` for gfx942 and gfx950). Not checked: that a
matrix instruction overwrites the result of another. Rules for waves of 64 on gfx11 are in `wave64_hazards`.

Sources: AMD "Instinct MI300 Instruction Set Architecture", section 4.5, Manually Inserted Wait States; LLVM
"GCNHazardRecognizer" as documentation of what compilers keep for gfx940 and gfx11.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from loom_sim.amdgpu import matrix_distances, waits, wave64_hazards
from loom_sim.amdgpu.errors import SimulationFault
from loom_sim.amdgpu.instruction import AGPR, VGPR, Instruction
from loom_sim.amdgpu.traits import Traits

if TYPE_CHECKING:
    from loom_sim.amdgpu.blocks import Code

Key = tuple[str, int]
State = dict[Key, int]
"""Distance since a kind of producer used a register; only what a rule may still look back to."""

_SHORT, _SHORT_LONGEST = frozenset({"scalar", "vector", "trans", "wide-store", "mask", "m0", "setreg"}), 5
"""Kinds of producers that no rule on gfx942 looks back to for more than five states: all but matrix instructions."""
_TRANS_VECTORS, _TRANS_TRANS = 5, 1
_LANE_SELECT = frozenset({"v_readlane_b32", "v_writelane_b32"})
_READ_LANE = frozenset({"v_readlane_b32", "v_readfirstlane_b32"})
_VCC_HIGH, _EXEC, _VCCZ, _EXECZ = 107, 126, 251, 252
_DEPCTR_VA_VDST = 12
_HARDWARE_REGISTER_BITS = 63
_FACTORS = frozenset({"src0", "src1", "vsrc1"})
_NAMES = {"mask": "exec", "m0": "m0", "setreg": "a hardware register", "double issued": "the f64 multipliers"}
"""What a message calls the registers of a kind of producer, other than by their number."""
_ENDS = frozenset({"s_branch", "s_setpc_b64", "s_swappc_b64", "s_endpgm", "s_rfe_b64"})


def _is_vector(inst: Instruction) -> bool:
    return inst.format.startswith(("VOP", "MFMA", "WMMA"))


def _is_trans(inst: Instruction) -> bool:
    return "trans" in inst.flags


def _scalar(units: Iterable[int]) -> list[int]:
    return [unit for unit in units if unit <= _VCC_HIGH]


def _vector(units: Iterable[int]) -> list[int]:
    return [unit for unit in units if VGPR <= unit < AGPR + 256]


def _hardware_register(inst: Instruction) -> int:
    operand = inst.operand("simm16")
    return 0 if operand is None else operand.code & _HARDWARE_REGISTER_BITS


class _Cdna3:
    """gfx942 and gfx950."""

    def __init__(self, traits: Traits, wave_size: int) -> None:
        self._traits = traits
        self._wave_size = wave_size

    def needs(self, inst: Instruction, state: State) -> Iterator[tuple[Key, int, str]]:
        """What must be how far away, and what it is."""
        reads, writes = waits.uses(inst, self._traits, self._wave_size)
        yield from self._scalar_unit_needs(inst)
        memory = waits.is_vector_memory(inst)
        if memory:
            for unit in _scalar(reads):
                yield ("scalar", unit), 5, "a vector instruction wrote"
        producer = matrix_distances.producer_of(inst)
        if producer is not None:
            yield ("mask", _EXEC), 4, "a vector instruction wrote"
            for unit in _vector(reads):
                yield ("vector", unit), 2, "a vector instruction wrote"
            yield from matrix_distances.matrix_needs(inst, producer, state, self._traits.late_matrix, self._wave_size)
            return
        memory = memory or inst.format == "DS"
        if memory or _is_vector(inst):
            yield from matrix_distances.other_needs(reads, writes, state, memory, self._traits.late_matrix)
            yield from self._dot_needs(inst, reads, writes, state)
            yield from matrix_distances.fused_needs(inst)
        if _is_vector(inst):
            yield from self._vector_needs(inst, reads, writes)

    def _scalar_unit_needs(self, inst: Instruction) -> Iterator[tuple[Key, int, str]]:
        """Hardware registers, and M0 where it is not a plain operand."""
        name = inst.mnemonic
        if name.startswith(("s_getreg", "s_setreg")):
            yield ("setreg", _hardware_register(inst)), 2, "s_setreg wrote"
        elif name.startswith(("s_sendmsg", "s_movrel")) or "_load_lds_" in name or inst.modifiers.get("lds"):
            yield ("m0", self._traits.m0_code), 1, "a scalar instruction wrote"

    def _dot_needs(
        self, inst: Instruction, reads: set[int], writes: set[int], state: State
    ) -> Iterator[tuple[Key, int, str]]:
        """Results of dot products: only the accumulator of the same instruction is forwarded."""
        for kind, unit in state:
            if not kind.startswith("v_dot"):
                continue
            if kind != inst.mnemonic:
                if unit in reads or unit in writes:
                    yield (kind, unit), 3, "a dot product wrote"
            elif any(unit in waits.register_units(o, self._wave_size) for o in inst.sources if o.name in _FACTORS):
                yield (kind, unit), 3, "a dot product wrote"

    def _vector_needs(self, inst: Instruction, reads: set[int], writes: set[int]) -> Iterator[tuple[Key, int, str]]:
        name = inst.mnemonic
        far = set(reads) if name.startswith("v_div_fmas") else set()
        if name in _LANE_SELECT:
            far = {u for o in inst.operands if o.name == "src1" for u in waits.register_units(o, self._wave_size)}
        for unit in _scalar(reads):
            yield ("scalar", unit), 4 if unit in far else 2, "a vector instruction wrote"
        for unit in _vector(reads):
            if not _is_trans(inst):
                yield ("trans", unit), 1, "a transcendental instruction wrote"
            if name in _READ_LANE:
                yield ("vector", unit), 1, "a vector instruction wrote"
            if inst.variant.startswith("dpp"):
                yield ("vector", unit), 2, "a vector instruction wrote"
        for operand in inst.sources:
            if operand.code == _VCCZ:
                yield ("scalar", _VCC_HIGH - 1), 5, "a vector instruction wrote"
        if inst.variant.startswith("dpp") or any(operand.code == _EXECZ for operand in inst.sources):
            yield ("mask", _EXEC), 5, "a vector instruction wrote"
        elif name in _READ_LANE or name in _LANE_SELECT:
            yield ("mask", _EXEC), 4, "a vector instruction wrote"
        for unit in _vector(writes):
            yield ("wide-store", unit), 2, "a wide store still reads"

    def after(self, inst: Instruction, state: State) -> None:
        """Account for an instruction."""
        immediate = inst.operand("simm16")
        step = immediate.code + 1 if inst.mnemonic == "s_nop" and immediate is not None else 1
        for key in list(state):
            state[key] += step
            if state[key] > (_SHORT_LONGEST if key[0] in _SHORT else matrix_distances.LONGEST):
                del state[key]
        _, writes = waits.uses(inst, self._traits, self._wave_size)
        producer = matrix_distances.producer_of(inst)
        if producer is not None:
            matrix_distances.issued(inst, producer, state, self._wave_size)
        elif inst.format in waits.SCALAR_FORMATS:
            if inst.mnemonic.startswith("s_setreg"):
                state["setreg", _hardware_register(inst)] = 0
            if self._traits.m0_code in writes:
                state["m0", self._traits.m0_code] = 0
        elif _is_vector(inst):
            state.update({("scalar", unit): 0 for unit in _scalar(writes)})
            if "exec" in inst.implicit_writes or _EXEC in writes:
                state["mask", _EXEC] = 0
            for unit in _vector(writes):
                for key in [k for k in state if k[1] == unit and k[0].startswith("v_dot")]:
                    del state[key]
                if inst.mnemonic.startswith("v_dot"):
                    state[inst.mnemonic, unit] = 0
                else:
                    state["vector", unit] = 0
                state.pop(("trans", unit), None)
                if _is_trans(inst):
                    state["trans", unit] = 0
        elif waits.is_vector_memory(inst) and not inst.results:
            for operand in inst.operands:
                if operand.name in ("data", "vdata", "vsrc") and operand.bits > 64:
                    units = waits.register_units(operand, self._wave_size)
                    state.update({("wide-store", unit): 0 for unit in units})


class _Rdna:
    """gfx11 and gfx12. `trans_use`: results of transcendental instructions are not interlocked."""

    def __init__(self, traits: Traits, wave_size: int, trans_use: bool) -> None:
        self._traits = traits
        self._wave_size = wave_size
        self._trans_use = trans_use
        wide = traits.family == "gfx11" and wave_size == 64
        self._wave64 = wave64_hazards.Wave64(traits) if wide else None

    def needs(self, inst: Instruction, state: State) -> Iterator[tuple[Key, int, str]]:
        """As for gfx942."""
        if self._wave64 is not None:
            yield from self._wave64.needs(inst, state)
        if not _is_vector(inst):
            return
        reads, _ = waits.uses(inst, self._traits, self._wave_size)
        if self._trans_use:
            for unit in _vector(reads):
                yield ("trans", unit), _TRANS_VECTORS + 1, "a transcendental instruction wrote"
        if inst.mnemonic.startswith("v_permlane"):
            yield ("mask", _EXEC), 1, "a comparison wrote"
        if self._is_matrix(inst):
            for operand in inst.operands:
                if operand.name in ("src0", "src1"):
                    for unit in waits.register_units(operand, self._wave_size):
                        yield ("matrix", unit), 1, "a matrix instruction wrote"

    @staticmethod
    def _is_matrix(inst: Instruction) -> bool:
        return inst.mnemonic.startswith(("v_wmma", "v_swmmac"))

    def after(self, inst: Instruction, state: State) -> None:
        """As for gfx942."""
        if self._wave64 is not None:
            self._wave64.after(inst, state)
        if not _is_vector(inst):
            immediate = inst.operand("simm16")
            waited = inst.mnemonic in ("s_waitcnt_depctr", "s_wait_alu") and immediate is not None
            if (waited and immediate is not None and not immediate.code >> _DEPCTR_VA_VDST & 15) or (
                waits.is_vector_memory(inst) or inst.format == "DS"
            ):
                for key in [k for k in state if k[0] == "trans"]:
                    del state[key]
            return
        trans = _is_trans(inst)
        for key in list(state):
            if self._wave64 is not None and wave64_hazards.is_kind(key[0]):
                continue
            if key[0] == "mask":
                # Any vector instruction but an idle one separates the comparison from the permutation.
                if inst.mnemonic != "v_nop":
                    del state[key]
                continue
            # The second transcendental instruction ends the wait for the first: they end in order.
            state[key] += 1 + (_TRANS_VECTORS + 1) // (_TRANS_TRANS + 1) * int(trans and key[0] == "trans")
            if state[key] > _TRANS_VECTORS or key[0] == "matrix":
                del state[key]
        _, writes = waits.uses(inst, self._traits, self._wave_size)
        if inst.mnemonic.startswith("v_cmpx"):
            state["mask", _EXEC] = 0
        for unit in _vector(writes):
            state.pop(("trans", unit), None)
            if trans and self._trans_use:
                state["trans", unit] = 0
            if self._is_matrix(inst):
                state["matrix", unit] = 0


class Hazards:
    """Finds instructions that come too early."""

    def __init__(self, traits: Traits, wave_size: int, trans_use: bool) -> None:
        self._rules: _Cdna3 | _Rdna
        self._rules = _Cdna3(traits, wave_size) if traits.family == "gfx942" else _Rdna(traits, wave_size, trans_use)
        self._states = "wait states" if traits.family == "gfx942" else "vector instructions"
        self._entry: dict[int, State] = {}
        self.problems: dict[int, str] = {}

    def scan(self, code: Code, entry: int) -> None:
        """Look at all code that an address leads to; `code` has found its branch targets already."""
        if entry in self._entry:
            return
        self._entry[entry] = {}
        work = [entry]
        while work:
            pc = work.pop()
            state = dict(self._entry[pc])
            while True:
                try:
                    inst = code.at(pc)
                except SimulationFault:
                    break
                self._check(inst, state)
                self._rules.after(inst, state)
                after = pc + inst.size
                for operand in inst.operands:
                    if operand.kind == "branch16":
                        self._arrive(after + 4 * operand.code, state, work)
                if inst.mnemonic in _ENDS:
                    break
                pc = after
                if pc in code.leaders:
                    self._arrive(pc, state, work)
                    break

    def _check(self, inst: Instruction, state: State) -> None:
        if not state:
            return
        for key, distance, what in self._rules.needs(inst, state):
            have = state.get(key, distance)
            if have < distance:
                kind, number = key
                register = _NAMES.get(kind) or waits.register_name(number)
                between = f"{distance} {self._states} must be between, and there are {have}"
                for start, wait in wave64_hazards.WAITS.items():
                    between = wait if kind.startswith(start) else between
                self.problems[inst.address] = f"uses {register}, which {what}: {between}"
                return

    def _arrive(self, pc: int, state: State, work: list[int]) -> None:
        known = self._entry.get(pc)
        if known is None:
            self._entry[pc] = dict(state)
            work.append(pc)
            return
        changed = False
        for key, distance in state.items():
            if known.get(key, distance + 1) > distance:
                known[key] = distance
                changed = True
        if changed:
            work.append(pc)
