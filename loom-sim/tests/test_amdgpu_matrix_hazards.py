"""Wait states behind matrix instructions, masks, M0 and hardware registers: enough, and one less.

The counts are those of the public tables for gfx942 (MI300 instruction set, manually inserted wait states) and of
LLVM's hazard recognizer for gfx950, written out; the code under test has formulas.
"""

from __future__ import annotations

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu

# mnemonic: registers of factor and result; states before a use, memory, the same accumulator, an overlapping one of
# the same instruction, a new value for the accumulator that was read.
TABLE = {
    "v_mfma_f32_4x4x4_16b_f16": (2, 4, 5, 5, 2, 3, 1),
    "v_mfma_f32_16x16x16_f16": (2, 4, 7, 7, 0, 5, 3),
    "v_mfma_f32_16x16x4_4b_f16": (2, 16, 11, 11, 0, 9, 7),
    "v_mfma_i32_16x16x32_i8": (2, 4, 7, 7, 0, 5, 3),
    "v_mfma_f32_16x16x8_xf32": (2, 4, 7, 7, 0, 5, 3),
    "v_mfma_f32_32x32x4_xf32": (2, 16, 11, 11, 0, 9, 7),
    "v_mfma_f32_32x32x8_bf16": (2, 16, 11, 11, 0, 9, 7),
    "v_mfma_f32_32x32x4_2b_f16": (2, 32, 19, 19, 0, 17, 15),
    "v_mfma_f32_4x4x1_16b_f32": (1, 4, 4, 4, 2, 2, 0),
    "v_mfma_f32_16x16x4_f32": (1, 4, 10, 10, 0, 8, 0),
    "v_mfma_f32_32x32x2_f32": (1, 16, 18, 18, 0, 16, 0),
    "v_mfma_f64_4x4x4_4b_f64": (2, 2, 6, 9, 4, None, 0),
    "v_mfma_f64_16x16x4_f64": (2, 8, 11, 18, 0, 9, 0),
}
GFX950 = {
    "v_mfma_f32_4x4x4_16b_f16": (2, 4, 5, 5, 2, 3, 1),
    "v_mfma_f32_16x16x16_f16": (2, 4, 8, 8, 0, 6, 3),
    "v_mfma_f32_32x32x8_f16": (2, 16, 12, 12, 0, 10, 7),
    "v_mfma_f32_16x16x4_f32": (1, 4, 10, 10, 0, 8, 0),
}


def _start(result: int = 4) -> str:
    """Fill the registers that products with so many results read: factors, results and accumulators."""
    filled = [*range(2, 7), *range(20, 22 + result), *range(56, 56 + result)]
    return "v_lshlrev_b32_e32 v1, 2, v0\n" + "".join(f"v_mov_b32_e32 v{n}, 0\n" for n in filled) + "s_nop 7\n"


_MACHINE, _GFX950 = 48, 0x4F
"""Offset of the processor in the header of the file, and its number (LLVM, User Guide for AMDGPU Backend)."""


def _load(processor: str, bodies: list[str]) -> amdgpu.Program:
    """One kernel per body: k0, k1, ..."""
    known = "gfx942" if processor == "gfx950" else processor
    kernels = [
        kernel_text(body + "s_endpgm", known, name=f"k{n}", vgprs=140, lds=1024) for n, body in enumerate(bodies)
    ]
    image = bytearray(kernels_object(kernels, known))
    if processor == "gfx950":  # LLVM 19 does not know it; what is used here has the same encoding
        image[_MACHINE] = _GFX950
        image = image.replace(b"gfx942", b"gfx950")
    return amdgpu.load(bytes(image))


def _launch(program: amdgpu.Program, kernel: str, strict: bool = True) -> None:
    program.launch(kernel, workgroup_size=64, arguments=[np.zeros(64, np.uint32), 0], strict=strict)


def _idle(states: int) -> str:
    return f"s_nop {min(states, 8) - 1}\n" + _idle(states - 8) if states > 0 else ""


def _check(processor: str, before: str, cases: list[tuple[int, str]]) -> None:
    """Exactly so many states are asked for between what comes before and each of the instructions."""
    bodies = [before + _idle(s) + after for states, after in cases for s in (states, max(0, states - 1))]
    program = _load(processor, bodies)
    for n, (states, after) in enumerate(cases):
        _launch(program, f"k{2 * n}")
        if not states:
            continue
        message = f"{states} wait states must be between, and there are {states - 1} "
        with pytest.raises(amdgpu.SimulationFault, match=message) as caught:
            _launch(program, f"k{2 * n + 1}")
        record = caught.value.record
        assert record.kind == "hazard"
        assert record.instruction is not None
        assert record.instruction.split()[0] == after.split()[0]
        _launch(program, f"k{2 * n + 1}", strict=False)


def _span(first: int, count: int) -> str:
    return f"v[{first}:{first + count - 1}]" if count > 1 else f"v{first}"


def _product(mnemonic: str, factor: int, result: int, d: int, a: int, c: int) -> str:
    return f"{mnemonic} {_span(d, result)}, {_span(a, factor)}, {_span(a, factor)}, {_span(c, result)}\n"


