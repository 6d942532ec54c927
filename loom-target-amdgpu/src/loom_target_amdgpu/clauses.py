"""Clauses: runs of memory instructions of one kind that the hardware issues without another wave between them.

Neighbouring accesses then meet the caches together. Only instructions that already follow each other are joined, so
no order changes. A clause ends at anything else, waits included; what it holds is of one kind. Workgroup storage has
no caches, so its accesses are left alone. Unlike LLVM, accesses of different arrays are joined too: loops over several
arrays load from all of them at once.

Source: the RDNA3 instruction set guide, section S_CLAUSE.
"""

from __future__ import annotations

from typing import Final

from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.machine_code import Assembler, Code

FAMILIES: Final = ("gfx11", "gfx12")
LONGEST: Final = 32
"""Instructions of a clause; the length field has room for more, which not all processors take."""
_KINDS: Final = {
    "SMEM": "scalar",
    "GLOBAL": "vector",
    "SCRATCH": "vector",
    "MUBUF": "vector",
    "MTBUF": "vector",
    "VGLOBAL": "vector",
    "VSCRATCH": "vector",
    "VBUFFER": "vector",
    "FLAT": "flat",
    "VFLAT": "flat",
}


def clause_kind(code: Code) -> str | None:
    """What kind of clause an instruction can be in: accesses of one unit, and one direction of transfer."""
    kind = _KINDS.get(code.row.format)
    flags = code.row.flags
    if kind is None or not flags & {"load", "store"}:
        return None
    if flags >= {"load", "store"}:
        return None  # read-modify-write
    return f"{kind} {'load' if 'load' in flags else 'store'}"


def insert_clauses(blocks: list[CodeBlock], assembler: Assembler) -> int:
    """Insert ``s_clause`` before every run of at least two; returns how many."""
    if assembler.family not in FAMILIES:
        return 0
    count = 0
    for block in blocks:
        out: list[Code] = []
        run: list[Code] = []
        kind: str | None = None
        for code in block.code:
            found = clause_kind(code)
            if run and (found != kind or len(run) == LONGEST):
                count += _close(run, out, assembler)
                run = []
            if found is None:
                out.append(code)
            else:
                run.append(code)
            kind = found
        count += _close(run, out, assembler)
        block.code = out
    return count


def _close(run: list[Code], out: list[Code], assembler: Assembler) -> int:
    clause = len(run) > 1
    if clause:
        out.append(assembler.plain("s_clause", run[0].loc, simm16=len(run) - 1))
    out += run
    return int(clause)
