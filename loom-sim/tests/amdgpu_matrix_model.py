"""An independent model of matrix instructions: one element at a time, on Python numbers.

Where elements are: "AMD Matrix Instruction Calculator", and AMD's articles on WMMA of RDNA 3 and RDNA 4 (GPUOpen). For
waves of 64 on gfx12: ROCm's rocjitsu, and Mesa's RADV for C.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import cache

import attrs
from amdgpu_f8_model import narrowed
from amdgpu_model import signed

BITS = {"f64": 64, "f32": 32, "xf32": 32, "i32": 32, "f16": 16, "bf16": 16, "fp8": 8, "bf8": 8, "i8": 8, "iu8": 8,
        "iu4": 4}  # fmt: skip


@attrs.frozen
class Shape:
    """What the name of a matrix instruction says."""

    name: str
    m: int
    n: int
    k: int
    blocks: int
    a: str
    b: str
    c: str
    sparse: bool
    family: str
    lanes: int

    def counts(self) -> tuple[int, int, int]:
        """Elements of A, B and C in a lane. On gfx11 both halves of the wave hold all of A and B."""
        share = self.lanes if self.family != "gfx11" else 16
        stored = self.k // 2 if self.sparse else self.k
        a, b = (size * self.blocks // share for size in (self.m * stored, self.n * self.k))
        return a, b, self.m * self.n * self.blocks // self.lanes


def parse(name: str, family: str, lanes: int) -> Shape | None:
    """The shape of a mnemonic; None if it is no matrix instruction."""
    match = re.fullmatch(r"v_(mfma|smfmac|wmma|swmmac)_([a-z]+\d+)_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_([a-z0-9]+)(?:_(.f8|fp8))?",
                         name)  # fmt: skip
    if match is None:
        return None
    kind, c, m, n, k, blocks, a, b = match.groups()
    return Shape(name, int(m), int(n), int(k), int(blocks or 1), a, b or a, c, kind in ("smfmac", "swmmac"), family,
                 lanes)  # fmt: skip


def depth_of(s: Shape, lane: int, element: int, count: int) -> tuple[int, int]:
    """Block and column of A (row of B) of an element; its row of A (column of B) is `lane % m`."""
    if s.family == "gfx11":
        return 0, element
    if s.family == "gfx12":
        quarter = lane // 16
        if s.lanes == 64 and (s.sparse or BITS[s.a] == 4) and BITS[s.a] < 16:
            quarter = (0, 2, 1, 3)[quarter]
        return 0, element + count * quarter
    if s.m == 4:
        return lane // 4 % s.blocks, element + count * (lane // (4 * s.blocks))
    if s.blocks == 1:
        return 0, element + count * (lane // s.m)
    return lane // s.m % s.blocks, element + count * (lane // (s.m * s.blocks))


def place_of(s: Shape, lane: int, element: int) -> tuple[int, int]:
    """Block and row of an element of C; its column is `lane % n`."""
    if s.family == "gfx11":
        return 0, s.lanes // 16 * element + lane // 16
    if s.family == "gfx12":
        start = 8 * (lane // 16) if s.lanes == 32 else (0, 8, 4, 12)[lane // 16]
        return 0, element + start
    if s.m == 4:
        return lane // 4 % s.blocks, lane // 16 if s.c == "f64" else element
    if s.c == "f64":
        return 0, 4 * element + lane // 16
    per_block = s.m * s.m // 64
    block, r = divmod(element, per_block)
    return block, 4 * (lane // 16) + r if s.m == 16 else 8 * (r // 4) + 4 * (lane // 32) + r % 4


@cache
def encode(value: int, kind: str, fnuz: bool) -> int:
    """Bits of a small integer in an element type."""
    if kind in ("f32", "xf32", "f64"):
        code = {"f64": "<d"}.get(kind, "<f")
        return int.from_bytes(struct.pack(code, value), "little")
    if kind == "f16":
        return int.from_bytes(struct.pack("<e", value), "little")
    wide = int.from_bytes(struct.pack("<f", value), "little")
    if kind == "bf16":
        return wide >> 16
    if kind in ("fp8", "bf8"):
        return narrowed(wide, kind, fnuz)
    return value & (1 << BITS[kind]) - 1


def decoded(bits: int, kind: str, is_signed: bool) -> int:
    """Value of integer elements."""
    width = BITS[kind]
    return signed(bits, width) if is_signed else bits


def product(
    s: Shape,
    a: Callable[[int, int], int],
    b: Callable[[int, int], int],
    c: Callable[[int, int], int],
    index: Callable[[int, int], int] | None = None,
    a_block: Callable[[int], int] = lambda block: block,
) -> dict[tuple[int, int], int]:
    """Values of D by lane and element.

    Args:
        a, b, c: values of the elements in a lane.
        index: for sparse products, which of four columns a stored element of A belongs to.
        a_block: the block of A that a block of the product uses.
    """
    count_a, count_b, count_c = s.counts()
    left: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    right: dict[tuple[int, int, int], int] = {}
    for lane in range(s.lanes):
        for e in range(count_a):
            block, k = depth_of(s, lane, e, count_a)
            column = 4 * (k // 2) + index(lane, e) if index is not None else k
            entries = left.setdefault((block, lane % s.m, k), [])
            entries[:] = [(column, a(lane, e))]
        for e in range(count_b):
            block, k = depth_of(s, lane, e, count_b)
            right[block, k, lane % s.n] = b(lane, e)
    stored = s.k // 2 if s.sparse else s.k
    result = {}
    for lane in range(s.lanes):
        for e in range(count_c):
            block, row = place_of(s, lane, e)
            total = c(lane, e)
            for k in range(stored):
                for column, value in left[a_block(block), row, k]:
                    total += value * right[block, column, lane % s.n]
            result[lane, e] = total
    return result
