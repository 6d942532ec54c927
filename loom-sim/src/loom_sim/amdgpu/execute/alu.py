"""Translates arithmetic instructions by the tables of `operation`: scalar, vector, dual-issue, packed."""

from __future__ import annotations

from typing import Any

import numpy as np

from loom_sim.amdgpu.emitter import Emitter, Value, inline_constant
from loom_sim.amdgpu.execute import lane_select
from loom_sim.amdgpu.execute.operation import PACKED, SCALAR, VECTOR, Operation
from loom_sim.amdgpu.instruction import VGPR, Instruction, Operand
from loom_sim.amdgpu.numerics import float16, float32, float64
from loom_sim.amdgpu.state import EXEC_LO, VCC_LO

_CLAMP: dict[str, Any] = {"f16": float16.clamp, "f32": float32.clamp, "f64": float64.clamp}
_MULTIPLY: dict[str, Any] = {"f16": float16.mul, "f32": float32.mul, "f64": float64.mul}
_OMOD = {1: 2.0, 2: 4.0, 3: 0.5}
_NUMPY: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def scalar(em: Emitter, inst: Instruction) -> None:
    """A scalar ALU instruction."""
    operation = SCALAR[inst.mnemonic]
    sources = inst.sources
    results = inst.results
    operands = iter(sources)
    values: list[Value] = []
    for tag in operation.sources:
        if tag == "scc":
            values.append(em.scc())
        else:
            values.append(em.source(next(operands), tag, len(values)))
    result_tags = [t for t in operation.results if t != "scc"]
    if operation.accumulates:
        values.append(em.source(results[0], result_tags[0], len(values)))
    outcome = em.apply(operation, operation.function, values)
    if not results and result_tags:
        raise em.unsupported("no destination")
    for tag, value in zip(operation.results, outcome, strict=True):
        if tag == "scc":
            em.write_scc(value)
        else:
            _scalar_result(em, results[0], tag, value)


def _scalar_result(em: Emitter, operand: Operand, tag: str, value: Value) -> None:
    if tag in ("u16", "i16", "f16"):
        # Scalar f16 results fill the word's low half and clear the rest.
        value = Value(em.let(f"{value.name}.view(u16).astype(u32)"), value.undefined)
        tag = "u32"
    em.result(operand, tag, value)


def _operands(em: Emitter, inst: Instruction, operation: Operation) -> list[Value]:
    """Typed sources of a vector operation, the implicit ones included."""
    named = inst.sources
    values: list[Value] = []
    position = 0
    for tag in operation.sources:
        if tag == "vcc" or (tag == "mask" and position >= len(named)):
            values.append(em.mask(VCC_LO))
            continue
        values.append(em.source(named[position], tag, position))
        position += 1
    if operation.accumulates:
        kept, em.permute = em.permute, None
        destination = inst.results[0]
        values.append(em.source(destination, operation.results[0], len(values)))
        em.permute = kept
    return values


def _compute(em: Emitter, inst: Instruction, operation: Operation) -> list[Value]:
    values = _operands(em, inst, operation)
    function = operation.function
    clamp = inst.modifiers.get("clamp", 0)
    float_result = operation.results[0] in _CLAMP
    if clamp and not float_result and operation.results[0] != "mask":
        if operation.saturated is None:
            raise em.unsupported(f"{inst.mnemonic} with clamp is not supported")
        function = operation.saturated
    outcome = em.apply(operation, function, values)
    if float_result:
        outcome[0] = _output_modifiers(em, inst, operation.results[0], outcome[0])
    return outcome


def _output_modifiers(em: Emitter, inst: Instruction, tag: str, value: Value) -> Value:
    omod = inst.modifiers.get("omod", 0)
    mode = em.const(em.mode, "mode")
    name = value.name
    if omod:
        factor = em.const(np.full((1, 1), _OMOD[omod], _NUMPY[tag]), ("omod", tag, omod))
        name = em.let(f"{em.const(_MULTIPLY[tag])}({mode}, {name}, {factor})")
    if inst.modifiers.get("clamp", 0):
        name = em.let(f"{em.const(_CLAMP[tag])}({mode}, {name})")
    return Value(name, value.undefined)


def _store(em: Emitter, inst: Instruction, operation: Operation, outcome: list[Value]) -> None:
    results = inst.results
    if inst.mnemonic.startswith("v_cmpx"):
        for operand in results:  # gfx942 writes the named mask as well
            em.write_mask(operand.code, outcome[0])
        if not results and "vcc" in inst.implicit_writes:
            em.write_mask(VCC_LO, outcome[0])
        em.write_mask(EXEC_LO, outcome[0])
        return
    if len(results) != len(outcome):
        raise em.unsupported("the number of destinations is not what the operation has")
    for operand, tag, value in zip(results, operation.results, outcome, strict=True):
        em.result(operand, tag, value)


def vector(em: Emitter, inst: Instruction) -> None:
    """A vector ALU instruction, with DPP or SDWA if it has one of them."""
    operation = VECTOR[inst.mnemonic]
    if not inst.variant:
        _store(em, inst, operation, _compute(em, inst, operation))
        return
    with lane_select.applied(em, inst) as placed:
        outcome = _compute(em, inst, operation)
        if placed is not None and operation.results[0] != "mask":
            outcome[0] = placed(operation.results[0], outcome[0])
            em.write_vector32(em.vector_index(inst.results[0].code), outcome[0], em.write_mask_name)
        else:
            _store(em, inst, operation, outcome)


