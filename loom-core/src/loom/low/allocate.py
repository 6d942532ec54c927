"""Register allocation: from SSA machine code to physical registers.

Rounds of: liveness, bundles of values that should share registers (:mod:`loom.low.coalesce`), one
linear scan per bank (:mod:`loom.low.linear_scan`). A round that finds no place for something takes
bundles apart or moves values to memory (:mod:`loom.low.spill`) and starts over. A value keeps one
place for its whole life: under a lane mask, moving it half way would lose the masked-off lanes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from loom.ir.records import field, record
from loom.low.cfg import loop_depths, reverse_postorder, verify_structure
from loom.low.coalesce import Bundle, Bundles
from loom.low.descriptors import RegisterClass
from loom.low.implicit import clobbers
from loom.low.linear_scan import NEVER, AllocationError, BankScan, Piece
from loom.low.liveness import Liveness, block_uses
from loom.low.lower_ssa import FinalBlock, final_blocks
from loom.low.machine import MARKERS, Block, Edge, Function, Instruction, Kind, VReg
from loom.low.parallel_copy import NoScratch
from loom.low.slots import Slot, pack_slots
from loom.low.spill import SpillRewriter, SpillSlots, copy_out, rematerializable
from loom.low.ties import copy_live_tied_operands, insert_copy

__all__ = ["Allocation", "AllocationError", "allocate", "clone"]

_MAX_ROUNDS = 200
_PATIENCE = 6
"""Rounds after which tuples are placed first and no more moves are avoided at any price."""


@record
class Allocation:
    """The result of :func:`allocate`.

    Attributes:
        function: the rewritten function; its instructions name their ``origin`` in the input.
        assign: value -> first physical unit.
        blocks: what to emit, per block.
        slots: spill slots by number.
        spill_units: bank -> units of spill memory.
        high_water: register class -> number of units up to the highest one used (0 if none).
        moves, spills, reloads, rematerialized: how many of each were inserted.
    """

    function: Function
    assign: Mapping[VReg, int]
    blocks: list[FinalBlock]
    slots: list[Slot] = field(factory=list)
    spill_units: Mapping[str, int] = field(factory=dict)
    high_water: Mapping[str, int] = field(factory=dict)
    moves: int = 0
    spills: int = 0
    reloads: int = 0
    rematerialized: int = 0


def clone(function: Function) -> Function:
    """A copy with its own blocks and instructions and the same values; scope markers, fences and
    unreachable blocks are left out."""
    order = set(reverse_postorder(function))
    kept = [block for block in function.blocks if block in order]
    blocks = {block: Block(block.label, block.params) for block in kept}
    for block, copy in blocks.items():
        for inst in block.instructions:
            if inst.kind in MARKERS or inst.kind is Kind.FENCE:
                continue
            fresh = Instruction(
                inst.kind,
                inst.descriptor,
                inst.results,
                inst.operands,
                inst.immediates,
                inst.loc,
                inst.scope_events,
                [Edge(blocks[edge.block], edge.args) for edge in inst.successors],
                inst.lock,
                inst.memory,
                inst,
            )
            copy.instructions.append(fresh)
    result = Function(
        function.name,
        function.descriptor_set,
        blocks.values(),
        function.schedule_mode,
        dict(function.attributes),
    )
    result.next_id = max(result.next_id, function.next_id)
    return result


def allocate(
    function: Function,
    budget: Mapping[str, int] | None = None,
    can_swap: Collection[str] = (),
) -> Allocation:
    """Give every value a physical register.

    Args:
        function: SSA machine code; not changed.
        budget: register class -> units that may be used (all of the class where absent).
        can_swap: classes for which the target can exchange two registers; elsewhere a cycle of moves
            takes a free register.

    Raises:
        AllocationError: a value that cannot be saved is live where its register is overwritten, or one
            instruction needs more registers than there are.
        MachineError: the function is malformed.
    """
    verify_structure(function)
    return _Allocator(clone(function), dict(budget or {}), can_swap).run()


class _Allocator:
    def __init__(self, function: Function, limits: dict[str, int], can_swap: Collection[str]) -> None:
        self._function = function
        self._registers = function.descriptor_set.registers
        self._budget = limits
        self._limits = dict(limits)
        """the budget without the registers kept back for cycles of moves"""
        self._can_swap = can_swap
        self._slots = SpillSlots()
        self._needed: set[VReg] = set()
        self._separate: set[VReg] = set()
        self._params = {param for block in function.blocks[1:] for param in block.params}
        self._depth = loop_depths(function)
        self._again = rematerializable(function)
        self._contested: tuple[VReg, int]
        """what the last attempt had no register for, and at which point"""

    def run(self) -> Allocation:
        liveness = Liveness(self._function)
        changed = copy_live_tied_operands(self._function, liveness) > 0
        for number in range(_MAX_ROUNDS):
            if changed:
                liveness = Liveness(self._function)
            changed = True
            try:
                result = self._round(liveness, number)
            except NoScratch as error:
                self._contested = next(iter(liveness.order)), 0
                self._reserve_scratch(error, liveness)
                continue
            except AllocationError as error:
                raise self._located(error, liveness) from None
            if result is not None:
                return result
        value, point = self._contested
        why = f"still contested after {_MAX_ROUNDS} attempts"
        raise self._located(AllocationError(value.reg_class, value, point, why), Liveness(self._function))

    def _round(self, liveness: Liveness, number: int) -> Allocation | None:
        """One attempt; None when the function was changed and another is needed."""
        function = self._function
        blocked = clobbers(function, liveness)
        bundles = Bundles(function, liveness, self._limits, blocked, self._depth, self._separate)
        if bundles.conflicts:
            for block, instruction, operand in bundles.conflicts:
                position = block.instructions.index(instruction)
                self._contested = instruction.operands[operand], liveness.start[block] * 2
                block.instructions.insert(position, insert_copy(function, instruction, operand))
            return None
        by_bank: dict[str, list[Bundle]] = {}
        groups = bundles.all()
        self._weigh(groups, liveness)
        for bundle in groups:
            by_bank.setdefault(bundle.bank, []).append(bundle)
        evicted: list[tuple[Bundle, list[Piece]]] = []
        for bank, members in by_bank.items():
            units = self._bank_units(bank, members)
            held = {unit: pieces for (name, unit), pieces in blocked.items() if name == bank and unit < units}
            scan = BankScan(units, held)
            scan.run(members, wide_first=number >= _PATIENCE)
            evicted += scan.evicted
        if evicted:
            bundle, pieces = evicted[0]
            self._contested = bundle.members[0][0], pieces[0][0]
            self._make_progress(evicted, liveness)
            return None
        assign = {value: bundle.base + offset for value, (bundle, offset) in bundles.where.items()}
        return self._finish(liveness, assign, groups, blocked)

    def _bank_units(self, bank: str, bundles: list[Bundle]) -> int:
        counts = [cls.count for cls in self._registers.values() if cls.bank == bank]
        highest = [bundle.allowed.bit_length() - 1 + len(bundle.lanes) for bundle in bundles]
        return max(counts + highest)

    def _weigh(self, bundles: list[Bundle], liveness: Liveness) -> None:
        """Cost of memory per point of life; NEVER for bundles memory cannot help."""
        touched: dict[float, list[VReg]] = {}
        for block in self._function.blocks:
            values = touched.setdefault(8.0 ** min(self._depth.get(block, 0), 8), [])
            values += block.params
            for instruction in block.instructions:
                values += instruction.results
            values += block_uses(block)
        uses: dict[VReg, float] = dict.fromkeys(liveness.order, 0.0)
        for weight, values in touched.items():
            for value, count in Counter(values).items():
                uses[value] += count * weight
        for bundle in bundles:
            cost, length, helps = 0.0, 1, False
            for value, _ in bundle.members:
                lives = self._length(value, liveness)
                helps = helps or self._spillable(value, lives)
                cost += uses[value] * (0.25 if value in self._again else 1.0) * value.units
                length += lives * value.units
            bundle.weight = cost / length if helps else NEVER

    def _spillable(self, value: VReg, length: int) -> bool:
        """Block parameters can always go to memory, other values unless they live for an instant."""
        if value in self._needed or not self._registers[value.reg_class].spillable:
            return False
        return length > 2 or value in self._params

    def _length(self, value: VReg, liveness: Liveness) -> int:
        """Points at which a value lives."""
        length = 0
        for begin, end in liveness.segments[value]:
            length += end - begin
        return length

    def _make_progress(self, evicted: list[tuple[Bundle, list[Piece]]], liveness: Liveness) -> None:
        plan: dict[VReg, int] = {}
        slots: dict[tuple[Bundle, int, str, int], int] = {}
        fixed: list[VReg] = []
        for bundle, needed in evicted:
            for value, offset in self._victims(bundle, needed, liveness):
                if value in plan or value in fixed:
                    continue
                if value.fixed is not None and value not in self._slots.saved:
                    fixed.append(value)
                elif value in self._again:
                    plan[value] = -1
                elif value in self._slots.saved:
                    plan[value] = self._slots.saved[value]
                else:
                    key = (bundle, offset, value.reg_class, value.units)
                    if key not in slots:
                        slots[key] = self._slots.new(value.reg_class, value.units)
                    plan[value] = slots[key]
        if plan:
            self._needed |= SpillRewriter(self._function, plan, self._again, self._slots).run()
            self._again = {value: inst for value, inst in self._again.items() if value not in plan}
        if fixed:
            moved = copy_out(self._function, fixed)
            self._needed.update(moved)
            self._separate.update(moved.values())

    def _victims(self, bundle: Bundle, needed: list[Piece], liveness: Liveness) -> list[tuple[VReg, int]]:
        """Values of an evicted bundle to move to memory; none when taking it apart may do."""
        spillable = [entry for entry in bundle.members if self._spillable(entry[0], self._length(entry[0], liveness))]
        low = min(begin for begin, _ in needed)
        high = max(end for _, end in needed)
        near = [
            entry
            for entry in spillable
            if any(begin < high and low < end for begin, end in liveness.segments[entry[0]])
        ]
        whole = all(value in self._separate for value, _ in bundle.members)
        if len(bundle.members) > 1 and not whole and (len(near) == len(bundle.members) or not near):
            self._separate.update(value for value, _ in bundle.members)
            return []
        if 0 < len(near) < len(spillable):
            return near
        return [max(spillable, key=lambda entry: (self._length(entry[0], liveness), -entry[0].id))]

    def _reserve_scratch(self, error: NoScratch, liveness: Liveness) -> None:
        """Keep one more register of the bank out of use, for cycles of moves."""
        location = error.location
        assert isinstance(location, tuple)
        for name, register_class in self._registers.items():
            if register_class.bank == location[0]:
                limit = self._limits.get(name, register_class.count) - 1
                if limit <= 0:
                    value = next(v for v in liveness.order if v.reg_class == name)
                    raise AllocationError(name, value, 0, "no register is left to break a cycle of moves")
                self._limits[name] = limit

    def _located(self, error: AllocationError, liveness: Liveness) -> AllocationError:
        """Add the location of the instruction at the point of failure."""
        number = error.point // 2
        for block in self._function.blocks:
            index = number - liveness.start[block] - 1
            if 0 <= index < len(block.instructions):
                loc = block.instructions[index].loc
                return AllocationError(error.reg_class, error.value, error.point, error.why, loc)
        return error

    def _finish(
        self,
        liveness: Liveness,
        assign: dict[VReg, int],
        bundles: list[Bundle],
        blocked: Mapping[tuple[str, int], list[Piece]],
    ) -> Allocation:
        function = self._function
        scratch = _Scratch(self._registers, self._budget, bundles, blocked)
        blocks = final_blocks(function, liveness, assign, scratch.find, self._can_swap)
        slots, spill_units = pack_slots(function, self._slots.shapes)
        high_water = dict.fromkeys(self._registers, 0)
        for value, unit in assign.items():
            high_water[value.reg_class] = max(high_water[value.reg_class], unit + value.units)
        for reg_class, unit in scratch.used:
            high_water[reg_class] = max(high_water[reg_class], unit + 1)
        items = [item for final in blocks for item in final.items]
        inserted = [item for item in items if isinstance(item, Instruction) and item.origin is None]
        return Allocation(
            function,
            assign,
            blocks,
            slots,
            spill_units,
            high_water,
            moves=sum(not isinstance(item, Instruction) for item in items),
            spills=sum(item.kind is Kind.SPILL for item in inserted),
            reloads=sum(item.kind is Kind.RELOAD for item in inserted),
            rematerialized=sum(isinstance(item, Instruction) and _computed_again(item) for item in items),
        )


def _computed_again(item: Instruction) -> bool:
    """True for a packet that computes a value of the input once more, under a name of its own."""
    return item.origin is not None and item.results != item.origin.results


class _Scratch:
    """Finds registers that are free for the moment; occupation tables are built when first needed."""

    def __init__(
        self,
        registers: Mapping[str, RegisterClass],
        limits: Mapping[str, int],
        bundles: list[Bundle],
        blocked: Mapping[tuple[str, int], list[Piece]],
    ) -> None:
        self._registers = registers
        self._limits = limits
        self._bundles = bundles
        self._blocked = blocked
        self._tables: dict[str, list[list[Piece]]] = {}
        self.used: set[tuple[str, int]] = set()

    def find(self, reg_class: str, number: int, busy: Collection[int]) -> int | None:
        """A unit for ``reg_class`` that nothing occupies during instruction ``number``."""
        register_class = self._registers[reg_class]
        table = self._table(register_class.bank)
        begin, end = 2 * number, 2 * number + 2
        limit = min(register_class.count, self._limits.get(reg_class, register_class.count))
        for unit in range(limit):
            if unit in busy or unit in register_class.reserved:
                continue
            if not any(first < end and begin < last for first, last in table[unit]):
                self.used.add((reg_class, unit))
                return unit
        return None

    def _table(self, bank: str) -> list[list[Piece]]:
        if bank not in self._tables:
            count = max(cls.count for cls in self._registers.values() if cls.bank == bank)
            table: list[list[Piece]] = [[] for _ in range(count)]
            for bundle in self._bundles:
                if bundle.bank == bank:
                    for unit, lane in enumerate(bundle.lanes, bundle.base):
                        if unit < count:
                            table[unit] += [(begin, end) for begin, end, _ in lane]
            for (name, unit), pieces in self._blocked.items():
                if name == bank and unit < count:
                    table[unit] += pieces
            self._tables[bank] = table
        return self._tables[bank]
