"""The instruction tables: every row against llvm-mc-19, the derivation, look-ups, and what loading costs."""

from __future__ import annotations

import csv
import filecmp
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import loom_target_amdgpu.isa
from loom_target_amdgpu.isa.decode import decode
from loom_target_amdgpu.isa.encode import encode
from loom_target_amdgpu.isa.formats import formats
from loom_target_amdgpu.isa.registers import constant_bits, inline_code, inline_floats, registers
from loom_target_amdgpu.isa.tables import OFF, Row, family_table

FAMILIES = ("gfx942", "gfx11", "gfx12")
ROWS = {"gfx942": 2854, "gfx11": 3206, "gfx12": 3251}
LLVM_MC = shutil.which("llvm-mc-19")
REPOSITORY = Path(__file__).parents[2]
DATA = Path(loom_target_amdgpu.isa.__file__).parent / "data"


def _shared() -> Path | None:
    named = os.environ.get("LOOM_SHARED")
    folder = (Path(named) if named else REPOSITORY.parent / "shared") / "isa"
    return folder if folder.is_dir() else None


def _batches(family: str) -> dict[tuple[str, int, str], list[Row]]:
    batches: dict[tuple[str, int, str], list[Row]] = {}
    for row in family_table(family).rows:
        if row.available_on == ("gfx950",):
            continue
        cpu = {"gfx942": "gfx942", "gfx12": "gfx1200"}.get(family, "gfx1100")
        if cpu not in row.available_on:
            cpu = "gfx1150"
        extra = ",+real-true16" if re.search(r"\bv\d+\.[lh]\b", row.example) else ""
        batches.setdefault((cpu, row.wave or (64 if family == "gfx942" else 32), extra), []).append(row)
    return batches


