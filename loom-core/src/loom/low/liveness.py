"""Liveness over the SSA machine CFG, register pressure and next-use distances.

Program points: the instructions of all blocks are numbered in block order, each block taking one
number for its header and one per instruction. Number ``n`` has two points, ``2n`` (operands are
read) and ``2n + 1`` (results are written), so an operand that dies and a result that begins in one
instruction may share a register. Operands of an instruction with an early-clobber result stay live to
the end of the number, except one tied to such a result. Segments are half-open.
"""

from __future__ import annotations

from collections.abc import Mapping

from loom.low.cfg import reverse_postorder
from loom.low.machine import Block, Function, Instruction, Kind, VReg

Segment = tuple[int, int]


def backward_flow(
    function: Function, upward: Mapping[Block, int], local: Mapping[Block, int]
) -> tuple[dict[Block, int], dict[Block, int]]:
    """What is live at the start and at the end of each block, as bit masks.

    ``upward`` are the bits that a block needs from outside, ``local`` those that it defines for others.
    """
    live_in = dict(upward)
    live_out = dict.fromkeys(function.blocks, 0)
    changed = True
    while changed:
        changed = False
        for block in reversed(function.blocks):
            out = 0
            for edge in block.edges:
                out |= live_in[edge.block]
            if out == live_out[block]:
                continue
            live_out[block] = out
            new = upward[block] | (out & ~local[block])
            if new != live_in[block]:
                live_in[block] = new
                changed = True
    return live_in, live_out


class Liveness:
    """Where each value of a function is live.

    Attributes:
        start: block -> number of its header.
        end: block -> number after its last instruction.
        segments: value -> live segments in ascending order, disjoint and merged where they touch.
            A value that is never used still has the point at which it is written.
        order: every value, by definition.
    """

    __slots__ = ("_bits", "_live_in", "_live_out", "_segments", "end", "function", "order", "start")

    def __init__(self, function: Function) -> None:
        self.function = function
        self.start: dict[Block, int] = {}
        self.end: dict[Block, int] = {}
        self._segments: dict[VReg, list[Segment]] | None = None
        number = 0
        for block in function.blocks:
            self.start[block] = number
            number += 1 + len(block.instructions)
            self.end[block] = number
        self.order: list[VReg] = []
        self._bits: list[VReg] = []
        self._live_in: dict[Block, int] = {}
        self._live_out: dict[Block, int] = {}
        self._dataflow()

    @property
    def segments(self) -> dict[VReg, list[Segment]]:
        """See :class:`Liveness`; found when first asked for."""
        if self._segments is None:
            self._segments = self._find_segments()
        return self._segments

    def live_in(self, block: Block) -> list[VReg]:
        """Values defined elsewhere that are live at the start of ``block``."""
        return self._values(self._live_in[block])

    def live_out(self, block: Block) -> list[VReg]:
        """Values live after ``block``, the arguments of its edge left out."""
        return self._values(self._live_out[block])

    def live_at(self, value: VReg, point: int) -> bool:
        """True when ``value`` is live at a program point."""
        return any(begin <= point < end for begin, end in self.segments[value])

    def _values(self, mask: int) -> list[VReg]:
        # The lowest bit first. Searching text is as fast as machines can look for the next bit of a wide mask.
        digits, bits = bin(mask)[:1:-1], self._bits
        values = []
        place = digits.find("1")
        while place >= 0:
            values.append(bits[place])
            place = digits.find("1", place + 1)
        return values

    def _dataflow(self) -> None:
        """Backward dataflow on bit masks, over those values only that leave their block."""
        function = self.function
        home: dict[VReg, Block] = {}
        for block in function.blocks:
            for value in block.params:
                home[value] = block
            for instruction in block.instructions:
                for value in instruction.results:
                    home[value] = block
        self.order = list(home)
        index: dict[VReg, int] = {}
        upward: dict[Block, int] = {}
        for block in function.blocks:
            mask = 0
            for value in block_uses(block):
                place = home.get(value)
                if place is block:
                    continue
                if place is None:
                    raise ValueError(f"{value!r} is used in ^{block.label} but defined nowhere")
                bit = index.get(value)
                if bit is None:
                    bit = index[value] = len(index)
                    self._bits.append(value)
                mask |= 1 << bit
            upward[block] = mask
        local = dict.fromkeys(function.blocks, 0)
        for value, bit in index.items():
            local[home[value]] |= 1 << bit
        live_in, live_out = backward_flow(function, upward, local)
        entry = function.blocks[0]
        if live_in[entry]:
            value = self._values(live_in[entry])[0]
            raise ValueError(f"{value!r} may be used before it is defined")
        self._live_in, self._live_out = live_in, live_out

    def _find_segments(self) -> dict[VReg, list[Segment]]:
        """Walk every block backward; blocks last to first, so segments come in descending order.

        A segment stays open from block to block as long as the block before leaves the value alive.
        """
        segments: dict[VReg, list[Segment]] = {value: [] for value in self.order}
        ends: dict[VReg, int] = {}
        for block in reversed(self.function.blocks):
            point = last = 2 * self.end[block]
            live = dict.fromkeys(self._values(self._live_out[block]), last)
            for value in ends.keys() - live.keys():
                segments[value].append((last, ends.pop(value)))
            ends = live | ends
            for instruction in reversed(block.instructions):
                point -= 2
                for value in instruction.results:
                    segments[value].append((point + 1, ends.pop(value, point + 2)))
                if instruction.descriptor is not None and instruction.descriptor.clobbers_early:
                    for value in clobbered_early(instruction):
                        ends.setdefault(value, point + 2)
                for edge in instruction.successors:
                    for value in edge.args:
                        ends.setdefault(value, point + 1)
                for value in instruction.operands:
                    ends.setdefault(value, point + 1)
            first = 2 * self.start[block]
            for value in block.params:
                segments[value].append((first + 1, ends.pop(value, first + 2)))
        for value, end in ends.items():
            segments[value].append((0, end))
        for value, pieces in segments.items():
            if len(pieces) > 1:
                segments[value] = _merge(pieces)
        return segments


