"""Every vector comparison, to a lane mask and to EXEC, on pairs of random and edge values, against Python's own order."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc
from amdgpu_model import F16, F32, F64, classify, signed

from loom_sim import amdgpu

pytestmark = needs_llvm_mc
LANES = 256
TARGETS = {"gfx942": "gfx942", "gfx1100": "gfx11", "gfx1200": "gfx12"}

_FLOAT: dict[str, Callable[[float, float], bool]] = {
    "f": lambda a, b: False,
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "lg": lambda a, b: a < b or a > b,
    "ge": lambda a, b: a >= b,
    "o": lambda a, b: a == a and b == b,
    "u": lambda a, b: a != a or b != b,
    "nge": lambda a, b: not a >= b,
    "nlg": lambda a, b: not (a < b or a > b),
    "ngt": lambda a, b: not a > b,
    "nle": lambda a, b: not a <= b,
    "neq": lambda a, b: a != b,
    "nlt": lambda a, b: not a < b,
    "t": lambda a, b: True,
    "tru": lambda a, b: True,
}
_INTEGER: dict[str, Callable[[int, int], bool]] = {
    "f": lambda a, b: False,
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ne": lambda a, b: a != b,
    "ge": lambda a, b: a >= b,
    "t": lambda a, b: True,
}
_STRUCT = {16: "<He", 32: "<If", 64: "<Qd"}
TYPES = [f"{kind}{bits}" for kind in "fiu" for bits in (16, 32, 64)] + [f"class_f{bits}" for bits in (16, 32, 64)]


def _as_float(x: int, bits: int) -> float:
    integer, floating = _STRUCT[bits][1], _STRUCT[bits][2]
    found: float = struct.unpack("<" + floating, struct.pack("<" + integer, x))[0]
    return found


def names(kind: str, target: str) -> list[str]:
    """Comparisons of a type that the target has, without `v_cmp_` and `v_cmpx_`."""
    from loom_target_amdgpu.isa.tables import family_table

    table = family_table(TARGETS[target])
    known = {table.row(n).mnemonic for n in range(len(table))}
    tests = _FLOAT if kind[0] == "f" else _INTEGER
    wanted = [kind] if kind.startswith("class") else [f"{test}_{kind}" for test in tests]
    return [name for name in wanted if f"v_cmp_{name}" in known]


def instructions(kind: str, target: str) -> list[str]:
    """The tested instructions, both forms of each."""
    wide = kind.endswith("64")
    first = "v[2:3]" if wide else "v2"
    second = "v4" if kind.startswith("class") or not wide else "v[4:5]"
    mask = "s[14:15]" if target == "gfx942" else "s14"
    found = []
    for name in names(kind, target):
        found.append(f"v_cmp_{name}_e64 {mask}, {first}, {second}")
        found.append(f"v_cmpx_{name}_e64 {mask + ', ' if target == 'gfx942' else ''}{first}, {second}")
    return found


def _body(kind: str, target: str) -> str:
    old = target == "gfx942"
    mask, execute = ("s[14:15]", "s_mov_b64 exec, -1") if old else ("s14", "s_mov_b32 exec_lo, -1")
    lines = []
    for k, text in enumerate(instructions(kind, target)):
        if text.startswith("v_cmpx"):
            lines += ["v_mov_b32_e32 v8, 0", text, "v_mov_b32_e32 v8, 1", execute]
        else:
            lines += [text, "s_nop 1", f"v_cndmask_b32_e64 v8, 0, 1, {mask}"]
        lines.append(f"v_lshl_or_b32 v9, v8, {k}, v9")
    words = {
        "load8": "s_load_dwordx8" if old else "s_load_b256",
        "load": "global_load_dwordx2" if old else "global_load_b64",
        "store": "global_store_dword" if old else "global_store_b32",
        "kernargs": "s_wait_kmcnt 0x0" if target == "gfx1200" else "s_waitcnt lgkmcnt(0)",
        "loads": "s_wait_loadcnt 0x0" if target == "gfx1200" else "s_waitcnt vmcnt(0)",
    }
    return """
      {load8} s[4:11], s[0:1], 0x0
      v_lshlrev_b32_e32 v1, 3, v0
      v_lshlrev_b32_e32 v6, 2, v0
      v_mov_b32_e32 v9, 0
      {kernargs}
      {load} v[2:3], v1, s[4:5]
      {load} v[4:5], v1, s[6:7]
      {loads}
      TEXT
      {store} v6, v9, s[8:9]
      s_endpgm
    """.format(**words).replace("TEXT", "\n".join(lines))


def _operands(bits: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    f = {16: F16, 32: F32, 64: F64}[bits]
    edges = [0, 1, f.sign, f.sign - 1, f.inf, f.inf | f.sign, f.nan, f.inf + 1, f.bias << f.m, f.sign | f.bias << f.m,
             (1 << bits) - 1, f.inf - 1, 1 << f.m, (1 << f.m) - 1, f.sign | 1]  # fmt: skip
    pairs: list[tuple[int, ...]] = [(a, b) for a in edges for b in edges]
    rng = np.random.default_rng(bits)
    while len(pairs) < LANES:
        pairs.append(tuple(int(x) for x in rng.integers(0, 1 << bits, 2, dtype=np.uint64, endpoint=False)) if bits < 64
                     else tuple(int(x) for x in rng.integers(0, (1 << 64) - 1, 2, dtype=np.uint64)))  # fmt: skip
    noise = rng.integers(0, 1 << 63, (2, LANES), dtype=np.uint64) << np.uint64(bits if bits < 64 else 0)
    if bits == 64:
        noise[:] = 0
    a, b = (np.array([p[k] for p in pairs], np.uint64) | noise[k] for k in (0, 1))
    return a, b


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", TYPES)
def test_comparisons(kind: str, target: str) -> None:
    bits = int(kind[-2:])
    a, b = _operands(bits)
    if kind.startswith("class"):
        b = np.random.default_rng(3).integers(0, 1 << 10, LANES, dtype=np.uint64)
    out = np.zeros(LANES, np.uint32)
    text = kernel_text(_body(kind, target), target, buffers=4)
    amdgpu.load(kernels_object([text], target)).launch("k", 1, LANES, [a, b, out, out.copy(), 0])
    limit = (1 << bits) - 1
    tried = names(kind, target)
    assert tried
    for lane in range(LANES):
        x, y = int(a[lane]) & limit, int(b[lane]) & limit
        for k, name in enumerate(tried):
            if kind.startswith("class"):
                expected = classify({16: F16, 32: F32, 64: F64}[bits], x, int(b[lane]))
            elif kind[0] == "f":
                expected = int(_FLOAT[name.split("_")[0]](_as_float(x, bits), _as_float(y, bits)))
            else:
                values = (signed(x, bits), signed(y, bits)) if kind[0] == "i" else (x, y)
                expected = int(_INTEGER[name.split("_")[0]](*values))
            got = int(out[lane]) >> 2 * k & 3
            assert got == 3 * expected, (
                f"v_cmp(x)_{name} of {x:#x} and {y:#x}: {got & 1} and {got >> 1}, not {expected}"
            )
