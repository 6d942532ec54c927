"""Scalar float instructions on random and edge operands, against exact rationals."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc
from amdgpu_scalar_float_model import MODELS, FloatModel
from test_amdgpu_scalar import body

from loom_sim import amdgpu

pytestmark = needs_llvm_mc
COUNT = 200
TARGETS = ("gfx1150", "gfx1200")
_EDGES32 = [
    0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x3F000000, 0xBF000000, 0x40200000,
    0x4B7FFFFF, 0x4F000000, 0xCF000000, 0x4F7FFFFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001,
    0x477FEFFF, 0x477FF000, 0x33800000, 0x33000000, 0x387FC000,
]  # fmt: skip
_EDGES16 = [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x3C00, 0xBC00, 0x3800, 0x4100, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x7C01]


@cache
def _operands() -> np.ndarray[Any, Any]:
    """Three words per wave: random bits, values of like size, and edges of f32 and of f16."""
    rng = np.random.default_rng(43)
    words = rng.integers(0, 1 << 32, (3, COUNT), dtype=np.uint64)
    near = rng.normal(0, 4, (3, COUNT)).astype(np.float32).view(np.uint32).astype(np.uint64)
    edges = np.array(_EDGES32, np.uint64)[rng.integers(0, len(_EDGES32), (3, COUNT))]
    small = np.array(_EDGES16, np.uint64)[rng.integers(0, len(_EDGES16), (2, 3, COUNT))]
    halves = rng.normal(0, 4, (2, 3, COUNT)).astype(np.float16).view(np.uint16).astype(np.uint64)
    kinds = (words, near, edges, small[0] | small[1] << np.uint64(16), halves[0] | halves[1] << np.uint64(16))
    return np.choose(rng.integers(0, len(kinds), (3, COUNT)), kinds)


def instruction(model: FloatModel) -> str:
    """The text of the instruction on the registers of the kernel."""
    return "s_" + model.text.format(d="s20", a="s12", b="s14")


SUITES = {target: [m for m in MODELS if m.only in ("", target)] for target in TARGETS}


@cache
def _program(target: str) -> amdgpu.Program:
    kernels = [
        kernel_text(body(f"s_mov_b32 s20, s16\n{instruction(m)}", target), target, name=f"k{k}", buffers=4)
        for k, m in enumerate(SUITES[target])
    ]
    return amdgpu.load(kernels_object(kernels, target))


@pytest.mark.parametrize(
    ("target", "number"), [(t, k) for t in TARGETS for k in range(len(SUITES[t]))],
    ids=[f"{t}-{m.text.split()[0]}" for t in TARGETS for m in SUITES[t]],
)  # fmt: skip
def test_scalar_float(target: str, number: int) -> None:
    model = SUITES[target][number]
    operands = _operands()
    out = np.zeros((COUNT, 4), np.uint32)
    _program(target).launch(f"k{number}", COUNT, 1, [*operands, out, 0])
    for wave in range(COUNT):
        a, b, c = (int(x) for x in operands[:, wave])
        expected = model.function(a, b, c)
        result, _, flag = (int(x) for x in out[wave, :3])
        said = f"{instruction(model)} on {a:#x}, {b:#x}, {c:#x}: {result:#x}, not {expected:#x}"
        if model.compares:
            assert (flag, result) == (expected, c), said
        elif model.result is not None and model.result.is_nan(expected):
            assert model.result.is_nan(result), said
            assert flag == c >> 31, said
        else:
            assert (result, flag) == (expected, c >> 31), said
