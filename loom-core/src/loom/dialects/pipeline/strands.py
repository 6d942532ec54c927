"""Starting strands of the pipeline that runs."""

from __future__ import annotations

from collections.abc import Sequence

from loom.evaluate.faults import unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.lanes import strand_lane
from loom.evaluate.machine import Machine
from loom.evaluate.strands import Strand, Strands
from loom.evaluate.values import RuntimeValue
from loom.ir.core import Op, Region


def strands_of(frame: Frame, op: Op) -> Strands:
    """The strands of the pipeline that runs. Raises a located diagnostic when none does."""
    if frame.machine.strands is None:
        raise unsupported(op, f"'{op.name}' outside of a run of a pipeline")
    return frame.machine.strands


def spawn_body(frame: Frame, op: Op, name: str, body: Region, arguments: Sequence[RuntimeValue] = ()) -> None:
    """A strand that runs a region once, with the values around it as they are now."""
    strands = strands_of(frame, op)
    program, values = frame.machine.program, dict(frame.env)

    def run(strand: Strand) -> None:
        inner = Frame(Machine(program, strand_lane(strand.number, strands.names), strands=strands), None)
        inner.env = dict(values)
        inner.run_region(body, None, arguments)

    strands.spawn(op, name, run)
