"""What the flow form of pipelines means (language reference, part 2, section 14.4; part 1, section 19).

A flow is one array of all its records. ``pipeline.scatter`` and ``pipeline.read`` access nothing themselves, so that
they may stand anywhere before their use: something that needs the records reads them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from loom.dialects.func.evaluate import call_function, find_callee
from loom.dialects.group.evaluate import Group
from loom.dialects.pipeline.strands import spawn_body
from loom.evaluate import accesses
from loom.evaluate.faults import FaultCode, unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.numeric import COMBINING_KINDS, fold
from loom.evaluate.numeric.formats import Array
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue, View, format_of, integer
from loom.ir.core import Op
from loom.ir.types import Type


@attrs.frozen(eq=False)
class Flow:
    """Records of ``lanes`` lanes over the time axes ``time``; ``fetch`` gives them as ``[lanes, *time, *tile]``."""

    lanes: int
    time: tuple[int, ...]
    fetch: Callable[[], Array]


@attrs.frozen(eq=False)
class Placement:
    """The members of a logical group on those of a physical one."""

    logical: Group
    physical: Group


def _held(lanes: int, time: tuple[int, ...], records: Array) -> Flow:
    return Flow(lanes, time, lambda: records)


def _tile_rank(flow: Type) -> int:
    tile: Any = flow.parts[0]  # type: ignore[attr-defined]  # a flow by the rules of the operation
    return int(tile.rank)


def _extents(frame: Frame, op: Op, view: View) -> tuple[int, ...]:
    return tuple(frame.uniform(op, extent, "an extent of the view") for extent in view.extents)


def _place(frame: Frame, op: Op, view: View, type_: Type, extents: tuple[int, ...]) -> accesses.Located:
    """All elements of a view, row-major."""
    count = math.prod(extents)
    positions = [np.asarray(p, dtype=np.int64) for p in np.unravel_index(np.arange(count), extents)] if extents else []
    return accesses.locate_elements(frame, op, view, type_, positions, np.zeros(count, dtype=np.int64))


def _disagree(frame: Frame, op: Op, message: str) -> Exception:
    return frame.fault(FaultCode.BAD_ARGUMENT, op, message, frame.first_active)


def _members(group: Group) -> int:
    return math.prod(group.extents)


@evaluates("pipeline.scatter")
def scatter(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The rows of a view, one for each lane."""
    view, group = operands
    extents = _extents(frame, op, view)
    lanes, *time = extents[: len(extents) - _tile_rank(op.result.type)]
    if lanes != _members(group):
        raise _disagree(frame, op, f"{lanes} rows for a group of {_members(group)} lanes")
    place = _place(frame, op, view, op.source.type, extents)
    return (Flow(lanes, tuple(time), lambda: accesses.read(frame, op, place).reshape(extents)),)


@evaluates("pipeline.read")
def read(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The same records for each lane."""
    view, group = operands
    extents = _extents(frame, op, view)
    time = extents[: len(extents) - _tile_rank(op.result.type)]
    place = _place(frame, op, view, op.source.type, extents)
    lanes = _members(group)

    def fetch() -> Array:
        return np.broadcast_to(accesses.read(frame, op, place).reshape(extents), (lanes, *extents))

    return (Flow(lanes, time, fetch),)


@evaluates("pipeline.stage")
def stage(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Calls the function for each lane and record, in order."""
    group, *flows = operands
    callee: Any = find_callee(frame, op, op.callee)
    lanes = _members(group)
    if not flows:
        raise unsupported(op, f"'{op.name}' without an input: how often '@{op.callee}' runs is not stated")
    time = flows[0].time
    if any(flow.lanes != lanes or flow.time != time for flow in flows):
        shapes = ", ".join(f"{flow.lanes} lanes of {list(flow.time)} records" for flow in flows)
        raise _disagree(frame, op, f"inputs of {shapes} for a group of {lanes} lanes")
    inputs = [flow.fetch() for flow in flows]
    returned: list[list[Array]] = [[] for _ in op.results]
    for at in itertools.product(range(lanes), *map(range, time)):
        values = call_function(frame, op, callee, [np.array(records[at]) for records in inputs])
        for found, value, result in zip(returned, values, op.results, strict=True):
            found.append(value[0] if value.ndim > _tile_rank(result.type) else value)
    shape = (lanes, *time)
    return [
        _held(lanes, time, np.reshape(np.stack(found), (*shape, *found[0].shape)))
        if found
        else _held(lanes, time, _no_records(frame, op, result.type, shape))
        for found, result in zip(returned, op.results, strict=True)
    ]


def _no_records(frame: Frame, op: Op, flow: Any, shape: tuple[int, ...]) -> Array:
    tile = flow.parts[0]
    extents = tuple(frame.uniform(op, frame.extent(d), "an extent of the tile") for d in tile.dims)
    return np.zeros((*shape, *extents), dtype=format_of(tile).dtype)


@evaluates("pipeline.buffer")
def buffer(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The records as they are now."""
    flow, capacity = operands
    if frame.uniform(op, capacity, "the capacity") < 1:
        raise _disagree(frame, op, "room for no record")
    return (_held(flow.lanes, flow.time, np.array(flow.fetch())),)


@evaluates("pipeline.fold")
def fold_records(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Combines along the last time axis, in order; no records give the neutral value of the kind."""
    flow: Flow = operands[0]
    if not flow.time:
        raise _disagree(frame, op, "a flow of single records has no time axis to fold")
    kind, format = COMBINING_KINDS[op.kind], format_of(op.source.type.parts[0])
    records = np.moveaxis(flow.fetch(), len(flow.time), 0)
    first, rest = (records[0], records[1:]) if records.shape[0] else (kind.identity(format), records)
    return (_held(flow.lanes, flow.time[:-1], fold(kind, format, first, rest, axis=0)),)


@evaluates("pipeline.reduce")
def reduce(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Refused: how the gathered records reach the function is not stated."""
    raise unsupported(op, f"'{op.name}': how the records of a group reach one call of '@{op.callee}' is not stated")


@evaluates("pipeline.write")
def write(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Puts the records where a scatter of the view would take them from."""
    flow, view = operands
    extents = _extents(frame, op, view)
    records = flow.fetch()
    shapes = [records.shape] + ([records.shape[1:]] if flow.lanes == 1 else [])
    if extents not in shapes:
        raise _disagree(frame, op, f"records of the shape {list(records.shape)} for a view of {list(extents)}")
    place = _place(frame, op, view, op.target.type, extents)
    accesses.store(frame, op, place, np.reshape(records, -1))
    return ()


@evaluates("pipeline.place")
def place(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Each logical member on a physical one: its own, or going around."""
    logical, physical = operands
    if op.mapping is None and any(a > b for a, b in zip(logical.extents, physical.extents, strict=True)):
        raise _disagree(
            frame, op, f"{list(logical.extents)} members do not fit on {list(physical.extents)} without 'cyclic'"
        )
    return (Placement(logical, physical),)


@evaluates("pipeline.execute")
def execute(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """One strand for each logical member."""
    placement, *inputs = operands
    for rank in itertools.product(*map(range, placement.logical.extents)):
        spawn_body(frame, op, f"member {rank}", op.body, [*map(integer, rank), *inputs])
    return ()
