"""Instructions that read other lanes or parts of registers, one lane at a time: DPP, SDWA, lane access, counts, quads."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc
from amdgpu_model import F16, F32, M16, M32, signed
from amdgpu_vector_model import convert, dot2

from loom_sim import amdgpu

pytestmark = needs_llvm_mc

OLD = 0xDEADBEEF
TARGETS = ("gfx942", "gfx1100", "gfx1200")
WHOLE, PARTIAL = 0xFFFF_FFFF_FFFF_FFFF, 0x7A3C_55F1_5A0F_FC31
_RNG = np.random.default_rng(17)
A, B, C = (_RNG.integers(0, 1 << 32, 64, dtype=np.uint64).astype(np.uint32) for _ in range(3))
# Halves and words that are ordinary numbers: NaN rules are the subject of other tests.
A, B, C = ((x & np.uint32(0x8FFF8FFF)) | np.uint32(0x30003000) for x in (A, B, C))


def lanes_of(target: str) -> int:
    return 64 if target == "gfx942" else 32


def run(text: str, target: str, mask: int = WHOLE, *attributes: str) -> list[int]:
    """What v8 holds in each lane of one wave; v2, v4 and v6 are A, B and C, and `text` runs under a lane mask."""
    old = target == "gfx942"
    words = {
        "load8": "s_load_dwordx8" if old else "s_load_b256",
        "load": "global_load_dword" if old else "global_load_b32",
        "store": "global_store_dword" if old else "global_store_b32",
        "kernargs": "s_wait_kmcnt 0x0" if target == "gfx1200" else "s_waitcnt lgkmcnt(0)",
        "loads": "s_wait_loadcnt 0x0" if target == "gfx1200" else "s_waitcnt vmcnt(0)",
        "set": f"s_mov_b32 exec_lo, {mask & M32:#x}" + (f"\ns_mov_b32 exec_hi, {mask >> 32:#x}" if old else ""),
        "all": "s_mov_b64 exec, -1" if old else "s_mov_b32 exec_lo, -1",
    }
    body = """
      {load8} s[4:11], s[0:1], 0x0
      v_lshlrev_b32_e32 v1, 2, v0
      v_mov_b32_e32 v8, 0xdeadbeef
      {kernargs}
      {load} v2, v1, s[4:5]
      {load} v4, v1, s[6:7]
      {load} v6, v1, s[8:9]
      {loads}
      {set}
      s_nop 7
      TEXT
      {all}
      {store} v1, v8, s[10:11]
      s_endpgm
    """.format(**words).replace("TEXT", text)
    program = amdgpu.load(kernels_object([kernel_text(body, target, buffers=4)], target, *attributes))
    lanes = lanes_of(target)
    out = np.zeros(lanes, np.uint32)
    program.launch("k", 1, lanes, [A[:lanes].copy(), B[:lanes].copy(), C[:lanes].copy(), out, 0])
    return [int(x) for x in out]


def active(mask: int, lane: int) -> bool:
    return bool(mask >> lane & 1)


# --- lane access ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [WHOLE, PARTIAL, 0x10])
@pytest.mark.parametrize("target", TARGETS)
def test_lane_access(target: str, mask: int) -> None:
    lanes = lanes_of(target)
    first = (mask & (1 << lanes) - 1 & -(mask & (1 << lanes) - 1)).bit_length() - 1
    got = run("v_readfirstlane_b32 s14, v2\ns_nop 4\nv_mov_b32_e32 v8, s14", target, mask)
    assert got == [int(A[first]) if active(mask, n) else OLD for n in range(lanes)]
    for chosen in (0, 5, lanes - 1, lanes + 3):  # only the low bits of the lane number count
        text = f"s_mov_b32 s13, {chosen}\nv_readlane_b32 s14, v2, s13\ns_nop 4\nv_mov_b32_e32 v8, s14"
        got = run(text, target, mask)
        assert got == [int(A[chosen % lanes]) if active(mask, n) else OLD for n in range(lanes)]
        text = f"s_mov_b32 s13, {chosen}\nv_writelane_b32 v8, 51, s13"
        assert run(text, target, mask) == [51 if n == chosen % lanes else OLD for n in range(lanes)]


@pytest.mark.parametrize("mask", [WHOLE, PARTIAL])
@pytest.mark.parametrize("target", TARGETS)
def test_counts_of_lower_lanes(target: str, mask: int) -> None:
    for name in ("v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32"):
        expected = []
        for n in range(lanes_of(target)):
            below = (1 << n) - 1
            wanted = below & M32 if "lo" in name else below >> 32
            total = (int(A[n]) & wanted).bit_count() + int(B[n]) & M32
            expected.append(total if active(mask, n) else OLD)
        assert run(f"{name} v8, v2, v4", target, mask) == expected


@pytest.mark.parametrize("target", TARGETS)
def test_swap_under_a_mask(target: str) -> None:
    got = run("v_swap_b32 v2, v4\nv_mov_b32_e32 v8, v4", target, PARTIAL)
    assert got == [int(A[n]) if active(PARTIAL, n) else OLD for n in range(lanes_of(target))]



@pytest.mark.parametrize("target", ["gfx1100", "gfx1200"])
def test_moves_of_halves(target: str) -> None:
    """V_MOV_B16 has a syntax of its own."""
    cases: list[tuple[str, Callable[[int], int]]] = [
        ("v_mov_b16_e32 v8.l, v2.h", lambda a: OLD & ~M16 | a >> 16),
        ("v_mov_b16_e32 v8.h, v2.l", lambda a: OLD & M16 | (a & M16) << 16),
    ]
    for text, function in cases:
        expected = [function(int(A[n])) if active(PARTIAL, n) else OLD for n in range(32)]
        assert run(text, target, PARTIAL, "+real-true16") == expected, text


# --- DPP ------------------------------------------------------------------------------------------------------------


def source_lane(control: str, n: int, lanes: int) -> int | None:
    """The lane that lane `n` reads, None if there is none (AMD ISA documents, "DPP_CTRL Enumeration")."""
    name, _, value = control.partition(":")
    row, place = n & ~15, n & 15
    if name == "quad_perm":
        return n & ~3 | [int(x) for x in value.strip("[]").split(",")][n & 3]
    if name == "dpp8":
        return n & ~7 | [int(x) for x in value.strip("[]").split(",")][n & 7]
    if name == "row_mirror":
        return row | 15 - place
    if name == "row_half_mirror":
        return n & ~7 | 7 - (n & 7)
    if name == "wave_shl":
        return n + 1 if n + 1 < lanes else None
    if name == "wave_shr":
        return n - 1 if n else None
    if name == "wave_rol":
        return (n + 1) % lanes
    if name == "wave_ror":
        return (n - 1) % lanes
    amount = int(value)
    if name == "row_shl":
        return n + amount if place + amount < 16 else None
    if name == "row_shr":
        return n - amount if place >= amount else None
    if name == "row_ror":
        return row | (place - amount) % 16
    if name in ("row_share", "row_newbcast"):
        return row | amount
    if name == "row_xmask":
        return row | place ^ amount
    assert name == "row_bcast"
    return (row - 1 if row else None) if amount == 15 else 31 if n > 31 else None


def dpp(function: Callable[[int, int], int], control: str, extra: dict[str, int], target: str, mask: int) -> list[int]:
    """Results of an instruction whose first source goes through the crossbar.

    A lane whose source does not exist, or is inactive and not fetched, keeps its destination, or reads zero with
    `bound_ctrl`; DPP8 always reads zero. `row_mask` and `bank_mask` disable rows and banks of the destination.
    """
    found = []
    lanes = lanes_of(target)
    for n in range(lanes):
        enabled = extra.get("row_mask", 15) >> n // 16 & extra.get("bank_mask", 15) >> n // 4 % 4 & 1
        source = source_lane(control, n, lanes)
        available = source is not None and (active(mask, source) or extra.get("fi", 0))
        if not active(mask, n) or not enabled or not (available or extra.get("bound_ctrl") or control[:4] == "dpp8"):
            found.append(OLD)
        else:
            found.append(function(int(A[source]) if available and source is not None else 0, n) & M32)
    return found


_COMMON = ["quad_perm:[3,1,0,2]", "row_shl:3", "row_shr:5", "row_ror:7", "row_mirror", "row_half_mirror"]
CONTROLS = {
    "gfx942": [*_COMMON, "wave_shl:1", "wave_rol:1", "wave_shr:1", "wave_ror:1", "row_bcast:15", "row_bcast:31",
               "row_newbcast:6"],
    "gfx1100": [*_COMMON, "row_share:6", "row_xmask:9", "dpp8:[7,0,2,2,5,4,1,6]"],
    "gfx1200": [*_COMMON, "row_share:6", "row_xmask:9", "dpp8:[7,0,2,2,5,4,1,6]"],
}  # fmt: skip
EXTRAS: list[dict[str, int]] = [{}, {"bound_ctrl": 1}, {"row_mask": 5, "bank_mask": 11}, {"fi": 1, "bound_ctrl": 1}]


def _suffix(control: str, extra: dict[str, int], target: str) -> str | None:
    """Assembly of the modifiers; None where the target does not have them."""
    if "fi" in extra and target == "gfx942":
        return None
    if control.startswith("dpp8"):
        if "row_mask" in extra or extra == {"bound_ctrl": 1}:
            return None
        return control + (" fi:1" if "fi" in extra else "")
    masks = f" row_mask:{extra.get('row_mask', 15):#x} bank_mask:{extra.get('bank_mask', 15):#x}"
    return control + masks + "".join(f" {k}:1" for k in ("bound_ctrl", "fi") if k in extra)


@pytest.mark.parametrize("mask", [WHOLE, PARTIAL])
@pytest.mark.parametrize(("target", "control"), [(t, c) for t, controls in CONTROLS.items() for c in controls])
def test_dpp_controls(target: str, control: str, mask: int) -> None:
    add = "v_add_u32_dpp" if target == "gfx942" else "v_add_nc_u32_dpp"
    for extra in EXTRAS:
        suffix = _suffix(control, extra, target)
        if suffix is not None:
            got = run(f"{add} v8, v2, v4 {suffix}", target, mask)
            assert got == dpp(lambda a, n: a + int(B[n]), control, extra, target, mask), suffix


def _f(n: int, x: Any) -> int:
    return int(x[n])


VOP3_DPP: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "fma": ("v_fma_f32_e64_dpp v8, -v2, |v4|, v6",
            lambda a, n: F32.fma(a ^ F32.sign, _f(n, B) & ~F32.sign, _f(n, C))),
    "add3": ("v_add3_u32_e64_dpp v8, v2, v4, v6", lambda a, n: a + _f(n, B) + _f(n, C)),
    "mad": ("v_mad_u32_u24_e64_dpp v8, v2, v4, v6",
            lambda a, n: (a & 0xFFFFFF) * (_f(n, B) & 0xFFFFFF) + _f(n, C)),
    "dot2": ("v_dot2_f32_f16_e64_dpp v8, v2, v4, v6", lambda a, n: dot2(F32, F16, a, _f(n, B), _f(n, C))),
    "dot2_f16": ("v_dot2_f16_f16_e64_dpp v8, v2, v4, v6",
                 lambda a, n: OLD & ~M16 | dot2(F16, F16, a, _f(n, B), _f(n, C) & M16)),
    "mix": ("v_fma_mix_f32_e64_dpp v8, v2, v4, v6 op_sel:[1,0,0] op_sel_hi:[1,0,0]",
            lambda a, n: F32.fma(convert(F16, F32, a >> 16), _f(n, B), _f(n, C))),
    "mixlo": ("v_fma_mixlo_f16_e64_dpp v8, v2, v4, v6 op_sel_hi:[1,0,0]",
              lambda a, n: OLD & ~M16 | convert(F32, F16, F32.fma(convert(F16, F32, a & M16), _f(n, B), _f(n, C)))),
    "mixhi": ("v_fma_mixhi_f16_e64_dpp v8, v2, v4, v6 op_sel_hi:[1,0,0]",
              lambda a, n: OLD & M16 | convert(F32, F16, F32.fma(convert(F16, F32, a & M16), _f(n, B), _f(n, C))) << 16),
    "mbcnt": ("v_mbcnt_lo_u32_b32_e64_dpp v8, v2, v4", lambda a, n: (a & (1 << n) - 1).bit_count() + _f(n, B)),
    "min3": ("v_min3_i32_e64_dpp v8, v2, v4, v6", lambda a, n: min(signed(a), signed(_f(n, B)), signed(_f(n, C)))),
}  # fmt: skip


@pytest.mark.parametrize("control", ["row_shr:3", "dpp8:[7,0,2,2,5,4,1,6]"])
@pytest.mark.parametrize("name", VOP3_DPP)
@pytest.mark.parametrize("target", ["gfx1100", "gfx1200"])
def test_dpp_of_long_instructions(target: str, name: str, control: str) -> None:
    text, function = VOP3_DPP[name]
    parts = text.split(" op_sel", 1)
    for mask in (WHOLE, PARTIAL):
        suffix = _suffix(control, {}, target)
        words = f"{text} {suffix}" if len(parts) == 1 else f"{parts[0]} op_sel{parts[1]} {suffix}"
        assert run(words, target, mask) == dpp(function, control, {}, target, mask), words


@pytest.mark.parametrize("mask", [WHOLE, PARTIAL])
def test_dpp_of_short_dot_products(mask: int) -> None:
    text = "v_mov_b32_e32 v8, v6\ns_nop 4\n"
    text += "v_dot2c_f32_f16_dpp v8, v2, v4 row_ror:7 row_mask:0xf bank_mask:0xf bound_ctrl:1\ns_nop 2"
    found = dpp(lambda a, n: dot2(F32, F16, a, _f(n, B), _f(n, C)), "row_ror:7", {"bound_ctrl": 1}, "gfx942", mask)
    assert run(text, "gfx942", mask) == found


# --- SDWA -----------------------------------------------------------------------------------------------------------

_PART = {"BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8), "WORD_0": (0, 16), "WORD_1": (16, 16),
         "DWORD": (0, 32)}  # fmt: skip


def part(x: int, name: str, extend: bool = False) -> int:
    low, width = _PART[name]
    found = x >> low & (1 << width) - 1
    return signed(found, width) & M32 if extend else found


def placed(x: int, name: str, unused: str, old: int) -> int:
    low, width = _PART[name]
    field = (1 << width) - 1
    found = (x & field) << low
    if unused == "UNUSED_PRESERVE":
        return old & ~(field << low) | found
    if unused == "UNUSED_SEXT" and found >> low + width - 1 & 1:
        return found | M32 & ~((1 << low + width) - 1)
    return found


@pytest.mark.parametrize("unused", ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"])
@pytest.mark.parametrize("destination", _PART)
def test_sdwa_destinations(destination: str, unused: str) -> None:
    for first, second in (("BYTE_3", "WORD_1"), ("WORD_0", "BYTE_1"), ("DWORD", "BYTE_2"), ("BYTE_0", "DWORD")):
        select = f"dst_sel:{destination} dst_unused:{unused} src0_sel:{first} src1_sel:{second}"
        expected = [
            placed(part(int(a), first, True) + part(int(b), second), destination, unused, OLD) if active(PARTIAL, n) else OLD
            for n, (a, b) in enumerate(zip(A, B, strict=True))
        ]
        assert run(f"v_add_u32_sdwa v8, sext(v2), v4 {select}", "gfx942", PARTIAL) == expected, select


def test_sdwa_of_floats() -> None:
    text = "v_mul_f16_sdwa v8, -v2, |v4| dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:WORD_0"
    expected = [F16.mul(int(a) >> 16 ^ 0x8000, int(b) & 0x7FFF) << 16 | OLD & M16 for a, b in zip(A, B, strict=True)]
    assert run(text, "gfx942") == expected
    text = "v_cvt_f32_f16_sdwa v8, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1"
    assert run(text, "gfx942") == [convert(F16, F32, int(a) >> 16) for a in A]


# --- quads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [WHOLE, PARTIAL])
@pytest.mark.parametrize("target", ["gfx1100", "gfx1200"])
def test_interpolation(target: str, mask: int) -> None:
    def wide(x: Any, n: int, high: int = 0) -> int:
        return convert(F16, F32, int(x[n]) >> 16 * high & M16)

    def exact(a: int, b: int, c: int) -> Fraction:
        return F32.value(a) * F32.value(b) + F32.value(c)

    cases: list[tuple[str, Callable[[int, int], int]]] = [
        ("v_interp_p10_f32 v8, v2, v4, v6 wait_exp:7",
         lambda n, q: F32.fma(_f(q + 1, A), _f(n, B), _f(q, C))),
        ("v_interp_p2_f32 v8, v2, -v4, v6 wait_exp:7",
         lambda n, q: F32.fma(_f(q + 2, A), _f(n, B) ^ F32.sign, _f(n, C))),
        ("v_interp_p10_f16_f32 v8, v2, v4, v6 op_sel:[1,0,0,0] wait_exp:7",
         lambda n, q: F32.fma(wide(A, q + 1, 1), _f(n, B), wide(C, q))),
        ("v_interp_p2_f16_f32 v8, v2, v4, v6 op_sel:[0,0,0,1] wait_exp:7",
         lambda n, q: OLD & M16 | convert(F32, F16, F32.fma(wide(A, q + 2), _f(n, B), _f(n, C))) << 16),
        ("v_interp_p10_rtz_f16_f32 v8, v2, v4, v6 wait_exp:7",
         lambda n, q: F32.round(exact(wide(A, q + 1), _f(n, B), wide(C, q)), direction=3)),
        ("v_interp_p2_rtz_f16_f32 v8, v2, v4, v6 wait_exp:7",
         lambda n, q: OLD & ~M16 | F16.round(exact(wide(A, q + 2), _f(n, B), _f(n, C)), direction=3)),
    ]  # fmt: skip
    for text, function in cases:
        expected = [function(n, n & ~3) if active(mask, n) else OLD for n in range(32)]
        assert run(text, target, mask) == expected, text
