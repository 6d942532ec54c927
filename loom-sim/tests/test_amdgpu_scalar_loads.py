"""Every scalar load against bytes in Python: width, extension, offsets, and the end of buffers."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu

pytestmark = needs_llvm_mc
TARGETS = {"gfx942": "gfx942", "gfx1100": "gfx11", "gfx1200": "gfx12"}
BEFORE = 0xA5C37E81
SIZE, END = 256, 132
"""Bytes of the buffer, and of the part of it that the resource describes."""
_UNITS = {"u8": 1, "i8": -1, "u16": 2, "i16": -2, "b32": 4, "b64": 8, "b96": 12, "b128": 16, "b256": 32, "b512": 64,
          "dword": 4, "dwordx2": 8, "dwordx4": 16, "dwordx8": 32, "dwordx16": 64}  # fmt: skip


@cache
def instructions(target: str) -> list[str]:
    """The scalar loads of a target."""
    from loom_target_amdgpu.isa.tables import family_table

    table = family_table(TARGETS[target])
    names = {table.row(n).mnemonic for n in range(len(table))}
    return sorted(n for n in names if re.fullmatch(r"s_(buffer_)?load_\w+", n))


def _cases(target: str) -> list[tuple[str, int, int]]:
    """Instruction, scalar offset and immediate offset; with the buffer loads some beyond its end."""
    cases = []
    for name in instructions(target):
        for scalar, immediate in ((0, 0), (8, 20), (64, 32)):
            cases.append((name, scalar, immediate))
            if "buffer" in name:
                cases.append((name, END - 24, immediate))
    return cases


def _body(cases: list[tuple[str, int, int]], target: str) -> str:
    old, last = target == "gfx942", target == "gfx1200"
    wait = "s_wait_kmcnt 0x0" if last else "s_waitcnt lgkmcnt(0)"
    store = "global_store_dword" if old else "global_store_b32"
    lines = [f"{'s_load_dwordx4' if old else 's_load_b128'} s[4:7], s[0:1], 0x0", "v_mov_b32_e32 v1, 0", wait,
             "s_mov_b32 s8, s4", "s_and_b32 s9, s5, 0xffff", f"s_movk_i32 s10, {END}",
             f"s_mov_b32 s11, {0x27000 if old else 0x30000000:#x}"]  # fmt: skip
    for name, scalar, immediate in cases:
        words = max(1, abs(_UNITS[name.rpartition("_")[2]]) // 4)
        target_registers = "s12" if words == 1 else f"s[12:{11 + words}]"
        base = "s[8:11]" if "buffer" in name else "s[4:5]"
        lines += [f"s_mov_b32 s{12 + k}, {BEFORE:#x}" for k in range(18)]
        lines += [f"s_movk_i32 s30, {scalar}", f"{name} {target_registers}, {base}, s30 offset:{immediate:#x}", wait]
        for k in range(18):
            lines += [f"v_mov_b32_e32 v2, s{12 + k}", f"{store} v1, v2, s[6:7] offset:{4 * k}"]
        lines.append(f"{'v_add_u32_e32' if old else 'v_add_nc_u32_e32'} v1, 72, v1")
    return "\n".join([*lines, "s_endpgm"])


def _expected(name: str, place: int, memory: bytes) -> bytes:
    unit = _UNITS[name.rpartition("_")[2]]
    size = abs(unit)
    if "buffer" in name:
        # Each word that does not lie inside the buffer is zero.
        step = min(size, 4)
        found = b"".join(
            memory[p : p + step] if p + step <= END else bytes(step) for p in range(place, place + size, step)
        )
    else:
        found = memory[place : place + size]
    if size < 4:
        value = int.from_bytes(found, "little", signed=unit < 0)
        found = (value & 0xFFFFFFFF).to_bytes(4, "little")
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_scalar_loads(target: str) -> None:
    cases = _cases(target)
    assert len(instructions(target)) >= 10
    memory = np.random.default_rng(9).integers(0, 256, SIZE, dtype=np.uint8)
    out = np.zeros((len(cases), 18), np.uint32)
    program = amdgpu.load(kernels_object([kernel_text(_body(cases, target), target, buffers=2)], target))
    program.launch("k", 1, 1, [memory, out, 0])
    untouched = np.full(18, BEFORE, np.uint32).tobytes()
    for number, (name, scalar, immediate) in enumerate(cases):
        found = _expected(name, scalar + immediate, memory.tobytes())
        assert out[number].tobytes() == found + untouched[len(found) :], f"{name} at {scalar} + {immediate}"