def _llvm_mc(cpu: str, wave: int, extra: str, text: str, *flags: str) -> str:
    assert LLVM_MC is not None
    command = [LLVM_MC, "-arch=amdgcn", f"-mcpu={cpu}", f"-mattr=+wavefrontsize{wave}{extra}", *flags]
    run = subprocess.run(command, input=text, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[:2000]
    return run.stdout


@pytest.mark.skipif(LLVM_MC is None, reason="llvm-mc-19 is not installed")
@pytest.mark.parametrize("family", FAMILIES)
def test_every_example_assembles_and_disassembles(family: str) -> None:
    checked = 0
    for (cpu, wave, extra), rows in _batches(family).items():
        output = _llvm_mc(cpu, wave, extra, "\n".join(row.example for row in rows), "-show-encoding")
        encoded = [
            bytes(int(byte, 16) for byte in item.split(",")) for item in re.findall(r"encoding: \[([^\]]*)\]", output)
        ]
        for row, data in zip(rows, encoded, strict=True):
            words = b"".join(word.to_bytes(4, "little") for word in row.example_words)
            assert data.hex() == words.hex(), row.example
        text = "\n".join(",".join(f"0x{byte:02x}" for byte in data) for data in encoded)
        shown = _llvm_mc(cpu, wave, extra, text, "-disassemble").splitlines()
        lines = [line.split() for line in shown if line.strip() and ".text" not in line]
        for row, line in zip(rows, lines, strict=True):
            assert line == row.example.split()
            checked += 1
    assert checked == ROWS[family]


def test_what_llvm_mc_does_not_know_has_the_measured_bytes() -> None:
    """gfx950's own instructions, as a later assembler encodes them."""
    rows = [row for row in family_table("gfx942").rows if row.available_on == ("gfx950",)]
    assert len(rows) + ROWS["gfx942"] == len(family_table("gfx942"))
    source = _shared()
    if source is None:
        pytest.skip("the measured tables are not here (LOOM_SHARED or ../shared)")
    with (source / "gfx950-extra.csv").open(newline="") as stream:
        measured = {record["mnemonic"]: record for record in csv.DictReader(stream)}
    for row in rows:
        record = measured[row.mnemonic]
        registers = [int(first) for first in re.findall(r"v\[(\d+):", record["example"])]
        codes = dict(zip(("vdst", "src0", "src1", "src2"), (256 + first for first in registers), strict=True))
        if row.form == "acd":
            codes |= {name: codes[name] + 256 for name in ("vdst", "src2")}
        data = encode(row, codes)
        words = [int.from_bytes(data[at : at + 4], "little") for at in (0, 4)]
        accumulation = 0x8000 * (row.form == "acd")
        want = [int(word, 16) for word in record["example_hex"].split()]
        assert words == [want[0] | accumulation, want[1]], row.example
        assert decode(family_table("gfx942"), data, 0, wave_size=64).row is row


def test_derivation_reproduces_the_tables(tmp_path: Path) -> None:
    source = _shared()
    if source is None:
        pytest.skip("the measured tables are not here (LOOM_SHARED or ../shared)")
    tool = REPOSITORY / "tools" / "derive_amdgpu_tables.py"
    command = [sys.executable, str(tool), "--source", str(source), "--output", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == sorted(path.name for path in DATA.iterdir())
    assert filecmp.cmpfiles(DATA, tmp_path, made, shallow=False) == (made, [], [])


def test_derivation_reports_a_missing_source(tmp_path: Path) -> None:
    tool = REPOSITORY / "tools" / "derive_amdgpu_tables.py"
    command = [sys.executable, str(tool), "--source", str(tmp_path), "--output", str(tmp_path / "out")]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 1
    assert re.fullmatch(r"derive_amdgpu_tables: .*No such file.*true16-llvm24.csv'\n", run.stderr)
    assert "Traceback" not in run.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("family", FAMILIES)
def test_fields_do_not_overlap(family: str) -> None:
    """An operand or modifier owns its bits, apart from a companion bit that two operands share."""
    for row in family_table(family).rows:
        owned = 0
        spans = [span for operand in row.operands for span in operand.ranges]
        spans += [(low, high) for modifier in row.modifiers for low, high, _ in modifier.bits]
        spans += [(bit, bit) for bit in {op.companion[1] for op in row.operands if op.companion is not None}]
        for low, high in spans:
            mask = ((1 << (high - low + 1)) - 1) << low
            assert not owned & mask, (row.example, low, high)
            owned |= mask
        assert owned < 1 << (32 * row.word_count)
        for operand in row.operands:
            for low, high in operand.ranges:
                assert not row.fixed_words >> low & ((1 << (high - low + 1)) - 1), row.example


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_have_the_prefix_and_opcode_of_their_format(family: str) -> None:
    layouts = formats(family)
    for row in family_table(family).rows:
        layout = layouts["VOPD" if row.format.startswith("VOPD") else row.format]
        prefix = row.fixed_words >> layout.prefix_low & ((1 << layout.prefix_width) - 1)
        assert prefix == layout.prefix_value, row.example
        if row.format != "VOPD_Y":
            assert layout.opcode(row.fixed_words) == row.opcode, row.example
        assert row.word_count == len(row.example_words)


def test_find_narrows_by_format_form_variant_wave_and_processor() -> None:
    table = family_table("gfx11")
    assert table.find("v_add_f32").format == "VOP2"
    assert table.find("v_add_f32", "VOP3").format == "VOP3"
    assert table.find("v_add_f32", variant="dpp16").variant == "dpp16"
    assert table.find("global_load_b32", form="vaddr").operands[2].kind == "off"
    assert table.find("v_wmma_f32_16x16x16_f16", wave=64).form == "w64"
    assert table.find("s_add_f32", processor="gfx1151").mnemonic == "s_add_f32"
    with pytest.raises(KeyError, match="no gfx11 instruction 's_add_f32'"):
        table.find("s_add_f32", processor="gfx1100")
    with pytest.raises(KeyError, match="unknown there"):
        table.find("v_frobnicate")
    assert {row.format for row in table.by_mnemonic["v_add_f32"]} == {"VOP2", "VOP3"}
    assert "v_frobnicate" not in table.by_mnemonic
    with pytest.raises(KeyError, match="no instruction tables for family 'gfx10'"):
        family_table("gfx10")


def test_a_row_has_what_the_compiler_and_the_simulator_need() -> None:
    row = family_table("gfx12").find("v_add_co_ci_u32", "VOP2")
    assert [operand.name for operand in row.operands] == ["vdst", "vcc", "src0", "vsrc1", "vcc"]
    assert row.operands[1].fixed_text == "vcc"
    assert row.operands[1].ranges == ()
    assert row.implicit_reads == ("vcc", "exec")
    assert row.implicit_writes == ("vcc",)
    assert row.literal_sources == ("src0",)
    assert row.operand("src0").ranges == ((0, 8),)
    assert row.operand("src0").const_type == "i32"
    with pytest.raises(KeyError, match="no operand 'src7'"):
        row.operand("src7")
    load = family_table("gfx942").find("buffer_load_dword", form="offen")
    assert load.operand("vdata").companion == ("acc", 55)
    assert load.flags == {"load"}
    offset = load.modifier("offset")
    assert offset is not None
    assert (offset.bits, offset.default, offset.signed) == (((0, 11, 0),), 0, False)


def test_operand_codes_and_names() -> None:
    gfx9, gfx11 = registers("gfx942"), registers("gfx11")
    assert gfx9.codes["m0"] == 124
    assert gfx9.null is None
    assert gfx11.codes["m0"] == 125
    assert gfx11.null == 124
    assert gfx11.codes["vcc"] == gfx11.codes["vcc_lo"] == 106
    assert gfx11.name(106, 2) == "vcc"
    assert gfx11.name(4, 2) == "s[4:5]"
    assert gfx11.name(256 + 7) == "v7"
    assert gfx11.name(512 + 7, 4) == "a[7:10]"
    assert gfx11.name(109, 2) == "ttmp[1:2]"
    assert gfx11.name(OFF) == "off"
    assert gfx11.name(193) == "-1"
    assert gfx11.name(242) == "1.0"
    assert gfx9.name(102, 2) == "flat_scratch"
    with pytest.raises(KeyError, match="no operand code 210"):
        gfx11.name(210)
    assert 125 not in gfx9.valid_sources
    assert 255 in gfx11.valid_sources


def test_inline_constants() -> None:
    assert inline_code(0, "i32") == 128
    assert inline_code(64, "i32") == 192
    assert inline_code(65, "i32") is None
    assert inline_code(-1, "i32") == 193
    assert inline_code(0xFFFFFFF0, "i32") == 208
    assert inline_code(-17, "i32") is None
    assert inline_code(0x3F800000, "f32") == 242
    assert inline_code(0x3F800000, "i32") == 242
    assert inline_code(0x3C00, "f16") == 242
    assert inline_code(0x3F80, "bf16") == 242
    assert inline_code(0x3FF0000000000000, "f64") == 242
    assert inline_code(0x3FC45F306DC9C882, "f64") == 248
    assert inline_code(0x3C00, "i16") is None
    assert inline_code((1 << 64) - 1, "i64") == 193
    for kind in ("f16", "bf16", "f32", "f64"):
        for code, bits in inline_floats(kind).items():
            assert constant_bits(code, kind) == bits
            assert inline_code(bits, kind) == code
    assert constant_bits(208, "i64") == (1 << 64) - 16
    assert constant_bits(208, "f16") == 0xFFF0
    assert constant_bits(242, "i32") == 0x3F800000
    assert constant_bits(4, "i32") is None
    assert inline_code(0x3C00, "v2f16") == 242
    assert inline_code(0x3C003C00, "v2f16") is None
    assert constant_bits(193, "v2i16") == 0xFFFFFFFF
    for family in FAMILIES:
        kinds = {operand.const_type for row in family_table(family).rows for operand in row.operands}
        for kind in kinds - {""}:
            assert constant_bits(129, kind) == 1


@pytest.mark.skipif(LLVM_MC is None, reason="llvm-mc-19 is not installed")
@pytest.mark.parametrize(
    ("kind", "mnemonic"),
    [("f16", "v_add_f16"), ("f32", "v_add_f32"), ("f64", "v_add_f64"), ("v2f16", "v_pk_add_f16")],
)
def test_inline_float_bits_are_those_of_the_assembler(kind: str, mnemonic: str) -> None:
    """A bit pattern written as a number becomes the same inline constant, the next pattern does not."""
    width = 2 if kind == "f64" else 1
    registers_text = "v[2:3], {}, v[4:5]" if width == 2 else "v2, {}, v4"
    patterns = [bits + step for bits in inline_floats(kind.removeprefix("v2")).values() for step in (0, 1)]
    if kind == "f64":
        patterns = [bits for bits in patterns if not bits & 1]  # other 64-bit patterns cannot be written at all
    suffix = "" if kind == "v2f16" else "_e64"
    lines = [f"{mnemonic}{suffix} " + registers_text.format(f"0x{bits:x}") for bits in patterns]
    output = _llvm_mc("gfx1100", 32, "", "\n".join(lines), "-show-encoding")
    encoded = re.findall(r"encoding: \[([^\]]*)\]", output)
    for bits, item in zip(patterns, encoded, strict=True):
        data = bytes(int(byte, 16) for byte in item.split(","))
        source = int.from_bytes(data[4:8], "little") & 0x1FF
        assert source == (inline_code(bits, kind) or 255), hex(bits)


def test_loading_is_cheap_and_needs_no_numpy() -> None:
    script = (
        "import sys, time; import attrs; start = time.perf_counter();"
        "from loom_target_amdgpu.isa.tables import family_table;"
        "from loom_target_amdgpu.isa.encode import encode;"
        "row = family_table('gfx11').find('s_endpgm'); encode(row, {});"
        "print(time.perf_counter() - start); print('numpy' in sys.modules, 'msgpack' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    seconds, flags = run.stdout.splitlines()
    assert flags == "False False"
    # 25 ms on an idle machine; the bound only catches parsing everything or importing something big.
    assert float(seconds) < 1.0
