"""Instruction encoder: a table row, operand codes and modifiers to bytes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from loom_target_amdgpu.isa.fields import FieldCodec, FieldMode, field_codec
from loom_target_amdgpu.isa.registers import VCC
from loom_target_amdgpu.isa.tables import (
    AGPR,
    DPP8_MARKER,
    IMMEDIATE_KINDS,
    LITERAL,
    LITERAL_KINDS,
    VGPR,
    ModifierField,
    OperandField,
    Row,
)

_NO_MODIFIERS: Mapping[str, int] = {}

# Families whose vector register tuples must start at an even register (LLVM AMDGPU backend, gfx90a and its
# successors).
_ALIGNED_VECTOR_TUPLES = frozenset({"gfx942"})


class EncodingError(ValueError):
    """A value that the instruction cannot express; the message names instruction, operand and value."""


def encode(
    row: Row,
    codes: Mapping[str, int],
    modifiers: Mapping[str, int] = _NO_MODIFIERS,
    literal: int | None = None,
) -> bytes:
    """Encode one instruction.

    Args:
        row: the instruction form. For the halves of a dual-issue word use ``encode_dual``.
        codes: operand code of every operand that has a field, by name (``isa.tables`` explains the codes). An
            operand with the code 255 reads the literal.
        modifiers: modifier values by name; absent ones keep their default. ``fi`` is accepted by DPP8 rows
            too.
        literal: the 32-bit literal, when an operand reads one.

    Returns:
        The instruction's bytes, little-endian words.

    Raises:
        EncodingError: an unknown or missing operand, a value out of range, or a literal where none is
            possible.
    """
    if row.format.startswith("VOPD"):
        raise EncodingError(f"{row.mnemonic}: one half of a dual-issue word cannot be encoded alone")
    value, used = _encode_value(row, codes, modifiers, literal)
    if literal is not None and used is None:
        raise EncodingError(f"{row.mnemonic}: no operand reads the literal")
    data = value.to_bytes(4 * row.word_count, "little")
    if used is None or _has_literal_field(row):
        return data
    return data + used.to_bytes(4, "little")


@cache
def _has_literal_field(row: Row) -> bool:
    """Whether the literal is one of the row's own words."""
    return any(operand.kind in LITERAL_KINDS for operand in row.operands)


def encode_dual(
    x: Row, x_codes: Mapping[str, int], y: Row, y_codes: Mapping[str, int], literal: int | None = None
) -> bytes:
    """Encode a dual-issue word from its X and Y halves. ``isa.dual`` says which pairs are legal.

    Raises:
        EncodingError: as ``encode``; also when the two results are not one even and one odd register.
    """
    if x.format != "VOPD_X" or y.format != "VOPD_Y":
        raise EncodingError(f"{x.mnemonic} and {y.mnemonic} are not the X and Y halves of a dual-issue word")
    if not (x_codes.get("vdstx", 0) ^ y_codes.get("vdsty", 0)) & 1:
        raise EncodingError(f"{x.mnemonic} and {y.mnemonic} must write one even and one odd register")
    x_value, x_literal = _encode_value(x, x_codes, _NO_MODIFIERS, literal)
    y_value, y_literal = _encode_value(y, y_codes, _NO_MODIFIERS, literal)
    used = {item for item in (x_literal, y_literal) if item is not None}
    if len(used) > 1:
        raise EncodingError(f"{x.mnemonic} and {y.mnemonic} need two different literals")
    if literal is not None and not used:
        raise EncodingError(f"{x.mnemonic} and {y.mnemonic}: no operand reads the literal")
    # The rows come from words whose other half was a dual move: keep only each half's own opcode and fields.
    value = x_value & _DUAL_BITS & ~_Y_BITS | y_value & _Y_BITS
    data = value.to_bytes(8, "little")
    return data + used.pop().to_bytes(4, "little") if used else data


# Word 0 bits 17..21 (opy) and word 1 without its top byte (vdstx) belong to the Y half; a literal follows
# both.
_Y_BITS = 0x1F << 17 | 0x00FFFFFF << 32
_DUAL_BITS = (1 << 64) - 1


