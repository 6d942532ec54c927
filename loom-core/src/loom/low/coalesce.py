"""Grouping values that should share registers into bundles.

A bundle is a set of values with fixed offsets between them and no conflict: tied operands, block
parameters with their arguments, copies, and tuples with their parts. The allocator places a bundle as
a whole, which is what makes CONCAT, SLICE and most copies vanish.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from loom.low.descriptors import RegisterClass
from loom.low.liveness import Liveness, content_units
from loom.low.machine import Block, Function, Instruction, Kind, VReg

Content = tuple[VReg, int]
Lane = list[tuple[int, int, Content]]
"""Disjoint (begin, end, content) segments of one unit in ascending order."""

_MANY_PINNED = 64


class Bundle:
    """Values placed together.

    Attributes:
        bank: register bank.
        members: (value, offset in units from the bundle's first unit).
        lanes: per unit of the bundle, where it is occupied and by what.
        allowed: bit mask of the units the bundle may start at.
        base: the unit it was placed at, -1 before.
    """

    __slots__ = ("allowed", "bank", "base", "hints", "lanes", "members", "weight")

    def __init__(self, bank: str, value: VReg, lanes: list[Lane], allowed: int) -> None:
        self.bank = bank
        self.members: list[tuple[VReg, int]] = [(value, 0)]
        self.lanes = lanes
        self.allowed = allowed
        self.base = -1
        self.weight = 0.0
        self.hints: list[tuple[Bundle, int]] = []

    @property
    def pinned(self) -> bool:
        """True when there is only one place for it."""
        return not self.allowed & (self.allowed - 1)

    @property
    def start(self) -> int:
        """First point at which it is live."""
        if len(self.lanes) == 1:
            return self.lanes[0][0][0]
        return min([lane[0][0] for lane in self.lanes if lane])


class Affinity(NamedTuple):
    """A wish: ``second`` starts ``delta`` units after ``first``."""

    weight: float
    first: VReg
    second: VReg
    delta: int


class TieConflict(NamedTuple):
    """A tied operand that cannot share its result's register as things are."""

    block: Block
    instruction: Instruction
    operand: int


class Bundles:
    """All bundles of a function.

    Attributes:
        where: value -> (bundle, offset); values of classes the set does not have are absent.
        conflicts: ties that could not be kept and need a copy; then nothing else may be relied on.
    """

    def __init__(
        self,
        function: Function,
        liveness: Liveness,
        limits: Mapping[str, int],
        clobbers: Mapping[tuple[str, int], list[tuple[int, int]]],
        depth: Mapping[Block, int],
        separate: set[VReg],
    ) -> None:
        self._function = function
        self._registers = function.descriptor_set.registers
        self._limits = limits
        self._clobbers = clobbers
        self._starts: dict[tuple[str, int], int] = {}
        self._pinned: dict[tuple[str, int], list[Bundle]] = {}
        self.where: dict[VReg, tuple[Bundle, int]] = {}
        self.conflicts: list[TieConflict] = []
        contents, segments = content_units(function), liveness.segments
        for value in liveness.order:
            register_class = self._registers.get(value.reg_class)
            if register_class is None:
                continue
            pieces = segments[value]
            if len(pieces) == 1:
                begin, end = pieces[0]
                lanes = [[(begin, end, unit)] for unit in contents[value]]
            else:
                lanes = [[(begin, end, unit) for begin, end in pieces] for unit in contents[value]]
            fixed = value.fixed
            allowed = self._allowed(register_class, value.units) if fixed is None else 1 << fixed
            bundle = Bundle(register_class.bank, value, lanes, allowed)
            self.where[value] = (bundle, 0)
            if not allowed & (allowed - 1):
                self._register_pinned(bundle)
        self._merge_ties()
        affinities = [
            wish for wish in _affinities(function, depth) if wish.first in self.where and wish.second in self.where
        ]
        affinities.sort(key=lambda wish: -wish.weight)
        apart = [
            wish
            for wish in affinities
            if wish.first in separate or wish.second in separate or not self._merge(*wish[1:])
        ]
        for wish in apart:
            self._hint(wish)

    def all(self) -> list[Bundle]:
        """Every bundle once, in order of its first value's definition."""
        seen: dict[Bundle, None] = {}
        for bundle, _ in self.where.values():
            seen[bundle] = None
        return list(seen)

    def _allowed(self, register_class: RegisterClass, units: int) -> int:
        """Mask of the units at which a value of ``units`` units may start."""
        key = (register_class.name, units)
        known = self._starts.get(key)
        if known is None:
            limit = min(register_class.count, self._limits.get(register_class.name, register_class.count))
            step = register_class.alignment(units)
            reserved = register_class.reserved
            known = 0
            if limit >= units:
                # Every ``step``-th bit, as many as there are starts.
                starts = (limit - units) // step + 1
                known = ((1 << starts * step) - 1) // ((1 << step) - 1)
            for unit in reserved:
                # Not where a value would cover it: from there or from up to units - 1 before.
                known &= ~(((1 << units) - 1) << unit >> (units - 1))
            self._starts[key] = known
        return known

    def _merge_ties(self) -> None:
        for block in self._function.blocks:
            for instruction in block.instructions:
                descriptor = instruction.descriptor
                if descriptor is None:
                    continue
                for result, operand in descriptor.ties:
                    if not self._merge(instruction.operands[operand], instruction.results[result], 0, required=True):
                        self.conflicts.append(TieConflict(block, instruction, operand))

    def _hint(self, wish: Affinity) -> None:
        first, first_offset = self.where[wish.first]
        second, second_offset = self.where[wish.second]
        if first is not second and first.bank == second.bank:
            distance = first_offset + wish.delta - second_offset
            first.hints.append((second, -distance))
            second.hints.append((first, distance))

    def _merge(self, first: VReg, second: VReg, delta: int, *, required: bool = False) -> bool:
        """Put ``second`` ``delta`` units after ``first`` if nothing speaks against it, or would take long to find."""
        into, into_offset = self.where[first]
        other, other_offset = self.where[second]
        distance = into_offset + delta - other_offset
        if into is other:
            return distance == 0
        if into.bank != other.bank:
            return False
        if len(into.members) < len(other.members):
            into, other, distance = other, into, -distance
        low = min(0, distance)
        allowed = (into.allowed >> -low) & (other.allowed >> (distance - low))
        if not allowed:
            return False
        for number, lane in enumerate(other.lanes):
            position = number + distance
            if 0 <= position < len(into.lanes) and lanes_conflict(into.lanes[position], lane):
                return False
        pinned = not allowed & (allowed - 1)
        if pinned and self._blocked(into, other, distance, allowed.bit_length() - 1 - low, required):
            return False
        self._join(into, other, distance, allowed)
        if pinned:
            self._register_pinned(into)
        return True

    def _join(self, into: Bundle, other: Bundle, distance: int, allowed: int) -> None:
        low = min(0, distance)
        if low:
            into.lanes[:0] = [[] for _ in range(-low)]
            into.members = [(value, offset - low) for value, offset in into.members]
            for value, offset in into.members:
                self.where[value] = (into, offset)
        shift = distance - low
        missing = shift + len(other.lanes) - len(into.lanes)
        into.lanes.extend([] for _ in range(missing))
        for number, lane in enumerate(other.lanes):
            into.lanes[number + shift] = _union(into.lanes[number + shift], lane)
        for value, offset in other.members:
            into.members.append((value, offset + shift))
            self.where[value] = (into, offset + shift)
        into.allowed = allowed
        other.members = []
        other.lanes = []

    def _register_pinned(self, bundle: Bundle) -> None:
        if bundle.pinned and bundle.allowed:
            base = bundle.allowed.bit_length() - 1
            for number in range(len(bundle.lanes)):
                known = self._pinned.setdefault((bundle.bank, base + number), [])
                if bundle not in known[-_MANY_PINNED:]:
                    known.append(bundle)

    def _blocked(self, into: Bundle, other: Bundle, distance: int, base: int, required: bool) -> bool:
        """A bundle with one possible place must find it free. ``base`` is the place of ``into``.

        Where many share the place a merge that is not ``required`` is given up without looking.
        """
        for bundle, origin in ((into, base), (other, base + distance)):
            for number, lane in enumerate(bundle.lanes):
                unit = (bundle.bank, origin + number)
                rivals = self._pinned.get(unit, ())
                if len(rivals) > _MANY_PINNED and not required:
                    return True
                if _overlaps(self._clobbers.get(unit, ()), lane):
                    return True
                for rival in rivals:
                    if rival is into or rival is other or not rival.lanes:
                        continue
                    place = origin + number - (rival.allowed.bit_length() - 1)
                    if 0 <= place < len(rival.lanes) and lanes_conflict(rival.lanes[place], lane):
                        return True
        return False


def lanes_conflict(first: Lane, second: Lane) -> bool:
    """True when two occupations of one unit overlap with different content."""
    if len(first) < len(second):
        first, second = second, first
    for begin, end, content in second:
        index = bisect_left(first, (begin,))
        if index and first[index - 1][1] > begin:
            index -= 1
        while index < len(first) and first[index][0] < end:
            if first[index][2] != content:
                return True
            index += 1
    return False


def _overlaps(blocked: Sequence[tuple[int, int]], lane: Lane) -> bool:
    return any(begin < last and first < end for begin, end in blocked for first, last, _ in lane)


def _union(first: Lane, second: Lane) -> Lane:
    """Both occupations; segments that overlap have the same content and become one."""
    if len(first) < len(second):
        first, second = second, first
    for segment in second:
        begin, end, content = segment
        low = bisect_left(first, (begin,))
        if low and first[low - 1][1] > begin:
            low -= 1
        high = low
        while high < len(first) and first[high][0] < end:
            begin, end = min(begin, first[high][0]), max(end, first[high][1])
            high += 1
        first[low:high] = [(begin, end, content)]
    return first


def _affinities(function: Function, depth: Mapping[Block, int]) -> Iterator[Affinity]:
    """Every pair of values that a move would connect, weighted by how often the move would run."""
    for block in function.blocks:
        weight = 8.0 ** min(depth.get(block, 0), 8)
        for instruction in block.instructions:
            kind = instruction.kind
            if kind is Kind.COPY or kind is Kind.ASSUME:
                if not instruction.immediates.get("detached"):
                    yield Affinity(weight, instruction.operands[0], instruction.results[0], 0)
            elif kind is Kind.SLICE:
                yield Affinity(weight, instruction.operands[0], instruction.results[0], instruction.offset)
            elif kind is Kind.CONCAT:
                offset = 0
                for operand in instruction.operands:
                    yield Affinity(weight * 1.5, instruction.results[0], operand, offset)
                    offset += operand.units
            for edge in instruction.successors:
                for param, arg in zip(edge.block.params, edge.args, strict=True):
                    yield Affinity(weight * 1.25, param, arg, 0)
