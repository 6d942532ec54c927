"""Registers that instructions touch without naming them: condition bits, masks, modes.

An SSA value of a class that cannot be spilled lives in such a register, so defining it counts as a
write and using it as a read of the registers its class stands for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from loom.low.descriptors import Descriptor, RegisterClass
from loom.low.liveness import Liveness
from loom.low.machine import Block, Function, Instruction, Kind, VReg

_REGISTER_MOVES = frozenset({Kind.COPY, Kind.SLICE, Kind.CONCAT, Kind.RELOAD, Kind.SPILL})


class ImplicitEffects:
    """Looks up the implicit registers of instructions of one descriptor set.

    Packets without values in registers of their own are what most of a function is; each instruction is looked at once.
    """

    __slots__ = ("_known", "_masks", "_names")

    def __init__(self, registers: Mapping[str, RegisterClass]) -> None:
        self._names = {
            name: tuple(register_class.named or ())
            for name, register_class in registers.items()
            if not register_class.spillable and register_class.named
        }
        self._masks = {name: (cls.mask,) for name, cls in registers.items() if cls.mask}
        self._known: dict[Instruction, tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def __call__(self, instruction: Instruction) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(names read, names written) by one instruction."""
        found = self._known.get(instruction)
        if found is None:
            found = self._known[instruction] = self._look_up(instruction)
        return found

    def _look_up(self, instruction: Instruction) -> tuple[tuple[str, ...], tuple[str, ...]]:
        descriptor = instruction.descriptor
        reads: tuple[str, ...] = ()
        writes: tuple[str, ...] = ()
        if descriptor is not None:
            reads, writes = descriptor.effects.implicit_reads, descriptor.effects.implicit_writes
        elif instruction.kind in _REGISTER_MOVES:
            for value in (*instruction.results, *instruction.operands):
                reads += self._masks.get(value.reg_class, ())
        names = self._names
        if names:
            for value in instruction.operands:
                if value.reg_class in names:
                    reads += names[value.reg_class]
            for edge in instruction.successors:
                for value in edge.args:
                    if value.reg_class in names:
                        reads += names[value.reg_class]
            for value in instruction.results:
                if value.reg_class in names:
                    writes += names[value.reg_class]
        return reads, writes


Touched = tuple[tuple[str, ...], tuple[str, ...]]
"""Names of implicit registers read and written by one instruction."""


def implicit_live_out(function: Function, effects: ImplicitEffects) -> dict[Block, frozenset[str]]:
    """Block -> implicit registers that some path reads after the block before writing them.

    The function attribute ``implicit_live_out`` (an iterable of names) says what callers still read
    after a return.
    """
    return _live_out(function, {block: [effects(inst) for inst in block.instructions] for block in function.blocks})


