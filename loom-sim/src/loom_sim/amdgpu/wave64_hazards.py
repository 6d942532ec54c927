"""Sequences that waves of 64 on gfx11 must break with a wait for the vector or the scalar unit.

*Rewritten masks*: a vector instruction reads a scalar register as a lane mask, the scalar unit overwrites it, and it is
read again. The scalar unit's write has to be waited for (`s_waitcnt_depctr` with sa_sdst 0), unless a vector
instruction between the first two reads another scalar register or a literal.

*Partial forwarding*: of two vector registers that an instruction reads, one was written before and the other after the
scalar unit changed EXEC, all close together: at most two vector instructions between the writes, and at most four
between the second write and the reader. The vector unit has to be waited for (va_vdst 0), which vector memory and LDS
instructions do by themselves.

Source: LLVM "GCNHazardRecognizer" (`fixVALUMaskWriteHazard`, `fixVALUPartialForwardingHazard`), as documentation of
what compilers keep for gfx11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from loom_sim.amdgpu import waits
from loom_sim.amdgpu.instruction import AGPR, LITERAL, VGPR, Instruction
from loom_sim.amdgpu.traits import Traits

Key = tuple[str, int]
State = dict[Key, int]

_MASK_READ, _REWRITTEN = "mask-read", "mask-rewritten"
_WRITTEN, _BEFORE, _AFTER = "vector-written", "written-before-exec", "written-after-exec"
_FORWARD = "forward-"
"""The number of the register written before EXEC changed follows; the key's number is the one written after."""
_BETWEEN_WRITES, _TO_READER = 2, 4
_LIMITS = {_WRITTEN: _BETWEEN_WRITES, _BEFORE: _BETWEEN_WRITES, _AFTER: _TO_READER}
_MASK_READERS = ("v_cndmask_b", "v_add_co_ci_", "v_sub_co_ci_", "v_subrev_co_ci_", "v_div_fmas_")
_VCC, _EXEC, _SCALARS = (106, 107), (126, 127), 128
_SA_SDST, _VA_VDST, _VA_VDST_BITS = 0, 12, 15

WAITS = {
    _REWRITTEN: "s_waitcnt_depctr sa_sdst(0) must be between",
    _FORWARD: "s_waitcnt_depctr va_vdst(0) must be between",
}
"""What a kind of producer needs, by the start of its name, where that is no distance."""


def is_kind(kind: str) -> bool:
    """Whether keys of this kind are kept here."""
    return kind in (_MASK_READ, _REWRITTEN) or _limit(kind) is not None


def _limit(kind: str) -> int | None:
    """How many vector instructions on a key is forgotten."""
    return _TO_READER if kind.startswith(_FORWARD) else _LIMITS.get(kind)


def _vector(units: Iterable[int]) -> list[int]:
    return [unit for unit in units if VGPR <= unit < AGPR]


