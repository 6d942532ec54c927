"""Addresses of global accesses by lane, and of buffer accesses by index, offset and stride, with their ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu
from loom_sim.amdgpu.errors import UnsupportedInstruction

pytestmark = needs_llvm_mc
Array = npt.NDArray[Any]
LANES = 32
ADDRESSED_BY_LANE = ["global_load_addtid_b32", "global_store_addtid_b32"]


def _run(target: str, text: str, memory: Array) -> tuple[Array, Array]:
    """v1 is the lane, v2 four times the lane, s[4:5] the memory; v8 goes to the output, before it is -1."""
    old = target == "gfx942"
    body = f"""
      {"s_load_dwordx4" if old else "s_load_b128"} s[4:7], s[0:1], 0x0
      v_mov_b32_e32 v1, v0
      v_lshlrev_b32_e32 v2, 2, v0
      v_mov_b32_e32 v8, -1
      {"s_wait_kmcnt 0x0" if target == "gfx1200" else "s_waitcnt lgkmcnt(0)"}
      s_mov_b32 s12, s4
      {text}
      {"s_wait_loadcnt 0x0" if target == "gfx1200" else "s_waitcnt vmcnt(0)"}
      {"global_store_dword" if old else "global_store_b32"} v2, v8, s[6:7]
      s_endpgm
    """
    after, out = memory.copy(), np.zeros(LANES, "u4")
    program = amdgpu.load(kernels_object([kernel_text(body, target, buffers=2)], target))
    program.launch("k", 1, LANES, [after, out, 0])
    return after, out


@pytest.mark.parametrize("target", ["gfx1100", "gfx1200"])
def test_global_by_lane(target: str) -> None:
    memory = np.arange(1000, 1000 + LANES + 4, dtype="u4")
    after, out = _run(target, "global_load_addtid_b32 v8, s[4:5] offset:16", memory)
    np.testing.assert_array_equal(out, memory[4 : 4 + LANES])
    np.testing.assert_array_equal(after, memory)
    after, _ = _run(target, "global_store_addtid_b32 v1, s[4:5] offset:16", memory)
    np.testing.assert_array_equal(after, np.concatenate([memory[:4], np.arange(LANES)]))


STRIDE, RECORDS = 12, 20


def _expected(target: str, select: int, stride: int, index: int, offset: int, memory: Array) -> int:
    """What a word-wide load gives (AMD ISA documents, "Range Checking")."""
    if target == "gfx942":
        inside = index < RECORDS if stride else offset + 4 <= RECORDS
    elif select == 3:
        inside = offset + 4 <= RECORDS
    elif select == 2:
        inside = RECORDS != 0
    else:
        inside = index < RECORDS and (select == 1 or stride == 0 or offset + 4 <= stride)
    return int(memory[(index * stride + offset) // 4]) if inside else 0


@pytest.mark.parametrize("target", ["gfx942", "gfx1100", "gfx1200"])
@pytest.mark.parametrize("stride", [0, STRIDE])
@pytest.mark.parametrize("form", ["idxen", "offen", "bothen"])
@pytest.mark.parametrize("select", [0, 1, 2, 3])
def test_ends_of_buffers(select: int, form: str, stride: int, target: str) -> None:
    old = target == "gfx942"
    if old and select:
        pytest.skip("gfx942 has no selection of range checks")
    memory = np.arange(1, 1 + 256, dtype="u4")
    address = {"idxen": "v1", "offen": "v2", "bothen": "v[4:5]"}[form]
    flags = "idxen offen" if form == "bothen" else form
    name, zero = "buffer_load_dword" if old else "buffer_load_b32", "null" if target == "gfx1200" else "0"
    text = f"""
      s_and_b32 s13, s5, 0xffff
      s_or_b32 s13, s13, {stride << 16:#x}
      s_movk_i32 s14, {RECORDS}
      s_mov_b32 s15, {0x27000 if old else select << 28:#x}
      v_mov_b32_e32 v4, v1
      v_and_b32_e32 v5, 12, v2
      {name} v8, {address}, s[12:15], {zero} {flags} offset:4
    """
    _, out = _run(target, text, memory)
    for lane in range(LANES):
        index = 0 if form == "offen" else lane
        offset = 4 + {"idxen": 0, "offen": 4 * lane, "bothen": 4 * lane & 12}[form]
        assert out[lane] == _expected(target, select, stride, index, offset, memory), f"lane {lane}"


@pytest.mark.parametrize(("scale", "factor"), [(0, 1), (1, 4), (2, 8), (3, 32)])
@pytest.mark.parametrize("swizzled", [False, True])
def test_scaled_strides(swizzled: bool, scale: int, factor: int) -> None:
    """gfx12 multiplies the stride of a resource (AMD RDNA4 ISA, "Buffer Resource Descriptor")."""
    memory, stride = np.arange(1, 1 + LANES * 8 * 32 // 4, dtype="u4"), 8 * factor
    text = f"""
      {_resource("gfx1200", int(swizzled), 8, 0, 0)}
      s_or_b32 s15, s15, {scale << 18:#x}
      buffer_load_b32 v8, v1, s[12:15], null idxen offset:12
    """
    _, out = _run("gfx1200", text, memory)
    places = [_place(n, 12, stride, 4, 8) if swizzled else n * stride + 12 for n in range(LANES)]
    assert out.tolist() == [int(memory[p // 4]) if stride >= 16 and n < RECORDS else 0 for n, p in enumerate(places)]


def _element(target: str, mode: int) -> int:
    return 4 if target == "gfx942" else {1: 4, 3: 16}[mode]


def _place(index: int, offset: int, stride: int, element: int, together: int) -> int:
    """Where a byte of a record lies: groups of `together` records, in which equal elements are neighbours."""
    group, record = divmod(index, together)
    column, byte = divmod(offset, element)
    return group * together * stride + (column * together + record) * element + byte


def _resource(target: str, mode: int, stride: int, index_stride: int, select: int, records: int = RECORDS) -> str:
    old = target == "gfx942"
    word = index_stride << 21 | (0x27000 if old else select << 28)
    return f"""
      s_and_b32 s13, s5, 0xffff
      s_or_b32 s13, s13, {(mode << 31 if old else mode << 30) | stride << 16:#x}
      s_movk_i32 s14, {records}
      s_mov_b32 s15, {word:#x}
    """


def _access(target: str, store: bool, width: str = "dword") -> str:
    name = width if target == "gfx942" else {"dword": "b32", "ubyte": "u8", "dwordx2": "b64"}[width]
    return f"buffer_{'store' if store else 'load'}_{name}"


MODES = [("gfx942", 1), ("gfx1100", 1), ("gfx1100", 3), ("gfx1200", 1), ("gfx1200", 3)]


@pytest.mark.parametrize(("target", "mode"), MODES)
@pytest.mark.parametrize("index_stride", [0, 1, 2, 3])
@pytest.mark.parametrize("select", [0, 1, 3])
def test_swizzled_buffers(select: int, index_stride: int, target: str, mode: int) -> None:
    # Lane n looks at word n % 16 of record n + 3; a record has 12 words, and the buffer 20 records.
    stride, records, lanes = 48, 20, np.arange(LANES)
    if target == "gfx942" and select:
        pytest.skip("gfx942 has no selection of range checks")
    memory = np.arange(1, 1 + 64 * stride // 4 * 2, dtype="u4")
    columns = lanes % 16 * 4
    text = f"""
      {_resource(target, mode, stride, index_stride, select, records)}
      s_mov_b32 s16, 8
      v_add_{"u32" if target == "gfx942" else "nc_u32"}_e32 v4, 3, v1
      v_and_b32_e32 v5, 60, v2
      {{}} v8, v[4:5], s[12:15], {{}} idxen offen
    """
    bounded = select != 1 and target != "gfx942"
    inside = [n + 3 < records and (not bounded or c + 4 <= stride) for n, c in zip(lanes, columns, strict=True)]
    element, together = _element(target, mode), 8 << index_stride
    places = [_place(int(n) + 3, int(c), stride, element, together) for n, c in zip(lanes, columns, strict=True)]
    _, out = _run(target, text.format(_access(target, False), "null" if target == "gfx1200" else "0"), memory)
    for lane, (place, ok) in enumerate(zip(places, inside, strict=True)):
        assert out[lane] == (memory[place // 4] if ok else 0), f"lane {lane}"
    # The scalar offset moves everything.
    after, _ = _run(target, "v_mov_b32_e32 v8, v1\n" + text.format(_access(target, True), "s16"), memory)
    expected = memory.copy()
    for lane, (place, ok) in enumerate(zip(places, inside, strict=True)):
        if ok:
            expected[(place + 8) // 4] = lane
    np.testing.assert_array_equal(after, expected)


@pytest.mark.parametrize("target", ["gfx942", "gfx1100", "gfx1200"])
def test_bytes_of_a_swizzled_buffer(target: str) -> None:
    memory = np.random.default_rng(5).integers(0, 1 << 32, 64 * 3, dtype=np.uint64).astype("u4")
    zero = "null" if target == "gfx1200" else "0"
    access = f"{_access(target, False, 'ubyte')} v8, v1, s[12:15], {zero} idxen offset:7"
    _, out = _run(target, f"{_resource(target, 1, STRIDE, 1, 0, 64)}\n{access}", memory)
    assert out.tolist() == [memory.tobytes()[_place(n, 7, STRIDE, 4, 16)] for n in range(LANES)]


@pytest.mark.parametrize(
    ("target", "mode", "stride", "flags", "offset", "width", "message"),
    [
        ("gfx942", 1, 0, 0, 4, "dword", "without stride"),
        ("gfx942", 1, 14, 0, 4, "dword", "no multiple of the element's size"),
        ("gfx942", 1, 12, 4, 4, "dword", "adds the lane to the index"),
        ("gfx1100", 0, 12, 4, 4, "dword", "adds the lane to the index"),
        ("gfx1100", 1, 12, 0, 4, "dwordx2", "across elements of a swizzled buffer"),
        ("gfx1200", 3, 16, 0, 6, "dword", "or one that is not aligned"),
        ("gfx1200", 2, 16, 0, 4, "dword", "elements of a reserved size"),
    ],
)
def test_swizzling_refused(
    target: str, mode: int, stride: int, flags: int, offset: int, width: str, message: str
) -> None:
    zero = "null" if target == "gfx1200" else "0"
    data = "v[8:9]" if width == "dwordx2" else "v8"
    access = f"{_access(target, False, width)} {data}, v1, s[12:15], {zero} idxen offset:{offset}"
    text = f"{_resource(target, mode, stride, flags, 0)}\n{access}"
    with pytest.raises(UnsupportedInstruction, match=f"unsupported: .*{message}.*its bytes are .*buffer_load"):
        _run(target, text, np.zeros(256, "u4"))