class _Bits(dict[tuple[str, ...], int]):
    """Sets of names as bits; few sets of few names occur."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._sets: dict[int, frozenset[str]] = {0: frozenset()}

    def __missing__(self, names: tuple[str, ...]) -> int:
        bits = 0
        for name in names:
            bits |= 1 << self._names.setdefault(name, len(self._names))
        self[names] = bits
        return bits

    def names(self, bits: int) -> frozenset[str]:
        """The names of a set."""
        if bits not in self._sets:
            self._sets[bits] = frozenset(name for name, place in self._names.items() if bits >> place & 1)
        return self._sets[bits]


def _live_out(function: Function, touched: Mapping[Block, Iterable[Touched]]) -> dict[Block, frozenset[str]]:
    """See :func:`implicit_live_out`; ``touched`` has what the instructions of each block touch, in order."""
    bits = _Bits()
    at_exit = bits[_exit_names(function)]
    exposed: dict[Block, int] = {}
    killed: dict[Block, int] = {}
    for block in function.blocks:
        reads = writes = 0
        for read, written in touched[block]:
            reads |= bits[read] & ~writes
            if written:
                writes |= bits[written]
        exposed[block], killed[block] = reads, writes
    live_in = dict(exposed)
    live_out = dict.fromkeys(function.blocks, 0)
    changed = True
    while changed:
        changed = False
        for block in reversed(function.blocks):
            out = 0 if block.edges else at_exit
            for edge in block.edges:
                out |= live_in[edge.block]
            if out != live_out[block]:
                live_out[block] = out
                changed = True
            live_in[block] = exposed[block] | (out & ~killed[block])
    return {block: bits.names(out) for block, out in live_out.items()}


def _exit_names(function: Function) -> tuple[str, ...]:
    names = function.attributes.get("implicit_live_out", ())
    assert isinstance(names, tuple | list | frozenset | set)
    return tuple(names)


def clobbers(function: Function, liveness: Liveness) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """(bank, unit) -> segments during which implicit effects occupy it, ascending.

    A written register is occupied from the write to its last implicit reader. An SSA value that is
    itself the result or an operand of the instruction stands for the implicit access of its bank.
    """
    units: dict[str, list[tuple[str, int]]] = {}
    for register_class in function.descriptor_set.registers.values():
        for name, (first, count) in (register_class.named or {}).items():
            places = units.setdefault(name, [])
            places += [
                (register_class.bank, unit)
                for unit in range(first, first + count)
                if (register_class.bank, unit) not in places
            ]
    if not units:
        return {}
    touching = _touching(function, units)
    live_out = _live_out(function, {block: [entry[2] for entry in found] for block, found in touching.items()})
    result: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for block in reversed(function.blocks):
        ends = {name: 2 * liveness.end[block] for name in live_out[block] if name in units}
        first = 2 * liveness.start[block] + 2
        for position, instruction, (reads, writes) in reversed(touching[block]):
            point = first + 2 * position
            for name in writes:
                end = ends.pop(name, point + 2)
                begin = point + 1
                for value in instruction.results:
                    if _stands_for(function, [value], units[name]):
                        # The register holds the value itself for as long as that lives.
                        begin = max(begin, _end_of(liveness, value, point + 1))
                if begin < end:
                    _occupy(result, units[name], begin, end)
            for name in reads:
                if not _stands_for(function, instruction.operands, units[name]):
                    ends.setdefault(name, point + 1)
        for name, end in ends.items():
            _occupy(result, units[name], 2 * liveness.start[block], end)
    for pieces in result.values():
        pieces.reverse()
    return result


def _touching(function: Function, names: Collection[str]) -> dict[Block, list[tuple[int, Instruction, Touched]]]:
    """Per block the packets that touch some of the names, by position, with those that they read and write."""
    known: dict[Descriptor, Touched | None] = {}
    found: dict[Block, list[tuple[int, Instruction, Touched]]] = {}
    for block in function.blocks:
        entries = found[block] = []
        for position, instruction in enumerate(block.instructions):
            descriptor = instruction.descriptor
            if descriptor is None:
                continue
            if descriptor not in known:
                effects = descriptor.effects
                reads = tuple(name for name in effects.implicit_reads if name in names)
                writes = tuple(name for name in effects.implicit_writes if name in names)
                known[descriptor] = (reads, writes) if reads or writes else None
            touched = known[descriptor]
            if touched is not None:
                entries.append((position, instruction, touched))
    return found


def _end_of(liveness: Liveness, value: VReg, point: int) -> int:
    """End of the live segment of ``value`` that covers ``point``."""
    return next(end for begin, end in liveness.segments[value] if begin <= point < end)


def _stands_for(function: Function, values: list[VReg], places: list[tuple[str, int]]) -> bool:
    registers = function.descriptor_set.registers
    banks = {bank for bank, _ in places}
    for value in values:
        register_class = registers.get(value.reg_class)
        if register_class is not None and not register_class.spillable and register_class.bank in banks:
            return True
    return False


def _occupy(
    result: dict[tuple[str, int], list[tuple[int, int]]],
    places: list[tuple[str, int]],
    begin: int,
    end: int,
) -> None:
    """Add a segment in front; segments of one register come in descending order."""
    for place in places:
        pieces = result.setdefault(place, [])
        if pieces and pieces[-1][0] <= end:
            pieces[-1] = (begin, max(end, pieces[-1][1]))
        else:
            pieces.append((begin, end))
