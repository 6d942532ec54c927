"""Declarations of the ``global`` dialect (language reference, part 1, section 11)."""

from __future__ import annotations

from loom.ir.attributes import Predicate
from loom.ir.core import Op, Region, Value
from loom.ir.types import Type
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s


class _Global(Op):
    __slots__ = ()
    symbol: str = s.attribute(k.SYMBOL_NAME)
    type: Type = s.attribute(k.TYPE)
    predicates: tuple[Predicate, ...] = s.attribute(k.PREDICATES, default=(), required=False)
    value: object = s.optional_attribute(k.LITERAL)
    body: Region = s.region(None)


@s.op("global.constant", " $symbol : $<declared body type predicates>⟦ = $value⟧", traits=("symbol",), symbol="symbol")
class Constant(_Global):
    """A module-private constant."""


@s.op("global.variable", " $symbol : $<declared body type predicates>⟦ = $value⟧", traits=("symbol",), symbol="symbol")
class Variable(_Global):
    """Module-private state."""


@s.op("global.load", " $symbol : type($results)", traits=("unknown_effects",))
class Load(Op):
    """Reads a global."""

    symbol: str = s.attribute(k.SYMBOL)
    results: list[Value] = s.results(c.ANY)


@s.op("global.store", " $value, $symbol : type($value)", traits=("unknown_effects",))
class Store(Op):
    """Writes a global."""

    value: Value = s.operand(c.ANY)
    symbol: str = s.attribute(k.SYMBOL)
