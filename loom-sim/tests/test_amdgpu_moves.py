"""Every load and store of every memory space against bytes in Python: width, extension, halves of registers."""

from __future__ import annotations

import re
from functools import cache

import attrs
import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu

pytestmark = needs_llvm_mc
LANES = 32
STRIDE = 16
"""Bytes per lane."""
TARGETS = {"gfx942": "gfx942", "gfx1100": "gfx11", "gfx1200": "gfx12"}
SPACES = ("global", "flat", "buffer", "scratch", "ds")
BEFORE = 0xA5C3_7E81
"""What the destination registers hold before a load, and memory before a store, in every word."""

_WIDTHS = {
    "byte": 1, "ubyte": 1, "sbyte": -1, "b8": 1, "u8": 1, "i8": -1,
    "short": 2, "ushort": 2, "sshort": -2, "b16": 2, "u16": 2, "i16": -2,
    "dword": 4, "b32": 4, "dwordx2": 8, "b64": 8, "dwordx3": 12, "b96": 12, "dwordx4": 16, "b128": 16,
}  # fmt: skip


@attrs.frozen
class Move:
    """One mnemonic: direction, bytes, sign extension, and which half of the register a 16-bit form touches."""

    name: str
    store: bool
    nbytes: int
    signed: bool
    half: str


def parse(mnemonic: str, space: str) -> Move | None:
    """What the name of a load or store means; None if it is something else."""
    match = re.fullmatch(rf"{space}_(load|read|store|write)_(.*)", mnemonic)
    if match is None:
        return None
    parts = match[2].split("_")
    half = "" if "d16" not in parts else "high" if "hi" in parts else "low"
    rest = [p for p in parts if p not in ("d16", "hi")]
    if len(rest) != 1 or rest[0] not in _WIDTHS:
        return None
    width = _WIDTHS[rest[0]]
    return Move(mnemonic, match[1] in ("store", "write"), abs(width), width < 0, half)


@cache
def moves(space: str, target: str) -> tuple[Move, ...]:
    """The loads and stores of a memory space that the target has, by name."""
    from loom_target_amdgpu.isa.tables import family_table

    table = family_table(TARGETS[target])
    names = sorted({table.row(n).mnemonic for n in range(len(table))})
    found = [parse(name, space) for name in names]
    return tuple(m for m in found if m is not None)


