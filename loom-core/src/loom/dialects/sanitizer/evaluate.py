"""What checks mean: a false one is a fault where it stands; observations feed the race detector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from loom.dialects.kernel.evaluate_scopes import require_everyone
from loom.dialects.vector.evaluate_matrix import locate_fragment
from loom.evaluate import accesses
from loom.evaluate.accesses import Located
from loom.evaluate.assumptions import check_predicates
from loom.evaluate.faults import FaultCode
from loom.evaluate.frame import Frame
from loom.evaluate.layouts import strides_of
from loom.evaluate.races import Access
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue, View

# Kind of an observation -> accesses that the race detector is told of, plain and atomic.
_OBSERVED: Final = {
    "read": ((Access.READ,), (Access.ATOMIC_READ,)),
    "write": ((Access.WRITE,), (Access.ATOMIC_WRITE,)),
    "read_write": ((Access.READ, Access.WRITE), (Access.ATOMIC_WRITE,)),
}


def _check_footprint(frame: Frame, op: Any, view: View, step: tuple[int, ...]) -> None:
    """The footprint at the op's indices moved by ``step`` elements along each axis."""
    indices = [np.asarray(i + s) for i, s in zip(frame.indices(op.indices, op.static_indices), step, strict=True)]
    extents = op.static_extents or (1,) * len(indices)
    place = accesses.locate(frame, op, view, op.view.type, indices, extents)
    if op.kind != "read":
        for storage, picked in accesses.parts(frame, place):
            accesses.check_writable(frame, op, storage, place.lanes if picked is None else place.lanes[picked])


@evaluates("sanitizer.assert.access")
def assert_access(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A footprint must be accessible."""
    _check_footprint(frame, op, operands[0], (0,) * len(op.static_indices))
    return ()


@evaluates("sanitizer.assert.accesses")
def assert_accesses(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """All footprints of a family must be accessible."""
    for member in range(op.static_count):
        frame.machine.program.step(op)
        _check_footprint(frame, op, operands[0], tuple(member * stride for stride in op.static_strides))
    return ()


@evaluates("sanitizer.assert.value", "sanitizer.assert.op")
def assert_predicates(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Predicates must hold; checked values pass through."""
    count = len(op.inputs)
    check_predicates(frame, op, op.predicates, op.mentioned, operands[count:], "asserted")
    return operands[:count] if op.results else ()


@evaluates("sanitizer.assert.layout")
def assert_layout(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The view must have the extents, strides and alignment of the result type."""
    source: View = operands[0]
    type_ = op.results[0].type
    extents = tuple(frame.extent(d) for d in type_.dims)
    strides = strides_of(frame, op, type_, extents)
    for axis, (have, want) in enumerate(zip(source.extents, extents, strict=True)):
        _require(frame, op, have == want, f"extent {axis} is another")
    for axis, (extent, have, want) in enumerate(zip(extents, source.strides, strides, strict=True)):
        # One element or none has no distance to a next one.
        _require(frame, op, (extent <= 1) | (have == want), f"the stride of axis {axis} is another")
    for storage in source.buffer.storages:
        address = source.origin + source.buffer.base + storage.address
        aligned: Any = address % type_.access_alignment == 0
        if source.buffer.which is not None:
            aligned = aligned | (source.buffer.which != source.buffer.storages.index(storage))
        _require(frame, op, aligned, f"the view is not aligned to {type_.access_alignment} bytes")
    return (View(source.buffer, source.origin, extents, strides),)


def _require(frame: Frame, op: Any, holds: Any, otherwise: str) -> None:
    lane = frame.offender(~np.asarray(holds))
    if lane is not None:
        raise frame.fault(
            FaultCode.FALSE_PREDICATE,
            op,
            f"the view does not have the type {op.results[0].type}: {otherwise}",
            lane,
            predicate="layout",
        )


# -- observations --------------------------------------------------------------------------------------------


def _observe(frame: Frame, op: Any, place: Located, kinds: Sequence[Access]) -> None:
    for storage, picked in accesses.parts(frame, place):
        addresses = place.addresses if picked is None else place.addresses[picked]
        lanes = place.lanes if picked is None else place.lanes[picked]
        for kind in kinds:
            accesses.watch(frame, op, storage, addresses, lanes, place, kind)


@evaluates("sanitizer.race.access")
def race_access(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """An access of one element; an atomic one may order others, like the access that it stands for."""
    place = accesses.locate(frame, op, operands[0], op.view.type, frame.indices(op.indices, op.static_indices))
    _observe(frame, op, place, _OBSERVED[op.kind][op.atomic])
    if op.atomic:
        frame.machine.synchronization.note(op.ordering, op.scope)
    return ()


@evaluates("sanitizer.race.fragment_access")
def race_fragment_access(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The elements of a fragment, those that lanes hold copies of once if they are written."""
    place = locate_fragment(frame, op, operands, op.fragment, op.view, once=op.kind == "write")
    _observe(frame, op, place, _OBSERVED[op.kind][0])
    return ()


@evaluates("sanitizer.race.sync")
def race_sync(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Accesses before it precede accesses behind it within the scope."""
    machine = frame.machine
    if machine.lanes.geometry is None:
        return ()
    if op.scope in ("workgroup", "subgroup"):
        require_everyone(frame, op, op.scope, "synchronization")
        lanes = np.arange(machine.lanes.count) if frame.active is None else frame.active
        machine.clocks[op.space].advance(lanes, op.scope)
    else:
        machine.synchronization.note(op.ordering, op.scope)
    return ()