def dual(em: Emitter, inst: Instruction) -> None:
    """A dual-issue word: both halves read before either writes."""
    assert inst.second is not None
    pending = []
    for half in (inst, inst.second):
        em.instruction = half
        operation = VECTOR.get(dual_base(half))
        if operation is None:
            raise em.unsupported(f"{half.mnemonic} is not supported by the emulator")
        pending.append((half, operation, _compute(em, half, operation)))
    for half, operation, outcome in pending:
        em.instruction = half
        _store(em, half, operation, outcome)
    em.instruction = inst


def dual_base(inst: Instruction) -> str:
    """The single-issue mnemonic of a dual-issue half."""
    return "v_" + inst.mnemonic.removeprefix("v_dual_")


# --- packed -----------------------------------------------------------------------------------------------------------


def packed_word(em: Emitter, operand: Operand) -> Value:
    """A packed 16-bit source as uint32. Inline floats of f16 operands fill the low half only."""
    code = operand.code
    if code >= VGPR or code < 128 or operand.kind.startswith("lit"):
        return em.source(operand, "u32", 31)
    if code == 255:
        return em.bits(em.instruction.literal if em.instruction else 0)
    width = 16 if operand.constant in ("v2f16", "f16", "v2bf16") and code >= 240 else 32
    value = inline_constant(code, width, operand.constant)
    if value is None:
        raise em.unsupported(f"operand code {code} in a packed instruction")
    return em.bits(value)


def packed(em: Emitter, inst: Instruction) -> None:
    """A packed operation on the halves of words (or, on gfx942, on the words of pairs)."""
    operation = PACKED[inst.mnemonic]
    tag = operation.results[0]
    wide = tag in ("f32", "u32")
    sources = inst.sources
    # The 32-bit encoding of V_PK_FMAC_F16 selects nothing: low halves make the low result, high halves the high one.
    op_sel, op_sel_hi = (inst.get("op_sel"), inst.get("op_sel_hi")) if inst.format == "VOP3P" else (0, 3)
    negate = (inst.modifiers.get("neg_lo", 0), inst.modifiers.get("neg_hi", 0))
    halves: list[Value] = []
    function = operation.function
    if inst.modifiers.get("clamp", 0) and tag not in _CLAMP:
        if operation.saturated is None:
            raise em.unsupported(f"{inst.mnemonic} with clamp is not supported")
        function = operation.saturated
    for half in range(2):
        values = []
        for k, operand in enumerate(sources):
            high = bool((op_sel_hi if half else op_sel) >> k & 1)
            source_tag = operation.sources[k]
            value = _word_of_pair(em, operand, high) if wide else em.half(packed_word(em, operand), high)
            name = value.name
            bits = 32 if wide else 16
            if negate[half] >> k & 1:
                name = em.let(f"{name} ^ sign{bits}")
            if source_tag != f"u{bits}":
                name = em.let(f"{name}.view({source_tag})")
            values.append(Value(name, value.undefined))
        if inst.mnemonic == "v_pk_mov_b32":
            # The low result comes from src0, the high one from src1, each chosen by its op_sel bit.
            operand = sources[half]
            halves.append(_word_of_pair(em, operand, bool(op_sel >> half & 1)))
            continue
        if operation.accumulates:
            old = em.half(em.source(inst.results[0], "u32", 31), bool(half))
            values.append(Value(em.let(f"{old.name}.view({tag})"), old.undefined))
        outcome = em.apply(operation, function, values)[0]
        if tag in _CLAMP:
            outcome = _output_modifiers(em, inst, tag, outcome)
        bits_name = outcome.name if tag.startswith("u") else em.let(f"{outcome.name}.view(u{32 if wide else 16})")
        halves.append(Value(bits_name, outcome.undefined))
    code = inst.results[0].code
    if wide:
        em.write_vector32(em.vector_index(code), halves[0])
        em.write_vector32(em.vector_index(code + 1), halves[1])
        return
    name = em.let(f"{halves[0].name}.astype(u32) | {halves[1].name}.astype(u32) << k16")
    undefined = None
    if halves[0].undefined or halves[1].undefined:
        low = em.let(f"halves_undefined({halves[0].undefined}, None, False)")
        undefined = em.let(f"halves_undefined({halves[1].undefined}, {low}, True)")
    em.write_vector32(em.vector_index(code), Value(name, undefined))


def _word_of_pair(em: Emitter, operand: Operand, high: bool) -> Value:
    code = operand.code
    if code >= VGPR:
        return em.vector32(em.vector_index(code + high))
    if code < 128:
        return em.scalar32(code + high)
    if high:
        raise em.unsupported("the high word of an inline constant in a packed f32 instruction")
    value = inline_constant(code, 32, operand.constant)
    if value is None:
        raise em.unsupported(f"operand code {code} in a packed instruction")
    return em.bits(value)


def translate(em: Emitter, inst: Instruction) -> bool:
    """Translate an instruction of the operation tables; False if it is not in them."""
    if inst.second is not None:
        dual(em, inst)
        return True
    if inst.format in ("SOP1", "SOP2", "SOPC", "SOPK") and inst.mnemonic in SCALAR:
        scalar(em, inst)
        return True
    if inst.mnemonic in PACKED:
        packed(em, inst)
        return True
    if inst.mnemonic in VECTOR:
        vector(em, inst)
        return True
    return False
