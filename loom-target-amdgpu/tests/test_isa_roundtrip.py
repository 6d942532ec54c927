"""Encoder, decoder and disassembler against each other and against llvm-mc-19, with varied operands."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterator

import pytest

from loom_target_amdgpu.isa.decode import Decoded, decode
from loom_target_amdgpu.isa.disasm import disassemble
from loom_target_amdgpu.isa.encode import encode, encode_dual
from loom_target_amdgpu.isa.tables import FamilyTable, OperandField, Row, family_table

LLVM_MC = shutil.which("llvm-mc-19")
needs_llvm_mc = pytest.mark.skipif(LLVM_MC is None, reason="llvm-mc-19 is not installed")
FAMILIES = ("gfx942", "gfx11", "gfx12")


def _wave(row: Row) -> int:
    return row.wave or (64 if row.family == "gfx942" else 32)


def _example_bytes(row: Row) -> bytes:
    return b"".join(word.to_bytes(4, "little") for word in row.example_words)


def _named(decoded: Decoded) -> dict[str, int]:
    return {
        operand.name: code for operand, code in zip(decoded.row.operands, decoded.codes, strict=True) if operand.ranges
    }


def _reencode(decoded: Decoded) -> bytes:
    if decoded.second is not None:
        return encode_dual(decoded.row, _named(decoded), decoded.second.row, _named(decoded.second), decoded.literal)
    return encode(decoded.row, _named(decoded), decoded.modifiers, decoded.literal)


def _is_null_offset(row: Row) -> bool:
    """Examples that spell a missing scalar offset as a register; they are the immediate form with offset
    0.
    """
    return row.format == "SMEM" and row.form == "sgpr" and row.example.endswith("null")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_example_decodes_to_its_row_and_encodes_back(family: str) -> None:
    table = family_table(family)
    for row in table.rows:
        data = _example_bytes(row)
        decoded = decode(table, data, wave_size=_wave(row))
        assert decoded.size == len(data), row.example
        assert _reencode(decoded) == data, row.example
        found = decoded.second.row if decoded.second is not None and row.format == "VOPD_Y" else decoded.row
        if _is_null_offset(row):
            assert (found.mnemonic, found.form) == (row.mnemonic, "imm")
        else:
            assert found is row, row.example


@pytest.mark.parametrize("family", FAMILIES)
def test_text_of_every_example(family: str) -> None:
    table = family_table(family)
    for row in table.rows:
        if "format:[" in row.example:
            continue  # LLVM names the buffer format; here it is a number, checked by assembling it below
        decoded = decode(table, _example_bytes(row), wave_size=_wave(row))
        assert disassemble(decoded, wave_size=_wave(row)).split() == row.example.split()


# In the tables because older members of the family have them; the assembler refuses them for gfx942.
_NOT_EVERYWHERE = {"gfx942": ("gds",)}


class _Maker:
    """Random but legal operands and modifiers for a row."""

    def __init__(self, row: Row, seed: int) -> None:
        self.row = row
        # Seeded by content: the same instructions in every run and every process.
        self.random = random.Random(zlib.crc32(f"{row.example}/{row.variant}/{seed}".encode()))
        self.accumulate = self.random.random() < 0.3
        self.literal: int | None = None
        # One operand may be scalar: one is what every family allows.
        names = [op.name for op in row.operands if op.kind in ("vsrc", "ssrc")]
        reads_mask = "vcc" in row.implicit_reads or any(
            op.width_bits == 1 and op.direction == "in" for op in row.operands
        )
        allowed = names and not row.variant and "lit" not in self._kinds() and not reads_mask
        self.scalar = self.random.choice(names) if allowed else ""

    def _kinds(self) -> str:
        return " ".join(operand.kind for operand in self.row.operands)

    def make(self) -> tuple[dict[str, int], dict[str, int], int | None]:
        row = self.row
        codes = {operand.name: self.code(operand) for operand in row.operands if operand.ranges}
        if row.mnemonic.startswith("s_waitcnt_") and "sdst" in codes:
            codes["sdst"] = 124  # must be the null register
        if row.format == "MFMA" and row.mnemonic.startswith("v_mfma") and codes["src2"] >= 256:
            codes["src2"] = codes["vdst"]  # may be the result or apart from it, not overlap it
        return codes, self.modifiers(), self.literal

    def vector(self, operand: OperandField, base: int) -> int:
        dwords = max(operand.width_bits // 32, 1)
        count = 128 if operand.half_bit is not None or operand.width_bits == 16 else 256
        number = self.random.randrange(count - dwords + 1)
        even = self.row.family == "gfx942" and (dwords > 1 or "gws" in self.row.mnemonic)
        return base + (number & ~1 if even else number)

    def scalar_register(self, operand: OperandField) -> int:
        dwords = _wave(self.row) // 32 if operand.width_bits == 1 else max(operand.width_bits // 32, 1)
        unit = 1 if dwords == 1 else 2 if dwords == 2 else 4
        choices = list(range(0, 96 - dwords, unit))
        if operand.width_bits in (1, 32, 64) and dwords <= 2:
            choices += [106, 106, 108 if dwords == 2 else 109]
        return self.random.choice(choices)

    def constant(self, operand: OperandField) -> int:
        if operand.name in self.row.literal_sources and self.random.random() < 0.4:
            if operand.const_type.endswith("64") and self.row.modifier("neg") is not None:
                return 128
            if self.literal is None:
                # Valid for operands of any type: no inline value, no bits above 16 for halves.
                high = 0 if operand.const_type in ("i16", "f16", "bf16") else self.random.randrange(1 << 15) << 16
                self.literal = high | self.random.randrange(0x80, 0x3000)
            return 255
        codes: list[int] = [*range(128, 209)]
        if operand.const_type and not operand.const_type.endswith("16"):
            codes += [*range(240, 249)]
        return self.random.choice(codes)

    def code(self, operand: OperandField) -> int:
        kind = operand.kind
        if kind in ("vsrc", "ssrc"):
            if kind == "vsrc" and operand.name != self.scalar:
                return self.vector(operand, 256)
            constant = operand.const_type and operand.companion is None and self.random.random() < 0.5
            return self.constant(operand) if constant else self.scalar_register(operand)
        if kind in ("sgpr", "sgpr_or_vcc"):
            return self.scalar_register(operand)
        if kind == "inline_int":
            return 128 + self.random.randrange(17)
        if kind in ("lit32", "lit16"):
            self.literal = self.random.randrange(1 << (16 if kind == "lit16" else 32))
            return self.literal
        if kind in ("vgpr_or_const", "agpr_or_const") and self.random.random() < 0.3:
            return 128 + self.random.randrange(17)
        if "gpr" in kind:
            accumulates = kind.startswith("agpr") or (kind == "vgpr_or_agpr" and self._accumulates(operand))
            return self.vector(operand, 512 if accumulates else 256)
        return self.immediate(operand)

    def _accumulates(self, operand: OperandField) -> bool:
        shared = sum(1 for other in self.row.operands if other.companion == operand.companion)
        return self.accumulate if shared > 1 else self.random.random() < 0.5

    def immediate(self, operand: OperandField) -> int:
        mnemonic = self.row.mnemonic
        if mnemonic.startswith(("s_sendmsg", "s_set_gpr_idx")):
            return 3 if "rtn" not in mnemonic else 131
        if mnemonic == "s_delay_alu":
            return self.random.choice((0x1, 0x91, 0x511, 0x4B9, 0x1A2))
        if operand.kind == "offset":
            low = 0 if "buffer" in mnemonic else -(1 << 19)
            return self.random.randrange(low, 1 << 19)
        if operand.kind in ("simm16", "branch16"):
            return self.random.randrange(-(1 << 15), 1 << 15)
        if operand.kind == "hwreg16":
            return self.random.choice((1, 5, 6)) | self.random.randrange(32) << 6 | self.random.randrange(32) << 11
        if operand.kind == "imm16":
            return self.random.randrange(1 << (16 if self.row.format == "SOPK" or "wait" in mnemonic else 2))
        return self.random.randrange(16)

    def modifiers(self) -> dict[str, int]:
        chosen: dict[str, int] = {}
        for modifier in self.row.modifiers:
            if self.random.random() < 0.5:
                continue
            value = self.modifier_value(modifier.name, modifier.width)
            covered = sum(((1 << (high - low + 1)) - 1) << position for low, high, position in modifier.bits)
            if value is not None:
                chosen[modifier.name] = value if value < 0 else value & covered
        if self.row.variant == "dpp16" and any(operand.width_bits == 64 for operand in self.row.operands):
            chosen["dpp_ctrl"] = 0x150 + self.random.randrange(16)  # 64-bit operations have this control only
        return chosen

    def modifier_value(self, name: str, width: int) -> int | None:
        pick = self.random.randrange
        if name == "offset":
            return self.offset(width)
        if name == "op_sel" and any(op.half_bit is not None for op in self.row.operands):
            return None  # needs the 16-bit register spelling of newer assemblers
        if name in _NOT_EVERYWHERE.get(self.row.family, ()):
            return None
        if self.row.mnemonic.startswith("v_dot") and "op_sel" in name:
            return None  # the assembler restricts these to the default on recent processors
        if name == "sext" and ("fp8" in self.row.mnemonic or "bf8" in self.row.mnemonic):
            return None  # a bit of the encoding without a spelling for 8-bit floats
        if name == "dpp_ctrl":
            return self.random.choice((pick(256), 0x101 + pick(15), 0x111 + pick(15), 0x140))
        limits = {
            "dst_sel": 7,
            "src0_sel": 7,
            "src1_sel": 7,
            "dst_unused": 3,
            "format": 40,
            "attr": 33,
            "scope": 2,
        }
        if name == "th":
            if {"load", "store"} <= self.row.flags:
                return self.random.choice((1, 3) if "rtn" in self.row.form else (0, 2))
            return pick(min(1 << width, 7))
        return pick(limits.get(name, 1 << width))

    def offset(self, width: int) -> int:
        row = self.row
        if row.format in ("GLOBAL", "SCRATCH"):
            return self.random.randrange(-4096, 4096)
        if row.format in ("VGLOBAL", "VSCRATCH", "VFLAT"):
            return self.random.randrange(-(1 << 22), 1 << 22)
        limit = {"FLAT": 4096, "SMEM": 1 << 19, "VBUFFER": 1 << 22}.get(row.format, 1 << width)
        return self.random.randrange(limit)


def _instructions(table: FamilyTable, seed: int) -> Iterator[tuple[Row, bytes]]:
    """What llvm-mc-19 knows: it has no gfx950."""
    for row in table.rows:
        if not row.format.startswith("VOPD") and row.available_on != ("gfx950",):
            yield row, encode(row, *_Maker(row, seed).make())


@pytest.mark.parametrize("family", FAMILIES)
def test_varied_operands_decode_to_what_was_encoded(family: str) -> None:
    table = family_table(family)
    for row in table.rows:
        if row.format.startswith("VOPD"):
            continue
        codes, modifiers, literal = _Maker(row, 1).make()
        data = encode(row, codes, modifiers, literal)
        decoded = decode(table, data, wave_size=_wave(row))
        assert decoded.size == len(data), row.example
        assert decoded.row.mnemonic == row.mnemonic
        assert decoded.literal == literal
        if decoded.row is row:
            assert _named(decoded) == codes, row.example
            for name, value in modifiers.items():
                assert decoded.modifier(name) == value, (row.example, name)
        assert _reencode(decoded) == data, row.example


def _assemble(lines: list[str], cpu: str, wave: int, extra: str = "") -> list[bytes]:
    assert LLVM_MC is not None
    command = [
        LLVM_MC,
        "-arch=amdgcn",
        f"-mcpu={cpu}",
        f"-mattr=+wavefrontsize{wave}{extra}",
        "-show-encoding",
    ]
    run = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[:3000]
    found = re.findall(r"encoding: \[([^\]]*)\]", run.stdout)
    return [bytes(int(byte, 16) for byte in item.split(",")) for item in found]


def _batch(row: Row) -> tuple[str, int, str]:
    cpu = {"gfx942": "gfx942", "gfx12": "gfx1200"}.get(row.family, "gfx1100")
    if cpu not in row.available_on:
        cpu = "gfx1150"
    return cpu, _wave(row), ",+real-true16" if re.search(r"\bv\d+\.[lh]\b", row.example) else ""


@needs_llvm_mc
@pytest.mark.parametrize("family", FAMILIES)
def test_text_of_varied_operands_assembles_to_the_same_bytes(family: str) -> None:
    table = family_table(family)
    batches: dict[tuple[str, int, str], list[tuple[str, bytes]]] = {}
    for row, data in _instructions(table, 2):
        text = disassemble(decode(table, data, wave_size=_wave(row)), wave_size=_wave(row))
        batches.setdefault(_batch(row), []).append((text, data))
    for (cpu, wave, extra), items in batches.items():
        encoded = _assemble([text for text, _ in items], cpu, wave, extra)
        assert len(encoded) == len(items)
        for (text, data), theirs in zip(items, encoded, strict=True):
            assert data.hex() == theirs.hex(), text


def _dual_pairs(table: FamilyTable) -> Iterator[tuple[Row, dict[str, int], Row, dict[str, int], int | None]]:
    """Every X with every Y, in registers that keep the rules; some with a literal or a scalar."""
    chooser = random.Random(7)
    xs = [row for row in table.rows if row.format == "VOPD_X"]
    ys = [row for row in table.rows if row.format == "VOPD_Y"]
    for x in xs:
        for y in ys:
            odd = chooser.randrange(2)
            # Source 2 is an accumulator or the addend of fmamk: the two must be an even and an odd register.
            x_codes = {"vdstx": 256 + 8 + odd, "srcx0": 256 + 1, "vsrcx1": 256 + 10 + odd}
            y_codes = {"vdsty": 256 + 21 - odd, "srcy0": 256 + 6, "vsrcy1": 256 + 17 - odd}
            literal = None
            if any(operand.kind == "lit32" for row in (x, y) for operand in row.operands):
                literal = chooser.randrange(1 << 32)
            elif chooser.random() < 0.5:
                if "srcx0" in x.literal_sources and chooser.random() < 0.5:
                    literal = chooser.randrange(100, 1 << 32)
                    x_codes["srcx0"] = 255
                else:
                    x_codes["srcx0"] = chooser.choice((4, 106, 130, 242))
            names = ({operand.name for operand in row.operands} for row in (x, y))
            x_names, y_names = names
            yield (
                x,
                {name: code for name, code in x_codes.items() if name in x_names},
                y,
                {name: code for name, code in y_codes.items() if name in y_names},
                literal,
            )


@pytest.mark.parametrize("family", ["gfx11", "gfx12"])
def test_dual_issue_pairs_decode_to_what_was_encoded(family: str) -> None:
    table = family_table(family)
    count = 0
    for x, x_codes, y, y_codes, literal in _dual_pairs(table):
        data = encode_dual(x, x_codes, y, y_codes, literal)
        decoded = decode(table, data)
        assert decoded.row is x
        assert decoded.second is not None
        assert decoded.second.row is y
        assert decoded.literal == decoded.second.literal == literal
        assert decoded.size == len(data) == (8 if literal is None else 12)
        own = {name: code for name, code in _named(decoded).items() if name != "literal"}
        assert own == x_codes
        assert {name: code for name, code in _named(decoded.second).items() if name != "literal"} == y_codes
        count += 1
    assert count == {"gfx11": 208, "gfx12": 180}[family]


@needs_llvm_mc
@pytest.mark.parametrize(("family", "cpu"), [("gfx11", "gfx1100"), ("gfx12", "gfx1200")])
def test_text_of_dual_issue_pairs_assembles_to_the_same_bytes(family: str, cpu: str) -> None:
    table = family_table(family)
    data = [encode_dual(*pair) for pair in _dual_pairs(table)]
    texts = [disassemble(decode(table, item)) for item in data]
    for text, ours, theirs in zip(texts, data, _assemble(texts, cpu, 32), strict=True):
        assert ours.hex() == theirs.hex(), text
