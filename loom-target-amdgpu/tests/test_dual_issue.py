"""Dual issue: pairs in our code, judged by LLVM's disassembler, by the emulator and by the checker of passes."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import loom_target_amdgpu.hsaco as stages
from loom import api
from loom_target_amdgpu.check_passes import PassCheckError, check_passes, snapshot
from loom_target_amdgpu.dual_issue import pair_instructions
from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.isa.tables import LITERAL, VGPR
from loom_target_amdgpu.machine_code import Assembler, Code, Order
from loom_target_amdgpu.waits import WaitInserter

OBJDUMP = shutil.which("llvm-objdump-19")
FAMILIES = [("gfx1100", "rdna3"), ("gfx1151", "rdna3_5"), ("gfx1200", "rdna4")]

# Constants alone, so that registers do not decide which pairs are legal.
KERNEL = """\
low.kernel.def {mode}target<amdgpu.{contract}.core> workgroup_size(32, 1, 1) @k() asm {{
  %lane = live_in<amdgpu.workitem_id.x> : reg<amdgpu.vgpr>
  %x = resource<hal_binding> {{index = 0, source_type = hal.buffer}} : reg<amdgpu.sgpr x2>
  %at = v_lshlrev_b32_src0_inline %lane, 2
{fence}  %a = v_mov_b32 11
{fence}  %b = v_mov_b32 22
  global_store_b32_saddr %at, %a, %x
  global_store_b32_saddr %at, %b, %x {{offset = 128}}
  return
}}
"""


def compiled(text: str, processor: str) -> bytes:
    module = api.load_bytes(text.encode(), "m")
    options = {"schedule": "source"}
    return api.compile(module, (), f"amdgpu:{processor}", options=options).result.primary.data


def disassembled(data: bytes, folder: Path) -> list[str]:
    """What LLVM reads in the code."""
    assert OBJDUMP is not None
    path = folder / "k.hsaco"
    path.write_bytes(data)
    run = subprocess.run([OBJDUMP, "-d", "--no-show-raw-insn", str(path)], capture_output=True, text=True, check=True)
    lines = [line.split("//")[0].strip() for line in run.stdout.splitlines()]
    return [line for line in lines if line and not line.endswith(":")]


@pytest.mark.skipif(OBJDUMP is None, reason="llvm-objdump-19 is not installed")
@pytest.mark.parametrize(("processor", "contract"), FAMILIES)
@pytest.mark.parametrize(
    ("mode", "fence", "pairs"),
    [("", "", 1), ("schedule(locked) ", "", 0), ("", "  low.schedule.fence\n", 0)],
    ids=["free", "locked", "fence"],
)
@pytest.mark.seed("O07")
def test_free_code_is_paired_and_ordered_code_is_not(
    processor: str, contract: str, mode: str, fence: str, pairs: int, tmp_path: Path
) -> None:
    data = compiled(KERNEL.format(contract=contract, mode=mode, fence=fence), processor)
    lines = disassembled(data, tmp_path)
    dual = [line for line in lines if line.startswith("v_dual_")]
    assert sum(" 11" in line for line in dual) == pairs
    if mode:
        assert not dual
    sim = pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
    x = np.zeros(64, dtype=np.int32)
    sim.load(data).launch("k", 1, 32, [x])
    assert x.tolist() == [11] * 32 + [22] * 32


def code(asm: Assembler, chooser: random.Random) -> Code:
    """A random vector instruction on few registers; some read the condition mask or scalars."""

    def vector() -> int:
        return VGPR + chooser.randrange(8)

    source = chooser.choice([vector(), vector(), vector(), 4, 130, 242, LITERAL])
    literal = chooser.choice([0x1234567, 0x7654321]) if source == LITERAL else None
    name = chooser.choice(
        ["v_mov_b32", "v_add_f32", "v_mul_f32", "v_fmac_f32", "v_cndmask_b32", "v_and_b32", "v_sub_f32", "v_xor_b32"]
    )
    if name == "v_mov_b32":
        return asm.plain(name, format="VOP1", vdst=vector(), src0=source, literal=literal)
    return asm.plain(name, format="VOP2", vdst=vector(), src0=source, vsrc1=vector(), literal=literal)


@pytest.mark.parametrize("family", ["gfx11", "gfx12"])
def test_random_code_computes_the_same(family: str) -> None:
    asm = Assembler(family, 32, 2)
    chooser = random.Random(7)
    made = 0
    for _ in range(150):
        blocks = [CodeBlock("a", [code(asm, chooser) for _ in range(40)], [])]
        before = snapshot(blocks)
        made += pair_instructions(blocks, asm)
        check_passes(before, blocks)
    assert made > 300


def test_the_checker_refuses_wrong_code() -> None:
    """Every mutation of random code that changes a result is noticed; so are ordering controls that are not obeyed."""
    asm = Assembler("gfx11", 32, 2)
    chooser = random.Random(11)
    refused = 0
    for _ in range(200):
        blocks = [CodeBlock("a", [code(asm, chooser) for _ in range(12)], [])]
        before = snapshot(blocks)
        at = chooser.randrange(11)
        codes = blocks[0].code
        first, second = codes[at], codes[at + 1]
        codes[at], codes[at + 1] = second, first
        touches = set(first.writes) & {*second.reads, *second.writes} | set(second.writes) & set(first.reads)
        try:
            check_passes(before, blocks)
        except PassCheckError:
            assert touches, "an order that does not matter was refused"
            refused += 1
    assert refused > 40
    mov = [asm.plain("v_mov_b32", format="VOP1", vdst=VGPR + n, src0=129 + n) for n in range(2)]
    blocks = [CodeBlock("a", list(mov), [])]
    before = snapshot(blocks)
    assert pair_instructions(blocks, asm) == 1
    check_passes(before, blocks)
    blocks[0].code[0].order = Order(True, 0, ())
    with pytest.raises(PassCheckError, match="locked"):
        check_passes(before, blocks)
    mov[0].order, mov[1].order = Order(False, 1, ()), Order(False, 0, ())
    with pytest.raises(PassCheckError, match="fence"):
        check_passes(before, [CodeBlock("a", mov, [])])
    mov[0].order, mov[1].order = Order(False, 0, ((3, 1),)), Order(False, 0, ((3, 0),))
    with pytest.raises(PassCheckError, match="phase"):
        check_passes(before, [CodeBlock("a", mov, [])])


@pytest.mark.parametrize("broken", ["waits", "pairs"])
def test_faults_of_passes_are_diagnostics(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """A pass that forgets waits, and one that loses an instruction, are refused with the place in the program."""
    from loom.ir.diagnostics import LoomError

    if broken == "waits":
        monkeypatch.setattr(WaitInserter, "run", lambda self: None)
    else:

        def lose(blocks: list[CodeBlock], assembler: Assembler) -> int:
            movs = [code for code in blocks[0].code if code.row.mnemonic == "v_mov_b32"]
            blocks[0].code.remove(movs[-1])
            return 0

        monkeypatch.setattr(stages, "pair_instructions", lose)
    with pytest.raises(LoomError) as caught:
        compiled(KERNEL.format(contract="rdna3", mode="", fence=""), "gfx1100")
    (found,) = caught.value.diagnostics
    assert found.code == "TARGET/022"
    assert found.location is not None
    assert found.params["constraint_key"] == "machine.code"
