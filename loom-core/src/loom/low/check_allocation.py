"""Proof, after the fact, that allocated code reads the values the SSA function meant.

The final code is executed symbolically over the control-flow graph: the state says which SSA values
each register and spill slot is known to hold, states are intersected where paths join, and every
operand must be found where the final code reads it. Shares nothing with the allocator.
"""

from __future__ import annotations

from collections.abc import Mapping

from loom.low.allocate import Allocation
from loom.low.machine import MARKERS, Block, Function, Instruction, Kind, Move, Swap, VReg

Symbol = tuple[VReg, int]
Place = tuple[str, int]
State = dict[Place, frozenset[Symbol]]

_NOTHING: frozenset[Symbol] = frozenset()
_TRANSFERS = frozenset({Kind.COPY, Kind.ASSUME, Kind.SLICE, Kind.CONCAT})
_SILENT = MARKERS | {Kind.FENCE} | _TRANSFERS


class AllocationCheckError(Exception):
    """Allocated code reads something else than the SSA function meant; the message says where.

    ``loc`` is where the instruction at fault comes from, None when it is not of the program.
    """

    loc: object = None


def check_allocation(function: Function, final: Allocation) -> None:
    """Check ``final``, the allocation of ``function``.

    Raises:
        AllocationCheckError: a use reads the wrong register, a constraint of an instruction (tie,
            class, alignment, early clobber, fixed register) is broken, or an instruction got lost.
    """
    checker = _Checker(function, final)
    try:
        checker.run()
    except AllocationCheckError as error:
        error.loc = checker.loc
        raise


