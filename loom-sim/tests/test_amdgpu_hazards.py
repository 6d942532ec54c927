"""Programs that keep the distances hardware does not keep, and the same programs with one instruction less."""

from __future__ import annotations

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu

pytestmark = needs_llvm_mc

START_9 = (
    "s_load_dwordx4 s[4:7], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\nv_lshlrev_b32_e32 v1, 2, v0\nv_mov_b32_e32 v2, 1.0\n"
)
START = "s_load_b128 s[4:7], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\nv_lshlrev_b32_e32 v1, 2, v0\nv_mov_b32_e32 v2, 1.0\n"
START_12 = START.replace("s_waitcnt lgkmcnt(0)", "s_wait_kmcnt 0x0")
MATRICES = "".join(f"v_mov_b32_e32 v{n}, 0\n" for n in range(2, 32))

# processor, what comes before, what keeps the distance (leaving out its last line is the fault), the instruction
PAIRS = {
    "scalar to vector": (
        "gfx942",
        START_9 + "v_readfirstlane_b32 s8, v0\n",
        "s_nop 1\n",
        "v_add_u32_e32 v3, s8, v0\n",
    ),
    "vcc to vector": (
        "gfx942",
        START_9 + "v_cmp_eq_u32_e32 vcc, 1, v0\n",
        "s_nop 0\ns_nop 0\n",
        "v_cndmask_b32_e32 v3, v0, v1, vcc\n",
    ),
    "scalar to lane select": (
        "gfx942",
        START_9 + "v_readfirstlane_b32 s8, v0\n",
        "s_nop 2\ns_nop 0\n",
        "v_readlane_b32 s9, v0, s8\n",
    ),
    "vcc to v_div_fmas": (
        "gfx942",
        START_9 + "v_cmp_eq_u32_e32 vcc, 1, v0\n",
        "s_nop 2\ns_nop 0\n",
        "v_div_fmas_f32 v3, v2, v2, v2\n",
    ),
    "s_setreg to s_setreg": (
        "gfx942",
        START_9 + "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0x6\n",
        "s_nop 0\ns_nop 0\n",
        "s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s4\n",
    ),
    "vcc to src_vccz": (
        "gfx942",
        START_9 + "v_cmp_eq_u32_e32 vcc, 1, v0\n",
        "s_nop 3\ns_nop 0\n",
        "v_add_u32_e32 v3, src_vccz, v0\n",
    ),
    "exec to src_execz": (
        "gfx942",
        START_9 + "v_cmpx_ne_u32_e32 vcc, -1, v0\n",
        "s_nop 3\ns_nop 0\n",
        "v_mov_b32_e32 v3, src_execz\n",
    ),
    "vector to readfirstlane": (
        "gfx942",
        START_9 + "v_mov_b32_e32 v3, v0\n",
        "s_nop 0\n",
        "v_readfirstlane_b32 s8, v3\n",
    ),
    "vector to DPP": (
        "gfx942",
        START_9 + "v_mov_b32_e32 v3, v0\n",
        "s_nop 0\nv_mov_b32_e32 v5, 0\n",
        "v_mov_b32_dpp v4, v3 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0\n",
    ),
    "transcendental": (
        "gfx942",
        START_9 + "v_rcp_f32_e32 v3, v2\n",
        "s_nop 0\n",
        "v_add_f32_e32 v4, v3, v2\n",
    ),
    "wide store": (
        "gfx942",
        START_9 + "v_mov_b32_e32 v3, 0\nv_mov_b32_e32 v4, 0\nglobal_store_dwordx3 v1, v[2:4], s[4:5]\n",
        "s_nop 0\ns_nop 0\n",
        "v_mov_b32_e32 v4, 1\n",
    ),
    "product to fused, double precision": (
        "gfx942",
        START_9 + MATRICES + "s_nop 1\nv_mfma_f64_4x4x4_4b_f64 v[8:9], v[10:11], v[12:13], v[8:9]\n",
        "s_nop 0\nv_mov_b32_e32 v14, 0\n",
        "v_fma_f64 v[20:21], v[22:23], v[22:23], v[22:23]\n",
    ),
    "transcendental, gfx1100": (
        "gfx1100",
        START + "v_rcp_f32_e32 v3, v2\n",
        "s_waitcnt_depctr 0xfff\n",
        "v_add_f32_e32 v4, v3, v2\n",
    ),
    "transcendental, kept by vector instructions": (
        "gfx1100",
        START + "v_rcp_f32_e32 v3, v2\n",
        "v_mov_b32_e32 v5, 0\n" * 6,
        "v_add_f32_e32 v4, v3, v2\n",
    ),
    "matrix operand, gfx1100": (
        "gfx1100",
        START + MATRICES + "v_wmma_f32_16x16x16_f16 v[8:15], v[16:23], v[16:23], v[8:15]\n",
        "v_nop\n",
        "v_wmma_f32_16x16x16_f16 v[24:31], v[8:15], v[16:23], v[24:31]\n",
    ),
    "matrix operand, gfx1200": (
        "gfx1200",
        START_12 + MATRICES + "v_wmma_f32_16x16x16_f16 v[8:15], v[16:19], v[16:19], v[8:15]\n",
        "v_nop\n",
        "v_wmma_f32_16x16x16_f16 v[24:31], v[8:11], v[16:19], v[24:31]\n",
    ),
}
HARMLESS = {
    "a register of another kind": ("gfx942", START_9 + "v_readfirstlane_b32 s8, v0\nv_add_u32_e32 v3, s7, v0\n"),
    "written anew by the scalar unit, to be stored": (
        "gfx942",
        START_9 + "v_readfirstlane_b32 s8, v0\ns_nop 1\nv_mov_b32_e32 v3, s8\n",
    ),
    "product to sum, double precision": (
        "gfx942",
        START_9
        + MATRICES
        + "s_nop 1\nv_mfma_f64_4x4x4_4b_f64 v[8:9], v[10:11], v[12:13], v[8:9]\nv_add_f64 v[20:21], v[22:23], v[22:23]\n",
    ),
    "transcendental after transcendental": ("gfx942", START_9 + "v_rcp_f32_e32 v3, v2\nv_rcp_f32_e32 v4, v3\n"),
    "interlocked on gfx1151": ("gfx1151", START + "v_rcp_f32_e32 v3, v2\nv_add_f32_e32 v4, v3, v2\n"),
    "accumulating over one matrix": (
        "gfx1100",
        START + MATRICES + "v_wmma_f32_16x16x16_f16 v[8:15], v[16:23], v[16:23], v[8:15]\n" * 2,
    ),
}


