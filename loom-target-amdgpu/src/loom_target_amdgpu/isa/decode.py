"""Instruction decoder: bytes to a table row, operand codes and modifiers.

A word's prefix selects a format group and the group's opcode a handful of candidate rows; the candidate whose
fixed bits match is the instruction. Fields that a row does not use are ignored, because assemblers fill them
differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import attrs

from loom_target_amdgpu.isa.fields import FieldCodec, FieldMode, field_codec, fixed_code
from loom_target_amdgpu.isa.formats import Format, formats
from loom_target_amdgpu.isa.registers import VCC, registers
from loom_target_amdgpu.isa.tables import (
    AGPR,
    DPP8_MARKER,
    LITERAL,
    VGPR,
    FamilyTable,
    ModifierField,
    OperandField,
    Row,
    family_table,
)


class DecodeError(ValueError):
    """Bytes that are no known instruction.

    Attributes:
        offset: byte offset of the instruction.
        words: the words at the offset, up to three.
    """

    def __init__(self, offset: int, words: tuple[int, ...], reason: str) -> None:
        shown = " ".join(f"{word:08x}" for word in words)
        super().__init__(f"offset {offset:#x}: {reason} ({shown or 'no bytes left'})")
        self.offset = offset
        self.words = words


@attrs.frozen
class Decoded:
    """One decoded instruction.

    Attributes:
        row: the table row; for a dual-issue word the row of the X half.
        codes: operand codes parallel to ``row.operands`` (``isa.tables`` explains the codes).
        modifiers: the modifiers that differ from their default. ``op_sel`` is also reported for instructions
            that select a register's high half inside the register field.
        literal: the appended 32-bit literal, or None.
        size: bytes, including appended words.
        second: the Y half of a dual-issue word, which shares size and literal.
    """

    row: Row
    codes: tuple[int, ...]
    modifiers: Mapping[str, int]
    literal: int | None
    size: int
    second: Decoded | None

    def code(self, name: str) -> int:
        """Operand code of the operand called ``name``.

        Raises:
            KeyError: the row has no such operand.
        """
        for operand, code in zip(self.row.operands, self.codes, strict=True):
            if operand.name == name:
                return code
        raise KeyError(f"{self.row.mnemonic} has no operand '{name}'")

    def modifier(self, name: str) -> int:
        """Value of a modifier, its default included; 0 for one the row does not have."""
        value = self.modifiers.get(name)
        if value is not None:
            return value
        field = self.row.modifier(name)
        return 0 if field is None else field.default


_NO_MODIFIERS: Mapping[str, int] = {}

# Fields that name operands or hold immediates: where a row has no such operand, their bits mean nothing.
_OPERAND_FIELDS = frozenset(
    (
        *("src0", "src1", "src2", "vsrc1", "vdst", "sdst", "ssrc0", "ssrc1", "simm16"),
        *("addr", "data", "data0", "data1", "vaddr", "vdata", "vsrc", "srsrc", "rsrc", "soffset"),
        *("sbase", "sdata", "saddr", "offset", "offset0", "offset1", "ioffset", "op_sel_hi", "op_sel_hi2"),
    )
)
# In these formats the register field says by its value whether there is such an operand.
_ADDRESS_FORMATS = frozenset({"GLOBAL", "SCRATCH", "VGLOBAL", "VSCRATCH"})
_OFFSET_FIELDS = frozenset({"offset", "ioffset"})


def _ignored(row: Row, layout: Format, field: str) -> bool:
    """Whether a field that is neither operand nor modifier of the row may hold anything."""
    if field == "format" and row.format == "VBUFFER":
        return True  # untyped accesses: assemblers write 1, hardware does not look
    if field not in _OPERAND_FIELDS:
        return False
    if field == "src0" and row.variant:
        return False  # the marker of an appended DPP or SDWA word
    if not row.operands:
        return True
    if field == "saddr":
        return row.format not in _ADDRESS_FORMATS
    if row.format == "SMEM" and field == "soffset":
        return "soffset_en" in layout.fields
    if row.format == "SMEM" and field in _OFFSET_FIELDS:
        return False
    return not (field == "ssrc0" and any(operand.kind == "m0" for operand in row.operands))


def _mask_of(low: int, high: int) -> int:
    return ((1 << (high - low + 1)) - 1) << low


@attrs.frozen
class _Candidate:
    """A row prepared for matching: ``word & mask == value``, then the fields."""

    row: Row
    mask: int
    value: int
    bits: int
    codecs: tuple[tuple[FieldCodec, OperandField, int], ...]
    modifiers: tuple[tuple[ModifierField, int, int], ...]
    dpp8_low: int


_DUAL_X_MASK = 0x3F << 26 | 0xF << 22
_DUAL_Y_MASK = 0x3F << 26 | 0x1F << 17


def _candidate(row: Row, layout: Format, return_bit: int) -> _Candidate:
    mask = (1 << (32 * row.word_count)) - 1
    modifiers = []
    for modifier in row.modifiers:
        for low, high, _ in modifier.bits:
            mask &= ~_mask_of(low, high)
        low, high, position = modifier.bits[0]
        simple = len(modifier.bits) == 1 and position == 0
        modifiers.append((modifier, low if simple else -1, (1 << (high - low + 1)) - 1))
    for operand in row.operands:
        for low, high in operand.ranges:
            mask &= ~_mask_of(low, high)
        if operand.companion is not None:
            mask &= ~(1 << operand.companion[1])
    for field, (low, high) in layout.fields.items():
        if _ignored(row, layout, field):
            mask &= ~_mask_of(low, high)
    dpp8_low = -1
    if row.variant == "dpp8":
        dpp8_low = 32 if row.format.startswith("VOP3") else 0
        mask &= ~(3 << dpp8_low)
    if return_bit >= 0:
        mask |= 1 << return_bit
    if row.format.startswith("VOPD"):
        mask = _DUAL_X_MASK if row.format == "VOPD_X" else _DUAL_Y_MASK
    codecs = tuple((field_codec(operand), operand, _fixed(row, operand)) for operand in row.operands)
    return _Candidate(row, mask, row.fixed_words & mask, mask.bit_count(), codecs, tuple(modifiers), dpp8_low)


def _fixed(row: Row, operand: OperandField) -> int:
    return 0 if operand.ranges else fixed_code(row.family, operand)


class _Group:
    """Formats with one prefix, and their rows by opcode."""

    __slots__ = ("candidates", "layout", "numbers")

    def __init__(self, layout: Format) -> None:
        self.layout = layout
        self.numbers: dict[int, list[int]] = {}
        self.candidates: dict[int, tuple[_Candidate, ...]] = {}


_PREFIX_BITS = 9


class _Index:
    """A family's groups by the top bits of the first word."""

    __slots__ = (
        "by_prefix",
        "dual_candidates",
        "dual_y",
        "invalid_sources",
        "layouts",
        "scalar_offset_alias",
        "table",
    )

    def __init__(self, table: FamilyTable) -> None:
        self.table = table
        layouts = formats(table.family)
        self.layouts: dict[str, Format] = dict(layouts)
        groups: dict[tuple[int, int], _Group] = {}
        for layout in layouts.values():
            groups.setdefault((layout.prefix_low, layout.prefix_value), _Group(layout))
        if "VOPD" in layouts:
            for half in ("VOPD_X", "VOPD_Y"):
                self.layouts[half] = layouts["VOPD"]
        self.by_prefix: list[_Group | None] = [None] * (1 << _PREFIX_BITS)
        for group in sorted(groups.values(), key=lambda g: g.layout.prefix_width):
            free = _PREFIX_BITS - group.layout.prefix_width
            first = group.layout.prefix_value << free
            self.by_prefix[first : first + (1 << free)] = [group] * (1 << free)
        self.dual_y: dict[int, int] = {}
        self.dual_candidates: dict[int, _Candidate] = {}
        for number, (name, opcode) in enumerate(table.opcodes()):
            if name == "VOPD_Y":
                self.dual_y[opcode] = number
                continue
            layout = self.layouts[name]
            groups[layout.prefix_low, layout.prefix_value].numbers.setdefault(opcode, []).append(number)
        sources = registers(table.family).valid_sources
        self.invalid_sources = frozenset(range(256)) - sources
        self.scalar_offset_alias = "SMEM" in layouts and "soffset_en" in layouts["SMEM"].fields

    def dual_candidate(self, opcode: int) -> _Candidate | None:
        """The Y half with this opcode."""
        found = self.dual_candidates.get(opcode)
        number = self.dual_y.get(opcode)
        if found is None and number is not None:
            found = _candidate(self.table.row(number), self.layouts["VOPD_Y"], -1)
            self.dual_candidates[opcode] = found
        return found

    def candidates(self, group: _Group, opcode: int) -> tuple[_Candidate, ...]:
        found = group.candidates.get(opcode)
        if found is None:
            rows = [self.table.row(number) for number in group.numbers.get(opcode, ())]
            returning = any("rtn" in row.form for row in rows)
            prepared = [
                _candidate(row, self.layouts[row.format], _return_bit(row, returning)) for row in rows
            ]
            # Rows with more fixed bits are special cases of the others (an address part switched off, a DPP
            # marker in the source). Zero offset and null register together are the immediate form.
            prepared.sort(key=lambda c: (c.row.format != "SMEM" or c.row.form != "imm", -c.bits))
            found = group.candidates[opcode] = tuple(prepared)
        return found