def _encode_value(
    row: Row, codes: Mapping[str, int], modifiers: Mapping[str, int], literal: int | None
) -> tuple[int, int | None]:
    """The instruction as an integer, and the literal its operands read."""
    names, fields = _layout(row)
    if not codes.keys() <= names:
        raise EncodingError(f"{row.mnemonic} ({row.format}) has no operand '{min(codes.keys() - names)}'")
    value = row.fixed_words
    if modifiers:
        value |= _half_selects(row, codes, modifiers)
        for name, setting in modifiers.items():
            value = _apply_modifier(row, value, name, setting)
    used: int | None = None
    companions: dict[int, int] = {}
    for name, first, last, base, mask, low, operand, codec in fields:
        code = codes.get(name)
        if code is not None and first <= code <= last:
            value |= (code - base & mask) << low
            continue
        if codec.mode is FieldMode.LITERAL:
            used = _check_literal(row, operand, used, literal if code is None else code, literal)
            value |= used << low
            continue
        if code is None:
            raise EncodingError(f"{row.mnemonic} ({row.format}): operand '{name}' is missing")
        if code == LITERAL and operand.kind in _CONSTANT_KINDS:
            if name not in row.literal_sources:
                raise EncodingError(f"{row.mnemonic} ({row.format}): operand '{name}' cannot be a literal")
            used = _check_literal(row, operand, used, codes.get("literal", literal), literal)
        _check_tuple(row, operand, code)
        value |= _field_bits(row, operand, codec, code, companions)
    return value, used


class _Field(NamedTuple):
    """A field of a row. Codes from ``first`` to ``last`` fit it whatever else the instruction names."""

    name: str
    first: int
    last: int
    base: int
    mask: int
    low: int
    operand: OperandField
    codec: FieldCodec


@cache
def _layout(row: Row) -> tuple[frozenset[str], tuple[_Field, ...]]:
    """The names of all operands of a row, and its fields."""
    fields = []
    for operand in row.operands:
        codec = field_codec(operand)
        if codec.mode is not FieldMode.FIXED:
            first, last = _plain_codes(row, operand, codec)
            fields.append(_Field(operand.name, first, last, codec.base, codec.mask, codec.low, operand, codec))
    return frozenset(operand.name for operand in row.operands), tuple(fields)


def _plain_codes(row: Row, operand: OperandField, codec: FieldCodec) -> tuple[int, int]:
    """First and last of a range of codes that need no further check; an empty range where there is none."""
    if codec.companion_bit >= 0 or codec.half_bit >= 0 or codec.scale != 1:
        return 1, 0
    if codec.mode is FieldMode.SIGNED:
        half = (codec.mask + 1) >> 1
        return -half, half - 1
    if codec.mode is not FieldMode.LINEAR:
        return 1, 0
    first, last = codec.base, codec.base + codec.mask
    if operand.kind in ("ssrc", "inline_int", "sgpr"):
        last = min(last, LITERAL)
    dwords = operand.width_bits // 32
    if dwords > 1:
        # Tuples of vector registers, up to where they end behind the last register.
        first, last = max(first, VGPR), min(last, VGPR + 256 - dwords)
        return (1, 0) if row.family in _ALIGNED_VECTOR_TUPLES or operand.kind in IMMEDIATE_KINDS else (first, last)
    if operand.kind in _CONSTANT_KINDS and first <= LITERAL <= last:
        # The larger part of the codes on one side of the literal: vector registers, or else scalars and constants.
        return (VGPR, last) if last >= VGPR else (first, LITERAL - 1)
    return first, last


_CONSTANT_KINDS = frozenset({"ssrc", "vsrc", "vgpr_or_const", "agpr_or_const", "inline_int"})


def _check_literal(
    row: Row, operand: OperandField, used: int | None, value: int | None, literal: int | None
) -> int:
    if value is None:
        raise EncodingError(f"{row.mnemonic}: operand '{operand.name}' needs a literal value")
    if not -(1 << 31) <= value < 1 << 32:
        raise EncodingError(f"{row.mnemonic}: literal {value} does not fit in 32 bits")
    value &= 0xFFFFFFFF
    if (used is not None and used != value) or (literal is not None and literal & 0xFFFFFFFF != value):
        raise EncodingError(f"{row.mnemonic}: one instruction cannot hold two different literals")
    return value


def _check_tuple(row: Row, operand: OperandField, code: int) -> None:
    dwords = operand.width_bits // 32
    if dwords < 2:
        return
    if code >= VGPR:
        limit = 256 - dwords
        if code & 0xFF > limit:
            raise EncodingError(
                f"{row.mnemonic}: '{operand.name}' starts at register {code & 0xFF}, above {limit}"
            )
        if row.family in _ALIGNED_VECTOR_TUPLES and code & 1:
            raise EncodingError(f"{row.mnemonic}: '{operand.name}' must start at an even vector register")
    elif 0 <= code < 106 and operand.kind in ("sgpr", "ssrc", "vsrc"):
        unit = 2 if dwords == 2 else 4
        if code % unit:
            raise EncodingError(
                f"{row.mnemonic}: '{operand.name}' must start at a multiple of {unit}, not s{code}"
            )


