"""Wait states behind matrix instructions: enough for what comes next, and no more.

The counts are the measured ones of LLVM's hazard recognizer for gfx942.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.hazards import insert_hazard_waits
from loom_target_amdgpu.isa.tables import AGPR, VGPR
from loom_target_amdgpu.machine_code import Assembler, Code
from loom_target_amdgpu.matrix_hazards import timing_of
from loom_target_amdgpu.profiles import profile

# mnemonic -> states before: a use, a memory access, the same accumulator, another overlap, a new accumulator value
TABLE = {
    "v_mfma_f32_4x4x4_16b_f16": (5, 5, 2, 3, 1),
    "v_mfma_f32_16x16x16_f16": (7, 7, 0, 5, 3),
    "v_mfma_f32_16x16x32_fp8_fp8": (7, 7, 0, 5, 3),
    "v_mfma_i32_16x16x32_i8": (7, 7, 0, 5, 3),
    "v_mfma_f32_16x16x8_xf32": (7, 7, 0, 5, 3),
    "v_mfma_f32_32x32x8_f16": (11, 11, 0, 9, 7),
    "v_mfma_f32_16x16x4_4b_f16": (11, 11, 0, 9, 7),
    "v_mfma_i32_16x16x4_4b_i8": (11, 11, 0, 9, 7),
    "v_mfma_f32_16x16x1_4b_f32": (10, 10, 0, 8, 0),
    "v_mfma_f32_32x32x4_2b_f16": (19, 19, 0, 17, 15),
    "v_mfma_f32_4x4x1_16b_f32": (4, 4, 2, 2, 0),
    "v_mfma_f32_16x16x4_f32": (10, 10, 0, 8, 0),
    "v_mfma_f32_32x32x2_f32": (18, 18, 0, 16, 0),
    "v_mfma_f64_16x16x4_f64": (11, 18, 0, 9, 0),
}
ASSEMBLER = Assembler("gfx942", 64, 1)


def product(mnemonic: str, d: int, a: int, c: int, base: int = VGPR) -> Code:
    form = "vcd" if base == VGPR else "acd"
    return ASSEMBLER.plain(mnemonic, form=form, vdst=base + d, src0=base + a, src1=base + a, src2=base + c)


def states(codes: list[Code], processor: str = "gfx942", labels: int = 1) -> int:
    """States inserted before the last instruction."""
    block = CodeBlock("block", codes, ["block"] if labels == 2 else [])
    insert_hazard_waits([block], ASSEMBLER, profile(processor))
    return sum(c.codes["simm16"] + 1 for c in block.code if c.row.mnemonic == "s_nop")


def move(dst: int, src: int) -> Code:
    return ASSEMBLER.plain("v_mov_b32", format="VOP1", vdst=dst, src0=src)


def store(data: int) -> Code:
    return ASSEMBLER.plain("global_store_dword", form="saddr", addr=VGPR + 200, data=data, saddr=2)


FOLLOWERS: list[Callable[[str], list[Code]]] = [
    lambda name: [move(VGPR + 220, VGPR)],
    lambda name: [store(VGPR)],
    lambda name: [product(name, 0, 100, 0)],
    lambda name: [product(name, 128, 100, 2)],
    lambda name: [move(VGPR + 64, VGPR + 220)],
]


@pytest.mark.parametrize("mnemonic", TABLE)
@pytest.mark.parametrize("follower", range(5), ids=["use", "memory", "same", "overlap", "source"])
def test_states(mnemonic: str, follower: int) -> None:
    first = product(mnemonic, 0, 100, 0 if follower == 2 else 64)
    assert states([first, *FOLLOWERS[follower](mnemonic)]) == TABLE[mnemonic][follower]


def test_factors_and_overwritten_results_wait_like_uses() -> None:
    name = "v_mfma_f32_16x16x16_f16"
    assert states([product(name, 0, 100, 64), product(name, 128, 0, 64)]) == 7
    assert states([product(name, 0, 100, 64), move(VGPR + 3, VGPR + 220)]) == 7
    assert states([product(name, 0, 100, 64), move(VGPR + 4, VGPR + 220)]) == 0


def test_another_instruction_on_the_same_accumulator_waits_for_the_overlap() -> None:
    assert states([product("v_mfma_f32_16x16x16_f16", 0, 100, 0), product("v_mfma_f32_16x16x16_bf16", 0, 110, 0)]) == 5


def test_independent_instructions_count() -> None:
    name = "v_mfma_f32_16x16x16_f16"
    filler = [move(VGPR + 220 + i, VGPR + 230) for i in range(4)]
    assert states([product(name, 0, 100, 64), *filler, move(VGPR + 240, VGPR)]) == 3


def test_accumulation_registers_wait_as_well() -> None:
    name = "v_mfma_f32_32x32x8_f16"
    read = ASSEMBLER.plain("v_accvgpr_read_b32", vdst=VGPR, src0=AGPR + 1)
    assert states([product(name, 0, 100, 64, AGPR), read]) == 11


def test_results_of_the_last_iteration_are_waited_for() -> None:
    """A loop whose first instruction reads what its last one multiplied."""
    name = "v_mfma_f32_16x16x16_f16"
    loop = [move(VGPR + 220, VGPR), product(name, 0, 100, 64)]
    assert states(loop, labels=2) == 7


def test_gfx950_takes_one_state_more() -> None:
    first = product("v_mfma_f32_16x16x16_f16", 0, 100, 64)
    assert states([first, move(VGPR + 220, VGPR)], "gfx950") == 8
    assert states([product("v_mfma_f32_16x16x4_f32", 0, 100, 64), move(VGPR + 220, VGPR)], "gfx950") == 10


def test_every_matrix_instruction_has_a_timing() -> None:
    names = [m for m in ASSEMBLER.table.mnemonics() if m.startswith(("v_mfma", "v_smfmac"))]
    assert len(names) > 40
    assert {timing_of(name).use for name in names} == {4, 5, 6, 7, 10, 11, 18, 19}


def test_a_dot_product_waits_for_all_but_its_own_sum() -> None:
    def dot(d: int, a: int, c: int) -> Code:
        return ASSEMBLER.plain("v_dot4_i32_i8", vdst=VGPR + d, src0=VGPR + a, src1=VGPR + 2, src2=VGPR + c)

    assert states([dot(0, 1, 3), store(VGPR)]) == 3
    assert states([dot(0, 1, 3), move(VGPR + 9, VGPR)]) == 3
    assert states([dot(0, 1, 3), dot(0, 0, 3)]) == 3
    assert states([dot(0, 1, 3), dot(0, 1, 0)]) == 0
