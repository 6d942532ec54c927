"""Scalar stores and atomics of gfx942, one wave at a time, against NumPy."""

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
GROUPS = 6


def _run(text: str, *buffers: Array) -> None:
    """s[4:5] and s[6:7] are the buffers, s8 is the workgroup times eight; s[12:15] describe 32 bytes of the first."""
    body = f"""
      s_load_dwordx4 s[4:7], s[0:1], 0x0
      s_lshl_b32 s8, s2, 3
      s_waitcnt lgkmcnt(0)
      s_mov_b32 s12, s4
      s_mov_b32 s13, s5
      s_mov_b32 s14, 32
      s_mov_b32 s15, 0
      {text}
      s_dcache_wb
      s_endpgm
    """
    program = amdgpu.load(kernels_object([kernel_text(body, "gfx942", buffers=2)], "gfx942"))
    program.launch("k", GROUPS, 64, [*buffers, 0])


def test_store() -> None:
    out = np.zeros((GROUPS, 2), "u4")
    # Scalar stores happen once per wave even when no lane is active.
    _run("s_mov_b64 exec, 0\ns_add_u32 s9, s2, 5\ns_mov_b32 s16, s2\ns_mov_b32 s17, s9\n"
         "s_store_dwordx2 s[16:17], s[4:5], s8", out, np.zeros(1, "u4"))  # fmt: skip
    np.testing.assert_array_equal(out, np.stack((np.arange(GROUPS), np.arange(GROUPS) + 5), axis=1))


def test_buffer_store_stops_at_the_end() -> None:
    out = np.zeros((GROUPS, 2), "u4")
    _run("s_add_u32 s9, s2, 5\ns_buffer_store_dword s9, s[12:15], s8", out, np.zeros(1, "u4"))
    np.testing.assert_array_equal(out[:, 0], np.where(np.arange(GROUPS) < 4, np.arange(GROUPS) + 5, 0))
    assert not out[:, 1].any()


_OPERATIONS: dict[str, Any] = {
    "add": lambda old, x: old + x,
    "sub": lambda old, x: old - x,
    "and": lambda old, x: old & x,
    "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
    "swap": lambda old, x: x,
    "umin": min,
    "umax": max,
    "smin": lambda old, x: min(old, x, key=_signed),
    "smax": lambda old, x: max(old, x, key=_signed),
    "inc": lambda old, x: 0 if old >= x else old + 1,
    "dec": lambda old, x: x if old == 0 or old > x else old - 1,
}
INSTRUCTIONS = [
    f"{stem}_atomic_{name}{x2}" for stem in ("s", "s_buffer") for name in _OPERATIONS for x2 in ("", "_x2")
] + [
    *(f"s_{buffer}store_dword{x}" for buffer in ("", "buffer_") for x in ("", "x2", "x4")),
    *(f"s_{buffer}atomic_cmpswap{x2}" for buffer in ("", "buffer_") for x2 in ("", "_x2")),
]
"""What the tests of this file compare with NumPy."""

_BITS = 32


def _signed(x: int) -> int:
    """Order by the sign of the element width in use."""
    return x - (1 << _BITS) if x >> (_BITS - 1) else x


