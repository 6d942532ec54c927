"""Dual issue (VOPD): two vector operations in one word, and the rules a pair must keep.

Source: the RDNA3 instruction set guide, section Dual Issue VALU, as enforced by LLVM 19.
"""

from __future__ import annotations

from collections.abc import Mapping

from loom_target_amdgpu.isa.tables import LITERAL, VGPR, Row

# Register banks per source place: sources 0 and 1 have four, source 2 has two (even and odd registers).
_BANKS = (4, 4, 2)
_MAX_SCALARS = 2
_NULL = 124
_IMPLICIT_VCC = -2  # counted apart from a source that names VCC


def dual_issue_conflict(
    x: Row,
    x_codes: Mapping[str, int],
    y: Row,
    y_codes: Mapping[str, int],
    *,
    x_literal: int | None = None,
    y_literal: int | None = None,
) -> str | None:
    """Why two halves cannot share a word, or None when they can.

    Args:
        x, y: rows of the formats VOPD_X and VOPD_Y; X comes first in program order.
        x_codes, y_codes: operand codes by field name.
        x_literal, y_literal: the literal each half needs, if any.
    """
    if x.format != "VOPD_X" or y.format != "VOPD_Y":
        return "the rows are not an X and a Y half"
    if not (x_codes["vdstx"] ^ y_codes["vdsty"]) & 1:
        return "the results must be one even and one odd register"
    first, second = _sources(x, x_codes), _sources(y, y_codes)
    # Both halves read before either writes.
    if x_codes["vdstx"] in second:
        return "the Y half reads the register the X half writes"
    for place, banks in enumerate(_BANKS):
        one, other = first[place], second[place]
        if one >= VGPR and other >= VGPR and one % banks == other % banks:
            return f"source {place} of both halves is in the same register bank"
    if None not in (x_literal, y_literal) and x_literal != y_literal:
        return "the halves need two different literals"
    scalars = _scalars(x, first[0], x_literal) | _scalars(y, second[0], y_literal)
    if len(scalars) > _MAX_SCALARS:
        return f"the pair reads {len(scalars)} scalar values; {_MAX_SCALARS} are possible"
    return None


def _sources(row: Row, codes: Mapping[str, int]) -> tuple[int, int, int]:
    """Operand codes at the three source places; -1 where there is none or a constant."""
    half = row.format[-1].lower()
    second = codes.get(f"vsrc{half}1", -1)
    third = -1
    if "fmamk" in row.mnemonic:
        second, third = -1, second  # the constant multiplies, so the register is the addend
    elif row.operands[0].direction == "inout":
        third = codes[f"vdst{half}"]
    return codes[f"src{half}0"], second, third


def _scalars(row: Row, source: int, literal: int | None) -> set[int]:
    found: set[int] = set()
    register = source < 128 or 235 <= source <= 239 or 251 <= source < LITERAL
    if 0 <= source < VGPR and register and source != _NULL:
        found.add(source)
    if literal is not None:
        found.add(LITERAL)
    if "vcc" in row.implicit_reads:
        found.add(_IMPLICIT_VCC)
    return found
