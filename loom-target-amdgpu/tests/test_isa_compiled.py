"""Code that clang-19 compiled: every instruction decodes, and its text is llvm-objdump's."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from loom_target_amdgpu.code_object.reader import read_code_object
from loom_target_amdgpu.isa.disasm import disassemble_code
from loom_target_amdgpu.isa.tables import family_table

CLANG, OBJDUMP = shutil.which("clang-19"), shutil.which("llvm-objdump-19")

SOURCE = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define ID __builtin_amdgcn_workitem_id_x()
kernel void dot_and_root(global float* x, global const float* y, float a, int n) {
  int i = __builtin_amdgcn_workgroup_id_x() * 256 + ID;
  float s = 0;
  for (int j = 0; j < n; j++) s = __builtin_fmaf(y[j * 7 + i], a, s);
  x[i] = __builtin_sqrtf(s) / (s + 1.0f);
}
kernel void doubles(global double* x, int n) {
  double s = x[ID];
  for (int j = 0; j < n; j++) s = s * s / (s + j);
  x[ID] = s;
}
kernel void halves(global half* x, global const half* y) {
  int i = ID;
  x[i] = x[i] * y[i] + (half)1.5;
  if (x[i] < y[i]) x[i + 1] = -x[i];
}
kernel void reduce(global int* x, local int* l, int n) {
  int i = ID;
  l[i] = x[i] % n;
  __builtin_amdgcn_s_barrier();
  for (int s = 128; s > 0; s >>= 1) {
    if (i < s) l[i] += l[i + s];
    __builtin_amdgcn_s_barrier();
  }
  x[i] = l[0];
  __atomic_fetch_add(&x[0], l[i], __ATOMIC_RELAXED);
}
kernel void integers(global long* x, global const char* c, global short* sh, ulong m) {
  int i = ID;
  x[i] = x[i] * m + c[i] + sh[i] / 3;
  sh[i] = (short)x[i];
}
kernel void vectors(global float4* x, global uint* o) {
  int i = ID;
  float4 v = x[i];
  float t[16];
  for (int j = 0; j < 16; j++) t[j] = v.x * j;
  o[i] = (uint)t[o[i] & 15] + __builtin_popcount(o[i]) + __builtin_clz(o[i] | 1);
  x[i] = v * v.wzyx;
}
"""


@pytest.mark.skipif(not (CLANG and OBJDUMP), reason="clang-19 or llvm-objdump-19 is not installed")
@pytest.mark.parametrize("optimize", ["-O3", "-O0"])
@pytest.mark.parametrize("target", ["gfx942", "gfx1100", "gfx1151", "gfx1200"])
def test_text_of_compiled_code_is_that_of_objdump(target: str, optimize: str, tmp_path: Path) -> None:
    source, output = tmp_path / "k.cl", tmp_path / "k.hsaco"
    source.write_text(SOURCE)
    command = [str(CLANG), "-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}"]
    subprocess.run([*command, "-nogpulib", optimize, str(source), "-o", str(output)], check=True)
    dump = subprocess.run(
        [str(OBJDUMP), "-d", str(output)], capture_output=True, text=True, check=True
    ).stdout
    expected = {int(m[2], 16): m[1] for m in re.finditer(r"^\t(.*?)\s*// ([0-9A-F]+):", dump, re.MULTILINE)}
    program = read_code_object(output.read_bytes())
    assert program.processor is not None
    table = family_table(program.processor.family)
    count = 0
    for kernel in program.kernels.values():
        code = program.read(kernel.entry_address, kernel.code_size)
        wave = kernel.descriptor.wave_size
        for address, _, text in disassemble_code(table, code, wave_size=wave, address=kernel.entry_address):
            theirs = re.sub(r"\s*<.*?>$", "", expected[address])
            assert text.split() == theirs.split(), f"{address:#x}"
            count += 1
    assert count > 300