class Wave64:
    """The rules; the methods are those of the families in `hazards`."""

    def __init__(self, traits: Traits) -> None:
        self._traits = traits

    def needs(self, inst: Instruction, state: State) -> Iterator[tuple[Key, int, str]]:
        """What must not be so close."""
        is_vector = inst.format.startswith(("VOP", "WMMA"))
        if is_vector or inst.format in waits.SCALAR_FORMATS:
            reads, _ = waits.uses(inst, self._traits, 64)
            for unit in reads:
                if (_REWRITTEN, unit) in state:
                    yield (_REWRITTEN, unit), 1, "the scalar unit wrote while it was still read as a lane mask"
        if is_vector:
            yield from self._forwarded(inst, state)

    def _forwarded(self, inst: Instruction, state: State) -> Iterator[tuple[Key, int, str]]:
        sources = {o.code: _vector(waits.register_units(o, 64)) for o in inst.sources}
        sources = {code: units for code, units in sources.items() if units}
        if len(sources) < 2:
            return
        ages = {code: [state[_AFTER, u] for u in units if (_AFTER, u) in state] for code, units in sources.items()}
        newest = min((min(found) for found in ages.values() if found), default=None)
        for code, units in sources.items():
            if ages[code]:
                continue  # the last write of this operand came after EXEC changed
            for other, others in sources.items():
                if other == code:
                    continue
                for first in units:
                    for second in others:
                        key = (f"{_FORWARD}{first}", second)
                        if key in state and state[key] == newest:
                            earlier = waits.register_name(first)
                            yield key, _TO_READER + 1, f"was written after EXEC changed, and {earlier} before"

    def after(self, inst: Instruction, state: State) -> None:
        """Account for an instruction."""
        if inst.mnemonic == "s_waitcnt_depctr":
            immediate = inst.operand("simm16")
            code = 0 if immediate is None else immediate.code
            if not code >> _SA_SDST & 1:
                _forget(state, lambda kind: kind in (_MASK_READ, _REWRITTEN))
            if not code >> _VA_VDST & _VA_VDST_BITS:
                _forget(state, lambda kind: _limit(kind) is not None)
        elif waits.is_vector_memory(inst) or inst.format == "DS":
            _forget(state, lambda kind: _limit(kind) is not None)
        elif inst.format in waits.SCALAR_FORMATS:
            self._after_scalar(inst, state)
        elif inst.format.startswith(("VOP", "WMMA")):
            self._after_vector(inst, state)

    def _after_scalar(self, inst: Instruction, state: State) -> None:
        _, writes = waits.uses(inst, self._traits, 64)
        if writes.intersection(_EXEC):
            for (kind, unit), age in list(state.items()):
                if kind == _WRITTEN:
                    state[_BEFORE, unit] = min(age, state.get((_BEFORE, unit), age))
        written = [u for u in writes if u < _SCALARS and u not in _EXEC and u != self._traits.m0_code]
        read_as_mask = any((_MASK_READ, unit) in state for unit in written)
        for unit in written:
            state.pop((_REWRITTEN, unit), None)
            if read_as_mask:
                state[_REWRITTEN, unit] = 0

    def _after_vector(self, inst: Instruction, state: State) -> None:
        reads, writes = waits.uses(inst, self._traits, 64)
        masks = self._masks(inst)
        scalars = {unit for unit in reads if unit < _SCALARS and unit not in _EXEC}
        if scalars or any(o.code == LITERAL for o in inst.sources):
            _forget(state, lambda kind: kind == _MASK_READ)
        state.update({(_MASK_READ, unit): 0 for unit in masks})
        for unit in writes:
            state.pop((_REWRITTEN, unit), None)
        before = [unit for kind, unit in state if kind == _BEFORE]
        changed = bool(before) or any(kind.startswith(_FORWARD) for kind, _ in state)
        results = set(_vector(writes))
        for key in list(state):
            kind, unit = key
            limit = _limit(kind)
            if limit is None:
                continue
            state[key] += 1
            pre = int(kind.removeprefix(_FORWARD)) if kind.startswith(_FORWARD) else unit
            if state[key] > limit or unit in results or pre in results:
                del state[key]
        for unit in results:
            state[_WRITTEN, unit] = 0
            if changed:
                state[_AFTER, unit] = 0
            state.update({(f"{_FORWARD}{pre}", unit): 0 for pre in before if pre not in results})

    def _masks(self, inst: Instruction) -> set[int]:
        """Scalar registers that a vector instruction reads as a lane mask to choose or to carry."""
        if not inst.mnemonic.startswith(_MASK_READERS):
            return set()
        found = {u for o in inst.sources if o.bits == 1 for u in waits.register_units(o, 64) if u < _SCALARS}
        return found | set(_VCC) if "vcc" in inst.implicit_reads else found


def _forget(state: State, chosen: Callable[[str], bool]) -> None:
    for key in [k for k in state if chosen(k[0])]:
        del state[key]
