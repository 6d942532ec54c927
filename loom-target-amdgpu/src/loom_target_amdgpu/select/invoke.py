"""Selection of ``low.invoke``: source values become the registers that the helper's signature names."""

from __future__ import annotations

import math
from typing import Any, Final

from loom.dialects.low import ops as low
from loom.ir.core import Op, Value
from loom.ir.diagnostics import fail
from loom.ir.types import ADDRESSES, FLOATS, I1, INTEGERS, RegType, ScalarType, ShapedType
from loom.low.invoke import require_invocable
from loom.plugins.manager import find_target
from loom_target_amdgpu.profiles import processors
from loom_target_amdgpu.select.linear import ZERO
from loom_target_amdgpu.select.packing import as_packed
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import S2, SGPR, Linear, Mask, Number, Packed, Root, Vector, View
from loom_target_amdgpu.select.vector_lanes import shape


def _invoke(s: Selector, op: Any) -> None:
    own = s.processor
    contracts = [own.contract, *([processors()[own.generic].contract] if own.generic else ())]
    helper = require_invocable(op, s.symbols, s.facts, find_target(f"amdgpu:{own.name}"), contracts)
    registers = [
        _argument(s, op, value, parameter.type)
        for value, parameter in zip(op.args, helper.body.entry.args, strict=True)
    ]
    types = [spec.type for spec in helper.result_specs]
    call = low.Call(registers, [None, None, op.callee, None], types, segments=(len(registers),))
    s.emit.builder.add(call)
    for result, value in zip(op.results, call.results, strict=True):
        s.emit.define(value)
        if value.name is None:
            value.name = result.name
        s.set(result, _result(s, op, result, value))


def _argument(s: Selector, op: Op, value: Value, type_: object) -> Value:
    """The registers of a source value in the class and size that the signature wants."""
    assert isinstance(type_, RegType)
    registers = _registers(s, op, value, type_)
    if registers.type == type_:
        return registers
    found = registers.type
    assert isinstance(found, RegType)
    if found.count == type_.count:
        if type_.reg_class != SGPR:
            return s.emit.to_vector(registers)
        if s.facts.is_uniform(value):
            return s.emit.to_scalar(registers)
    raise fail(
        "TARGET/002",
        f"a value of type {value.type} arrives in {found}, the helper wants {type_}",
        op.loc,
        emitter="source-to-low",
        op_name=op.name,
        field_name="args",
        actual_type=str(found),
        expected_type=str(type_),
        target_name=s.processor.name,
    )


def _registers(s: Selector, op: Op, value: Value, type_: RegType) -> Value:
    selected = s.get(value)
    if value.type is I1:
        return s.arith.mask(s.condition(value))
    if isinstance(selected, Number):
        words = selected.words
        if value.type in ADDRESSES and len(words) < type_.count == 2:
            words = s.extend(selected)
        return s.emit.tuple_of(words, None if not all(isinstance(w, int) for w in words) else type_.reg_class == SGPR)
    if isinstance(selected, Root | View):
        root = selected if isinstance(selected, Root) else selected.root
        offset = selected.start if isinstance(selected, Root) else selected.offset
        return _pointer(s, root, offset, type_)
    bits = _element_bits(value)
    if bits and isinstance(selected, Packed | Vector):
        return as_packed(s, selected, bits).registers
    raise fail(
        "TARGET/033",
        f"a value of type {value.type} has no registers on {s.processor.name}",
        op.loc,
        emitter="source-to-low",
        op_name=op.name,
        field_name="args",
        actual_type=str(value.type),
    )


def _pointer(s: Selector, root: Root, offset: Linear, type_: RegType) -> Value:
    """A global address as a pair, a workgroup or private one as a byte offset."""
    from loom_target_amdgpu.select.addressing import pair_sum, word_sum

    if root.space == "global":
        assert root.base is not None
        if offset == ZERO:
            return root.base
        lo, hi = s.emit.words(root.base)
        return s.emit.tuple_of(s.arith.add64((lo, hi), pair_sum(s, offset)))
    position = word_sum(s, Linear(offset.constant + root.offset, offset.terms))
    return s.emit.register(position, type_.reg_class == SGPR) if isinstance(position, int) else position


def _element_bits(value: Value) -> int:
    """Bits of an element of a vector that has registers of its own: its elements lie end to end. Otherwise zero."""
    element = value.type.element if isinstance(value.type, ShapedType) else None
    return element.width if element is not I1 and (element in INTEGERS or element in FLOATS) else 0


def _result(s: Selector, op: Op, result: Value, register: Value) -> Number | Mask | Packed:
    type_ = result.type
    if type_ is I1 and register.type == S2:
        return Mask(register)
    words = s.emit.words(register)
    if type_ in ADDRESSES:
        return s.address(result, words)
    if type_ in INTEGERS or type_ in FLOATS:
        assert isinstance(type_, ScalarType)
        if len(words) == (2 if type_.width == 64 else 1):
            return Number(words)
    bits = _element_bits(result)
    count = math.prod(shape(result)) if bits else 0
    if bits and len(words) == -(-count * bits // 32):
        return Packed(s.emit.to_vector(register), bits, count)
    raise fail(
        "TARGET/002",
        f"a result in {register.type} cannot be a value of type {type_}",
        op.loc,
        emitter="source-to-low",
        op_name=op.name,
        field_name="results",
        actual_type=str(register.type),
        expected_type=str(type_),
        target_name=s.processor.name,
    )


RULES: Final[dict[str, Rule]] = {"low.invoke": _invoke}
