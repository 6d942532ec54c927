"""Conversions between integers and floats (language reference, part 1, section 14.8)."""

from __future__ import annotations

from typing import Any

from loom.ir import types as t
from loom.ir.core import Value
from loom.ir.types import ScalarType
from loom_target_x86.select.context import Context
from loom_target_x86.select.floats import number
from loom_target_x86.select.integers import extended, resized
from loom_target_x86.select.rules import selects
from loom_target_x86.select.values import float_suffix, is_float, width_of


def _v(c: Context) -> str:
    return "v" if c.vex else ""


def _from_register(c: Context, value: Value, width: int, type_: ScalarType) -> Value:
    """A signed integer of 32 or 64 bits, rounded to nearest even."""
    return c.op(f"{_v(c)}cvtsi2{float_suffix(type_)}.xmm.gpr{width}", value)


def _to_register(c: Context, value: Value, type_: ScalarType, width: int) -> Value:
    """Toward zero; out of range gives the smallest integer."""
    return c.op(f"{_v(c)}cvtt{float_suffix(type_)}2si.gpr{width}.xmm", value)


@selects("scalar.sitofp")
def _signed_to_float(c: Context, op: Any) -> None:
    source, result = c.scalar_type(op, op.input.type), c.scalar_type(op, op.result.type)
    width = width_of(source)
    value = c.register(extended(c, c.value(op.input), source, signed=True), width)
    c.bind(op.result, _from_register(c, value, width, result))


@selects("scalar.uitofp")
def _unsigned_to_float(c: Context, op: Any) -> None:
    source, result = c.scalar_type(op, op.input.type), c.scalar_type(op, op.result.type)
    value = c.value(op.input)
    if source.width < 32:
        c.bind(op.result, _from_register(c, c.zero_extended(value, source), 32, result))
    elif source.width == 32:
        c.bind(op.result, _from_register(c, c.op("movzx.gpr64.gpr32", value), 64, result))
    else:
        # Numbers from 2^63 on are converted at half their size, the bit that leaves kept as the last one (which
        # is enough to round right), and doubled.
        large = c.compare("slt", value, 0, 64)
        half = c.arith("or", 64, c.shift("shr", value, 1, 64), c.arith("and", 64, value, 1))
        scaled = _from_register(c, c.choose(large, half, value, t.I64), 64, result)
        doubled = c.fp("add" + float_suffix(result), scaled, scaled)
        c.bind(op.result, c.choose(large, doubled, scaled, result))


@selects("scalar.fptosi")
def _float_to_signed(c: Context, op: Any) -> None:
    source, result = c.scalar_type(op, op.input.type), c.scalar_type(op, op.result.type)
    if not c.is_known(op.result):
        width = width_of(result)
        c.bind(op.result, resized(c, _to_register(c, c.value(op.input), source, width), width, result, True))


@selects("scalar.fptoui")
def _float_to_unsigned(c: Context, op: Any) -> None:
    source, result = c.scalar_type(op, op.input.type), c.scalar_type(op, op.result.type)
    if c.is_known(op.result):
        return
    value = c.value(op.input)
    if result.width < 32:
        c.bind(op.result, resized(c, _to_register(c, value, source, 32), 32, result, False))
    elif result.width == 32:
        c.bind(op.result, c.in_class(_to_register(c, value, source, 64), "x86.gpr32"))
    else:
        # From 2^63 on the first conversion gives just the top bit, and the second one the others.
        low = _to_register(c, value, source, 64)
        rest = c.fp("sub" + float_suffix(source), value, number(c, source, 2.0**63))
        high = _to_register(c, rest, source, 64)
        c.bind(op.result, c.arith("or", 64, low, c.arith("and", 64, high, c.shift("sar", low, 63, 64))))


@selects("scalar.extf")
def _widen(c: Context, op: Any) -> None:
    c.scalar_type(op, op.input.type)
    c.scalar_type(op, op.result.type)
    c.bind(op.result, c.fp("cvtss2sd", c.value(op.input)))


@selects("scalar.fptrunc")
def _narrow(c: Context, op: Any) -> None:
    c.scalar_type(op, op.input.type)
    c.scalar_type(op, op.result.type)
    c.bind(op.result, c.fp("cvtsd2ss", c.value(op.input)))


@selects("scalar.extsi", "scalar.extui", "scalar.trunci")
def _resize(c: Context, op: Any) -> None:
    source, result = c.scalar_type(op, op.input.type), c.scalar_type(op, op.result.type)
    if c.is_known(op.result):
        return
    signed = op.name == "scalar.extsi"
    value = c.value(op.input)
    if op.name != "scalar.trunci":
        value = c.register(extended(c, value, source, signed), width_of(source))
    c.bind(op.result, resized(c, value, width_of(source), result, signed))


@selects("scalar.bitcast")
def _bitcast(c: Context, op: Any) -> None:
    source, result = c.scalar_type(op, op.input.type), c.scalar_type(op, op.result.type)
    if c.is_known(op.result):
        return
    value = c.value(op.input)
    if is_float(source) != is_float(result):
        letter, width = ("q", 64) if source.width == 64 else ("d", 32)
        classes = f"xmm.gpr{width}" if is_float(result) else f"gpr{width}.xmm"
        value = c.op(f"{_v(c)}mov{letter}.{classes}", value)
    c.bind(op.result, value)