@needs_llvm_mc
@pytest.mark.parametrize(("processor", "mnemonic"), [*(("gfx942", m) for m in TABLE), *(("gfx950", m) for m in GFX950)])
def test_states_behind_a_matrix_instruction(processor: str, mnemonic: str) -> None:
    row = (GFX950 if processor == "gfx950" else TABLE)[mnemonic]
    factor, result, use, memory, same, overlap, source = row
    first = _start(result) + _product(mnemonic, factor, result, 20, 4, 56)
    last = 20 + result - 1
    cases = [
        (use, f"v_mov_b32_e32 v2, v{last}\n"),
        (use, f"v_mov_b32_e32 v{last}, 0\n"),
        (use, _product(mnemonic, factor, result, 96, 20, 56)),
        (memory, f"ds_write_b32 v1, v{last}\n"),
        (source, "v_mov_b32_e32 v56, 0\n"),
        (same, _product(mnemonic, factor, result, 20, 4, 20)),
    ]
    if overlap is not None:
        cases.append((overlap, _product(mnemonic, factor, result, 96, 4, 22)))
    _check(processor, first, cases)


CROSSED = {
    "single to cores is not asked for": ("v_mfma_f32_16x16x4_f32", 0),
    "cores to single": ("v_mfma_f32_16x16x16_f16", 5),
}


@needs_llvm_mc
@pytest.mark.parametrize("name", CROSSED)
def test_accumulating_over_the_result_of_another_unit(name: str) -> None:
    first, states = CROSSED[name]
    second = next(m for m, _ in CROSSED.values() if m != first)
    before = _start() + _product(first, TABLE[first][0], 4, 20, 4, 56)
    _check("gfx942", before, [(states, _product(second, TABLE[second][0], 4, 96, 4, 22))])


COMPARE = "v_cmpx_eq_u32_e32 vcc, v0, v0\n"
DPP = "v_mov_b32_dpp v4, v3 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0\n"
MFMA = _product("v_mfma_f32_16x16x16_f16", 2, 4, 20, 4, 56)
# what comes before, wait states, the instruction
STATES = {
    "mask to matrix": (COMPARE, 4, MFMA),
    "vector to factor": ("v_mov_b32_e32 v5, 0\n", 2, MFMA),
    "vector to accumulator": ("v_mov_b32_e32 v57, 0\n", 2, MFMA),
    "mask to DPP": (COMPARE, 5, DPP),
    "mask to a lane read": (COMPARE, 4, "v_readlane_b32 s8, v3, 1\n"),
    "mask to the first lane": (COMPARE, 4, "v_readfirstlane_b32 s8, v3\n"),
    "mask to a lane written": (COMPARE, 4, "v_writelane_b32 v3, s8, 1\n"),
    "m0 to s_movrels": ("s_mov_b32 s9, 0\ns_mov_b32 m0, 0\n", 1, "s_movrels_b32 s8, s9\n"),
    "s_setreg to s_getreg": (
        "s_mov_b32 s8, 3\ns_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s8\n",
        2,
        "s_getreg_b32 s9, hwreg(HW_REG_MODE)\n",
    ),
    "dot product to another": ("v_dot4_i32_i8 v3, v4, v5, v6\n", 3, "v_add_u32_e32 v4, v3, v2\n"),
    "dot product overwritten": ("v_dot4_i32_i8 v3, v4, v5, v6\n", 3, "v_mov_b32_e32 v3, v2\n"),
    "dot product to a factor": ("v_dot4_i32_i8 v3, v4, v5, v6\n", 3, "v_dot4_i32_i8 v3, v3, v5, v6\n"),
    "dot product to its sum": ("v_dot4_i32_i8 v3, v4, v5, v6\n", 0, "v_dot4_i32_i8 v3, v4, v5, v3\n"),
    "accumulation register": (
        "v_mfma_f32_16x16x16_f16 a[0:3], v[4:5], v[4:5], 0\n",
        7,
        "v_accvgpr_read_b32 v3, a3\n",
    ),
}


@needs_llvm_mc
@pytest.mark.parametrize("name", STATES)
def test_states(name: str) -> None:
    before, states, after = STATES[name]
    _check("gfx942", _start() + before, [(states, after)])


PERMUTE = "v_permlanex16_b32 v2, v3, 0, 0\n"


@needs_llvm_mc
@pytest.mark.parametrize("processor", ["gfx1100", "gfx1200"])
def test_a_vector_instruction_stands_between_a_mask_and_a_permutation(processor: str) -> None:
    compare = _start() + "v_cmpx_eq_u32_e32 v0, v0\n"
    between = ["v_mov_b32_e32 v5, v5\n", "", "v_nop\n", "s_nop 3\n"]
    program = _load(processor, [compare + instruction + PERMUTE for instruction in between])
    _launch(program, "k0")
    for n in range(1, 4):
        with pytest.raises(amdgpu.SimulationFault, match="hazard: uses exec"):
            _launch(program, f"k{n}")
