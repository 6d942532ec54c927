"""The HSACO writer and the code object reader, judged by LLVM's tools and by code objects LLVM made."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import attrs
import pytest

from loom_target_amdgpu.code_object.elf import (
    DataImage,
    HsacoError,
    KernelImage,
    Relocation,
    RelocationKind,
    write_hsaco,
)
from loom_target_amdgpu.code_object.kernel_descriptor import KernelResources, describe_kernel
from loom_target_amdgpu.code_object.metadata import KernelArgument, KernelMetadata
from loom_target_amdgpu.code_object.reader import CodeObjectError, FeatureSetting, read_code_object
from loom_target_amdgpu.isa.encode import encode
from loom_target_amdgpu.isa.tables import family_table
from loom_target_amdgpu.profiles import profile

READELF = shutil.which("llvm-readelf-19")
OBJDUMP = shutil.which("llvm-objdump-19")
CLANG = shutil.which("clang-19")
needs_tools = pytest.mark.skipif(
    not (READELF and OBJDUMP), reason="llvm-readelf-19 or llvm-objdump-19 is not installed"
)
needs_clang = pytest.mark.skipif(
    not (CLANG and shutil.which("ld.lld-19")), reason="clang-19 or ld.lld-19 is not installed"
)

TARGETS = ("gfx942", "gfx1100", "gfx11-generic", "gfx1200", "gfx12-generic")


def _kernel(name: str, processor_name: str, relocations: tuple[Relocation, ...] = ()) -> KernelImage:
    processor = profile(processor_name)
    table = family_table(processor.family)
    code = encode(table.find("s_mov_b32"), {"sdst": 4, "ssrc0": 255}, literal=0x12345678)
    code += encode(table.find("s_endpgm"), {})
    resources = KernelResources(wave_size=processor.wave, vgprs=12, sgprs=16, lds_bytes=512, kernarg_bytes=16)
    metadata = KernelMetadata(
        name=name,
        symbol=f"{name}.kd",
        kernarg_segment_size=16,
        kernarg_segment_align=8,
        group_segment_fixed_size=512,
        private_segment_fixed_size=0,
        wavefront_size=processor.wave,
        sgpr_count=18,
        vgpr_count=12,
        max_flat_workgroup_size=256,
        agpr_count=0 if processor.require_generation().agpr_count else None,
        reqd_workgroup_size=(64, 2, 1),
        arguments=(
            KernelArgument(offset=8, size=4, value_kind="by_value", name="n"),
            KernelArgument(
                offset=0,
                size=8,
                value_kind="global_buffer",
                name="out",
                address_space="global",
                access="read_write",
            ),
        ),
    )
    return KernelImage(name, code, describe_kernel(processor, resources), metadata, relocations)


def _tool(*command: str | Path | None) -> str:
    run = subprocess.run([str(item) for item in command], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "warning" not in run.stderr, run.stderr
    return run.stdout


@pytest.mark.parametrize("name", TARGETS)
def test_written_object_reads_back(name: str) -> None:
    first, second = _kernel("first", name), _kernel("second", name)
    table = DataImage("table", b"\1\2\3\4", alignment=16)
    counter = DataImage("counter", bytes(8), writable=True)
    read = read_code_object(write_hsaco([first, second], profile(name), [table, counter]))
    assert read.processor is profile(name)
    assert read.abi_version == 4
    assert read.metadata.target == f"amdgcn-amd-amdhsa--{name}"
    assert read.metadata.processor_name == name
    assert list(read.kernels) == ["first", "second"]
    for image in (first, second):
        kernel = read.kernels[image.name]
        assert kernel.entry_address % 256 == 0
        assert kernel.descriptor_address % 64 == 0
        assert read.read(kernel.entry_address, kernel.code_size) == image.code
        assert attrs.evolve(kernel.descriptor, entry_offset=0) == image.descriptor
        ordered = tuple(sorted(image.metadata.arguments, key=lambda argument: argument.offset))
        assert kernel.metadata == attrs.evolve(image.metadata, arguments=ordered)
    assert read.symbols["table"].address % 16 == 0
    assert read.read(read.symbols["table"].address, 4) == b"\1\2\3\4"
    segment = next(
        s for s in read.segments if s.address <= read.symbols["counter"].address < s.address + s.memory_size
    )
    assert segment.writable
    assert not segment.executable


@needs_tools
@pytest.mark.parametrize("name", TARGETS)
def test_llvm_tools_accept_a_written_object(name: str, tmp_path: Path) -> None:
    path = tmp_path / "k.hsaco"
    path.write_bytes(write_hsaco([_kernel("first", name), _kernel("second", name)], profile(name)))
    header = _tool(READELF, "-h", "-l", "-S", "-s", "-d", path)
    assert "AMDGPU - HSA" in header
    assert name in header.split("Flags:")[1].splitlines()[0]
    assert "There are 7 program headers" in header
    assert header.count("GLOBAL PROTECTED") == 8  # kernels and descriptors in .dynsym and .symtab
    notes = _tool(READELF, "--notes", path)
    assert "NT_AMDGPU_METADATA" in notes
    assert "Invalid" not in notes
    assert f"amdhsa.target:   amdgcn-amd-amdhsa--{name}" in " ".join(notes.split("\n")).replace("'", "")
    assert ".reqd_workgroup_size" in notes
    assert "first.kd" in notes
    listing = _tool(OBJDUMP, "-d", "--symbolize-operands", path)
    assert listing.count("s_mov_b32 s4, 0x12345678") == 2
    assert listing.count("s_endpgm") == 2
    assert "<first>:" in listing
    histogram = _tool(READELF, "--hash-symbols", path)
    for symbol in ("first", "second.kd"):
        assert symbol in histogram


@needs_tools
def test_descriptor_disassembles_to_the_resources(tmp_path: Path) -> None:
    path = tmp_path / "k.hsaco"
    path.write_bytes(write_hsaco([_kernel("first", "gfx1100")], profile("gfx1100")))
    listing = _tool(OBJDUMP, "-D", "-j", ".rodata", path)
    assert ".amdhsa_group_segment_fixed_size 512" in listing
    assert ".amdhsa_next_free_vgpr 16" in listing
    assert ".amdhsa_user_sgpr_kernarg_segment_ptr 1" in listing
    assert ".amdhsa_float_denorm_mode_32 3" in listing


def test_same_input_gives_same_bytes() -> None:
    assert write_hsaco([_kernel("a", "gfx1100")], profile("gfx1100")) == write_hsaco(
        [_kernel("a", "gfx1100")], profile("gfx1100")
    )


def test_relocations_hold_the_distance_to_the_symbol() -> None:
    relocations = (
        Relocation(4, RelocationKind.REL32_LO, "table", 4),
        Relocation(4, RelocationKind.REL32_HI, "other", 12),
    )
    kernel = _kernel("k", "gfx1100", relocations[:1])
    upper = _kernel("other", "gfx1100", (attrs.evolve(relocations[1], symbol="table"),))
    data = write_hsaco([kernel, upper], profile("gfx1100"), [DataImage("table", bytes(4))])
    read = read_code_object(data)
    target = read.symbols["table"].address
    place = read.kernels["k"].entry_address + 4
    assert int.from_bytes(read.read(place, 4), "little", signed=True) == target + 4 - place
    place = read.kernels["other"].entry_address + 4
    assert int.from_bytes(read.read(place, 4), "little", signed=True) == (target + 12 - place) >> 32 == -1


def test_writer_refuses_what_it_cannot_express() -> None:
    processor = profile("gfx1100")
    kernel = _kernel("k", "gfx1100")
    with pytest.raises(HsacoError, match="'k' is defined twice"):
        write_hsaco([kernel, kernel], processor)
    with pytest.raises(HsacoError, match=r"'k\.kd' is defined twice"):
        write_hsaco([kernel], processor, [DataImage("k.kd", b"x")])
    with pytest.raises(HsacoError, match="no whole words"):
        write_hsaco([attrs.evolve(kernel, code=b"\0\0")], processor)
    bad = attrs.evolve(kernel, relocations=(Relocation(0, RelocationKind.REL32_LO, "nowhere", 0),))
    with pytest.raises(HsacoError, match="unknown symbol 'nowhere'"):
        write_hsaco([bad], processor)
    outside = attrs.evolve(kernel, relocations=(Relocation(12, RelocationKind.REL32_LO, "k", 0),))
    with pytest.raises(HsacoError, match="outside its code"):
        write_hsaco([outside], processor)


SOURCE = """
__constant int table[4] = {3, 1, 4, 1};
__attribute__((visibility("default"), used)) global int counter = 7;
kernel void saxpy(global float* x, global const float* y, float a, int n) {
  int i = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
  if (i < n) x[i] = a * y[i] + x[i];
}
__attribute__((reqd_work_group_size(64, 1, 1)))
kernel void swap(global int* x, local int* l) {
  int i = __builtin_amdgcn_workitem_id_x();
  l[i] = x[i];
  __builtin_amdgcn_s_barrier();
  x[i] = l[i ^ 1] + table[i & 3] + counter;
}
"""


def _compile(folder: Path, target: str, version: int = 5) -> bytes:
    source, output = folder / "k.cl", folder / "k.hsaco"
    source.write_text(SOURCE)
    command = [str(CLANG), "-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}"]
    command += ["-nogpulib", "-O2", f"-mcode-object-version={version}", str(source), "-o", str(output)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return output.read_bytes()


@needs_clang
@pytest.mark.parametrize(
    ("target", "version"),
    [("gfx942", 4), ("gfx942", 5), ("gfx90a", 5), ("gfx1100", 5), ("gfx1200", 6), ("gfx11-generic", 6)],
)
def test_clang_objects_are_read(target: str, version: int, tmp_path: Path) -> None:
    read = read_code_object(_compile(tmp_path, target, version))
    assert read.processor is profile(target)
    assert read.abi_version == version - 2
    assert set(read.kernels) == {"saxpy", "swap"}
    saxpy, swap = read.kernels["saxpy"], read.kernels["swap"]
    assert saxpy.metadata is not None
    assert swap.metadata is not None
    explicit = [a for a in saxpy.metadata.arguments if not a.value_kind.startswith("hidden")]
    assert [(a.offset, a.size, a.value_kind) for a in explicit] == [
        (0, 8, "global_buffer"),
        (8, 8, "global_buffer"),
        (16, 4, "by_value"),
        (20, 4, "by_value"),
    ]
    assert explicit[1].is_const
    assert swap.metadata.arguments[1].value_kind == "dynamic_shared_pointer"
    assert swap.metadata.arguments[1].pointee_align == 4
    assert swap.metadata.reqd_workgroup_size == (64, 1, 1)
    assert "kernarg_segment_ptr" in saxpy.descriptor.enabled_user_sgprs
    assert saxpy.descriptor.workgroup_ids[0]
    assert saxpy.entry_address % 256 == 0
    assert read.read(saxpy.entry_address, saxpy.code_size)[-4:] in (
        (0xBF810000).to_bytes(4, "little"),  # s_endpgm up to gfx10
        (0xBFB00000).to_bytes(4, "little"),
    )
    assert read.read(read.symbols["counter"].address, 4) == (7).to_bytes(4, "little")


@needs_clang
def test_feature_suffixes_are_in_the_flags(tmp_path: Path) -> None:
    read = read_code_object(_compile(tmp_path, "gfx942:sramecc+:xnack-"))
    assert (read.xnack, read.sramecc) == (FeatureSetting.OFF, FeatureSetting.ON)
    assert read.metadata.processor_name == "gfx942"


def _hsaco() -> bytes:
    return write_hsaco(
        [_kernel("k", "gfx1100")], profile("gfx1100"), [DataImage("d", bytes(64), writable=True)]
    )


def test_every_truncation_is_an_error() -> None:
    data = _hsaco()
    loaded = max(s.address + len(s.data) for s in read_code_object(data).segments) - 0x2000
    for size in range(0, loaded, 7):
        with pytest.raises(CodeObjectError) as caught:
            read_code_object(data[:size])
        assert f"{caught.value.offset:#x}" in str(caught.value)


def test_damaged_bytes_never_escape_as_other_errors() -> None:
    data = _hsaco()
    chooser = random.Random(20240607)
    damaged = 0
    for _ in range(3000):
        copy = bytearray(data)
        for _ in range(chooser.randrange(1, 4)):
            copy[chooser.randrange(len(copy) // 2 if chooser.random() < 0.7 else len(copy))] = chooser.choice(
                (0, 1, 0x7F, 0x80, 0xFF, chooser.randrange(256))
            )
        try:
            read_code_object(bytes(copy))
        except CodeObjectError:
            damaged += 1
    assert damaged > 300


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (0, b"\x7fELG", "not an ELF file"),
        (4, b"\x01", "not a 64-bit"),
        (7, b"\x00", "OS ABI 0"),
        (8, b"\x01", "ABI version 1"),
        (16, b"\x01", "relocatable object"),
        (18, b"\x3e", "machine 62"),
    ],
)
def test_foreign_files_are_named(offset: int, value: bytes, message: str) -> None:
    data = bytearray(_hsaco())
    data[offset : offset + len(value)] = value
    with pytest.raises(CodeObjectError, match=message) as caught:
        read_code_object(bytes(data))
    assert caught.value.offset == offset


def test_offload_bundle_is_named() -> None:
    with pytest.raises(CodeObjectError, match="unbundle it first"):
        read_code_object(b"__CLANG_OFFLOAD_BUNDLE__" + bytes(64))


def test_unknown_machine_is_read_without_a_processor() -> None:
    data = bytearray(_hsaco())
    data[48] = 0xFE
    assert read_code_object(bytes(data)).processor is None
