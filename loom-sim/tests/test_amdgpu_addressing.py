"""Addresses of global accesses by lane, and of buffer accesses by index, offset and stride, with their ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu

pytestmark = needs_llvm_mc
Array = npt.NDArray[Any]
LANES = 32
ADDRESSED_BY_LANE = ["global_load_addtid_b32", "global_store_addtid_b32"]


def _run(target: str, text: str, memory: Array) -> tuple[Array, Array]:
    """v1 is the lane, v2 four times the lane, s[4:5] the memory; v8 goes to the output, before it is -1."""
    old = target == "gfx942"
    body = f"""
      {"s_load_dwordx4" if old else "s_load_b128"} s[4:7], s[0:1], 0x0
      v_mov_b32_e32 v1, v0
      v_lshlrev_b32_e32 v2, 2, v0
      v_mov_b32_e32 v8, -1
      {"s_wait_kmcnt 0x0" if target == "gfx1200" else "s_waitcnt lgkmcnt(0)"}
      s_mov_b32 s12, s4
      {text}
      {"s_wait_loadcnt 0x0" if target == "gfx1200" else "s_waitcnt vmcnt(0)"}
      {"global_store_dword" if old else "global_store_b32"} v2, v8, s[6:7]
      s_endpgm
    """
    after, out = memory.copy(), np.zeros(LANES, "u4")
    program = amdgpu.load(kernels_object([kernel_text(body, target, buffers=2)], target))
    program.launch("k", 1, LANES, [after, out, 0])
    return after, out


@pytest.mark.parametrize("target", ["gfx1100", "gfx1200"])
def test_global_by_lane(target: str) -> None:
    memory = np.arange(1000, 1000 + LANES + 4, dtype="u4")
    after, out = _run(target, "global_load_addtid_b32 v8, s[4:5] offset:16", memory)
    np.testing.assert_array_equal(out, memory[4 : 4 + LANES])
    np.testing.assert_array_equal(after, memory)
    after, _ = _run(target, "global_store_addtid_b32 v1, s[4:5] offset:16", memory)
    np.testing.assert_array_equal(after, np.concatenate([memory[:4], np.arange(LANES)]))


STRIDE, RECORDS = 12, 20


def _expected(target: str, select: int, stride: int, index: int, offset: int, memory: Array) -> int:
    """What a word-wide load gives (AMD ISA documents, "Range Checking")."""
    if target == "gfx942":
        inside = index < RECORDS if stride else offset + 4 <= RECORDS
    elif select == 3:
        inside = offset + 4 <= RECORDS
    elif select == 2:
        inside = RECORDS != 0
    else:
        inside = index < RECORDS and (select == 1 or stride == 0 or offset + 4 <= stride)
    return int(memory[(index * stride + offset) // 4]) if inside else 0


@pytest.mark.parametrize("target", ["gfx942", "gfx1100", "gfx1200"])
@pytest.mark.parametrize("stride", [0, STRIDE])
@pytest.mark.parametrize("form", ["idxen", "offen", "bothen"])
@pytest.mark.parametrize("select", [0, 1, 2, 3])
def test_ends_of_buffers(select: int, form: str, stride: int, target: str) -> None:
    old = target == "gfx942"
    if old and select:
        pytest.skip("gfx942 has no selection of range checks")
    memory = np.arange(1, 1 + 256, dtype="u4")
    address = {"idxen": "v1", "offen": "v2", "bothen": "v[4:5]"}[form]
    flags = "idxen offen" if form == "bothen" else form
    name, zero = "buffer_load_dword" if old else "buffer_load_b32", "null" if target == "gfx1200" else "0"
    text = f"""
      s_and_b32 s13, s5, 0xffff
      s_or_b32 s13, s13, {stride << 16:#x}
      s_movk_i32 s14, {RECORDS}
      s_mov_b32 s15, {0x27000 if old else select << 28:#x}
      v_mov_b32_e32 v4, v1
      v_and_b32_e32 v5, 12, v2
      {name} v8, {address}, s[12:15], {zero} {flags} offset:4
    """
    _, out = _run(target, text, memory)
    for lane in range(LANES):
        index = 0 if form == "offen" else lane
        offset = 4 + {"idxen": 0, "offen": 4 * lane, "bothen": 4 * lane & 12}[form]
        assert out[lane] == _expected(target, select, stride, index, offset, memory), f"lane {lane}"
