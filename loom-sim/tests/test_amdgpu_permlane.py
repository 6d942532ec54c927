"""Lane permutations within rows of sixteen, against a model that looks at one lane at a time."""

from __future__ import annotations

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu

pytestmark = needs_llvm_mc

NAMES = [f"v_permlane{x}16_{kind}b32" for x in ("", "x") for kind in ("", "var_")]
OLD = 0xDEAD
LOW, HIGH = 0x7361_0F52, 0xC9A8_4BED
WHOLE, PARTIAL = 0xFFFF_FFFF, 0x5A0F_FC31
VALUES = np.random.default_rng(5).integers(0, 2**32, 32, dtype=np.uint32)
SELECTORS = np.random.default_rng(6).integers(0, 2**32, 32, dtype=np.uint32)


def run(instruction: str, target: str, mask: int) -> list[int]:
    """What v8 holds in each lane of one wave of 32 lanes after the instruction."""
    kernargs, loads = (
        ("s_wait_kmcnt 0x0", "s_wait_loadcnt 0x0") if target == "gfx1200" else ("s_waitcnt 0", "s_waitcnt 0")
    )
    body = f"""
      s_load_b128 s[4:7], s[0:1], 0x0
      s_load_b64 s[8:9], s[0:1], 0x10
      v_lshlrev_b32_e32 v1, 2, v0
      v_mov_b32_e32 v8, {OLD:#x}
      s_mov_b32 s10, {LOW:#x}
      s_mov_b32 s11, {HIGH:#x}
      {kernargs}
      global_load_b32 v2, v1, s[4:5]
      global_load_b32 v4, v1, s[6:7]
      {loads}
      s_mov_b32 exec_lo, {mask:#x}
      {instruction}
      s_mov_b32 exec_lo, -1
      global_store_b32 v1, v8, s[8:9]
      s_endpgm
    """
    program = amdgpu.load(kernels_object([kernel_text(body, target, buffers=3)], target))
    result = np.zeros(32, np.uint32)
    program.launch("k", workgroups=1, workgroup_size=32, arguments=[VALUES.copy(), SELECTORS.copy(), result, 0])
    return [int(word) for word in result]


def model(across: bool, per_lane: bool, fetch_inactive: bool, bound_control: bool, mask: int) -> list[int]:
    """The rule of the RDNA instruction set documents, lane by lane."""
    found = []
    for lane in range(32):
        if not mask >> lane & 1:
            found.append(OLD)
            continue
        place = lane % 16
        word = (LOW if place < 8 else HIGH) >> 4 * (place % 8)
        selector = (int(SELECTORS[lane]) if per_lane else word) & 15
        row = lane // 16
        source = 16 * (1 - row if across else row) + selector
        if mask >> source & 1 or fetch_inactive:
            found.append(int(VALUES[source]))
        else:
            found.append(0 if bound_control else OLD)
    return found


@pytest.mark.parametrize("mask", [WHOLE, PARTIAL])
@pytest.mark.parametrize(("fetch_inactive", "bound_control"), [(0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize(("target", "per_lane"), [("gfx1100", False), ("gfx1200", False), ("gfx1200", True)])
def test_rows_of_sixteen(
    target: str, per_lane: bool, across: bool, fetch_inactive: int, bound_control: int, mask: int
) -> None:
    name = f"v_permlane{'x' if across else ''}16_{'var_' if per_lane else ''}b32"
    selectors = "v4" if per_lane else "s10, s11"
    instruction = f"{name} v8, v2, {selectors} op_sel:[{fetch_inactive},{bound_control}]"
    assert run(instruction, target, mask) == model(across, per_lane, bool(fetch_inactive), bool(bound_control), mask)


@pytest.mark.parametrize("target", ["gfx1100", "gfx1200"])
def test_halves_of_a_wave_of_32_lanes_do_not_exist(target: str) -> None:
    """V_PERMLANE64 swaps the halves of 64 lanes; with 32 it does nothing."""
    assert run("v_permlane64_b32 v8, v2", target, WHOLE) == [OLD] * 32
