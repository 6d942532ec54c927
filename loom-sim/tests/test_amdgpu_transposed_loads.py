"""Loads of gfx12 that transpose, against lists that are transposed, and as operands of matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from amdgpu_compile import KERNELS, gpu_object, kernel_text, kernels_object, needs_clang, needs_llvm_mc

from loom_sim import amdgpu
from loom_sim.amdgpu.errors import UnsupportedInstruction

Array = npt.NDArray[Any]
INSTRUCTIONS = ["global_load_tr_b128", "global_load_tr_b64"]
LANES = 32


def _body(load: str, count: int, before: str = "") -> str:
    """Lane l loads from byte 16 * order(l); its words go to the output."""
    stores = "\n".join(f"global_store_b32 v1, v{4 + k}, s[6:7] offset:{4 * k}" for k in range(count))
    return f"""
      s_load_b128 s[4:7], s[0:1], 0x0
      v_lshlrev_b32_e32 v1, 4, v0
      v_xor_b32_e32 v2, 0x30, v1
      s_wait_kmcnt 0x0
      {before}
      {load}
      s_wait_loadcnt 0x0
      {stores}
      s_endpgm
    """


def _run(load: str, count: int, data: Array, before: str = "") -> Array:
    out = np.zeros((LANES, 4), np.uint32)
    program = amdgpu.load(kernels_object([kernel_text(_body(load, count, before), "gfx1200", buffers=2)], "gfx1200"))
    program.launch("k", 1, LANES, [data, out, 0])
    return out[:, :count]


def _transposed(tile: list[list[int]]) -> list[list[int]]:
    return [list(column) for column in zip(*tile, strict=True)]


def _expected(runs: list[list[int]]) -> list[list[int]]:
    """Each lane's elements when each has read a run of 16-bit or of 8-bit elements; tiles are 8 x 8."""
    result: list[list[int]] = [[] for _ in runs]
    wide = max(max(run) for run in runs) > 255
    for start in range(0, LANES, 8 if wide else 16):
        groups: list[tuple[Sequence[int], Sequence[int]]]
        if wide:
            groups = [(range(start, start + 8), range(start, start + 8))]
        else:
            groups = [
                ([start + k for k in (0, 1, 2, 3, 8, 9, 10, 11)], range(start, start + 8)),
                ([start + k for k in (4, 5, 6, 7, 12, 13, 14, 15)], range(start + 8, start + 16)),
            ]
        for readers, receivers in groups:
            for lane, column in zip(receivers, _transposed([runs[r] for r in readers]), strict=True):
                result[lane] = column
    return result


@needs_llvm_mc
@pytest.mark.parametrize(
    "form", ["{} v[4:{}], v2, s[4:5]", "{} v[4:{}], v2, s[4:5] offset:32", "{} v[4:{}], v[2:3], off"]
)
@pytest.mark.parametrize(("name", "kind"), [("global_load_tr_b128", np.uint16), ("global_load_tr_b64", np.uint8)])
def test_tiles_are_transposed(name: str, kind: type[Any], form: str) -> None:
    size, count = np.dtype(kind).itemsize, 4 if kind is np.uint16 else 2
    rng = np.random.default_rng(4)
    data = rng.permutation(np.arange(1 << 10, dtype=np.uint32)).astype(kind)
    before = "v_add_co_u32 v2, s8, s4, v2\nv_add_co_ci_u32_e64 v3, s8, s5, 0, s8" if form.endswith("off") else ""
    got = _run(form.format(name, 3 + count), count, data, before)
    skipped = 32 if "offset" in form else 0
    starts = [((lane * 16 ^ 0x30) + skipped) // size for lane in range(LANES)]
    runs = [data[start : start + 8].tolist() for start in starts]
    np.testing.assert_array_equal(np.ascontiguousarray(got).view(kind), np.array(_expected(runs), kind))


@needs_llvm_mc
def test_inactive_lanes_are_refused() -> None:
    with pytest.raises(UnsupportedInstruction, match=r"transposes while some lanes are inactive.*global_load_tr_b64"):
        _run("global_load_tr_b64 v[4:5], v2, s[4:5]", 2, np.zeros(1 << 10, np.uint8), "s_mov_b32 exec_lo, 0xffff")


@needs_llvm_mc
def test_waves_of_64_are_refused() -> None:
    body = _body("global_load_tr_b64 v4, v2, s[4:5]", 1)
    kernel = kernel_text(body, "gfx1200", buffers=2, mode=".amdhsa_wavefront_size32 0")
    program = amdgpu.load(kernels_object([kernel], "gfx1200", "+wavefrontsize64"))
    with pytest.raises(UnsupportedInstruction, match=r"transpose in waves of 64.*global_load_tr_b64"):
        program.launch("k", 1, 64, [np.zeros(4096, np.uint8), np.zeros((64, 4), np.uint32), 0])


@needs_clang
@pytest.mark.parametrize("kernel", ["halves", "bytes"])
def test_operands_of_products(kernel: str) -> None:
    """B is stored row by row; the load makes of it what the product takes."""
    rng = np.random.default_rng(6)
    kind = "f2" if kernel == "halves" else "i1"
    a, b = (rng.integers(-8, 8, (16, 16)).astype(kind) for _ in range(2))
    out = np.zeros((16, 16), "f4" if kernel == "halves" else "i4")
    program = amdgpu.load(gpu_object(KERNELS / "transposed.c", "gfx1200", "2"))
    program.launch(kernel, 1, LANES, [a, b, out])
    np.testing.assert_array_equal(out, a.astype(out.dtype) @ b.astype(out.dtype))
