"""Selection of the `index` dialect.  Arithmetic takes 32 bits where all values are known to fit, else 64."""

from __future__ import annotations

from typing import Final

from loom.ir import types as lt
from loom.ir.core import Op
from loom_target_spirv.module import Value
from loom_target_spirv.select import integers
from loom_target_spirv.select.context import Context
from loom_target_spirv.select.conversions import from_truth, resize, to_truth
from loom_target_spirv.select.rules import Rule
from loom_target_spirv.types import BOOL, U64, BoolType, IntType

_MODULAR: Final[dict[str, str]] = {
    "add": "addi",
    "sub": "subi",
    "mul": "muli",
    "scale": "muli",
    "madd": "fmai",
    "andi": "andi",
    "ori": "ori",
    "xori": "xori",
    "shli": "shli",
}
"""Operations whose low bits depend on the low bits of their operands alone."""

_WHOLE: Final[dict[str, str]] = {
    "div": "divui",
    "rem": "remui",
    "min": "minsi",
    "max": "maxsi",
    "shrsi": "shrsi",
    "shrui": "shrui",
    "rotli": "rotli",
    "rotri": "rotri",
    "ctlzi": "ctlzi",
    "cttzi": "cttzi",
    "ctpopi": "ctpopi",
}
"""Operations that need every bit of their operands."""

_NARROW: Final[dict[str, str]] = {
    "div": "divui",
    "rem": "remui",
    "min": "minui",
    "max": "maxui",
    "shrsi": "shrui",
    "shrui": "shrui",
    "ctpopi": "ctpopi",
}
"""What those become on operands of 32 bits, which are extended by zeros.  The others count to 64."""


def _constant(context: Context, op: Op) -> None:
    value = op.attribute("value")
    assert isinstance(value, int)
    context.bind(op.results[0], context.constant(IntType(context.width(op.results[0])), value))


def _modular(context: Context, op: Op) -> None:
    width = context.width(op.results[0])
    rule = integers.INTEGER_RULES[_MODULAR[op.name.partition(".")[2]]]
    operands = [context.address(operand, width) for operand in op.operands]
    context.bind(op.results[0], rule(context.integers, *operands))


def _shift_left(context: Context, op: Op) -> None:
    # An amount of 32 and more would be out of range in 32 bits, although a result that fits can only be 0 then.
    amount = context.facts.integer(op.operands[1])
    width = context.width(op.results[0]) if amount.within(0, 31) else 64
    operands = [context.address(operand, width) for operand in op.operands]
    context.bind(op.results[0], integers.INTEGER_RULES["shli"](context.integers, *operands))


def _whole(context: Context, op: Op) -> None:
    name = op.name.partition(".")[2]
    narrow = name in _NARROW and all(context.width(operand) == 32 for operand in op.operands)
    if name in ("shrsi", "shrui"):
        narrow = narrow and context.facts.integer(op.operands[1]).within(0, 31)
    width = 32 if narrow else 64
    rule = integers.INTEGER_RULES[_NARROW[name] if narrow else _WHOLE[name]]
    operands = [context.address(operand, width) for operand in op.operands]
    context.bind(op.results[0], rule(context.integers, *operands))


def compare_addresses(context: Context, predicate: str, op: Op) -> Value:
    """Compare the two operands of an operation, in 32 bits where both fit."""
    narrow = all(context.width(operand) == 32 for operand in op.operands)
    if narrow:
        predicate = integers.UNSIGNED.get(predicate, predicate)
    a, b = (context.address(operand, 32 if narrow else 64) for operand in op.operands)
    return integers.compare(context.integers, predicate, a, b)


def _compare(context: Context, op: Op) -> None:
    context.bind(op.results[0], compare_addresses(context, str(op.attribute("predicate")), op))


def _cast(context: Context, op: Op) -> None:
    source, result = op.operands[0], op.results[0]
    value = context.scalar(source)
    if source.type in lt.ADDRESSES:
        type_ = context.type_of(result, op)
        if isinstance(type_, BoolType):
            context.bind(result, to_truth(context, value))
        else:
            assert isinstance(type_, IntType)
            context.bind(result, resize(context, value, type_, signed=False))
        return
    if value.type == BOOL:
        context.bind(result, from_truth(context, value, U64, signed=False))
        return
    # The bits of an integer are extended by the sign for an index, by zeros for an offset.
    context.bind(result, resize(context, value, U64, signed=result.type is lt.INDEX))


INDEX_RULES: Final[dict[str, Rule]] = {
    "index.constant": _constant,
    "index.cast": _cast,
    "index.cmp": _compare,
    **{f"index.{name}": _modular for name in _MODULAR},
    **{f"index.{name}": _whole for name in _WHOLE},
    "index.shli": _shift_left,
}
"""Every operation of the dialect but `index.assume`, which is with the scalar one."""