def instruction(move: Move, space: str, target: str) -> str:
    """The instruction on v[4:7] and the address registers of the kernel below."""
    words = max(1, move.nbytes // 4)
    data = "v4" if words == 1 else f"v[4:{3 + words}]"
    if space == "ds":
        return f"{move.name} {'v10, ' + data if move.store else data + ', v10'}"
    if space == "buffer":
        zero = "null" if target == "gfx1200" else "0"
        return f"{move.name} {data}, v10, s[12:15], {zero} offen"
    address = {"global": "v10", "flat": "v[10:11]", "scratch": "v2"}[space]
    base = {"global": ", s[4:5]", "flat": "", "scratch": ", off"}[space]
    return f"{move.name} {address + ', ' + data if move.store else data + ', ' + address}{base}"


def _step(number: int, move: Move, space: str, target: str) -> str:
    """Move between v[4:7] and 16 bytes of each lane; what was loaded, or memory after a store, goes to the output."""
    old = target == "gfx942"
    wide = "dwordx4" if old else "b128"
    load, store = f"global_load_{wide}", f"global_store_{wide}"
    read, write = ("ds_read_b128", "ds_write_b128") if old else ("ds_load_b128", "ds_store_b128")
    wait = (
        "s_wait_loadcnt 0x0\ns_wait_storecnt 0x0\ns_wait_dscnt 0x0"
        if target == "gfx1200"
        else "s_waitcnt vmcnt(0) lgkmcnt(0)" + ("" if old else "\ns_waitcnt_vscnt null, 0x0")
    )
    carry = "v_add_co_u32_e32 v10, vcc, s4, v12\ns_nop 1\nv_addc_co_u32_e32 v11, vcc, v11, v13, vcc"
    if not old:
        carry = "v_add_co_u32 v10, vcc_lo, s4, v12\nv_add_co_ci_u32_e64 v11, null, v11, v13, vcc_lo"
    place = f"{'v_add_u32_e32' if old else 'v_add_nc_u32_e32'} v12, {STRIDE * LANES * number:#x}, v1"
    lines = [place, "v_mov_b32_e32 v10, v12"]
    if space == "flat":
        lines += ["v_mov_b32_e32 v11, s5", "v_mov_b32_e32 v13, 0", carry]
    elif space == "ds":
        lines.append("v_mov_b32_e32 v10, v1")
    # The pattern that a load finds, or the one that a store changes.
    fill = f"{load} v[16:19], {'v1, s[6:7]' if not move.store else 'v1, s[8:9]'}"
    lines += [fill, f"{load} v[4:7], {'v1, s[6:7]' if move.store else 'v1, s[8:9]'}", wait]
    if space == "ds":
        lines.append(f"{write} v10, v[16:19]")
    elif space == "scratch":
        lines.append(f"scratch_store_{wide} v2, v[16:19], off")
    else:
        lines.append(f"{store} v12, v[16:19], s[4:5]")
    lines += [wait, instruction(move, space, target), wait]
    if move.store:
        back = {"ds": f"{read} v[4:7], v10", "scratch": f"scratch_load_{wide} v[4:7], v2, off"}
        lines += [back.get(space, f"{load} v[4:7], v12, s[4:5]"), wait]
    return "\n".join([*lines, f"{store} v12, v[4:7], s[10:11]", wait])


def _body(space: str, target: str) -> str:
    load8 = "s_load_dwordx8" if target == "gfx942" else "s_load_b256"
    wait = "s_wait_kmcnt 0x0" if target == "gfx1200" else "s_waitcnt lgkmcnt(0)"
    flags = "0x27000" if target == "gfx942" else "0x30000000"
    steps = "\n".join(_step(k, m, space, target) for k, m in enumerate(moves(space, target)))
    return f"""
      {load8} s[4:11], s[0:1], 0x0
      v_lshlrev_b32_e32 v1, 4, v0
      v_mov_b32_e32 v2, 16
      {wait}
      s_mov_b32 s12, s4
      s_and_b32 s13, s5, 0xffff
      s_mov_b32 s14, -1
      s_mov_b32 s15, {flags}
      {steps}
      s_endpgm
    """


def _expected(move: Move, pattern: bytes, before: bytes) -> bytes:
    """Registers after a load of `pattern` over `before`, or memory after a store of `pattern` over `before`."""
    if move.store:
        taken = pattern[2:] if move.half == "high" else pattern
        return taken[: move.nbytes] + before[move.nbytes :]
    if move.nbytes >= 4:
        return pattern[: move.nbytes] + before[move.nbytes :]
    value = int.from_bytes(pattern[: move.nbytes], "little", signed=move.signed)
    if not move.half:
        return (value & 0xFFFFFFFF).to_bytes(4, "little") + before[4:]
    word = (value & 0xFFFF).to_bytes(2, "little")
    return (before[:2] + word if move.half == "high" else word + before[2:4]) + before[4:]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("space", SPACES)
def test_loads_and_stores(space: str, target: str) -> None:
    chosen = moves(space, target)
    assert len(chosen) >= 20
    pattern = np.random.default_rng(29).integers(0, 256, (LANES, STRIDE), dtype=np.uint8)
    before = np.full((LANES, 4), BEFORE, np.uint32).view(np.uint8)
    memory, out = (np.zeros((len(chosen), LANES, STRIDE), np.uint8) for _ in range(2))
    text = kernel_text(_body(space, target), target, buffers=4, lds=LANES * STRIDE, scratch=64)
    amdgpu.load(kernels_object([text], target)).launch("k", 1, LANES, [memory, pattern, before, out, 0])
    for number, move in enumerate(chosen):
        for lane in range(LANES):
            expected = _expected(move, pattern[lane].tobytes(), before[lane].tobytes())
            assert out[number, lane].tobytes() == expected, f"{move.name}, lane {lane}"