def _return_bit(row: Row, returning: bool) -> int:
    """The temporal-hint bit that tells a returning atomic from one that does not return, or -1."""
    hint = row.modifier("th")
    return hint.bits[0][0] if returning and hint is not None else -1


@cache
def _index(family: str) -> _Index:
    return _Index(family_table(family))


def decode(
    table: FamilyTable, data: bytes | bytearray | memoryview, offset: int = 0, *, wave_size: int = 32
) -> Decoded:
    """Decode the instruction at ``offset``.

    Args:
        table: the family's table.
        data: code bytes.
        offset: byte offset, a multiple of 4.
        wave_size: 32 or 64; matrix instructions have different operands in each.

    Raises:
        DecodeError: no row matches, a source code is reserved, or the instruction is cut off.
    """
    index = _index(table.family)
    chunk = bytes(data[offset : offset + 16])
    if len(chunk) < 4:
        raise DecodeError(offset, (), "the code ends inside an instruction")
    word = int.from_bytes(chunk, "little")
    group = index.by_prefix[word >> (32 - _PREFIX_BITS) & ((1 << _PREFIX_BITS) - 1)]
    if group is None:
        raise _error(offset, chunk, "unknown instruction format")
    layout = group.layout
    if index.scalar_offset_alias and layout.name == "SMEM" and word >> 14 & 1 and not word >> 17 & 1:
        word = _canonical_scalar_offset(word)
    for candidate in index.candidates(group, word >> layout.opcode_low & ((1 << layout.opcode_width) - 1)):
        if word & candidate.mask == candidate.value and candidate.row.wave in (0, wave_size):
            break
    else:
        raise _error(offset, chunk, f"unknown {layout.name} instruction")
    if candidate.row.format == "VOPD_X":
        return _decode_dual(index, candidate, word, offset, chunk)
    codes, modifiers, literal = _fields(index, candidate, word, offset, chunk)
    size = 4 * candidate.row.word_count
    if literal is None and LITERAL in codes and _reads_literal(candidate, codes, offset, chunk):
        literal = word >> (8 * size) & 0xFFFFFFFF
        size += 4
    if size > len(chunk):
        raise _error(offset, chunk, "the code ends inside an instruction")
    return Decoded(candidate.row, codes, modifiers, literal, size, None)


