"""Matrix fragments: which elements of a logical matrix each lane of a subgroup holds, and what a value carries.

Maps A to F and the rows of the classes RDNA3 and CDNA are those of the language reference, part 2, section 10.4. The
other rows put the operands of further matrix instructions of the same families into the same notation; map G is the
accumulator of 32x32 tiles (AMD, "AMD Instinct MI300 Instruction Set Architecture", section "Matrix Arithmetic
Instructions"; AMD, "CDNA4 Instruction Set Architecture", section "Dense Matrix Multiply"; AMD GPUOpen, "Using the
Matrix Cores of AMD RDNA 4 architecture GPUs").

Targets name the rows they have in their fact ``matrix``. A vector that holds as many lanes as the matrix has elements
holds all of it, row-major.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from loom.ir.core import Block, Value
from loom.ir.records import record

#: (lane, position in the lane's vector, m, n, the vector's length) -> (row, column); for integers and integer arrays.
LaneMap = Callable[[Any, Any, int, int, int], tuple[Any, Any]]

LANE_MAPS: Final[Mapping[str, LaneMap]] = {
    "A": lambda lane, at, m, n, length: (lane % m, at),
    "B": lambda lane, at, m, n, length: (at, lane % n),
    "C": lambda lane, at, m, n, length: (2 * at + lane // n, lane % n),
    "D": lambda lane, at, m, n, length: (lane % m, lane // m * length + at),
    "E": lambda lane, at, m, n, length: (lane // n * length + at, lane % n),
    "F": lambda lane, at, m, n, length: (lane // n * length + at, lane % n),
    "G": lambda lane, at, m, n, length: (8 * (at // 4) + 4 * (lane // n) + at % 4, lane % n),
}


@record
class Tile:
    """One kind of product: extents, formats of operands and accumulator, and map and vector length of each.

    Attributes:
        name: as in the fact ``matrix`` of a target: class, operand formats, extents.
        wave: lanes of the subgroup.
        m, n, k: extents of the product.
        lhs_format, rhs_format, acc_format: element types.
        lhs, rhs, acc: name of the lane map, and elements per lane.
    """

    name: str
    wave: int
    m: int
    n: int
    k: int
    lhs_format: str
    rhs_format: str
    acc_format: str
    lhs: tuple[str, int]
    rhs: tuple[str, int]
    acc: tuple[str, int]

    def placement(self, role: str) -> Placement:
        """The placement of one role."""
        if role == "lhs":
            return Placement(self.m, self.k, self.lhs_format, *self.lhs, self.m, self.n, self.wave)
        if role == "rhs":
            return Placement(self.k, self.n, self.rhs_format, *self.rhs, self.m, self.n, self.wave)
        return Placement(self.m, self.n, self.acc_format, *self.acc, self.m, self.n, self.wave)


@record
class Placement:
    """Where the elements of a matrix lie.

    Attributes:
        rows, columns: extents of the matrix.
        format: element type.
        map: name of the lane map; empty for a matrix that each invocation holds alone, row-major.
        length: elements per lane.
        m, n: rows and columns of the product's tile.
        lanes: lanes that hold the matrix together.
    """

    rows: int
    columns: int
    format: str
    map: str
    length: int
    m: int
    n: int
    lanes: int

    @property
    def alone(self) -> bool:
        """Whether each invocation holds a whole matrix."""
        return not self.map

    def element(self, lane: Any, at: Any) -> tuple[Any, Any]:
        """Row and column of element ``at`` of a lane; integers or arrays of them."""
        if not self.map:
            return at // max(self.columns, 1), at % max(self.columns, 1)
        return LANE_MAPS[self.map](lane, at, self.m, self.n, self.length)


def _rows() -> tuple[Tile, ...]:
    found = []
    for text in _TABLE.splitlines():
        if not text.strip():
            continue
        name, wave, extents, formats, *places = text.split()
        m, n, k = map(int, extents.split("x"))
        lhs_format, rhs_format, acc_format = formats.split(",")
        lhs, rhs, acc = ((place[0], int(place[1:])) for place in places)
        operands = lhs_format if lhs_format == rhs_format else f"{lhs_format}_{rhs_format}"
        full = f"{name}_{operands}_{extents}"
        found.append(Tile(full, int(wave), m, n, k, lhs_format, rhs_format, acc_format, lhs, rhs, acc))
    return tuple(found)


# class, wave, extents, formats of lhs, rhs and accumulator, then map and elements per lane of each
_TABLE: Final = """
rdna3 32 16x16x16 f16,f16,f32   A16 B16 C8
rdna3 32 16x16x16 bf16,bf16,f32 A16 B16 C8
cdna  64 16x16x16 f16,f16,f32   D4  E4  F4
cdna  64 16x16x16 bf16,bf16,f32 D4  E4  F4
cdna  64 16x16x4  f32,f32,f32   D1  E1  F4
rdna3 32 16x16x16 i8,i8,i32     A16 B16 C8
cdna  64 16x16x32 i8,i8,i32     D8  E8  F4
cdna  64 32x32x8  f16,f16,f32   D4  E4  G16
cdna  64 32x32x8  bf16,bf16,f32 D4  E4  G16
cdna  64 32x32x2  f32,f32,f32   D1  E1  G16
cdna  64 32x32x16 i8,i8,i32     D8  E8  G16
cdna4 64 16x16x32 f16,f16,f32   D8  E8  F4
cdna4 64 16x16x32 bf16,bf16,f32 D8  E8  F4
cdna4 64 16x16x64 i8,i8,i32     D16 E16 F4
cdna4 64 32x32x16 f16,f16,f32   D8  E8  G16
cdna4 64 32x32x16 bf16,bf16,f32 D8  E8  G16
cdna4 64 32x32x32 i8,i8,i32     D16 E16 G16
cdna4 64 16x16x32 f8E4M3,f8E4M3,f32 D8 E8 F4
cdna4 64 16x16x32 f8E4M3,f8E5M2,f32 D8 E8 F4
cdna4 64 16x16x32 f8E5M2,f8E4M3,f32 D8 E8 F4
cdna4 64 16x16x32 f8E5M2,f8E5M2,f32 D8 E8 F4
rdna4 32 16x16x16 f16,f16,f32   D8  E8  F8
rdna4 32 16x16x16 bf16,bf16,f32 D8  E8  F8
rdna4 32 16x16x16 i8,i8,i32     D8  E8  F8
rdna4 32 16x16x16 f8E4M3,f8E4M3,f32 D8 E8 F8
rdna4 32 16x16x16 f8E4M3,f8E5M2,f32 D8 E8 F8
rdna4 32 16x16x16 f8E5M2,f8E4M3,f32 D8 E8 F8
rdna4 32 16x16x16 f8E5M2,f8E5M2,f32 D8 E8 F8
"""
TILES: Final = _rows()


def offered_tiles(facts: Mapping[str, object]) -> tuple[Tile, ...]:
    """The rows that a target with these facts has; without a fact ``matrix``, those of its subgroup size."""
    wave, named = facts.get("subgroup_size"), facts.get("matrix")
    names: Collection[object] = (named,) if isinstance(named, str) else named if isinstance(named, Collection) else ()
    known = tuple(tile for tile in TILES if tile.name in names)
    return tuple(tile for tile in known or TILES if tile.wave == wave)


def find_placement(
    role: str, rows: int, columns: int, format: str, length: int, tiles: Collection[Tile]
) -> Placement | None:
    """The placement of a fragment in vectors of a length; ``None`` for one that is not defined."""
    if rows * columns == length:
        return Placement(rows, columns, format, "", length, rows, columns, 1)
    for tile in tiles:
        placement = tile.placement(role)
        if (placement.rows, placement.columns, placement.format, placement.length) == (rows, columns, format, length):
            return placement
    return None


@record(eq=False)
class FragmentShape:
    """What a fragment carries: role and extents as values of the program.

    ``origin`` is the operation that says so.
    """

    role: str
    rows: Value
    columns: Value
    origin: Any


_SOURCES: Final = frozenset({"vector.fragment", "vector.fragment.load", "vector.fragment.repack"})


def fragment_shape(value: Value) -> FragmentShape | None:
    """The fragment facts of a value: from its definition, or from what a loop starts with."""
    op: Any = value.defining_op
    if op is None:
        loop: Any = value.owner.parent.parent if isinstance(value.owner, Block) and value.owner.parent else None
        if loop is None or loop.name != "scf.for":
            return None
        # The first argument of the body is the position.
        return fragment_shape(loop.iter_args[value.index - 1]) if value.index else None
    if op.name in _SOURCES:
        return FragmentShape(op.role, op.rows, op.columns, op)
    if op.name == "vector.mma":
        return fragment_shape(op.init)
    if op.name == "scf.for":
        return fragment_shape(op.iter_args[value.index])
    return None