def _launch(processor: str, body: str, *, strict: bool = True) -> None:
    ending = "s_endpgm"
    program = amdgpu.load(kernels_object([kernel_text(body + ending, processor, buffers=2)], processor))
    arrays = [np.zeros(1024, np.uint32) for _ in range(2)]
    program.launch("k", workgroup_size=64, arguments=[*arrays, 0], strict=strict)


@pytest.mark.parametrize("name", PAIRS)
def test_one_instruction_less_is_a_fault(name: str) -> None:
    processor, before, between, instruction = PAIRS[name]
    _launch(processor, before + between + instruction)
    shorter = "".join(between.splitlines(keepends=True)[:-1])
    with pytest.raises(amdgpu.SimulationFault) as caught:
        _launch(processor, before + shorter + instruction)
    record = caught.value.record
    assert record.kind == "hazard"
    assert record.instruction is not None
    assert record.instruction.split()[0].startswith(instruction.split()[0].split("_e32")[0].split("_dpp")[0])
    _launch(processor, before + shorter + instruction, strict=False)


@pytest.mark.parametrize(("states", "faulty"), [(3, True), (4, False)])
def test_an_address_from_the_vector_unit(states: int, faulty: bool) -> None:
    body = START_9 + "v_mov_b32_e32 v3, s4\nv_mov_b32_e32 v4, s5\ns_nop 1\nv_readfirstlane_b32 s8, v3\n"
    body += f"v_readfirstlane_b32 s9, v4\ns_nop {states}\nglobal_load_dword v5, v1, s[8:9]\n"
    if not faulty:
        _launch("gfx942", body)
        return
    with pytest.raises(amdgpu.SimulationFault, match="hazard: uses s9, which a vector instruction wrote: 5 wait"):
        _launch("gfx942", body)


@pytest.mark.parametrize("name", HARMLESS)
def test_no_distance_is_needed(name: str) -> None:
    _launch(*HARMLESS[name])


def test_a_distance_is_missing_on_one_path_only() -> None:
    """The short way to the label comes right after the write."""
    body = START_9 + "s_cmp_eq_u32 s2, 0\nv_readfirstlane_b32 s8, v0\ns_cbranch_scc1 .Luse\ns_nop 3\n"
    body += ".Luse:\nv_add_u32_e32 v3, s8, v0\n"
    with pytest.raises(amdgpu.SimulationFault, match="hazard: uses s8"):
        _launch("gfx942", body)


def test_a_distance_is_kept_around_a_loop() -> None:
    body = (
        START_9 + "s_mov_b32 s9, 3\ns_mov_b32 s8, 0\n.Lloop:\nv_add_u32_e32 v3, s8, v0\ns_nop 1\ns_sub_u32 s9, s9, 1\n"
    )
    body += "s_cmp_lg_u32 s9, 0\nv_readfirstlane_b32 s8, v3\n{more}s_cbranch_scc1 .Lloop\n"
    _launch("gfx942", body.format(more="s_nop 0\n"))
    with pytest.raises(amdgpu.SimulationFault, match="v_add_u32"):
        _launch("gfx942", body.format(more=""))