def _error(offset: int, chunk: bytes, reason: str) -> DecodeError:
    words = tuple(int.from_bytes(chunk[i : i + 4], "little") for i in range(0, min(len(chunk) & ~3, 12), 4))
    return DecodeError(offset, words, reason)


def _canonical_scalar_offset(word: int) -> int:
    """gfx942 scalar loads can hold a scalar offset in two fields; move it to the one the tables know."""
    register = word >> 57 & 0x7F
    return word & ~(1 << 14 | 0x1FFFFF << 32 | 0x7F << 57) | register << 32


def _decode_dual(index: _Index, x: _Candidate, word: int, offset: int, chunk: bytes) -> Decoded:
    y = index.dual_candidate(word >> 17 & 0x1F)
    if y is None:
        raise _error(offset, chunk, "unknown Y opcode of a dual-issue word")
    halves = []
    literal = word >> 64 & 0xFFFFFFFF
    reads = False
    for half in (x, y):
        codes, modifiers, own = _fields(index, half, word, offset, chunk)
        reads = reads or own is not None or (LITERAL in codes and _reads_literal(half, codes, offset, chunk))
        halves.append((half.row, codes, modifiers))
    size = 12 if reads else 8
    if size > len(chunk):
        raise _error(offset, chunk, "the code ends inside an instruction")
    shared = literal if reads else None
    second = Decoded(*halves[1], shared, size, None)
    return Decoded(*halves[0], shared, size, second)


