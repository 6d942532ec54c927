"""Program counter, hardware registers, clocks, and instructions that leave everything as it is."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc
from test_amdgpu_scalar import body

from loom_sim import amdgpu
from loom_sim.amdgpu.errors import SimulationFault

pytestmark = needs_llvm_mc
TARGETS = ("gfx942", "gfx1100", "gfx1200")


def _run(text: str, target: str) -> list[int]:
    """s20, s21 and SCC after the text; s12 is 5, s14 is 9, s16 is zero."""
    out = np.zeros((1, 4), np.uint32)
    operands = [np.array([value], np.uint64) for value in (5, 9, 0)]
    program = amdgpu.load(kernels_object([kernel_text(body(text, target), target, buffers=4)], target))
    program.launch("k", 1, 1, [*operands, out, 0])
    found: list[int] = out[0, :3].tolist()
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_jumps(target: str) -> None:
    # The subroutine adds one and returns; it is called at a place relative to the program counter.
    text = """
      s_mov_b32 s20, 0
      s_getpc_b64 s[24:25]
    .Lhere:
      EXTEND
      s_add_u32 s24, s24, .Lroutine-.Lhere
      s_addc_u32 s25, s25, 0
      s_swappc_b64 s[26:27], s[24:25]
      s_call_b64 s[26:27], .Lroutine
      s_branch .Lend
    .Lroutine:
      s_add_u32 s20, s20, 1
      s_setpc_b64 s[26:27]
    .Lend:
      s_mov_b32 s21, s20
    """
    # On gfx12 the upper half comes without its sign.
    extend = "s_sext_i32_i16 s25, s25" if target == "gfx1200" else ""
    assert _run(text.replace("EXTEND", extend), target)[:2] == [2, 2]


@pytest.mark.parametrize("target", TARGETS)
def test_mode_register(target: str) -> None:
    text = """
      s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0x6
      s_nop 1
      s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s12
      s_nop 1
      s_getreg_b32 s20, hwreg(HW_REG_MODE, 0, 8)
      s_getreg_b32 s21, hwreg(HW_REG_MODE, 1, 3)
    """
    # Denormals of f16 and f64 stay allowed; of five only the two lowest bits fit.
    assert _run(text, target)[:2] == [0b11_01_0110, 0b011]


NOTHING = {
    "gfx942": """buffer_wbinvl1\nbuffer_wbinvl1_vol\nbuffer_inv sc1\nbuffer_wbl2 sc1\ns_dcache_inv\ns_dcache_inv_vol\ns_dcache_wb\ns_dcache_wb_vol
      s_atc_probe 1, s[10:11], 0x0\ns_atc_probe_buffer 1, s[4:7], 0x0""",
    "gfx1100": """buffer_gl0_inv\nbuffer_gl1_inv\ns_dcache_inv\ns_gl1_inv\ns_version 0x2\ns_waitcnt_expcnt null, 0x0
      s_waitcnt_lgkmcnt null, 0x0\ns_waitcnt_vmcnt null, 0x0\ns_waitcnt_vscnt null, 0x0
      s_atc_probe 1, s[10:11], 0x0\ns_atc_probe_buffer 1, s[4:7], 0x0""",
    "gfx1200": """global_inv scope:SCOPE_SE\nglobal_wb scope:SCOPE_SE\nglobal_wbinv scope:SCOPE_SE\ns_dcache_inv
      s_version 0x2\ns_sleep_var s12\ns_prefetch_inst s[10:11], 0x0, s12, 1\ns_prefetch_inst_pc_rel 0x0, s12, 1
      s_prefetch_data s[10:11], 0x0, s12, 1\ns_prefetch_data_pc_rel 0x0, s12, 1
      s_buffer_prefetch_data s[4:7], 0x0, s12, 1\ns_atc_probe 1, s[10:11], 0x0\ns_atc_probe_buffer 1, s[4:7], 0x0
      s_barrier_signal -1\ns_barrier_wait -1""",
}
"""Cache control, hints and waits: nothing of it can be seen by a program."""


@pytest.mark.parametrize("target", TARGETS)
def test_instructions_without_visible_effect(target: str) -> None:
    text = f"s_cmp_eq_u32 s12, 5\ns_mov_b32 s20, s12\ns_mov_b32 s21, s14\n{NOTHING[target]}"
    assert _run(text, target) == [5, 9, 1]


@pytest.mark.parametrize(
    ("target", "read"),
    [("gfx942", "s_memtime {0}"), ("gfx942", "s_memrealtime {0}"),
     ("gfx1100", "s_sendmsg_rtn_b64 {0}, sendmsg(MSG_RTN_GET_REALTIME)"),
     ("gfx1200", "s_sendmsg_rtn_b64 {0}, sendmsg(MSG_RTN_GET_REALTIME)")],
)  # fmt: skip
def test_clocks_advance(target: str, read: str) -> None:
    wait = "s_wait_kmcnt 0x0" if target == "gfx1200" else "s_waitcnt lgkmcnt(0)"
    text = f"{read.format('s[20:21]')}\n{wait}\n{read.format('s[18:19]')}\n{wait}\ns_cmp_gt_u32 s18, s20"
    assert _run(text, target)[2] == 1


FIRST = """
  v_lshlrev_b32_e32 v1, 2, v0
  v_readfirstlane_b32 s8, v0
  s_lshl_b32 s9, ttmp9, 9
  v_add_nc_u32_e32 v1, s9, v1
  s_load_b64 s[4:5], s[0:1], 0x0
  s_wait_kmcnt 0x0
{0}
  v_mov_b32_e32 v2, s12
  global_store_b32 v1, v2, s[4:5]
  s_endpgm
