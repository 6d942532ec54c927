"""ALU delays and clauses: where LLVM puts them in the same code, and what our own kernels look like."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled_code import CLANG, compile_c

from loom import api
from loom_target_amdgpu.clauses import clause_kind, insert_clauses
from loom_target_amdgpu.code_object.reader import read_code_object
from loom_target_amdgpu.delays import insert_delays
from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.isa.disasm import disassemble_code
from loom_target_amdgpu.isa.tables import family_table
from loom_target_amdgpu.machine_code import Assembler

SOURCE = """\
#define KERNEL __attribute__((amdgpu_kernel, visibility("protected"))) void
static unsigned lane(void) { return __builtin_amdgcn_workitem_id_x(); }

KERNEL chain(__attribute__((address_space(1))) float *x, float a, float b) {
  float v = x[lane()];
  float w = x[lane() + 64];
  for (int i = 0; i < 7; i++) { v = v * a + b * w; w = w * v - a; }
  x[lane()] = v + w;
}

KERNEL exponential(__attribute__((address_space(1))) float *x) {
  float v = x[lane()], w = x[lane() + 32];
  float e = __builtin_amdgcn_exp2f(v), f = __builtin_amdgcn_exp2f(w * 2.0f);
  x[lane()] = e * v + __builtin_amdgcn_rcpf(f + e) * w;
}

KERNEL scalars(__attribute__((address_space(1))) int *x, int n, int m) {
  int s = n * 5 + m, t = (s ^ m) * n;
  for (int i = 0; i < n; i++) { s += t >> (i & 3); t ^= s * 3; x[lane() + s] = t; }
  x[lane()] = s + t;
}

KERNEL branches(__attribute__((address_space(1))) unsigned *x, unsigned n) {
  unsigned v = x[lane()];
  while (v > n) v = v & 1 ? v * 3 + 1 : v >> 1;
  x[lane()] = v / n + v % 7;
}

KERNEL doubles(__attribute__((address_space(1))) double *x, double a) {
  double v = x[lane()];
  x[lane()] = v * a + v / 3.0;
}
"""
NAMES = ("chain", "exponential", "scalars", "branches", "doubles")


def listing(blocks: list[CodeBlock]) -> list[tuple[str, int]]:
    """Mnemonic and immediate of every instruction."""
    return [(code.row.mnemonic, code.codes.get("simm16", 0)) for block in blocks for code in block.code]


def without(blocks: list[CodeBlock], mnemonic: str) -> list[CodeBlock]:
    for block in blocks:
        block.code = [code for code in block.code if code.row.mnemonic != mnemonic]
    return blocks


@pytest.mark.skipif(CLANG is None, reason="clang-19 is not installed")
@pytest.mark.parametrize("processor", ["gfx1100", "gfx1151", "gfx1200"])
def test_delays_stand_where_llvm_puts_them(processor: str, tmp_path: Path) -> None:
    kernels = compile_c(SOURCE, processor, tmp_path)
    assert set(NAMES) <= set(kernels)
    family = "gfx12" if processor == "gfx1200" else "gfx11"
    compared = 0
    for name in NAMES:
        theirs = listing(kernels[name])
        blocks = without(kernels[name], "s_delay_alu")
        count = insert_delays(blocks, Assembler(family, 32, 2))
        ours = listing(blocks)
        assert ours == theirs, name
        compared += count
    assert compared > 20


CLAUSES = """\
#define GLOBAL __attribute__((address_space(1)))
#define LDS __attribute__((address_space(3)))
#define KERNEL __attribute__((amdgpu_kernel, visibility("protected"))) void
static unsigned lane(void) { return __builtin_amdgcn_workitem_id_x(); }

KERNEL loads(GLOBAL float *x, GLOBAL float *y, GLOBAL float *z) {
  unsigned i = lane();
  z[i] = x[i] * y[i] + x[i + 1000] * y[i + 1000];
  z[i + 99] = x[i + 5000] - y[i + 5000];
}

KERNEL stores(GLOBAL float *x, float a) {
  for (int i = 0; i < 40; i++) x[lane() + 300 * i] = a;
}

