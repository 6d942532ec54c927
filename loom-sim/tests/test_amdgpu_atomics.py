"""Every atomic of every memory space, one element per lane, new and old values against a scalar model."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import attrs
import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc
from amdgpu_model import F16, F32, F64, Float, halves, signed

from loom_sim import amdgpu

pytestmark = needs_llvm_mc
LANES = 32
TARGETS = {"gfx942": "gfx942", "gfx1100": "gfx11", "gfx1200": "gfx12"}
SPACES = ("global", "flat", "buffer", "ds")
BF16 = Float(8, 7)


@attrs.frozen
class Atomic:
    """One mnemonic: element width, new value from old value and one or two operands, format if it is a float."""

    name: str
    bits: int
    function: Callable[..., int]
    operands: int
    floating: Float | None


def _order(f: Callable[..., int]) -> Callable[..., Callable[..., int]]:
    return lambda bits: lambda old, x: f(old, x, key=lambda v: signed(v, bits))


_PLAIN: dict[str, Callable[..., int]] = {
    "add": lambda old, x: old + x,
    "sub": lambda old, x: old - x,
    "rsub": lambda old, x: x - old,
    "and": lambda old, x: old & x,
    "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
    "swap": lambda old, x: x,
    "inc": lambda old, x: 0 if old >= x else old + 1,
    "dec": lambda old, x: x if old == 0 or old > x else old - 1,
    "umin": min,
    "umax": max,
    "csub": lambda old, x: max(old - x, 0),
    "sub_clamp": lambda old, x: max(old - x, 0),
    "cond_sub": lambda old, x: old - x if old >= x else old,
}
_SIGNED = {"smin": _order(min), "smax": _order(max)}
_NEW_NAMES = {"storexchg": "swap", "wrxchg": "swap", "cmpst": "cmpswap_reversed", "cmpstore": "cmpswap"}
_FLOATS = {16: F16, 32: F32, 64: F64}


def _float(operation: str, f: Float) -> Callable[..., int] | None:
    if operation == "add":
        return f.add
    if operation in ("min", "max", "min_num", "max_num"):
        return lambda old, x: f.pick(old, x, operation.startswith("max"))
    return None


def _same_number(f: Float) -> Callable[[int, int], bool]:
    """Equality of floats: NaN equals nothing, zeros equal each other."""
    return lambda a, b: not f.is_nan(a) and (a == b or (a | b) & (f.sign - 1) == 0)


def parse(mnemonic: str) -> Atomic | None:
    """What the name of an atomic means; None if the table has no such operation."""
    stem = re.sub(r"^(global|flat|buffer)_atomic_|^ds_", "", mnemonic).replace("_rtn", "")
    if stem in ("pk_add_f16", "pk_add_bf16"):
        f = F16 if stem.endswith("_f16") else BF16
        return Atomic(mnemonic, 32, lambda old, x: halves(f.add, old, x), 1, f)
    match = re.fullmatch(r"(.*?)(?:_([iubf])(32|64)|(_x2))?", stem)
    assert match is not None
    operation, kind, width, x2 = match.groups()
    bits = int(width or (64 if x2 else 32))
    operation = _NEW_NAMES.get(operation, operation)
    if operation in ("cmpswap", "cmpswap_reversed"):
        swap = operation == "cmpswap"
        same = _same_number(_FLOATS[bits]) if kind == "f" else int.__eq__
        return Atomic(
            mnemonic,
            bits,
            lambda old, x, y: (x if same(old, y) else old) if swap else (y if same(old, x) else old),
            2,
            None,
        )
    if operation == "mskor":
        return Atomic(mnemonic, bits, lambda old, x, y: old & ~x | y, 2, None)
    if kind == "f":
        found = _float(operation, _FLOATS[bits])
        return None if found is None else Atomic(mnemonic, bits, found, 1, _FLOATS[bits])
    if operation in ("min", "max"):
        operation = ("s" if kind == "i" else "u") + operation
    if operation in _SIGNED:
        return Atomic(mnemonic, bits, _SIGNED[operation](bits), 1, None)
    plain = _PLAIN.get(operation)
    return None if plain is None else Atomic(mnemonic, bits, plain, 1, None)


@cache
def atomics(space: str, target: str) -> tuple[Atomic, ...]:
    """The atomics of a memory space that the target has, by name."""
    from loom_target_amdgpu.isa.tables import family_table

    table = family_table(TARGETS[target])
    known = sorted({table.row(n).mnemonic for n in range(len(table))})
    start = "ds_" if space == "ds" else f"{space}_atomic_"
    names = [n for n in known if n.startswith(start) and not re.search(r"ordered|2_rtn|2st64|2addr|wrap|condx", n)]
    found = [parse(name) for name in names]
    return tuple(a for a in found if a is not None)


def _registers(first: int, words: int) -> str:
    return f"v{first}" if words == 1 else f"v[{first}:{first + words - 1}]"


def instruction(atomic: Atomic, space: str, target: str) -> str:
    """The instruction on the registers of the kernel below; it returns the old value in v[8:9] if it can."""
    words = atomic.bits // 32
    if space == "ds":
        data = ", ".join(_registers(4 + 2 * k, words) for k in range(atomic.operands))
        result = f"{_registers(8, words)}, " if "_rtn" in atomic.name else ""
        return f"{atomic.name} {result}v10, {data}"
    # The new value first, then the expected one, side by side.
    data = _registers(4, words * atomic.operands)
    returned = {"gfx942": "sc0", "gfx1100": "glc", "gfx1200": "th:TH_ATOMIC_RETURN"}[target]
    if space == "buffer":
        zero = "null" if target == "gfx1200" else "0"
        return f"{atomic.name} {data}, v10, s[12:15], {zero} offen {returned}"
    where = "v10, {data}, s[4:5]" if space == "global" else "v[10:11], {data}"
    return f"{atomic.name} {_registers(8, words)}, {where.format(data=data)} {returned}"


def _returns(atomic: Atomic, space: str) -> bool:
    return space != "ds" or "_rtn" in atomic.name


def _step(number: int, atomic: Atomic, space: str, target: str) -> str:
    """One atomic on its own 256 bytes; the old value goes to the third buffer."""
    old = target == "gfx942"
    add = "v_add_u32_e32" if old else "v_add_nc_u32_e32"
    load, store = ("global_load_dwordx2", "global_store_dwordx2") if old else ("global_load_b64", "global_store_b64")
    read, write = ("ds_read_b64", "ds_write_b64") if old else ("ds_load_b64", "ds_store_b64")
    wait = (
        "s_wait_loadcnt 0x0\ns_wait_storecnt 0x0\ns_wait_dscnt 0x0"
        if target == "gfx1200"
        else "s_waitcnt vmcnt(0) lgkmcnt(0)" + ("" if old else "\ns_waitcnt_vscnt null, 0x0")
    )
    carry = "v_add_co_u32_e32 v10, vcc, s4, v12\ns_nop 1\nv_addc_co_u32_e32 v11, vcc, v11, v13, vcc"
    if not old:
        carry = "v_add_co_u32 v10, vcc_lo, s4, v12\nv_add_co_ci_u32_e64 v11, null, v11, v13, vcc_lo"
    lines = [f"{add} v12, {256 * number:#x}, v1", "v_mov_b32_e32 v8, 0", "v_mov_b32_e32 v9, 0",
             f"{load} v[4:5], v12, s[6:7]", f"{load} v[6:7], v1, s[8:9]"]  # fmt: skip
    if space != "ds" and atomic.operands == 2 and atomic.bits == 32:
        lines += [wait, "v_mov_b32_e32 v5, v6"]
    if space == "flat":
        lines += ["v_mov_b32_e32 v11, s5", "v_mov_b32_e32 v13, 0", carry]
    elif space == "ds":
        lines += ["v_mov_b32_e32 v10, v1", f"{load} v[14:15], v12, s[4:5]", wait, f"{write} v10, v[14:15]", wait]
    else:
        lines.append("v_mov_b32_e32 v10, v12")
    lines += [wait, instruction(atomic, space, target), wait]
    if space == "ds":
        lines += [f"{read} v[14:15], v10", wait, f"{store} v12, v[14:15], s[4:5]"]
    source = "v[4:5]" if space == "buffer" else "v[8:9]"
    lines += [f"{store} v12, {source}, s[10:11]", wait]
    return "\n".join(lines)


def _body(space: str, target: str) -> str:
    load8 = "s_load_dwordx8" if target == "gfx942" else "s_load_b256"
    wait = "s_wait_kmcnt 0x0" if target == "gfx1200" else "s_waitcnt lgkmcnt(0)"
    steps = "\n".join(_step(k, a, space, target) for k, a in enumerate(atomics(space, target)))
    flags = "0x27000" if target == "gfx942" else "0x30000000"
    return f"""
      {load8} s[4:11], s[0:1], 0x0
      v_lshlrev_b32_e32 v1, 3, v0
      {wait}
      s_mov_b32 s12, s4
      s_and_b32 s13, s5, 0xffff
      s_mov_b32 s14, -1
      s_mov_b32 s15, {flags}
      {steps}
      s_endpgm
    """


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("space", SPACES)
def test_atomics(space: str, target: str) -> None:
    chosen = atomics(space, target)
    assert len(chosen) > 20
    rng = np.random.default_rng(17)
    shape = (len(chosen), LANES)
    second = rng.integers(0, 1 << 63, LANES, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    first, memory = (rng.integers(0, 1 << 63, shape, dtype=np.uint64) * np.uint64(2) for _ in range(2))
    edges = np.array([0, 1, 0xFFFFFFFF, (1 << 64) - 1, 0x8000000080000000, 5], np.uint64)
    first[:, :12:2] = edges
    memory[:, 0:12:3] = edges[:4]
    memory[:, 12::4] = second[12::4]
    memory[:, 13::4] = first[:, 13::4]
    start, old = memory.copy(), np.zeros(shape, np.uint64)
    text = kernel_text(_body(space, target), target, buffers=4, lds=LANES * 8)
    amdgpu.load(kernels_object([text], target)).launch("k", 1, LANES, [memory, first, second, old, 0])
    for number, atomic in enumerate(chosen):
        limit = (1 << atomic.bits) - 1
        compared = 0
        for lane in range(LANES):
            before = int(start[number, lane])
            operands = [int(first[number, lane]) & limit, int(second[lane]) & limit][: atomic.operands]
            values = [before & limit, *operands]
            f = atomic.floating
            if f is not None:
                parts = [v >> s & ((1 << f.width) - 1) for v in values for s in range(0, atomic.bits, f.width)]
                if any(f.is_nan(p) or f.is_inf(p) for p in parts):
                    continue
            compared += 1
            expected = before & ~limit | atomic.function(*values) & limit
            said = f"{atomic.name} of {values[0]:#x} with {', '.join(map(hex, operands))}"
            assert int(memory[number, lane]) == expected, said
            if _returns(atomic, space):
                assert int(old[number, lane]) & limit == values[0], f"{said}: the old value"
        assert compared > LANES // 4, atomic.name
