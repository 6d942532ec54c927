"""Assembly text of decoded instructions, in LLVM's spelling: assembled again it gives the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

from loom_target_amdgpu.isa.data_files import family_records
from loom_target_amdgpu.isa.decode import Decoded, DecodeError, decode
from loom_target_amdgpu.isa.registers import RegisterMap, registers
from loom_target_amdgpu.isa.tables import LITERAL, LITERAL_KINDS, VGPR, FamilyTable, OperandField, Row
from loom_target_amdgpu.isa.waits import DEPCTR_FIELDS, WAITCNT_FIELDS, CounterField

_CONSTANT_KINDS = frozenset({"ssrc", "vsrc", "vgpr_or_const", "agpr_or_const"})
_SDWA_SELECTS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
_SDWA_UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")
_OUTPUT_SCALE = ("", "mul:2", "mul:4", "div:2")
_SCOPES = ("SCOPE_CU", "SCOPE_SE", "SCOPE_DEV", "SCOPE_SYS")
_HINTS = ("RT", "NT", "HT", "LU", "NT_RT", "RT_NT", "NT_HT", "NT_WB")
_ATOMIC_HINTS = ("RT", "RETURN", "NT", "NT_RETURN", "CASCADE_RT", "", "CASCADE_NT")

# Modifiers printed as bare words, as name:value, and as name:value even when zero.
_WORDS = ("sc0", "sc1", "nt", "glc", "slc", "dlc", "gds", "clamp")
_NUMBERS = ("cbsz", "abid", "blgp", "byte_sel")
_ALWAYS = ("wait_exp", "wait_vdst", "wait_va_vdst", "wait_vm_vsrc")
_PER_SOURCE = ("op_sel_hi", "neg_lo", "neg_hi")

# Words that belong to the form rather than to a modifier; a row's example shows which it has.
_ADDRESS_WORDS = ("idxen", "offen")
_RETURN_WORDS = ("sc0", "glc")
_LAST_WORDS = ("lds", "gds")


def disassemble(decoded: Decoded, *, wave_size: int = 32) -> str:
    """Text of a decoded instruction.

    Args:
        decoded: the instruction.
        wave_size: 32 or 64; decides how lane masks are spelled.
    """
    text = _Printer(decoded, wave_size).text()
    if decoded.second is None:
        return text
    return f"{text} :: {_Printer(decoded.second, wave_size).text()}"


def disassemble_code(
    table: FamilyTable, code: bytes, *, wave_size: int = 32, address: int = 0
) -> Iterator[tuple[int, bytes, str]]:
    """Address, bytes and text of every instruction of a code section. Words that are no instruction give a
    ``.long`` line each.
    """
    offset = 0
    while offset < len(code):
        try:
            decoded = decode(table, code, offset, wave_size=wave_size)
        except DecodeError:
            word = code[offset : offset + 4]
            yield address + offset, word, f".long 0x{int.from_bytes(word, 'little'):08x}"
            offset += 4
            continue
        yield (
            address + offset,
            code[offset : offset + decoded.size],
            disassemble(decoded, wave_size=wave_size),
        )
        offset += decoded.size


@cache
def _names(family: str, enum: str) -> dict[int, str]:
    found = {}
    for record in family_records("enums.csv", family):
        # Messages with an operation have a comma in their name and are printed as numbers.
        if len(record) == 3 and record[0] == enum:
            found[int(record[1])] = record[2]
    return found


@cache
def _form_words(row: Row, words: tuple[str, ...]) -> tuple[str, ...]:
    modifiers = {modifier.name for modifier in row.modifiers}
    shown = row.example.replace(",", " ").split()[1:]
    return tuple(word for word in words if word in shown and word not in modifiers)


class _Printer:
    def __init__(self, decoded: Decoded, wave_size: int) -> None:
        self.decoded = decoded
        self.row = decoded.row
        self.wave_size = wave_size
        self.registers: RegisterMap = registers(self.row.family)
        self.half_selects = decoded.modifier("op_sel") if self._has_halves() else 0

    def _has_halves(self) -> bool:
        return any(op.half_bit is not None or op.width_bits == 16 for op in self.row.operands)

    def text(self) -> str:
        row = self.row
        mnemonic = row.mnemonic if row.format.startswith("VOPD") else row.example.split()[0]
        operands = [
            self._operand(operand, code)
            for operand, code in zip(row.operands, self.decoded.codes, strict=True)
        ]
        if row.modifier("attr") is not None:
            channel = "xyzw"[self.decoded.modifier("attr_chan")]
            operands.append(f"attr{self.decoded.modifier('attr')}.{channel}")
        words = [mnemonic]
        if operands:
            words.append(", ".join(operands))
        words.extend(self._modifiers())
        return " ".join(words)

    def _operand(self, operand: OperandField, code: int) -> str:
        kind = operand.kind
        if kind == "vcc":
            return "vcc_lo" if self.wave_size == 32 else "vcc"
        if kind in _IMMEDIATE_TEXT:
            return _IMMEDIATE_TEXT[kind](self, code)
        if kind in LITERAL_KINDS:
            return f"0x{code:x}"
        if kind in _CONSTANT_KINDS and code == LITERAL:
            text = f"0x{self.decoded.literal or 0:x}"
        else:
            text = self.registers.name(code, self._dwords(operand))
            if code >= VGPR and (
                operand.width_bits == 16 or (operand.half_bit is not None and self.half_selects)
            ):
                text += ".h" if self.half_selects >> operand.half_position & 1 else ".l"
        return self._source_modifiers(operand, code, text)

    def _dwords(self, operand: OperandField) -> int:
        if operand.width_bits == 1:
            return self.wave_size // 32
        return max(operand.width_bits // 32, 1)

    def _source_modifiers(self, operand: OperandField, code: int, text: str) -> str:
        position = _source_position(operand)
        if position < 0 or self.row.format == "MFMA":
            return text
        modifiers = self.decoded.modifiers
        if modifiers.get("sext", 0) >> position & 1:
            text = f"sext({text})"
        if modifiers.get("abs", 0) >> position & 1:
            text = f"|{text}|"
        if modifiers.get("neg", 0) >> position & 1:
            # A minus sign before a constant would be read as part of the number.
            text = f"neg({text})" if code < VGPR and not text.startswith(("s", "v", "|")) else f"-{text}"
        return text

    def _modifiers(self) -> Iterator[str]:
        """Everything after the operands. The assembler accepts most modifiers in this order only."""
        decoded, row = self.decoded, self.row
        if row.format == "VINTERP" and "clamp" in decoded.modifiers:
            yield "clamp"
        if "format" in decoded.modifiers:
            yield f"format:{decoded.modifiers['format']}"
        if "index_key" in decoded.modifiers:
            yield f"index_key:{decoded.modifiers['index_key']}"
        yield from self._op_sel()
        for name in _PER_SOURCE:
            field = row.modifier(name)
            if field is not None and name in decoded.modifiers:
                count = max(_source_count(row), field.width)
                yield _bit_list(name, decoded.modifiers[name], range(count))
        yield from _form_words(row, _ADDRESS_WORDS)
        yield from self._offsets()
        for name in _NUMBERS:
            if name in decoded.modifiers:
                yield f"{name}:{decoded.modifiers[name]}"
        if row.format == "MFMA" and "neg" in decoded.modifiers:
            yield _bit_list("neg", decoded.modifiers["neg"], range(3))
        yield from self._cache_policy()
        if row.form == "lds":  # an LDS store without data or address wants the word before the cache policy
            yield "lds"
        yield from _form_words(row, _RETURN_WORDS)
        for name in _WORDS:
            if name in decoded.modifiers and not (name == "clamp" and row.format == "VINTERP"):
                yield name
        if row.form != "lds":
            yield from _form_words(row, _LAST_WORDS)
        if "omod" in decoded.modifiers:
            yield _OUTPUT_SCALE[decoded.modifiers["omod"]]
        for name in _ALWAYS:
            if row.modifier(name) is not None:
                yield f"{name}:{decoded.modifier(name)}"
        yield from self._lane_select()

    def _op_sel(self) -> Iterator[str]:
        field = self.row.modifier("op_sel")
        value = self.decoded.modifiers.get("op_sel", 0)
        if field is None or not value or self._has_halves():
            return
        has_result = field.width == 4
        # An accumulating instruction lists its result once more as the third source.
        listed = max(position + high - low + 1 for low, high, position in field.bits if position < 3)
        if "mac" in self.row.mnemonic:
            listed = 3
        sources = max(_source_count(self.row) if has_result else 0, min(listed, 3))
        yield _bit_list("op_sel", value, [*range(sources), *([3] if has_result else [])])

    def _offsets(self) -> Iterator[str]:
        for name in ("offset", "offset0", "offset1"):
            if self.row.modifier(name) is None:
                continue
            value = self.decoded.modifier(name)
            if self.row.format == "SMEM":
                yield f"offset:{_signed_hex(value)}"
            elif value:
                yield f"{name}:{value}"

    def _cache_policy(self) -> Iterator[str]:
        decoded = self.decoded
        if self.row.modifier("th") is None:
            return
        hint, scope = decoded.modifier("th"), decoded.modifier("scope")
        if hint:
            yield f"th:{self._hint(hint, scope)}"
        if scope:
            yield f"scope:{_SCOPES[scope]}"

    def _hint(self, hint: int, scope: int) -> str:
        if {"load", "store"} <= self.row.flags:
            return f"TH_ATOMIC_{_ATOMIC_HINTS[hint]}" if hint < 7 and hint != 5 else f"0x{hint:x}"
        kind = "STORE" if "store" in self.row.flags else "LOAD"
        name = _HINTS[hint]
        if hint == 3:
            name = "BYPASS" if scope == 3 else ("RT_WB" if kind == "STORE" else "LU")
        return f"TH_{kind}_{name}"

    def _lane_select(self) -> Iterator[str]:
        decoded = self.decoded
        if self.row.variant == "sdwa":
            for name, values in (
                ("dst_sel", _SDWA_SELECTS),
                ("dst_unused", _SDWA_UNUSED),
                ("src0_sel", _SDWA_SELECTS),
                ("src1_sel", _SDWA_SELECTS),
            ):
                if self.row.modifier(name) is not None:
                    yield f"{name}:{values[decoded.modifier(name)]}"
        elif self.row.variant == "dpp16":
            yield _dpp_control(decoded.modifier("dpp_ctrl"), self.row.family)
            yield f"row_mask:0x{decoded.modifier('row_mask'):x}"
            yield f"bank_mask:0x{decoded.modifier('bank_mask'):x}"
            if decoded.modifier("bound_ctrl"):
                yield "bound_ctrl:1"
        elif self.row.variant == "dpp8":
            lanes = decoded.modifier("dpp8")
            yield "dpp8:[" + ",".join(str(lanes >> (3 * lane) & 7) for lane in range(8)) + "]"
        if decoded.modifiers.get("fi"):
            yield "fi:1"

    def immediate(self, code: int) -> str:
        """An unsigned or signed 16-bit immediate; several instructions have a notation of their own."""
        mnemonic, family = self.row.mnemonic, self.row.family
        if mnemonic == "s_waitcnt":
            return _counters(code, WAITCNT_FIELDS["gfx942" if family == "gfx942" else "gfx11"], "")
        if mnemonic in ("s_waitcnt_depctr", "s_wait_alu"):
            return _counters(code, DEPCTR_FIELDS, "depctr_")
        if mnemonic == "s_delay_alu":
            return _delay(code)
        if mnemonic in ("s_sendmsg", "s_sendmsghalt"):
            return self._message("sendmsg", code)
        if mnemonic == "s_set_gpr_idx_mode":
            return _gpr_index(code)
        value = code & 0xFFFF
        return f"0x{value:x}" if value > 64 or "0x" in self.row.example else str(value)

    def scalar_offset(self, code: int) -> str:
        """The offset of a scalar load. LLVM shows a missing one on gfx11 by the null register it is
        encoded with.
        """
        return "null" if not code and self.row.family == "gfx11" else _signed_hex(code)

    def small_immediate(self, code: int) -> str:
        """An immediate in a register field."""
        if self.row.mnemonic.startswith("s_sendmsg_rtn"):
            return self._message("sendmsg_rtn", code)
        if self.row.mnemonic == "s_set_gpr_idx_on":
            return _gpr_index(code)
        return str(code)

    def _message(self, enum: str, code: int) -> str:
        name = _names(self.row.family, enum).get(code) or _names(self.row.family, "sendmsg").get(code)
        return f"sendmsg({name})" if name else str(code)

    def hardware_register(self, code: int) -> str:
        """A hardware register, with its bit range unless it is the whole of it."""
        number, offset, size = code & 0x3F, code >> 6 & 0x1F, (code >> 11 & 0x1F) + 1
        name = _names(self.row.family, "hwreg").get(number, str(number))
        return f"hwreg({name})" if (offset, size) == (0, 32) else f"hwreg({name}, {offset}, {size})"


_IMMEDIATE_TEXT: Mapping[str, Callable[[_Printer, int], str]] = {
    "imm16": _Printer.immediate,
    "simm16": _Printer.immediate,
    "imm": _Printer.small_immediate,
    "hwreg16": _Printer.hardware_register,
    "branch16": lambda printer, code: str(code & 0xFFFF),
    "offset": _Printer.scalar_offset,
}


def _source_position(operand: OperandField) -> int:
    name = operand.name.removeprefix("v")
    return int(name[3]) if name in ("src0", "src1", "src2") and operand.direction == "in" else -1


def _source_count(row: Row) -> int:
    return sum(1 for operand in row.operands if _source_position(operand) >= 0)


def _bit_list(name: str, value: int, positions: range | list[int]) -> str:
    return f"{name}:[" + ",".join(str(value >> position & 1) for position in positions) + "]"


def _signed_hex(value: int) -> str:
    return f"-0x{-value:x}" if value < 0 else f"0x{value:x}"


def _counters(immediate: int, fields: tuple[CounterField, ...], prefix: str) -> str:
    """Counters that wait, by name; the bare number when it has bits outside the counters or does not wait."""
    counts = [(field, field.get(immediate)) for field in fields]
    waits = [f"{prefix}{field.name}({count})" for field, count in counts if count != field.maximum]
    complete = sum(field.put(count) for field, count in counts) == immediate
    return " ".join(waits) if waits and complete else f"0x{immediate:x}"


_DELAYS = (
    "NO_DEP", "VALU_DEP_1", "VALU_DEP_2", "VALU_DEP_3", "VALU_DEP_4", "TRANS32_DEP_1", "TRANS32_DEP_2",
    "TRANS32_DEP_3", "FMA_ACCUM_CYCLE_1", "SALU_CYCLE_1", "SALU_CYCLE_2", "SALU_CYCLE_3",
)  # fmt: skip
_SKIPS = ("SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4")


def _delay(immediate: int) -> str:
    first, skip, second = immediate & 0xF, immediate >> 4 & 7, immediate >> 7 & 0xF
    if immediate >> 11 or max(first, second) >= len(_DELAYS) or skip >= len(_SKIPS) or not first:
        return f"0x{immediate:x}"
    parts = [f"instid0({_DELAYS[first]})"]
    if second:
        if skip:
            parts.append(f"instskip({_SKIPS[skip]})")
        parts.append(f"instid1({_DELAYS[second]})")
    elif skip:
        return f"0x{immediate:x}"
    return " | ".join(parts)


def _gpr_index(code: int) -> str:
    names = ("SRC0", "SRC1", "SRC2", "DST")
    if code > 15:
        return f"0x{code:x}"
    return "gpr_idx(" + ",".join(name for bit, name in enumerate(names) if code >> bit & 1) + ")"


_DPP_ROWS = {0x100: "row_shl", 0x110: "row_shr", 0x120: "row_ror", 0x150: "row_share", 0x160: "row_xmask"}
_DPP_SPECIAL = {
    0x130: "wave_shl:1", 0x134: "wave_rol:1", 0x138: "wave_shr:1", 0x13C: "wave_ror:1", 0x140: "row_mirror",
    0x141: "row_half_mirror", 0x142: "row_bcast:15", 0x143: "row_bcast:31",
}  # fmt: skip


def _dpp_control(control: int, family: str) -> str:
    if control < 0x100:
        return "quad_perm:[" + ",".join(str(control >> (2 * lane) & 3) for lane in range(4)) + "]"
    if control in _DPP_SPECIAL:
        return _DPP_SPECIAL[control]
    name = _DPP_ROWS.get(control & 0x1F0, "")
    if family == "gfx942" and name == "row_share":
        name = "row_newbcast"  # the same code; gfx942 broadcasts one lane to its row
    return f"{name}:{control & 15}" if name else f"dpp_ctrl:0x{control:x}"
