"""Selection of ``low.invoke``: source values become the registers that the helper's signature names."""

from __future__ import annotations

from typing import Any, Final

from loom.dialects.low import ops as low
from loom.facts import integers
from loom.ir.attributes import Predicate, Ref
from loom.ir.core import Op, Value
from loom.ir.diagnostics import fail
from loom.ir.types import ADDRESSES, FLOATS, I1, INTEGERS, RegType, ScalarType
from loom_target_amdgpu.profiles import processors
from loom_target_amdgpu.select.linear import ZERO
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import S2, SGPR, Linear, Mask, Number, Root, View


def _invoke(s: Selector, op: Any) -> None:
    helper = s.symbols.get(op.callee)
    if not isinstance(helper, low.FuncDef):
        raise fail(
            "TARGET/022",
            f"'@{op.callee}' is no Low function that can be inlined here",
            op.loc,
            emitter="source-to-low",
            function_name=op.callee,
            target_name=s.processor.name,
            constraint_key="invoke.definition",
        )
    _check_contract(s, op, helper)
    if "noinline" in (op.inline_policy, helper.inline_policy):
        raise fail(
            "LOWERING/044",
            f"'@{op.callee}' must be inlined on this target, but is marked noinline",
            op.loc,
            emitter="source-to-low",
            op_name=op.name,
            phase_name="source-to-low",
            callee_name=op.callee,
            failure_code="policy_conflict",
        )
    for predicate in helper.predicates:
        _check_precondition(s, op, predicate)
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


def _check_contract(s: Selector, op: Any, helper: low.FuncDef) -> None:
    own = s.processor
    accepted = {own.contract}
    if own.generic:
        accepted.add(processors()[own.generic].contract)
    if helper.contract not in accepted:
        raise fail(
            "TARGET/040",
            f"'@{op.callee}' is written for {helper.contract}, which {own.name} does not satisfy",
            op.loc,
            emitter="source-to-low",
            op_name=op.name,
            field_name="callee",
            callee_target_name=helper.contract,
            caller_target_name=own.contract,
        )


def _check_precondition(s: Selector, op: Any, predicate: Predicate) -> None:
    held = _holds(s, op, predicate)
    if held:
        return
    code = "precondition_contradicted" if held is False else "precondition_unproven"
    words = "is contradicted by" if held is False else "does not follow from"
    raise fail(
        "LOWERING/044",
        f"the precondition '{predicate.name}' of '@{op.callee}' {words} what is known at the call",
        op.loc,
        emitter="source-to-low",
        op_name=op.name,
        phase_name="source-to-low",
        callee_name=op.callee,
        failure_code=code,
    )


def _holds(s: Selector, op: Any, predicate: Predicate) -> bool | None:
    sides = []
    for argument in predicate.args:
        if not isinstance(argument, Ref):
            sides.append(integers.exactly(argument))
            continue
        if argument.index >= len(op.args):
            return None
        value = op.args[argument.index]
        if value.type not in INTEGERS and value.type not in ADDRESSES:
            return None
        sides.append(s.facts.integer(value, op))
    if predicate.name in integers.COMPARISONS:
        return integers.decide(integers.COMPARISONS[predicate.name], sides[0], sides[1])
    subject = sides[0]
    if predicate.name == "range":
        low_end, high_end = sides[1].exact, sides[2].exact
        if low_end is None or high_end is None:
            return None
        if subject.within(low_end, high_end):
            return True
        return False if subject.hi < low_end or subject.lo > high_end else None
    if predicate.name == "multiple_of":
        divisor = sides[1].exact
        if divisor is None or divisor <= 0:
            return None
        if subject.divisor % divisor == 0 or subject.exact == 0:
            return True
        return False if subject.exact is not None else None
    if predicate.name == "power_of_two" and subject.exact is not None:
        return subject.exact > 0 and subject.exact & (subject.exact - 1) == 0
    return None


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
        offset = ZERO if isinstance(selected, Root) else selected.offset
        return _pointer(s, root, offset, type_)
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


def _result(s: Selector, op: Op, result: Value, register: Value) -> Number | Mask:
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
