"""Rounding and denormal modes, set by the kernel descriptor, by S_SETREG and by S_ROUND_MODE / S_DENORM_MODE."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu
from loom_sim.amdgpu.errors import LaunchError

pytestmark = needs_llvm_mc
N = 256
Array = np.ndarray[Any, Any]

LOAD = """
  s_load_b256 s[4:11], s[0:1], 0x0
  v_lshlrev_b32_e32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  global_load_b32 v2, v1, s[4:5]
  global_load_b32 v3, v1, s[6:7]
  global_load_b32 v4, v1, s[8:9]
  s_waitcnt vmcnt(0)
"""
STORE = "\n global_store_b32 v1, v5, s[10:11]\n s_endpgm"


def _run(body: str, inputs: list[Array], mode: str = "") -> Array:
    text = kernel_text(LOAD + body + STORE, "gfx1100", buffers=4, mode=mode)
    out = np.zeros(N, np.uint32)
    amdgpu.load(kernels_object([text], "gfx1100")).launch("k", 1, N, [*inputs, out, 0])
    return out


def _inputs() -> list[Array]:
    rng = np.random.default_rng(11)
    return [(rng.standard_normal(N) * 2.0 ** rng.integers(-12, 12, N)).astype(np.float32) for _ in range(3)]


def _directed(exact: Fraction, direction: int) -> float:
    """The f32 next to an exact value: 1 upward, 2 downward, 3 toward zero."""
    nearest = np.float32(float(exact))  # double rounding cannot move it past a neighbour
    value = Fraction(float(nearest))
    up = direction == 1 or (direction == 3 and exact < 0)
    if up and value < exact:
        nearest = np.nextafter(nearest, np.float32(math.inf))
    if not up and value > exact:
        nearest = np.nextafter(nearest, np.float32(-math.inf))
    return float(nearest)


@pytest.mark.parametrize("direction", [1, 2, 3])
@pytest.mark.parametrize("how", ["descriptor", "setreg", "setreg_register", "round_mode"])
@pytest.mark.parametrize("operation", ["add", "mul", "fma"])
def test_directed_rounding_f32(operation: str, how: str, direction: int) -> None:
    text = {"add": "v_add_f32_e32 v5, v2, v3", "mul": "v_mul_f32_e32 v5, v2, v3", "fma": "v_fma_f32 v5, v2, v3, v4"}
    setup = {
        "descriptor": "",
        "setreg": f"s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), {direction}\n",
        "setreg_register": f"s_movk_i32 s12, {direction}\ns_setreg_b32 hwreg(HW_REG_MODE, 0, 2), s12\n",
        "round_mode": f"s_round_mode {direction}\n",
    }[how]
    mode = f".amdhsa_float_round_mode_32 {direction}" if how == "descriptor" else ""
    a, b, c = _inputs()
    out = _run(setup + text[operation], [a, b, c], mode).view(np.float32)

    def exact(x: Fraction, y: Fraction, z: Fraction) -> Fraction:
        return x + y if operation == "add" else x * y if operation == "mul" else x * y + z

    expected = [
        _directed(exact(*map(Fraction, v)), direction) for v in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(out, np.array(expected, np.float32))


@pytest.mark.parametrize("denormals", [0, 1, 2, 3])
@pytest.mark.parametrize("how", ["descriptor", "denorm_mode"])
def test_denormals_f32(how: str, denormals: int) -> None:
    """Bit 0 keeps denormal inputs, bit 1 denormal results."""
    rng = np.random.default_rng(4)
    a = rng.integers(1, 0x7FFFFF, N).astype(np.uint32) | (rng.integers(0, 2, N) << 31).astype(np.uint32)
    b = np.full(N, 0x00800000, np.uint32)  # the smallest normal number
    a[::4] = np.float32(-1.17549435e-38 * 1.5).view(np.uint32)
    setup = f"s_denorm_mode {denormals | 12}\n" if how == "denorm_mode" else ""
    mode = f".amdhsa_float_denorm_mode_32 {denormals}" if how == "descriptor" else ""
    out = _run(setup + "v_add_f32_e32 v5, v2, v3", [a, b, b], mode)

    def flush(x: Array) -> Array:
        return np.where(x & 0x7F800000 == 0, x & 0x80000000, x).astype(np.uint32)

    x = a if denormals & 1 else flush(a)
    total = (x.view(np.float32) + b.view(np.float32)).view(np.uint32)
    np.testing.assert_array_equal(out, total if denormals & 2 else flush(total))


def test_mode_returns_when_it_is_set_back() -> None:
    a, b, c = _inputs()
    body = "s_round_mode 1\nv_add_f32_e32 v6, v2, v3\ns_round_mode 0\nv_add_f32_e32 v5, v2, v3"
    np.testing.assert_array_equal(_run(body, [a, b, c]).view(np.float32), a + b)


def test_mode_register_can_be_read() -> None:
    a, b, c = _inputs()
    body = "s_round_mode 2\ns_getreg_b32 s12, hwreg(HW_REG_MODE, 0, 8)\nv_mov_b32_e32 v5, s12"
    assert set(_run(body, [a, b, c]).tolist()) == {2 | 0xF0}


def test_clamping_of_small_floats_is_refused() -> None:
    with pytest.raises(LaunchError, match="FP16_OVFL"):
        _run("v_mov_b32_e32 v5, v2", list(_inputs()), ".amdhsa_fp16_overflow 1")
