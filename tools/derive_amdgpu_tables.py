"""Derive the AMDGPU target's compact instruction tables from a folder of measured encodings.

The source folder holds one row per instruction and encoding form, measured with an assembler. This tool keeps
the columns the compiler and the simulator read, turns names that only describe the measurement into fields (a
wait count's example bits, an attribute's channel letters), gives every modifier a default and every bit of a
per-operand modifier its operand, and writes plain CSV files whose rows can be split without a CSV parser.

    derive_amdgpu_tables.py --source DIR --output DIR [--verify]

``--verify`` assembles the example of every row with llvm-mc-19, compares the bytes with the row and
disassembles them again; a row that does not survive both directions is an error and nothing is written. Rows of gfx950
that llvm-mc-19 does not know are compared with the bytes that a later assembler gave.
"""

from __future__ import annotations

import argparse
import csv
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

FAMILIES = ("gfx942", "gfx11", "gfx12")

ROW_COLUMNS = (
    "mnemonic", "format", "variant", "form", "opcode", "wave", "targets", "flags", "reads", "writes",
    "literals", "operands", "modifiers", "fixed", "words", "example",
)  # fmt: skip

# Position of each instruction bit in the value of a modifier that has one bit per operand. Source i is bit i;
# the destination's half select is bit 3 whatever the number of sources, as in the hardware field.
_VOP3_POSITIONS = {
    "neg": {61: 0, 62: 1, 63: 2}, "neg_lo": {61: 0, 62: 1, 63: 2}, "sext": {61: 0, 62: 1, 63: 2},
    "abs": {8: 0, 9: 1, 10: 2}, "neg_hi": {8: 0, 9: 1, 10: 2},
    "op_sel": {11: 0, 12: 1, 13: 2, 14: 3}, "op_sel_hi": {59: 0, 60: 1, 14: 2},
}  # fmt: skip
_DPP_POSITIONS = {"neg": {52: 0, 54: 1}, "abs": {53: 0, 55: 1}}
_SDWA_POSITIONS = {"neg": {52: 0, 60: 1}, "abs": {53: 0, 61: 1}, "sext": {51: 0, 59: 1}}
# The two bits of byte_sel swap roles where the byte selects a source.
_BYTE_SEL_SOURCE = {12: 0, 11: 1}

# Values a modifier has when it is not written in assembly text.
_DEFAULTS = {
    "dpp_ctrl": 0xE4, "row_mask": 0xF, "bank_mask": 0xF, "dpp8": 0xFAC688, "dst_sel": 6, "dst_unused": 0,
    "src0_sel": 6, "src1_sel": 6, "format": 1, "offset": 0, "offset0": 0, "offset1": 0,
    "wait_exp": 0, "wait_vdst": 0, "wait_va_vdst": 0, "wait_vm_vsrc": 0,
}  # fmt: skip

_SIGNED_OFFSET_FORMATS = {"SMEM", "GLOBAL", "SCRATCH", "VFLAT", "VGLOBAL", "VSCRATCH", "VBUFFER"}
# Targets added by later assemblers that the measurement reports in a column of its own.
_LATER_TARGETS = {"gfx942": ("gfx950",), "gfx11": ("gfx1153",), "gfx12": ()}


class DeriveError(Exception):
    """A source row that the derivation does not understand, or a row the assembler contradicts."""


def _bits(text: str) -> Iterator[int]:
    """Bit numbers of ``lo-hi+lo-hi``, in the written order."""
    for part in text.split("+"):
        low, _, high = part.partition("-")
        yield from range(int(low), int(high or low) + 1)


def _ranges(positions: dict[int, int]) -> str:
    """``lo-hi:position`` ranges joined by ``+`` for a map from instruction bit to value bit."""
    runs: list[list[int]] = []
    for position, bit in sorted((p, b) for b, p in positions.items()):
        if runs and bit == runs[-1][1] + 1 and position == runs[-1][2] + bit - runs[-1][0]:
            runs[-1][1] = bit
        else:
            runs.append([bit, bit, position])
    return "+".join(f"{low}-{high}:{position}" for low, high, position in runs)


def _words(text: str) -> int:
    return sum(int(word, 16) << (32 * i) for i, word in enumerate(text.split()))


def _hex(value: int, count: int) -> str:
    return " ".join(f"{value >> (32 * i) & 0xFFFFFFFF:08x}" for i in range(count))


