"""Low functions to bytes: scheduling, register allocation, the stack frame, branches."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs

from loom.dialects.low import ops as low
from loom.ir.core import Op
from loom.ir.diagnostics import fail
from loom.low.allocate import Allocation, AllocationError, allocate
from loom.low.convert import to_machine
from loom.low.liveness import pressure
from loom.low.lower_ssa import FinalBlock
from loom.low.machine import Function, Instruction, Kind, MemoryAccess, Move, Swap, VReg
from loom.low.proof import prove_allocation, prove_schedule
from loom.low.schedule import ScheduleModel, schedule
from loom_target_x86.abi import CallLayout
from loom_target_x86.assembler import Assembler, opposite
from loom_target_x86.calls import CALLER_SAVED, STRUCT_MARK, CallingConvention, Frame
from loom_target_x86.descriptors import descriptor_set, leaf_set
from loom_target_x86.encode import Encoding
from loom_target_x86.flags import condition_of, sets_flags, sink_comparisons, takes_flags, use_counts
from loom_target_x86.legalize import CALL, legalize
from loom_target_x86.registers import CALLEE_SAVED, GPR64_NAMES, GPR_BANK, STACK_POINTER, WIDTH_OF_CLASS
from loom_target_x86.select.kernel import LIVE_INS

_SLOT_BYTES: Final = 8

#: Register classes whose contents the processor can exchange.
_EXCHANGEABLE: Final = ("x86.gpr32", "x86.gpr64")

#: (width of the target, width of the source) -> move; any other pair of general registers moves 64 bits.
_MOVES: Final = {
    ("y", "y"): "vmovaps.ymm", ("x", "x"): "movaps.xmm", ("x", "y"): "movaps.xmm", ("y", "x"): "movaps.xmm",
    ("d", "d"): "mov.gpr32", ("x", "d"): "movd.xmm.gpr32", ("x", "q"): "movq.xmm.gpr64",
    ("d", "x"): "movd.gpr32.xmm", ("q", "x"): "movq.gpr64.xmm",
}  # fmt: skip

#: Frame packets, by what their displacement counts from.
_INCOMING: Final = frozenset({"frame.load.gpr64", "frame.load64.xmm", "frame.load128.xmm"})


@attrs.frozen
class FunctionStatistics:
    """What a compile report tells about one function."""

    instructions: int
    code_bytes: int
    frame_bytes: int
    spills: int
    reloads: int
    moves: int
    scopes: int
    registers: Mapping[str, int]


@attrs.frozen(eq=False)
class Compiled:
    """An allocated function and what its frame holds."""

    function: Function
    allocation: Allocation
    frame: Frame
    storage_bytes: int
    scopes: int


def compile_function(
    function: low.LowFunction,
    own: CallLayout | None,
    layouts: Mapping[str, CallLayout],
    symbols: Mapping[str, str],
    memory: Mapping[Op, MemoryAccess],
    model: ScheduleModel,
    *,
    locks: Mapping[Op, int] = MappingProxyType({}),
    check: bool = False,
) -> Compiled:
    """Schedule and allocate a Low function, which is changed in the process.

    `own` and `layouts` give the calling conventions of the function and, by symbol, of those it calls; `symbols` maps
    function names to symbols, `locks` the operations of locked helpers to their sequence. With `check` independent
    checkers re-prove the schedule and the allocation. Raises `LoomError` for what has no machine form.
    """
    descriptors = descriptor_set(function.contract)
    legal = legalize(function, descriptors, symbols)
    # What a locked helper keeps in order includes its packets with fixed registers.
    first = max(legal.locks.values(), default=0)
    held = {**legal.locks, **{op: first + number for op, number in locks.items()}}
    machine = to_machine(function, descriptors, fixed=_live_in_unit, memory=memory, locks=held)
    before = machine.order()
    scopes = schedule(machine, model)
    sink_comparisons(machine)
    if check:
        prove_schedule(before, machine, "x86")
    convention = CallingConvention(machine, own, layouts)
    convention.place_parameters()
    frame = convention.place_calls()
    convention.place_results()
    try:
        allocation = _allocate(machine, function.contract)
    except AllocationError as error:
        raise fail(
            "TARGET/043",
            f"'@{function.callee}': {error}",
            error.loc if error.loc is not None else function.loc,  # type: ignore[arg-type]  # what instructions carry
            emitter="x86-object",
            function_name=function.callee,
            value_name=str(error.value.name or ""),
            actual_type=error.reg_class,
            descriptor_set=function.contract,
        ) from None
    if check:
        prove_allocation(machine, allocation, "x86")
    return Compiled(machine, allocation, frame, legal.storage_bytes, scopes)


def _live_in_unit(op: Op) -> int | None:
    key = str(op.attribute("key"))
    if key not in LIVE_INS:
        raise fail(
            "TARGET/053",
            f"'{key}' is no live-in of an x86 function; there are {', '.join(LIVE_INS)}",
            op.loc,
            emitter="x86-object",
            opcode=key,
        )
    return LIVE_INS[key]


def _allocate(machine: Function, contract: str) -> Allocation:
    """An allocation without callee-saved registers if one needs no memory, which spares saving them."""
    full = machine.descriptor_set
    calls = any(_is_call(instruction) for block in machine.blocks for instruction in block.instructions)
    if not calls and pressure(machine).get(GPR_BANK, 0) <= len(CALLER_SAVED):
        machine.descriptor_set = leaf_set(contract)
        try:
            found = allocate(machine, can_swap=_EXCHANGEABLE)
            if not found.spills and not found.reloads:
                return found
        except AllocationError:
            pass
        machine.descriptor_set = full
    return allocate(machine, can_swap=_EXCHANGEABLE)


def _is_call(instruction: Instruction) -> bool:
    return instruction.descriptor is not None and instruction.descriptor.key == CALL


# -- emission -------------------------------------------------------------------------------------


def emit_function(assembler: Assembler, symbol: str, compiled: Compiled) -> tuple[FunctionStatistics, set[str]]:
    """Append the machine code of a function; returns statistics and the symbols it refers to."""
    return _Emitter(assembler, symbol, compiled).run()


class _Emitter:
    def __init__(self, assembler: Assembler, symbol: str, compiled: Compiled) -> None:
        self._asm = assembler
        self._symbol = symbol
        self._compiled = compiled
        allocation = compiled.allocation
        self._assign = allocation.assign
        self._blocks = allocation.blocks
        self._set = compiled.function.descriptor_set
        self._table = self._set.by_mnemonic
        self._vex = "vaddss.xmm" in self._table
        self._uses = use_counts(allocation.function)
        self._fused = self._find_fused()
        self._flag_values = {comparison.results[0] for comparison in self._fused}
        self._targets = self._thread()
        self._referenced: set[str] = set()
        self._saved = sorted(self._written_units() & CALLEE_SAVED)
        self._layout_frame()
        self._wide = any(value.reg_class == "x86.ymm" for value in self._named_values())

    def _named_values(self) -> list[VReg]:
        """Values that instructions other than calls name: a call gives up registers without using them."""
        return [
            value
            for block in self._blocks
            for item in block.items
            if isinstance(item, Instruction) and not _is_call(item)
            for value in (*item.results, *item.operands)
        ]

    def _register_counts(self) -> dict[str, int]:
        """Register class -> how many different registers values of the class use."""
        used: dict[str, set[int]] = {}
        for value in self._named_values():
            used.setdefault(value.reg_class, set()).add(self._assign[value])
        return {name: len(units) for name, units in sorted(used.items())}

    # -- the frame --------------------------------------------------------------------------------

    def _written_units(self) -> set[int]:
        units: set[int] = set()
        registers = self._set.registers
        for block in self._blocks:
            for item in block.items:
                if isinstance(item, Instruction):
                    units |= {self._assign[v] for v in item.results if registers[v.reg_class].bank == GPR_BANK}
                elif isinstance(item, Move) and registers[item.reg_class].bank == GPR_BANK:
                    units.update(range(item.dst_unit, item.dst_unit + item.units))
                elif isinstance(item, Swap):
                    units |= {item.first_unit, item.second_unit}
        return units

    def _layout_frame(self) -> None:
        """From rsp upwards: outgoing arguments, result structs, own storage, spilled vectors, spilled integers."""
        compiled = self._compiled
        self._struct_base = compiled.frame.outgoing_bytes
        self._storage_base = self._struct_base + compiled.frame.struct_bytes
        end = self._storage_base + compiled.storage_bytes
        self._spill_base: dict[str, int] = {}
        self._spill_unit: dict[str, int] = {}
        widest = {bank: max(c.unit_bits for c in self._set.registers.values() if c.bank == bank) // 8
                  for bank in {c.bank for c in self._set.registers.values()}}  # fmt: skip
        for bank, units in sorted(compiled.allocation.spill_units.items(), key=lambda entry: -widest[entry[0]]):
            self._spill_base[bank], self._spill_unit[bank] = end, widest[bank]
            end += units * widest[bank]
        # At a call rsp is a multiple of 16; on entry the return address makes it odd by eight.
        pushed = _SLOT_BYTES * (1 + len(self._saved))
        self._frame_bytes = end + -(end + pushed) % 16 if end or self._has_calls() else 0
        self._incoming_base = self._frame_bytes + pushed

    def _has_calls(self) -> bool:
        return any(
            isinstance(item, Instruction) and item.descriptor is not None and item.descriptor.schedule_class == "call"
            for block in self._blocks
            for item in block.items
        )

    # -- structure --------------------------------------------------------------------------------

    def run(self) -> tuple[FunctionStatistics, set[str]]:
        asm = self._asm
        first = asm.instruction_count
        asm.label(self._symbol)
        for unit in self._saved:
            asm.assemble(f"push_r64 %{GPR64_NAMES[unit]}")
        if self._frame_bytes:
            asm.assemble("sub_rm64_imm %rsp, #bytes", {"bytes": self._frame_bytes})
        for number, block in enumerate(self._blocks):
            if number == 0 or self._targets[block.label] is block:
                asm.label(self._label(block))
                self._block(number, block)
        allocation = self._compiled.allocation
        statistics = FunctionStatistics(
            instructions=asm.instruction_count - first,
            code_bytes=0,
            frame_bytes=self._frame_bytes,
            spills=allocation.spills,
            reloads=allocation.reloads,
            moves=allocation.moves,
            scopes=self._compiled.scopes,
            registers=self._register_counts(),
        )
        return statistics, self._referenced

    def _label(self, block: FinalBlock) -> object:
        return self._symbol, block.label

    def _thread(self) -> dict[str, FinalBlock]:
        """Block label -> the block in which control arrives: blocks that only jump on are skipped."""
        by_label = {block.label: block for block in self._blocks}
        result: dict[str, FinalBlock] = {}
        for block in self._blocks:
            target, seen = block, {block.label}
            while len(target.items) == 1 and isinstance(jump := target.items[0], Instruction):
                if jump.kind is not Kind.BRANCH:
                    break
                following = by_label[jump.successors[0].block.label]
                if following.label in seen:
                    break
                seen.add(following.label)
                target = following
            result[block.label] = target
        return result

    def _next_emitted(self, number: int) -> FinalBlock | None:
        for block in self._blocks[number + 1 :]:
            if self._targets[block.label] is block:
                return block
        return None

    def _block(self, number: int, block: FinalBlock) -> None:
        flags: str | None = None
        for item in block.items:
            if isinstance(item, Move):
                self._move(item)
            elif isinstance(item, Swap):
                first, second = GPR64_NAMES[item.first_unit], GPR64_NAMES[item.second_unit]
                self._asm.assemble(f"xchg_rm64_r64 %{first}, %{second}")
            elif item.kind is Kind.PACKET:
                flags = self._packet(item, flags)
            elif item.kind is Kind.SPILL or item.kind is Kind.RELOAD:
                self._slot(item)
            elif item.kind is Kind.BRANCH:
                self._jump(self._targets[item.successors[0].block.label], self._next_emitted(number))
            elif item.kind is Kind.COND_BRANCH:
                self._cond_branch(item, flags, self._next_emitted(number))
            elif item.kind is Kind.RETURN:
                self._return(item)

    # -- straight code ----------------------------------------------------------------------------

    def _find_fused(self) -> set[Instruction]:
        """Comparisons whose only user takes the flags: everything between them leaves the flags alone."""
        fused: set[Instruction] = set()
        for block in self._blocks:
            last: Instruction | None = None
            for item in block.items:
                if not isinstance(item, Instruction):
                    continue
                if last is not None and condition_of(item) is last.results[0] and self._can_fuse(last, item):
                    fused.add(last)
                if item.descriptor is not None:
                    if sets_flags(item) and self._uses.get(item.results[0]) == 1:
                        last = item
                    elif "flags" in item.descriptor.effects.implicit_writes:
                        last = None
        return fused

    def _can_fuse(self, comparison: Instruction, user: Instruction) -> bool:
        assert comparison.descriptor is not None
        encoding = comparison.descriptor.encoding
        assert isinstance(encoding, Encoding)
        # Two conditions at once can be branched on, but not selected by.
        return user.kind is Kind.COND_BRANCH or encoding.condition not in ("e&np", "ne|p")

    def _packet(self, item: Instruction, flags: str | None) -> str | None:
        """Emit a packet; returns the condition of a fused comparison for whoever takes its flags."""
        descriptor = item.descriptor
        assert descriptor is not None
        asm = self._asm
        if _is_call(item):
            if self._wide:
                asm.assemble("vex_vzeroupper")
            callee = str(item.immediates["symbol"])
            self._referenced.add(callee)
            asm.call(callee)
            return flags
        if descriptor.effects.terminator:
            raise fail(
                "TARGET/053",
                f"'{descriptor.mnemonic}' names a block; write low.br or low.cond_br",
                item.loc,  # type: ignore[arg-type]  # what instructions carry
                emitter="x86-object",
                opcode=descriptor.mnemonic,
                descriptor_set_key=self._set.key,
            )
        results = [self._assign[value] for value in item.results]
        operands = [self._assign[value] for value in item.operands]
        if item in self._fused:
            return asm.emit_flags(descriptor, operands, item.immediates)
        if flags is not None and takes_flags(item) and item.operands[0] in self._flag_values:
            asm.emit_on_flags(descriptor, results, operands, flags)
            return None
        asm.emit(descriptor, results, operands, self._immediates(item))
        if descriptor.schedule_class == "call":
            # The routine's symbol is part of the packet's template.
            self._referenced.add(f"loom_x86_{descriptor.mnemonic.removeprefix('v').partition('.')[0]}")
        return flags

    def _immediates(self, item: Instruction) -> Mapping[str, object]:
        given = item.immediates
        symbol = given.get("symbol")
        if isinstance(symbol, str):
            self._referenced.add(symbol)
        assert item.descriptor is not None
        mnemonic = item.descriptor.mnemonic
        if mnemonic == "lea.frame":
            base = self._struct_base if STRUCT_MARK in given else self._storage_base
        elif mnemonic.removeprefix("v") in _INCOMING:
            base = self._incoming_base
        else:
            # Outgoing arguments lie at rsp itself.
            return given
        offset = given["disp32"]
        assert isinstance(offset, int)
        return {"disp32": base + offset}

    def _move(self, move: Move) -> None:
        widths = WIDTH_OF_CLASS[move.reg_class], WIDTH_OF_CLASS[move.src_class]
        mnemonic = _MOVES.get(widths, "mov")
        if "xmm" in mnemonic and self._vex:
            mnemonic = "v" + mnemonic
        # Moves between neighbouring registers come as one; none of them overwrites a source of another.
        for number in range(move.units):
            self._asm.emit(self._table[mnemonic], [move.dst_unit + number], [move.src_unit + number])

    def _slot(self, item: Instruction) -> None:
        saving = item.kind is Kind.SPILL
        value = item.operands[0] if saving else item.results[0]
        bank = self._set.registers[value.reg_class].bank
        slot = self._compiled.allocation.slots[item.slot]
        place = {"disp32": self._spill_base[bank] + slot.offset * self._spill_unit[bank]}
        width = WIDTH_OF_CLASS[value.reg_class]
        name = {
            "d": "mov.{}.gpr64",
            "q": "mov.{}.gpr64",
            "x": "vmovdqu32.{}.xmm" if self._vex else "movups.{}.xmm",
            "y": "vmovdqu32.{}.ymm",
        }[width]
        unit = self._assign[value]
        if saving:
            self._asm.emit(self._table[name.format("store")], [], [unit, STACK_POINTER], place)
        else:
            self._asm.emit(self._table[name.format("load")], [unit], [STACK_POINTER], place)

    # -- branches ---------------------------------------------------------------------------------

    def _jump(self, target: FinalBlock, following: FinalBlock | None) -> None:
        if target is not following:
            self._asm.jump(self._label(target))

    def _cond_branch(self, item: Instruction, flags: str | None, following: FinalBlock | None) -> None:
        asm = self._asm
        if_true, if_false = (self._targets[edge.block.label] for edge in item.successors)
        if if_true is if_false:
            self._jump(if_true, following)
            return
        condition = "ne"
        if flags is not None and item.operands[0] in self._flag_values:
            condition = flags
        else:
            unit = self._assign[item.operands[0]]
            asm.emit_flags(self._table["test.ne.gpr32"], [unit, unit])
        if if_true is following:
            condition, if_true, if_false = opposite(condition), if_false, if_true
        self._branch(condition, if_true, if_false)
        self._jump(if_false, following)

    def _branch(self, condition: str, if_true: FinalBlock, if_false: FinalBlock) -> None:
        asm = self._asm
        if condition == "ne|p":
            asm.branch("ne", self._label(if_true))
            asm.branch("p", self._label(if_true))
        elif condition == "e&np":
            asm.branch("ne", self._label(if_false))
            asm.branch("np", self._label(if_true))
        else:
            asm.branch(condition, self._label(if_true))

    def _return(self, item: Instruction) -> None:
        asm = self._asm
        if self._wide and not any(value.reg_class == "x86.ymm" for value in item.operands):
            asm.assemble("vex_vzeroupper")
        if self._frame_bytes:
            asm.assemble("add_rm64_imm %rsp, #bytes", {"bytes": self._frame_bytes})
        for unit in reversed(self._saved):
            asm.assemble(f"pop_r64 %{GPR64_NAMES[unit]}")
        asm.assemble("retnq")
