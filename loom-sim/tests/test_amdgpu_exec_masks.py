"""Instructions that combine EXEC with a mask and save it, on random and edge masks, against Python integers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc
from test_amdgpu_scalar import body

from loom_sim import amdgpu
from loom_sim.amdgpu.errors import SimulationFault

pytestmark = needs_llvm_mc
COUNT = 40
TARGETS = ("gfx942", "gfx1100", "gfx1200")

# Names of gfx942 and of later families: the mask named first, then EXEC (AMD ISA documents, "SOP1").
_MEANING: dict[tuple[str, str], Callable[[int, int], int]] = {
    ("and", "and"): lambda s, e: s & e,
    ("or", "or"): lambda s, e: s | e,
    ("xor", "xor"): lambda s, e: s ^ e,
    ("nand", "nand"): lambda s, e: ~(s & e),
    ("nor", "nor"): lambda s, e: ~(s | e),
    ("xnor", "xnor"): lambda s, e: ~(s ^ e),
    ("andn1", "and_not0"): lambda s, e: ~s & e,
    ("andn2", "and_not1"): lambda s, e: s & ~e,
    ("orn1", "or_not0"): lambda s, e: ~s | e,
    ("orn2", "or_not1"): lambda s, e: s | ~e,
}


@cache
def instructions(target: str) -> dict[str, Callable[[int, int], int]]:
    """Mnemonics with the new EXEC from the source and the old EXEC."""
    bits = 64 if target == "gfx942" else 32
    found = {}
    for (old, new), meaning in _MEANING.items():
        name = old if target == "gfx942" else new
        found[f"s_{name}_saveexec_b{bits}"] = meaning
        if old.startswith("andn"):
            found[f"s_{name}_wrexec_b{bits}"] = meaning
    return found


@cache
def names(target: str) -> list[str]:
    """Mnemonics that are tried, of both widths."""
    own = list(instructions(target))
    return own if target == "gfx942" else own + [name for name, _ in _other(target, 64)]


@cache
def _masks() -> np.ndarray[Any, Any]:
    """The source and the old EXEC of each wave."""
    rng = np.random.default_rng(6)
    words = rng.integers(0, 1 << 64, (2, COUNT), dtype=np.uint64)
    edges = np.array([0, 1, 1 << 63, 1 << 31, (1 << 64) - 1, 0xFFFFFFFF], np.uint64)
    return np.where(rng.random(words.shape) < 0.5, edges[rng.integers(0, len(edges), words.shape)], words)


def _text(name: str, target: str, saved: bool) -> str:
    wide = target == "gfx942"
    exec_, result, mask, before, kept = (
        ("exec", "s[20:21]", "s[12:13]", "s[14:15]", "s[18:19]") if wide else ("exec_lo", "s20", "s12", "s14", "s18")
    )
    move = f"s_mov_b{64 if wide else 32}"
    shown = kept if saved else exec_
    return f"{move} {exec_}, {before}\n{name} {kept}, {mask}\n{move} {result}, {shown}\n{move} {exec_}, 1"


@pytest.mark.parametrize("target", TARGETS)
def test_exec_masks(target: str) -> None:
    chosen = [(name, f, saved) for name, f in instructions(target).items() for saved in (False, True)]
    kernels = [
        kernel_text(body(_text(name, target, saved), target), target, name=f"k{k}", buffers=4)
        for k, (name, _, saved) in enumerate(chosen)
    ]
    program = amdgpu.load(kernels_object(kernels, target))
    bits = 64 if target == "gfx942" else 32
    masks = _masks()
    for number, (name, meaning, saved) in enumerate(chosen):
        out = np.zeros((COUNT, 4), np.uint32)
        program.launch(f"k{number}", COUNT, 1, [*masks, np.zeros(COUNT, np.uint64), out, 0])
        for wave in range(COUNT):
            source, old = (int(masks[k, wave]) & ((1 << bits) - 1) for k in range(2))
            new = meaning(source, old) & ((1 << bits) - 1)
            expected = old if saved and "saveexec" in name else new
            low, high, scc = (int(x) for x in out[wave, :3])
            got = low | high << 32 if bits == 64 else low
            assert (got, scc) == (expected, int(new != 0)), f"{name} of {source:#x} with EXEC {old:#x}"


def _other(target: str, bits: int) -> list[tuple[str, Callable[[int, int], int]]]:
    return [(n.replace("_b32", f"_b{bits}"), f) for n, f in instructions(target).items()]


@pytest.mark.parametrize("target", ["gfx1100", "gfx1200"])
@pytest.mark.parametrize("wave_size", [32, 64])
def test_exec_masks_of_the_other_width(wave_size: int, target: str) -> None:
    """All of EXEC in wave32, whose upper half is only stored, and the lower half of EXEC in wave64."""
    bits = 96 - wave_size
    kept, mask = ("s[18:19]", "s[12:13]") if bits == 64 else ("s18", "s12")
    shown = {"exec": ("exec_lo", "exec_hi"), "kept": ("s18", "s19")}
    mode = f".amdhsa_wavefront_size32 {int(wave_size == 32)}"
    chosen = [(name, f, what) for name, f in _other(target, bits) for what in shown]
    kernels = []
    for k, (name, _, what) in enumerate(chosen):
        text = f"s_mov_b32 s19, 0\ns_mov_b32 exec_hi, s15\ns_mov_b32 exec_lo, s14\n{name} {kept}, {mask}\n"
        text += "".join(f"s_mov_b32 s{20 + j}, {r}\n" for j, r in enumerate(shown[what])) + "s_mov_b32 exec_lo, 1"
        text += "\ns_mov_b32 exec_hi, 0"
        kernels.append(kernel_text(body(text, target), target, name=f"k{k}", buffers=4, mode=mode))
    attributes = [] if wave_size == 32 else ["+wavefrontsize64"]
    program = amdgpu.load(kernels_object(kernels, target, *attributes))
    masks, limit = _masks(), (1 << bits) - 1
    for number, (name, meaning, what) in enumerate(chosen):
        out = np.zeros((COUNT, 4), np.uint32)
        program.launch(f"k{number}", COUNT, 1, [*masks, np.zeros(COUNT, np.uint64), out, 0])
        for wave in range(COUNT):
            source, exec_ = (int(masks[k, wave]) for k in range(2))
            old, new = exec_ & limit, meaning(source, exec_) & limit
            expected = new | exec_ & ~limit if what == "exec" else old if "saveexec" in name else new
            low, high, scc = (int(x) for x in out[wave, :3])
            assert (low | high << 32, scc) == (expected, int(new != 0)), f"{name} of {source:#x} with EXEC {exec_:#x}"


def test_upper_half_of_exec_that_nothing_wrote() -> None:
    text = body("s_and_saveexec_b64 s[18:19], s[12:13]", "gfx1100")
    program = amdgpu.load(kernels_object([kernel_text(text, "gfx1100", buffers=4)], "gfx1100"))
    with pytest.raises(SimulationFault, match=r"uninitialized: .*upper half of EXEC.*s_and_saveexec_b64"):
        program.launch("k", COUNT, 1, [*_masks(), np.zeros(COUNT, np.uint64), np.zeros((COUNT, 4), np.uint32), 0])