def _reads_literal(candidate: _Candidate, codes: tuple[int, ...], offset: int, chunk: bytes) -> bool:
    found = False
    for (codec, operand, _), code in zip(candidate.codecs, codes, strict=True):
        if code != LITERAL or operand.kind not in _SOURCE_KINDS or codec.mode is FieldMode.FIXED:
            continue
        if operand.name not in candidate.row.literal_sources:
            raise _error(offset, chunk, f"{candidate.row.mnemonic} cannot read a literal as {operand.name}")
        found = True
    return found


_SOURCE_KINDS = frozenset({"ssrc", "vsrc", "vgpr_or_const", "agpr_or_const", "inline_int"})
_REGISTER_KINDS = _SOURCE_KINDS | {"sgpr", "sgpr_or_vcc"}
_LAST_SCALAR = 127
_RESERVED = -2


def _fields(
    index: _Index, candidate: _Candidate, word: int, offset: int, chunk: bytes
) -> tuple[tuple[int, ...], Mapping[str, int], int | None]:
    """Operand codes, modifiers, and the literal when it is an operand of its own."""
    codes = []
    literal = None
    halves = 0
    for codec, operand, fixed in candidate.codecs:
        mode = codec.mode
        value = word >> codec.low & codec.mask
        if mode is FieldMode.LINEAR:
            if codec.half_bit >= 0 and (codec.mask == 0xFF or value >= VGPR) and word >> codec.half_bit & 1:
                value &= ~0x80
                halves |= 1 << operand.half_position
            code = value * codec.scale + codec.base
        elif mode is FieldMode.FIXED:
            code = fixed
        elif mode is FieldMode.LITERAL:
            code = literal = value
        else:
            code = _special_code(codec, value, word)
        nameless = code in index.invalid_sources and operand.kind in _REGISTER_KINDS
        if nameless or (operand.kind == "sgpr" and code > _LAST_SCALAR):
            code = _RESERVED
        if code == _RESERVED:
            raise _error(offset, chunk, f"{candidate.row.mnemonic}: reserved code {value} for {operand.name}")
        codes.append(code)
    if not candidate.modifiers and not halves and candidate.dpp8_low < 0:
        return tuple(codes), _NO_MODIFIERS, literal
    modifiers = _modifiers(candidate, word)
    if halves:
        modifiers["op_sel"] = modifiers.get("op_sel", 0) | halves
    if candidate.dpp8_low >= 0:
        marker = word >> candidate.dpp8_low & 0x1FF
        if marker not in (DPP8_MARKER, DPP8_MARKER + 1):
            raise _error(offset, chunk, f"reserved source code {marker}")
        if marker != DPP8_MARKER:
            modifiers["fi"] = 1
    return tuple(codes), modifiers, literal


def _special_code(codec: FieldCodec, value: int, word: int) -> int:
    """Operand code of the less common field modes; ``_RESERVED`` for a value that names nothing."""
    mode = codec.mode
    if mode is FieldMode.SIGNED:
        half = (codec.mask + 1) >> 1
        return (value ^ half) - half
    if mode is FieldMode.VECTOR9:
        return value + codec.base if value >= VGPR else _RESERVED
    if mode is FieldMode.VECTOR9_OR_CONSTANT:
        return value + codec.base if value >= VGPR else value
    partner = word >> codec.companion_bit & 1 if codec.companion_bit >= 0 else 0
    if mode is FieldMode.VECTOR_COMPANION:
        if codec.mask == 0x1FF and value < VGPR:
            return _RESERVED
        return (value & 0xFF) + (AGPR if partner else VGPR)
    if mode is FieldMode.SDWA_SOURCE:
        return value if partner else value + VGPR
    if mode is FieldMode.SDWA_RESULT:
        return value if partner else VCC
    return VGPR + (value << 1 | ~(word >> 56) & 1)


def _modifiers(candidate: _Candidate, word: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for modifier, low, mask in candidate.modifiers:
        if low >= 0:
            value = word >> low & mask
        else:
            value = 0
            for first, last, position in modifier.bits:
                value |= (word >> first & ((1 << (last - first + 1)) - 1)) << position
        if modifier.signed:
            half = 1 << (modifier.width - 1)
            value = (value ^ half) - half
        if value != modifier.default:
            found[modifier.name] = value
    return found
