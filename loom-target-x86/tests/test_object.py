"""Objects: what binutils-like judges read, what a C program links and calls, and what hostile bytes get."""

from __future__ import annotations

import random
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loom_target_x86.abi import SIGNATURE_SECTION, function_signature, kernel_signature
from loom_target_x86.assembler import Assembler, Code
from loom_target_x86.descriptors import SIMD128, descriptor_set
from loom_target_x86.encode import EncodingError
from loom_target_x86.image import link_object, load_image
from loom_target_x86.object import (
    Constant,
    FunctionSymbol,
    ObjectContents,
    ObjectError,
    functions_of,
    write_object,
)

SIGNATURES = (
    function_signature("scale", ["f32"], ["f32"]),
    function_signature("divide", ["i64", "i64"], ["i64", "i64"]),
    function_signature("three", ["i32", "f64"], ["i64", "f64", "i64"]),
)


def build() -> bytes:
    table = descriptor_set(SIMD128).by_mnemonic
    assembler = Assembler()
    assembler.label("scale")
    assembler.emit(table["movss.load.symbol.xmm"], [1], [], {"symbol": "factor"})
    assembler.emit(table["mulss.xmm"], [0], [0, 1])
    assembler.call("offset_by_one")
    assembler.assemble("retnq")
    assembler.align()
    assembler.label("offset_by_one")  # local: no C program sees it
    assembler.emit(table["movss.load.symbol.xmm"], [1], [], {"symbol": "one"})
    assembler.emit(table["addss.xmm"], [0], [0, 1])
    assembler.assemble("retnq")
    assembler.align()
    assembler.label("divide")  # quotient and remainder in rax and rdx
    assembler.emit(table["mov"], [0], [7])
    assembler.emit(table["idiv.gpr64"], [0, 2], [0, 6])
    assembler.assemble("retnq")
    assembler.align()
    assembler.label("three")  # through the hidden pointer in rdi
    assembler.emit(table["movsxd.gpr64.gpr32"], [0], [6])
    assembler.emit(table["mov.store.gpr64"], [], [0, 7], {"disp32": 0})
    assembler.emit(table["movsd.store.xmm"], [], [0, 7], {"disp32": 8})
    assembler.emit(table["neg.gpr64"], [0], [0])
    assembler.emit(table["mov.store.gpr64"], [], [0, 7], {"disp32": 16})
    assembler.emit(table["mov"], [0], [7])
    assembler.assemble("retnq")
    code = assembler.finish()
    constants = (Constant("factor", struct.pack("<f", 2.5), 4), Constant("one", struct.pack("<f", 1.0), 4))
    functions = functions_of(code, [signature.name for signature in SIGNATURES])
    return write_object(ObjectContents(code, tuple(functions), constants, SIGNATURES))


@pytest.fixture(scope="module")
def data() -> bytes:
    return build()


def run(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_bytes_depend_on_the_contents_alone(data: bytes) -> None:
    assert build() == data


def test_readelf_reads_it(data: bytes, tmp_path: Path, tool: Callable[[str], str]) -> None:
    path = tmp_path / "x.o"
    path.write_bytes(data)
    result = subprocess.run(
        [tool("llvm-readelf-19"), "--all", str(path)], capture_output=True, text=True, check=True
    )
    assert "warning" not in result.stderr
    text = " ".join(result.stdout.split())
    assert "REL (Relocatable file)" in text
    assert "Advanced Micro Devices X86-64" in text
    assert "R_X86_64_PC32" in text
    for name, binding in (("scale", "GLOBAL"), ("divide", "GLOBAL"), ("offset_by_one", "LOCAL")):
        assert f"FUNC {binding} DEFAULT 1 {name}" in text
    assert "OBJECT LOCAL DEFAULT 3 factor" in text
    assert SIGNATURE_SECTION in text
    assert ".note.GNU-stack" in text


def test_objdump_disassembles_it(data: bytes, tmp_path: Path, tool: Callable[[str], str]) -> None:
    path = tmp_path / "x.o"
    path.write_bytes(data)
    text = run([tool("llvm-objdump-19"), "-d", "-r", "--no-show-raw-insn", str(path)])
    assert "<scale>:" in text
    assert "mulss" in text
    assert "idivq\t%rsi" in text
    assert "R_X86_64_PC32\tfactor-0x4" in text
    assert "(bad)" not in text
    assert "unknown" not in text


C_CALLER = r"""
#include <stdint.h>
#include <stdio.h>
struct two { _Alignas(8) int64_t q; _Alignas(8) int64_t r; };
struct three { _Alignas(8) int64_t a; _Alignas(8) double b; _Alignas(8) int64_t c; };
float scale(float);
struct two divide(int64_t, int64_t);
struct three three(int32_t, double);
int main(void) {
    struct two d = divide(-17, 5);
    struct three t = three(-3, 0.125);
    printf("%g %ld %ld %ld %g %ld\n", scale(3.0f), (long)d.q, (long)d.r, (long)t.a, t.b, (long)t.c);
    return 0;
}
"""


@pytest.mark.parametrize("linker", ["clang-19", "lld"])
def test_a_c_program_links_and_calls_it(
    data: bytes, tmp_path: Path, tool: Callable[[str], str], linker: str
) -> None:
    (tmp_path / "x.o").write_bytes(data)
    (tmp_path / "main.c").write_text(C_CALLER)
    command = [
        tool("clang-19"),
        "-O1",
        "-o",
        str(tmp_path / "main"),
        str(tmp_path / "main.c"),
        str(tmp_path / "x.o"),
    ]
    if linker == "lld":
        tool("ld.lld-19")
        command += ["-fuse-ld=lld-19", "-pie", "-Wl,--fatal-warnings"]
    subprocess.run(command, check=True, capture_output=True)
    assert run([str(tmp_path / "main")]) == "8.5 -3 -2 -3 0.125 3\n"


def test_runners_read_the_signatures_from_the_object(data: bytes, load: Callable[..., Any]) -> None:
    program = load(data)
    assert program.call("scale", [3.0]) == [8.5]
    assert program.call("divide", [-17, 5]) == [-3, -2]
    assert program.call("three", [-3, 0.125]) == [-3, 0.125, 3]


def test_absolute_relocations_follow_the_load_address(
    load: Callable[..., Any], compile_c: Callable[..., bytes]
) -> None:
    """A table of addresses in read-only data, as C compilers make for switches and function tables."""
    source = """
        static int twice(int x) { return x * 2; }
        static int thrice(int x) { return x * 3; }
        static int (*const table[])(int) = { twice, thrice };
        int pick(int which, int x) { return table[which](x); }
    """
    program = load(compile_c(source, "-fPIC"), [function_signature("pick", ["i32", "i32"], ["i32"])])
    assert program.call("pick", [0, 21]) == [42]
    assert program.call("pick", [1, 21]) == [63]


# -- refusals -------------------------------------------------------------------------------------


def test_truncated_objects_are_refused_at_every_length(data: bytes) -> None:
    for length in range(0, len(data) - 1, 7):
        with pytest.raises(ObjectError):
            link_object(data[:length])


def test_damaged_objects_never_cause_another_error(data: bytes) -> None:
    rng = random.Random(8)
    for _round in range(3000):
        damaged = bytearray(data)
        for _byte in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            load_image(bytes(damaged))
        except ObjectError:
            continue


def test_undefined_symbols_are_named() -> None:
    assembler = Assembler()
    assembler.label("f")
    assembler.call("memcpy")
    code = assembler.finish()
    data = write_object(ObjectContents(code, tuple(functions_of(code, ["f"]))))
    with pytest.raises(ObjectError, match="'memcpy' is not defined"):
        link_object(data)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("int counter; int next(void) { return ++counter; }", "writable variables"),
        ("int counter = 3; int next(void) { return ++counter; }", "writable variables"),
    ],
)
def test_writable_variables_are_refused(compile_c: Callable[..., bytes], source: str, message: str) -> None:
    with pytest.raises(ObjectError, match=message):
        link_object(compile_c(source))


