"""Registers of a group of waves that agree on the program counter.

A register value is an immutable array that broadcasts to `[wave, lane]`: shape (1, 1) when it is the same for all
waves and lanes, (waves, 1) when it is the same for all lanes (every scalar register is one of the two), (waves, lanes)
in general. Operations on uniform values therefore cost next to nothing, and copying a register is sharing it.

When waves diverge, a group is split; registers follow lazily (`Pick`) and are gathered only if the new group reads
them. When groups meet again at the same program counter they are merged, again lazily (`Join`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

VCC_LO, EXEC_LO, SCC = 106, 126, 128
SCALAR_SLOTS = 129
"""Scalar registers by operand code, plus SCC as the last one (a boolean array)."""


class LaneMask:
    """A boolean per lane that a scalar register (pair) holds; packed into words only when somebody needs them."""

    __slots__ = ("bits", "words")

    def __init__(self, bits: Array) -> None:
        self.bits = bits
        self.words: Array | None = None

    def word(self, half: int) -> Array:
        """The 32 lanes from `32 * half` on, as uint32 of shape (waves, 1)."""
        if self.words is None:
            packed = np.packbits(self.bits, axis=-1, bitorder="little")
            self.words = np.ascontiguousarray(packed).view(np.uint32)
        return self.words[:, half : half + 1]


class MaskHalf:
    """What a scalar register holds while its value exists only as a lane mask."""

    __slots__ = ("half", "mask")

    def __init__(self, mask: LaneMask, half: int) -> None:
        self.mask = mask
        self.half = half


class Pick:
    """Rows of a register of the group this one was split from, not gathered yet."""

    __slots__ = ("base", "rows")

    def __init__(self, base: Any, rows: Array) -> None:
        self.base = base
        self.rows = rows


class Join:
    """The rows of several groups' registers one after another, not concatenated yet."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[tuple[Any, int]]) -> None:
        self.parts = parts


