"""x86 code under Unicorn: what runs, what is refused, and what a misbehaving program is told."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("loom_target_x86", reason="loom-target-x86 is not installed")

import loom_sim.x86
from loom_sim.x86 import Program, SimulationFault, UnsupportedInstruction
from loom_target_x86.abi import Signature, function_signature, kernel_signature
from loom_target_x86.assembler import Assembler


def code(text: str) -> bytes:
    assembler = Assembler()
    assembler.assemble(text)
    return assembler.finish().data


def program(text: str, *types: str, results: tuple[str, ...] = (), **budgets: Any) -> Program:
    return loom_sim.x86.load(code(text), [function_signature("f", types, results)], **budgets)


def fault(call: Callable[[], object]) -> loom_sim.x86.FaultRecord:
    with pytest.raises(SimulationFault) as caught:
        call()
    return caught.value.record


@pytest.fixture
def compile_c(tmp_path: Path) -> Callable[..., Program]:
    clang = shutil.which("clang-19")
    if clang is None:
        pytest.skip("clang-19 is not installed")

    def build(source: str, signatures: list[Signature], *flags: str, **budgets: Any) -> Program:
        text, out = tmp_path / "unit.c", tmp_path / "unit.o"
        text.write_text(source)
        subprocess.run([clang, "-c", "-ffreestanding", "-O2", *flags, "-o", str(out), str(text)], check=True)
        return loom_sim.x86.load(out.read_bytes(), signatures, **budgets)

    return build


# -- programs -------------------------------------------------------------------------------------

C_SOURCE = """
#include <stdint.h>
struct stats { const float *x; float *mean; float *largest; int64_t columns; };
void row_stats(const struct stats *args, const uint32_t *dispatch) {
    const float *row = args->x + dispatch[0] * args->columns;
    float sum = 0, largest = row[0];
    for (int64_t i = 0; i < args->columns; i++) {
        sum += row[i];
        largest = row[i] > largest ? row[i] : largest;
    }
    args->mean[dispatch[0]] = sum / (float)args->columns;
    args->largest[dispatch[0]] = largest;
}
uint64_t collatz(uint64_t n) {
    uint64_t s = 0;
    for (; n != 1; s++) n = n & 1 ? 3 * n + 1 : n / 2;
    return s;
}
uint32_t fibonacci(uint32_t n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
"""
C_SIGNATURES = [
    kernel_signature("row_stats", ["buffer", "buffer", "buffer", "index"]),
    function_signature("collatz", ["i64"], ["i64"]),
    function_signature("fibonacci", ["i32"], ["i32"]),
]


@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_c_programs(compile_c: Callable[..., Program], level: str) -> None:
    sim = compile_c(C_SOURCE, C_SIGNATURES, level, "-fno-pic")
    x = np.random.default_rng(1).integers(-8, 8, (7, 33)).astype(np.float32)
    mean, largest = np.zeros(7, np.float32), np.zeros(7, np.float32)
    sim.launch("row_stats", (7, 1, 1), (1, 1, 1), [x, mean, largest, 33])
    np.testing.assert_array_equal(mean, x.sum(1) / np.float32(33))
    np.testing.assert_array_equal(largest, x.max(1))
    assert sim.call("collatz", [27], ["i64"]) == [111]
    assert sim.call("fibonacci", [15]) == [610]
    with pytest.raises(ValueError, match="returns"):
        sim.call("collatz", [27], ["i32"])


def test_counted_code_reports_instructions_and_traffic() -> None:
    text = "mov_r64_rm64 %rax, [%rdi]; add_rm64_imm8 [%rdi], #1; retnq"
    sim = program(text, "buffer", results=("i64",), counted=True)
    for number in range(2):  # every call is counted by itself
        assert sim.call("f", [np.array([number], np.int64)]) == [number]
        report = sim.last_report
        assert report is not None
        assert report.kernel == "f"
        assert dict(report.instructions) == {"mov": 1, "add": 1, "ret": 1}
        assert (report.loaded, report.stored) == (24, 8)  # twice the element, and the return address
    with pytest.raises(SimulationFault):
        sim.call("f", [np.zeros(0, np.int64)])
    assert sim.last_report is None


def test_counts_follow_calls(compile_c: Callable[..., Program]) -> None:
    sim = compile_c(C_SOURCE, C_SIGNATURES, "-O0", "-fno-pic", counted=True)
    assert sim.call("fibonacci", [15]) == [610]
    report = sim.last_report
    assert report is not None
    assert report.instructions["ret"] == 2 * 987 - 1  # calls of the naive recursion: twice the next number, less one


def test_machines_are_reused_and_buffers_do_not_leak() -> None:
    sim = program("mov_r64_rm64 %rax, [%rdi]; add_rm64_imm8 [%rdi], #1; retnq", "buffer", results=("i64",))
    for number in range(30):
        buffer = np.array([number] * (1 + number * 100), np.int64)
        assert sim.call("f", [buffer]) == [number]
        assert buffer[0] == number + 1
    machine = sim._machine
    assert machine is not None
    assert machine._buffers.regions == []


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("vex_vaddps_ymm_ymm_ymmm256 %ymm0, %ymm1, %ymm2", "vaddps ymm0, ymm1, ymm2"),
        # Unicorn would run this one as `addps xmm0, xmm2`.
        ("vex_vaddps_xmm_xmm_xmmm128 %xmm0, %xmm1, %xmm2", "vaddps xmm0, xmm1, xmm2"),
        ("vex_vfmadd231ss_xmm_xmm_xmmm32 %xmm0, %xmm1, %xmm2", "vfmadd231ss"),
        ("vex_shlx_r32_rm32_r32 %eax, %ecx, %edx", "shlx"),
        ("vex_vzeroupper", "vzeroupper"),
        ("evex_vaddps_xmm_k1z_xmm_xmmm128b32 %xmm0, %xmm1, %xmm2", "vaddps"),
    ],
)
def test_avx_code_is_refused_before_it_runs(text: str, name: str) -> None:
    with pytest.raises(UnsupportedInstruction, match=name) as caught:
        program(f"nopd; {text}; retnq")
    assert "x86:simd128" in str(caught.value)
    assert "offset 0x1" in str(caught.value)


def test_avx_code_is_refused_even_where_control_never_gets() -> None:
    with pytest.raises(UnsupportedInstruction, match="vpxor"):
        program("retnq; vex_vpxor_xmm_xmm_xmmm128 %xmm0, %xmm1, %xmm2")


@pytest.mark.parametrize(
    "text", ["syscall", "in_al_imm8 %al, #1", "hlt", "sysenter", "wrmsr", "int_imm8 #0x80"]
)
def test_code_that_leaves_the_program_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedInstruction, match="leaves the program"):
        program(f"{text}; retnq")


@pytest.mark.parametrize("text", ["sha1nexte_xmm_xmmm128 %xmm0, %xmm1", "aesenc_xmm_xmmm128 %xmm0, %xmm1"])
def test_other_extensions_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedInstruction, match="not simulated"):
        program(f"{text}; retnq")


def test_bytes_that_are_no_code_are_refused() -> None:
    with pytest.raises(UnsupportedInstruction, match="no x86-64 instruction"):
        loom_sim.x86.load(b"\x90\x06\xc3", [function_signature("f", [], [])])


# -- faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 4, 60, 64, 4000, 4096, 4100])
@pytest.mark.parametrize("width", [1, 4, 8, 16])
def test_every_step_outside_a_buffer_is_caught(size: int, width: int) -> None:
    load = {
        1: "movzx_r32_rm8 %eax",
        4: "mov_r32_rm32 %eax",
        8: "mov_r64_rm64 %rax",
        16: "movups_xmm_xmmm128 %xmm0",
    }
    sim = program(f"{load[width]}, [%rdi + %rsi]; retnq", "buffer", "i64")
    buffer = np.zeros(size, np.uint8)
    for offset in (0, size - width):
        if 0 <= offset <= size - width:
            sim.call("f", [buffer, offset])
    for offset in (-width, -1, size - width + 1, size, size + 100):
        record = fault(partial(sim.call, "f", [buffer, offset]))
        assert (record.kind, record.buffer) == ("read", 0)
        # Unicorn performs a 16-byte access as two halves and reports the one that is outside.
        assert (record.offset, record.size) in ((offset, min(width, 8)), (offset + 8, 8))
        assert record.instruction is not None
        assert "rdi+rsi" in record.instruction


def test_stray_writes_are_located_and_change_nothing() -> None:
    sim = program("nopd; mov_rm32_imm32 [%rdi + %rsi*4], #7; retnq", "buffer", "index", "buffer")
    first, second = np.zeros(10, np.int32), np.zeros(10, np.int32)
    record = fault(lambda: sim.call("f", [first, 10, second]))
    assert record.kind == "write"
    assert record.buffer == 0
    assert record.offset == 40
    assert record.code_offset == 1
    assert record.symbol == "f+0x1"
    assert record.instruction == "mov dword ptr [rdi+rsi*4], 7"
    assert "at offset 40 of buffer 0, which has 40 bytes" in record.message
    assert not first.any()
    sim.call("f", [first, 9, second])
    assert first[9] == 7


def test_the_faulting_workgroup_is_named() -> None:
    # rdi = arguments, rsi = dispatch: buffer[workgroup.x + 4 * workgroup.y] = 1.
    text = """
        mov_r64_rm64 %rdi, [%rdi]
        mov_r32_rm32 %eax, [%rsi + 4]
        shl_rm32_imm8 %eax, #2
        add_r32_rm32 %eax, [%rsi]
        mov_rm32_imm32 [%rdi + %rax*4], #1
        retnq
    """
    sim = loom_sim.x86.load(code(text), [kernel_signature("k", ["buffer"])])
    out = np.zeros((3, 4), np.int32)
    sim.launch("k", (4, 3, 1), (1, 1, 1), [out])
    assert out.all()
    record = fault(lambda: sim.launch("k", (4, 3, 1), (1, 1, 1), [out[:2].copy()]))
    assert record.workgroup == (0, 2, 0)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "xor_r32_rm32 %ecx, %ecx; mov_r32_imm32 %eax, #1; cdq; idiv_rm32 %ecx; retnq",
            "divide",
            "divided by zero",
        ),
        ("ud2; retnq", "invalid-instruction", "executed an invalid"),
        ("xor_r32_rm32 %eax, %eax; mov_r32_rm32 %eax, [%rax + 8]; retnq", "read", "null address 0x8"),
        ("mov_r64_imm64 %rax, #0x123456789000; jmp_rm64 %rax", "fetch", "jumped to 0x123456789000"),
        (".more:; push_r64 %rax; jmp @.more", "write", "bytes of stack"),
        ("xor_r32_rm32 %ebp, %ebp; retnq", "callee-saved", "callee-saved"),
        ("call @.next; .next:; pop_r64 %rax; mov_rm8_imm8 [%rax], #0x90; retnq", "write", "wrote 1 bytes"),
    ],
)
def test_other_faults(text: str, kind: str, message: str) -> None:
    record = fault(lambda: program(text).call("f", []))
    assert record.kind == kind
    assert message in record.message


def test_a_program_can_be_run_again_after_a_fault() -> None:
    sim = program("mov_r32_imm32 %eax, #84; cdq; idiv_rm32 %edi; retnq", "i32", results=("i32",))
    assert fault(lambda: sim.call("f", [0])).kind == "divide"
    assert sim.call("f", [2]) == [42]


# -- budgets --------------------------------------------------------------------------------------

COUNTDOWN = ".again:; sub_rm64_imm8 %rdi, #1; jne @.again; retnq"


def test_instruction_budget_is_exact() -> None:
    def ends(budget: int, rounds: int) -> bool:
        sim = program(COUNTDOWN, "i64", max_instructions=budget)
        try:
            sim.call("f", [rounds])
        except SimulationFault as error:
            return error.record.kind != "instruction-budget"
        return True

    need = next(budget for budget in range(1, 400) if ends(budget, 100))
    # The loop is two instructions a round; the rest is the fixed cost of one call.
    assert need > 200
    assert not ends(need + 1, 101)
    assert ends(need + 2, 101)


def test_time_budget() -> None:
    sim = program(".again:; jmp @.again", max_seconds=0.3)
    assert fault(lambda: sim.call("f", [])).kind == "time-budget"


def test_floating_point_environment_is_the_default_one() -> None:
    """Subnormals are kept and the rounding mode is nearest even, on every call."""
    text = "mulss_xmm_xmmm32 %xmm0, %xmm1; stmxcsr_m32 [%rdi]; retnq"
    sim = program(text, "buffer", "f32", "f32", results=("f32",))
    state = np.zeros(1, np.uint32)
    assert sim.call("f", [state, 2.0**-140, 0.5]) == [2.0**-141]
    assert state[0] & ~np.uint32(0x3F) == 0x1F80
