"""The enabled lanes of masked and indexed vector accesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from loom.evaluate import accesses
from loom.evaluate.accesses import Located
from loom.evaluate.frame import Frame
from loom.evaluate.numeric.formats import Array
from loom.evaluate.shapes import extents_of, with_lane_axis
from loom.evaluate.values import RuntimeValue, View
from loom.ir.core import Op
from loom.ir.types import Type


def by_name(op: Op, operands: Sequence[RuntimeValue]) -> Mapping[str, RuntimeValue]:
    """The operands of an access by name; its indices, which stand behind all others, are left out."""
    return {name: operands[at] for name, at in op.spec.operand_index.items() if name != "indices"}


@attrs.frozen(eq=False)
class Enabled:
    """The lanes of a vector value that an operation accesses, over all active work-items, in lane order.

    ``items`` are the work-items, ``coordinates`` the vector coordinates of each enabled lane; ``shape`` is that of
    the value with all work-items.
    """

    shape: tuple[int, ...]
    items: Array
    coordinates: tuple[Array, ...]

    @classmethod
    def of(cls, frame: Frame, op: Op, type_: Type, mask: Array | None) -> Enabled:
        """Those where the mask holds (all without one)."""
        extents = extents_of(frame, op, type_)
        shape = (frame.machine.lanes.count, *extents)
        chosen = np.ones((1,) * len(shape), dtype=np.bool_) if mask is None else with_lane_axis(mask, len(extents))
        if frame.mask is not None:
            chosen = chosen & frame.mask.reshape((-1,) + (1,) * len(extents))
        items, *coordinates = np.nonzero(np.broadcast_to(chosen, shape))
        return cls(shape, items, tuple(coordinates))

    def of_items(self, array: Array) -> Array:
        """The entry of each enabled lane's work-item in an array ``()`` or ``[lanes]``."""
        return array if array.ndim == 0 else array[self.items]

    def take(self, value: Array) -> Array:
        """The enabled lanes of a vector value."""
        whole = np.broadcast_to(with_lane_axis(value, len(self.shape) - 1), self.shape)
        return np.asarray(whole[self.items, *self.coordinates])

    def put(self, values: Array, others: Array) -> Array:
        """A vector value of the enabled lanes and, elsewhere, of another one."""
        result = np.array(np.broadcast_to(with_lane_axis(others, len(self.shape) - 1), self.shape))
        result[self.items, *self.coordinates] = values
        return result

    def put_alone(self, values: Array) -> Array:
        """A vector value of the enabled lanes, zero elsewhere."""
        return self.put(values, np.zeros(self.shape[1:], dtype=values.dtype))

    def ordinals(self) -> Array:
        """How many enabled lanes of its work-item come before each."""
        first = np.searchsorted(self.items, self.items)
        return np.arange(self.items.size) - first

    def locate(self, frame: Frame, op: Any, view: View, view_type: Type, steps: Sequence[Array]) -> Located:
        """The elements at the operation's indices plus steps along the last axes, one for each enabled lane."""
        positions = [self.of_items(p) for p in frame.indices(op.indices, op.static_indices)]
        for axis, step in enumerate(steps, len(positions) - len(steps)):
            positions[axis] = positions[axis] + step
        return accesses.locate_elements(frame, op, view, view_type, positions, self.items)


def at_offsets(
    frame: Frame, op: Any, type_: Type, view: str, given: Mapping[str, RuntimeValue]
) -> tuple[Enabled, Located]:
    """The enabled lanes of a vector type, each with the element at its offset along the view's last axis.

    ``view`` is the name of the operand that is accessed; offsets and mask come from the operands.
    """
    enabled = Enabled.of(frame, op, type_, given.get("mask"))
    steps = enabled.take(given["offsets"]).astype(np.int64)
    return enabled, enabled.locate(frame, op, given[view], getattr(op, view).type, (steps,))