class Memo:
    """Keeps lane masks that several registers share shared when they are gathered or concatenated."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[tuple[int, ...], tuple[Any, LaneMask]] = {}

    def pick(self, half: MaskHalf, rows: Array) -> MaskHalf:
        """Gather the rows of a mask."""
        key = (id(half.mask), id(rows))
        entry = self.known.get(key)
        if entry is None:
            bits = half.mask.bits
            mask = LaneMask(bits if bits.shape[0] == 1 else bits[rows])
            entry = self.known[key] = ((half.mask, rows), mask)
        return MaskHalf(entry[1], half.half)

    def join(self, halves: Sequence[MaskHalf], counts: Sequence[int], lanes: int) -> MaskHalf:
        """Concatenate masks."""
        key = tuple(id(h.mask) for h in halves)
        entry = self.known.get(key)
        if entry is None:
            parts = [np.broadcast_to(h.mask.bits, (n, lanes)) for h, n in zip(halves, counts, strict=True)]
            entry = self.known[key] = (tuple(h.mask for h in halves), LaneMask(np.concatenate(parts)))
        return MaskHalf(entry[1], halves[0].half)


def pick(value: Any, rows: Array, composed: dict[int, Array]) -> Any:
    """The lazy selection of rows of a register value.

    `composed` remembers, for one split, how row numbers of an earlier unfinished selection combine with `rows`.
    """
    if value is None:
        return None
    kind = type(value)
    if kind is np.ndarray:
        return value if value.shape[0] == 1 else Pick(value, rows)
    if kind is Pick:
        inner = composed.get(id(value.rows))
        if inner is None:
            inner = composed[id(value.rows)] = value.rows[rows]
        return Pick(value.base, inner)
    return Pick(value, rows)


def resolve(value: Any, memo: Memo, lanes: int) -> Any:
    """Carry out a lazy selection or concatenation; the result is an array, a `MaskHalf` or None."""
    kind = type(value)
    if kind is Pick:
        base = resolve(value.base, memo, lanes)
        if base is None:
            return None
        if type(base) is MaskHalf:
            return memo.pick(base, value.rows)
        return base if base.shape[0] == 1 else base[value.rows]
    if kind is Join:
        values = [(resolve(v, memo, lanes), n) for v, n in value.parts]
        defined = [v for v, _ in values if v is not None]
        if not defined:
            return None
        first = values[0][0]
        if all(v is first for v, _ in values) and type(first) is np.ndarray and first.shape[0] == 1:
            return first
        if all(type(v) is MaskHalf for v, _ in values):
            return memo.join([v for v, _ in values], [n for _, n in values], lanes)
        arrays = [(as_words(v), n) for v, n in values]
        width = max(a.shape[1] for a, _ in arrays)
        return np.concatenate([np.broadcast_to(a, (n, width)) for a, n in arrays])
    return value


UNDEFINED = np.full((1, 1), 0xBADBAD00, np.uint32)
"""What a register that nothing wrote reads as; `checks` decides whether reading it is a fault."""


def as_words(value: Any) -> Array:
    """A resolved register value as an array."""
    if value is None:
        return UNDEFINED
    if type(value) is MaskHalf:
        return value.mask.word(value.half)
    result: Array = value
    return result


class Group:
    """Waves at one program counter.

    Attributes:
        pc: address of the next instruction.
        key: what code is specialized on besides the address (see `blocks.BlockKey`).
        waves: indices of the waves within the batch, shape (n,), in ascending order of creation.
        v, s: register values by index (see module docstring); `None` is a register nothing wrote.
        xv, xs: undefined bits of registers that are not fully defined, by index.
        exec: active lanes, bool of shape (n, lanes).
        full: all lanes of all waves are active.
        loads_undefined: the next instruction loads memory that nothing wrote.
    """

    __slots__ = (
        "exec",
        "full",
        "key",
        "lanes",
        "loads_undefined",
        "machine",
        "memo",
        "pc",
        "s",
        "tick",
        "v",
        "waves",
        "xs",
        "xv",
    )

    def __init__(self, machine: Any, waves: Array, lanes: int) -> None:
        self.machine = machine
        self.waves = waves
        self.lanes = lanes
        self.pc = 0
        self.key: Any = None
        self.v: list[Any] = []
        self.s: list[Any] = [None] * SCALAR_SLOTS
        self.xv: dict[int, Any] = {}
        self.xs: dict[int, Any] = {}
        self.exec: Array = np.ones((len(waves), lanes), bool)
        self.full = True
        self.loads_undefined = False
        self.memo = Memo()
        self.tick = 0

    def set_exec(self, mask: Array) -> None:
        """Replace the active lanes; the EXEC words follow."""
        shape = (len(self.waves), self.lanes)
        self.exec = mask if mask.shape == shape else np.broadcast_to(mask, shape)
        self.full = bool(self.exec.all())
        shared = LaneMask(self.exec)
        self.s[EXEC_LO] = MaskHalf(shared, 0)
        if self.lanes == 64:
            self.s[EXEC_LO + 1] = MaskHalf(shared, 1)

    def need_vectors(self, registers: Sequence[int]) -> None:
        """Make the listed vector registers plain arrays."""
        v = self.v
        for r in registers:
            value = v[r]
            if type(value) is not np.ndarray:
                v[r] = as_words(resolve(value, self.memo, self.lanes))

    def need_scalars(self, registers: Sequence[int]) -> None:
        """Make the listed scalar registers plain arrays."""
        s = self.s
        for r in registers:
            value = s[r]
            if type(value) is not np.ndarray:
                s[r] = as_words(resolve(value, self.memo, self.lanes))

    def lane_mask(self, register: int) -> Array:
        """A scalar register (wave32) or pair (wave64) as booleans per lane."""
        s = self.s
        low = s[register] = resolve(s[register], self.memo, self.lanes)
        if self.lanes == 32:
            if type(low) is MaskHalf and low.half == 0:
                return low.mask.bits
            return unpack(as_words(low))
        high = s[register + 1] = resolve(s[register + 1], self.memo, self.lanes)
        if type(low) is MaskHalf and type(high) is MaskHalf and low.mask is high.mask and low.half == 0:
            return low.mask.bits
        a, b = np.broadcast_arrays(as_words(low), as_words(high))
        return unpack(np.concatenate((a, b), axis=1))

    def _settle(self) -> None:
        """Carry out unfinished concatenations, so that selections of selections stay one step deep."""
        for file in (self.v, self.s):
            for r, value in enumerate(file):
                if type(value) is Join:
                    file[r] = resolve(value, self.memo, self.lanes)
        for table in (self.xv, self.xs):
            for r, value in table.items():
                if type(value) is Join:
                    table[r] = resolve(value, self.memo, self.lanes)

    def split(self, rows: Array) -> Group:
        """A new group of the waves in these rows; this group is not changed."""
        child = Group.__new__(Group)
        child.machine = self.machine
        child.waves = self.waves[rows]
        child.lanes = self.lanes
        child.pc = self.pc
        child.key = self.key
        composed: dict[int, Array] = {}
        self._settle()
        child.v = [None if x is None else pick(x, rows, composed) for x in self.v]
        child.s = [None if x is None else pick(x, rows, composed) for x in self.s]
        child.xv = {r: pick(x, rows, composed) for r, x in self.xv.items()}
        child.xs = {r: pick(x, rows, composed) for r, x in self.xs.items()}
        child.exec = self.exec[rows]
        child.full = self.full or bool(child.exec.all())
        child.loads_undefined = self.loads_undefined
        child.memo = Memo()
        child.tick = self.tick
        return child


def _join(values: list[Any], counts: list[int]) -> Any:
    first = values[0]
    if all(v is first for v in values) and (first is None or (type(first) is np.ndarray and first.shape[0] == 1)):
        return first
    parts: list[tuple[Any, int]] = []
    for value, count in zip(values, counts, strict=True):
        if type(value) is Join:
            parts.extend(value.parts)
        else:
            parts.append((value, count))
    return Join(parts)


def merge(groups: list[Group]) -> Group:
    """One group of all waves of `groups`, which agree on `pc` and `key`."""
    first = groups[0]
    if len(groups) == 1:
        return first
    counts = [len(g.waves) for g in groups]
    result = Group.__new__(Group)
    result.machine = first.machine
    result.waves = np.concatenate([g.waves for g in groups])
    result.lanes = first.lanes
    result.pc = first.pc
    result.key = first.key
    result.v, result.xv = _join_all([g.v for g in groups], [g.xv for g in groups], counts)
    result.s, result.xs = _join_all([g.s for g in groups], [g.xs for g in groups], counts)
    result.exec = np.concatenate([g.exec for g in groups])
    result.full = all(g.full for g in groups)
    result.loads_undefined = any(g.loads_undefined for g in groups)
    result.memo = Memo()
    result.tick = min(g.tick for g in groups)
    return result


_NOTHING = np.zeros((1, 1), np.uint32)
_EVERYTHING = np.full((1, 1), 0xFFFFFFFF, np.uint32)


def _join_all(
    files: list[list[Any]], undefined: list[dict[int, Any]], counts: list[int]
) -> tuple[list[Any], dict[int, Any]]:
    """Join register files; a register that only some groups have defined keeps the rest marked as undefined."""
    joined = [_join(list(values), counts) for values in zip(*files, strict=True)]
    marks: dict[int, Any] = {}
    suspects = {r for table in undefined for r in table}
    suspects.update(r for r, v in enumerate(joined) if type(v) is Join and any(p is None for p, _ in v.parts))
    for r in suspects:
        parts = [
            _EVERYTHING if file[r] is None else table.get(r, _NOTHING)
            for file, table in zip(files, undefined, strict=True)
        ]
        marks[r] = _join(parts, counts)
    return joined, marks


def unpack(words: Array) -> Array:
    """Lane masks from words: (n, k) uint32 to (n, 32 * k) bool."""
    data = np.ascontiguousarray(words, np.uint32).view(np.uint8)
    return np.unpackbits(data, axis=-1, bitorder="little").view(bool)
