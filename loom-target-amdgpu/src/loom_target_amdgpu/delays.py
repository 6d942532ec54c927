"""ALU delays: how long an instruction waits for the ALU results it reads, so that another wave can issue meanwhile.

Hardware interlocks anyway; ``s_delay_alu`` tells it beforehand. One instruction describes the dependences of up to two
others: the next one and one that is at most four instructions further. Dependences are counted in vector instructions
(1 to 4), in transcendental ones (1 to 3) or in cycles behind a scalar instruction (1 to 3).

Source: the RDNA3 instruction set guide, section S_DELAY_ALU. Latencies: what LLVM 19 takes for gfx11.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from loom.ir.records import evolve, mutable_record
from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.isa.registers import EXEC, SCC, VCC
from loom_target_amdgpu.isa.tables import VGPR, Row
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

    def later(self, vectors: int, transcendentals: int, cycles: int) -> _Age | None:
        """The same after so many instructions and cycles; None when nothing is pending any more."""
        found = _Age(scalar=max(0, self.scalar - cycles))
        if self.vector is not None and self.vector + vectors <= _VECTOR_LIMIT and self.left > cycles:
            found.vector, found.left = self.vector + vectors, self.left - cycles
        if self.trans is not None and self.trans + transcendentals <= _TRANS_LIMIT and self.trans_left > cycles:
            found.trans, found.behind = self.trans + transcendentals, self.behind + vectors
            found.trans_left = self.trans_left - cycles
        return found if found.scalar or found.vector is not None or found.trans is not None else None

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


@cache
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


def _is_hidden(code: Code, unit: int) -> bool:
    """Whether a register is no operand: delays do not describe condition bits and masks that are implied."""
    if unit >= VGPR:
        return False
    if unit == SCC:
        return True
    if unit in (EXEC, EXEC + 1):
        return EXEC not in code.codes.values()
    return unit in (VCC, VCC + 1) and code.row.format in _IMPLICIT_MASK


State = dict[int, _Age]


class _Clock:
    """What is pending at the current point of a block.

    Registers keep their age as of some instruction, so that one costs the same however much is pending.
    """

    def __init__(self, entry: State) -> None:
        self._vectors = self._transcendentals = self._cycles = 0
        self._known = {unit: (age, 0, 0, 0) for unit, age in entry.items()}

    def _age(self, known: tuple[_Age, int, int, int]) -> _Age | None:
        age, vectors, transcendentals, cycles = known
        return age.later(self._vectors - vectors, self._transcendentals - transcendentals, self._cycles - cycles)

    def take(self, code: Code) -> _Age | None:
        """What an instruction waits for, None for nothing. Others behind it need not wait for that again."""
        pending: _Age | None = None
        known = self._known
        for unit in code.reads:
            if unit not in known or _is_hidden(code, unit):
                continue
            age = self._age(known.pop(unit))
            if age is not None and pending is None:
                pending = age
            elif age is not None and pending is not None:
                pending.merge(age)
        return pending

    def issue(self, code: Code, kind: str | None) -> None:
        """Account for an instruction that has been issued."""
        row = code.row
        if row.format in _DRAINING or (
            row.mnemonic in ("s_waitcnt_depctr", "s_wait_alu") and not _VDST.get(code.codes["simm16"])
        ):
            self._known.clear()
            return
        self._cycles += int(code.codes["simm16"]) + 1 if row.mnemonic == "s_nop" else 1
        if kind is None:
            return
        self._vectors += kind == "vector"
        self._transcendentals += kind == "trans"
        now = (_written(code, kind), self._vectors, self._transcendentals, self._cycles)
        for unit in code.writes:
            if not _is_hidden(code, unit):
                self._known[unit] = now

    def state(self) -> State:
        """What is pending now, by register."""
        found = ((unit, self._age(known)) for unit, known in self._known.items())
        return {unit: age for unit, age in found if age is not None}


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


def insert_delays(blocks: list[CodeBlock], assembler: Assembler) -> int:
    """Insert ``s_delay_alu`` where a result is read soon, in place; returns how many. Must be the last insertion."""
    if assembler.family not in FAMILIES or not blocks:
        return 0
    by_label = {block.label: block for block in blocks}
    entry: dict[str, State] = {blocks[0].label: {}}
    work = [blocks[0].label]
    while work:
        block = by_label[work.pop()]
        if not block.successors:
            continue
        clock = _Clock(entry[block.label])
        for code in block.code:
            kind = kind_of(code.row)
            if kind is not None:
                clock.take(code)
            clock.issue(code, kind)
        state = clock.state()
        for successor in block.successors:
            if successor not in entry:
                entry[successor] = dict(state)
                work.append(successor)
            elif _join(entry[successor], state):
                work.append(successor)
    return sum(_BlockDelays(assembler, entry.get(block.label, {})).run(block) for block in blocks)


class _BlockDelays:
    """Inserts the delays of one block."""

    def __init__(self, assembler: Assembler, state: State) -> None:
        self._asm = assembler
        self._clock = _Clock(state)
        self._out: list[Code] = []
        self._count = 0
        # Position of the last delay that describes one dependence only, its code, and instructions issued since.
        self._open: tuple[int, int] | None = None
        self._since = 0

    def run(self, block: CodeBlock) -> int:
        for code in block.code:
            kind = kind_of(code.row)
            if kind is not None:
                pending = self._clock.take(code)
                if pending is not None:
                    self._describe(pending.waits(), code.loc)
            self._out.append(code)
            self._since += 1
            self._clock.issue(code, kind)
        block.code = self._out
        return self._count

    def _describe(self, waits: list[int], loc: object) -> None:
        if len(waits) == 1 and self._share(waits[0]):
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