"""
"""Workgroups of 128 lanes on gfx12: s8 is the first lane of the wave, and s12 goes to the output of all its lanes."""


def _first(text: str, workgroups: int) -> np.ndarray[Any, Any]:
    """s12 of each wave, a row per workgroup of four."""
    out = np.full((workgroups, 4, 32), 99, np.uint32)
    kernel = kernel_text(FIRST.format(text), "gfx1200", buffers=1, lds=64)
    amdgpu.load(kernels_object([kernel], "gfx1200")).launch("k", workgroups, 128, [out, 0])
    assert (out == out[..., :1]).all()
    found: np.ndarray[Any, Any] = out[..., 0]
    return found


def test_one_wave_of_a_workgroup_is_first_at_every_barrier() -> None:
    # The second and third time waves come from two places, and one of the two counts 10 instead of 1.
    text = """
      s_barrier_signal_isfirst -1
      s_cselect_b32 s12, 1, 0
      s_barrier_wait -1
      s_cmp_lt_u32 s8, 64
      s_cbranch_scc1 .Lother
      s_barrier_signal_isfirst -1
      s_cselect_b32 s13, 100, 0
      s_branch .Lmeet
    .Lother:
      s_barrier_signal_isfirst -1
      s_cselect_b32 s13, 100, 0
    .Lmeet:
      s_barrier_wait -1
      s_add_u32 s12, s12, s13
      s_barrier_signal_isfirst -1
      s_cselect_b32 s13, 0x2710, 0
      s_barrier_wait -1
      s_add_u32 s12, s12, s13
    """
    found = _first(text, 5)
    assert (found.sum(axis=1) == 10101).all(), found
    assert set(np.unique(found)) <= {a + 100 * b + 10000 * c for a in (0, 1) for b in (0, 1) for c in (0, 1)}


def test_nobody_is_first_after_another_signal() -> None:
    # The wave of lane 64 signals, then raises the flag that the others wait for.
    text = """
      v_mov_b32_e32 v3, 0
      ds_store_b32 v3, v3
      s_wait_dscnt 0x0
      s_barrier_signal -1
      s_barrier_wait -1
      s_mov_b32 s12, 7
      s_cmp_eq_u32 s8, 64
      s_cbranch_scc1 .Learly
    .Lspin:
      ds_add_rtn_u32 v4, v3, v3
      s_wait_dscnt 0x0
      v_readfirstlane_b32 s13, v4
      s_cmp_eq_u32 s13, 0
      s_cbranch_scc1 .Lspin
      s_cmp_eq_u32 s8, s8
      s_barrier_signal_isfirst -1
      s_cselect_b32 s12, 1, 0
      s_branch .Lmeet
    .Learly:
      s_barrier_signal -1
      v_mov_b32_e32 v4, 1
      ds_add_rtn_u32 v4, v3, v4
      s_wait_dscnt 0x0
    .Lmeet:
      s_barrier_wait -1
    """
    assert _first(text, 3).tolist() == [[0, 0, 7, 0]] * 3


NAMED = (
    *(f"s_barrier_{what} {number}" for what in ("init", "join", "signal", "signal_isfirst") for number in ("1", "m0")),
    *("s_barrier_wait 1", "s_barrier_leave", "s_wakeup_barrier 1", "s_barrier_signal -2"),
)


@pytest.mark.parametrize(
    ("target", "text", "reason"),
    [
        ("gfx1100", "s_sendmsg_rtn_b32 s20, sendmsg(MSG_RTN_GET_DOORBELL)", "depends on the driver"),
        ("gfx1200", "s_barrier_signal_isfirst -1", "a workgroup of one wave"),
        *(("gfx1200", text, "named barriers exist from gfx1250 on") for text in NAMED),
        ("gfx1200", "s_get_barrier_state s20, -1", "depends on their speed"),
        ("gfx1100", "ds_gws_barrier v4 gds", "global data share|global wave sync"),
        ("gfx942", "s_sethalt 1", "trap handlers and debuggers"),
        ("gfx942", "s_dcache_discard s[10:11], 0x0", "drops data"),
    ],
)
def test_refused_with_address_bytes_name_and_reason(target: str, text: str, reason: str) -> None:
    name = text.split()[0]
    with pytest.raises(SimulationFault, match=f"unsupported: .*({reason}).*at 0x[0-9a-f]+.*{name}") as caught:
        _run(text, target)
    assert re.search(r"its bytes are [0-9a-f]{2}( [0-9a-f]{2}){3,7} ", str(caught.value))


def names(target: str) -> set[str]:
    """Mnemonics that the tests of this file execute and look at."""
    common = {"s_getpc_b64", "s_swappc_b64", "s_call_b64", "s_setpc_b64", "s_setreg_b32", "s_setreg_imm32_b32"}
    clocks = {"s_memtime", "s_memrealtime"} if target == "gfx942" else {"s_sendmsg_rtn_b64"}
    first = {"s_barrier_signal_isfirst"} if target == "gfx1200" else set()
    return {"s_getreg_b32", *first, *common, *clocks, *re.findall(r"(?m)^\s*(\w+)", NOTHING[target])}
