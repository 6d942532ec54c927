"""Declarations of the ``global`` dialect (language reference, part 1, section 11)."""

from __future__ import annotations

from loom.dialects.global_ import verify as v
from loom.ir.attributes import Predicate
from loom.ir.core import Op, Region, Value
from loom.ir.types import Type
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

_DECLARED = " $symbol : $<declared body type predicates fresh>⟦ = $value⟧"


class _Global(Op):
    """``body`` holds the names that the declaration introduces: extents and encodings, then that of the value."""

    __slots__ = ()
    symbol: str = s.attribute(k.SYMBOL_NAME)
    type: Type = s.attribute(k.TYPE)
    predicates: tuple[Predicate, ...] = s.attribute(k.PREDICATES, default=(), required=False)
    value: object = s.optional_attribute(k.LITERAL)
    body: Region = s.region(None)


@s.op("global.constant", _DECLARED, traits=("symbol",), symbol="symbol", verify=v.declaration)
class Constant(_Global):
    """A module-private constant."""


@s.op("global.variable", _DECLARED, traits=("symbol",), symbol="symbol", verify=v.declaration)
class Variable(_Global):
    """Module-private state."""


@s.op(
    "global.rodata.def",
    " $symbol =⟦ align($alignment)⟧⟦ conflicts($conflicts)⟧ $data",
    traits=("symbol",),
    symbol="symbol",
    verify=v.rodata,
)
class RodataDef(Op):
    """Constant bytes."""

    symbol: str = s.attribute(k.SYMBOL_NAME)
    alignment: int | None = s.optional_attribute(k.INT)
    conflicts: tuple[str, ...] | None = s.optional_attribute(k.SYMBOL_ARRAY)
    data: bytes = s.attribute(k.BYTES)


@s.op("global.rodata.decl", " $symbol", traits=("symbol", "declaration"), symbol="symbol")
class RodataDecl(Op):
    """Constant bytes that another module defines."""

    symbol: str = s.attribute(k.SYMBOL_NAME)


@s.op("global.load", " $symbol : $<loaded results>", traits=("unknown_effects",))
class Load(Op):
    """Reads a global: its value, then each extent and encoding that its type names."""

    symbol: str = s.attribute(k.SYMBOL)
    results: list[Value] = s.results(c.ANY)


@s.op("global.store", " $value, $symbol : type($value)", traits=("unknown_effects",))
class Store(Op):
    """Writes a global."""

    value: Value = s.operand(c.ANY)
    symbol: str = s.attribute(k.SYMBOL)
