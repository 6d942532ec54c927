"""Wait states behind every matrix instruction of gfx942: those of LLVM's hazard recognizer, and proven not to be fewer."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from loom_target_amdgpu.check_distances import DistanceCheckError, check_distances
from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.hazards import insert_hazard_waits
from loom_target_amdgpu.isa.tables import VGPR, Row
from loom_target_amdgpu.machine_code import Assembler, Code
from loom_target_amdgpu.profiles import profile

LLC: Final = shutil.which("llc-19")
ASM: Final = Assembler("gfx942", 64, 1)
NAME: Final = re.compile(r"v_(mfma|smfmac)_([a-z]\d+)_(\d+x\d+x\d+)(?:_\d+b)?_(\w+)")
D, A, C, INDEX, FREE, ADDRESS = 0, 100, 64, 99, 220, 200
"""First registers of the result, the factors, the addend, the index, what is independent, an address."""

ROWS: Final = {
    row.mnemonic: row
    for row in ASM.table.rows
    if NAME.fullmatch(row.mnemonic) and row.form in ("vcd", "") and "gfx942" in row.available_on
}


def opcode(mnemonic: str) -> str:
    """LLVM's name of the instruction with vector registers for its result."""
    match = NAME.fullmatch(mnemonic)
    assert match is not None
    kind, result, shape, factors = (group.upper() for group in match.groups())
    if kind == "SMFMAC":
        return f"V_SMFMAC_{result}_{shape}_{factors}_e64"
    joined = f"_{factors}" if "8_" in factors else f"{factors}_1K" if factors == "BF16" else factors
    return f"V_MFMA_{result}_{shape}{joined}_vgprcd_e64"


