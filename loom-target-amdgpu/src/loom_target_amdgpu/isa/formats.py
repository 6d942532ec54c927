"""Instruction formats: how many words, which prefix bits, where the opcode and the fields are.

The facts come from ``data/formats.csv``. Bit 0 is the lowest bit of an instruction's first 32-bit word.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import attrs

from loom_target_amdgpu.isa.data_files import family_records


@attrs.frozen
class Format:
    """One encoding format of one family.

    Attributes:
        name: the format's name, such as ``VOP3`` or ``VGLOBAL``.
        words: 32-bit words without an appended literal, DPP or SDWA word.
        prefix_low, prefix_width, prefix_value: the bits that identify the format.
        opcode_low, opcode_width: the opcode field (for VOPD that of the X half).
        fields: lowest and highest bit of every other field by name.
    """

    name: str
    words: int
    prefix_low: int
    prefix_width: int
    prefix_value: int
    opcode_low: int
    opcode_width: int
    fields: Mapping[str, tuple[int, int]]

    def opcode(self, word: int) -> int:
        """The opcode in an instruction's first word."""
        return word >> self.opcode_low & ((1 << self.opcode_width) - 1)


def _span(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    return int(low), int(high)


@cache
def formats(family: str) -> Mapping[str, Format]:
    """Formats of a family by name.

    Raises:
        KeyError: the family has no tables.
    """
    result: dict[str, Format] = {}
    for name, words, prefix, opcode, field_text in family_records("formats.csv", family):
        span, _, value = prefix.partition("=")
        low, high = _span(span)
        fields: dict[str, tuple[int, int]] = {}
        for item in field_text.split(";"):
            field, _, bits = item.partition("@")
            fields[field] = _span(bits)
        # A dual-issue word has two opcodes; the X half's plays the part of the format's own.
        op_low, op_high = _span(opcode) if opcode else fields["opx"]
        result[name] = Format(
            name=name,
            words=int(words),
            prefix_low=low,
            prefix_width=high - low + 1,
            prefix_value=int(value),
            opcode_low=op_low,
            opcode_width=op_high - op_low + 1,
            fields=MappingProxyType(fields),
        )
    return MappingProxyType(result)
