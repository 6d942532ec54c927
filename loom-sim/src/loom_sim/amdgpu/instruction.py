"""Decoded instructions as the translator wants them: resolved operands, address, text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from loom_target_amdgpu.isa.decode import Decoded

VGPR, AGPR, LITERAL, OFF = 256, 512, 255, -1


@attrs.frozen(slots=True)
class Operand:
    """One operand: where it is and how it is read.

    Attributes:
        name, kind: of the table row (`vdst`, `src0`, ...; `vgpr`, `ssrc`, `imm16`, ...).
        code: operand code (see `loom_target_amdgpu.isa.tables`): below 128 scalar registers, 256 + n vector
            registers, 512 + n accumulation registers, constants between; the value itself for immediates.
        bits: register footprint; 1 is a lane mask.
        is_source, is_result: direction.
        constant: how an inline constant is read (`i32`, `f16`, ...).
        half: bit of `op_sel` that selects the high half of a 16-bit value.
    """

    name: str
    kind: str
    code: int
    bits: int
    is_source: bool
    is_result: bool
    constant: str
    half: int

    @property
    def is_vector(self) -> bool:
        """A vector or accumulation register."""
        return self.code >= VGPR and self.kind not in ("imm16", "imm", "simm16", "hwreg16", "lit32", "lit16", "offset")


@attrs.frozen(slots=True, eq=False)
class Instruction:
    """One instruction at its address in the code object."""

    address: int
    size: int
    mnemonic: str
    format: str
    form: str
    variant: str
    operands: tuple[Operand, ...]
    modifiers: Mapping[str, int]
    literal: int
    implicit_reads: tuple[str, ...]
    implicit_writes: tuple[str, ...]
    flags: frozenset[str]
    decoded: Any
    second: Instruction | None
    wave_size: int

    def get(self, modifier: str) -> int:
        """Value of a modifier, its default included."""
        value: int = self.decoded.modifier(modifier)
        return value

    def operand(self, name: str) -> Operand | None:
        """The operand of this name, or None."""
        for operand in self.operands:
            if operand.name == name:
                return operand
        return None

    @property
    def sources(self) -> list[Operand]:
        """Operands that are only read, in assembler order."""
        return [o for o in self.operands if o.is_source and not o.is_result]

    @property
    def results(self) -> list[Operand]:
        """Operands that are written, in assembler order."""
        return [o for o in self.operands if o.is_result]

    @property
    def text(self) -> str:
        """Assembly text; the bare mnemonic where the disassembler is not available."""
        try:
            from loom_target_amdgpu.isa.disasm import disassemble
        except ImportError:
            return self.mnemonic
        return str(disassemble(self.decoded, wave_size=self.wave_size))


def _half_position(field: Any) -> int:
    if field.direction != "in":
        return 3
    last = field.name[-1]
    return int(last) if last.isdigit() else 0


def adapt(decoded: Decoded, address: int, wave_size: int = 32) -> Instruction:
    """Build the translator's view of a decoded instruction."""
    row = decoded.row
    operands = tuple(
        Operand(
            name=field.name,
            kind=field.kind,
            code=code,
            bits=field.width_bits,
            is_source=field.direction != "out",
            is_result=field.direction != "in",
            constant=field.const_type,
            half=_half_position(field),
        )
        for field, code in zip(row.operands, decoded.codes, strict=True)
    )
    second = decoded.second
    return Instruction(
        address=address,
        size=decoded.size,
        mnemonic=row.mnemonic,
        format=row.format,
        form=row.form,
        variant=row.variant,
        operands=operands,
        modifiers=decoded.modifiers,
        literal=decoded.literal or 0,
        implicit_reads=row.implicit_reads,
        implicit_writes=row.implicit_writes,
        flags=row.flags,
        decoded=decoded,
        second=None if second is None else adapt(second, address, wave_size),
        wave_size=wave_size,
    )
