"""ALU delays: how long an instruction waits for the ALU results it reads, so that another wave can issue meanwhile.

Hardware interlocks anyway; ``s_delay_alu`` tells it beforehand. One instruction describes the dependences of up to two
others: the next one and one that is at most four instructions further. Dependences are counted in vector instructions
(1 to 4), in transcendental ones (1 to 3) or in cycles behind a scalar instruction (1 to 3).

Source: the RDNA3 instruction set guide, section S_DELAY_ALU. Latencies: what LLVM 19 takes for gfx11.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

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


class _Age(NamedTuple):
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

    def merged(self, other: _Age) -> _Age:
        """With what another register waits for: the latest writers count."""
        vector, left, trans, behind, trans_left, scalar = self
        if other.vector is not None and (vector is None or other.vector < vector):
            vector = other.vector
        if other.trans is not None and (trans is None or other.trans < trans):
            trans, behind = other.trans, other.behind
        return _Age(
            vector, max(left, other.left), trans, behind, max(trans_left, other.trans_left), max(scalar, other.scalar)
        )

    def later(self, vectors: int, transcendentals: int, cycles: int) -> _Age | None:
        """The same after so many instructions and cycles; None when nothing is pending any more."""
        vector, left, trans, behind, trans_left, scalar = self
        if vector is None or vector + vectors > _VECTOR_LIMIT or left <= cycles:
            vector, left = None, 0
        else:
            vector, left = vector + vectors, left - cycles
        if trans is None or trans + transcendentals > _TRANS_LIMIT or trans_left <= cycles:
            trans, behind, trans_left = None, 0, 0
        else:
            trans, behind, trans_left = trans + transcendentals, behind + vectors, trans_left - cycles
        scalar = scalar - cycles if scalar > cycles else 0
        if scalar or vector is not None or trans is not None:
            return _Age(vector, left, trans, behind, trans_left, scalar)
        return None

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


class _Traits(NamedTuple):
    """What delays need to know of an instruction.

    ``written`` is what its results wait for directly behind it; ``drains`` says that nothing is outstanding behind it,
    ``waits`` that this depends on what it waits for.
    """

    kind: str | None
    written: _Age | None
    drains: bool
    waits: bool


@cache
def _traits(row: Row) -> _Traits:
    kind = kind_of(row)
    drains, waits = row.format in _DRAINING, row.mnemonic in ("s_waitcnt_depctr", "s_wait_alu")
    if kind is None:
        return _Traits(None, None, drains, waits)
    left = _latency(row, kind) - 1  # one passed while it issued
    if kind == "vector":
        written = _Age(vector=1, left=left)
    elif kind == "trans":
        written = _Age(trans=1, trans_left=left)
    else:
        written = _Age(scalar=left)
    return _Traits(kind, written, drains, waits)


def _is_hidden(code: Code, unit: int) -> bool:
    """Whether a scalar register is no operand: delays do not describe condition bits and masks that are implied."""
    if unit == SCC:
        return True
    if unit in (EXEC, EXEC + 1):
        return EXEC not in code.codes.values()
    return unit in (VCC, VCC + 1) and code.row.format in _IMPLICIT_MASK


State = dict[int, _Age]
_Known = tuple[_Age, int, int, int]
"""An age, and the counts of vector instructions, transcendental ones and cycles when it was that."""


class _Clock:
    """What is pending at the current point of a block.

    Registers keep their age as of some instruction, so that one costs the same however much is pending.
    """

    def __init__(self, entry: State) -> None:
        self._vectors = self._transcendentals = self._cycles = 0
        self._known: dict[int, _Known] = {unit: (age, 0, 0, 0) for unit, age in entry.items()}

    def _age(self, known: _Known) -> _Age | None:
        age, vectors, transcendentals, cycles = known
        cycles = self._cycles - cycles
        if cycles >= _DOUBLE_CYCLES:
            return None  # the longest latency is over
        return age.later(self._vectors - vectors, self._transcendentals - transcendentals, cycles)

    def take(self, code: Code) -> _Age | None:
        """What an instruction waits for, None for nothing. Others behind it need not wait for that again."""
        pending: _Age | None = None
        known = self._known
        if known.keys().isdisjoint(code.reads):
            return None
        for unit in code.reads:
            if unit not in known or (unit < VGPR and _is_hidden(code, unit)):
                continue
            age = self._age(known.pop(unit))
            if age is not None:
                pending = age if pending is None else pending.merged(age)
        return pending

    def issue(self, code: Code, traits: _Traits) -> None:
        """Account for an instruction that has been issued."""
        row, kind, written = code.row, traits.kind, traits.written
        if traits.drains or (traits.waits and not _VDST.get(code.codes["simm16"])):
            self._known.clear()
            return
        self._cycles += int(code.codes["simm16"]) + 1 if row.mnemonic == "s_nop" else 1
        if written is None:
            return
        self._vectors += kind == "vector"
        self._transcendentals += kind == "trans"
        now = (written, self._vectors, self._transcendentals, self._cycles)
        for unit in code.writes:
            if unit >= VGPR or not _is_hidden(code, unit):
                self._known[unit] = now

    def state(self) -> State:
        """What is pending now, by register."""
        found = ((unit, self._age(known)) for unit, known in self._known.items())
        return {unit: age for unit, age in found if age is not None}


def _join(known: State, other: State) -> bool:
    """Take in what another path left pending; whether anything changed."""
    changed = False
    for unit, age in other.items():
        before = known.get(unit)
        merged = age if before is None else age.merged(before)
        if before != merged:
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
    found: dict[str, list[tuple[int, list[int]]]] = {}
    while work:
        block = by_label[work.pop()]
        clock = _Clock(entry[block.label])
        found[block.label] = _walk(block, clock)
        if not block.successors:
            continue
        state = clock.state()
        for successor in block.successors:
            if successor not in entry:
                entry[successor] = dict(state)
                work.append(successor)
            elif _join(entry[successor], state):
                work.append(successor)
    count = 0
    for block in blocks:
        waits = found[block.label] if block.label in found else _walk(block, _Clock({}))
        if waits:
            count += _BlockDelays(assembler).run(block, waits)
    return count


def _walk(block: CodeBlock, clock: _Clock) -> list[tuple[int, list[int]]]:
    """What the instructions of a block wait for, by position; the clock moves on to the end."""
    found = []
    for position, code in enumerate(block.code):
        traits = _traits(code.row)
        if traits.kind is not None:
            pending = clock.take(code)
            if pending is not None:
                found.append((position, pending.waits()))
        clock.issue(code, traits)
    return found


class _BlockDelays:
    """Inserts the delays of one block."""

    def __init__(self, assembler: Assembler) -> None:
        self._asm = assembler
        self._out: list[Code] = []
        self._count = 0
        # Position in the new code of the last delay that describes one dependence only, and its code.
        self._open: tuple[int, int] | None = None
        self._last = 0
        """the instruction that the last delay stands before"""

    def run(self, block: CodeBlock, found: list[tuple[int, list[int]]]) -> int:
        """``found`` are the dependences of instructions by position."""
        done = 0
        for position, waits in found:
            self._out += block.code[done:position]
            done = position
            self._describe(waits, position, block.code[position].loc)
        block.code = self._out + block.code[done:]
        return self._count

    def _describe(self, waits: list[int], position: int, loc: object) -> None:
        if len(waits) == 1 and self._share(waits[0], position - self._last):
            return
        field = waits[0] | (waits[1] << _SECOND_SHIFT if len(waits) > 1 else 0)
        self._open = (len(self._out), field) if len(waits) == 1 else None
        self._last = position
        self._out.append(self._asm.plain("s_delay_alu", loc, simm16=field))
        self._count += 1

    def _share(self, wait: int, since: int) -> bool:
        """Describe a dependence in the delay before, if it has room and is near enough."""
        if self._open is None or not 1 <= since <= _SKIP_LIMIT:
            return False
        position, field = self._open
        field |= since << _SKIP_SHIFT | wait << _SECOND_SHIFT
        self._out[position] = self._asm.plain("s_delay_alu", self._out[position].loc, simm16=field)
        self._open = None
        return True
