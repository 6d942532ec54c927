"""Coordinates and byte distances: the `index` dialect (language reference, part 1, section 15), in 64 bits."""

from __future__ import annotations

from typing import Any, Final

from loom.ir import types as t
from loom_target_x86.select.context import Context
from loom_target_x86.select.integers import BINARY, UNARY, divide, extended, resized
from loom_target_x86.select.rules import selects
from loom_target_x86.select.values import Word, width_of

_U32_MAX: Final = (1 << 32) - 1

#: Operation -> the scalar operation that computes it on i64.
_AS_INTEGER: Final[dict[str, str]] = {
    "index.sub": "subi", "index.min": "minsi", "index.max": "maxsi",
    "index.andi": "andi", "index.ori": "ori", "index.xori": "xori",
    "index.shli": "shli", "index.shrsi": "shrsi", "index.shrui": "shrui", "index.rotli": "rotli",
    "index.rotri": "rotri",
}  # fmt: skip
_AS_UNARY: Final[dict[str, str]] = {"index.ctlzi": "ctlzi", "index.cttzi": "cttzi", "index.ctpopi": "ctpopi"}


def _bind(c: Context, op: Any, word: Word) -> None:
    c.bind(op.result, c.register(word, 64))


@selects("index.constant")
def _constant(c: Context, op: Any) -> None:
    """Known: whoever needs the register asks for it."""


@selects("index.add")
def _add(c: Context, op: Any) -> None:
    if not c.is_known(op.result):
        _bind(c, op, c.add(c.word(op.lhs), c.word(op.rhs)))


@selects("index.mul")
def _multiply(c: Context, op: Any) -> None:
    if not c.is_known(op.result):
        _bind(c, op, c.multiply(c.word(op.lhs), c.word(op.rhs)))


@selects("index.scale")
def _scale(c: Context, op: Any) -> None:
    if not c.is_known(op.result):
        _bind(c, op, c.multiply(c.word(op.input), c.word(op.stride)))


@selects("index.madd")
def _multiply_add(c: Context, op: Any) -> None:
    if not c.is_known(op.result):
        _bind(c, op, c.add(c.multiply(c.word(op.a), c.word(op.b)), c.word(op.c)))


@selects("index.div", "index.rem")
def _divide(c: Context, op: Any) -> None:
    if c.is_known(op.result):
        return
    # The dividend is not negative and the divisor positive, so the division is unsigned; a narrow one is faster.
    facts = [c.facts.integer(v, op) for v in (op.lhs, op.rhs)]
    width = 32 if all(f.within(0, _U32_MAX) for f in facts) else 64
    operands = []
    for value in (op.lhs, op.rhs):
        word = c.word(value)
        narrow = width == 32 and not isinstance(word, int)
        operands.append(c.in_class(word, "x86.gpr32") if narrow else word)  # type: ignore[arg-type]  # a register
    result = divide(c, width, operands[0], operands[1], signed=False)[op.name == "index.rem"]
    c.bind(op.result, c.op("movzx.gpr64.gpr32", result) if width == 32 else result)


@selects(*_AS_INTEGER)
def _binary(c: Context, op: Any) -> None:
    if not c.is_known(op.result):
        _bind(c, op, BINARY[_AS_INTEGER[op.name]](c, t.I64, c.word(op.lhs), c.word(op.rhs)))


@selects(*_AS_UNARY)
def _unary(c: Context, op: Any) -> None:
    if not c.is_known(op.result):
        _bind(c, op, UNARY[_AS_UNARY[op.name]](c, t.I64, c.value(op.input)))


@selects("index.cmp")
def _compare(c: Context, op: Any) -> None:
    if not c.is_known(op.result):
        c.bind(op.result, c.compare(op.predicate, c.word(op.lhs), c.word(op.rhs), 64))


@selects("index.cast")
def _cast(c: Context, op: Any) -> None:
    source, result = c.scalar_type(op, op.input.type), c.scalar_type(op, op.result.type)
    if c.is_known(op.result):
        return
    # To an offset the bits are extended with zeros, and so is a truth value to an index.
    signed = result is not t.OFFSET and source is not t.I1
    value = c.register(extended(c, c.value(op.input), source, signed), width_of(source))
    c.bind(op.result, resized(c, value, width_of(source), result, signed))
