"""Dot products of small vectors in a register, and mixed-precision multiply-add."""

from __future__ import annotations

import re
from contextlib import nullcontext
from fractions import Fraction
from typing import Any

import numpy as np

from loom_sim.amdgpu.emitter import Emitter, Value
from loom_sim.amdgpu.execute import alu, lane_select, packed_math
from loom_sim.amdgpu.execute.convert import f16_to_f32, f32_to_f16
from loom_sim.amdgpu.execute.operation import vector
from loom_sim.amdgpu.instruction import Instruction, Operand
from loom_sim.amdgpu.numerics import float16, float32
from loom_sim.amdgpu.numerics.float16 import f32_to_bf16
from loom_sim.amdgpu.numerics.formats import F16, F32, directed, select_nan, to_odd, two_sum
from loom_sim.amdgpu.numerics.mode import TOWARD_ZERO, FloatMode
from loom_sim.amdgpu.numerics.small_floats import elements
from loom_sim.amdgpu.state import Array

_INTEGER = re.compile(r"v_dot([248])(c)?_([iu])32_([iu]u?)(4|8|16)")
_HALF = re.compile(r"v_dot2_(f16|bf16)_(?:f16|bf16)")
_FLOAT = re.compile(r"v_dot([24])(c|acc)?_f32_(f16|bf16|fp8|bf8)(?:_(fp8|bf8))?")


def _exact_sum(terms: list[Array]) -> Array:
    """The sum of doubles, rounded to odd where it is not exact: a later rounding to a narrower format is then right."""
    total, inexact = terms[0], np.zeros((1, 1), bool)
    for term in terms[1:]:
        total, error = two_sum(total, term)
        inexact = inexact | (error != 0)
    inexact = inexact & np.isfinite(total)
    if inexact.any():
        total = np.array(total)
        places = np.flatnonzero(np.broadcast_to(inexact, total.shape))
        columns = [np.broadcast_to(t, total.shape).reshape(-1)[places].tolist() for t in terms]
        for place, values in zip(places.tolist(), zip(*columns, strict=True), strict=True):
            exact = sum(map(Fraction, values))
            nearest = np.array(float(exact))
            rest = np.array(float(exact - Fraction(float(exact))))
            total.reshape(-1)[place] = to_odd(nearest, rest)
    return total


def float_dot(kinds: tuple[str, str], legacy_f8: bool, a: Array, b: Array, c: Array) -> Array:
    """Sum of products of packed floats plus a number, as a double rounded to odd.

    Args:
        kinds: element formats of `a` and `b` (see `elements`).
        legacy_f8: the 8-bit floats are gfx942's.
        a, b: uint32 words.
        c: float64.
    """
    shape = np.broadcast_shapes(a.shape, b.shape, c.shape)
    x, y = (np.broadcast_to(w, shape)[..., None] for w in (a, b))
    products = elements(x, kinds[0], legacy_f8) * elements(y, kinds[1], legacy_f8)
    return _exact_sum([*np.moveaxis(products, -1, 0), c])


def _to_f32(x: Array) -> Array:
    """Bits of the f32; every NaN is the default one."""
    r = x.astype(np.float32)
    return select_nan(F32, r).view(np.uint32)


def _to_bf16(x: Array) -> Array:
    toward_zero = directed(x.astype(np.float32), x, TOWARD_ZERO)
    sticky = (toward_zero != x).astype(np.uint32)  # rounded to odd again: two more bits than the result has
    bits = f32_to_bf16((toward_zero.view(np.uint32) | sticky).view(np.float32))
    return np.where(np.isnan(x), np.uint16(0x7FC0), bits)


def half_dot(kind: str, mode: FloatMode, a: Array, b: Array, c: Array) -> Array:
    """V_DOT2_F16_F16 and V_DOT2_BF16_BF16: accumulator and result have the elements' format; uint16 bits."""
    addend = elements(c.astype(np.uint32)[..., None], kind)[..., 0]
    total = float_dot((kind, kind), False, a, b, addend)
    if kind == "bf16":
        return _to_bf16(total)
    return select_nan(F16, float16.narrow(mode, total)).view(np.uint16)


def _dual_dot(a: Array, b: Array, c: Array) -> Array:
    return _to_f32(float_dot(("f16", "f16"), False, a, b, c.view(np.float32).astype(np.float64)))


# The single-issue instruction is translated below; this is what the halves of dual-issue words look up.
vector("v_dot2acc_f32_f16", "u32 u32", "u32", _dual_dot, accumulates=True)


