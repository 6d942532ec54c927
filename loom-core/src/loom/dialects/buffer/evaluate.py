"""What buffer operations mean: allocation, packing, typed windows, and promises that are checked.

Importing this module registers the rules of the dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loom.dialects.buffer import evaluate_bytes  # noqa: F401
from loom.evaluate.faults import FaultCode, unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.layouts import form_view
from loom.evaluate.numeric.formats import Array
from loom.evaluate.rules import evaluates
from loom.evaluate.values import Buffer, RuntimeValue, overlap
from loom.ir.core import Op

_MAXIMUM = (1 << 63) - 1


@evaluates("buffer.alloca")
def alloca(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Fresh bytes: one instance per work-item, or per workgroup for workgroup storage; one in a worker's memory."""
    if op.space == "workgroup" and op.pool is None and frame.machine.lanes.geometry is None:
        raise unsupported(op, "workgroup storage outside a kernel")
    lane = frame.offender(np.asarray(operands[0] < 0))
    if lane is not None:
        reason = "the size is negative"
        raise frame.fault(FaultCode.UNDEFINED_RESULT, op, f"'{op.name}': {reason}", lane, reason=reason)
    found = frame.machine.allocate(op, op.space, operands[0], op.alignment, frame.mask)
    if op.space == "private":
        frame.scratch.extend(found.storages)
    return (found,)


@evaluates("buffer.pack")
def pack(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Aligned disjoint offsets, after their total stride."""
    end: Array = np.zeros((), dtype=np.int64)
    offsets: list[Array] = []
    too_large: Array = np.asarray(False)

    def rounded(value: Array, alignment: int) -> Array:
        nonlocal too_large
        too_large = too_large | (value > _MAXIMUM - (alignment - 1))
        return np.asarray((value + (alignment - 1)) & -alignment)

    with np.errstate(over="ignore"):
        for size, alignment in zip(operands, op.alignments, strict=True):
            start = rounded(end, alignment)
            too_large = too_large | (size > _MAXIMUM - start)
            offsets.append(start)
            end = np.asarray(start + size)
        total = rounded(end, max(op.alignments))
    lane = frame.offender(np.asarray(too_large))
    if lane is not None:
        raise frame.fault(
            FaultCode.UNDEFINED_RESULT, op, "the packed ranges do not fit the offset type", lane, reason="range"
        )
    return (total, *offsets)


@evaluates("buffer.view")
def view(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A typed window; forming it accesses nothing and checks nothing."""
    buffer, byte_offset = operands
    return (form_view(frame, op, buffer, byte_offset, op.results[0].type),)


@evaluates("buffer.length")
def length(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Bytes of the root."""
    return (operands[0].length,)


def _address(buffer: Buffer) -> Array:
    """The notional address of the first byte."""
    if buffer.which is None:
        return np.asarray(buffer.base + buffer.storages[0].address)
    return np.asarray(buffer.base + np.asarray([s.address for s in buffer.storages], dtype=np.int64)[buffer.which])


@evaluates("buffer.assume.alignment")
def assume_alignment(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The roots themselves; their addresses must have the alignment."""
    for operand, buffer in zip(op.operands, operands, strict=True):
        lane = frame.offender(_address(buffer) % op.minimum_alignment != 0)
        if lane is not None:
            raise frame.fault(
                FaultCode.FALSE_PREDICATE,
                op,
                f"%{operand.name or '?'} lacks the assumed alignment {op.minimum_alignment}",
                lane,
                alignment=op.minimum_alignment,
            )
    return operands


@evaluates("buffer.assume.memory_space")
def assume_memory_space(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The root itself; it must lie in the space."""
    for storage in operands[0].storages:
        if op.space != storage.space and "generic" not in (op.space, storage.space):
            raise frame.fault(
                FaultCode.FALSE_PREDICATE,
                op,
                f"the buffer lies in {storage.space} memory, not {op.space}",
                frame.first_active,
                memory_space=op.space,
            )
    return operands


@evaluates("buffer.assume.noalias")
def assume_noalias(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The roots themselves; they must be pairwise disjoint."""
    for i, a in enumerate(operands):
        for j, b in enumerate(operands[:i]):
            lane = frame.offender(overlap(a, b))
            if lane is not None:
                names = [f"%{op.operands[k].name or '?'}" for k in (j, i)]
                raise frame.fault(
                    FaultCode.FALSE_PREDICATE, op, f"{names[0]} and {names[1]} overlap", lane, value_name=names[1]
                )
    return operands


@evaluates("buffer.assume.same_root")
def assume_same_root(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The first handle; both must be handles of one allocation."""
    a, b = operands
    if not set(a.storages) & set(b.storages):
        raise frame.fault(
            FaultCode.FALSE_PREDICATE,
            op,
            "the two buffers have different roots",
            frame.first_active,
            value_name=str(op.operands[0].name),
        )
    return (a,)
