"""Moves relative to M0 and gfx942's register indexing mode, against arrays in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu
from loom_sim.amdgpu.errors import SimulationFault

pytestmark = needs_llvm_mc
Array = npt.NDArray[Any]
GROUPS, REGISTERS = 7, 8

# Group g has the index g & 3; v[8:15] hold 100, 101, ... and s[8:15] hold 200, 201, ...
_START = (
    "{load} s[4:5], s[0:1], 0x0\n{wait}\ns_and_b32 s3, {group}, 3\n"
    + "".join(f"v_mov_b32_e32 v{8 + k}, {100 + k}\ns_movk_i32 s{8 + k}, {200 + k}\n" for k in range(REGISTERS))
    + "v_mov_b32_e32 v1, 9\ns_movk_i32 s16, 19\ns_mov_b32 m0, s3\n"
)
_END = "".join(
    f"v_mov_b32_e32 v2, s{8 + k}\n{{store}} v3, v{8 + k}, s[4:5] offset:{8 * k}\n"
    f"{{store}} v3, v2, s[4:5] offset:{8 * k + 4}\n"
    for k in range(REGISTERS)
)
_WORDS = {
    "gfx1100": {
        "load": "s_load_b64",
        "wait": "s_waitcnt lgkmcnt(0)",
        "group": "s2",
        "store": "global_store_b32",
    },
    "gfx1200": {"load": "s_load_b64", "wait": "s_wait_kmcnt 0x0", "group": "ttmp9", "store": "global_store_b32"},
    "gfx942": {
        "load": "s_load_dwordx2",
        "wait": "s_waitcnt lgkmcnt(0)",
        "group": "s2",
        "store": "global_store_dword",
    },
}


def _run(target: str, text: str) -> tuple[Array, Array]:
    words = _WORDS[target]
    place = "s_mulk_i32 s3, 64\nv_mov_b32_e32 v3, s3\n"
    body = _START.format(**words) + text + "\n" + place + _END.format(**words) + "s_endpgm\n"
    program = amdgpu.load(kernels_object([kernel_text(body, target)], target))
    out = np.zeros((4, REGISTERS, 2), "i4")
    program.launch("k", GROUPS, 1, [out, 0])
    return out[..., 0], out[..., 1]


def _registers() -> tuple[Array, Array]:
    rows = np.arange(REGISTERS)
    return np.tile(100 + rows, (4, 1)), np.tile(200 + rows, (4, 1))


INDEX = np.arange(4)


@pytest.mark.parametrize("target", ["gfx1100", "gfx1200"])
def test_vector_source_and_destination(target: str) -> None:
    vectors, scalars = _registers()
    vectors[:, 0] = 101 + INDEX
    vectors[INDEX, 4 + INDEX] = 9
    text = "v_movrels_b32_e32 v8, v9\nv_movreld_b32_e32 v12, v1"
    for got, expected in zip(_run(target, text), (vectors, scalars), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("target", ["gfx1100", "gfx1200"])
def test_both_sides_and_swap(target: str) -> None:
    vectors, scalars = _registers()
    for k in range(4):
        vectors[k, 4 + k] = vectors[k, k]
        vectors[k, [k, 7]] = vectors[k, [7, k]]
    text = (
        "v_movrelsd_b32_e32 v12, v8\n"
        "s_or_b32 m0, s3, 0x20000\n"  # source index s3, destination index 2
        "v_swaprel_b32 v13, v8"
    )
    for got, expected in zip(_run(target, text), (vectors, scalars), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("target", ["gfx1100", "gfx1200"])
def test_two_indices(target: str) -> None:
    """The low byte of M0 is added to the source, bits 25:16 to the destination (AMD ISA, V_MOVRELSD_2_B32)."""
    vectors, scalars = _registers()
    vectors[INDEX, 6] = vectors[INDEX, INDEX]
    text = "s_or_b32 m0, s3, 0x20000\nv_movrelsd_2_b32_e32 v12, v8"
    for got, expected in zip(_run(target, text), (vectors, scalars), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("target", ["gfx1100", "gfx1200", "gfx942"])
def test_scalar_moves(target: str) -> None:
    vectors, scalars = _registers()
    scalars[:, 0] = 201 + INDEX
    scalars[INDEX, 4 + INDEX] = 19
    text = "s_nop 0\ns_movrels_b32 s8, s9\ns_movreld_b32 s12, s16"
    for got, expected in zip(_run(target, text), (vectors, scalars), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_indexing_mode() -> None:
    vectors, scalars = _registers()
    vectors[:, 0] = 101 + INDEX
    vectors[INDEX, 4 + INDEX] = 9
    vectors[:, 7] = 101 + INDEX + 1  # a source of an addition, from registers already changed
    vectors[3, 7] = 105
    text = (
        "s_set_gpr_idx_on s3, gpr_idx(SRC0)\nv_mov_b32_e32 v8, v9\ns_set_gpr_idx_off\n"
        "s_set_gpr_idx_on s3, gpr_idx(DST)\nv_mov_b32_e32 v12, v1\n"
        "s_set_gpr_idx_mode gpr_idx(SRC1)\nv_mov_b32_e32 v15, v8\ns_set_gpr_idx_off\n"
        "v_add_u32_e32 v15, 1, v8\ns_mov_b32 m0, 0"
    )
    for got, expected in zip(_run("gfx942", text), (vectors, scalars), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_register_beyond_the_allocation() -> None:
    with pytest.raises(SimulationFault, match="beyond the registers"):
        _run("gfx1100", "s_movk_i32 s3, 0x100\ns_mov_b32 m0, s3\nv_movrels_b32_e32 v8, v9")


def test_undefined_index() -> None:
    with pytest.raises(SimulationFault, match="register index"):
        _run("gfx1100", "s_mov_b32 m0, s24\nv_movrels_b32_e32 v8, v9")


@pytest.mark.parametrize("target", ["gfx1100", "gfx1200", "gfx942"])
def test_moves_of_scalar_pairs(target: str) -> None:
    vectors, scalars = _registers()
    even = INDEX & 2
    scalars[:, 0], scalars[:, 1] = 202 + even, 203 + even
    scalars[INDEX, 4 + even], scalars[INDEX, 5 + even] = 19, 23
    text = "s_movk_i32 s17, 23\ns_and_b32 m0, s3, 2\ns_nop 0\n"
    text += "s_movrels_b64 s[8:9], s[10:11]\ns_movreld_b64 s[12:13], s[16:17]"
    for got, expected in zip(_run(target, text), (vectors, scalars), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("target", ["gfx1100", "gfx1200"])
def test_two_indices_of_scalars(target: str) -> None:
    vectors, scalars = _registers()
    scalars[INDEX, 6] = scalars[INDEX, INDEX]
    text = "s_or_b32 m0, s3, 0x20000\ns_movrelsd_2_b32 s12, s8"
    for got, expected in zip(_run(target, text), (vectors, scalars), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_another_index() -> None:
    vectors, scalars = _registers()
    vectors[:, 0] = 102
    vectors[:, 1] = 103 + INDEX
    text = (
        "s_movk_i32 s16, 1\ns_set_gpr_idx_on s3, gpr_idx(SRC0)\ns_set_gpr_idx_idx s16\nv_mov_b32_e32 v8, v9\n"
        "s_set_gpr_idx_idx s3\nv_mov_b32_e32 v9, v11\ns_set_gpr_idx_off\ns_mov_b32 m0, 0"
    )
    for got, expected in zip(_run("gfx942", text), (vectors, scalars), strict=True):
        np.testing.assert_array_equal(got, expected)
