"""ALU delays: how long an instruction waits for the ALU results it reads, so that another wave can issue meanwhile.

Hardware interlocks anyway; ``s_delay_alu`` tells it beforehand. One instruction describes the dependences of up to two
others: the next one and one that is at most four instructions further. Dependences are counted in vector instructions
(1 to 4), in transcendental ones (1 to 3) or in cycles behind a scalar instruction (1 to 3).

Source: the RDNA3 instruction set guide, section S_DELAY_ALU. Latencies: what LLVM 19 takes for gfx11.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from loom.ir.records import evolve, mutable_record
from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.isa.registers import EXEC, SCC, VCC
from loom_target_amdgpu.isa.tables import Row
from loom_target_amdgpu.isa.waits import DEPCTR_FIELDS
from loom_target_amdgpu.machine_code import Assembler, Code

FAMILIES: Final = ("gfx11", "gfx12")
_SCALAR_FORMATS: Final = ("SOP1", "SOP2", "SOPC", "SOPK")
_VDST: Final = next(field for field in DEPCTR_FIELDS if field.name == "va_vdst")
_VECTOR_LIMIT: Final = 4
_TRANS_LIMIT: Final = 3
_SCALAR_LIMIT: Final = 3
_TRANS_BASE: Final = 4
_SCALAR_BASE: Final = 8
_SKIP_LIMIT: Final = 5
_SECOND_SHIFT: Final = 7
_SKIP_SHIFT: Final = 4
_VECTOR_CYCLES: Final = 5
_DOUBLE_CYCLES: Final = 38
_TRANS_CYCLES: Final = 10
_SCALAR_CYCLES: Final = 2
_SCALAR_FLOAT_CYCLES: Final = 4
_SCALAR_FLOAT: Final = re.compile(r"_f(?:32|16)(?:$|_)")
# Formats whose condition mask is no operand.
_IMPLICIT_MASK: Final = ("VOP1", "VOP2", "VOPC", "VOPD_X")
# Vector memory waits for the vector ALU before it issues: nothing is outstanding behind it.
_DRAINING: Final = frozenset(
    {"DS", "GLOBAL", "SCRATCH", "FLAT", "MUBUF", "MTBUF", "VGLOBAL", "VSCRATCH", "VFLAT", "VBUFFER"}
)


@mutable_record
class _Age:
    """How long ago the pending writers of a register were issued; None: there is none.

    ``vector`` and ``trans`` count instructions of the own kind, ``behind`` vector instructions since the transcendental
    one, ``left`` and ``trans_left`` the cycles until the results are there, ``scalar`` the same for a scalar result.
    """

    vector: int | None = None
    left: int = 0
    trans: int | None = None
    behind: int = 0
    trans_left: int = 0
    scalar: int = 0

    def merge(self, other: _Age) -> None:
        """Take in what another register waits for: the latest writers count."""
        if other.vector is not None and (self.vector is None or other.vector < self.vector):
            self.vector = other.vector
        self.left = max(self.left, other.left)
        if other.trans is not None and (self.trans is None or other.trans < self.trans):
            self.trans, self.behind = other.trans, other.behind
        self.trans_left = max(self.trans_left, other.trans_left)
        self.scalar = max(self.scalar, other.scalar)

    def advance(self, kind: str | None, cycles: int) -> bool:
        """An instruction of a kind has been issued; whether anything is still pending."""
        if self.vector is not None:
            self.vector += kind == "vector"
            self.left -= cycles
            if self.vector > _VECTOR_LIMIT or self.left <= 0:
                self.vector, self.left = None, 0
        if self.trans is not None:
            self.trans += kind == "trans"
            self.behind += kind == "vector"
            self.trans_left -= cycles
            if self.trans > _TRANS_LIMIT or self.trans_left <= 0:
                self.trans, self.trans_left = None, 0
        self.scalar = max(0, self.scalar - cycles)
        return self.vector is not None or self.trans is not None or self.scalar > 0

    def waits(self) -> list[int]:
        """The dependences as codes of the instruction, the longest first, at most two."""
        found = []
        if self.trans is not None:
            found.append(_TRANS_BASE + self.trans)
        # A transcendental result that is waited for covers vector instructions issued before it.
        if self.vector is not None and (self.trans is None or self.vector <= self.behind):
            found.append(self.vector)
        if self.scalar:
            found.append(_SCALAR_BASE + min(self.scalar, _SCALAR_LIMIT))
        return found[:2]


def kind_of(row: Row) -> str | None:
    """``vector``, ``trans`` or ``scalar``; None for what neither makes nor reads ALU results this way."""
    if "trans" in row.flags:
        return "trans"
    if row.format.startswith("VOP"):
        return "vector"
    return "scalar" if row.format in _SCALAR_FORMATS else None


def _latency(row: Row, kind: str) -> int:
    if kind == "trans":
        return _TRANS_CYCLES
    if kind == "scalar":
        return _SCALAR_FLOAT_CYCLES if _SCALAR_FLOAT.search(row.mnemonic) else _SCALAR_CYCLES
    return _DOUBLE_CYCLES if "_f64" in row.mnemonic else _VECTOR_CYCLES


def _written(code: Code, kind: str) -> _Age:
    cycles = _latency(code.row, kind)
    left = cycles - 1  # one passed while it issued
    if kind == "vector":
        return _Age(vector=1, left=left)
    if kind == "trans":
        return _Age(trans=1, trans_left=left)
    return _Age(scalar=left)


def _operands(code: Code, units: Iterable[int]) -> Iterator[int]:
    """Registers that are named: delays do not describe condition bits and execution masks that are no operands."""
    mask = code.row.format in _IMPLICIT_MASK
    exec_is_named = EXEC in code.codes.values()
    for unit in units:
        hidden = unit == SCC or (unit in (EXEC, EXEC + 1) and not exec_is_named) or (mask and unit in (VCC, VCC + 1))
        if not hidden:
            yield unit


State = dict[int, _Age]


def _pending(code: Code, state: State) -> _Age:
    """What an instruction waits for. Others behind it need not wait for that again."""
    pending = _Age()
    for unit in _operands(code, code.reads):
        age = state.pop(unit, None)
        if age is not None:
            pending.merge(age)
    return pending


def _issue(code: Code, kind: str | None, state: State) -> None:
    """Account for an instruction that has been issued."""
    if code.row.format in _DRAINING or (
        code.row.mnemonic in ("s_waitcnt_depctr", "s_wait_alu") and not _VDST.get(code.codes["simm16"])
    ):
        state.clear()
        return
    cycles = int(code.codes["simm16"]) + 1 if code.row.mnemonic == "s_nop" else 1
    if kind is not None:
        for unit in _operands(code, code.writes):
            state.pop(unit, None)
    done = [unit for unit, age in state.items() if not age.advance(kind, cycles)]
    for unit in done:
        del state[unit]
    if kind is not None:
        for unit in _operands(code, code.writes):
            state[unit] = _written(code, kind)


def _join(known: State, other: State) -> bool:
    """Take in what another path left pending; whether anything changed."""
    changed = False
    for unit, age in other.items():
        merged = evolve(age)
        if unit in known:
            merged.merge(known[unit])
        if known.get(unit) != merged:
            known[unit] = merged
            changed = True
    return changed


def _copy(state: State) -> State:
    return {unit: evolve(age) for unit, age in state.items()}


def insert_delays(blocks: list[CodeBlock], assembler: Assembler) -> int:
    """Insert ``s_delay_alu`` where a result is read soon, in place; returns how many. Must be the last insertion."""
    if assembler.family not in FAMILIES or not blocks:
        return 0
    by_label = {block.label: block for block in blocks}
    entry: dict[str, State] = {blocks[0].label: {}}
    work = [blocks[0].label]
    while work:
        block = by_label[work.pop()]
        state = _copy(entry[block.label])
        for code in block.code:
            kind = kind_of(code.row)
            if kind is not None:
                _pending(code, state)
            _issue(code, kind, state)
        for successor in block.successors:
            if successor not in entry:
                entry[successor] = _copy(state)
                work.append(successor)
            elif _join(entry[successor], state):
                work.append(successor)
    return sum(_BlockDelays(assembler, entry.get(block.label, {})).run(block) for block in blocks)


class _BlockDelays:
    """Inserts the delays of one block."""

    def __init__(self, assembler: Assembler, state: State) -> None:
        self._asm = assembler
        self._state = state
        self._out: list[Code] = []
        self._count = 0
        # Position of the last delay that describes one dependence only, its code, and instructions issued since.
        self._open: tuple[int, int] | None = None
        self._since = 0

    def run(self, block: CodeBlock) -> int:
        for code in block.code:
            kind = kind_of(code.row)
            if kind is not None:
                self._describe(_pending(code, self._state).waits(), code.loc)
            self._out.append(code)
            self._since += 1
            _issue(code, kind, self._state)
        block.code = self._out
        return self._count

    def _describe(self, waits: list[int], loc: object) -> None:
        if not waits or (len(waits) == 1 and self._share(waits[0])):
            return
        field = waits[0] | (waits[1] << _SECOND_SHIFT if len(waits) > 1 else 0)
        self._open = (len(self._out), field) if len(waits) == 1 else None
        self._since = 0
        self._out.append(self._asm.plain("s_delay_alu", loc, simm16=field))
        self._count += 1

    def _share(self, wait: int) -> bool:
        """Describe a dependence in the delay before, if it has room and is near enough."""
        if self._open is None or not 1 <= self._since <= _SKIP_LIMIT:
            return False
        position, field = self._open
        field |= self._since << _SKIP_SHIFT | wait << _SECOND_SHIFT
        self._out[position] = self._asm.plain("s_delay_alu", self._out[position].loc, simm16=field)
        self._open = None
        return True
