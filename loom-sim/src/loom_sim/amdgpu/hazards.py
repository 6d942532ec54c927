"""Distances between instructions that software must keep because hardware does not.

The code is looked at once, along all its paths, before it runs; an instruction that comes too early after another on
some path is a fault when it is executed. Where a jump goes to a computed address nothing is assumed of what came
before. Distances are kept per register: wait states on gfx942 (every instruction is one, `s_nop N` is N + 1), vector
instructions on gfx11 and gfx12.

Checked are the rules between scalar and vector registers, lane moves, transcendental results, wide stores and matrix
operands on RDNA. Distances after MFMA are not.

Sources: AMD "Instinct MI300 Instruction Set Architecture", section 4.5, Manually Inserted Wait States; LLVM
"GCNHazardRecognizer" as documentation of what compilers keep for gfx940 and gfx11.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from loom_sim.amdgpu import waits
from loom_sim.amdgpu.errors import SimulationFault
from loom_sim.amdgpu.instruction import AGPR, VGPR, Instruction
from loom_sim.amdgpu.traits import Traits

if TYPE_CHECKING:
    from loom_sim.amdgpu.blocks import Code

Key = tuple[str, int]
State = dict[Key, int]
"""Distance since a kind of producer wrote a register; only what a rule may still look back to."""

_LONGEST = 5
_TRANS_VECTORS, _TRANS_TRANS = 5, 1
_LANE_SELECT = frozenset({"v_readlane_b32", "v_writelane_b32"})
_READ_LANE = frozenset({"v_readlane_b32", "v_readfirstlane_b32"})
_VCC_HIGH = 107
_DEPCTR_VA_VDST = 12
_ENDS = frozenset({"s_branch", "s_setpc_b64", "s_swappc_b64", "s_endpgm", "s_rfe_b64"})


def _is_vector(inst: Instruction) -> bool:
    return inst.format.startswith(("VOP", "MFMA", "WMMA"))


def _is_trans(inst: Instruction) -> bool:
    return "trans" in inst.flags


def _scalar(units: Iterable[int]) -> list[int]:
    return [unit for unit in units if unit <= _VCC_HIGH]


def _vector(units: Iterable[int]) -> list[int]:
    return [unit for unit in units if VGPR <= unit < AGPR + 256]


class _Cdna3:
    """gfx942."""

    def __init__(self, traits: Traits, wave_size: int) -> None:
        self._traits = traits
        self._wave_size = wave_size

    def needs(self, inst: Instruction) -> Iterator[tuple[Key, int, str]]:
        """What must be how far away, and what it is."""
        reads, writes = waits.uses(inst, self._traits, self._wave_size)
        if waits.is_vector_memory(inst):
            for unit in _scalar(reads):
                yield ("scalar", unit), 5, "a vector instruction wrote"
        if not _is_vector(inst) or inst.mnemonic.startswith(("v_mfma", "v_smfmac")):
            return
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
        for unit in _vector(writes):
            yield ("wide-store", unit), 2, "a wide store still reads"

    def after(self, inst: Instruction, state: State) -> None:
        """Account for an instruction."""
        immediate = inst.operand("simm16")
        step = immediate.code + 1 if inst.mnemonic == "s_nop" and immediate is not None else 1
        for key in list(state):
            state[key] += step
            if state[key] > _LONGEST:
                del state[key]
        _, writes = waits.uses(inst, self._traits, self._wave_size)
        if _is_vector(inst) and not inst.mnemonic.startswith(("v_mfma", "v_smfmac")):
            state.update({("scalar", unit): 0 for unit in _scalar(writes)})
            for unit in _vector(writes):
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

    def needs(self, inst: Instruction) -> Iterator[tuple[Key, int, str]]:
        """As for gfx942."""
        if not _is_vector(inst):
            return
        reads, _ = waits.uses(inst, self._traits, self._wave_size)
        if self._trans_use:
            for unit in _vector(reads):
                yield ("trans", unit), _TRANS_VECTORS + 1, "a transcendental instruction wrote"
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
        if not _is_vector(inst):
            immediate = inst.operand("simm16")
            waited = inst.mnemonic in ("s_waitcnt_depctr", "s_wait_alu") and immediate is not None
            if (waited and immediate is not None and not immediate.code >> _DEPCTR_VA_VDST & 15) or (
                waits.is_vector_memory(inst) or inst.format == "DS"
            ):
                for key in [k for k in state if k[0] != "matrix"]:
                    del state[key]
            return
        trans = _is_trans(inst)
        for key in list(state):
            # The second transcendental instruction ends the wait for the first: they end in order.
            state[key] += 1 + (_TRANS_VECTORS + 1) // (_TRANS_TRANS + 1) * int(trans and key[0] == "trans")
            if state[key] > _TRANS_VECTORS or key[0] == "matrix":
                del state[key]
        _, writes = waits.uses(inst, self._traits, self._wave_size)
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
        for key, distance, what in self._rules.needs(inst):
            have = state.get(key, distance)
            if have < distance:
                register = waits.register_name(key[1])
                self.problems[inst.address] = (
                    f"uses {register}, which {what}: {distance} {self._states} must be between, and there are {have}"
                )
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
