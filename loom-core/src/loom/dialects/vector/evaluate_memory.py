"""Vector loads and stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loom.dialects.view.evaluate import index_values
from loom.evaluate import accesses
from loom.evaluate.frame import Frame
from loom.evaluate.rules import evaluates
from loom.evaluate.shapes import extents_of
from loom.evaluate.values import RuntimeValue


@evaluates("vector.load")
def load(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Reads a footprint whose axes are the trailing axes of the view."""
    shape = extents_of(frame, op, op.results[0].type)
    place = accesses.locate(frame, op, operands[0], op.source.type, index_values(frame, op), shape)
    return (accesses.load(frame, op, place),)


@evaluates("vector.store")
def store(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Writes a footprint whose axes are the trailing axes of the view."""
    shape = extents_of(frame, op, op.value.type)
    place = accesses.locate(frame, op, operands[1], op.target.type, index_values(frame, op), shape)
    accesses.store(frame, op, place, operands[0])
    return ()
