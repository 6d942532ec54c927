"""Dual issue: two vector operations of a block in one word, on gfx11 and gfx12 with waves of 32.

Works on encoded instructions, because what may share a word is a matter of physical registers. An operation joins an
earlier one when nothing between them touches its registers; what the author ordered stays so: locked code is neither
paired nor crossed, and fences and phases are not crossed.

Source: the RDNA3 instruction set guide, section Dual Issue VALU; which pairs are legal says ``isa.dual``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from loom.ir.records import record
from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.isa.dual import dual_issue_conflict
from loom_target_amdgpu.isa.encode import encode_dual
from loom_target_amdgpu.isa.tables import Row, family_table
from loom_target_amdgpu.machine_code import Assembler, Code

FAMILIES: Final = ("gfx11", "gfx12")
_REACH: Final = 4
"""Instructions that an operation may cross to join another."""
_CROSSED: Final = frozenset({"VOP1", "VOP2", "VOP3", "VOP3P", "VOPC", "SOP1", "SOP2", "SOPC"})
# Field names of the halves for those of the single instruction.
_FIELDS: Final = {
    "X": {"vdst": "vdstx", "src0": "srcx0", "vsrc1": "vsrcx1"},
    "Y": {"vdst": "vdsty", "src0": "srcy0", "vsrc1": "vsrcy1"},
}


@record
class _Half:
    """One operation as a half of a word."""

    row: Row
    codes: dict[str, int]
    literal: int | None


_DUAL: Final = "v_dual_"


@cache
def _candidates(family: str) -> frozenset[str]:
    """Mnemonics of the operations that can be a half."""
    return frozenset("v_" + name[len(_DUAL) :] for name in family_table(family).mnemonics() if name.startswith(_DUAL))


@cache
def _rows(family: str, mnemonic: str) -> Mapping[str, Row]:
    """Side -> the row of an operation as that half."""
    rows = family_table(family).by_mnemonic[_DUAL + mnemonic.removeprefix("v_")]
    return {row.format[-1]: row for row in rows if row.format in ("VOPD_X", "VOPD_Y")}


class _HalvesOfCode(dict[Code, dict[str, _Half | None]]):
    """The halves that operations of a block can be, found once."""

    def __missing__(self, code: Code) -> dict[str, _Half | None]:
        found = self[code] = {side: _half(code, side) for side in _FIELDS}
        return found


def _half(code: Code, side: str) -> _Half | None:
    """The operation as the X or Y half, None where there is no such half."""
    row = _rows(code.row.family, code.row.mnemonic).get(side)
    if row is None:
        return None
    names = _FIELDS[side]
    codes = {names[name]: value for name, value in code.codes.items() if name in names}
    literal = next((code.codes[o.name] for o in code.row.operands if o.kind == "lit32"), code.literal)
    return _Half(row, codes, literal)


def pair_instructions(blocks: list[CodeBlock], assembler: Assembler) -> int:
    """Put pairs into one word, in place; returns the number of words made."""
    if assembler.wave != 32 or assembler.family not in FAMILIES:
        return 0
    candidates = _candidates(assembler.family)
    return sum(_pair_block(block, candidates, assembler) for block in blocks)


def _is_single(code: Code, candidates: frozenset[str]) -> bool:
    row = code.row
    return (
        row.mnemonic in candidates
        and row.format in ("VOP1", "VOP2")
        and not row.variant
        and not (code.order is not None and code.order.locked)
    )


def _pair_block(block: CodeBlock, candidates: frozenset[str], assembler: Assembler) -> int:
    codes = block.code
    halves = _HalvesOfCode()
    made = 0
    at = 0
    while at < len(codes):
        first = codes[at]
        if _is_single(first, candidates):
            partner = _partner(codes, at, candidates, halves, assembler)
            if partner is not None:
                position, word = partner
                del codes[position]
                codes[at] = word
                made += 1
        at += 1
    return made


def _partner(
    codes: list[Code], at: int, candidates: frozenset[str], halves: _HalvesOfCode, assembler: Assembler
) -> tuple[int, Code] | None:
    """Position of what can join the instruction at ``at``, and the word of both."""
    first = codes[at]
    order = first.order
    read: set[int] = set()
    written: set[int] = set(first.writes)
    for position in range(at + 1, min(len(codes), at + 2 + _REACH)):
        code = codes[position]
        if code.order is not None:
            if code.order.locked or (order is not None and code.order != order):
                return None
            order = code.order
        if _is_single(code, candidates) and written.isdisjoint(code.reads) and written.isdisjoint(code.writes):
            word = _word(first, code, halves, assembler) if read.isdisjoint(code.writes) else None
            if word is not None:
                return position, word
        if code.row.format not in _CROSSED or code.distance is not None:
            return None
        read.update(code.reads)
        written.update(code.writes)
    return None


def _word(first: Code, second: Code, halves: _HalvesOfCode, assembler: Assembler) -> Code | None:
    """Both operations as one word, None when they cannot share one."""
    if not (first.codes["vdst"] ^ second.codes["vdst"]) & 1:
        return None  # the most frequent of the reasons of dual_issue_conflict
    for x, y in ((first, second), (second, first)):
        one, other = halves[x]["X"], halves[y]["Y"]
        if one is None or other is None:
            continue
        reason = dual_issue_conflict(
            one.row, one.codes, other.row, other.codes, x_literal=one.literal, y_literal=other.literal
        )
        if reason is not None:
            continue
        literal = one.literal if one.literal is not None else other.literal
        data = encode_dual(one.row, one.codes, other.row, other.codes, literal)
        word = Code(one.row, one.codes, data, assembler.wave, first.loc, literal=literal)
        word.second = Code(other.row, other.codes, b"", assembler.wave, second.loc)
        word.order = first.order or second.order
        word.reads = tuple(dict.fromkeys((*first.reads, *second.reads)))
        word.writes = (*first.writes, *second.writes)
        return word
    return None
