"""What pipelines and strands mean. Importing this module registers the rules of the dialect."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import attrs

from loom.dialects.func.evaluate import find_callee
from loom.dialects.pipeline import evaluate_flow  # noqa: F401
from loom.dialects.pipeline.strands import spawn_body, strands_of
from loom.evaluate.assumptions import check_predicates
from loom.evaluate.faults import FaultCode
from loom.evaluate.frame import Frame
from loom.evaluate.pipelines import instantiate
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue
from loom.ir.core import Op, Value


def _entries(frame: Frame, op: Op, dynamic: Sequence[Value], static: Sequence[int], what: str) -> list[int]:
    return [frame.uniform(op, value, what) for value in frame.indices(dynamic, static)]


def _refuse(frame: Frame, op: Op, message: str) -> Exception:
    return frame.fault(FaultCode.BAD_ARGUMENT, op, message, frame.first_active)


@evaluates("pipeline.strand")
def strand(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """One strand for each worker."""
    origins = _entries(frame, op, op.origins, op.static_origins, "the origin of the workers")
    counts = _entries(frame, op, op.counts, op.static_counts, "the number of workers")
    strides = _entries(frame, op, op.strides, op.static_strides, "the stride of the workers")
    axes: list[range] = []
    for axis, (origin, count, stride) in enumerate(zip(origins, counts, strides, strict=True)):
        if count < 0:
            raise _refuse(frame, op, f"{count} workers along axis {axis}")
        if count > 1 and stride == 0:
            raise _refuse(frame, op, f"a stride of 0 along axis {axis} selects one worker {count} times")
        if count > 0 and min(origin, origin + (count - 1) * stride) < 0:
            raise _refuse(frame, op, f"workers along axis {axis} go below coordinate 0")
        # With one worker or none the stride does not matter, and may be 0.
        axes.append(range(origin, origin + count * (stride or 1), stride or 1))
    strands = strands_of(frame, op)
    for worker in itertools.product(*axes):
        spawn_body(frame, op, f"strand {len(strands.names)} on worker {worker}", op.body)
    return ()


@evaluates("pipeline.compose")
def compose(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Another definition beside this one; its ``where`` predicates are obligations of the composition."""
    callee: Any = find_callee(frame, op, op.callee)
    check_predicates(frame, op, callee.predicates, callee.body.entry.args, operands, "required")
    instantiate(frame.machine.program, strands_of(frame, op), op, callee, operands)
    return ()


@attrs.frozen
class Memory:
    """The memory of a space that belongs to the worker at some coordinates."""

    space: str
    coordinates: tuple[int, ...]


@evaluates("pipeline.memory")
def memory(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The memory of the worker, the same whenever it is asked for."""
    coordinates = tuple(_entries(frame, op, op.coordinates, op.static_coordinates, "the coordinate of the worker"))
    if min(coordinates) < 0:
        raise _refuse(frame, op, f"there is no worker {coordinates}")
    return (Memory(op.space, coordinates),)