def _positions(name: str, bits: list[int], variant: str, fmt: str) -> dict[int, int]:
    if name == "byte_sel" and bits == [11, 12]:
        return dict(_BYTE_SEL_SOURCE)
    table = _VOP3_POSITIONS
    if fmt in ("VOP1", "VOP2", "VOPC"):
        table = _SDWA_POSITIONS if variant == "sdwa" else _DPP_POSITIONS
    if name in table:
        return {bit: table[name][bit] for bit in bits}
    return {bit: index for index, bit in enumerate(bits)}


class Row:
    """One row while it is derived: the fixed bits as an integer and modifiers by name."""

    def __init__(self, source: dict[str, str], family: str, variant: str) -> None:
        self.source = source
        self.family = family
        self.variant = variant
        self.format = source["format"]
        self.fixed = _words(source["fixed_words"])
        self.count = len(source["fixed_words"].split())
        self.operands = [self._operand(text) for text in source["operands"].split(" | ") if text]
        self._share_companion()
        self.modifiers: dict[str, tuple[dict[int, int], int]] = {}
        self._read_modifiers()

    def _share_companion(self) -> None:
        """One bit says for all data operands of a memory instruction whether they are accumulation
        registers.
        """
        partners = [operand[1].partition("&")[2] for operand in self.operands if "&acc" in operand[1]]
        for operand in self.operands:
            if operand[2] == "vgpr_or_agpr" and "&" not in operand[1]:
                operand[1] += "&" + partners[0]

    def _operand(self, text: str) -> list[str]:
        name, field, kind, width, direction = text.split(":")
        if name == "sdst" and kind == "ssrc" and direction == "out":
            kind = "sgpr"  # s_get_barrier_state writes an SGPR; the measurement named the field's source map
        if kind == "ssrc" and self.format == "SOP1" and self.source["form"] == "imm":
            kind, width = "inline_int", "32"  # barrier numbers; the measured width is that of the number
        field = "" if field == "fixed" else field.partition("@")[2]
        const = ""
        for item in self.source["src_const_types"].split(";"):
            key, _, value = item.partition("=")
            if key == name:
                const = value.removesuffix("(inline only)")
        if const or (self.format.startswith("VOPD") and kind == "vsrc"):
            const = self._constant_type(const)
        return [name, field, kind, width, direction, const, ""]

    def _constant_type(self, measured: str) -> str:
        """How an inline constant is read, where the assembler's own operand type says something else or
        nothing.
        """
        accumulates = re.match(r"v_s?(?:mfma|wmma|mfmac|wmmac)_(f16|bf16|f32|f64|i32)_", self.source["mnemonic"])
        if accumulates:
            return accumulates[1]
        if self.format.startswith("VOPD"):
            return "f32" if "mode" in self.source["implicit_reads"] else "i32"
        return measured

    def _read_modifiers(self) -> None:
        fmt = self.format
        for item in filter(None, self.source["modifiers"].split(";")):
            name, _, bit_text = item.rpartition("@")
            if "(" in name or name == "|":
                continue  # parts of a wait or delay immediate, covered by the simm16 operand
            if re.match(r"attr\d", name):
                self.modifiers["attr"] = (dict(zip(range(10, 16), range(6), strict=True)), 0)
                self.modifiers["attr_chan"] = ({8: 0, 9: 1}, 0)
                continue
            positions = _positions(name, list(_bits(bit_text)), self.variant, fmt)
            default = sum(((self.fixed >> bit) & 1) << position for bit, position in positions.items())
            default = _DEFAULTS.get(name, default)
            self._set_default(positions, default)
            self.modifiers[name] = (positions, default)

    def _set_default(self, positions: dict[int, int], default: int) -> None:
        for bit, position in positions.items():
            self.fixed = self.fixed & ~(1 << bit) | ((default >> position) & 1) << bit

    def _sixteen_bit_operands(self) -> set[str]:
        types = dict(item.split("=") for item in self.source["operand_types"].split(";") if item)
        aliases = {"vsrc0": "src0", "src1": "vsrc1"}
        names = set()
        for operand in self.operands:
            value = types.get(operand[0]) or types.get(aliases.get(operand[0], ""), "")
            if value.endswith("/16") and operand[2] in ("vgpr", "vsrc"):
                names.add(operand[0])
        return names

    def add_half_selects(self, true16: dict[tuple[str, str, str], dict[str, str]]) -> None:
        """Record which bit selects the high half of a 16-bit register (gfx11 and later)."""
        measured = true16.get((self.source["mnemonic"], self.format, self.variant))
        if measured is not None:
            encoded = _words(measured["example_hex"])
            for item in measured["high_half_bit_per_operand"].split(";"):
                match = re.fullmatch(r"\s*v(\d+):bit (\d+)\s*", item)
                if match:
                    self._half_bit(int(match[1]), int(match[2]), encoded)
        elif self.format in ("VOP1", "VOP2", "VOPC"):
            for operand in self.operands:
                if operand[0] in self._sixteen_bit_operands():
                    operand[6] = str(int(operand[1].partition("-")[0]) + 7)

    def _half_bit(self, register: int, bit: int, encoded: int) -> None:
        for operand in self.operands:
            bits = list(_bits(operand[1])) if operand[1] and "&" not in operand[1] else []
            if operand[2] not in ("vgpr", "vsrc") or not bits:
                continue
            code = encoded >> bits[0] & ((1 << len(bits)) - 1)
            if code & 0xFF != register:
                continue
            if bit in bits:
                operand[6] = str(bit)
            elif "op_sel" not in self.source["modifiers"]:
                # The assembler of the main measurement had no spelling for this half select.
                operand[6] = str(bit)
                positions, _ = self.modifiers.get("op_sel", ({}, 0))
                positions = {**positions, bit: _VOP3_POSITIONS["op_sel"][bit]}
                self.modifiers["op_sel"] = (positions, 0)
            return

    def _literal_sources(self) -> str:
        if self.format.startswith("VOPD"):
            # The measurement tried no literals in dual-issue words; the assembler takes one as first source.
            return f"src{self.format[-1].lower()}0"
        return self.source["literal_srcs"].replace(";", " ")

    def fields(self, targets: str) -> list[str]:
        signed = self.format in _SIGNED_OFFSET_FORMATS
        modifiers = []
        for name, (positions, default) in self.modifiers.items():
            text = f"{name}@{_ranges(positions)}"
            text += "~" if name == "offset" and signed else ""
            modifiers.append(text + (f"={default}" if default else ""))
        source = self.source
        example = _hex(_words(source["example_hex"]), len(source["example_hex"].split()))
        return [
            source["mnemonic"], self.format, self.variant, source["form"], source["opcode"],
            "" if source["wave"] == "any" else source["wave"], targets, source["flags"].replace(";", " "),
            source["implicit_reads"].replace(";", " "), source["implicit_writes"].replace(";", " "),
            self._literal_sources(),
            "|".join(":".join(operand).rstrip(":") for operand in self.operands),
            ";".join(modifiers), _hex(self.fixed, self.count), example, source["example"],
        ]  # fmt: skip


