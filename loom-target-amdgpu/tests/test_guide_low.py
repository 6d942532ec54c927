"""Authored Low of the language guide: it assembles, and its order holds in the bytes, as LLVM's disassembler reads them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import compile_text

from loom_sim.amdgpu import load

SEEDS: Final = Path(os.environ.get("LOOM_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "seeds"
OBJDUMP: Final = shutil.which("llvm-objdump-19")
TARGETS: Final = ("amdgpu:gfx11-generic", "amdgpu:gfx1100", "amdgpu:gfx1103", "amdgpu:gfx1151")
pytestmark = [
    pytest.mark.skipif(not SEEDS.is_dir(), reason="the folder with the guide is not here"),
    pytest.mark.skipif(OBJDUMP is None, reason="llvm-objdump-19 is not installed"),
    pytest.mark.parametrize("target", TARGETS),
]

DEFINITION: Final = re.compile(r"^low\.(?:func|kernel)\.def [^\n]*@(\w+)\([^\n]*asm \{\n.*?^\}\n", re.M | re.S)
WITNESS: Final = re.compile(r"^amdgpu\.target<[^\n]*$", re.M)


def definitions() -> dict[str, str]:
    """Every authored AMDGPU body of the guide's chapters, by name, with the target it refers to."""
    found = {}
    for chapter in sorted(SEEDS.glob("*.txt")):
        text = chapter.read_text()
        for match in DEFINITION.finditer(text):
            if "target<amdgpu." in match[0].splitlines()[0]:
                witness = WITNESS.search(text)
                assert witness is not None, chapter.name
                found[match[1]] = f"{witness[0]}\n\n{match[0]}"
    return found


CALLER: Final = """
kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  %width = index.constant 32 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%x: buffer, %y: buffer) {
  %start = index.constant 0 : offset
  %lane = kernel.workitem.id<x> : index
  %four = index.constant 4 : index
  %bytes = index.mul %lane, %four : index
  %at = index.cast %bytes : index to i32
  %word = index.cast %lane : index to i32
  %weight = scalar.uitofp %word : i32 to f32
BODY  kernel.return
}
"""


def program(helper: str, body: str) -> str:
    return definitions()[helper] + CALLER.replace("BODY", body)


def listing(text: str, target: str, folder: Path) -> list[str]:
    """The instructions of the only kernel, dual words taken apart."""
    assert OBJDUMP is not None
    path = folder / "k.hsaco"
    path.write_bytes(compile_text(text, target).primary.data)
    made = subprocess.run([OBJDUMP, "-d", "--no-show-raw-insn", str(path)], capture_output=True, text=True, check=True)
    lines = [line.split("//")[0].strip() for line in made.stdout.splitlines() if line.startswith("\t")]
    code = [part for line in lines for part in line.split(" :: ") if not part.startswith("s_code_end")]
    assert code[-1] == "s_endpgm"
    assert not any("<unknown>" in line for line in code)
    return code


LOAD: Final = re.compile(r"global_load_b32 (v\d+), (v\d+), (s\[\d+:\d+\])(?: offset:(\d+))?$")


def loads(code: list[str]) -> list[tuple[int, str, int]]:
    """Positions, results and offsets of the loads."""
    found = ((at, LOAD.match(line)) for at, line in enumerate(code))
    return [(at, match[1], int(match[4] or 0)) for at, match in found if match is not None]


def multiplications(code: list[str]) -> list[tuple[int, str]]:
    """Positions of the multiplications and what they read."""
    return [(at, line) for at, line in enumerate(code) if re.match(r"v_(dual_)?mul_f32", line)]


def run(text: str, target: str) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(1, 65, dtype=np.float32)
    y = np.zeros((2, 32), np.float32)
    load(compile_text(text, target).primary.data).launch("k", 1, 32, [x, y])
    return x, y


STORE: Final = """\
  %out = buffer.view %y[%start] : buffer -> view<2x32xf32>
  view.store %a, %out[0, %lane] : f32, view<2x32xf32>
  view.store %b, %out[1, %lane] : f32, view<2x32xf32>
"""
PAIR_OF_RESULTS: Final = "  %a, %b = low.invoke @HELPER(%at, %x, %weight) : (i32, buffer, f32) -> (f32, f32)\n" + STORE
TWO_CALLS: Final = (
    """\
  %far = index.constant 64 : index
  %moved = index.add %bytes, %far : index
  %other = index.cast %moved : index to i32
  %a = low.invoke @HELPER(%at, %x, %weight) : (i32, buffer, f32) -> (f32)
  %b = low.invoke @HELPER(%other, %x, %weight) : (i32, buffer, f32) -> (f32)
"""
    + STORE
)


