"""Machine code before and after register allocation: values, instructions, blocks, functions.

These are plain slotted classes because the scheduler and the allocator touch every one of them many
times. A :class:`Function` is SSA over :class:`VReg`; block parameters play the part of phis.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from loom.ir.records import record
from loom.low.descriptors import Descriptor, DescriptorSet, Effects


class Kind(enum.IntEnum):
    """What an :class:`Instruction` is; only ``PACKET`` carries a descriptor."""

    PACKET = 0
    COPY = 1
    SLICE = 2
    CONCAT = 3
    LIVE_IN = 4
    FENCE = 5
    SCOPE_BEGIN = 6
    SCOPE_PHASE = 7
    SCOPE_END = 8
    BRANCH = 9
    COND_BRANCH = 10
    RETURN = 11
    ASSUME = 12
    SPILL = 13
    RELOAD = 14
    RESOURCE = 15


class ScheduleMode(enum.Enum):
    """How much of the authored order a function keeps."""

    FREE = "free"
    CONSTRAINED = "constrained"
    LOCKED = "locked"
    PHASED = "phased"


MARKERS: Final = frozenset({Kind.SCOPE_BEGIN, Kind.SCOPE_PHASE, Kind.SCOPE_END})
"""Kinds that only delimit scopes; the scheduler drops them."""

TERMINATORS: Final = frozenset({Kind.BRANCH, Kind.COND_BRANCH, Kind.RETURN})


class VReg:
    """An SSA value held by ``units`` consecutive registers of one class.

    ``fixed`` is the physical unit the value must start at (a live-in, a calling convention).
    """

    __slots__ = ("fixed", "id", "name", "reg_class", "units")

    def __init__(
        self, id: int, reg_class: str, units: int = 1, name: str | None = None, fixed: int | None = None
    ) -> None:
        self.id = id
        self.reg_class = reg_class
        self.units = units
        self.name = name
        self.fixed = fixed

    def __repr__(self) -> str:
        size = f" x{self.units}" if self.units != 1 else ""
        return f"%{self.name or self.id}:{self.reg_class}{size}"


@record
class MemoryAccess:
    """What is known about the address of one memory access, to tell accesses apart.

    Attributes:
        root: identity of the storage it lies in; two known different roots never overlap.
        index: identity of the run-time part of the byte offset.
        begin, end: constant byte range relative to ``root`` + ``index``; comparable only with
            accesses of the same root and index. None when not known.
        invariant: a read of memory nobody writes while the function runs.
    """

    root: str | None = None
    index: object = None
    begin: int | None = None
    end: int | None = None
    invariant: bool = False


class Edge:
    """A control-flow edge and the values it passes to the parameters of its block."""

    __slots__ = ("args", "block")

    def __init__(self, block: Block, args: Sequence[VReg] = ()) -> None:
        self.block = block
        self.args = list(args)

    def __repr__(self) -> str:
        return f"^{self.block.label}({', '.join(map(repr, self.args))})"


class Instruction:
    """One machine instruction or structural operation.

    Attributes:
        kind: see :class:`Kind`.
        descriptor: the instruction of the set, for packets.
        immediates: by name. Structural kinds use ``offset`` (SLICE), ``key`` (LIVE_IN) and
            ``slot`` (SPILL, RELOAD: a slot number, or the storage's VReg id before allocation).
        successors: edges of a terminator, in the order true, false for COND_BRANCH.
        lock: non-zero for instructions of a locked sequence: neighbours with the same number
            keep their order and let nothing in between.
        memory: what is known about the address, if it accesses memory.
        scope_events: (scope, phase) pairs from the outermost open scope inwards; the scheduler
            fills them in when it drops the scope markers.
        origin: the instruction of the input function that an allocated one stands for.
    """

    __slots__ = (
        "descriptor",
        "immediates",
        "kind",
        "loc",
        "lock",
        "memory",
        "operands",
        "origin",
        "results",
        "scope_events",
        "successors",
    )

    def __init__(
        self,
        kind: Kind,
        descriptor: Descriptor | None = None,
        results: Iterable[VReg] = (),
        operands: Iterable[VReg] = (),
        immediates: dict[str, object] | None = None,
        loc: object = None,
        scope_events: tuple[tuple[int, int], ...] = (),
        successors: Iterable[Edge] = (),
        lock: int = 0,
        memory: MemoryAccess | None = None,
        origin: Instruction | None = None,
    ) -> None:
        self.kind = kind
        self.descriptor = descriptor
        self.results = [*results]
        self.operands = [*operands]
        self.immediates: dict[str, object] = immediates if immediates is not None else {}
        self.loc = loc
        self.scope_events = scope_events
        self.successors = [*successors] if successors else []
        self.lock = lock
        self.memory = memory
        self.origin = origin

    @property
    def is_terminator(self) -> bool:
        """True when it ends a block."""
        if self.descriptor is not None:
            return self.descriptor.effects.terminator
        return self.kind in TERMINATORS

    @property
    def effects(self) -> Effects | None:
        """The descriptor's effects; None for structural kinds."""
        return None if self.descriptor is None else self.descriptor.effects

    @property
    def offset(self) -> int:
        """First unit a SLICE takes from its operand."""
        value = self.immediates["offset"]
        assert isinstance(value, int)
        return value

    @property
    def slot(self) -> int:
        """Slot number of a SPILL or RELOAD made by the allocator."""
        value = self.immediates["slot"]
        assert isinstance(value, int)
        return value

    def __repr__(self) -> str:
        what = self.descriptor.mnemonic if self.descriptor is not None else self.kind.name.lower()
        left = ", ".join(map(repr, self.results))
        parts = [repr(value) for value in self.operands]
        parts += [f"{name} = {value!r}" for name, value in self.immediates.items()]
        parts += [repr(edge) for edge in self.successors]
        return (f"{left} = " if left else "") + what + (" " + ", ".join(parts) if parts else "")


class Block:
    """A basic block: parameters, then instructions, the last of which is its terminator."""

    __slots__ = ("instructions", "label", "params")

    def __init__(self, label: str, params: Iterable[VReg] = (), instructions: Iterable[Instruction] = ()) -> None:
        self.label = label
        self.params = list(params)
        self.instructions = list(instructions)

    @property
    def terminator(self) -> Instruction:
        """The last instruction."""
        return self.instructions[-1]

    @property
    def edges(self) -> list[Edge]:
        """Outgoing edges."""
        return self.instructions[-1].successors if self.instructions else []

    def __repr__(self) -> str:
        return f"Block({self.label!r}, {len(self.instructions)} instructions)"


class Function:
    """A machine function: the entry block first; no edge leads to it.

    Parameters of the entry block, where there are any, are live-ins: values that are there when the
    function starts (usually with ``fixed`` set).
    """

    __slots__ = (
        "attributes",
        "blocks",
        "descriptor_set",
        "name",
        "next_id",
        "schedule_mode",
    )

    def __init__(
        self,
        name: str,
        descriptor_set: DescriptorSet,
        blocks: Iterable[Block] = (),
        schedule_mode: ScheduleMode = ScheduleMode.FREE,
        attributes: dict[str, object] | None = None,
    ) -> None:
        self.name = name
        self.descriptor_set = descriptor_set
        self.blocks = list(blocks)
        self.schedule_mode = schedule_mode
        self.attributes: dict[str, object] = attributes if attributes is not None else {}
        self.next_id = 1 + max((value.id for value in self.values()), default=-1)

    def values(self) -> Iterator[VReg]:
        """Every value in order of definition."""
        for block in self.blocks:
            yield from block.params
            for instruction in block.instructions:
                yield from instruction.results

    def new_value(self, reg_class: str, units: int = 1, name: str | None = None, fixed: int | None = None) -> VReg:
        """A value with a fresh id."""
        value = VReg(self.next_id, reg_class, units, name, fixed)
        self.next_id += 1
        return value

    def add_block(self, label: str, params: Iterable[VReg] = ()) -> Block:
        """Append an empty block."""
        block = Block(label, params)
        self.blocks.append(block)
        return block

    def locked_ranges(self, block: Block) -> list[tuple[int, int]]:
        """Half-open index ranges of the locked sequences of one block, live-ins and terminators left out."""
        everything = self.schedule_mode is ScheduleMode.LOCKED
        ranges: list[tuple[int, int]] = []
        if not everything and not any(instruction.lock for instruction in block.instructions):
            return ranges
        begin, current = 0, 0
        for index, instruction in enumerate(block.instructions):
            fixed = instruction.is_terminator or instruction.kind is Kind.LIVE_IN
            lock = 0 if fixed else (-1 if everything else instruction.lock)
            if lock != current:
                if current:
                    ranges.append((begin, index))
                begin, current = index, lock
        if current:
            ranges.append((begin, len(block.instructions)))
        return ranges

    def order(self) -> dict[Block, list[Instruction]]:
        """A snapshot of every block's instruction order, to compare with after scheduling."""
        return {block: list(block.instructions) for block in self.blocks}

    def __repr__(self) -> str:
        return f"Function({self.name!r}, {len(self.blocks)} blocks)"


class Move:
    """A physical register move after allocation: ``units`` units, source and target disjoint."""

    __slots__ = ("dst_unit", "reg_class", "src_class", "src_unit", "units")

    def __init__(self, reg_class: str, dst_unit: int, src_class: str, src_unit: int, units: int = 1) -> None:
        self.reg_class = reg_class
        self.dst_unit = dst_unit
        self.src_class = src_class
        self.src_unit = src_unit
        self.units = units

    def __repr__(self) -> str:
        size = f" x{self.units}" if self.units != 1 else ""
        return f"move {self.reg_class}[{self.dst_unit}] <- {self.src_class}[{self.src_unit}]{size}"


class Swap:
    """An exchange of two physical units, made only where the caller said the target has one."""

    __slots__ = ("first_unit", "reg_class", "second_unit")

    def __init__(self, reg_class: str, first_unit: int, second_unit: int) -> None:
        self.reg_class = reg_class
        self.first_unit = first_unit
        self.second_unit = second_unit

    def __repr__(self) -> str:
        return f"swap {self.reg_class}[{self.first_unit}], [{self.second_unit}]"
