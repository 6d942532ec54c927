"""Comparisons that write the execution mask, then a permutation of lanes: what stands between, as LLVM does it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.hazards import insert_hazard_waits
from loom_target_amdgpu.isa.encode import encode
from loom_target_amdgpu.isa.registers import VCC
from loom_target_amdgpu.isa.tables import VGPR
from loom_target_amdgpu.machine_code import Assembler, Code
from loom_target_amdgpu.profiles import profile

LLC = shutil.which("llc-19")
PROCESSORS = ["gfx1100", "gfx1151", "gfx1200"]

# Name -> what stands between, in LLVM's machine language and as (mnemonic, format, codes).
BETWEEN = {
    "nothing": ("", None),
    "idle states": ("S_NOP 3", ("s_nop", None, {"simm16": 3})),
    "scalar": ("$sgpr4 = S_MOV_B32 0", ("s_mov_b32", None, {"sdst": 4, "ssrc0": 128})),
    "idle vector": ("V_NOP_e32 implicit $exec", ("v_nop", "VOP1", {})),
    "vector": ("$vgpr9 = V_MOV_B32_e32 0, implicit $exec", ("v_mov_b32", "VOP1", {"vdst": VGPR + 9, "src0": 128})),
}
MIR = """\
---
name: f
body: |
  bb.0:
    V_CMPX_EQ_U32_nosdst_e64 $vgpr0, $vgpr1, implicit-def $exec, implicit $exec
    {between}
    $vgpr2 = V_PERMLANEX16_B32_e64 0, $vgpr3, 0, $sgpr0, 0, $sgpr1, $vgpr2, 0, implicit $exec
    S_ENDPGM 0
...
"""


def compare(asm: Assembler) -> Code:
    return asm.plain("v_cmpx_eq_u32", format="VOP3", src0=VGPR, src1=VGPR + 1)


def permute(asm: Assembler) -> Code:
    return asm.plain("v_permlanex16_b32", vdst=VGPR + 2, src0=VGPR + 3, src1=0, src2=1)


@pytest.mark.skipif(LLC is None, reason="llc-19 is not installed")
@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", list(BETWEEN))
def test_the_separation_is_that_of_llvm(name: str, processor: str, tmp_path: Path) -> None:
    assert LLC is not None
    text, ours = BETWEEN[name]
    path = tmp_path / "f.mir"
    path.write_text(MIR.format(between=text))
    command = [LLC, "-march=amdgcn", f"-mcpu={processor}", "-run-pass", "post-RA-hazard-rec", str(path), "-o", "-"]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    wanted = bool(re.search(r"\$vgpr3 = V_MOV_B32_e32 killed \$vgpr3", made))
    target = profile(processor)
    asm = Assembler(target.family, 32, 2)
    codes = [compare(asm)]
    if ours is not None:
        mnemonic, form, fields = ours
        codes.append(asm.plain(mnemonic, format=form, **fields))  # type: ignore[arg-type]  # fields by name
    codes.append(permute(asm))
    blocks = [CodeBlock("a", codes, [])]
    insert_hazard_waits(blocks, asm, target)
    moves = [c for c in blocks[0].code if c.row.mnemonic == "v_mov_b32" and c.codes["vdst"] == VGPR + 3]
    assert [move.codes["src0"] for move in moves] == [VGPR + 3] * wanted
    assert not moves or blocks[0].code[-2] is moves[0]


def test_the_comparison_may_be_in_another_block() -> None:
    target = profile("gfx1100")
    asm = Assembler(target.family, 32, 2)
    blocks = [
        CodeBlock("a", [compare(asm), asm.plain("s_cbranch_execz", target="c", simm16=0)], ["c", "b"]),
        CodeBlock("b", [asm.plain("v_mov_b32", format="VOP1", vdst=VGPR + 8, src0=128)], ["c"]),
        CodeBlock("c", [permute(asm), permute(asm), asm.plain("s_endpgm")], []),
    ]
    insert_hazard_waits(blocks, asm, target)
    assert [code.row.mnemonic for code in blocks[2].code] == [
        "v_mov_b32",
        "v_permlanex16_b32",
        "v_permlanex16_b32",
        "s_endpgm",
    ]


# What follows a comparison that writes the mask on gfx942, in LLVM's machine language and as (mnemonic, codes).
READERS = {
    "V_MOV_B32_dpp": (
        "$vgpr2 = V_MOV_B32_dpp $vgpr2, $vgpr3, 177, 15, 15, 0, implicit $exec",
        ("v_mov_b32", "dpp16", {"vdst": VGPR + 2, "vsrc0": VGPR + 3}),
    ),
    "V_READLANE": (
        "$sgpr2 = V_READLANE_B32 $vgpr3, 1",
        ("v_readlane_b32", "", {"vdst": 2, "src0": VGPR + 3, "src1": 129}),
    ),
    "V_READFIRSTLANE": (
        "$sgpr2 = V_READFIRSTLANE_B32 $vgpr3, implicit $exec",
        ("v_readfirstlane_b32", "", {"vdst": 2, "src0": VGPR + 3}),
    ),
    "V_WRITELANE": (
        "$vgpr2 = V_WRITELANE_B32 1, 2, $vgpr2",
        ("v_writelane_b32", "", {"vdst": VGPR + 2, "src0": 129, "src1": 130}),
    ),
    "V_MOV": (
        "$vgpr2 = V_MOV_B32_e32 0, implicit $exec",
        ("v_mov_b32", "", {"vdst": VGPR + 2, "src0": 128}),
    ),
}
MIR_942 = """\
---
name: f
body: |
  bb.0:
    V_CMPX_EQ_U32_e32 $vgpr0, $vgpr1, implicit-def $exec, implicit-def $vcc, implicit $exec
    {reader}
    S_ENDPGM 0
...
"""


@pytest.mark.skipif(LLC is None, reason="llc-19 is not installed")
@pytest.mark.parametrize("name", list(READERS))
def test_wait_states_of_gfx942_are_those_of_llvm(name: str, tmp_path: Path) -> None:
    assert LLC is not None
    text, (mnemonic, variant, fields) = READERS[name]
    path = tmp_path / "f.mir"
    path.write_text(MIR_942.format(reader=text))
    command = [LLC, "-march=amdgcn", "-mcpu=gfx942", "-run-pass", "post-RA-hazard-rec", str(path), "-o", "-"]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    wanted = [int(states) + 1 for states in re.findall(r"S_NOP (\d+)", made)]
    target = profile("gfx942")
    asm = Assembler(target.family, 64, 2)
    row = asm.table.find(mnemonic, variant=variant)
    reader = Code(row, fields, encode(row, fields, {}, None), 64)
    comparison = asm.plain("v_cmpx_eq_u32", format="VOPC", vcc=VCC, src0=VGPR, vsrc1=VGPR + 1)
    blocks = [CodeBlock("a", [comparison, reader], [])]
    insert_hazard_waits(blocks, asm, target)
    assert [code.codes["simm16"] + 1 for code in blocks[0].code if code.row.mnemonic == "s_nop"] == wanted
