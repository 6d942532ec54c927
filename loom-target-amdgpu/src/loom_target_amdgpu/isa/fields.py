"""How operand codes map to the bits of a row's fields; shared by the encoder and the decoder."""

from __future__ import annotations

import enum
from functools import cache

from loom.ir.records import record
from loom_target_amdgpu.isa.registers import registers
from loom_target_amdgpu.isa.tables import IMMEDIATE_KINDS, LITERAL_KINDS, OFF, SIGNED_KINDS, OperandField


class FieldMode(enum.IntEnum):
    """How a field's value becomes an operand code."""

    LINEAR = 0  # code = value * scale + base
    SIGNED = 1  # code = two's-complement value
    LITERAL = 2  # code = value; the field is the appended literal
    VECTOR9 = 3  # 9-bit source that must name a vector register; code = value + base
    VECTOR9_OR_CONSTANT = 4  # 9-bit source: constant below 256, else value + base
    VECTOR_COMPANION = 5  # the companion bit chooses vector or accumulation register
    SDWA_SOURCE = 6  # the companion bit chooses scalar or vector register
    SDWA_RESULT = 7  # the companion bit chooses a scalar register or VCC
    DUAL_RESULT = 8  # the dual-issue Y result: bit 0 is the complement of the X result's
    FIXED = 9  # no field


@record
class FieldCodec:
    """A field's position and mode.

    Attributes:
        low, mask: the field is ``word >> low & mask``.
        mode: how the value becomes a code.
        scale, base: for the linear and vector modes.
        companion_bit: the companion's bit, or -1.
        half_bit: the half-select bit inside the field, or -1.
    """

    low: int
    mask: int
    mode: FieldMode
    scale: int
    base: int
    companion_bit: int
    half_bit: int


_SCALE = {"sbase": 2, "srsrc": 4}


def _vector_mode(operand: OperandField, width: int) -> tuple[FieldMode, int]:
    if operand.companion is not None:
        return FieldMode.VECTOR_COMPANION, 0
    if operand.kind in ("vgpr_or_const", "agpr_or_const"):
        return FieldMode.VECTOR9_OR_CONSTANT, 256 if operand.kind[0] == "a" else 0
    accumulation = operand.kind == "agpr"
    if width == 9:
        return FieldMode.VECTOR9, 256 if accumulation else 0
    return FieldMode.LINEAR, 512 if accumulation else 256


def _mode(operand: OperandField, width: int) -> tuple[FieldMode, int]:
    if operand.name == "vdsty":
        return FieldMode.DUAL_RESULT, 0
    if operand.kind in SIGNED_KINDS:
        return FieldMode.SIGNED, 0
    if operand.kind in LITERAL_KINDS:
        return FieldMode.LITERAL, 0
    if "gpr" in operand.kind and not operand.kind.startswith("s"):
        return _vector_mode(operand, width)
    if operand.companion is not None:
        return (FieldMode.SDWA_RESULT if operand.companion[0] == "sd" else FieldMode.SDWA_SOURCE), 0
    return FieldMode.LINEAR, 0


@cache
def field_codec(operand: OperandField) -> FieldCodec:
    """The codec of an operand field."""
    if not operand.ranges:
        return FieldCodec(0, 0, FieldMode.FIXED, 1, 0, -1, -1)
    low, high = operand.ranges[0]
    mode, base = _mode(operand, high - low + 1)
    return FieldCodec(
        low=low,
        mask=(1 << (high - low + 1)) - 1,
        mode=mode,
        scale=_SCALE.get(operand.name, 1) if operand.kind not in IMMEDIATE_KINDS else 1,
        base=base,
        companion_bit=-1 if operand.companion is None else operand.companion[1],
        half_bit=operand.half_bit if operand.half_bit is not None and low <= operand.half_bit <= high else -1,
    )


def fixed_code(family: str, operand: OperandField) -> int:
    """Operand code of an operand without a field."""
    if operand.kind == "off":
        return OFF
    return registers(family).codes[operand.kind]
