"""Loads of gfx942 that go to LDS without a register, against NumPy."""

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
LANES = 64
KINDS = {"dword": "i4", "sshort": "i2", "ushort": "u2", "sbyte": "i1", "ubyte": "u1"}
INSTRUCTIONS = [f"global_load_lds_{kind}" for kind in KINDS]
"""What the tests of this file compare with NumPy, apart from forms of buffer loads."""

_BUFFER_NAMES = {"dword": "buffer_load_dword"} | {k: f"buffer_load_{k}" for k in ("sshort", "ushort", "sbyte", "ubyte")}


def _run(text: str, data: Array, size: int, lds: int = 1024) -> Array:
    """v2 is the byte offset of each lane's element; LDS from 64 + 16 on goes to the output, a word per lane."""
    body = f"""
      s_load_dwordx4 s[4:7], s[0:1], 0x0
      v_mul_u32_u24_e32 v2, {size}, v0
      v_lshlrev_b32_e32 v1, 2, v0
      s_movk_i32 s8, 0x40
      s_mov_b32 m0, s8
      s_waitcnt lgkmcnt(0)
      s_mov_b32 s12, s4
      s_and_b32 s13, s5, 0xffff
      s_mov_b32 s14, {data.nbytes}
      s_mov_b32 s15, 0x27000
      {text}
      s_waitcnt vmcnt(0)
      ds_read_b32 v3, v1 offset:80
      s_waitcnt lgkmcnt(0)
      global_store_dword v1, v3, s[6:7]
      s_endpgm
    """
    out = np.zeros(LANES, "i4")
    program = amdgpu.load(kernels_object([kernel_text(body, "gfx942", buffers=2, lds=lds)], "gfx942"))
    program.launch("k", 1, LANES, [data, out, 0])
    return out


def _data(kind: str, count: int) -> Array:
    info = np.iinfo(KINDS[kind])
    return np.random.default_rng(8).integers(info.min, info.max, count, dtype=KINDS[kind], endpoint=True)


@pytest.mark.parametrize("kind", KINDS)
def test_global(kind: str) -> None:
    data = _data(kind, LANES + 16)
    got = _run(f"global_load_lds_{kind} v2, s[4:5] offset:16", data, data.itemsize)
    skipped = 16 // data.itemsize
    np.testing.assert_array_equal(got, data[skipped : skipped + LANES].astype("i4"))


@pytest.mark.parametrize("kind", KINDS)
def test_buffer_gives_zero_beyond_its_end(kind: str) -> None:
    data = _data(kind, LANES)
    got = _run(f"{_BUFFER_NAMES[kind]} v2, s[12:15], 0 offen offset:16 lds", data, data.itemsize)
    skipped = 16 // data.itemsize
    np.testing.assert_array_equal(got, np.append(data[skipped:], np.zeros(skipped, data.dtype)).astype("i4"))


def test_beyond_the_workgroups_lds() -> None:
    with pytest.raises(SimulationFault, match="global_load_lds_dword"):
        _run("global_load_lds_dword v2, s[4:5] offset:16", _data("dword", LANES + 16), 4, lds=256)
