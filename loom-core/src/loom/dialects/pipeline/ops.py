"""Declarations of the ``pipeline`` dialect: definitions and strands (language reference, part 2, section 14.6).

The older flow form is in :mod:`loom.dialects.pipeline.flow`.
"""

from __future__ import annotations

from typing import Final

from loom.dialects import words as w
from loom.dialects.pipeline import flow as flow  # registers
from loom.dialects.pipeline import verify as v
from loom.ir.attributes import Predicate
from loom.ir.core import Op, Region, Value
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

UNIT: Final = k.enum("pipeline unit", {"kernel": 1, "command": 2})
# The flow form writes ``launch``; both mean the arguments that a run supplies.
ENTRY: Final = k.enum("pipeline entry", ("run", "launch"))


@s.op(
    "pipeline.def",
    "⟦<$unit>⟧⟦ $visibility⟧⟦ $retain⟧⟦ target($target)⟧ $callee$<counted_args body specialization_count>"
    " $entry$<more_args body specialization_count>$<where body predicates> $<body body>",
    traits=("symbol", "isolated"),
    symbol="callee",
    verify=v.definition,
)
class Def(Op):
    """A spatial program: specialization arguments shape it, ``run`` arguments are what it works on.

    As ``kernel`` it becomes one loadable executable, as ``command`` (flow form only) one command program; without a
    unit its strands may be for different targets.
    """

    callee: str = s.attribute(k.SYMBOL_NAME)
    unit: str | None = s.optional_attribute(UNIT)
    visibility: str | None = s.optional_attribute(w.VISIBILITY)
    retain: str | None = s.optional_attribute(w.RETENTION)
    target: str | None = s.optional_attribute(k.SYMBOL)
    entry: str = s.attribute(ENTRY)
    specialization_count: int = s.attribute(k.INT, default=0, required=False)
    predicates: tuple[Predicate, ...] = s.attribute(k.PREDICATES, default=(), required=False)
    body: Region = s.region("pipeline.finish", implicit=True, others=("pipeline.return",))


@s.op("pipeline.finish", "", traits=("terminator", "return"))
class Finish(Op):
    """Ends the definition; the strands go on until each has ended."""


@s.op(
    "pipeline.strand",
    "⟦ target($target)⟧ workers($<indices origins>, $<indices counts>, $<indices strides>) $body",
    traits=("unknown_effects",),
    verify=v.strand,
)
class Strand(Op):
    """Work that each selected worker does once, whatever the other strands do meanwhile.

    Along an axis worker ``k`` of ``counts`` has the coordinate ``origin + k * stride``. The body may use values from
    around it; several strands may share a worker.
    """

    target: str | None = s.optional_attribute(k.SYMBOL)
    origins: list[Value] = s.operands(c.INDEX_OR_INTEGER)
    counts: list[Value] = s.operands(c.INDEX_OR_INTEGER)
    strides: list[Value] = s.operands(c.INDEX_OR_INTEGER)
    static_origins: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    static_counts: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    static_strides: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    body: Region = s.region("pipeline.end", implicit=True)


@s.op("pipeline.end", "", traits=("terminator",))
class End(Op):
    """Ends a strand."""


@s.op(
    "pipeline.compose",
    " $callee⟦[$specializations]⟧($args) : ⟦[type($specializations)]⟧(type($args))",
    traits=("unknown_effects",),
    verify=v.compose,
)
class Compose(Op):
    """Makes an instance of another pipeline inside this invocation, with storage of its own; it does not wait."""

    callee: str = s.attribute(k.SYMBOL)
    specializations: list[Value] = s.operands(c.ANY)
    args: list[Value] = s.operands(c.ANY)


@s.op(
    "pipeline.memory",
    "<$space>$<indices coordinates> : type($result)",
    traits=("pure",),
    verify=v.memory,
)
class Memory(Op):
    """The memory of the worker at some coordinates, borrowed; selecting it again gives the same pool."""

    space: str = s.attribute(w.MEMORY_SPACE)
    coordinates: list[Value] = s.operands(c.INDEX_OR_INTEGER)
    static_coordinates: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    result: Value = s.result(c.POOL)
