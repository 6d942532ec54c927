"""Conversions between 8-bit floats and f32.

The formats are gfx942's own ("FNUZ") or, on gfx950 and gfx12, those of the OCP "8-bit Floating Point Specification".
Narrowing rounds to nearest even and keeps subnormal results. Without the overflow-clamping mode (FP16_OVFL) a value
beyond the largest finite one becomes NaN where the format has no infinity.

Stochastic rounding adds the upper bits of a seed below the last bit kept and truncates. Where the public documents are
silent on what becomes of a value in the subnormal range, this is as gfx12 does it, measured on gfx1201 and written down
in ROCm's rocjitsu; on gfx942 and gfx950 it is refused. From there is also which NaN gfx12 makes: always the same.
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
_STOCHASTIC = re.compile(r"v_cvt_sr_(fp8|bf8)_f32")
_EXPONENT_BITS = {"fp8": 4, "bf8": 5}


@cache
def _finite(exponent_bits: int, fnuz: bool) -> tuple[Array, int, int]:
    """Non-negative finite values in the order of their codes, the code of NaN, and that of what overflow gives."""
    values = f8_values(exponent_bits, fnuz)[:128]
    finite = values[np.isfinite(values)]
    nan = 0x80 if fnuz else 0x7F
    return finite, nan, 0x7C if exponent_bits == 5 and not fnuz else nan


_ONE_NAN = {4: 0xFF, 5: 0xFE}
"""What gfx12 makes of every NaN, by exponent bits of the format."""


def narrow(exponent_bits: int, fnuz: bool, one_nan: bool, x: Array) -> Array:
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
    code = np.where(sign, code | 0x80, code)
    if one_nan:
        code = np.where(np.isnan(wide), _ONE_NAN[exponent_bits], code)
    return code.astype(np.uint16)


def narrow_pair(exponent_bits: int, fnuz: bool, one_nan: bool, low: Array, high: Array) -> Array:
    """Two codes in a half word, as uint16."""
    first, second = (narrow(exponent_bits, fnuz, one_nan, x) for x in (low, high))
    found: Array = first | second << np.uint16(8)
    return found


def narrow_stochastic(exponent_bits: int, byte: int, x: Array, seed: Array, old: Array) -> Array:
    """f32 to the code of an OCP float, rounded by a seed, in one byte of a word whose other bytes stay."""
    fraction_bits = 7 - exponent_bits
    dropped = 23 - fraction_bits
    bits, seed = np.broadcast_arrays(np.ascontiguousarray(x).view(np.uint32), seed)
    magnitude = bits & np.uint32(0x7FFFFFFF)
    exponent = (magnitude >> np.uint32(23)).astype(np.int32) - (127 - (1 << exponent_bits - 1) + 1)
    significand = magnitude & np.uint32(0x7FFFFF) | np.uint32(0x800000)
    # Below the normal range the significand loses its last bits before the seed is added.
    shifted = significand >> np.clip(1 - exponent, 0, 31).astype(np.uint32)
    units = (shifted + (seed >> np.uint32(32 - dropped))) >> np.uint32(dropped)
    code = (np.maximum(exponent, 1) - 1 << fraction_bits) + units.astype(np.int32)
    infinity = 0x7F if exponent_bits == 4 else 0x7C
    code = np.minimum(code, infinity)
    code = np.where(magnitude >= np.uint32(0x7F800000), infinity, code).astype(np.uint32)
    code = code | bits >> np.uint32(24) & np.uint32(0x80)
    code = np.where(magnitude > np.uint32(0x7F800000), np.uint32(_ONE_NAN[exponent_bits]), code)
    place = np.uint32(8 * byte)
    found: Array = old & ~(np.uint32(0xFF) << place) | code << place
    return found


def widen(exponent_bits: int, fnuz: bool, nan: int, byte: int, word: Array) -> Array:
    """The value of one byte of a word, as the bits of an f32; every NaN becomes the same one."""
    codes = word >> np.uint32(8 * byte) & np.uint32(0xFF)
    values = f8_values(exponent_bits, fnuz)[codes].astype(np.float32)
    return np.where(np.isnan(values), np.uint32(nan), values.view(np.uint32))


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
        return _translate_stochastic(em, inst)
    kind = match["one"] or match["two"] or match["narrow"]
    bits, fnuz = _EXPONENT_BITS[kind], em.traits.fnuz_f8
    nan = 0xFFC00000 if em.traits.one_f8_nan else 0x7FC00000
    if inst.modifiers.get("clamp", 0) or inst.modifiers.get("omod", 0):
        raise em.unsupported(f"{inst.mnemonic} with output modifiers")
    # SDWA selects only the source here: these conversions have no destination select.
    with lane_select.applied(em, inst) if inst.variant else nullcontext():
        sources = [em.source(operand, "f32" if match["narrow"] else "u32", k) for k, operand in enumerate(inst.sources)]
        names = ", ".join(s.name for s in sources)
        if match["narrow"]:
            name = em.let(f"{em.const(narrow_pair)}({bits}, {fnuz}, {em.traits.one_f8_nan}, {names})")
            em.result(inst.results[0], "u16", Value(name, _smeared(em, "u16", *sources)))
            return True
        widening = em.const(widen)
        first = inst.modifiers.get("byte_sel", 0)
        if match["two"]:
            first = 2 * (inst.modifiers.get("op_sel", 0) & 1)
        low = Value(em.let(f"{widening}({bits}, {fnuz}, {nan}, {first}, {names})"), _smeared(em, "u32", *sources))
        index = em.vector_index(inst.results[0].code)
        if match["two"]:
            high = Value(em.let(f"{widening}({bits}, {fnuz}, {nan}, {first + 1}, {names})"), low.undefined)
            em.write_vector32(index + 1, high, em.write_mask_name)
        em.write_vector32(index, low, em.write_mask_name)
    return True


def _translate_stochastic(em: Emitter, inst: Instruction) -> bool:
    match = _STOCHASTIC.fullmatch(inst.mnemonic)
    if match is None:
        return False
    if inst.modifiers.get("clamp", 0) or inst.modifiers.get("omod", 0):
        raise em.unsupported(f"{inst.mnemonic} with output modifiers")
    byte = inst.modifiers.get("byte_sel", 0)
    with lane_select.applied(em, inst) if inst.variant else nullcontext():
        value, seed = (em.source(inst.sources[k], tag, k) for k, tag in enumerate(("f32", "u32")))
        index = em.vector_index(inst.results[0].code)
        old = em.vector32(index)
        arguments = f"{_EXPONENT_BITS[match[1]]}, {byte}, {value.name}, {seed.name}, {old.name}"
        name = em.let(f"{em.const(narrow_stochastic)}({arguments})")
        undefined = None
        smeared = _smeared(em, "u32", value, seed)
        if smeared or old.undefined:
            undefined = em.let(f"{em.const(byte_undefined)}({byte}, {smeared}, {old.undefined})")
        em.write_vector32(index, Value(name, undefined), em.write_mask_name)
    return True


def byte_undefined(byte: int, new: Array | None, old: Array | None) -> Array | None:
    """Undefined bits of a word after one byte of it was written."""
    mask = np.uint32(0xFF << 8 * byte)
    kept = None if old is None else old & ~mask
    if new is None:
        return kept
    written: Array = new & mask
    return written if kept is None else kept | written
