"""Making vectors from literals, scalars and lane formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from loom.evaluate.frame import Frame
from loom.evaluate.numeric import lanes
from loom.evaluate.numeric.formats import Array
from loom.evaluate.rules import evaluates
from loom.evaluate.shapes import as_declared, extents_of
from loom.evaluate.values import Poisoned, RuntimeValue, format_of, literal
from loom.ir.core import Op
from loom.ir.types import ShapedType


@evaluates("vector.constant")
def constant(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The literal in every lane."""
    type_ = op.results[0].type
    assert isinstance(type_, ShapedType)
    return (np.broadcast_to(literal(type_.element, op.attribute("value")), extents_of(frame, op, type_)),)


def _zeros(frame: Frame, op: Op) -> Array:
    type_ = op.results[0].type
    return np.zeros(extents_of(frame, op, type_), dtype=format_of(type_).dtype)


@evaluates("vector.empty")
def empty(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The value without lanes."""
    return (_zeros(frame, op),)


@evaluates("vector.poison")
def poison(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A value that no lane may observe."""
    return (Poisoned(_zeros(frame, op), np.asarray(True)),)


@evaluates("vector.splat")
def splat(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The scalar in every lane."""
    scalar = operands[0]
    extents = extents_of(frame, op, op.results[0].type)
    return (np.broadcast_to(scalar.reshape(scalar.shape + (1,) * len(extents)), (*scalar.shape, *extents)),)


@evaluates("vector.iota")
def iota(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """base + i * step for lane i in row-major order, wrapping."""
    extents = extents_of(frame, op, op.results[0].type)
    flat = lanes.iota(format_of(op.operands[0].type), operands[0], operands[1], math.prod(extents))
    return (flat.reshape(*flat.shape[:-1], *extents),)


@evaluates("vector.mask.range")
def mask_range(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Whether lower + i * step is below upper, signed, for lane i."""
    lower, upper, step = operands
    extents = extents_of(frame, op, op.results[0].type)
    flat = lanes.mask_range(format_of(op.operands[0].type), lower, upper, step, math.prod(extents))
    return (flat.reshape(*flat.shape[:-1], *extents),)


@evaluates("vector.from_elements")
def from_elements(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Scalars in lane order."""
    extents = extents_of(frame, op, op.results[0].type)
    if not operands:
        return (_zeros(frame, op),)
    flat = np.stack(np.broadcast_arrays(*operands), axis=-1)
    return (flat.reshape(*flat.shape[:-1], *extents),)


@evaluates("vector.broadcast")
def broadcast(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Repeats along missing axes and axes of extent one."""
    source = operands[0]
    rank = op.source.type.rank
    extents = extents_of(frame, op, op.results[0].type)
    lead, own = source.shape[: source.ndim - rank], source.shape[source.ndim - rank :]
    aligned = source.reshape(*lead, *(1,) * (len(extents) - rank), *own)
    fits = all(a in (1, b) for a, b in zip(own, extents[len(extents) - rank :], strict=True))
    return (as_declared(frame, op, np.broadcast_to(aligned, (*lead, *extents)) if fits else aligned),)
