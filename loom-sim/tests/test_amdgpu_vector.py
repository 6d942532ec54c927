"""Vector instructions, their modifiers and their special operands, against the scalar model in `amdgpu_vector_model`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc
from amdgpu_vector_model import Vector, vector_suite
from test_amdgpu_instructions import EDGES, body

from loom_sim import amdgpu

pytestmark = needs_llvm_mc
LANES = 512

_HALF_FLOATS = [
    0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3800, 0x3C00, 0xBC00, 0x3E00, 0x4100, 0x4248, 0x7BFF, 0xFBFF,
    0x7C00, 0xFC00, 0x7E00, 0x7D01, 0xFE12, 0xFC01, 0x5BFF, 0xF800,
]  # fmt: skip
_DOUBLES = [
    0, 1 << 63, 1, (1 << 63) | 1, (1 << 52) - 1, 1 << 52, 0x3FE << 52, 0x3FF << 52, 0xBFF << 52, 0x3FF8 << 48,
    0x4004 << 48, 0x41DFFFFFFFC00000, 0x41E0000000000000, 0xC1E0000000200000, 0x7FEFFFFFFFFFFFFF, 0xFFEF << 48,
    0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, (0x7FF << 52) | 1, 0xFFFC000000000123, 0x4330000000000001, 0x7FD << 52,
    0x7B0 << 52, 54 << 52, 20 << 52,
]  # fmt: skip
_WORDS = [
    0, 1, 2, 15, 31, 32, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFF, 0x10000, 0x8000, 0x7FFF8000, 0x00FF00FF,
    0x55555555, 0x7F800000, 0x01000000,
]  # fmt: skip
_HALVES = [0, 1, 2, 15, 16, 255, 256, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x5555, 0xFF80]

_Array = np.ndarray[Any, Any]


def _edges(tag: str) -> list[int]:
    """Interesting values of an operand type."""
    if tag == "f16":
        return _HALF_FLOATS
    if tag == "f32":
        return [*EDGES, 0x0B800000, 0x7E000000, 0x7F000000, 0x80400000]
    if tag == "f64":
        return _DOUBLES
    if tag[1:] == "16":
        return _HALVES
    pool = _HALF_FLOATS if tag == "h" else _HALVES if tag == "p" else EDGES if tag == "w64" else _WORDS
    if tag[1:] == "32":
        return pool
    shift = 32 if tag.endswith("64") else 16
    return [x | pool[(7 * k + 3) % len(pool)] << shift for k, x in enumerate(pool)]


@cache
def _operand(tag: str, position: int, uniform: int) -> _Array:
    """Values of one operand: pairs of edges of the first two operands, edges at random, random numbers."""
    rng = np.random.default_rng([position, *tag.encode()])
    values = rng.integers(0, (1 << 64) - 1, LANES, dtype=np.uint64, endpoint=True)
    near = slice(LANES * 3 // 4, LANES, 2)
    if tag == "f64":  # numbers of similar size, so that sums cancel and round
        values[near] = values[near] & np.uint64((1 << 63) | (1 << 52) - 1) | (
            rng.integers(1000, 1040, len(values[near])).astype(np.uint64) << np.uint64(52)
        )
    elif tag == "f32":
        values[near] = values[near] & np.uint64(0x807FFFFF) | (
            rng.integers(110, 140, len(values[near])).astype(np.uint64) << np.uint64(23)
        )
    edges = _edges(tag)
    mask = {"16": 0xFFFF, "64": (1 << 64) - 1}.get(tag[1:], 0xFFFFFFFF)
    for lane in range(LANES * 3 // 4):
        index = lane % len(edges) if position == 0 else lane // 26 % len(edges) if position == 1 else -1
        if index < 0 or lane >= LANES // 2:
            index = int(rng.integers(len(edges)))
        values[lane] = int(values[lane]) & ~mask | edges[index]
    if uniform:
        values = np.repeat(np.resize(values[:: 7], LANES // uniform), uniform)
    return values


TARGETS = ("gfx942", "gfx1100", "gfx1200")
SUITES: dict[str, dict[str, Vector]] = {target: vector_suite(target) for target in TARGETS}


@cache
def _program(target: str) -> amdgpu.Program:
    kernels = [
        kernel_text(body(entry.text + "\ns_nop 2", target), target, name=f"k{i}", buffers=4)
        for i, entry in enumerate(SUITES[target].values())
    ]
    return amdgpu.load(kernels_object(kernels, target))


@pytest.mark.parametrize(("target", "name"), [(t, n) for t, suite in SUITES.items() for n in suite])
def test_instruction(target: str, name: str) -> None:
    entry = SUITES[target][name]
    uniform = 32 if entry.uniform else 0
    operands = [_operand(tag, k, uniform) for k, tag in enumerate(entry.sources)]
    arguments = [operands[k if k < len(operands) else 0] for k in range(3)]
    out = np.zeros(LANES, np.uint64)
    number = list(SUITES[target]).index(name)
    _program(target).launch(f"k{number}", 1, LANES, [*arguments, out, 0])
    limit = (1 << entry.result) - 1
    masks = [(1 << {"16": 16, "64": 64}.get(tag[1:], 32)) - 1 for tag in entry.sources]
    wrong = []
    for lane in range(LANES):
        values = [int(x[lane]) & m for x, m in zip(operands, masks, strict=True)]
        expected = entry.function(*values) & limit
        actual = int(out[lane]) & limit
        if actual != expected:
            wrong.append(f"lane {lane}: {', '.join(map(hex, values))} gives {actual:#x}, expected {expected:#x}")
    assert not wrong, f"{len(wrong)} of {LANES}\n" + "\n".join(wrong[:8])
    if entry.result == 32 and "div_scale_f64 flag" not in name:
        assert set((out >> np.uint64(32)).tolist()) == {0xDEADBEEF}, "a register beside the destination changed"
