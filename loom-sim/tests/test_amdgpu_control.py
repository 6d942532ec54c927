"""Program counter, hardware registers, clocks, and instructions that leave everything as it is."""

from __future__ import annotations

import re

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
      s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s12
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


@pytest.mark.parametrize(
    ("target", "text", "reason"),
    [
        ("gfx1100", "s_sendmsg_rtn_b32 s20, sendmsg(MSG_RTN_GET_DOORBELL)", "depends on the driver"),
        ("gfx1200", "s_barrier_signal_isfirst -1", "only the barrier of the workgroup"),
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
    return {"s_getreg_b32", *common, *clocks, *re.findall(r"(?m)^\s*(\w+)", NOTHING[target])}