def registers(first: int, row: Row, operand: str) -> str:
    count = next(o.width_bits // 32 for o in row.operands if o.name == operand)
    return "$" + "_".join(f"vgpr{first + k}" for k in range(count))


def llvm_product(row: Row, d: int, a: int, c: int) -> str:
    result = registers(d, row, "vdst")
    factors = f"{registers(a, row, 'src0')}, {registers(a, row, 'src1')}"
    if row.mnemonic.startswith("v_smfmac"):
        last = f"$vgpr{INDEX}, 0, 0, {result}"
    else:
        last = f"{registers(c, row, 'src2')}, 0, 0, 0"
    return f"{result} = {opcode(row.mnemonic)} {factors}, {last}, implicit $mode, implicit $exec"


def our_product(row: Row, d: int, a: int, c: int) -> Code:
    third = INDEX if row.mnemonic.startswith("v_smfmac") else c
    form = row.form or None
    return ASM.plain(row.mnemonic, form=form, vdst=VGPR + d, src0=VGPR + a, src1=VGPR + a, src2=VGPR + third)


FMA: Final = (
    f"$vgpr{FREE}_vgpr{FREE + 1} = V_FMA_F64_e64 0, $vgpr222_vgpr223, 0, $vgpr222_vgpr223, 0, $vgpr222_vgpr223, 0, 0, "
    "implicit $mode, implicit $exec"
)
Follower = tuple[Callable[[Row], str], Callable[[Row], Code]]
FOLLOWERS: Final[Mapping[str, Follower]] = {
    "use": (
        lambda row: f"$vgpr{FREE} = V_MOV_B32_e32 $vgpr0, implicit $exec",
        lambda row: ASM.plain("v_mov_b32", format="VOP1", vdst=VGPR + FREE, src0=VGPR),
    ),
    "overwritten": (
        lambda row: "$vgpr0 = V_MOV_B32_e32 0, implicit $exec",
        lambda row: ASM.plain("v_mov_b32", format="VOP1", vdst=VGPR, src0=128),
    ),
    "addend overwritten": (
        lambda row: f"$vgpr{C} = V_MOV_B32_e32 0, implicit $exec",
        lambda row: ASM.plain("v_mov_b32", format="VOP1", vdst=VGPR + C, src0=128),
    ),
    "store": (
        lambda row: f"GLOBAL_STORE_DWORD $vgpr{ADDRESS}_vgpr{ADDRESS + 1}, $vgpr0, 0, 0, implicit $exec",
        lambda row: ASM.plain("global_store_dword", form="saddr", addr=VGPR + ADDRESS, data=VGPR, saddr=2),
    ),
    "workgroup store": (
        lambda row: f"DS_WRITE_B32_gfx9 $vgpr{ADDRESS}, $vgpr0, 0, 0, implicit $exec",
        lambda row: ASM.plain("ds_write_b32", addr=VGPR + ADDRESS, data0=VGPR),
    ),
    "factor": (lambda row: llvm_product(row, 128, D, C), lambda row: our_product(row, 128, D, C)),
    "same addend": (lambda row: llvm_product(row, D, A, D), lambda row: our_product(row, D, A, D)),
    "part of the addend": (lambda row: llvm_product(row, 128, A, D + 2), lambda row: our_product(row, 128, A, D + 2)),
    "fused, independent": (
        lambda row: FMA,
        lambda row: ASM.plain("v_fma_f64", vdst=VGPR + FREE, src0=VGPR + 222, src1=VGPR + 222, src2=VGPR + 222),
    ),
    "added, independent": (
        lambda row: (
            "$vgpr220_vgpr221 = V_ADD_F64_e64 0, $vgpr222_vgpr223, 0, $vgpr222_vgpr223, 0, 0, "
            "implicit $mode, implicit $exec"
        ),
        lambda row: ASM.plain("v_add_f64", vdst=VGPR + FREE, src0=VGPR + 222, src1=VGPR + 222),
    ),
}
ONLY_MFMA: Final = frozenset({"same addend", "part of the addend", "addend overwritten"})


def cases() -> list[tuple[str, str]]:
    return [
        (name, follower)
        for name, row in ROWS.items()
        for follower in FOLLOWERS
        if not (follower in ONLY_MFMA and name.startswith("v_smfmac"))
        # The result of this one has two registers, so that no part of it is left.
        and not (
            follower == "part of the addend" and next(o for o in row.operands if o.name == "vdst").width_bits < 128
        )
    ]


def codes(name: str, follower: str) -> list[Code]:
    row = ROWS[name]
    return [our_product(row, D, A, D if follower == "same addend" else C), FOLLOWERS[follower][1](row)]


def inserted(items: list[Code], processor: str = "gfx942") -> int:
    block = CodeBlock("a", items, [])
    insert_hazard_waits([block], ASM, profile(processor))
    return sum(code.codes["simm16"] + 1 for code in block.code if code.row.mnemonic == "s_nop")


@pytest.mark.skipif(LLC is None, reason="llc-19 is not installed")
def test_the_states_are_those_of_llvm(tmp_path: Path) -> None:
    assert LLC is not None
    wanted = cases()
    assert len({name for name, _ in wanted}) > 40
    path = tmp_path / "products.mir"
    with path.open("w") as file:
        for number, (name, follower) in enumerate(wanted):
            row = ROWS[name]
            first = llvm_product(row, D, A, D if follower == "same addend" else C)
            second = FOLLOWERS[follower][0](row)
            file.write(f"---\nname: f{number}\nbody: |\n  bb.0:\n    {first}\n    {second}\n    S_ENDPGM 0\n...\n")
    command = [LLC, "-march=amdgcn", "-mcpu=gfx942", "-run-pass", "post-RA-hazard-rec", str(path), "-o", "-"]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[:2000]
    found = {}
    for part in made.stdout.split("\nname:")[1:]:
        number = int(part.split()[0][1:])
        found[wanted[number]] = sum(int(states) + 1 for states in re.findall(r"S_NOP (\d+)", part))
    assert {case: inserted(codes(*case)) for case in wanted} == found


@pytest.mark.parametrize("processor", ["gfx942", "gfx950"])
def test_one_state_less_is_refuted(processor: str) -> None:
    """Behind every instruction and before everything that needs a distance from it."""
    target = profile(processor)
    planted = 0
    for name, follower in cases():
        first, second = codes(name, follower)
        states = inserted([first, second], processor)
        idle = [ASM.plain("s_nop", simm16=0)] * states
        check_distances([CodeBlock("a", [first, *idle, second], [])], target)
        if states:
            planted += 1
            with pytest.raises(DistanceCheckError, match=f"{states} states, and there are {states - 1}"):
                check_distances([CodeBlock("a", [first, *idle[1:], second], [])], target)
    assert planted > 200
