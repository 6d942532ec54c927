"""The assembly format: LLVM's assembler makes of it the code and the descriptors of the code object."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_select_matrix import BY_NAME, product
from test_select_transfers import ASSERT, COPY, EXIT, SPLIT, kernel

from loom import api
from loom_target_amdgpu.code_object.reader import CodeObject, read_code_object
from loom_target_amdgpu.profiles import profile

LLVM_MC, LLD = shutil.which("llvm-mc-19"), shutil.which("ld.lld-19")
pytestmark = pytest.mark.skipif(not (LLVM_MC and LLD), reason="llvm-mc-19 or ld.lld-19 is not installed")
PROCESSORS = ("gfx1100", "gfx1151", "gfx11-generic", "gfx1200", "gfx12-generic", "gfx942")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def emitted(text: str, processor: str, format: str) -> Any:
    module = api.load_bytes(text.encode(), "kernel.loom")
    return api.compile(module, (), f"amdgpu:{processor}", format).result.primary


def assembled(text: bytes, processor: str, folder: Path) -> CodeObject:
    wave = profile(processor).wave
    command = [str(LLVM_MC), "-triple=amdgcn-amd-amdhsa", f"-mcpu={processor}", f"-mattr=+wavefrontsize{wave}"]
    source, relocatable, linked = folder / "k.s", folder / "k.o", folder / "k.hsaco"
    source.write_bytes(text)
    for step in ([*command, "-filetype=obj", str(source), "-o", str(relocatable)],
                 [str(LLD), "-shared", str(relocatable), "-o", str(linked)]):  # fmt: skip
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return read_code_object(linked.read_bytes())


def require_same(text: str, processor: str, folder: Path) -> None:
    ours = read_code_object(emitted(text, processor, "amdgpu-hsaco").data)
    theirs = assembled(emitted(text, processor, "amdgpu-asm").data, processor, folder)
    assert list(theirs.kernels) == list(ours.kernels)
    for name, mine in ours.kernels.items():
        other = theirs.kernels[name]
        assert theirs.read(other.entry_address, other.code_size) == ours.read(mine.entry_address, mine.code_size)
        for field in ("group_segment_size", "private_segment_size", "kernarg_size", "rsrc1", "rsrc2", "rsrc3",
                      "code_properties", "kernarg_preload"):  # fmt: skip
            assert getattr(other.descriptor, field) == getattr(mine.descriptor, field), field
    assert theirs.metadata.kernels == ours.metadata.kernels
    assert theirs.metadata.target == ours.metadata.target


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("body", [COPY.replace("cache_scope = cu", "cache_scope = device"), SPLIT, EXIT, ASSERT])
def test_kernels_assemble_to_the_same_bytes(body: str, processor: str, tmp_path: Path) -> None:
    require_same(kernel(body), processor, tmp_path)


@pytest.mark.parametrize(
    ("processor", "name"),
    [("gfx1100", "rdna3_i8_16x16x16"), ("gfx1201", "rdna4_f8E4M3_16x16x16"), ("gfx942", "cdna_f16_32x32x8")],
)
def test_matrix_instructions_assemble_to_the_same_bytes(processor: str, name: str, tmp_path: Path) -> None:
    require_same(product(BY_NAME[name]), processor, tmp_path)


@pytest.mark.parametrize("processor", ["gfx1100", "gfx1200", "gfx942"])
@pytest.mark.parametrize("name", ["attention", "q8_matvec", "tiled_matmul", "rope"])
def test_examples_assemble_to_the_same_bytes(name: str, processor: str, tmp_path: Path) -> None:
    """Several kernels in a file, loops, workgroup storage and long sequences."""
    require_same((EXAMPLES / f"{name}.loom").read_text(), processor, tmp_path)


def test_branches_name_labels() -> None:
    text = emitted(product(BY_NAME["rdna3_f16_16x16x16"]), "gfx1100", "amdgpu-asm").data.decode()
    assert text.startswith('.amdgcn_target "amdgcn-amd-amdhsa--gfx1100"')
    assert ".Lk_0:\n" in text
    assert "s_cbranch_scc1 .Lk_0\n" in text
