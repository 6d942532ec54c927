"""Waves of 64 on gfx11: programs with one wait and without it, and random programs that LLVM has put waits into."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import attrs
import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu

pytestmark = needs_llvm_mc
LLC = shutil.which("llc-19")
needs_llc = pytest.mark.skipif(LLC is None, reason="llc-19 is not installed")

CHOOSE = "v_cndmask_b32_e64 v3, v1, v2, s[8:9]\n"
REWRITE = "s_mov_b64 s[8:9], -1\n"
SCALAR_WAIT = "s_waitcnt_depctr 0xfffe\n"
FIRST, SECOND = "v_mov_b32_e32 v1, 0\n", "v_mov_b32_e32 v2, 0\n"
CHANGE = "s_mov_b64 exec, -1\n"
OTHER = "v_mov_b32_e32 v9, 0\n"
READ = "v_add_nc_u32_e32 v3, v1, v2\n"
VECTOR_WAIT = "s_waitcnt_depctr 0xfff\n"

# What comes before, what makes it right, and the instruction that is at fault without it.
PAIRS = {
    "a mask the scalar unit rewrites and reads": (CHOOSE + REWRITE, SCALAR_WAIT, "s_and_b64 s[10:11], s[8:9], s[12:13]"),
    "a mask the vector unit reads again": (CHOOSE + REWRITE, SCALAR_WAIT, "v_cndmask_b32_e64 v4, v1, v2, s[8:9]"),
    "half of a mask": (CHOOSE + "s_mov_b32 s9, 0\n", SCALAR_WAIT, "s_mov_b32 s10, s9"),
    "a mask in VCC": ("v_cndmask_b32_e32 v3, v1, v2, vcc\ns_mov_b64 vcc, -1\n", SCALAR_WAIT, "s_mov_b64 s[10:11], vcc"),
    "a carry": (
        "v_add_co_ci_u32_e64 v3, s[14:15], v1, v2, s[8:9]\n" + REWRITE, SCALAR_WAIT, "s_mov_b64 s[10:11], s[8:9]",
    ),
    "a scaled quotient": ("v_div_fmas_f32 v3, v1, v2, v1\ns_mov_b64 vcc, -1\n", SCALAR_WAIT, "s_mov_b64 s[10:11], vcc"),
    "another register read between": (CHOOSE, "v_mov_b32_e32 v4, s12\n", REWRITE + "s_mov_b64 s[10:11], s[8:9]"),
    "a literal between": (CHOOSE, "v_mov_b32_e32 v4, 0x12345\n", REWRITE + "s_mov_b64 s[10:11], s[8:9]"),
    "two halves of one sum": (FIRST + CHANGE + SECOND, VECTOR_WAIT, READ),
    "two instructions before EXEC changes": (FIRST + OTHER * 2 + CHANGE + SECOND, VECTOR_WAIT, READ),
    "one before, one behind": (FIRST + OTHER + CHANGE + OTHER + SECOND, VECTOR_WAIT, READ),
    "four instructions before the reader": (FIRST + CHANGE + SECOND, OTHER * 5, READ),
    "three instructions around the change": (FIRST + OTHER * 2 + CHANGE, OTHER, SECOND + READ),
    "written anew": (FIRST + CHANGE + SECOND, FIRST, READ),
    "a load between": (FIRST + CHANGE + SECOND, "ds_load_b32 v9, v8\n", READ),
}  # fmt: skip
HARMLESS = {
    "one operand of two registers": "v_mov_b32_e32 v2, 0\n" + CHANGE + "v_mov_b32_e32 v3, 0\nv_add_f64 v[4:5], v[2:3], v[2:3]\n",
    "an operand whose last half came behind": "v_mov_b32_e32 v2, 0\n" + CHANGE
    + "v_mov_b32_e32 v3, 0\nv_add_f64 v[4:5], v[2:3], v[6:7]\n",
    "written by the vector unit": CHOOSE + "v_cmp_eq_u32_e64 s[8:9], 1, v2\ns_mov_b64 s[10:11], s[8:9]\n",
    "another mask": CHOOSE + "s_mov_b64 s[10:11], -1\ns_mov_b64 s[12:13], s[10:11]\n",
    "EXEC changed by a comparison": FIRST + "v_cmpx_eq_u32_e64 v8, v8\n" + SECOND + READ,
}  # fmt: skip


def _faults(bodies: list[str], wave_size: int = 64, target: str = "gfx1100") -> list[amdgpu.FaultRecord | None]:
    """What stops each program, if anything does."""
    mode = ".amdhsa_wavefront_size32 0" if wave_size == 64 else ""
    start = "v_mov_b32_e32 v8, 0\nds_store_b32 v8, v8\n"
    texts = [
        kernel_text(f"{start}{body}\ns_endpgm", target, name=f"k{k}", lds=64, mode=mode) for k, body in enumerate(bodies)
    ]
    program = amdgpu.load(kernels_object(texts, target, *(["+wavefrontsize64"] if wave_size == 64 else [])))
    found: list[amdgpu.FaultRecord | None] = []
    for number in range(len(bodies)):
        try:
            program.launch(f"k{number}", 1, wave_size, [np.zeros(64, np.uint32), 0])
        except amdgpu.SimulationFault as fault:
            found.append(fault.record)
        else:
            found.append(None)
    return found


@pytest.mark.parametrize("name", PAIRS)
def test_without_the_wait_it_is_a_fault(name: str) -> None:
    before, between, instruction = PAIRS[name]
    shorter = "".join(between.splitlines(keepends=True)[:-1])
    right, record = _faults([before + between + instruction, before + shorter + instruction])
    assert right is None
    assert record is not None
    assert record.kind == "hazard"
    last = instruction.strip().splitlines()[-1]
    assert record.instruction is not None
    assert record.instruction.split()[0].startswith(last.split()[0].removesuffix("_e32"))
    assert re.search(r"s_waitcnt_depctr (sa_sdst|va_vdst)\(0\) must be between", record.message)


@pytest.mark.parametrize("name", HARMLESS)
def test_no_wait_is_needed(name: str) -> None:
    assert _faults([HARMLESS[name]]) == [None]


@pytest.mark.parametrize("body", [FIRST + CHANGE.replace("_b64 exec", "_b32 exec_lo") + SECOND + READ,
                                  "v_cndmask_b32_e64 v3, v1, v2, s8\ns_mov_b32 s8, -1\ns_mov_b32 s10, s8\n"])  # fmt: skip
def test_waves_of_32_and_gfx12_need_none(body: str) -> None:
    assert _faults([body], 32) == [None]
    wide = body.replace("_b32 exec_lo", "_b64 exec").replace("s_mov_b32 s8, -1", "s_mov_b64 s[8:9], -1")
    assert _faults([wide.replace(", s8\n", ", s[8:9]\n", 1)], 64, "gfx1200") == [None]


# --- against LLVM


@attrs.frozen
class Step:
    """An instruction as text and in LLVM's machine form."""

    text: str
    machine: str