KERNEL scalars(GLOBAL int *x, GLOBAL int *q, GLOBAL const int *restrict y, int n) { x[lane()] = y[n] + y[n + 9] + q[n]; }

extern LDS float s[];
KERNEL storage(GLOBAL float *x) {
  unsigned i = lane();
  s[i] = x[i];
  __builtin_amdgcn_s_barrier();
  x[i] = s[i ^ 1] + s[i ^ 2] * s[i ^ 7];
}
"""
CLAUSE_NAMES = ("loads", "stores", "scalars", "storage")


def clauses(blocks: list[CodeBlock]) -> list[range]:
    """Numbers, without clause instructions, of what each clause holds."""
    found = []
    number = 0
    for mnemonic, immediate in listing(blocks):
        if mnemonic == "s_clause":
            found.append(range(number, number + immediate + 1))
        else:
            number += 1
    return found


@pytest.mark.skipif(CLANG is None, reason="clang-19 is not installed")
@pytest.mark.parametrize("processor", ["gfx1100", "gfx1151", "gfx1200"])
def test_clauses_hold_what_llvm_joins(processor: str, tmp_path: Path) -> None:
    """LLVM joins accesses with a common base; ours are the same or larger, and hold loads or stores of one unit."""
    kernels = compile_c(CLAUSES, processor, tmp_path)
    family = "gfx12" if processor == "gfx1200" else "gfx11"
    compared = 0
    for name in CLAUSE_NAMES:
        theirs = clauses(without(kernels[name], "s_delay_alu"))
        blocks = without(kernels[name], "s_clause")
        plain = [code for block in blocks for code in block.code]
        insert_clauses(blocks, Assembler(family, 32, 2))
        ours = clauses(blocks)
        for run in theirs:
            assert any(set(run) <= set(mine) for mine in ours), (name, run)
            compared += 1
        for mine in ours:
            assert len({clause_kind(plain[number]) for number in mine}) == 1
            assert clause_kind(plain[mine.start]) is not None
        assert name != "storage" or not any(plain[n].row.format == "DS" for mine in ours for n in mine)
    assert compared >= 4


def test_our_kernels_have_clauses_and_delays() -> None:
    lines = assembly(EXAMPLE, "amdgpu:gfx1100")
    at = next(number for number, line in enumerate(lines) if line.startswith("global_load"))
    assert lines[at - 1].split() == ["s_clause", "0x1"]
    assert lines[at + 1].startswith("global_load")
    add = next(number for number, line in enumerate(lines) if line.startswith("v_add_f32"))
    assert "s_delay_alu instid0(VALU_DEP_1)" in lines[add - 1]
    assert not any("s_clause" in line or "s_delay" in line for line in assembly(EXAMPLE, "amdgpu:gfx942"))


EXAMPLE = """\
kernel.def export("k") @k() {
  %one = index.constant 1 : index
  %lanes = index.constant 64 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%lanes, %one, %one) : index
} launch(%x: buffer, %y: buffer) {
  %lane = kernel.workitem.id<x> : index
  %start = index.constant 0 : offset
  %xs = buffer.view %x[%start] : buffer -> view<64xf32>
  %ys = buffer.view %y[%start] : buffer -> view<64xf32>
  %a = view.load %xs[%lane] : view<64xf32> -> f32
  %b = view.load %ys[%lane] : view<64xf32> -> f32
  %c = scalar.mulf %a, %b : f32
  %d = scalar.addf %c, %b : f32
  view.store %d, %xs[%lane] : f32, view<64xf32>
  kernel.return
}
"""


def assembly(text: str, target: str) -> list[str]:
    made = api.compile(api.load_bytes(text.encode(), "m"), (), target)
    code_object = read_code_object(made.result.primary.data)
    assert code_object.processor is not None
    (kernel,) = code_object.kernels.values()
    code = code_object.read(kernel.entry_address, kernel.code_size)
    table = family_table(code_object.processor.family)
    return [line for _, _, line in disassemble_code(table, code, wave_size=code_object.processor.wave)]
