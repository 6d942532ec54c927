"""Wait encodings: immediates against llvm-mc-19's text."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from loom_target_amdgpu.isa.waits import (
    WAITCNT_FIELDS,
    Counter,
    depctr_immediate,
    maximum,
    same_counter,
    waitcnt_immediate,
)

LLVM_MC = shutil.which("llvm-mc-19")


@pytest.mark.skipif(LLVM_MC is None, reason="llvm-mc-19 is not installed")
@pytest.mark.parametrize(("family", "cpu"), [("gfx942", "gfx942"), ("gfx11", "gfx1100")])
def test_immediates_are_those_of_the_assembler(family: str, cpu: str) -> None:
    cases: list[dict[str, int]] = [{}]
    for field in WAITCNT_FIELDS[family]:
        cases += [{field.name: count} for count in range(field.maximum + 1)]
    cases += [{"vmcnt": 33, "lgkmcnt": 5}, {"vmcnt": 63, "expcnt": 1, "lgkmcnt": 0}]
    lines = []
    for counts in cases:
        full = {field.name: field.maximum for field in WAITCNT_FIELDS[family]} | counts
        lines.append("s_waitcnt " + " ".join(f"{name}({count})" for name, count in full.items()))
    assert LLVM_MC is not None
    command = [LLVM_MC, "-arch=amdgcn", f"-mcpu={cpu}", "-show-encoding"]
    run = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    encoded = [line.split("encoding: [")[1] for line in run.stdout.splitlines() if "encoding" in line]
    for counts, item in zip(cases, encoded, strict=True):
        low, high = (int(byte, 16) for byte in item.split("]")[0].split(",")[:2])
        assert waitcnt_immediate(family, counts) == low | high << 8, counts


@pytest.mark.skipif(LLVM_MC is None, reason="llvm-mc-19 is not installed")
@pytest.mark.parametrize(("cpu", "mnemonic"), [("gfx1100", "s_waitcnt_depctr"), ("gfx1200", "s_wait_alu")])
def test_alu_wait_immediates_are_those_of_the_assembler(cpu: str, mnemonic: str) -> None:
    cases = [{"va_vdst": 0}, {"sa_sdst": 0}, {"va_sdst": 2, "vm_vsrc": 3}, {"va_vcc": 0, "va_ssrc": 0}]
    lines = [mnemonic + " " + " ".join(f"depctr_{k}({v})" for k, v in counts.items()) for counts in cases]
    assert LLVM_MC is not None
    command = [LLVM_MC, "-arch=amdgcn", f"-mcpu={cpu}", "-show-encoding"]
    run = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    encoded = [line.split("encoding: [")[1] for line in run.stdout.splitlines() if "encoding" in line]
    for counts, item in zip(cases, encoded, strict=True):
        low, high = (int(byte, 16) for byte in item.split("]")[0].split(",")[:2])
        assert depctr_immediate(counts) == low | high << 8, counts


def test_counters_shared_by_kinds() -> None:
    assert same_counter("gfx942", Counter.LOAD, Counter.STORE)
    assert not same_counter("gfx11", Counter.LOAD, Counter.STORE)
    assert same_counter("gfx11", Counter.LDS, Counter.SCALAR)
    assert not same_counter("gfx12", Counter.LDS, Counter.SCALAR)
    assert maximum("gfx942", Counter.SCALAR) == 15
    assert maximum("gfx11", Counter.SCALAR) == 63
    assert maximum("gfx12", Counter.SCALAR) == 31


def test_unknown_fields_are_errors() -> None:
    with pytest.raises(KeyError, match="no 'vscnt'"):
        waitcnt_immediate("gfx11", {"vscnt": 0})
    with pytest.raises(KeyError, match="no ALU wait field 'x'"):
        depctr_immediate({"x": 0})
