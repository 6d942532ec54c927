"""Compiles test kernels with clang: for a GPU to a code object, for the CPU to a shared library."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

KERNELS = Path(__file__).with_name("amdgpu_kernels")
CLANG = shutil.which("clang-19")
LLVM_MC = shutil.which("llvm-mc-19")
LLD = shutil.which("ld.lld-19") or shutil.which("ld.lld")

needs_clang = pytest.mark.skipif(CLANG is None or LLD is None, reason="clang-19 and ld.lld-19 are not installed")
needs_llvm_mc = pytest.mark.skipif(LLVM_MC is None or LLD is None, reason="llvm-mc-19 and ld.lld-19 are not installed")


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"


@cache
def gpu_object(source: Path, processor: str, optimize: str, *flags: str) -> bytes:
    """A linked code object of an OpenCL C file, compiled without any device library."""
    assert CLANG is not None
    with TemporaryDirectory() as folder:
        output = Path(folder) / "kernels.hsaco"
        _run([CLANG, "-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", f"-mcpu={processor}", "-nogpulib",
              f"-O{optimize}", "-ffp-contract=off", "-cl-fp32-correctly-rounded-divide-sqrt", "-w", "-DGPU=1", *flags,
              str(source), "-o", str(output)])  # fmt: skip
        return output.read_bytes()


@cache
def cpu_library(source: Path) -> ctypes.CDLL:
    """The same file compiled for this machine."""
    assert CLANG is not None
    folder = TemporaryDirectory()
    output = Path(folder.name) / "kernels.so"
    _run([CLANG, "-O1", "-ffp-contract=off", "-mf16c", "-mfma", "-w", "-shared", "-fPIC", "-fuse-ld=lld", str(source),
          "-lm", "-o", str(output)])  # fmt: skip
    library = ctypes.CDLL(str(output))
    library._folder = folder  # keeps the file for as long as the library
    return library


@cache
def assemble(text: str, processor: str, *attributes: str) -> bytes:
    """A linked code object of hand-written assembly."""
    assert LLVM_MC is not None
    assert LLD is not None
    with TemporaryDirectory() as folder:
        source, middle, output = (Path(folder) / n for n in ("k.s", "k.o", "k.hsaco"))
        source.write_text(text)
        _run([LLVM_MC, "-triple=amdgcn-amd-amdhsa", f"-mcpu={processor}", "-filetype=obj",
              *(f"-mattr={a}" for a in attributes), str(source), "-o", str(middle)])  # fmt: skip
        _run([LLD, "-shared", str(middle), "-o", str(output)])
        return output.read_bytes()
