"""Rules for dual-issue pairs, judged by what llvm-mc-19 accepts."""

from __future__ import annotations

import random
import re
import shutil
import subprocess

import pytest

from loom_target_amdgpu.isa.decode import decode
from loom_target_amdgpu.isa.disasm import disassemble
from loom_target_amdgpu.isa.dual import dual_issue_conflict
from loom_target_amdgpu.isa.encode import encode_dual
from loom_target_amdgpu.isa.tables import LITERAL, Row, family_table

LLVM_MC = shutil.which("llvm-mc-19")


def _codes(row: Row, chooser: random.Random) -> tuple[dict[str, int], int | None]:
    half = row.format[-1].lower()
    codes = {f"vdst{half}": 256 + chooser.randrange(12)}
    literal = (
        chooser.choice((0x1234567, 0x7654321)) if any(op.kind == "lit32" for op in row.operands) else None
    )
    first = chooser.choice(
        (256 + chooser.randrange(12), 256 + chooser.randrange(12), 4, 6, 130, 242, 106, LITERAL)
    )
    if first == LITERAL and literal is None:
        literal = chooser.choice((0x1234567, 0x7654321))
    codes[f"src{half}0"] = first
    if any(operand.name == f"vsrc{half}1" for operand in row.operands):
        codes[f"vsrc{half}1"] = 256 + chooser.randrange(12)
    return codes, literal


@pytest.mark.skipif(LLVM_MC is None, reason="llvm-mc-19 is not installed")
@pytest.mark.parametrize(("family", "cpu"), [("gfx11", "gfx1100"), ("gfx12", "gfx1200")])
def test_conflicts_are_those_of_the_assembler(family: str, cpu: str) -> None:
    table = family_table(family)
    chooser = random.Random(3)
    xs = [row for row in table.rows if row.format == "VOPD_X"]
    ys = [row for row in table.rows if row.format == "VOPD_Y"]
    lines, ours = [], []
    for _ in range(1500):
        x, y = chooser.choice(xs), chooser.choice(ys)
        x_codes, x_literal = _codes(x, chooser)
        y_codes, y_literal = _codes(y, chooser)
        reason = dual_issue_conflict(x, x_codes, y, y_codes, x_literal=x_literal, y_literal=y_literal)
        if reason is not None and ("one even" in reason or "different literals" in reason):
            continue  # has no encoding at all
        if reason is not None and "reads the register" in reason:
            continue  # about order in the program; the assembler has no opinion
        literal = x_literal if x_literal is not None else y_literal
        data = encode_dual(x, x_codes, y, y_codes, literal)
        lines.append(disassemble(decode(table, data)))
        ours.append(reason)
    assert LLVM_MC is not None
    command = [LLVM_MC, "-arch=amdgcn", f"-mcpu={cpu}", "-mattr=+wavefrontsize32", "-show-encoding"]
    run = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True)
    errors = {
        int(number) - 1: text for number, text in re.findall(r"<stdin>:(\d+):\d+: error: (.*)", run.stderr)
    }
    for number, (line, reason) in enumerate(zip(lines, ours, strict=True)):
        assert (reason is None) == (number not in errors), (line, reason, errors.get(number))
    assert 100 < len(errors) < len(lines) - 100


def test_reasons_name_the_rule() -> None:
    table = family_table("gfx11")
    x, y = table.find("v_dual_mov_b32", "VOPD_X"), table.find("v_dual_add_f32", "VOPD_Y")
    x_codes = {"vdstx": 256, "srcx0": 257}
    assert dual_issue_conflict(x, x_codes, y, {"vdsty": 259, "srcy0": 258, "vsrcy1": 257}) is None
    reason = dual_issue_conflict(x, x_codes, y, {"vdsty": 258, "srcy0": 258, "vsrcy1": 257})
    assert reason == "the results must be one even and one odd register"
    reason = dual_issue_conflict(x, x_codes, y, {"vdsty": 259, "srcy0": 256, "vsrcy1": 257})
    assert reason == "the Y half reads the register the X half writes"
    reason = dual_issue_conflict(x, x_codes, y, {"vdsty": 259, "srcy0": 261, "vsrcy1": 257})
    assert reason == "source 0 of both halves is in the same register bank"
    assert dual_issue_conflict(y, x_codes, x, x_codes) == "the rows are not an X and a Y half"
