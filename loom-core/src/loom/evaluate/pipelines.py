"""Running spatial pipelines on host values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from loom.evaluate.binding import Binder
from loom.evaluate.dispatch import enter_root
from loom.evaluate.faults import unsupported
from loom.evaluate.lanes import strand_lane
from loom.evaluate.machine import Machine, Program
from loom.evaluate.strands import Choice, Strand, StrandRaces, Strands
from loom.ir.core import Op
from loom.ir.recursion import deep_recursion

if TYPE_CHECKING:
    from loom.evaluate.frame import Frame
    from loom.evaluate.values import RuntimeValue


def run_pipeline(
    program: Program,
    pipeline: Op,
    specializations: Sequence[Any],
    arguments: Sequence[Any],
    choose: Choice | None = None,
) -> None:
    """Evaluate one run of a ``pipeline.def``: the definition and all strands, until each has ended.

    ``specializations`` are integers, ``arguments`` contiguous NumPy arrays (updated in place) and scalars. Strands
    take turns where they wait; with ``choose`` they also hand over wherever they might, to the one it picks. Raises
    ``LoomError`` for anything that the program leaves undefined, and when strands wait for each other for ever.
    """
    if pipeline.name != "pipeline.def":
        raise unsupported(pipeline, f"'{pipeline.name}' is no pipeline")
    program.steps = 0
    strands = Strands(program.limits, choose)
    binder = Binder(pipeline, "global", lambda size: StrandRaces(size, strands))
    values = binder.bind(pipeline.regions[-1].entry.args, [*specializations, *arguments])
    instantiate(program, strands, pipeline, pipeline, values, lambda frame: enter_root(frame, pipeline))
    with deep_recursion():
        strands.run()


def instantiate(
    program: Program,
    strands: Strands,
    op: Op,
    pipeline: Any,
    values: Sequence[RuntimeValue],
    entered: Callable[[Frame], None] | None = None,
) -> None:
    """Add the strand of a pipeline's definition; ``op`` is what asks for it."""

    def body(strand: Strand) -> None:
        machine = Machine(program, strand_lane(strand.number, strands.names), strands=strands)
        machine.call(op, pipeline, values, None, entered)

    strands.spawn(op, f"pipeline @{pipeline.callee}", body)
