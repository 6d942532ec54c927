"""Vector loads and stores: footprints, masked lanes, packed lanes, gathered and scattered lanes.

A footprint is located as a whole. All other forms locate the enabled lanes of the vector one by one; the others make
no access, whatever their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loom.dialects.vector.evaluate_enabled import Enabled, at_offsets, by_name
from loom.evaluate import accesses
from loom.evaluate.accesses import Located
from loom.evaluate.faults import FaultCode
from loom.evaluate.frame import Frame
from loom.evaluate.numeric.formats import Array
from loom.evaluate.rules import evaluates
from loom.evaluate.shapes import extents_of
from loom.evaluate.values import RuntimeValue
from loom.ir.core import Op


@evaluates("vector.load")
def load(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Reads a footprint whose axes are the trailing axes of the view."""
    shape = extents_of(frame, op, op.results[0].type)
    indices = frame.indices(op.indices, op.static_indices)
    return (accesses.load(frame, op, accesses.locate(frame, op, operands[0], op.source.type, indices, shape)),)


@evaluates("vector.store")
def store(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Writes a footprint whose axes are the trailing axes of the view."""
    shape = extents_of(frame, op, op.value.type)
    indices = frame.indices(op.indices, op.static_indices)
    accesses.store(frame, op, accesses.locate(frame, op, operands[1], op.target.type, indices, shape), operands[0])
    return ()


@evaluates("vector.load.mask", "vector.load.expand")
def load_masked(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Reads the enabled lanes of a footprint, or consecutive elements into them; others pass through."""
    given = by_name(op, operands)
    enabled = Enabled.of(frame, op, op.results[0].type, given["mask"])
    place = enabled.locate(frame, op, given["source"], op.source.type, _steps(op, enabled))
    return (enabled.put(accesses.read(frame, op, place), given["passthrough"]),)


@evaluates("vector.store.mask", "vector.store.compress")
def store_masked(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Writes the enabled lanes of a footprint, or to consecutive elements."""
    given = by_name(op, operands)
    enabled = Enabled.of(frame, op, op.value.type, given["mask"])
    place = enabled.locate(frame, op, given["target"], op.target.type, _steps(op, enabled))
    accesses.store(frame, op, place, enabled.take(given["value"]))
    return ()


def _steps(op: Op, enabled: Enabled) -> tuple[Array, ...]:
    packed = op.name in ("vector.load.expand", "vector.store.compress")
    return (enabled.ordinals(),) if packed else enabled.coordinates


@evaluates("vector.gather", "vector.gather.mask")
def gather(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Reads each enabled lane at an offset of its own; others pass through."""
    given = by_name(op, operands)
    enabled, place = at_offsets(frame, op, op.results[0].type, "source", given)
    values = accesses.read(frame, op, place)
    return (enabled.put(values, given["passthrough"]) if "passthrough" in given else enabled.put_alone(values),)


@evaluates("vector.scatter", "vector.scatter.mask")
def scatter(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Writes each enabled lane at an offset of its own; two lanes of a work-item at one element are a fault."""
    given = by_name(op, operands)
    enabled, place = at_offsets(frame, op, op.value.type, "target", given)
    _check_distinct(frame, op, place)
    accesses.store(frame, op, place, enabled.take(given["value"]))
    return ()


def _check_distinct(frame: Frame, op: Op, place: Located) -> None:
    # Different work-items at one element are a matter of races.
    order = np.lexsort((place.addresses, place.lanes))
    addresses, items = place.addresses[order], place.lanes[order]
    again = (addresses[1:] == addresses[:-1]) & (items[1:] == items[:-1])
    if again.any():
        at = int(np.argmax(again))
        raise frame.fault(
            FaultCode.UNDEFINED_RESULT,
            op,
            f"'{op.name}' writes byte {int(addresses[at])} from two lanes",
            int(items[at]),
            address=int(addresses[at]),
            reason="scattered lanes share an element",
        )
