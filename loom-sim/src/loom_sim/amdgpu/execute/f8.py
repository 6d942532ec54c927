"""Conversions between 8-bit floats and f32.

The formats are gfx942's own ("FNUZ") or, on gfx950 and gfx12, those of the OCP "8-bit Floating Point Specification".
Narrowing rounds to nearest even and keeps subnormal results. Without the overflow-clamping mode (FP16_OVFL) a value
beyond the largest finite one becomes NaN where the format has no infinity.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from functools import cache

import numpy as np

from loom_sim.amdgpu.emitter import Emitter, Value
from loom_sim.amdgpu.execute import lane_select
from loom_sim.amdgpu.instruction import Instruction
from loom_sim.amdgpu.numerics.small_floats import f8_values
from loom_sim.amdgpu.state import Array

_NAME = re.compile(r"v_cvt_(?:f32_(?P<one>fp8|bf8)|pk_f32_(?P<two>fp8|bf8)|pk_(?P<narrow>fp8|bf8)_f32)")
_EXPONENT_BITS = {"fp8": 4, "bf8": 5}


@cache
def _finite(exponent_bits: int, fnuz: bool) -> tuple[Array, int, int]:
    """Non-negative finite values in the order of their codes, the code of NaN, and that of what overflow gives."""
    values = f8_values(exponent_bits, fnuz)[:128]
    finite = values[np.isfinite(values)]
    nan = 0x80 if fnuz else 0x7F
    return finite, nan, 0x7C if exponent_bits == 5 and not fnuz else nan


def narrow(exponent_bits: int, fnuz: bool, x: Array) -> Array:
    """f32 to codes of an 8-bit float, as uint16."""
    finite, nan, overflow = _finite(exponent_bits, fnuz)
    wide = x.astype(np.float64)
    magnitude = np.abs(wide)
    # The next code above the largest finite one, were there one, decides what still rounds down to it.
    ladder = np.append(finite, 2 * finite[-1] - finite[-2])
    middle = (ladder[:-1] + ladder[1:]) / 2
    code = np.searchsorted(middle, magnitude, side="left")
    tie = np.isin(magnitude, middle) & (code % 2 == 1)
    code = code + tie
    sign = np.signbit(wide)
    if fnuz:
        sign = sign & (code != 0)
    special = code >= len(finite)
    code = np.where(np.isnan(wide), nan, np.where(special, overflow, code))
    return np.where(sign, code | 0x80, code).astype(np.uint16)


def narrow_pair(exponent_bits: int, fnuz: bool, low: Array, high: Array) -> Array:
    """Two codes in a half word, as uint16."""
    found: Array = narrow(exponent_bits, fnuz, low) | narrow(exponent_bits, fnuz, high) << np.uint16(8)
    return found


def widen(exponent_bits: int, fnuz: bool, byte: int, word: Array) -> Array:
    """The value of one byte of a word, as the bits of an f32; every NaN becomes the same one."""
    codes = word >> np.uint32(8 * byte) & np.uint32(0xFF)
    values = f8_values(exponent_bits, fnuz)[codes].astype(np.float32)
    return np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))


def _smeared(em: Emitter, tag: str, *values: Value) -> str | None:
    shadows = [v.undefined for v in values if v.undefined]
    return em.let(f"fit_undefined(any_undefined({', '.join(shadows)}), {tag!r})") if shadows else None


def translate(em: Emitter, inst: Instruction) -> bool:
    """Translate a conversion; False if the instruction is none.

    Raises:
        UnsupportedInstruction: a form with clamp or output scale.
    """
    match = _NAME.fullmatch(inst.mnemonic)
    if match is None:
        return False
    kind = match["one"] or match["two"] or match["narrow"]
    bits, fnuz = _EXPONENT_BITS[kind], em.traits.fnuz_f8
    if inst.modifiers.get("clamp", 0) or inst.modifiers.get("omod", 0):
        raise em.unsupported(f"{inst.mnemonic} with output modifiers")
    # SDWA selects only the source here: these conversions have no destination select.
    with lane_select.applied(em, inst) if inst.variant else nullcontext():
        sources = [em.source(operand, "f32" if match["narrow"] else "u32", k) for k, operand in enumerate(inst.sources)]
        names = ", ".join(s.name for s in sources)
        if match["narrow"]:
            name = em.let(f"{em.const(narrow_pair)}({bits}, {fnuz}, {names})")
            em.result(inst.results[0], "u16", Value(name, _smeared(em, "u16", *sources)))
            return True
        widening = em.const(widen)
        first = inst.modifiers.get("byte_sel", 0)
        if match["two"]:
            first = 2 * (inst.modifiers.get("op_sel", 0) & 1)
        low = Value(em.let(f"{widening}({bits}, {fnuz}, {first}, {names})"), _smeared(em, "u32", *sources))
        index = em.vector_index(inst.results[0].code)
        if match["two"]:
            high = Value(em.let(f"{widening}({bits}, {fnuz}, {first + 1}, {names})"), low.undefined)
            em.write_vector32(index + 1, high, em.write_mask_name)
        em.write_vector32(index, low, em.write_mask_name)
    return True