def read_rows(source: Path, family: str) -> list[Row]:
    """All rows of a family: the main table, then its DPP and SDWA forms."""
    true16: dict[tuple[str, str, str], dict[str, str]] = {}
    with open(source / "true16-llvm24.csv", newline="") as stream:
        for record in csv.DictReader(stream):
            if record["family"] == family:
                true16[record["mnemonic"], record["format"], record["sub"]] = record
    rows: list[Row] = []
    for suffix in ("", "-dpp-sdwa"):
        with open(source / f"amdgpu-{family}{suffix}.csv", newline="") as stream:
            for record in csv.DictReader(stream):
                row = Row(record, family, record["dpp_sdwa"] if suffix else "")
                row.add_half_selects(true16)
                rows.append(row)
    return rows


# Matrix instructions that a later processor adds -> the one with half the depth, which is encoded alike.
_DEEPER = {
    "v_mfma_f32_16x16x32_f16": "v_mfma_f32_16x16x16_f16",
    "v_mfma_f32_16x16x32_bf16": "v_mfma_f32_16x16x16_bf16",
    "v_mfma_i32_16x16x64_i8": "v_mfma_i32_16x16x32_i8",
    "v_mfma_f32_32x32x16_f16": "v_mfma_f32_32x32x8_f16",
    "v_mfma_f32_32x32x16_bf16": "v_mfma_f32_32x32x8_bf16",
    "v_mfma_i32_32x32x32_i8": "v_mfma_i32_32x32x16_i8",
}


def read_deeper_rows(source: Path, rows: Iterable[Row]) -> list[Row]:
    """Rows of gfx950's matrix instructions of twice the depth: opcode and factors differ from those of ``rows``.

    Raises:
        DeriveError: the measured bytes contradict that.
    """
    measured: dict[str, dict[str, str]] = {}
    with open(source / "gfx950-extra.csv", newline="") as stream:
        for record in csv.DictReader(stream):
            measured.setdefault(record["mnemonic"], record)
    found = []
    for deeper, shallow in _DEEPER.items():
        for row in rows:
            if row.source["mnemonic"] == shallow:
                found.append(Row(_deepened(row.source, measured[deeper]), row.family, row.variant))
    return found


