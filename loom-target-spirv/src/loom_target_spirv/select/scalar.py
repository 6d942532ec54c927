"""Selection of the `scalar` dialect, and of the lanewise operations of `vector` that share its names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loom.ir import types as lt
from loom.ir.core import Op
from loom.ir.core import Value as SourceValue
from loom_target_spirv.module import Value
from loom_target_spirv.select import integers
from loom_target_spirv.select.context import Context
from loom_target_spirv.select.conversions import CONVERSION_RULES
from loom_target_spirv.select.floats import FLOAT_RULES
from loom_target_spirv.select.math_functions import MATH_RULES
from loom_target_spirv.select.rules import Rule
from loom_target_spirv.select.values import Vector
from loom_target_spirv.types import BOOL, BoolType, FloatType, IntType


def lane_result(context: Context, op: Op, name: str, operands: Sequence[Value]) -> Value | None:
    """One lane of the operation `name`, or None when there is no rule for it on these operands."""
    if name in CONVERSION_RULES:
        type_ = context.scalar_type(lt.element_type(op.results[0].type), op)
        return CONVERSION_RULES[name](context, op, operands[0], type_)
    if name == "cmpi":
        return integers.compare(context.integers, str(op.attribute("predicate")), operands[0], operands[1])
    if operands and isinstance(operands[0].type, FloatType):
        rule = FLOAT_RULES.get(name) or MATH_RULES.get(name)
        return None if rule is None else rule(context, op, operands)
    table = integers.TRUTH_RULES if operands and operands[0].type == BOOL else integers.INTEGER_RULES
    return table[name](context.integers, *operands) if name in table else None


def has_lane_rule(name: str) -> bool:
    """Whether `name` names a lanewise operation."""
    return name == "cmpi" or any(
        name in table for table in (CONVERSION_RULES, FLOAT_RULES, MATH_RULES, integers.INTEGER_RULES)
    )


def lanewise(context: Context, op: Op) -> None:
    """An operation that acts on each lane alone; a scalar is one lane."""
    name = op.name.partition(".")[2]
    for value in (*op.operands, *op.results):
        context.scalar_type(lt.element_type(value.type), op)
    columns = [context.lanes(operand) for operand in op.operands]
    lanes = []
    for operands in zip(*columns, strict=True):
        lane = lane_result(context, op, name, operands)
        if lane is None:
            raise context.refuse(op, "TARGET/001", f"'{op.name}' has no SPIR-V form here")
        lanes.append(lane)
    result = op.results[0]
    context.bind(result, Vector(tuple(lanes)) if lt.is_vector(result.type) else lanes[0])


def constant_lane(context: Context, op: Op, type_: BoolType | IntType | FloatType) -> Value:
    """The value of a constant in a type."""
    value = op.attribute("value")
    assert isinstance(value, int | float)
    if isinstance(type_, FloatType):
        return context.float_constant(type_, float(value))
    return context.constant(type_, value)


def _constant(context: Context, op: Op) -> None:
    context.bind(op.results[0], constant_lane(context, op, context.type_of(op.results[0], op)))


def _assume(context: Context, op: Op) -> None:
    """Facts emit nothing."""
    for source, result in zip(op.group(0), op.results, strict=True):
        context.bind(result, context.value(source))


def poison(context: Context, op: Op) -> None:
    """An unused poison vanishes; one that something uses is a fault of the program."""
    if any(result.is_used for result in op.results):
        raise context.refuse(
            op, "TYPE/012", f"'{op.name}' reaches SPIR-V: its value is used", value_name=_name(op.results[0])
        )


def _name(value: SourceValue) -> str:
    return value.name or "?"


SCALAR_RULES: Final[dict[str, Rule]] = {
    "scalar.constant": _constant,
    "scalar.assume": _assume,
    "scalar.poison": poison,
    "index.assume": _assume,
}
"""The operations of `scalar` that are no lanewise arithmetic."""
