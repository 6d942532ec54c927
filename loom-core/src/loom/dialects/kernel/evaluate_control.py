"""Meeting, leaving and failing: barriers, exits, assertions, and the storage that a launch asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from loom.dialects.kernel.evaluate_scopes import WORKGROUP, geometry_of, require_everyone
from loom.evaluate.faults import FaultCode, unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.machine import LAUNCH_STORAGE_ALIGNMENT
from loom.evaluate.numeric.formats import Array
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue
from loom.ir.core import Op


def _meet(frame: Frame, op: Op, space: str, scope: str) -> None:
    """All lanes run in lockstep, so reaching the barrier together is the rendezvous; who is missing is a fault."""
    geometry_of(frame, op)
    require_everyone(frame, op, scope, "barrier")
    frame.machine.clocks[space].advance(_reached(frame), scope)


def _reached(frame: Frame) -> Array:
    return np.arange(frame.machine.lanes.count) if frame.active is None else frame.active


@evaluates("kernel.barrier")
def barrier(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A rendezvous that orders the accesses of a space."""
    _meet(frame, op, op.space, op.scope)
    return ()


@attrs.frozen
class Phase:
    """An open split barrier: the space and the scope that its first half named."""

    space: str
    scope: str


@evaluates("kernel.barrier.arrive")
def arrive(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The first half of a barrier, which releases what came before; nothing is acquired until the second half."""
    geometry_of(frame, op)
    require_everyone(frame, op, op.scope, "barrier")
    frame.machine.clocks[op.space].arrive(_reached(frame))
    return (Phase(op.space, op.scope),)


@evaluates("kernel.barrier.wait")
def wait(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The second half of a barrier, where all meet."""
    _meet(frame, op, operands[0].space, operands[0].scope)
    return ()


@evaluates("kernel.exit")
def leave(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Where the condition holds the kernel ends here, after the work of the body."""
    chosen = np.broadcast_to(operands[0], (frame.machine.lanes.count,))
    mask = frame.narrowed(chosen)
    if mask is not None and not mask.any():
        return ()
    if op.body is not None:
        frame.run_region(op.body, mask)
    leaving = np.ones(chosen.shape, dtype=np.bool_) if mask is None else mask
    frame.exited = leaving if frame.exited is None else frame.exited | leaving
    return ()


@evaluates("kernel.assert")
def assertion(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A condition that must hold."""
    lane = frame.offender(~operands[0])
    if lane is not None:
        text = f": {op.message}" if op.message else ""
        raise frame.fault(
            FaultCode.FALSE_PREDICATE, op, f"the assertion fails{text}", lane, predicate=op.message or "assertion"
        )
    return ()


@evaluates("kernel.workgroup.storage")
def launch_storage(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The first bytes of the storage that the launch asked for."""
    geometry = geometry_of(frame, op)
    require_everyone(frame, op, WORKGROUP, "request for workgroup storage")
    if op.alignment > LAUNCH_STORAGE_ALIGNMENT:
        raise unsupported(op, f"workgroup storage with an alignment above {LAUNCH_STORAGE_ALIGNMENT}")
    size = operands[0]
    lane = frame.offender(np.asarray(size > geometry.dynamic_storage))
    if lane is not None:
        asked = int(size if size.ndim == 0 else size[lane])
        raise frame.fault(
            FaultCode.OUT_OF_BOUNDS,
            op,
            f"{asked} bytes of workgroup storage, but the launch asked for {geometry.dynamic_storage}",
            lane,
            bound=geometry.dynamic_storage,
        )
    return (attrs.evolve(frame.machine.launch_storage(op), length=size),)