def block_uses(block: Block) -> list[VReg]:
    """Every operand and edge argument of a block, in order, with repetitions."""
    uses: list[VReg] = []
    for instruction in block.instructions:
        uses += instruction.operands
        for edge in instruction.successors:
            uses += edge.args
    return uses


def clobbered_early(instruction: Instruction) -> list[VReg]:
    """Operands that an early-clobber result of a packet must keep clear of."""
    descriptor = instruction.descriptor
    if descriptor is None or not descriptor.clobbers_early:
        return []
    # A tied operand shares the register of its own result, which no other result can have.
    tied = {operand for _, operand in descriptor.ties}
    return [value for number, value in enumerate(instruction.operands) if number not in tied]


def _merge(descending: list[Segment]) -> list[Segment]:
    merged: list[Segment] = []
    for begin, end in reversed(descending):
        if merged and merged[-1][1] == begin:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((begin, end))
    return merged


def pressure(function: Function, liveness: Liveness | None = None) -> dict[str, int]:
    """Bank -> largest number of units live at once anywhere in the function."""
    live = liveness if liveness is not None else Liveness(function)
    registers = function.descriptor_set.registers
    changes: dict[str, dict[int, int]] = {}
    for value, pieces in live.segments.items():
        register_class = registers.get(value.reg_class)
        if register_class is None:
            continue
        deltas = changes.setdefault(register_class.bank, {})
        for begin, end in pieces:
            deltas[begin] = deltas.get(begin, 0) + value.units
            deltas[end] = deltas.get(end, 0) - value.units
    result = {}
    for bank, deltas in changes.items():
        now = most = 0
        for point in sorted(deltas):
            now += deltas[point]
            most = max(most, now)
        result[bank] = most
    return result


def content_units(function: Function) -> dict[VReg, tuple[tuple[VReg, int], ...]]:
    """Value -> what each of its units holds, looking through COPY, ASSUME, SLICE and CONCAT.

    Values of unreachable blocks are left out. Two units with the same entry hold the same bits
    wherever both are live: definitions dominate uses, so a copy made in an earlier iteration cannot be
    live across its source's next definition.
    A copy into another bank holds something of its own: reading one lane of a vector, for example,
    loses what the other lanes held.
    """
    content: dict[VReg, tuple[tuple[VReg, int], ...]] = {}
    registers = function.descriptor_set.registers

    def own(value: VReg) -> tuple[tuple[VReg, int], ...]:
        return ((value, 0),) if value.units == 1 else tuple([(value, unit) for unit in range(value.units)])

    for block in reverse_postorder(function):
        for value in block.params:
            content[value] = own(value)
        for instruction in block.instructions:
            kind = instruction.kind
            if kind is Kind.COPY or kind is Kind.ASSUME:
                source, result = instruction.operands[0], instruction.results[0]
                same = registers.get(source.reg_class) is not None and (
                    source.reg_class == result.reg_class
                    or registers[source.reg_class].bank == registers[result.reg_class].bank
                )
                content[result] = content[source] if same else own(result)
            elif kind is Kind.SLICE:
                begin, result = instruction.offset, instruction.results[0]
                content[result] = content[instruction.operands[0]][begin : begin + result.units]
            elif kind is Kind.CONCAT:
                content[instruction.results[0]] = tuple(
                    unit for operand in instruction.operands for unit in content[operand]
                )
            else:
                for value in instruction.results:
                    content[value] = own(value)
    return content