@pytest.mark.seed("O02", "O03")
def test_the_fence_keeps_both_loads_ahead(target: str, tmp_path: Path) -> None:
    """And waits for the first one only."""
    text = program("load_ahead_of_scale", PAIR_OF_RESULTS.replace("HELPER", "load_ahead_of_scale"))
    code = listing(text, target, tmp_path)
    (near, result, _), (far, _, offset) = sorted(loads(code), key=lambda found: found[2])
    ((scaled, line),) = multiplications(code)
    assert offset == 4
    assert max(near, far) < scaled
    assert result in line
    waits = [line for line in code[:scaled] if line.startswith("s_waitcnt") and "vmcnt" in line]
    assert waits == ["s_waitcnt vmcnt(1)" if near < far else "s_waitcnt vmcnt(0)"]
    x, y = run(text, target)
    np.testing.assert_array_equal(y, [x[:32] * np.arange(32, dtype=np.float32), x[1:33]])


@pytest.mark.seed("O05", "O07")
def test_the_locked_helper_keeps_its_order(target: str, tmp_path: Path) -> None:
    """The second load stays behind the multiplication; without the lock it does not."""
    text = program("scale_then_load", PAIR_OF_RESULTS.replace("HELPER", "scale_then_load"))
    code = listing(text, target, tmp_path)
    (first, result, zero), (second, _, four) = loads(code)
    ((scaled, line),) = multiplications(code)
    assert (zero, four) == (0, 4)
    assert first < scaled < second
    assert result in line
    assert not line.startswith("v_dual"), "a locked instruction has a slot of its own"
    between = {line.split()[0] for line in code[first + 1 : second] if line != code[scaled]}
    assert between <= {"s_waitcnt", "s_delay_alu"}, "nothing of the caller comes in between"
    free = listing(text.replace("schedule(locked) ", ""), target, tmp_path)
    assert max(at for at, _, _ in loads(free)) < multiplications(free)[0][0]
    x, y = run(text, target)
    np.testing.assert_array_equal(y, [x[:32] * np.arange(32, dtype=np.float32), x[1:33]])


@pytest.mark.seed("S01", "S02", "S03")
def test_every_invocation_keeps_its_phases(target: str, tmp_path: Path) -> None:
    """Load, multiply, load in both; one loads before the other one has multiplied."""
    text = program("scale_pair", TWO_CALLS.replace("HELPER", "scale_pair"))
    code = listing(text, target, tmp_path)
    found = loads(code)
    firsts = [(at, result) for at, result, offset in found if offset in (0, 64)]
    seconds = [at for at, _, offset in found if offset in (4, 68)]
    assert (len(firsts), len(seconds)) == (2, 2)
    scaled = multiplications(code)
    for (at, result), second in zip(firsts, seconds, strict=True):
        middle = next(place for place, line in scaled if place > at and re.search(rf"\b{result}\b", line))
        assert at < middle < second
    assert max(at for at, _ in firsts) < min(at for at, _ in scaled), "the scopes are independent"
    x, y = run(text, target)
    weight = np.arange(32, dtype=np.float32)
    np.testing.assert_array_equal(y, [x[:32] * weight + x[1:33], x[16:48] * weight + x[17:49]])


PACK: Final = """\
  %words = buffer.view %x[%start] : buffer -> view<64x2xf16>
  %zero = index.constant 0 : index
  %width = index.constant 32 : index
  %later = index.add %lane, %width : index
  %even = vector.load %words[%lane, %zero] : view<64x2xf16> -> vector<2xf16>
  %odd = vector.load %words[%later, %zero] : view<64x2xf16> -> vector<2xf16>
  %packed = low.invoke @pack_pair(%even, %odd) : (vector<2xf16>, vector<2xf16>) -> (vector<2xf16>)
  %out = buffer.view %y[%start] : buffer -> view<32x2xf16>
  vector.store %packed, %out[%lane, %zero] : vector<2xf16>, view<32x2xf16>
"""


