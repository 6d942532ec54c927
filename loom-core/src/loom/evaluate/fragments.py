"""Matrix fragments: which elements of a logical matrix each lane of a subgroup holds.

The placements are those of the language reference, part 2, section 10.4. A vector that holds as many lanes as the
matrix has elements holds all of it, row-major.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs
import numpy as np

from loom.evaluate.numeric.formats import BF16, F16, F32, Array, ScalarFormat

#: Row and column of (lane, position in the lane's vector), for a tile's m, n and the vector's length.
LaneMap = Callable[[Array, Array, int, int, int], tuple[Array, Array]]

LANE_MAPS: Final[Mapping[str, LaneMap]] = {
    "A": lambda lane, at, m, n, length: (lane % m, at),
    "B": lambda lane, at, m, n, length: (at, lane % n),
    "C": lambda lane, at, m, n, length: (2 * at + lane // n, lane % n),
    "D": lambda lane, at, m, n, length: (lane % m, lane // m * length + at),
    "E": lambda lane, at, m, n, length: (lane // n * length + at, lane % n),
    "F": lambda lane, at, m, n, length: (lane // n * length + at, lane % n),
}


@attrs.frozen
class Tile:
    """One kind of product: extents, formats of operands and accumulator, and map and vector length of each."""

    wave: int
    m: int
    n: int
    k: int
    operands: tuple[ScalarFormat, ...]
    accumulator: ScalarFormat
    lhs: tuple[str, int]
    rhs: tuple[str, int]
    acc: tuple[str, int]

    def fragment(self, role: str) -> Fragment:
        """The placement of one role."""
        extents = {"lhs": (self.m, self.k), "rhs": (self.k, self.n)}.get(role, (self.m, self.n))
        name, length = {"lhs": self.lhs, "rhs": self.rhs}.get(role, self.acc)
        lane, at = np.arange(self.wave)[:, None], np.arange(length)[None, :]
        rows, columns = np.broadcast_arrays(*LANE_MAPS[name](lane, at, self.m, self.n, length))
        return Fragment(*extents, rows, columns)


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


_HALF: Final = (F16, BF16)
TILES: Final = (
    Tile(32, 16, 16, 16, _HALF, F32, ("A", 16), ("B", 16), ("C", 8)),
    Tile(64, 16, 16, 16, _HALF, F32, ("D", 4), ("E", 4), ("F", 4)),
    Tile(64, 16, 16, 4, (F32,), F32, ("D", 1), ("E", 1), ("F", 4)),
)


def find_fragment(
    role: str, rows: int, columns: int, format: ScalarFormat, length: int, wave: int | None
) -> Fragment | None:
    """The placement of a fragment in vectors of a length; ``None`` for one that is not defined."""
    if rows * columns == length:
        row, column = np.divmod(np.arange(length), max(columns, 1))
        return Fragment(rows, columns, row[None], column[None])
    for tile in TILES:
        formats = tile.operands if role in ("lhs", "rhs") else (tile.accumulator,)
        if tile.wave == wave and format in formats:
            fragment = tile.fragment(role)
            if (fragment.rows, fragment.columns, fragment.row.shape[1]) == (rows, columns, length):
                return fragment
    return None