def test_objects_of_other_machines_are_refused(data: bytes) -> None:
    other = bytearray(data)
    other[18:20] = (183).to_bytes(2, "little")
    with pytest.raises(ObjectError, match="not a relocatable object for x86-64"):
        link_object(bytes(other))
    with pytest.raises(ObjectError, match="no symbol 'g'"):
        load_image(data, [kernel_signature("g", [])])


def test_contradictory_contents_are_refused() -> None:
    code = Code(b"\xc3", {"f": 0}, ())
    symbol = FunctionSymbol("f", 0, 1)
    with pytest.raises(ObjectError, match="lies outside the code"):
        write_object(ObjectContents(code, (FunctionSymbol("f", 0, 2),)))
    with pytest.raises(ObjectError, match="two constants"):
        write_object(ObjectContents(code, (symbol,), (Constant("c", b""), Constant("c", b""))))
    with pytest.raises(ObjectError, match="names a function and a constant"):
        write_object(ObjectContents(code, (symbol,), (Constant("f", b""),)))
    with pytest.raises(ObjectError, match="no code for 'g'"):
        functions_of(code, ["g"])
    with pytest.raises(ObjectError, match="power of two"):
        write_object(ObjectContents(code, (symbol,), (Constant("c", b"", 3),)))


# -- branches -------------------------------------------------------------------------------------


def test_branches_are_as_short_as_their_distance_allows() -> None:
    for gap, size in ((0, 2), (127, 2), (128, 6), (100_000, 6)):
        assembler = Assembler()
        assembler.branch("ne", "end")
        assembler.data(b"\x90" * gap)
        assembler.label("end")
        assert len(assembler.finish().data) == size + gap


def test_branches_reach_their_labels(load: Callable[..., Any], make_object: Callable[..., bytes]) -> None:
    """Chains of forward and backward branches around padding of many sizes count how often they run."""
    rng = random.Random(3)
    assembler = Assembler()
    assembler.label("f")
    assembler.assemble("xor_r32_rm32 %eax, %eax")
    order = list(range(40))
    rng.shuffle(order)
    assembler.jump(order[0])
    where = {number: position for position, number in enumerate(order)}
    for number in range(40):
        assembler.data(b"\xcc" * rng.choice([0, 1, 60, 118, 119, 120, 121, 200]))
        assembler.label(number)
        assembler.assemble("add_rm32_imm8 %eax, #1")
        position = where[number]
        if position == 39:
            assembler.assemble("retnq")
        elif rng.random() < 0.5:
            assembler.jump(order[position + 1])
        else:
            assembler.assemble("test_rm32_r32 %eax, %eax")
            assembler.branch("ne", order[position + 1])
    program = load(make_object(assembler, [function_signature("f", [], ["i32"])]))
    assert program.call("f", []) == [40]


def test_label_mistakes_are_errors() -> None:
    assembler = Assembler()
    assembler.jump("nowhere")
    with pytest.raises(EncodingError, match="undefined label 'nowhere'"):
        assembler.finish()
    assembler = Assembler()
    assembler.label("twice")
    assembler.label("twice")
    with pytest.raises(EncodingError, match="defined twice"):
        assembler.finish()
    with pytest.raises(EncodingError, match="unknown condition"):
        assembler.branch("sometimes", "twice")
