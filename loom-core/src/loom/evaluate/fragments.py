"""Placements of matrix fragments as arrays (see :mod:`loom.facts.fragments`)."""

from __future__ import annotations

import attrs
import numpy as np

from loom.evaluate.numeric.formats import Array
from loom.facts.fragments import Placement


@attrs.frozen(eq=False)
class Fragment:
    """Where the elements of a matrix ``[rows, columns]`` lie.

    ``row`` and ``column`` are ``[lanes, length]``; a single lane stands for an invocation that holds the whole
    matrix alone.
    """

    rows: int
    columns: int
    row: Array
    column: Array

    @property
    def alone(self) -> bool:
        """Whether each invocation holds a whole matrix."""
        return int(self.row.shape[0]) == 1


def fragment_arrays(placement: Placement) -> Fragment:
    """The placement of every element of every lane."""
    lane, at = np.arange(placement.lanes)[:, None], np.arange(placement.length)[None, :]
    shape = placement.lanes, placement.length
    rows, columns = (np.broadcast_to(part, shape) for part in placement.element(lane, at))
    return Fragment(placement.rows, placement.columns, rows, columns)
