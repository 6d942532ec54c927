"""Declarations of the ``func`` dialect (language reference, part 1, section 8)."""

from __future__ import annotations

from typing import Final

from loom.dialects import words as w
from loom.dialects.func import verify as v
from loom.dialects.func.locations import location_tree
from loom.ir.attributes import Encoding, Predicate, ResultSpec
from loom.ir.core import Op, Region, Value
from loom.ir.types import BUFFER
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

TARGET: Final = "⟦ target($target)⟧"
ABI: Final = "⟦ abi($abi⟦, $abi_attrs⟧)⟧⟦ export($export_symbol⟦, $export_attrs⟧)⟧"
SIGNATURE: Final = "$<args body>$<results result_specs body>"


class FunctionLike(Op):
    """A symbol with a signature. Declarations have a region that only holds the arguments."""

    __slots__ = ()
    callee: str
    visibility: str | None
    retain: str | None
    target: str | None
    result_specs: tuple[ResultSpec, ...]
    predicates: tuple[Predicate, ...]
    body: Region


class _Contract(FunctionLike):
    __slots__ = ()
    callee: str = s.attribute(k.SYMBOL_NAME)
    visibility: str | None = s.optional_attribute(w.VISIBILITY)
    retain: str | None = s.optional_attribute(w.RETENTION)
    cc: str | None = s.optional_attribute(w.CALLING_CONVENTION)
    purity: str | None = s.optional_attribute(w.PURITY)
    temperature: str | None = s.optional_attribute(w.TEMPERATURE)
    inline_policy: str | None = s.optional_attribute(w.INLINE_POLICY)
    target: str | None = s.optional_attribute(k.SYMBOL)
    abi: str | None = s.optional_attribute(w.ABI)
    abi_attrs: dict[str, object] | None = s.optional_attribute(k.DICT)
    export_symbol: str | None = s.optional_attribute(k.STRING)
    export_attrs: dict[str, object] | None = s.optional_attribute(k.DICT)
    result_specs: tuple[ResultSpec, ...] = s.attribute(k.RESULTS, default=(), required=False)
    predicates: tuple[Predicate, ...] = s.attribute(k.PREDICATES, default=(), required=False)


@s.op(
    "func.def",
    "⟦ $visibility⟧⟦ $retain⟧⟦ $cc⟧⟦ $purity⟧⟦ $temperature⟧⟦ $inline_policy⟧"
    + TARGET
    + ABI
    + " $callee$<args body>⟦$<results result_specs body>⟧$<where body predicates result_specs> $<body body>",
    traits=("symbol", "isolated", "function"),
    symbol="callee",
    verify=v.function,
)
class Def(_Contract):
    """A function: symbol, signature and body."""

    body: Region = s.region("func.return", single_block=False)


@s.op(
    "func.decl",
    "⟦ $visibility⟧⟦ $retain⟧⟦ import($import_module⟦, $import_symbol⟧)⟧"
    + "⟦ $cc⟧⟦ $purity⟧⟦ $temperature⟧⟦ $inline_policy⟧"
    + TARGET
    + ABI
    + " $callee$<args body>⟦$<results result_specs body>⟧$<where body predicates result_specs>",
    traits=("symbol", "isolated", "function", "declaration"),
    symbol="callee",
    verify=v.function,
)
class Decl(_Contract):
    """The contract of a function defined elsewhere."""

    import_module: str | None = s.optional_attribute(k.STRING)
    import_symbol: str | None = s.optional_attribute(k.STRING)
    body: Region = s.region(None, single_block=False)


@s.op(
    "func.call",
    "⟦ $purity⟧⟦ $temperature⟧⟦ $inline_policy⟧ $callee($args) : (type($args))⟦$<call_results args results ties>⟧",
    traits=("unknown_effects", "call"),
    verify=v.call,
)
class Call(Op):
    """Calls one exact function."""

    purity: str | None = s.optional_attribute(w.PURITY)
    temperature: str | None = s.optional_attribute(w.TEMPERATURE)
    inline_policy: str | None = s.optional_attribute(w.INLINE_POLICY)
    callee: str = s.attribute(k.SYMBOL)
    ties: tuple[int, ...] | None = s.optional_attribute(k.INT_ARRAY)
    args: list[Value] = s.operands(c.ANY)
    results: list[Value] = s.results(c.ANY)


@s.op("func.return", "⟦ $values : type($values)⟧", traits=("terminator", "return", "poison_boundary"), verify=v.returns)
class Return(Op):
    """Ends the function with its results."""

    values: list[Value] = s.operands(c.ANY)


@s.op("func.location", " $nodes : type($result)", traits=("pure",), verify=location_tree)
class Location(Op):
    """A tree of source locations as constant data: the UTF-8 text of its nodes as they print."""

    nodes: tuple[Encoding, ...] = s.attribute(k.CONDITIONS)
    result: Value = s.result(c.BUFFER, fixed=BUFFER)