def _accumulates(inst: Instruction) -> bool:
    """Whether the old destination is the addend. (That the table calls it read says nothing: with DPP it always is.)"""
    return re.match(r"v_dot\d(c|acc)_", inst.mnemonic) is not None


def _moved(em: Emitter, operand: Operand, value: Value, position: int) -> Value:
    """A source after the lane crossbar of a DPP instruction."""
    return value if em.permute is None else em.permute(operand, value, position)


def _words(em: Emitter, inst: Instruction) -> list[Value]:
    """Both packed sources, with their half selections and negations, and the accumulator."""
    sources = inst.sources
    op_sel, op_sel_hi = inst.get("op_sel"), inst.get("op_sel_hi")
    packed_16 = re.search(r"(f16|bf16|[iu]16)$", inst.mnemonic) is not None
    values = []
    for k, operand in enumerate(sources[:2]):
        value = _moved(em, operand, alu.packed_word(em, operand), k)
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
    _, _, first, second = match.groups()
    kinds, legacy = (first, second or first), em.traits.family == "gfx942"
    mode, clamp = em.mode, bool(inst.modifiers.get("clamp", 0))

    def function(a: Array, b: Array, c: Array) -> Array:
        found = _to_f32(float_dot(kinds, legacy, a, b, c.view(np.float32).astype(np.float64)))
        return float32.clamp(mode, found.view(np.float32)).view(np.uint32) if clamp else found

    values = _words(em, inst)
    if not _accumulates(inst) and (inst.modifiers.get("neg_lo", 0) >> 2 & 1):
        values[2] = Value(em.let(f"{values[2].name} ^ sign32"), values[2].undefined)
    _finish(em, inst, function, values)


def _half(em: Emitter, inst: Instruction, kind: str) -> None:
    """A dot product with a 16-bit result: op_sel chooses the halves of accumulator and destination only."""
    if (inst.modifiers.get("neg", 0) | inst.modifiers.get("abs", 0)) & 3:
        raise em.unsupported(f"{inst.mnemonic} with a sign modifier on a packed source")
    first, second, third = (o for o in inst.operands if o.name != "vdst")
    words = [_moved(em, o, alu.packed_word(em, o), k) for k, o in enumerate((first, second))]
    values = [*words, em.source(third, "u16", 2)]
    mode = em.mode

    def function(a: Array, b: Array, c: Array) -> Array:
        return half_dot(kind, mode, a, b, c)

    name = em.let(f"{em.const(function)}({', '.join(v.name for v in values)})")
    shadows = [v.undefined for v in values if v.undefined]
    undefined = em.let(f"fit_undefined(any_undefined({', '.join(shadows)}), 'u16')") if shadows else None
    em.result(inst.results[0], "u16", Value(name, undefined))


def _mixed(em: Emitter, inst: Instruction) -> None:
    """V_FMA_MIX: each source is an f32 or, if its op_sel_hi bit is set, the half of a register op_sel names."""
    op_sel, half_sources = inst.modifiers.get("op_sel", 0), inst.get("op_sel_hi")
    negate, absolute = inst.modifiers.get("neg", 0), inst.modifiers.get("abs", 0)
    mode = em.const(em.mode, "mode")
    names, shadows = [], []
    for k, operand in enumerate(inst.sources):
        if half_sources >> k & 1:
            value = em.half(_moved(em, operand, alu.packed_word(em, operand), k), bool(op_sel >> k & 1))
            name = em.let(f"{em.const(f16_to_f32)}({mode}, {value.name}.view(f16)).view(u32)")
        else:
            value = _moved(em, operand, em.source(operand, "u32", 31), k)
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
    em.write_vector32(index, Value(name, undefined), em.write_mask_name)


def _narrowed(mode: FloatMode, x: Array) -> Array:
    return f32_to_f16(mode, x).view(np.uint16).astype(np.uint32)


def translate(em: Emitter, inst: Instruction) -> bool:
    """Translate a dot product or mixed multiply-add; False if it is none.

    Raises:
        UnsupportedInstruction: a sign modifier on a packed source of a dot product with a 16-bit result.
    """
    name = inst.mnemonic
    half, integer, single = _HALF.fullmatch(name), _INTEGER.fullmatch(name), _FLOAT.fullmatch(name)
    is_mixed = name in ("v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16")
    if not (half or integer or single or is_mixed):
        return False
    with lane_select.applied(em, inst) if inst.variant else nullcontext():
        if half:
            _half(em, inst, half[1])
        elif integer:
            _integer(em, inst, integer)
        elif single:
            _float(em, inst, single)
        else:
            _mixed(em, inst)
    return True
