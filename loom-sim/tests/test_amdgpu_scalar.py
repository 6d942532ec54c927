"""Scalar ALU instructions on random and edge operands, result and SCC, against `amdgpu_scalar_model`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc
from amdgpu_scalar_model import MODELS, ScalarModel

from loom_sim import amdgpu

pytestmark = needs_llvm_mc
COUNT = 160
_EDGES = [0, 1, 2, 31, 32, 63, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0x10000, 0x00200010, 0xAAAAAAAA]


@cache
def _operands() -> np.ndarray[Any, Any]:
    """Three operands per wave; a third are random, in the rest either word is an edge value."""
    rng = np.random.default_rng(41)
    words = rng.integers(0, 1 << 32, (3, COUNT, 2), dtype=np.uint64)
    edges = np.array(_EDGES, np.uint64)[rng.integers(0, len(_EDGES), words.shape)]
    words = np.where(rng.random(words.shape) < 0.66, edges, words)
    return words[..., 0] | words[..., 1] << np.uint64(32)


def _name(model: ScalarModel, target: str) -> str:
    if target == "gfx942":
        return model.old
    return model.latest if target == "gfx1200" and model.latest is not None else model.new


def _register(first: int, bits: int) -> str:
    return f"s[{first}:{first + 1}]" if bits == 64 else f"s{first}"


def instruction(model: ScalarModel, target: str) -> str:
    """The text of the instruction on the registers the kernel below fills."""
    operands = [_register(12 + 2 * k, bits) for k, bits in enumerate(model.sources)]
    before = ""
    if model.updates:
        before = f"s_mov_b{model.sources[0]} {_register(20, model.sources[0])}, {operands.pop(0)}\n"
    if model.result:
        operands.insert(0, _register(20, model.result))
    if model.immediate is not None:
        operands.append(hex(model.immediate))
    return f"{before}{_name(model, target)} {', '.join(operands)}"


def body(text: str, target: str) -> str:
    """A kernel whose waves load three operands to s[12:17] and store s[20:21] and SCC."""
    words = {
        "load8": "s_load_dwordx8" if target == "gfx942" else "s_load_b256",
        "load": "s_load_dwordx2" if target == "gfx942" else "s_load_b64",
        "store": "global_store_dwordx4" if target == "gfx942" else "global_store_b128",
        "wait": "s_wait_kmcnt 0x0" if target == "gfx1200" else "s_waitcnt lgkmcnt(0)",
        "group": "ttmp9" if target == "gfx1200" else "s2",
        "offset": " offset:0x0" if target == "gfx1200" else "",
    }
    return """
      {load8} s[4:11], s[0:1], 0x0
      s_lshl_b32 s3, {group}, 3
      {wait}
      {load} s[12:13], s[4:5], s3{offset}
      {load} s[14:15], s[6:7], s3{offset}
      {load} s[16:17], s[8:9], s3{offset}
      s_mov_b32 s20, 0xdeadbeef
      s_mov_b32 s21, 0xdeadbeef
      {wait}
      s_cmp_lt_i32 s16, 0
      TEXT
      s_cselect_b32 s22, 1, 0
      v_mov_b32_e32 v4, s20
      v_mov_b32_e32 v5, s21
      v_mov_b32_e32 v6, s22
      v_mov_b32_e32 v7, s3
      v_lshlrev_b32_e64 v1, 1, s3
      {store} v1, v[4:7], s[10:11]
      s_endpgm
    """.format(**words).replace("TEXT", text)


def _identity(model: ScalarModel) -> str:
    name = model.new or model.old or str(model.latest)
    return name if model.immediate is None else f"{name}_{model.immediate:x}"


TARGETS = ("gfx942", "gfx1100", "gfx1200")
SUITES = {target: [m for m in MODELS if _name(m, target)] for target in TARGETS}


@cache
def _program(target: str) -> amdgpu.Program:
    kernels = [
        kernel_text(body(instruction(model, target), target), target, name=f"k{i}", buffers=4)
        for i, model in enumerate(SUITES[target])
    ]
    return amdgpu.load(kernels_object(kernels, target))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(len(MODELS)), ids=[_identity(m) for m in MODELS])
def test_scalar_instruction(target: str, number: int) -> None:
    model = MODELS[number]
    if not _name(model, target):
        pytest.skip(f"not an instruction of {target}")
    operands = _operands()
    out = np.zeros((COUNT, 4), np.uint32)
    _program(target).launch(f"k{SUITES[target].index(model)}", COUNT, 1, [*operands, out, 0])
    for wave in range(COUNT):
        values = [int(operands[k][wave]) & ((1 << bits) - 1) for k, bits in enumerate(model.sources)]
        before = int(operands[2][wave]) >> 31 & 1
        result, scc = model.function(*values, scc=before)
        low, high, flag = (int(x) for x in out[wave, :3])
        said = f"wave {wave}: {instruction(model, target)} on {', '.join(map(hex, values))}, SCC {before}"
        if model.result == 64:
            assert (high << 32 | low, flag) == (result & (1 << 64) - 1, before if scc is None else scc), said
        else:
            assert (low, flag) == (result & 0xFFFFFFFF, before if scc is None else scc), said
            assert high == 0xDEADBEEF, said
