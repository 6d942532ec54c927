"""Dot products of small vectors in a register, and mixed-precision multiply-add."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from loom_sim.amdgpu.emitter import Emitter, Value
from loom_sim.amdgpu.execute import alu, packed_math
from loom_sim.amdgpu.execute.convert import f16_to_f32, f32_to_f16
from loom_sim.amdgpu.instruction import Instruction
from loom_sim.amdgpu.numerics import float32
from loom_sim.amdgpu.numerics.mode import FloatMode
from loom_sim.amdgpu.numerics.small_floats import elements
from loom_sim.amdgpu.state import Array

_INTEGER = re.compile(r"v_dot([248])(c)?_([iu])32_([iu]u?)(4|8|16)")
_FLOAT = re.compile(r"v_dot([24])(c|acc)?_f32_(f16|bf16|fp8|bf8)(?:_(fp8|bf8))?")


def float_dot(kinds: tuple[str, str], legacy_f8: bool, a: Array, b: Array, c: Array) -> Array:
    """Sum of products of packed floats plus an f32, summed in double precision and rounded once; uint32 bits."""
    shape = np.broadcast_shapes(a.shape, b.shape, c.shape)
    x, y = (np.broadcast_to(w, shape)[..., None] for w in (a, b))
    products = elements(x, kinds[0], legacy_f8) * elements(y, kinds[1], legacy_f8)
    total = products.sum(axis=-1) + c.view(np.float32)
    found: Array = total.astype(np.float32).view(np.uint32)
    return found


def _accumulates(inst: Instruction) -> bool:
    return inst.results[0].is_source


def _words(em: Emitter, inst: Instruction) -> list[Value]:
    """Both packed sources, with their half selections and negations, and the accumulator."""
    sources = inst.sources
    op_sel, op_sel_hi = inst.get("op_sel"), inst.get("op_sel_hi")
    packed_16 = re.search(r"(f16|bf16|[iu]16)$", inst.mnemonic) is not None
    values = []
    for k, operand in enumerate(sources[:2]):
        value = alu.packed_word(em, operand)
        if packed_16 and inst.format == "VOP3P":
            low, high = op_sel >> k & 1, op_sel_hi >> k & 1
            if (low, high) != (0, 1):
                name = em.let(
                    f"({value.name} >> u32({16 * low}) & klow) | ({value.name} >> u32({16 * high}) & klow) << k16"
                )
                value = Value(name, value.undefined)
            if "f" in inst.mnemonic.rpartition("_")[2]:
                flip = (inst.modifiers.get("neg_lo", 0) >> k & 1) << 15 | (
                    inst.modifiers.get("neg_hi", 0) >> k & 1
                ) << 31
                if flip:
                    value = Value(em.let(f"{value.name} ^ u32({flip:#x})"), value.undefined)
        values.append(value)
    if _accumulates(inst):
        values.append(em.source(inst.results[0], "u32", 31))
    else:
        values.append(em.source(sources[2], "u32", 31))
    return values


def _finish(em: Emitter, inst: Instruction, function: Any, values: list[Value]) -> None:
    name = em.let(f"{em.const(function)}({', '.join(v.name for v in values)})")
    undefined = None
    shadows = [v.undefined for v in values if v.undefined]
    if shadows:
        undefined = em.let(f"fit_undefined(any_undefined({', '.join(shadows)}), 'u32')")
    em.result(inst.results[0], "u32", Value(name, undefined))


def _integer(em: Emitter, inst: Instruction, match: re.Match[str]) -> None:
    _, _, result, kind, width = match.groups()
    if kind == "iu":  # signedness per operand comes from the negation bits
        negate = inst.modifiers.get("neg_lo", 0)
        signed_a, signed_b = bool(negate & 1), bool(negate >> 1 & 1)
    else:
        signed_a = signed_b = kind == "i"
    clamp = bool(inst.modifiers.get("clamp", 0))
    function = packed_math.integer_dot(int(width), signed_a, signed_b, clamp, result == "u")
    _finish(em, inst, function, _words(em, inst))


def _float(em: Emitter, inst: Instruction, match: re.Match[str]) -> None:
    if inst.modifiers.get("clamp", 0):
        raise em.unsupported("a float dot product with clamp")
    _, _, first, second = match.groups()
    kinds, legacy = (first, second or first), em.traits.family == "gfx942"

    def function(a: Array, b: Array, c: Array) -> Array:
        return float_dot(kinds, legacy, a, b, c)

    values = _words(em, inst)
    if not _accumulates(inst) and (inst.modifiers.get("neg_lo", 0) >> 2 & 1):
        values[2] = Value(em.let(f"{values[2].name} ^ sign32"), values[2].undefined)
    _finish(em, inst, function, values)


def _mixed(em: Emitter, inst: Instruction) -> None:
    """V_FMA_MIX: each source is an f32 or, if its op_sel_hi bit is set, the half of a register op_sel names."""
    op_sel, half_sources = inst.modifiers.get("op_sel", 0), inst.get("op_sel_hi")
    negate, absolute = inst.modifiers.get("neg", 0), inst.modifiers.get("abs", 0)
    mode = em.const(em.mode, "mode")
    names, shadows = [], []
    for k, operand in enumerate(inst.sources):
        if half_sources >> k & 1:
            value = em.half(alu.packed_word(em, operand), bool(op_sel >> k & 1))
            name = em.let(f"{em.const(f16_to_f32)}({mode}, {value.name}.view(f16)).view(u32)")
        else:
            value = em.source(operand, "u32", 31)
            name = value.name
        if absolute >> k & 1:
            name = em.let(f"{name} & abs32")
        if negate >> k & 1:
            name = em.let(f"{name} ^ sign32")
        names.append(f"{name}.view(f32)")
        if value.undefined:
            shadows.append(value.undefined)
    total = em.let(f"{em.const(float32.fma)}({mode}, {', '.join(names)})")
    if inst.modifiers.get("clamp", 0):
        total = em.let(f"{em.const(float32.clamp)}({mode}, {total})")
    undefined = em.let(f"fit_undefined(any_undefined({', '.join(shadows)}), 'u32')") if shadows else None
    if inst.mnemonic == "v_fma_mix_f32":
        em.result(inst.results[0], "f32", Value(total, undefined))
        return
    index = em.vector_index(inst.results[0].code)
    old = em.vector32(index)
    bits = em.let(f"{em.const(_narrowed)}({mode}, {total})")
    high = inst.mnemonic == "v_fma_mixhi_f16"
    name = em.let(f"{bits} << k16 | {old.name} & klow" if high else f"{bits} | {old.name} & khigh")
    if undefined or old.undefined:
        new = em.let(f"half_undefined({undefined}, False)") if undefined else "None"
        undefined = em.let(f"halves_undefined({new}, {old.undefined}, {high})")
    em.write_vector32(index, Value(name, undefined))


def _narrowed(mode: FloatMode, x: Array) -> Array:
    return f32_to_f16(mode, x).view(np.uint16).astype(np.uint32)


def translate(em: Emitter, inst: Instruction) -> bool:
    """Translate a dot product or mixed multiply-add; False if it is none."""
    name = inst.mnemonic
    if inst.variant:
        return False
    if name in ("v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16"):
        _mixed(em, inst)
        return True
    match = _INTEGER.fullmatch(name)
    if match is not None:
        _integer(em, inst, match)
        return True
    match = _FLOAT.fullmatch(name)
    if match is not None:
        _float(em, inst, match)
        return True
    return False
