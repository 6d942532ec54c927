"""Line tables: what the compiler writes and what the reader makes of any compiler's, judged by LLVM's tools."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from loom import api
from loom.ir.diagnostics import LoomError
from loom.tools.compile import main as loom_compile
from loom_target_amdgpu.code_object import elf_format
from loom_target_amdgpu.code_object.line_table import LineTableError, read_line_table
from loom_target_amdgpu.code_object.reader import CodeObject, read_code_object
from loom_target_amdgpu.isa.decode import decode
from loom_target_amdgpu.isa.disasm import disassemble
from loom_target_amdgpu.isa.tables import family_table

CLANG, DWARFDUMP, OBJDUMP = (shutil.which(f"{name}-19") for name in ("clang", "llvm-dwarfdump", "llvm-objdump"))
needs_llvm = pytest.mark.skipif(not (DWARFDUMP and OBJDUMP), reason="llvm-dwarfdump-19, llvm-objdump-19 are missing")
needs_clang = pytest.mark.skipif(
    not (CLANG and shutil.which("ld.lld-19") and DWARFDUMP), reason="clang-19, ld.lld-19 or LLVM's tools are missing"
)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TARGETS = ("gfx942", "gfx1100", "gfx1200")
TWO_KERNELS = """\
kernel.def export("first") @first() {
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%one, %one, %one) : index
} launch(%z: buffer) {
  %start = index.constant 0 : offset
  %zv = buffer.view %z[%start] : buffer -> view<1xf32>
  %at = index.constant 0 : index
  %v = scalar.constant 1.0 : f32
  view.store %v, %zv[%at] : f32, view<1xf32>
  kernel.return
}

kernel.def export("second") @second() {
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%one, %one, %one) : index
} launch(%z: buffer) {
  %start = index.constant 0 : offset
  %zv = buffer.view %z[%start] : buffer -> view<1xi32>
  %at = index.constant 0 : index
  %v = scalar.constant 7 : i32
  view.store %v, %zv[%at] : i32, view<1xi32>
  kernel.return
}
"""
C_SOURCE = """\
#include "twice.h"
__attribute__((amdgpu_kernel)) void k(int *p, int n) {
  for (int i = 0; i < n; ++i)
    if (p[i] & 1)
      p[i] = twice(p[i]) + i;
    else
      p[i] /= 3;
}
"""
C_HEADER = """\
static inline int twice(int x) {
  return x * 2;
}
"""


def _tool(command: str | None, *arguments: str, cwd: Path | None = None) -> str:
    assert command is not None
    done = subprocess.run([command, *arguments], capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _compiled(source: str, target: str, *, name: str = "k.loom", debug_info: bool = True) -> bytes:
    module = api.load_bytes(source.encode(), name)
    return api.compile(module, (), f"amdgpu:{target}", options={"debug_info": debug_info}).result.primary.data


def _dumped_rows(path: Path, folder: str = "") -> dict[int, tuple[str, int, int] | None]:
    """The rows as LLVM's tool prints them: address to file, line and column, or to nothing. The last of an address."""
    text = _tool(DWARFDUMP, "--debug-line", str(path))
    found: dict[int, tuple[str, int, int] | None] = {}
    for table in text.split("debug_line[")[1:]:
        first = 0 if re.search(r"^ *version: 5", table, re.MULTILINE) else 1
        names = re.findall(r'file_names\[ *\d+\]:\n +name: "([^"]*)"\n +dir_index: (\d+)', table)
        directories = re.findall(r'include_directories\[ *\d+\] = "([^"]*)"', table)
        for line in table.splitlines():
            row = re.match(r"0x([0-9a-f]{16}) +(\d+) +(\d+) +(\d+) ", line)
            if row is None:
                continue
            address, number, column, file = int(row[1], 16), int(row[2]), int(row[3]), int(row[4])
            if number == 0 or "end_sequence" in line:
                found[address] = None
                continue
            name, directory = names[file - first]
            if int(directory):
                name = f"{directories[int(directory) - first]}/{name}"
            found[address] = (name, number, column)
    return found


def _read_rows(data: bytes) -> dict[int, tuple[str, int, int] | None]:
    table = read_line_table(data)
    found: dict[int, tuple[str, int, int] | None] = {}
    for row in table.rows():
        found[row.address] = None if row.place is None else (row.place.file, row.place.line, row.place.column)
    return found


def _instructions(code: CodeObject) -> list[tuple[int, str]]:
    """Addresses and assembly of the kernels' instructions."""
    assert code.processor is not None
    table = family_table(code.processor.family)
    found = []
    for kernel in code.kernels.values():
        data = code.read(kernel.entry_address, kernel.code_size)
        at = 0
        while at < len(data):
            decoded = decode(table, data, at, wave_size=kernel.descriptor.wave_size)
            found.append((kernel.entry_address + at, disassemble(decoded, wave_size=kernel.descriptor.wave_size)))
            at += decoded.size
    return found


