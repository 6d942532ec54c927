"""Hazards that software must avoid: wait states on gfx942, ALU waits on gfx11 and gfx12.

A forward analysis keeps, per kind of producer and register, how long ago it was issued (in wait states on gfx942,
in vector instructions on gfx11); joins keep the shortest distance. The distances and their sources are in
:mod:`loom_target_amdgpu.distances`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

from loom_target_amdgpu.distances import CDNA, RDNA
from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.isa.registers import EXEC, VCC
from loom_target_amdgpu.isa.tables import AGPR, VGPR, OperandField, Row
from loom_target_amdgpu.isa.waits import depctr_immediate
from loom_target_amdgpu.machine_code import Assembler, Code, spliced
from loom_target_amdgpu.matrix_hazards import LONGEST, Key, MatrixStates, State
from loom_target_amdgpu.profiles import Processor

_MEMORY_FORMATS: Final = frozenset(
    {"GLOBAL", "SCRATCH", "FLAT", "MUBUF", "MTBUF", "VGLOBAL", "VSCRATCH", "VFLAT", "VBUFFER"}
)
_FORGET: Final = LONGEST + 4
"""Wait states after which no rule looks back."""
_SCALAR_TO_VECTOR: Final = CDNA["vector writes scalar", "vector reads"]
_SCALAR_TO_SELECT: Final = CDNA["vector writes scalar", "vector selects a lane by"]
_SCALAR_TO_DIVISION: Final = CDNA["vector writes scalar", "division scales by"]
_SCALAR_TO_MEMORY: Final = CDNA["vector writes scalar", "memory reads"]
_MASK_TO_DPP: Final = CDNA["vector writes the mask", "DPP moves under"]
_MASK_TO_LANES: Final = CDNA["vector writes the mask", "lanes move under"]
_MASK_TO_MATRIX: Final = CDNA["vector writes the mask", "matrix multiplies under"]
_VECTOR_TO_LANE: Final = CDNA["vector writes", "a lane is read of"]
_VECTOR_TO_DPP: Final = CDNA["vector writes", "DPP moves"]
_VECTOR_TO_MATRIX: Final = CDNA["vector writes", "matrix multiplies"]
_TRANS_TO_VECTOR: Final = CDNA["transcendental writes", "vector reads"]
_DOT_TO_OTHERS: Final = CDNA["dot product writes", "all but its own sum uses"]
_STORE_TO_VECTOR: Final = CDNA["wide store reads", "vector writes"]
_M0_TO_MESSAGE: Final = CDNA["scalar writes M0", "message sends"]
_TRANS_WINDOW: Final = RDNA["transcendental writes", "vector reads"]
_MASK_COMPARE: Final[Key] = ("mask-compare", 0)
"""A comparison wrote the execution mask and no vector instruction has followed."""
_READ_LANE: Final = frozenset({"v_readlane_b32", "v_readfirstlane_b32"})
_LANE_SELECT: Final = frozenset({"v_readlane_b32", "v_writelane_b32"})
_VECTOR_MASK: Final[Key] = ("vector-mask", 0)
"""A vector instruction wrote the execution mask."""


@cache
def _is_vector(row: Row) -> bool:
    return row.format.startswith(("VOP", "MFMA", "WMMA"))


@cache
def _is_matrix(row: Row) -> bool:
    return row.mnemonic.startswith(("v_mfma", "v_smfmac", "v_wmma", "v_swmmac"))


def is_vector(code: Code) -> bool:
    """Whether the vector ALU executes it."""
    return _is_vector(code.row)


def is_scalar(code: Code) -> bool:
    """Whether the scalar ALU executes it."""
    return code.row.format in ("SOP1", "SOP2", "SOPC", "SOPK")


def is_matrix(code: Code) -> bool:
    """Whether it is a matrix instruction."""
    return _is_matrix(code.row)


def _scalar_units(units: Iterable[int]) -> list[int]:
    return [unit for unit in units if unit <= VCC + 1]


def _vector_units(units: Iterable[int]) -> list[int]:
    return [unit for unit in units if VGPR <= unit < AGPR + 256]


@cache
def _wide_data(row: Row) -> tuple[OperandField, ...]:
    """What a memory instruction reads so late that a register must not change at once; atomics do so too."""
    return tuple(o for o in row.operands if o.name in ("data", "vdata") and o.direction == "in" and o.width_bits > 64)


class _Cdna:
    """gfx942: fixed wait states, filled with ``s_nop``."""

    def __init__(self, assembler: Assembler, multiplies: bool, slower: int) -> None:
        self._asm = assembler
        self._multiplies = multiplies
        self._matrix = MatrixStates(slower)

    def before(self, code: Code, state: State) -> list[Code]:
        needs = [*self._needs(code), *self._dot_needs(code, state)]
        if self._multiplies:
            needs += self._matrix_needs(code, state)
        missing = max((states - state[key] for key, states in needs if key in state), default=0)
        if missing <= 0:
            return []
        self._advance(state, missing)
        out = []
        while missing:
            step = min(8, missing)
            out.append(self._asm.plain("s_nop", simm16=step - 1))
            missing -= step
        return out

    def _needs(self, code: Code) -> Iterable[tuple[Key, int]]:
        """(producer, wait states) pairs."""
        row = code.row
        if is_vector(code):
            states = _SCALAR_TO_VECTOR
            if row.mnemonic in _LANE_SELECT:
                states = _SCALAR_TO_SELECT
            elif row.mnemonic.startswith("v_div_fmas"):
                states = _SCALAR_TO_DIVISION
            for unit in _scalar_units(code.reads):
                yield ("vector-scalar", unit), states
            for unit in _vector_units(code.reads):
                if "trans" not in row.flags:
                    yield ("trans", unit), _TRANS_TO_VECTOR
                if row.mnemonic in _READ_LANE:
                    yield ("vector", unit), _VECTOR_TO_LANE
                if row.variant.startswith("dpp"):
                    yield ("vector", unit), _VECTOR_TO_DPP
                elif is_matrix(code):
                    yield ("vector", unit), _VECTOR_TO_MATRIX
            for unit in _vector_units(code.writes):
                yield ("wide-store", unit), _STORE_TO_VECTOR
            if row.variant.startswith("dpp"):
                yield _VECTOR_MASK, _MASK_TO_DPP
            elif is_matrix(code):
                yield _VECTOR_MASK, _MASK_TO_MATRIX
            elif row.mnemonic in _READ_LANE | _LANE_SELECT:
                yield _VECTOR_MASK, _MASK_TO_LANES
        elif row.format in _MEMORY_FORMATS:
            for unit in _scalar_units(code.reads):
                yield ("vector-scalar", unit), _SCALAR_TO_MEMORY
        if row.mnemonic.startswith("s_sendmsg"):
            yield ("m0", 0), _M0_TO_MESSAGE

    def _dot_needs(self, code: Code, state: State) -> Iterable[tuple[Key, int]]:
        """Results of dot products: only the sum of the same instruction is forwarded."""
        if is_matrix(code) or not (is_vector(code) or code.row.format in _MEMORY_FORMATS or code.row.format == "DS"):
            return
        factors = {code.codes[o.name] for o in code.row.operands if o.name in ("src0", "src1", "vsrc1")}
        touched = {*code.reads, *code.writes}
        for kind, unit in state:
            if kind.startswith("v_dot") and unit in (factors if kind == code.row.mnemonic else touched):
                yield (kind, unit), _DOT_TO_OTHERS

    def _matrix_needs(self, code: Code, state: State) -> Iterable[tuple[Key, int]]:
        if is_matrix(code):
            return self._matrix.matrix_needs(code, state)
        memory = code.row.format in _MEMORY_FORMATS or code.row.format == "DS"
        return self._matrix.other_needs(code, memory) if memory or is_vector(code) else ()

    def after(self, code: Code, state: State) -> None:
        row = code.row
        states = int(code.codes["simm16"]) + 1 if row.mnemonic == "s_nop" else 1
        self._advance(state, states)
        if is_matrix(code):
            self._matrix.issued(code, state)
        elif is_vector(code):
            if EXEC in code.writes:
                state[_VECTOR_MASK] = 0
            state.update({("vector-scalar", unit): 0 for unit in _scalar_units(code.writes)})
            state.update({("vector", unit): 0 for unit in _vector_units(code.writes)})
            if row.mnemonic.startswith("v_dot"):
                state.update({(row.mnemonic, unit): 0 for unit in _vector_units(code.writes)})
            for unit in _vector_units(code.writes):
                state.pop(("trans", unit), None)
                if "trans" in row.flags:
                    state["trans", unit] = 0
        elif row.format in _MEMORY_FORMATS:
            for operand in _wide_data(row):
                first = code.codes[operand.name]
                state.update({("wide-store", first + k): 0 for k in range(operand.width_bits // 32)})
        elif is_scalar(code) and self._asm.names["m0"] in code.writes:
            state["m0", 0] = 0

    def _advance(self, state: State, states: int) -> None:
        for key in list(state):
            state[key] += states
            if state[key] > _FORGET:
                del state[key]


class _Rdna:
    """gfx11 and gfx12: explicit ALU waits and independent vector instructions."""

    def __init__(self, assembler: Assembler, trans_use: bool) -> None:
        self._asm = assembler
        self._trans_use = trans_use
        self._scalar_reads = assembler.family == "gfx12"

    def before(self, code: Code, state: State) -> list[Code]:
        if not state:
            return []
        fields: dict[str, int] = {}
        if is_vector(code) and self._trans_use and any(("trans", unit) in state for unit in code.reads):
            fields["va_vdst"] = 0
        if self._scalar_reads:
            for unit in _scalar_units(code.reads):
                if ("vector-scalar", unit) in state:
                    fields["va_vcc" if unit >= VCC else "va_sdst"] = 0
                if ("scalar", unit) in state:
                    fields["sa_sdst"] = 0
        out = []
        if fields:
            mnemonic = "s_wait_alu" if self._asm.family == "gfx12" else "s_waitcnt_depctr"
            out.append(self._asm.plain(mnemonic, simm16=depctr_immediate(fields)))
            self._waited(fields, state)
        if is_matrix(code):
            sources = [code.codes[o.name] for o in code.row.operands if o.name in ("src0", "src1")]
            widths = [o.width_bits // 32 for o in code.row.operands if o.name in ("src0", "src1")]
            units = {first + k for first, width in zip(sources, widths, strict=True) for k in range(width)}
            if any(("matrix", unit) in state for unit in units):
                out.append(self._asm.plain("v_nop", format="VOP1"))
                self._forget(state, "matrix")
        if code.row.mnemonic.startswith("v_permlane") and _MASK_COMPARE in state:
            # Any vector instruction but an idle one separates them: moving its source onto itself changes nothing.
            source = code.codes["src0"]
            out.append(self._asm.plain("v_mov_b32", format="VOP1", vdst=source, src0=source))
        return out

    def _waited(self, fields: dict[str, int], state: State) -> None:
        if "va_vdst" in fields:
            self._forget(state, "trans")
        if "sa_sdst" in fields:
            self._forget(state, "scalar")
        for key in [k for k in state if k[0] == "vector-scalar"]:
            if ("va_vcc" if key[1] >= VCC else "va_sdst") in fields:
                del state[key]

    def _forget(self, state: State, kind: str) -> None:
        for key in [k for k in state if k[0] == kind]:
            del state[key]

    def after(self, code: Code, state: State) -> None:
        if is_vector(code):
            if state:
                self._vector_issued(code, state)
            if code.row.mnemonic.startswith("v_cmpx"):
                state[_MASK_COMPARE] = 0
            if self._trans_use and "trans" in code.row.flags:
                state.update({("trans", unit): 0 for unit in _vector_units(code.writes)})
            if is_matrix(code):
                state.update({("matrix", unit): 0 for unit in _vector_units(code.writes)})
            if self._scalar_reads:
                state.update({("read", unit & ~1): 0 for unit in _scalar_units(code.reads)})
                for unit in _scalar_units(code.writes):
                    state.pop(("scalar", unit), None)
                    state["vector-scalar", unit] = 0
        elif self._scalar_reads and is_scalar(code):
            for unit in _scalar_units(code.writes):
                state.pop(("vector-scalar", unit), None)
                if ("read", unit & ~1) in state:
                    state["scalar", unit] = 0

    def _vector_issued(self, code: Code, state: State) -> None:
        """What a vector instruction ends of what is pending."""
        self._forget(state, "matrix")
        if code.row.mnemonic != "v_nop":
            state.pop(_MASK_COMPARE, None)
        for key in [k for k in state if k[0] == "trans"]:
            state[key] += 1
            if state[key] >= _TRANS_WINDOW:
                del state[key]
        for unit in _vector_units(code.writes):
            state.pop(("trans", unit), None)


def insert_hazard_waits(blocks: list[CodeBlock], assembler: Assembler, processor: Processor) -> None:
    """Insert what the processor needs, in place. Memory waits must have been inserted already."""
    rules: _Cdna | _Rdna
    if assembler.family == "gfx942":
        multiplies = any(is_matrix(code) for block in blocks for code in block.code)
        rules = _Cdna(assembler, multiplies, int(processor.matrix == "mfma_gfx950"))
    else:
        rules = _Rdna(assembler, processor.trans_use_hazard)
    if not blocks:
        return
    by_label = {block.label: block for block in blocks}
    entry: dict[str, State] = {blocks[0].label: {}}
    work = [blocks[0].label]
    found: dict[str, list[tuple[int, list[Code]]]] = {}
    while work:
        label = work.pop()
        block = by_label[label]
        state = dict(entry[label])
        found[label] = _walk(block.code, state, rules.before, rules.after)
        for successor in block.successors:
            if successor not in entry:
                entry[successor] = dict(state)
                work.append(successor)
            elif _join(entry[successor], state):
                work.append(successor)
    for block in blocks:
        if found.get(block.label):
            block.code = spliced(block.code, found[block.label])


def _walk(
    codes: list[Code],
    state: State,
    before: Callable[[Code, State], list[Code]],
    after: Callable[[Code, State], None],
) -> list[tuple[int, list[Code]]]:
    """What the instructions need before them, by position; the state moves on to the end."""
    found = []
    for position, code in enumerate(codes):
        added = before(code, state)
        if added:
            found.append((position, added))
        after(code, state)
    return found


def _join(known: State, other: State) -> bool:
    changed = False
    for key, distance in other.items():
        if known.get(key, distance + 1) > distance:
            known[key] = distance
            changed = True
    return changed