def _steps(rng: random.Random) -> list[Step]:
    steps = []
    for _ in range(rng.randint(6, 24)):
        a, b, c, d = (rng.randint(1, 4) for _ in range(4))
        pair = 2 * rng.randint(4, 6)
        scalars, machine = f"s[{pair}:{pair + 1}]", f"$sgpr{pair}_sgpr{pair + 1}"
        steps.append(
            rng.choice(
                [
                    Step(f"v_mov_b32_e32 v{d}, 0", f"$vgpr{d} = V_MOV_B32_e32 0, implicit $exec"),
                    Step(f"v_mov_b32_e32 v{d}, s20", f"$vgpr{d} = V_MOV_B32_e32 $sgpr20, implicit $exec"),
                    Step(f"v_add_nc_u32_e32 v{d}, v{a}, v{b}",
                         f"$vgpr{d} = V_ADD_U32_e32 $vgpr{a}, $vgpr{b}, implicit $exec"),
                    Step(f"v_fma_f32 v{d}, v{a}, v{b}, v{c}",
                         f"$vgpr{d} = V_FMA_F32_e64 0, $vgpr{a}, 0, $vgpr{b}, 0, $vgpr{c}, 0, 0, "
                         "implicit $mode, implicit $exec"),
                    Step(f"v_cndmask_b32_e64 v{d}, v{a}, v{b}, {scalars}",
                         f"$vgpr{d} = V_CNDMASK_B32_e64 0, $vgpr{a}, 0, $vgpr{b}, {machine}, implicit $exec"),
                    Step("s_mov_b64 exec, -1", "$exec = S_MOV_B64 -1"),
                    Step(f"s_mov_b64 {scalars}, -1", f"{machine} = S_MOV_B64 -1"),
                    Step(f"s_not_b64 s[14:15], {scalars}",
                         f"$sgpr14_sgpr15 = S_NOT_B64 {machine}, implicit-def dead $scc"),
                ]
            )
        )  # fmt: skip
    return steps


def _with_waits(programs: list[list[Step]], folder: Path) -> list[list[str]]:
    """The programs' text with the waits that LLVM puts in."""
    assert LLC is not None
    functions = []
    for number, steps in enumerate(programs):
        body = "".join(f"    {step.machine}\n" for step in steps)
        functions.append(f"---\nname: f{number}\nbody: |\n  bb.0:\n{body}    S_ENDPGM 0\n...\n")
    source = folder / "programs.mir"
    source.write_text("".join(functions))
    command = [LLC, "-mtriple=amdgcn-amd-amdhsa", "-mcpu=gfx1100", "-mattr=+wavefrontsize64,-wavefrontsize32",
               "-run-pass=post-RA-hazard-rec", str(source), "-o", "-"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = []
    for steps, function in zip(programs, done.stdout.split("name: ")[1:], strict=True):
        lines = [line.strip() for line in function.partition("body:")[2].splitlines()]
        rest, made = iter(steps), []
        for line in lines:
            if line.startswith("S_WAITCNT_DEPCTR"):
                made.append(f"s_waitcnt_depctr {int(line.split()[1]):#x}")
            elif " = " in line:
                made.append(next(rest).text)
        assert len(made) >= len(steps)
        result.append(made)
    return result


@needs_llc
def test_programs_that_llvm_has_put_waits_into(tmp_path: Path) -> None:
    """With the waits they are right; without the first wait for the vector unit what came behind it is at fault."""
    rng = random.Random(11)
    programs = [_steps(rng) for _ in range(150)]
    texts = _with_waits(programs, tmp_path)
    for text, record in zip(texts, _faults(["\n".join(text) for text in texts]), strict=True):
        assert record is None, text
    needed = [(text, text.index(VECTOR_WAIT.strip())) for text in texts if VECTOR_WAIT.strip() in text]
    assert len(needed) > 20
    shorter = ["\n".join([*text[:wait], text[wait + 1]]) for text, wait in needed]
    for (text, wait), record in zip(needed, _faults(shorter), strict=True):
        assert record is not None, text
        assert "va_vdst" in record.message
        assert record.instruction is not None
        assert record.instruction.split()[0] == text[wait + 1].split()[0]
