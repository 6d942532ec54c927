"""``loom-sim`` on code objects that no compiler makes: what is wrong is said, whatever part it is in."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_files import refused, saxpy_object, write_saxpy

from loom_sim.amdgpu.arguments import MAX_SEGMENT_BYTES, Binding, LaunchShape, build
from loom_sim.amdgpu.errors import LaunchError
from loom_sim.amdgpu.memory import AddressSpace
from loom_target_amdgpu.code_object.reader import read_code_object

# The low byte of e_flags in the ELF header names the processor (LLVM, "User Guide for AMDGPU Backend", table of
# EF_AMDGPU_MACH values).
E_FLAGS = 0x30
GFX1035 = 0x3D
# An argument's size and kind in the metadata, which is MessagePack.
SIZE_OF_BUFFER = b"\xa5.size\x08\xab.value_kind\xadglobal_buffer"


def test_a_processor_that_is_only_known_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(saxpy_object())
    data[E_FLAGS] = GFX1035
    path = tmp_path / "other.hsaco"
    path.write_bytes(data)
    assert "gfx1035 counts the registers" in refused(["kernels", str(path)], capsys)


def test_metadata_with_a_pointer_of_no_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = write_saxpy(tmp_path)
    data = saxpy_object()
    assert data.count(SIZE_OF_BUFFER) == 3
    (tmp_path / "saxpy.hsaco").write_bytes(data.replace(SIZE_OF_BUFFER, SIZE_OF_BUFFER.replace(b"\x08", b"\x00"), 1))
    assert "the metadata gives 'global_buffer' 0 bytes, but it has 8" in refused(command, capsys)


def test_a_segment_of_arguments_that_is_too_large() -> None:
    metadata = read_code_object(saxpy_object()).kernels["saxpy"].metadata
    assert metadata is not None
    shape = LaunchShape((1, 1, 1), (64, 1, 1))
    values = [1, 1.0, None, None, None]
    with pytest.raises(LaunchError, match=f"{MAX_SEGMENT_BYTES} at most"):
        build(metadata, MAX_SEGMENT_BYTES + 1, values, Binding(AddressSpace()), shape, 0, 0)
    assert build(metadata, 64, values, Binding(AddressSpace()), shape, 0, 0).size == 64