def test_packed_lanes_of_two_vectors(target: str, tmp_path: Path) -> None:
    """The first element of both; the selector is a scalar constant."""
    text = program("pack_pair", PACK)
    code = listing(text, target, tmp_path)
    (selector,) = (line for line in code if line.startswith("s_mov_b32") and line.endswith("0x5040100"))
    (packed,) = (line for line in code if line.startswith("v_perm_b32"))
    assert packed.split(", ")[3] == selector.split()[1].rstrip(",")
    x = np.arange(128, dtype=np.float16)
    y = np.zeros((32, 2), np.float16)
    load(compile_text(text, target).primary.data).launch("k", 1, 32, [x, y])
    np.testing.assert_array_equal(y, np.stack([x[:64:2], x[64::2]], axis=1))


FLAT: Final = """\
amdgpu.target<gfx11-generic> @gfx11

low.func.def schedule(locked) target<amdgpu.gfx11.generic.core>(@gfx11) @shared_word(%local_byte_offset: reg<amdgpu.vgpr>) -> (reg<amdgpu.vgpr>) asm {
BODY  return %value
}
"""
READ_SHARED: Final = """\
  %size = index.constant 128 : offset
  %storage = buffer.alloca<workgroup> align(16) %size : buffer
  %shared = buffer.view %storage[%start] : buffer -> view<32xf32>
  view.store %weight, %shared[%lane] : f32, view<32xf32>
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  %v = low.invoke @shared_word(%at) : (i32) -> (f32)
  %w = scalar.addf %v, %v : f32
  %out = buffer.view %y[%start] : buffer -> view<64xf32>
  view.store %w, %out[%lane] : f32, view<64xf32>
"""


def flat_lines() -> str:
    """The lines of the guide that make a flat pointer and load through it."""
    for chapter in sorted(SEEDS.glob("*.txt")):
        match = re.search(r"^(%aperture = .*?%value = flat_load_dword [^\n]*\n)", chapter.read_text(), re.M | re.S)
        if match is not None:
            return "".join(f"  {line}\n" for line in match[1].splitlines())
    raise AssertionError("the guide no longer has a flat pointer")


@pytest.mark.seed("P01", "P03")
def test_a_flat_pointer_into_workgroup_memory(target: str, tmp_path: Path) -> None:
    """Made of the aperture's upper word; its load has arrived in both domains before its result is read."""
    text = FLAT.replace("BODY", flat_lines()) + CALLER.replace("BODY", READ_SHARED)
    code = listing(text, target, tmp_path)
    aperture = next(at for at, line in enumerate(code) if re.match(r"s_mov_b64 s\[\d+:\d+\], src_shared_base", line))
    read = next(at for at, line in enumerate(code) if line.startswith("flat_load_b32"))
    assert aperture < read
    result = code[read].split()[1].rstrip(",")
    use = next(at for at in range(read + 1, len(code)) if re.search(rf"\b{result}\b", code[at]))
    waits = " ".join(line for line in code[read:use] if line.startswith("s_waitcnt"))
    assert "vmcnt(0)" in waits
    assert "lgkmcnt(0)" in waits
    _, y = run(text, target)
    np.testing.assert_array_equal(y[0], 2 * np.arange(32, dtype=np.float32))


@pytest.mark.seed("E05")
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 200])
def test_the_kernel_that_the_guide_shows_lowered(target: str, tmp_path: Path, count: int) -> None:
    """Its Low is a program of its own: mask, address, load, add, store, and the mask again."""
    (name,) = (name for name, text in definitions().items() if "low.kernel.def" in text)
    text = definitions()[name]
    code = listing(text, target, tmp_path)
    order = ["s_and_saveexec_b32", "s_cbranch", "global_load_b32", "v_add_f32", "global_store_b32", "s_mov_b32 exec_lo"]
    places = [next(at for at, line in enumerate(code) if line.startswith(start)) for start in order]
    assert places == sorted(places)
    x = np.arange(256, dtype=np.float32)
    y = np.full(256, -1, np.float32)
    compiled = load(compile_text(text, target).primary.data)
    compiled.launch(name, 4, 64, [np.int64(count).tobytes(), x, y])
    np.testing.assert_array_equal(y, np.where(np.arange(256) < count, 2 * x, -1))


def test_nothing_of_the_guide_is_left_out(target: str) -> None:
    """Every authored body is one of those above, and each one compiles for every target that its own target serves."""
    assert set(definitions()) == {
        "pack_pair",
        "load_ahead_of_scale",
        "scale_then_load",
        "scale_pair",
        "elementwise_transform_f32",
    }
