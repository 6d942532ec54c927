"""Compiles test kernels with clang: for a GPU to a code object, for the CPU to a shared library."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytest.importorskip("loom_target_amdgpu", reason="the emulator decodes with loom-target-amdgpu")

KERNELS = Path(__file__).with_name("amdgpu_kernels")
CLANG = shutil.which("clang-19")
LLVM_MC = shutil.which("llvm-mc-19")
LLD = shutil.which("ld.lld-19") or shutil.which("ld.lld")

needs_clang = pytest.mark.skipif(CLANG is None or LLD is None, reason="clang-19 and ld.lld-19 are not installed")
needs_llvm_mc = pytest.mark.skipif(LLVM_MC is None or LLD is None, reason="llvm-mc-19 and ld.lld-19 are not installed")

TARGETS = ("gfx942", "gfx1100", "gfx1151", "gfx1200")


def configurations(*everyday: tuple[str, str]) -> list[tuple[str, str]]:
    """Processors and optimization levels to compile for: every pair when `LOOM_FOREIGN=full` asks for it.

    Args:
        everyday: the pairs that are tried otherwise.
    """
    if os.environ.get("LOOM_FOREIGN") == "full":
        return [(target, level) for target in TARGETS for level in ("0", "2", "3")]
    return list(everyday)


_FOLDER = TemporaryDirectory()
"""Shared libraries must stay on disk for as long as they are loaded."""


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"


@cache
def gpu_object(source: Path, processor: str, optimize: str, *flags: str) -> bytes:
    """A linked code object of an OpenCL C file, compiled without any device library."""
    assert CLANG is not None
    with TemporaryDirectory() as folder:
        output = Path(folder) / "kernels.hsaco"
        _run(
            [
                CLANG,
                "-x",
                "cl",
                "-cl-std=CL2.0",
                "-target",
                "amdgcn-amd-amdhsa",
                f"-mcpu={processor}",
                "-nogpulib",
                f"-O{optimize}",
                "-ffp-contract=off",
                "-cl-fp32-correctly-rounded-divide-sqrt",
                "-w",
                "-DGPU=1",
                *flags,
                str(source),
                "-o",
                str(output),
            ]
        )
        return output.read_bytes()


@cache
def cpu_library(source: Path) -> ctypes.CDLL:
    """The same file compiled for this machine."""
    assert CLANG is not None
    output = Path(_FOLDER.name) / f"{source.stem}.so"
    _run(
        [
            CLANG,
            "-O1",
            "-ffp-contract=off",
            "-mf16c",
            "-mfma",
            "-w",
            "-shared",
            "-fPIC",
            "-fuse-ld=lld",
            str(source),
            "-lm",
            "-o",
            str(output),
        ]
    )
    return ctypes.CDLL(str(output))


@cache
def assemble(text: str, processor: str, *attributes: str) -> bytes:
    """A linked code object of hand-written assembly."""
    assert LLVM_MC is not None
    assert LLD is not None
    with TemporaryDirectory() as folder:
        source, middle, output = (Path(folder) / n for n in ("k.s", "k.o", "k.hsaco"))
        source.write_text(text)
        _run(
            [
                LLVM_MC,
                "-triple=amdgcn-amd-amdhsa",
                f"-mcpu={processor}",
                "-filetype=obj",
                *(f"-mattr={a}" for a in attributes),
                str(source),
                "-o",
                str(middle),
            ]
        )
        _run([LLD, "-shared", str(middle), "-o", str(output)])
        return output.read_bytes()


@cache
def encoding(text: str, processor: str) -> bytes:
    """The bytes LLVM's assembler gives one instruction."""
    assert LLVM_MC is not None
    command = [LLVM_MC, "-triple=amdgcn-amd-amdhsa", f"-mcpu={processor}", "-show-encoding"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return bytes(int(b, 16) for b in done.stdout.partition("encoding: [")[2].partition("]")[0].split(","))


def kernel_text(
    body: str,
    processor: str,
    *,
    name: str = "k",
    buffers: int = 1,
    vgprs: int = 32,
    lds: int = 0,
    scratch: int = 0,
    ids: int = 0,
    mode: str = "",
) -> tuple[str, str]:
    """Assembly of one kernel whose arguments are buffers and, after them, one 32-bit value.

    At entry s[0:1] holds the argument address, s2 the workgroup id x (on gfx12 it is ttmp9) and v0 the work-item id.
    """
    wave32 = not processor.startswith("gfx9")
    arguments = "\n".join(
        f"      - {{.size: 8, .offset: {8 * k}, .value_kind: global_buffer, .address_space: global}}"
        for k in range(buffers)
    )
    registers = f".amdhsa_next_free_vgpr {vgprs if wave32 else 2 * vgprs}"
    if not wave32:
        registers += f"\n  .amdhsa_accum_offset {vgprs}"
    if "denorm_mode_32" not in mode:
        mode += "\n  .amdhsa_float_denorm_mode_32 3"
    size = 8 * buffers + 4
    return (
        f"""
.text
.globl {name}
.p2align 8
.type {name},@function
{name}:
{body}
.L{name}_end: .size {name}, .L{name}_end-{name}
.section .rodata,"a"
.p2align 6
.amdhsa_kernel {name}
  {registers}
  .amdhsa_next_free_sgpr 32
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_kernarg_size {size}
  .amdhsa_group_segment_fixed_size {lds}
  .amdhsa_private_segment_fixed_size {scratch}
  .amdhsa_enable_private_segment {int(scratch > 0)}
  .amdhsa_system_vgpr_workitem_id {ids}
  {mode}
.end_amdhsa_kernel
""",
        f"""
  - .name: {name}
    .symbol: {name}.kd
    .kernarg_segment_size: {size}
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: {scratch}
    .wavefront_size: {32 if wave32 else 64}
    .sgpr_count: 32
    .vgpr_count: {vgprs}
    .max_flat_workgroup_size: 1024
    .args:
{arguments}
      - {{.size: 4, .offset: {8 * buffers}, .value_kind: by_value}}
""",
    )


def kernels_object(kernels: list[tuple[str, str]], processor: str, *attributes: str) -> bytes:
    """A code object of kernels written with `kernel_text`."""
    code = "".join(k[0] for k in kernels)
    metadata = "".join(k[1] for k in kernels)
    text = f"""
.amdgcn_target "amdgcn-amd-amdhsa--{processor}"
.amdhsa_code_object_version 5
{code}
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--{processor}
amdhsa.kernels:{metadata}
...
.end_amdgpu_metadata
"""
    return assemble(text, processor, *attributes)
