"""LDS instructions that are no plain load, store or atomic: pairs, permutes, appends, addressing by lane."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu

pytestmark = needs_llvm_mc
Array = npt.NDArray[Any]
LANES = 32
TARGETS = ("gfx942", "gfx1100", "gfx1200")
WORDS = 2048
"""Words of LDS and of each buffer."""
SWIZZLES = {"quads": 0x8000 | 0b00_11_01_10, "masks": 0x1C | 0x02 << 5 | 0x05 << 10, "rotate": 0xC000 | 3 << 5}


def _names(target: str) -> dict[str, str]:
    old = target == "gfx942"
    names = {}
    for bits in (32, 64):
        for far in ("", "st64" if old else "_stride64"):
            two = f"2{far}" if old else f"_2addr{far}"
            key = f"{bits}{'far' if far else ''}"
            names[f"load{key}"] = f"ds_{'read' if old else 'load'}{two}_b{bits}"
            names[f"store{key}"] = f"ds_{'write' if old else 'store'}{two}_b{bits}"
            names[f"swap{key}"] = f"ds_{'wrxchg' if old else 'storexchg'}{two}_rtn_b{bits}"
    names["load_addtid"] = "ds_read_addtid_b32" if old else "ds_load_addtid_b32"
    names["store_addtid"] = "ds_write_addtid_b32" if old else "ds_store_addtid_b32"
    names |= {n: f"ds_{n}" for n in ("append", "consume", "permute_b32", "bpermute_b32", "swizzle_b32", "nop")}
    names["condxchg"] = "ds_condxchg32_rtn_b64"
    if target != "gfx1200":
        names["wrap"] = "ds_wrap_rtn_b32"
        compare = "ds_cmpst" if old else "ds_cmpstore"
        names |= {f"compare{k}{r}": f"{compare}{'_rtn' if r else ''}_f{k}" for k in (32, 64) for r in ("", "rtn")}
    return names


@cache
def instructions(target: str) -> list[str]:
    """Mnemonics that the tests of this file compare with a model."""
    return list(_names(target).values())


def _run(target: str, text: str, memory: Array, data: Array, lanes: int = LANES) -> tuple[Array, Array]:
    """Run with `memory` in LDS, v1 = 4 * lane, and v[4:7] the lane's four words of `data`.

    Returns:
        LDS afterwards, and v[8:11] of the lanes.
    """
    old = target == "gfx942"
    load, store = ("global_load_dword", "global_store_dword") if old else ("global_load_b32", "global_store_b32")
    read, write = ("ds_read_b32", "ds_write_b32") if old else ("ds_load_b32", "ds_store_b32")
    wait = "s_wait_loadcnt 0x0\ns_wait_dscnt 0x0" if target == "gfx1200" else "s_waitcnt vmcnt(0) lgkmcnt(0)"
    lanes_of_wave = 64 if old else LANES
    add = f"{'v_add_u32_e32' if old else 'v_add_nc_u32_e32'} v3, {4 * lanes_of_wave:#x}, v3"
    rounds = range(WORDS // lanes_of_wave)
    copy = "\n".join(f"{load} v2, v3, s[4:5]\n{wait}\n{write} v3, v2\n{add}" for _ in rounds)
    back = "\n".join(f"{read} v2, v3\n{wait}\n{store} v3, v2, s[4:5]\n{add}" for _ in rounds)
    whole, saved, few = ("exec", "s[12:13]", "s[14:15]") if old else ("exec_lo", "s12", "s14")
    move = f"s_mov_b{lanes_of_wave}"
    step = "v_lshlrev_b32_e32 v3, 2, v0"
    body = f"""
      {"s_load_dwordx4" if old else "s_load_b128"} s[4:7], s[0:1], 0x0
      {"s_load_dwordx2" if old else "s_load_b64"} s[8:9], s[0:1], 0x10
      v_lshlrev_b32_e32 v1, 2, v0
      v_lshlrev_b32_e32 v12, 4, v0
      {step}
      s_movk_i32 s10, 0x40
      s_mov_b32 m0, s10
      {"s_wait_kmcnt 0x0" if target == "gfx1200" else "s_waitcnt lgkmcnt(0)"}
      {copy}
      {chr(10).join(f"{load} v{4 + k}, v12, s[6:7] offset:{4 * k}" for k in range(4))}
      {chr(10).join(f"v_mov_b32_e32 v{8 + k}, 7" for k in range(4))}
      {wait}
      {move} {saved}, {whole}
      v_cmp_gt_u32_e64 {few}, {lanes}, v0
      {move} {whole}, {few}
      {text}
      {wait}
      {move} {whole}, {saved}
      {chr(10).join(f"{store} v12, v{8 + k}, s[8:9] offset:{4 * k}" for k in range(4))}
      {step}
      {back}
      s_endpgm
    """
    after, out = memory.copy(), np.zeros((lanes_of_wave, 4), np.uint32)
    kernel = kernel_text(body, target, buffers=3, lds=4 * WORDS)
    amdgpu.load(kernels_object([kernel], target)).launch("k", 1, len(out), [after, data, out, 0])
    return after, out


def _arrays(target: str) -> tuple[Array, Array]:
    rng = np.random.default_rng(12)
    count = 64 if target == "gfx942" else LANES
    return tuple(rng.integers(0, 1 << 32, n, dtype=np.uint64).astype(np.uint32) for n in (WORDS, (count, 4)))  # type: ignore[return-value]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("far", ["", "far"])
@pytest.mark.parametrize("bits", [32, 64])
def test_pairs(bits: int, far: str, target: str) -> None:
    names = _names(target)
    memory, data = _arrays(target)
    count, width = len(data), bits // 32
    scale = (64 if far else 1) * width
    offsets = (1, 2) if far else (3, 70)
    places = [[(k * width * 2 if not far else k * width) + o * scale + w for w in range(width)]
              for o in offsets for k in range(count)]  # fmt: skip
    first, second = np.array(places[:count]), np.array(places[count:])
    address = f"v_lshlrev_b32_e32 v1, {(2 if far else 3) + (width == 2)}, v0"
    a, b = ("v4", "v6") if width == 1 else ("v[4:5]", "v[6:7]")
    where = f"offset0:{offsets[0]} offset1:{offsets[1]}"
    after, out = _run(target, f"{address}\n{names[f'load{bits}{far}']} v[8:{7 + 2 * width}], v1 {where}", memory, data)
    loaded = np.concatenate([memory[first], memory[second]], axis=1)
    active = np.arange(count) < LANES
    np.testing.assert_array_equal(out[:, : 2 * width], np.where(active[:, None], loaded, 7))
    np.testing.assert_array_equal(after, memory)
    expected = memory.copy()
    for lane in range(LANES):
        expected[first[lane]], expected[second[lane]] = data[lane, :width], data[lane, 2 : 2 + width]
    after, _ = _run(target, f"{address}\n{names[f'store{bits}{far}']} v1, {a}, {b} {where}", memory, data)
    np.testing.assert_array_equal(after, expected)
    swap = f"{names[f'swap{bits}{far}']} v[8:{7 + 2 * width}], v1, {a}, {b} {where}"
    after, out = _run(target, f"{address}\n{swap}", memory, data)
    np.testing.assert_array_equal(after, expected)
    np.testing.assert_array_equal(out[:, : 2 * width], np.where(active[:, None], loaded, 7))


@pytest.mark.parametrize("target", TARGETS)
def test_addressing_by_lane(target: str) -> None:
    names = _names(target)
    memory, data = _arrays(target)
    places = (0x40 + 8) // 4 + np.arange(LANES)
    after, out = _run(target, f"{names['load_addtid']} v8 offset:8", memory, data)
    np.testing.assert_array_equal(out[:LANES, 0], memory[places])
    np.testing.assert_array_equal(after, memory)
    after, _ = _run(target, f"{names['store_addtid']} v4 offset:8", memory, data)
    expected = memory.copy()
    expected[places] = data[:LANES, 0]
    np.testing.assert_array_equal(after, expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("name", "sign"), [("append", 1), ("consume", -1)])
def test_append_and_consume(name: str, sign: int, target: str) -> None:
    memory, data = _arrays(target)
    after, out = _run(target, f"ds_{name} v8 offset:8", memory, data, lanes=5)
    expected = memory.copy()
    expected[18] = (int(memory[18]) + 5 * sign) % (1 << 32)
    np.testing.assert_array_equal(after, expected)
    np.testing.assert_array_equal(out[:, 0], np.where(np.arange(len(out)) < 5, memory[18], 7))


@pytest.mark.parametrize("target", TARGETS)
def test_conditional_exchange(target: str) -> None:
    memory, data = _arrays(target)
    text = "v_lshlrev_b32_e32 v1, 3, v0\nds_condxchg32_rtn_b64 v[8:9], v1, v[4:5] offset:16"
    after, out = _run(target, text, memory, data)
    expected = memory.copy()
    for lane in range(LANES):
        for word in range(2):
            new = int(data[lane, word])
            if new >> 31:
                expected[4 + 2 * lane + word] = new & 0x7FFFFFFF
    np.testing.assert_array_equal(after, expected)
    np.testing.assert_array_equal(out[:LANES, :2].ravel(), memory[4 : 4 + 2 * LANES])


@pytest.mark.parametrize("target", TARGETS[:2])
def test_wrap(target: str) -> None:
    memory, data = _arrays(target)
    memory[:8] = data[:8, 0]
    after, out = _run(target, "ds_wrap_rtn_b32 v8, v1, v4, v5", memory, data)
    expected = memory.copy()
    for lane in range(LANES):
        old, limit, more = (int(x) for x in (memory[lane], data[lane, 0], data[lane, 1]))
        expected[lane] = (old - limit if old >= limit else old + more) % (1 << 32)
    np.testing.assert_array_equal(after, expected)
    np.testing.assert_array_equal(out[:LANES, 0], memory[:LANES])


@pytest.mark.parametrize("target", TARGETS[:2])
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("returns", ["", "rtn"])
def test_compare_of_floats(returns: str, bits: int, target: str) -> None:
    name = _names(target)[f"compare{bits}{returns}"]
    kind, width = (np.float32, 1) if bits == 32 else (np.float64, 2)
    special = np.array([0.0, -0.0, np.nan, 1.5, np.inf], kind)
    count = 64 if target == "gfx942" else LANES
    memory = np.zeros(WORDS, np.uint32)
    old = memory[: count * width].view(kind)
    old[:] = np.resize(special, count)
    wanted = np.resize(np.repeat(special, len(special)), count)
    new = np.arange(count).astype(kind) + 100
    # gfx9 has the expected value first, later families the new one.
    pair = (wanted, new) if target == "gfx942" else (new, wanted)
    data = np.stack([np.resize(p.view(np.uint32).reshape(count, width), (count, 2)) if width == 2
                     else np.stack([p.view(np.uint32), np.zeros(count, np.uint32)], axis=1)
                     for p in pair], axis=1).reshape(count, 4)  # fmt: skip
    a, b, d = ("v4", "v6", "v8") if width == 1 else ("v[4:5]", "v[6:7]", "v[8:9]")
    result = f"{d}, " if returns else ""
    text = f"v_lshlrev_b32_e32 v1, {2 + (width == 2)}, v0\n{name} {result}v1, {a}, {b}"
    after, out = _run(target, text, memory, data)
    expected = old.copy()
    for lane in range(LANES):
        if float(old[lane]) == float(wanted[lane]):
            expected[lane] = new[lane]
    np.testing.assert_array_equal(after[: count * width], expected.view(np.uint32))
    if returns:
        np.testing.assert_array_equal(out[:LANES, :width].ravel(), memory[: LANES * width])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["permute_b32", "bpermute_b32"])
def test_permutes(name: str, target: str) -> None:
    memory, data = _arrays(target)
    after, out = _run(target, f"ds_{name} v8, v4, v5 offset:12\nds_nop", memory, data, lanes=20)
    count = len(data)
    named = [(int(data[lane, 0]) + 12) // 4 % count for lane in range(count)]
    expected = [7] * count
    if name.startswith("b"):
        expected[:20] = [int(data[named[k], 1]) if named[k] < 20 else 0 for k in range(20)]
    else:
        expected[:20] = [0] * 20
        for lane in range(20):
            if named[lane] < 20:
                expected[named[lane]] = int(data[lane, 1])
    assert out[:, 0].tolist() == expected
    np.testing.assert_array_equal(after, memory)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", SWIZZLES)
def test_swizzle(mode: str, target: str) -> None:
    memory, data = _arrays(target)
    _, out = _run(target, f"ds_swizzle_b32 v8, v4 offset:{SWIZZLES[mode]}", memory, data)
    for lane in range(LANES):
        if mode == "quads":
            source = lane & ~3 | (2, 1, 3, 0)[lane & 3]
        elif mode == "masks":
            source = (lane & 0x1C | 0x02) ^ 0x05
        else:
            source = (lane + 3) % 32
        assert out[lane, 0] == data[source, 0], lane
