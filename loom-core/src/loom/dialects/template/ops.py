"""Declarations of the ``template`` dialect (language reference, part 1, section 9)."""

from __future__ import annotations

from loom.dialects import words as w
from loom.dialects.func import verify as fv
from loom.dialects.func.ops import TARGET, FunctionLike
from loom.dialects.template import verify as v
from loom.ir.attributes import Encoding, Predicate, ResultSpec
from loom.ir.core import Op, Region, Value
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

_HEAD = "⟦ $visibility⟧⟦ $retain⟧⟦ $cc⟧⟦ $purity⟧⟦ $temperature⟧" + TARGET + "⟦ requires $requires⟧"
_TAIL = " $callee$<args body>⟦$<results result_specs body>⟧$<where body predicates result_specs>"


class _Family(FunctionLike):
    __slots__ = ()
    callee: str = s.attribute(k.SYMBOL_NAME)
    visibility: str | None = s.optional_attribute(w.VISIBILITY)
    retain: str | None = s.optional_attribute(w.RETENTION)
    cc: str | None = s.optional_attribute(w.CALLING_CONVENTION)
    purity: str | None = s.optional_attribute(w.PURITY)
    temperature: str | None = s.optional_attribute(w.TEMPERATURE)
    target: str | None = s.optional_attribute(k.SYMBOL)
    requires: tuple[Encoding, ...] = s.attribute(k.CONDITIONS, default=(), required=False)
    result_specs: tuple[ResultSpec, ...] = s.attribute(k.RESULTS, default=(), required=False)
    predicates: tuple[Predicate, ...] = s.attribute(k.PREDICATES, default=(), required=False)


@s.op(
    "template.decl",
    _HEAD + _TAIL,
    traits=("symbol", "isolated", "function", "declaration"),
    symbol="callee",
    verify=v.family,
)
class Decl(_Family):
    """A family: the compile-time contract that providers implement and applications ask for."""

    body: Region = s.region(None, single_block=False)


@s.op(
    "template.def",
    "<$family>" + _HEAD + "⟦ priority($priority)⟧" + _TAIL + " $<body body>",
    traits=("symbol", "isolated", "function"),
    symbol="callee",
    verify=v.family,
)
class Def(_Family):
    """A provider: one selectable implementation of a family."""

    family: str = s.attribute(k.SYMBOL)
    priority: int | None = s.optional_attribute(k.INT)
    body: Region = s.region("template.return", single_block=False)


@s.op(
    "template.ukernel",
    "<$family>" + _HEAD + "⟦ priority($priority)⟧" + _TAIL,
    traits=("symbol", "isolated", "function", "declaration"),
    symbol="callee",
    verify=v.family,
)
class UKernel(_Family):
    """A provider that is supplied outside the program."""

    family: str = s.attribute(k.SYMBOL)
    priority: int | None = s.optional_attribute(k.INT)
    body: Region = s.region(None, single_block=False)


@s.op(
    "template.apply",
    "<$family>($args)⟦ $purity⟧⟦ $temperature⟧ : (type($args))⟦$<call_results args results ties>⟧",
    traits=("unknown_effects", "call", "contextual"),
)
class Apply(Op):
    """Asks for some provider of a family; selection makes it an exact call."""

    family: str = s.attribute(k.SYMBOL)
    purity: str | None = s.optional_attribute(w.PURITY)
    temperature: str | None = s.optional_attribute(w.TEMPERATURE)
    ties: tuple[int, ...] | None = s.optional_attribute(k.INT_ARRAY)
    args: list[Value] = s.operands(c.ANY)
    results: list[Value] = s.results(c.ANY)


@s.op(
    "template.call",
    "⟦ $purity⟧⟦ $temperature⟧ $callee($args) : (type($args))⟦$<call_results args results ties>⟧",
    traits=("unknown_effects", "call"),
)
class Call(Op):
    """Calls one named provider without ranking."""

    purity: str | None = s.optional_attribute(w.PURITY)
    temperature: str | None = s.optional_attribute(w.TEMPERATURE)
    callee: str = s.attribute(k.SYMBOL)
    ties: tuple[int, ...] | None = s.optional_attribute(k.INT_ARRAY)
    args: list[Value] = s.operands(c.ANY)
    results: list[Value] = s.results(c.ANY)


@s.op(
    "template.return",
    "⟦ $values : type($values)⟧",
    traits=("terminator", "return", "poison_boundary"),
    verify=fv.returns,
)
class Return(Op):
    """Ends a provider with its results."""

    values: list[Value] = s.operands(c.ANY)