@pytest.mark.parametrize("buffer", [False, True])
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", _OPERATIONS)
def test_atomic(name: str, bits: int, buffer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}._BITS", bits)
    kind: Any = np.uint32 if bits == 32 else np.uint64
    memory, data = (
        np.random.default_rng(bits).integers(0, np.iinfo(kind).max, n, dtype=kind, endpoint=True) for n in (4, 1)
    )
    operand = int(data[0]) ^ 0x5A5A
    memory[3] = operand  # an edge of comparisons
    state = memory.tolist()
    olds = np.zeros((GROUPS, 2), "u4")
    x2, place = ("", "s16") if bits == 32 else ("_x2", "s[16:17]")
    stem = "s_buffer_atomic" if buffer else "s_atomic"
    where = "s[12:15]" if buffer else "s[4:5]"
    _run(
        f"s_and_b32 s9, s2, 3\ns_lshl_b32 s9, s9, {2 if bits == 32 else 3}\ns_mov_b32 s16, {operand & 0xFFFFFFFF:#x}\n"
        f"s_mov_b32 s17, {operand >> 32:#x}\n{stem}_{name}{x2} {place}, {where}, s9 glc\ns_waitcnt lgkmcnt(0)\n"
        "s_store_dwordx2 s[16:17], s[6:7], s8",
        memory,
        olds,
    )
    seen = []
    for group in range(GROUPS):
        seen.append(state[group & 3])
        state[group & 3] = _OPERATIONS[name](state[group & 3], operand) & ((1 << bits) - 1)
    assert memory.tolist() == state
    got = olds[:, 0].astype("u8") | (olds[:, 1].astype("u8") << np.uint64(32) if bits == 64 else np.uint64(0))
    assert got.tolist() == seen


@pytest.mark.parametrize("buffer", [False, True])
@pytest.mark.parametrize("bits", [32, 64])
def test_compare_and_swap(bits: int, buffer: bool) -> None:
    high = 1 << 40 if bits == 64 else 0
    memory = np.array([7 | high, 8 | high, 7 | high, 7 | high << 1 | 8], f"u{bits // 8}")
    olds = np.zeros((GROUPS, 2), "u4")
    wide = bits == 64
    words = (70, 3, 7, high >> 32) if wide else (70, 7, 0, 0)
    set_up = "\n".join(f"s_mov_b32 s{16 + k}, {word:#x}" for k, word in enumerate(words))
    where = "s[12:15]" if buffer else "s[4:5]"
    name = f"s_{'buffer_' if buffer else ''}atomic_cmpswap{'_x2' if wide else ''}"
    data = "s[16:19]" if wide else "s[16:17]"
    _run(
        f"s_and_b32 s9, s2, 3\ns_lshl_b32 s9, s9, {3 if wide else 2}\n{set_up}\n{name} {data}, {where}, s9 glc\n"
        "s_waitcnt lgkmcnt(0)\ns_store_dwordx2 s[16:17], s[6:7], s8",
        memory,
        olds,
    )
    new = 70 | 3 << 32 if wide else 70
    assert memory.tolist() == [new, 8 | high, new, 7 | high << 1 | 8]
    seen = [7 | high, 8 | high, 7 | high, 7 | high << 1 | 8, new, 8 | high]
    assert olds[:, 0].tolist() == [x & 0xFFFFFFFF for x in seen]
    if wide:
        assert olds[:, 1].tolist() == [x >> 32 for x in seen]


@pytest.mark.parametrize("buffer", [False, True])
@pytest.mark.parametrize("words", [1, 2, 4])
def test_wide_stores(words: int, buffer: bool) -> None:
    out = np.full(4 * GROUPS, 9, "u4")
    suffix, data = {1: ("", "s16"), 2: ("x2", "s[16:17]"), 4: ("x4", "s[16:19]")}[words]
    set_up = "\n".join(f"s_add_u32 s{16 + k}, s2, {10 * k}" for k in range(4))
    where = "s[12:15]" if buffer else "s[4:5]"
    _run(f"{set_up}\ns_lshl_b32 s9, s2, 4\ns_{'buffer_' if buffer else ''}store_dword{suffix} {data}, {where}, s9",
         out, np.zeros(1, "u4"))  # fmt: skip
    expected = np.full((GROUPS, 4), 9, "u4")
    for group in range(GROUPS):
        if not buffer or 16 * group + 4 * words <= 32:
            expected[group, :words] = [group + 10 * k for k in range(words)]
    np.testing.assert_array_equal(out.reshape(GROUPS, 4), expected)


def test_store_outside_of_every_buffer() -> None:
    with pytest.raises(SimulationFault, match="s_store_dword"):
        _run("s_store_dword s8, s[4:5], 0x10000", np.zeros(4, "u4"), np.zeros(1, "u4"))