@needs_llvm
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("example", ["saxpy", "tiled_matmul"])
def test_tables_are_sound_and_read_back(example: str, target: str, tmp_path: Path) -> None:
    data = _compiled((EXAMPLES / f"{example}.loom").read_text(), target)
    path = tmp_path / "k.hsaco"
    path.write_bytes(data)
    assert "No errors." in _tool(DWARFDUMP, "--verify", str(path))
    rows = _dumped_rows(path)
    assert len(rows) > 8
    assert _read_rows(data) == rows


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_loaded_is_the_same_without_debug_information(target: str) -> None:
    source = (EXAMPLES / "tiled_matmul.loom").read_text()
    plain = read_code_object(_compiled(source, target, debug_info=False))
    assert not read_line_table(_compiled(source, target, debug_info=False))
    with_lines = read_code_object(_compiled(source, target))
    assert with_lines.kernels == plain.kernels
    assert with_lines.symbols == plain.symbols
    header = elf_format.ELF_HEADER.size  # it says where the section headers are, behind everything that is loaded
    assert [s.data[0 if s.address else header :] for s in with_lines.segments] == [
        s.data[0 if s.address else header :] for s in plain.segments
    ]


def test_same_input_same_bytes() -> None:
    assert _compiled(TWO_KERNELS, "gfx1100") == _compiled(TWO_KERNELS, "gfx1100")


@pytest.mark.parametrize("example", ["tiled_matmul", "row_moments"])
@pytest.mark.parametrize("target", TARGETS)
def test_every_instruction_has_a_line(target: str, example: str) -> None:
    """Waits, moves and address arithmetic too: they serve an instruction that somebody wrote."""
    source = (EXAMPLES / f"{example}.loom").read_text()
    data = _compiled(source, target)
    table = read_line_table(data)
    lines = source.splitlines()
    for address, text in _instructions(read_code_object(data)):
        place = table.at(address)
        assert place is not None, f"{address:#x} {text}"
        assert place.file == "k.loom"
        assert 1 <= place.column <= len(lines[place.line - 1])
        if text.startswith(("ds_store", "global_store", "buffer_store")):
            assert "view.store" in lines[place.line - 1], text
        if text.startswith("s_barrier") or "barrier_signal" in text:
            assert "kernel.barrier" in lines[place.line - 1]


def test_several_kernels() -> None:
    data = _compiled(TWO_KERNELS, "gfx1100")
    code, table = read_code_object(data), read_line_table(data)
    declared = {"first": 1, "second": 13}
    for name, first in declared.items():
        kernel = code.kernels[name]
        places = [table.at(kernel.entry_address + k) for k in range(0, kernel.code_size, 4)]
        assert {first <= place.line <= first + 10 for place in places if place is not None} == {True}
        assert table.at(kernel.entry_address + kernel.code_size) is None  # the filling behind it
        (stored,) = table.addresses("k.loom", first + 8)
        assert kernel.entry_address <= stored < kernel.entry_address + kernel.code_size
    assert table.addresses("k.loom", 2) == ()
    assert table.addresses("other.loom", 9) == ()


def test_lines_of_several_files() -> None:
    """What is inlined from a library keeps the library's name and lines."""
    helper = "func.def public inline @triple(%x: f32) -> (f32) {\n  %k = scalar.constant 3.0 : f32\n"
    helper += "  %y = scalar.mulf %x, %k : f32\n  func.return %y : f32\n}\n"
    main = (
        TWO_KERNELS.partition("\n\nkernel")[0].replace(
            "  view.store %v",
            "  %w = view.load %zv[%at] : view<1xf32> -> f32\n  %t = func.call @triple(%w) : (f32) -> (f32)\n"
            "  view.store %t",
        )
        + "\n\nfunc.decl @triple(%x: f32) -> (f32)\n"
    )
    module = api.link([api.load_bytes(main.encode(), "main.loom")], [api.load_bytes(helper.encode(), "lib/three.loom")])
    data = api.compile(module, (), "amdgpu:gfx1100", options={"debug_info": True}).result.primary.data
    table = read_line_table(data)
    assert set(table.files()) == {"main.loom", "lib/three.loom"}
    (address,) = table.addresses("three.loom", 3)
    text = dict(_instructions(read_code_object(data)))
    following = [text[a] for a in sorted(text) if a >= address and table.at(a) == table.at(address)]
    assert any(t.startswith("v_mul_f32") for t in following), following


@needs_llvm
def test_disassemblers_show_the_source(tmp_path: Path) -> None:
    """LLVM's finds the file by the name the compiler was given."""
    shutil.copy(EXAMPLES / "saxpy.loom", tmp_path)
    command = [str(tmp_path / "saxpy.loom"), "--target=amdgpu:gfx1100", "-o", str(tmp_path / "k.hsaco")]
    assert loom_compile([*command, "-g"]) == 0
    text = _tool(OBJDUMP, "-d", "-l", "--source", "k.hsaco", cwd=tmp_path)
    before, _, after = text.partition("v_fma_f32")
    assert after
    assert before.rstrip().splitlines()[-3].endswith("saxpy.loom:20")
    assert "%zi = scalar.fmaf %a, %xi, %yi : f32" in before.rstrip().splitlines()[-2]


