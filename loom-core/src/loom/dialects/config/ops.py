"""Declarations of the ``config`` dialect (language reference, part 1, section 10)."""

from __future__ import annotations

from loom.dialects.config import verify as v
from loom.ir.attributes import Predicate
from loom.ir.core import Op, Region, Value
from loom.ir.types import Type
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s


@s.op(
    "config.decl",
    " $key : $<declared body type predicates>",
    traits=("symbol", "declaration"),
    symbol="key",
    verify=v.declared,
)
class Decl(Op):
    """A compile-time choice that a definition elsewhere binds."""

    key: str = s.attribute(k.SYMBOL_NAME)
    type: Type = s.attribute(k.TYPE)
    predicates: tuple[Predicate, ...] = s.attribute(k.PREDICATES, default=(), required=False)
    body: Region = s.region(None)


@s.op("config.def", " $key = $value : $type", traits=("symbol",), symbol="key", verify=v.defined)
class Def(Op):
    """The value of a compile-time choice."""

    key: str = s.attribute(k.SYMBOL_NAME)
    value: object = s.attribute(k.ANY)
    type: Type = s.attribute(k.TYPE)


@s.op("config.get", " $key : type($result)", traits=("pure",))
class Get(Op):
    """The value of a compile-time choice in code."""

    key: str = s.attribute(k.SYMBOL)
    result: Value = s.result(c.ANY)