def _deepened(shallow: dict[str, str], measured: dict[str, str]) -> dict[str, str]:
    """The source row of an instruction like a known one with twice as many registers for each factor."""
    changed = int(shallow["opcode"]) ^ int(measured["opcode"])
    fixed, example = (_words(shallow[name]) ^ changed << 16 for name in ("fixed_words", "example_hex"))
    operands = re.sub(r"(src[01]:[^|]*vgpr_or_agpr:)64", r"\g<1>128", shallow["operands"])
    text = shallow["example"].replace(shallow["mnemonic"], measured["mnemonic"])
    text = text.replace("v[2:3]", "v[2:5]").replace("v[8:9]", "v[8:11]")
    if shallow["form"] == "vcd":
        registers = [int(first) for first in re.findall(r"v\[(\d+):", measured["example"])]
        fields = zip((0, 32, 41, 50), registers, (0, 256, 256, 256), strict=True)
        encoded = fixed | sum((first + base) << low for low, first, base in fields)
        if encoded != _words(measured["example_hex"]):
            raise DeriveError(f"{measured['example']!r} is measured as {measured['example_hex']}")
    return {
        **shallow,
        "mnemonic": measured["mnemonic"],
        "opcode": measured["opcode"],
        "operands": operands,
        "fixed_words": _hex(fixed, 2),
        "example": text,
        "example_hex": _hex(example, 2),
        "available_on": measured["available_on"],
        "llvm24_same_bytes": "",
    }


def targets_of(row: Row) -> str:
    """Processors that have the row: those measured, plus later ones reported with the same bytes."""
    names = row.source["available_on"].split()
    later = row.source["llvm24_same_bytes"].replace("*", "").split()
    names += [name for name in _LATER_TARGETS[row.family] if name in later]
    # A generic processor has, by definition, what its members have in common.
    if {"gfx942", "gfx950"} <= set(names):
        names.append("gfx9-4-generic")
    if "gfx11-generic" in names and "gfx1153" not in names:
        names.remove("gfx11-generic")
    return " ".join(names)


def _assemble(lines: list[str], cpu: str, wave: str, extra: str = "") -> list[str]:
    """Bytes of each line as hex words; one assembler run for the batch."""
    attributes = {"32": "+wavefrontsize32", "64": "+wavefrontsize64"}[wave] + extra
    tool = ["llvm-mc-19", "-arch=amdgcn", f"-mcpu={cpu}", f"-mattr={attributes}"]
    run = subprocess.run([*tool, "-show-encoding"], input="\n".join(lines), capture_output=True, text=True)
    if run.returncode:
        raise DeriveError(f"llvm-mc-19 rejects an example for {cpu}:\n{run.stderr[:2000]}")
    encoded = re.findall(r"encoding: \[([^\]]*)\]", run.stdout)
    data = [bytes(int(byte, 16) for byte in item.split(",")) for item in encoded]
    words = [" ".join(f"{int.from_bytes(d[i : i + 4], 'little'):08x}" for i in range(0, len(d), 4)) for d in data]
    text = "\n".join(",".join(f"0x{byte:02x}" for byte in item) for item in data)
    back = subprocess.run([*tool, "-disassemble"], input=text, capture_output=True, text=True)
    printed = [line.strip() for line in back.stdout.splitlines() if line.strip() and ".text" not in line]
    if back.returncode or len(printed) != len(lines) or len(words) != len(lines):
        raise DeriveError(f"llvm-mc-19 disagrees with itself for {cpu}: {back.stderr[:2000]}")
    for line, shown in zip(lines, printed, strict=True):
        if " ".join(line.split()) != " ".join(shown.split()):
            raise DeriveError(f"{cpu}: {line!r} disassembles to {shown!r}")
    return words


def verify(rows: Iterable[Row]) -> int:
    """Assemble and disassemble every example; returns the number of rows checked.

    Raises:
        DeriveError: the assembler's bytes or text differ from a row.
    """
    batches: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        cpu = {"gfx942": "gfx942", "gfx12": "gfx1200"}.get(row.family, "gfx1100")
        if cpu not in row.source["available_on"].split():
            cpu = "gfx1150"
        wave = row.source["wave"] if row.source["wave"] != "any" else ("64" if cpu == "gfx942" else "32")
        extra = ",+real-true16" if re.search(r"\bv\d+\.[lh]\b", row.source["example"]) else ""
        batches.setdefault((cpu, wave, extra), []).append(row)
    total = 0
    for (cpu, wave, extra), batch in batches.items():
        words = _assemble([row.source["example"] for row in batch], cpu, wave, extra)
        for row, got in zip(batch, words, strict=True):
            if got != _hex(_words(row.source["example_hex"]), len(row.source["example_hex"].split())):
                raise DeriveError(f"{cpu}: {row.source['example']!r} assembles to {got}")
        total += len(batch)
    return total