def _field_bits(
    row: Row, operand: OperandField, codec: FieldCodec, code: int, companions: dict[int, int]
) -> int:
    value, partner = _field_value(operand, codec, code)
    if value is None:
        raise EncodingError(
            f"{row.mnemonic} ({row.format}): operand '{operand.name}' cannot have the code {code}"
        )
    if codec.half_bit >= 0 and code >= VGPR and code & 0x80:
        raise EncodingError(
            f"{row.mnemonic} ({row.format}): '{operand.name}' is a 16-bit register and reaches v0..v127 only"
        )
    bits = value << codec.low
    if codec.companion_bit >= 0:
        if companions.setdefault(codec.companion_bit, partner) != partner:
            raise EncodingError(f"{row.mnemonic}: data operands must all be VGPRs or all be AGPRs")
        bits |= partner << codec.companion_bit
    return bits


def _field_value(operand: OperandField, codec: FieldCodec, code: int) -> tuple[int | None, int]:
    mask = codec.mask
    mode = codec.mode
    if mode is FieldMode.LINEAR:
        value, rest = divmod(code - codec.base, codec.scale)
        allowed = not rest and 0 <= value <= mask
        if operand.kind in ("ssrc", "inline_int", "sgpr") and code > 255:
            allowed = False
        return (value if allowed else None), 0
    if mode is FieldMode.SIGNED:
        half = (mask + 1) >> 1
        return (code & mask if -half <= code < half else None), 0
    if mode in (FieldMode.VECTOR9, FieldMode.VECTOR9_OR_CONSTANT):
        constant = mode is FieldMode.VECTOR9_OR_CONSTANT and 0 <= code < VGPR
        value = code if constant else code - codec.base
        return (value if constant or VGPR <= value <= 511 else None), 0
    if mode is FieldMode.VECTOR_COMPANION:
        if not VGPR <= code < AGPR + 256:
            return None, 0
        return (code & 0xFF) | (256 if mask == 511 else 0), int(code >= AGPR)
    if mode is FieldMode.SDWA_SOURCE:
        return (code & 0xFF if 0 <= code < 512 else None), int(code < VGPR)
    if mode is FieldMode.SDWA_RESULT:
        if code == VCC:
            return 0, 0
        return (code if 0 <= code <= mask else None), 1
    # A dual-issue Y result: bit 0 is implied by the X result, which encode_dual has checked.
    return ((code - VGPR) >> 1 if VGPR <= code < 512 else None), 0


def _apply_modifier(row: Row, value: int, name: str, setting: int) -> int:
    modifier = row.modifier(name)
    if modifier is not None:
        return _set_modifier(row, value, modifier, setting)
    if name == "fi" and row.variant == "dpp8" and setting in (0, 1):
        # DPP8 has no bit for it: the source marker says whether inactive lanes are fetched.
        low = 32 if row.format.startswith("VOP3") else 0
        return value & ~(0x1FF << low) | (DPP8_MARKER + setting) << low
    if setting and name != "op_sel":
        raise EncodingError(f"{row.mnemonic} ({row.format}) has no modifier '{name}'")
    return value


def _set_modifier(row: Row, value: int, modifier: ModifierField, setting: int) -> int:
    width = modifier.width
    low = -(1 << (width - 1)) if modifier.signed else 0
    high = 1 << (width - 1 if modifier.signed else width)
    if not low <= setting < high:
        raise EncodingError(
            f"{row.mnemonic}: modifier {modifier.name}={setting} is outside {low}..{high - 1}"
        )
    covered = 0
    for first, last, position in modifier.bits:
        mask = (1 << (last - first + 1)) - 1
        covered |= mask << position
        value = value & ~(mask << first) | (setting >> position & mask) << first
    if setting & ~covered & ((1 << width) - 1):
        raise EncodingError(
            f"{row.mnemonic}: modifier {modifier.name}={setting} names an operand it does not have"
        )
    return value


def _half_selects(row: Row, codes: Mapping[str, int], modifiers: Mapping[str, int]) -> int:
    """Bits for ``op_sel`` where the half select is inside the register field."""
    op_sel = modifiers.get("op_sel", 0)
    if not op_sel or row.modifier("op_sel") is not None:
        return 0
    bits = 0
    for operand in row.operands:
        selected = operand.half_bit is not None and op_sel >> operand.half_position & 1
        if selected and codes.get(operand.name, 0) >= VGPR:
            bits |= 1 << (operand.half_bit or 0)
            op_sel &= ~(1 << operand.half_position)
    if op_sel:
        raise EncodingError(f"{row.mnemonic} ({row.format}): op_sel names an operand without halves")
    return bits
