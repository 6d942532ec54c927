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
