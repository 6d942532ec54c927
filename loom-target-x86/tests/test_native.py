"""The native runner: crashes, hangs and stray writes of the code stay in the child process."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loom_target_x86.abi import function_signature, kernel_signature
from loom_target_x86.assembler import Assembler
from loom_target_x86.image import image_of_code
from loom_target_x86.native import (
    NativeFault,
    NativeRunner,
    NativeTimeout,
    NativeUnavailable,
    check_host,
    host_features,
)


@pytest.fixture
def runner() -> Iterator[NativeRunner]:
    with NativeRunner(timeout=5) as runner:
        yield runner


def code(text: str) -> bytes:
    assembler = Assembler()
    assembler.assemble(text)
    return assembler.finish().data


def load(runner: NativeRunner, text: str, *types: str, results: tuple[str, ...] = ()) -> Any:
    try:
        return runner.load(code(text), [function_signature("f", types, results)])
    except NativeUnavailable as error:
        pytest.skip(str(error))


CRASHES = [
    ("mov_r32_rm32 %eax, [%rdi]; retnq", "SIGSEGV"),
    ("ud2; retnq", "SIGILL"),
    ("xor_r32_rm32 %ecx, %ecx; mov_r32_imm32 %eax, #1; cdq; div_rm32 %ecx; retnq", "SIGFPE"),
    ("int3; retnq", "SIGTRAP"),
    (".more:; push_r64 %rax; jmp @.more", "SIGSEGV"),  # the stack ends
    ("jmp_rm64 %rdi", "SIGSEGV"),
]


@pytest.mark.parametrize(("text", "name"), CRASHES)
def test_crashes_become_errors(runner: NativeRunner, text: str, name: str) -> None:
    program = load(runner, text, "i64")
    with pytest.raises(NativeFault) as caught:
        program.call("f", [16])
    assert caught.value.signal == name
    assert name in str(caught.value)
    # The next call gets a new process with the code loaded again.
    good = load(runner, "lea_r64_m %rax, [%rdi + 1]; retnq", "i64", results=("i64",))
    assert good.call("f", [41]) == [42]


def test_endless_code_is_stopped() -> None:
    with NativeRunner(timeout=0.5) as runner:
        program = load(runner, ".again:; jmp @.again")
        start = time.monotonic()
        with pytest.raises(NativeTimeout):
            program.call("f", [])
        assert time.monotonic() - start < 5
        assert runner._child is not None
        assert not runner._child.alive


def test_one_process_serves_many_calls(runner: NativeRunner) -> None:
    program = load(runner, "lea_r64_m %rax, [%rdi + %rsi]; retnq", "i64", "i64", results=("i64",))
    program.call("f", [1, 2])
    assert runner._child is not None
    first = runner._child._process.pid
    for number in range(50):
        assert program.call("f", [number, 1]) == [number + 1]
    assert runner._child._process.pid == first


@pytest.mark.parametrize(
    ("offset", "what"), [(4000, "wrote outside buffer 0"), (-4, "wrote outside buffer 0")]
)
def test_writes_just_outside_a_buffer_are_noticed(runner: NativeRunner, offset: int, what: str) -> None:
    program = load(runner, "mov_rm32_imm32 [%rdi + %rsi], #7; retnq", "buffer", "i64")
    buffer = np.zeros(1000, np.int32)
    with pytest.raises(NativeFault, match=what):
        program.call("f", [buffer, offset])
    program.call("f", [buffer, 3996])
    assert buffer[999] == 7


def test_accesses_beyond_the_page_crash(runner: NativeRunner) -> None:
    program = load(runner, "mov_r32_rm32 %eax, [%rdi + %rsi]; retnq", "buffer", "i64", results=("i32",))
    buffer = np.arange(1024, dtype=np.int32)
    assert program.call("f", [buffer, 4092]) == [1023]
    for offset in (4096, -4096 * 2):
        with pytest.raises(NativeFault) as caught:
            program.call("f", [buffer, offset])
        assert caught.value.signal == "SIGSEGV"
    with pytest.raises(NativeFault, match="SIGSEGV"):
        program.call("f", [np.zeros(0, np.int32), 0])


def test_code_cannot_be_written(runner: NativeRunner) -> None:
    # The function finds its own address as the return address of an inner call.
    text = "call @.next; .next:; pop_r64 %rax; mov_rm8_imm8 [%rax], #0x90; retnq"
    program = load(runner, text)
    with pytest.raises(NativeFault, match="SIGSEGV"):
        program.call("f", [])


def test_lost_callee_saved_registers_are_noticed(runner: NativeRunner) -> None:
    for name in ("rbp", "r12", "r13", "r14", "r15", "rbx"):
        program = load(runner, f"xor_r64_rm64 %{name}, %{name}; retnq")
        with pytest.raises(NativeFault, match="callee-saved"):
            program.call("f", [])


def test_read_only_buffers_stay_as_they_are(runner: NativeRunner) -> None:
    program = load(
        runner, "mov_rm32_imm32 [%rdi], #7; mov_r32_rm32 %eax, [%rdi]; retnq", "buffer", results=("i32",)
    )
    buffer = np.zeros(4, np.int32)
    buffer.flags.writeable = False
    assert program.call("f", [buffer]) == [7]
    assert buffer.tolist() == [0, 0, 0, 0]
    assert program.call("f", [bytes(8)]) == [7]


def test_large_buffers_travel(runner: NativeRunner) -> None:
    program = load(
        runner, "inc_rm64 [%rdi]; lea_r64_m %rax, [%rdi + %rsi]; inc_rm8 [%rax]; retnq", "buffer", "i64"
    )
    buffer = np.zeros(20_000_000, np.uint8)
    program.call("f", [buffer, len(buffer) - 1])
    assert buffer[0] == 1
    assert buffer[-1] == 1
    assert buffer.sum() == 2


def test_code_cannot_talk_to_the_runner(runner: NativeRunner, compile_c: Callable[..., bytes]) -> None:
    """Writing to the standard output, as stray debugging code might, does not disturb the protocol."""
    source = """
        long shout(void) {
            long result;
            __asm__ volatile("syscall" : "=a"(result) : "0"(1L), "D"(1L), "S"("hello"), "d"(5L)
                             : "rcx", "r11", "memory");
            return result;
        }
    """
    try:
        program = runner.load(compile_c(source), [function_signature("shout", [], ["i64"])])
    except NativeUnavailable as error:
        pytest.skip(str(error))
    assert program.call("shout", []) == [5]
    assert program.call("shout", []) == [5]


def test_no_workgroups_run_nothing(runner: NativeRunner) -> None:
    try:
        program = runner.load(code("ud2"), [kernel_signature("k", [])])
    except NativeUnavailable as error:
        pytest.skip(str(error))
    program.launch("k", (3, 0, 1), (1, 1, 1), [])
    with pytest.raises(NativeFault, match="SIGILL"):
        program.launch("k", (3, 1, 1), (1, 1, 1), [])


# -- hosts that cannot ----------------------------------------------------------------------------


def test_missing_features_are_named() -> None:
    image = image_of_code(code("vex_vfmadd231ss_xmm_xmm_xmmm32 %xmm0, %xmm1, %xmm2; retnq"))
    with pytest.raises(NativeUnavailable, match=r"no fma, which `vfmadd231ss xmm0, xmm1, xmm2` at 0x0 needs"):
        check_host(image, frozenset({"avx", "sse2"}))
    check_host(image, frozenset({"avx", "fma"}))
    check_host(image_of_code(code("addss_xmm_xmmm32 %xmm0, %xmm1")), frozenset())


def test_other_hosts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(NativeUnavailable, match=r"needs x86-64 Linux, and this is aarch64.*--device=sim"):
        check_host(image_of_code(code("retnq")))


def test_unreadable_cpuinfo(tmp_path: Path) -> None:
    with pytest.raises(NativeUnavailable, match="cannot read"):
        host_features(str(tmp_path / "absent"))
    (tmp_path / "cpuinfo").write_text("processor: 0\nflags\t\t: sse2 avx\n")
    assert host_features(str(tmp_path / "cpuinfo")) == {"sse2", "avx"}
    (tmp_path / "empty").write_text("processor: 0\n")
    with pytest.raises(NativeUnavailable, match="lists no processor flags"):
        host_features(str(tmp_path / "empty"))


def test_a_killed_parent_takes_the_child_along(tmp_path: Path) -> None:
    """Even while the child is in an endless loop it does not outlive the process that started it."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import sys\n"
        "from loom_target_x86.abi import function_signature\n"
        "from loom_target_x86.native import NativeRunner\n"
        "runner = NativeRunner(timeout=60)\n"
        "program = runner.load(bytes([0xEB, 0xFE]), [function_signature('f', [], [])])\n"
        "good = runner.load(bytes([0xC3]), [function_signature('f', [], [])])\n"
        "good.call('f', [])\n"
        "print(runner._child._process.pid, flush=True)\n"
        "program.call('f', [])\n"
    )
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    line = parent.stdout.readline()
    time.sleep(0.2)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    if not line.strip():
        pytest.skip("this host cannot run x86 code")
    child = int(line)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            os.kill(child, 0)
            with open(f"/proc/{child}/stat", encoding="ascii") as stat:
                if stat.read().rsplit(")")[1].split()[0] == "Z":
                    return
        except (ProcessLookupError, FileNotFoundError):
            return
        time.sleep(0.05)
    os.kill(child, 9)
    pytest.fail("the child is still running")


def test_start_up_imports_neither_numpy_nor_iced() -> None:
    """The compile path and the child stay light."""
    script = (
        "import sys, loom_target_x86.descriptors, loom_target_x86.object, loom_target_x86.native_child;"
        "print('numpy' in sys.modules, 'iced_x86' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", "False"]