class _Checker:
    def __init__(self, function: Function, final: Allocation) -> None:
        self._function = function
        self._final = final
        self._registers = function.descriptor_set.registers
        self._sources = {block.label: block for block in function.blocks}
        self._items = {block.label: block.items for block in final.blocks}
        self.loc: object = None
        """Where the instruction looked at comes from; moves keep that of the instruction before them."""
        self._content: dict[VReg, tuple[Symbol, ...]] = {}
        self._copies: dict[Symbol, list[Symbol]] = {}
        """what a unit holds -> units of values in another bank that are copies of it"""
        self._clobbered: dict[str, list[Place]] = {}
        for register_class in self._registers.values():
            for name, (first, count) in (register_class.named or {}).items():
                places = [(register_class.bank, unit) for unit in range(first, first + count)]
                self._clobbered.setdefault(name, []).extend(places)
        if len(self._sources) != len(function.blocks):
            raise AllocationCheckError(f"@{function.name} has two blocks with one label")

    def run(self) -> None:
        entry = self._function.blocks[0]
        state: State = {}
        for param in entry.params:
            self._contents(param)
            self._define(state, param, param, "the entry")
        states: dict[str, State] = {entry.label: state}
        work = [entry.label]
        while work:
            label = work.pop()
            for target, arriving in self._execute(self._sources[label], dict(states[label])):
                known = states.get(target)
                merged = arriving if known is None else _meet(known, arriving)
                if known is None or merged != known:
                    states[target] = merged
                    if target not in work:
                        work.append(target)

    def _bank(self, value: VReg) -> str | None:
        register_class = self._registers.get(value.reg_class)
        return None if register_class is None else register_class.bank

    def _contents(self, value: VReg) -> tuple[Symbol, ...]:
        known = self._content.get(value)
        if known is None:
            known = tuple((value, unit) for unit in range(value.units))
            self._content[value] = known
        return known

    def _transfer(self, instruction: Instruction) -> None:
        """Record what a structural transfer makes equal; nothing happens at run time."""
        result = instruction.results[0]
        if instruction.kind is Kind.SLICE:
            begin = instruction.offset
            self._content[result] = self._contents(instruction.operands[0])[begin : begin + result.units]
        elif instruction.kind is Kind.CONCAT:
            self._content[result] = tuple(
                symbol for operand in instruction.operands for symbol in self._contents(operand)
            )
        elif self._bank(result) == self._bank(instruction.operands[0]):
            self._content[result] = self._contents(instruction.operands[0])
        else:
            for source, symbol in zip(self._contents(instruction.operands[0]), self._contents(result), strict=False):
                derived = self._copies.setdefault(source, [])
                if symbol not in derived:
                    derived.append(symbol)

    def _execute(self, source: Block, state: State) -> list[tuple[str, State]]:
        """Run one block; returns (successor, state on that edge) pairs."""
        for instruction in source.instructions:
            if instruction.kind in _TRANSFERS:
                self._transfer(instruction)
        expected = [inst for inst in source.instructions if inst.kind not in _SILENT]
        position = 0
        for item in self._items[source.label]:
            if isinstance(item, Instruction):
                self.loc = item.loc or self.loc
            if isinstance(item, Move):
                self._move(state, item)
            elif isinstance(item, Swap):
                bank = self._registers[item.reg_class].bank
                first, second = (bank, item.first_unit), (bank, item.second_unit)
                state[first], state[second] = state.get(second, _NOTHING), state.get(first, _NOTHING)
            elif item.origin is None:
                self._slot(state, item)
            elif item.results and item.results != item.origin.results:
                self._again(state, item, source)
            else:
                while position < len(expected) and expected[position] is not item.origin:
                    self._may_vanish(expected[position], source)
                    position += 1
                if position == len(expected):
                    raise self._error(source, item, "is not in the input at this place")
                self._packet(state, item, item.origin, source)
                position += 1
        if position != len(expected):
            raise self._error(source, expected[position], "got lost")
        return [
            (edge.block.label, self._along(state, edge.block.params, edge.args)) for edge in expected[-1].successors
        ]

    def _error(self, block: Block, instruction: Instruction, why: str) -> AllocationCheckError:
        return AllocationCheckError(f"@{self._function.name} ^{block.label}: [{instruction!r}] {why}")

    def _may_vanish(self, instruction: Instruction, block: Block) -> None:
        descriptor = instruction.descriptor
        if descriptor is None or not descriptor.rematerializable or instruction.operands:
            raise self._error(block, instruction, "got lost")

    def _places(self, value: VReg) -> list[Place]:
        register_class = self._registers[value.reg_class]
        first = self._final.assign[value]
        return [(register_class.bank, first + unit) for unit in range(value.units)]

    def _define(self, state: State, physical: VReg, meant: VReg, where: str) -> None:
        register_class = self._registers.get(physical.reg_class)
        if register_class is None:
            return
        first = self._final.assign[physical]
        if meant.fixed is not None:
            if first != meant.fixed:
                raise AllocationCheckError(f"{meant!r} is in unit {first}, not {meant.fixed}, at {where}")
        else:
            units = range(first, first + meant.units)
            outside = first < 0 or units.stop > register_class.count
            if outside or not register_class.reserved.isdisjoint(units):
                raise AllocationCheckError(f"{meant!r} is outside its class at {where}")
            if first % register_class.alignment(meant.units):
                raise AllocationCheckError(f"{meant!r} is misaligned at {where}")
        for place, symbol in zip(self._places(physical), self._contents(meant), strict=True):
            state[place] = frozenset({symbol})

    def _forget(self, state: State, value: VReg) -> None:
        """A new instance of ``value`` begins: what still holds an older one no longer counts."""
        stale: set[Symbol] = set()
        work = list(self._contents(value))
        while work:
            symbol = work.pop()
            if symbol not in stale:
                stale.add(symbol)
                work.extend(self._copies.get(symbol, ()))
        for place, held in state.items():
            if not held.isdisjoint(stale):
                state[place] = held - stale

    def _packet(self, state: State, item: Instruction, meant: Instruction, block: Block) -> None:
        if item.immediates != meant.immediates or item.descriptor is not meant.descriptor:
            raise self._error(block, item, "is not the instruction of the input")
        wanted = list(meant.operands)
        descriptor = item.descriptor
        missing = self._missing(state, item.operands, wanted)
        if missing is not None and descriptor is not None and descriptor.commuted is not None:
            first, second = descriptor.commuted
            wanted[first], wanted[second] = wanted[second], wanted[first]
            missing = self._missing(state, item.operands, wanted)
        if missing is not None:
            raise self._error(block, meant, f"does not find {missing!r} in its register")
        for value in item.operands:
            if value.fixed is not None and self._final.assign[value] != value.fixed:
                raise self._error(block, meant, f"needs {value!r} in unit {value.fixed}")
        self._constraints(item, meant, block)
        for value in meant.results:
            self._forget(state, value)
        if descriptor is not None:
            for name in descriptor.effects.implicit_writes:
                for place in self._clobbered.get(name, ()):
                    state.pop(place, None)
        for physical, value in zip(item.results, meant.results, strict=True):
            self._define(state, physical, value, f"[{meant!r}]")

    def _missing(self, state: State, physical: list[VReg], wanted: list[VReg]) -> VReg | None:
        for actual, value in zip(physical, wanted, strict=True):
            if self._bank(actual) is None:
                continue
            for place, symbol in zip(self._places(actual), self._contents(value), strict=True):
                if symbol not in state.get(place, _NOTHING):
                    return value
        return None

    def _constraints(self, item: Instruction, meant: Instruction, block: Block) -> None:
        written: set[Place] = set()
        for value in item.results:
            if self._bank(value) is not None:
                places = self._places(value)
                if not written.isdisjoint(places):
                    raise self._error(block, meant, "writes two results to one register")
                written.update(places)
        descriptor = item.descriptor
        if descriptor is None:
            return
        for result, operand in descriptor.ties:
            if self._places(item.results[result]) != self._places(item.operands[operand]):
                raise self._error(block, meant, f"breaks the tie of result {result}")
        tied = {operand for _, operand in descriptor.ties}
        for number, result_descriptor in enumerate(descriptor.results):
            if not result_descriptor.early_clobber:
                continue
            for position, value in enumerate(item.operands):
                if position in tied or self._bank(value) is None:
                    continue
                if not set(self._places(item.results[number])).isdisjoint(self._places(value)):
                    raise self._error(block, meant, f"overwrites {value!r} before reading it")

    def _again(self, state: State, item: Instruction, block: Block) -> None:
        origin = item.origin
        assert origin is not None
        descriptor = item.descriptor
        same = descriptor is origin.descriptor and item.immediates == origin.immediates
        if descriptor is None or not descriptor.rematerializable or not same or origin.operands:
            raise self._error(block, item, "may not be computed again")
        self._define(state, item.results[0], origin.results[0], f"[{item!r}]")

    def _slot(self, state: State, item: Instruction) -> None:
        """SPILL and RELOAD move what they find."""
        saving = item.kind is Kind.SPILL
        value = item.operands[0] if saving else item.results[0]
        slot = self._final.slots[item.slot]
        bank = self._registers[value.reg_class].bank
        registers = self._places(value)
        memory = [(f"slots of {bank}", slot.offset + unit) for unit in range(value.units)]
        if slot.units != value.units:
            raise AllocationCheckError(f"[{item!r}] does not fit its slot")
        pairs = zip(memory, registers, strict=True) if saving else zip(registers, memory, strict=True)
        for target, source in list(pairs):
            state[target] = state.get(source, _NOTHING)

    def _move(self, state: State, move: Move) -> None:
        target = self._registers[move.reg_class].bank
        source = self._registers[move.src_class].bank
        read = [state.get((source, move.src_unit + unit), _NOTHING) for unit in range(move.units)]
        if target == source and abs(move.dst_unit - move.src_unit) < move.units:
            raise AllocationCheckError(f"[{move!r}] overlaps itself")
        for unit, held in enumerate(read):
            if target != source:
                held = frozenset(
                    symbol
                    for original in held
                    for symbol in self._copies.get(original, ())
                    if self._bank(symbol[0]) == target
                )
            state[target, move.dst_unit + unit] = held

    def _along(self, state: State, params: list[VReg], args: list[VReg]) -> State:
        """The state behind an edge: parameters are new names for what the arguments named."""
        renamed: dict[Symbol, list[Symbol]] = {}
        for param, arg in zip(params, args, strict=True):
            for symbol, source in zip(self._contents(param), self._contents(arg), strict=True):
                renamed.setdefault(source, []).append(symbol)
        old = dict(state)
        after = dict(state)
        for param in params:
            self._forget(after, param)
        for place, held in old.items():
            fresh = [symbol for source in held for symbol in renamed.get(source, ())]
            if fresh:
                after[place] = after[place].union(fresh)
        return after


def _meet(first: Mapping[Place, frozenset[Symbol]], second: Mapping[Place, frozenset[Symbol]]) -> State:
    result: State = {}
    for place, held in first.items():
        common = held & second.get(place, _NOTHING)
        if common:
            result[place] = common
    return result