def _write(path: Path, header: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    with open(path, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def derive_formats(source: Path) -> list[list[str]]:
    """One line per family and format: length in words, prefix, opcode field, and every other field."""
    formats: dict[tuple[str, str], list[dict[str, str]]] = {}
    with open(source / "formats.csv", newline="") as stream:
        for record in csv.DictReader(stream):
            if "appended" not in record["format"]:
                formats.setdefault((record["family"], record["format"]), []).append(record)
    lines = []
    for (family, name), records in formats.items():
        prefix = opcode = ""
        fields = []
        for record in records:
            span = f"{record['low_bit']}-{record['high_bit']}"
            if record["field"] == "encoding":
                prefix = f"{span}={int(record['fixed_value'], 2)}"
            elif record["field"] == "op":
                opcode = span
            else:
                fields.append(f"{record['field']}@{span}")
        lines.append([family, name, records[0]["words"], prefix, opcode, ";".join(fields)])
    return lines


def derive_registers(source: Path) -> list[list[str]]:
    """Named scalar register codes (VCC, M0, trap registers, apertures, ...); plain SGPRs are a count per
    family.
    """
    lines = []
    with open(source / "operands.csv", newline="") as stream:
        for record in csv.DictReader(stream):
            code = int(record["code"])
            named = record["name"] and not re.fullmatch(r"(s|v)\d+|-?[\d.]+|literal", record["name"])
            if record["use"] in ("ssrc", "vsrc") and named:
                pair = record["name64"] if record["name64"] != record["name"] else ""
                lines.append([record["family"], str(code), record["name"], pair])
    return lines


def derive_enums(source: Path) -> list[list[str]]:
    """Names of hardware registers and messages; the other enumerations are arithmetic and live in code."""
    lines = []
    wanted = ("hwreg", "sendmsg", "sendmsg_rtn")
    with open(source / "enums.csv", newline="") as stream:
        for record in csv.DictReader(stream):
            if record["enum"] in wanted:
                lines.append([record["family"], record["enum"], record["value"], record["name"]])
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    parser = argparse.ArgumentParser(description="Derive compact AMDGPU instruction tables.")
    parser.add_argument("--source", type=Path, required=True, help="folder with the measured CSV files")
    parser.add_argument("--output", type=Path, required=True, help="folder to write the tables to")
    parser.add_argument("--verify", action="store_true", help="check every row with llvm-mc-19 first")
    options = parser.parse_args(arguments)
    if options.verify and shutil.which("llvm-mc-19") is None:
        print("derive_amdgpu_tables: llvm-mc-19 is not installed", file=sys.stderr)
        return 1
    sets: dict[tuple[str, str], str] = {}
    tables: dict[str, list[list[str]]] = {}
    sources: dict[str, list[Row]] = {}
    try:
        for family in FAMILIES:
            rows = read_rows(options.source, family)
            if options.verify:
                print(f"{family}: {verify(rows)} rows verified")
            tables[family] = []
            sources[family] = rows
        # Last, so that the names of the sets of processors stay what they were.
        deeper = read_deeper_rows(options.source, sources["gfx942"])
        for family, rows in (*sources.items(), ("gfx942", deeper)):
            for row in rows:
                key = (family, targets_of(row))
                tables[family].append(row.fields(sets.setdefault(key, f"t{len(sets)}")))
    except (DeriveError, OSError) as error:
        print(f"derive_amdgpu_tables: {error}", file=sys.stderr)
        return 1
    except KeyError as error:
        print(f"derive_amdgpu_tables: a source table has no column {error}", file=sys.stderr)
        return 1
    options.output.mkdir(parents=True, exist_ok=True)
    for family, lines in tables.items():
        _write(options.output / f"{family}.csv", ROW_COLUMNS, lines)
    availability = [[family, key, processors] for (family, processors), key in sets.items()]
    _write(options.output / "availability.csv", ("family", "key", "processors"), availability)
    header = ("family", "format", "words", "prefix", "opcode", "fields")
    _write(options.output / "formats.csv", header, derive_formats(options.source))
    _write(options.output / "registers.csv", ("family", "code", "name", "pair"), derive_registers(options.source))
    _write(options.output / "enums.csv", ("family", "enum", "value", "name"), derive_enums(options.source))
    return 0


if __name__ == "__main__":
    sys.exit(main())
