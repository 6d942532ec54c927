"""Loads of gfx942 that go to LDS without a register, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu
from loom_sim.amdgpu.errors import SimulationFault, UnsupportedInstruction

pytestmark = needs_llvm_mc
Array = npt.NDArray[Any]
LANES = 64
KINDS = {"dword": "i4", "sshort": "i2", "ushort": "u2", "sbyte": "i1", "ubyte": "u1"}
INSTRUCTIONS = [f"{space}_load_lds_{kind}" for space in ("global", "scratch") for kind in KINDS]
"""What the tests of this file compare with NumPy, apart from forms of buffer loads."""

_BUFFER_NAMES = {"dword": "buffer_load_dword"} | {k: f"buffer_load_{k}" for k in ("sshort", "ushort", "sbyte", "ubyte")}


def _run(text: str, data: Array, size: int, lds: int = 1024, m0: int = 0x40, shown: int = 80) -> Array:
    """v2 is the byte offset of each lane's element; LDS from `shown` on goes to the output, a word per lane."""
    body = f"""
      s_load_dwordx4 s[4:7], s[0:1], 0x0
      v_mul_u32_u24_e32 v2, {size}, v0
      v_lshlrev_b32_e32 v1, 2, v0
      s_mov_b32 s8, {m0:#x}
      s_mov_b32 m0, s8
      s_waitcnt lgkmcnt(0)
      s_mov_b32 s12, s4
      s_and_b32 s13, s5, 0xffff
      s_mov_b32 s14, {data.nbytes}
      s_mov_b32 s15, 0x27000
      {text}
      s_waitcnt vmcnt(0)
      ds_read_b32 v3, v1 offset:{shown}
      s_waitcnt lgkmcnt(0)
      global_store_dword v1, v3, s[6:7]
      s_endpgm
    """
    out = np.zeros(LANES, "i4")
    program = amdgpu.load(kernels_object([kernel_text(body, "gfx942", buffers=2, lds=lds, scratch=64)], "gfx942"))
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


def test_global_before_its_address() -> None:
    data = _data("dword", LANES + 4)
    got = _run("v_add_u32_e32 v2, 32, v2\nglobal_load_lds_dword v2, s[4:5] offset:-16", data, 4, shown=48)
    np.testing.assert_array_equal(got, data[4 : 4 + LANES])


# Lane n has the bytes of words n, n + 1, n + 2 and n + 3 of the data at byte 8 of its scratch.
_FILL = """
  v_lshlrev_b32_e32 v9, 2, v0
  global_load_dwordx4 v[4:7], v9, s[4:5]
  v_mov_b32_e32 v8, 8
  s_mov_b32 s9, 4
  s_waitcnt vmcnt(0)
  scratch_store_dwordx4 v8, v[4:7], off
  s_waitcnt vmcnt(0)
"""


@pytest.mark.parametrize(
    ("operands", "first", "counted"),
    [("off, off offset:16", 16, 16), ("v8, off offset:4", 12, 4), ("off, s9 offset:12", 16, 12), ("v8, s9", 12, 0)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_scratch(kind: str, operands: str, first: int, counted: int) -> None:
    """`first` is the byte of scratch that is read, `counted` the immediate offset, which LDS counts too."""
    data = _data("dword", LANES + 3)
    size = np.dtype(KINDS[kind]).itemsize
    got = _run(f"{_FILL}scratch_load_lds_{kind} {operands}", data, 4, shown=0x40 + counted)
    for lane in range(LANES):
        image = data[lane : lane + 4].tobytes()
        assert got[lane] == np.frombuffer(image[first - 8 : first - 8 + size], KINDS[kind])[0], f"lane {lane}"


def test_which_bits_of_m0_count() -> None:
    data = _data("dword", LANES)
    # Words, bits 2 to 17, for global and scratch loads; bytes, bits 0 to 15, for buffer loads.
    text = "global_load_lds_dword v2, s[4:5]"
    np.testing.assert_array_equal(_run(text, data, 4, m0=0xFFFC0043, shown=0x40), data)
    text = "buffer_load_dword v2, s[12:15], 0 offen lds"
    np.testing.assert_array_equal(_run(text, data, 4, m0=0xFFFF0040, shown=0x40), data)


def test_scratch_that_nothing_wrote() -> None:
    with pytest.raises(SimulationFault, match=r"uninitialized: .*data loaded to LDS.*scratch_load_lds_dword"):
        _run("scratch_load_lds_dword off, off offset:16", _data("dword", LANES), 4)


def test_other_processors_are_refused() -> None:
    body = "s_mov_b32 m0, 0\nbuffer_load_lds_b32 off, s[8:11], 0\ns_endpgm"
    program = amdgpu.load(kernels_object([kernel_text(body, "gfx1100", lds=1024)], "gfx1100"))
    with pytest.raises(UnsupportedInstruction, match=r"not in its public documents.*buffer_load_lds_b32"):
        program.launch("k", 1, 32, [np.zeros(4, "u4"), 0])
