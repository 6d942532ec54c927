"""The proof of distances: every row of the table, kept and kept not, along one path and along several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from loom_target_amdgpu.check_distances import DistanceCheckError, check_distances
from loom_target_amdgpu.distances import CDNA, RDNA, Pair
from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.hazards import insert_hazard_waits
from loom_target_amdgpu.isa.encode import encode
from loom_target_amdgpu.isa.registers import VCC
from loom_target_amdgpu.isa.tables import VGPR
from loom_target_amdgpu.isa.waits import depctr_immediate
from loom_target_amdgpu.machine_code import Assembler, Code
from loom_target_amdgpu.profiles import profile

CDNA_ASM: Final = Assembler("gfx942", 64, 1)
RDNA_ASM: Final = {"gfx1100": Assembler("gfx11", 32, 2), "gfx1200": Assembler("gfx12", 32, 2)}
V: Final = VGPR


def row(asm: Assembler, mnemonic: str, variant: str, **codes: int) -> Code:
    """An instruction of a variant that the compiler does not add itself."""
    found = asm.table.find(mnemonic, variant=variant)
    return Code(found, codes, encode(found, codes, {}, None), asm.wave)


def move(asm: Assembler, d: int, s: int) -> Code:
    return asm.plain("v_mov_b32", format="VOP1", vdst=d, src0=s)


def first_lane(asm: Assembler, d: int, s: int) -> Code:
    return asm.plain("v_readfirstlane_b32", vdst=d, src0=s)


A: Final = CDNA_ASM
COMPARE: Final = A.plain("v_cmp_eq_u32", format="VOPC", vcc=VCC, src0=V, vsrc1=V + 1)
MASK: Final = A.plain("v_cmpx_eq_u32", format="VOPC", vcc=VCC, src0=V, vsrc1=V + 1)
DPP: Final = row(A, "v_mov_b32", "dpp16", vdst=V + 2, vsrc0=V + 3)
PRODUCT: Final = A.plain("v_mfma_f32_16x16x16_f16", form="vcd", vdst=V, src0=V + 20, src1=V + 22, src2=V)
DOUBLE: Final = A.plain("v_mfma_f64_4x4x4_4b_f64", form="vcd", vdst=V, src0=V + 20, src1=V + 22, src2=V)
DOT: Final = A.plain("v_dot4_i32_i8", vdst=V + 5, src0=V + 6, src1=V + 7, src2=V + 5)
SWAP: Final = A.plain("global_atomic_cmpswap_x2", form="saddr", addr=V + 9, data=V + 10, saddr=4)

CDNA_CASES: Final[dict[Pair, list[tuple[Code, Code]]]] = {
    ("vector writes scalar", "vector reads"): [
        (first_lane(A, 8, V), move(A, V + 2, 8)),
        (COMPARE, A.plain("v_cndmask_b32", format="VOP2", vdst=V + 3, src0=V, vsrc1=V + 1, vcc=VCC)),
    ],
    ("vector writes scalar", "vector selects a lane by"): [
        (first_lane(A, 8, V), row(A, "v_readlane_b32", "", vdst=9, src0=V + 3, src1=8))
    ],
    ("vector writes scalar", "division scales by"): [
        (COMPARE, A.plain("v_div_fmas_f32", vdst=V + 3, src0=V, src1=V, src2=V))
    ],
    ("vector writes scalar", "memory reads"): [
        (first_lane(A, 9, V), A.plain("global_load_dword", form="saddr", vdst=V + 3, addr=V, saddr=8))
    ],
    ("vector writes the mask", "DPP moves under"): [(MASK, DPP)],
    ("vector writes the mask", "lanes move under"): [
        (MASK, first_lane(A, 8, V + 3)),
        (MASK, row(A, "v_writelane_b32", "", vdst=V + 2, src0=129, src1=130)),
    ],
    ("vector writes the mask", "matrix multiplies under"): [(MASK, PRODUCT)],
    ("vector writes", "a lane is read of"): [(move(A, V + 3, V), first_lane(A, 8, V + 3))],
    ("vector writes", "DPP moves"): [(move(A, V + 3, V), DPP)],
    ("vector writes", "matrix multiplies"): [(move(A, V + 20, V), PRODUCT), (move(A, V, V + 30), PRODUCT)],
    ("transcendental writes", "vector reads"): [
        (A.plain("v_rcp_f32", format="VOP1", vdst=V + 3, src0=V), move(A, V + 4, V + 3))
    ],
    ("dot product writes", "all but its own sum uses"): [
        (DOT, move(A, V + 4, V + 5)),
        (DOT, A.plain("v_dot4_i32_i8", vdst=V + 8, src0=V + 5, src1=V + 7, src2=V + 8)),
        (DOT, A.plain("global_store_dword", form="saddr", addr=V + 9, data=V + 5, saddr=2)),
    ],
    ("wide store reads", "vector writes"): [
        (A.plain("global_store_dwordx3", form="saddr", addr=V + 9, data=V + 10, saddr=4), move(A, V + 12, V)),
        (SWAP, move(A, V + 10, V)),
    ],
    ("scalar writes M0", "message sends"): [
        (A.plain("s_mov_b32", sdst=A.names["m0"], ssrc0=129), A.plain("s_sendmsg", simm16=1))
    ],
    ("matrix multiplies f64", "f64 is fused"): [
        (DOUBLE, A.plain("v_fma_f64", vdst=V + 40, src0=V + 42, src1=V + 42, src2=V + 42))
    ],
}
WMMA: Final = {"gfx1100": (8, 8), "gfx1200": (4, 8)}
"""Registers of a factor and of the result."""


def rdna_cases(processor: str) -> dict[Pair, tuple[Code, Code]]:
    asm = RDNA_ASM[processor]
    factor, _ = WMMA[processor]

    def product(d: int, a: int) -> Code:
        name = "v_wmma_f32_16x16x16_f16"
        return asm.plain(name, form="w32", vdst=V + d, src0=V + a, src1=V + 40, src2=V + d)

    assert factor <= 8
    return {
        ("transcendental writes", "vector reads"): (
            asm.plain("v_rcp_f32", format="VOP1", vdst=V + 3, src0=V),
            move(asm, V + 4, V + 3),
        ),
        ("matrix writes", "matrix multiplies"): (product(0, 20), product(60, 0)),
        ("comparison writes the mask", "lanes are permuted under"): (
            asm.plain("v_cmpx_eq_u32", format="VOP3", src0=V, src1=V + 1),
            asm.plain("v_permlanex16_b32", vdst=V + 2, src0=V + 3, src1=0, src2=1),
        ),
    }


def check(processor: str, *blocks: tuple[str, list[Code], list[str]]) -> None:
    check_distances([CodeBlock(*block) for block in blocks], profile(processor))


def states(count: int) -> list[Code]:
    return [A.plain("s_nop", simm16=count - 1)] if count else []


CDNA_PLANTED: Final = [(pair, number) for pair, found in CDNA_CASES.items() for number in range(len(found))]


def test_every_row_of_the_table_is_tested() -> None:
    assert CDNA_CASES.keys() == CDNA.keys()
    assert rdna_cases("gfx1100").keys() == RDNA.keys()


@pytest.mark.parametrize(("pair", "number"), CDNA_PLANTED)
def test_wait_states(pair: Pair, number: int) -> None:
    earlier, later = CDNA_CASES[pair][number]
    needed = CDNA[pair]
    check("gfx942", ("a", [earlier, *states(needed), later], []))
    with pytest.raises(DistanceCheckError, match=f"{pair[0]}, {pair[1]}.*{needed} states, and there are {needed - 1}"):
        check("gfx942", ("a", [earlier, *states(needed - 1), later], []))


@pytest.mark.parametrize(("pair", "number"), CDNA_PLANTED)
def test_insertion_keeps_the_distance_and_no_more(pair: Pair, number: int) -> None:
    block = CodeBlock("a", list(CDNA_CASES[pair][number]), [])
    insert_hazard_waits([block], A, profile("gfx942"))
    assert sum(c.codes["simm16"] + 1 for c in block.code if c.row.mnemonic == "s_nop") == CDNA[pair]


@pytest.mark.parametrize("pair", RDNA)
def test_vector_instructions_between(pair: Pair) -> None:
    earlier, later = rdna_cases("gfx1100")[pair]
    between = [move(RDNA_ASM["gfx1100"], V + 90, V + 91)] * RDNA[pair]
    check("gfx1100", ("a", [earlier, *between, later], []))
    with pytest.raises(DistanceCheckError, match=f"{pair[0]}, {pair[1]}"):
        check("gfx1100", ("a", [earlier, *between[1:], later], []))


def test_what_does_not_separate_on_gfx11() -> None:
    asm = RDNA_ASM["gfx1100"]
    cases = rdna_cases("gfx1100")
    earlier, later = cases["comparison writes the mask", "lanes are permuted under"]
    with pytest.raises(DistanceCheckError):
        check("gfx1100", ("a", [earlier, asm.plain("v_nop", format="VOP1"), later], []))
    earlier, later = cases["transcendental writes", "vector reads"]
    wait = asm.plain("s_waitcnt_depctr", simm16=depctr_immediate({"va_vdst": 0}))
    other = asm.plain("s_waitcnt_depctr", simm16=depctr_immediate({"va_sdst": 0}))
    check("gfx1100", ("a", [earlier, wait, later], []))
    with pytest.raises(DistanceCheckError):
        check("gfx1100", ("a", [earlier, other, later], []))
    check("gfx1151", ("a", [earlier, later], []))
    check("gfx1100", ("a", [earlier, move(asm, V + 3, V), later], []))


B: Final = RDNA_ASM["gfx1200"]
SCALAR_MOVE: Final = B.plain("s_mov_b32", sdst=8, ssrc0=129)
LATER_READS: Final[dict[str, tuple[list[Code], str, Code]]] = {
    "a register that a vector instruction wrote": ([first_lane(B, 8, V)], "va_sdst", move(B, V + 2, 8)),
    "by the scalar unit": ([first_lane(B, 8, V)], "va_sdst", B.plain("s_mov_b32", sdst=9, ssrc0=8)),
    "a mask": (
        [B.plain("v_cmp_eq_u32", format="VOPC", vcc=VCC, src0=V, vsrc1=V + 1)],
        "va_vcc",
        B.plain("v_cndmask_b32", format="VOP2", vdst=V + 3, src0=V, vsrc1=V + 1, vcc=VCC),
    ),
    "what was read before it was written": ([move(B, V + 2, 9), SCALAR_MOVE], "sa_sdst", move(B, V + 3, 8)),
}


@pytest.mark.parametrize("name", LATER_READS)
def test_scalar_registers_on_gfx12(name: str) -> None:
    earlier, field, later = LATER_READS[name]
    wait = B.plain("s_wait_alu", simm16=depctr_immediate({field: 0}))
    others = {"va_vdst": 0, "va_sdst": 0, "va_vcc": 0, "sa_sdst": 0}
    del others[field]
    wrong = B.plain("s_wait_alu", simm16=depctr_immediate(others))
    check("gfx1200", ("a", [*earlier, wait, later], []))
    for between in ([], [wrong], [move(B, V + 30, V + 31)] * 30):
        with pytest.raises(DistanceCheckError, match="between must be a wait"):
            check("gfx1200", ("a", [*earlier, *between, later], []))
        # A branch away and back.
        with pytest.raises(DistanceCheckError):
            check("gfx1200", ("a", earlier, ["b"]), ("b", between, ["b", "c"]), ("c", [later], []))
    block = CodeBlock("a", [*earlier, later], [])
    insert_hazard_waits([block], B, profile("gfx1200"))
    check_distances([block], profile("gfx1200"))


def test_written_anew_by_the_scalar_unit() -> None:
    """What the vector unit wrote is gone, and nobody had read the pair."""
    check("gfx1200", ("a", [first_lane(B, 8, V), SCALAR_MOVE, move(B, V + 2, 8)], []))


Blocks = list[tuple[str, list[Code], list[str]]]


def one_short_path(between: list[Code]) -> Blocks:
    earlier, later = CDNA_CASES["vector writes scalar", "memory reads"][0]
    return [("a", [earlier], ["c", "b"]), ("b", states(5), ["c"]), ("c", [*between, later], [])]


def around_a_loop(between: list[Code]) -> Blocks:
    earlier, later = CDNA_CASES["vector writes scalar", "memory reads"][0]
    return [("a", [], ["b"]), ("b", [*between, later, earlier], ["b", "c"]), ("c", [], [])]


@pytest.mark.parametrize("shape", [one_short_path, around_a_loop])
def test_every_path_counts(shape: Callable[[list[Code]], Blocks]) -> None:
    check("gfx942", *shape(states(5)))
    with pytest.raises(DistanceCheckError, match="5 states, and there are 4"):
        check("gfx942", *shape(states(4)))
