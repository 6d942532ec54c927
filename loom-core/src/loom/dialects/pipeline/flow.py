"""Declarations of the flow form of pipelines, with and without placement, which strands have superseded.

Language reference, part 2, section 14.4, and part 1, section 19.
"""

from __future__ import annotations

from typing import Final

from loom.dialects import words as w
from loom.dialects.pipeline import verify_flow as v
from loom.ir.core import Op, Region, Value
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

MAPPING: Final = k.enum("placement mapping", {"cyclic": 1})
FLOW: Final = c.nested("pipeline.flow")
PLACEMENT: Final = c.nested("pipeline.placement")


@s.op(
    "pipeline.scatter",
    " $source across $members : type($source), type($members) -> type($result)",
    traits=("pure",),
    verify=v.scatter,
)
class Scatter(Op):
    """A flow of a view: the leading axis goes across the lanes, middle axes are time, trailing axes the tile."""

    source: Value = s.operand(c.VIEW)
    members: Value = s.operand(c.GROUP)
    result: Value = s.result(FLOW)


@s.op(
    "pipeline.read",
    " $source on $members : type($source), type($members) -> type($result)",
    traits=("pure",),
    verify=v.read,
)
class Read(Op):
    """A flow of a view in which every lane sees the same records."""

    source: Value = s.operand(c.VIEW)
    members: Value = s.operand(c.GROUP)
    result: Value = s.result(FLOW)


@s.op(
    "pipeline.stage",
    " $callee on $members($inputs) : (type($members)⟦, type($inputs)⟧) -> (type($results))",
    traits=("unknown_effects",),
    verify=v.stage,
)
class Stage(Op):
    """Calls a function once per lane and record; it takes one record of each input and returns one of each result."""

    callee: str = s.attribute(k.SYMBOL)
    members: Value = s.operand(c.GROUP)
    inputs: list[Value] = s.operands(FLOW)
    results: list[Value] = s.results(FLOW)


@s.op(
    "pipeline.buffer",
    " $source capacity $capacity : (type($source), type($capacity)) -> type($result)",
    traits=("unique_identity",),
    same_type=(("source", "result"),),
    verify=v.buffer,
)
class Buffer(Op):
    """A copy of a flow with room for so many records of its own."""

    source: Value = s.operand(FLOW)
    capacity: Value = s.operand(c.INDEX)
    result: Value = s.result(FLOW)


@s.op("pipeline.fold", "<$kind⟦, $flags⟧> $source : type($source)", traits=("unknown_effects",), verify=v.fold)
class Fold(Op):
    """Combines the records of the innermost time axis into one, element by element and in order."""

    kind: str = s.attribute(w.COMBINING)
    flags: tuple[str, ...] | None = s.optional_attribute(w.FASTMATH)
    source: Value = s.operand(FLOW)
    result: Value = s.result(FLOW, same_type_as="source")


@s.op(
    "pipeline.reduce",
    " $callee from $source_group($sources) to $target_group($targets)"
    " : (type($source_group)⟦, type($sources)⟧) to (type($target_group)⟦, type($targets)⟧) -> (type($results))",
    traits=("unknown_effects",),
    verify=v.reduce,
)
class Reduce(Op):
    """Gathers the records of all lanes of a group into one call for each lane of another.

    How the gathered records reach the function is not stated, so the reference evaluator refuses the operation.
    """

    callee: str = s.attribute(k.SYMBOL)
    source_group: Value = s.operand(c.GROUP)
    sources: list[Value] = s.operands(FLOW)
    target_group: Value = s.operand(c.GROUP)
    targets: list[Value] = s.operands(FLOW)
    results: list[Value] = s.results(FLOW)


@s.op(
    "pipeline.write",
    " $flow to $target : type($flow), type($target)",
    traits=("unknown_effects",),
    verify=v.write,
)
class Write(Op):
    """Puts the records of a flow into a view; a flow of one lane may leave the lane axis out."""

    flow: Value = s.operand(FLOW)
    target: Value = s.operand(c.VIEW)


@s.op("pipeline.return", "", traits=("terminator", "return"))
class Return(Op):
    """Ends a definition whose arguments are called ``launch``."""


@s.op(
    "pipeline.place",
    "⟦<$mapping>⟧ $logical, $physical : type($logical), type($physical) -> type($result)",
    traits=("pure",),
    verify=v.place,
)
class Place(Op):
    """Puts the members of a logical group onto those of a physical one; ``cyclic`` goes around when there are more."""

    mapping: str | None = s.optional_attribute(MAPPING)
    logical: Value = s.operand(c.GROUP)
    physical: Value = s.operand(c.GROUP)
    result: Value = s.result(PLACEMENT)


@s.op(
    "pipeline.execute",
    " $placement($inputs) do$<inner_body body>",
    traits=("unknown_effects",),
    verify=v.execute,
)
class Execute(Op):
    """Runs the body for each member of the logical group: its rank on each axis, then what the inputs are."""

    placement: Value = s.operand(PLACEMENT)
    inputs: list[Value] = s.operands(c.ANY)
    body: Region = s.region("pipeline.yield")


@s.op("pipeline.yield", "", traits=("terminator",))
class Yield(Op):
    """Ends the body of an execution."""