@pytest.mark.parametrize("target", ["x86:avx2", "spirv:vulkan1.3+bda"])
def test_formats_without_debug_information_say_so(target: str) -> None:
    pytest.importorskip(f"loom_target_{target.partition(':')[0]}")
    module = api.load_bytes(TWO_KERNELS.encode(), "k.loom")
    with pytest.raises(LoomError, match="has no debug information"):
        api.compile(module, (), target, options={"debug_info": True})


@needs_clang
@pytest.mark.parametrize(
    "flags", [("-gdwarf-5",), ("-gdwarf-4",), ("-gdwarf-3",), ("-g", "-gz=zlib"), ("-gdwarf64", "-gdwarf-5")]
)
def test_tables_of_clang(flags: tuple[str, ...], tmp_path: Path) -> None:
    include = tmp_path / "include"
    include.mkdir()
    (include / "twice.h").write_text(C_HEADER)
    (tmp_path / "k.c").write_text(C_SOURCE)
    options = ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx1100", "-O2", "-nogpulib", "-ffreestanding", "-Iinclude"]
    _tool(CLANG, *options, *flags, "k.c", "-o", "k.hsaco", cwd=tmp_path)
    data = (tmp_path / "k.hsaco").read_bytes()
    rows = _read_rows(data)
    assert rows == _dumped_rows(tmp_path / "k.hsaco")
    assert {row[0] for row in rows.values() if row is not None} == {"k.c", "include/twice.h"}
    table = read_line_table(data)
    assert table.addresses("k.c", 7)
    assert table.addresses("twice.h", 2)


@needs_clang
def test_lines_of_code_that_the_linker_left_out(tmp_path: Path) -> None:
    unused = "__attribute__((noinline, visibility(\"hidden\"))) int unused(int *p, int n) {\n"
    unused += "  for (int i = 0; i < n; ++i) {\n" + "    p[i] = p[i] / (i + 1) + i % 7;\n" * 40 + "  }\n  return n;\n}\n"
    kernel = "__attribute__((amdgpu_kernel, visibility(\"protected\"))) void k(int *p) {\n  *p = 1;\n}\n"
    (tmp_path / "k.c").write_text(unused + kernel)
    options = ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx1100", "-O1", "-g", "-nogpulib", "-ffreestanding"]
    options += ["-ffunction-sections", "-Wl,--gc-sections"]
    _tool(CLANG, *options, "k.c", "-o", "k.hsaco", cwd=tmp_path)
    data = (tmp_path / "k.hsaco").read_bytes()
    assert min(_dumped_rows(tmp_path / "k.hsaco")) == 0
    code, table = read_code_object(data), read_line_table(data)
    start = code.kernels["k"].entry_address
    assert max(_dumped_rows(tmp_path / "k.hsaco")) > start  # what was left out would reach over the kernel
    lines = len(unused.splitlines())
    places = [table.at(address) for address, _ in _instructions(code)]
    assert {place.line for place in places if place is not None} <= {lines + 1, lines + 2, lines + 3}
    assert places[0] is not None
    assert table.addresses("k.c", 3) == ()


def test_damaged_tables_are_refused() -> None:
    """Whatever is in the file: a table, or an error that says where."""
    data = _compiled((EXAMPLES / "saxpy.loom").read_text(), "gfx1100")
    start = data.index(b"saxpy", data.index(b"Loom\0"))  # from the debug sections to the end of the file
    chance = random.Random(5)
    refused = 0
    for _ in range(600):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(start, len(data))] = chance.randrange(256)
        cut = bytes(changed[: chance.randrange(start, len(data))]) if chance.random() < 0.2 else bytes(changed)
        try:
            table = read_line_table(cut)
        except LineTableError as error:
            refused += 1
            assert re.match(r"line table, offset 0x[0-9a-f]+: \w", str(error))
        else:
            table.at(0x1500)
    assert refused > 100


def test_a_directory_whose_number_is_a_text_is_refused() -> None:
    """Columns of the table of files may be of any form, also of one that makes no sense."""
    data = bytearray(_compiled(TWO_KERNELS, "gfx1100"))
    string, number = 0x08, 0x0F
    column = data.index(bytes((2, 1, string, 2, number))) + 4  # two columns: a path, the number of a directory
    data[column] = string
    with pytest.raises(LineTableError, match="the number of a directory is the text ''"):
        read_line_table(bytes(data))


def test_names_have_the_length_of_paths() -> None:
    assert read_line_table(_compiled(TWO_KERNELS, "gfx1100", name="k" * 4096)).files() == ("k" * 4096,)
    with pytest.raises(LineTableError, match="a name does not end, or is too long"):
        read_line_table(_compiled(TWO_KERNELS, "gfx1100", name="k" * 4097))
