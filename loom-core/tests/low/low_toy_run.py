"""Two interpreters for the toy machine: one for SSA machine code, one for allocated code."""

from __future__ import annotations

from low_toy_set import MEANINGS, REGISTERS, Memory, Units

from loom.low.allocate import Allocation
from loom.low.machine import Block, Function, Instruction, Kind, Move, Swap, VReg

STEPS = 20_000


def run_ssa(function: Function, inputs: dict[VReg, Units]) -> tuple[list[Units], Memory]:
    """Execute SSA code; ``inputs`` are the values of the live-ins. Returns results and memory."""
    memory = Memory()
    values = dict(inputs)
    block = function.blocks[0]
    for _ in range(STEPS):
        following: Block | None = None
        for inst in block.instructions:
            operands = [values[value] for value in inst.operands]
            kind = inst.kind
            if kind is Kind.PACKET:
                assert inst.descriptor is not None
                results = MEANINGS[inst.descriptor.key](memory, operands, inst.immediates)
                values.update(zip(inst.results, results, strict=True))
                _note_flag(inst, results, memory)
            elif kind in (Kind.COPY, Kind.ASSUME):
                values[inst.results[0]] = operands[0]
            elif kind is Kind.SLICE:
                values[inst.results[0]] = operands[0][inst.offset : inst.offset + inst.results[0].units]
            elif kind is Kind.CONCAT:
                values[inst.results[0]] = tuple(unit for operand in operands for unit in operand)
            elif kind is Kind.BRANCH:
                edge = inst.successors[0]
                incoming = [values[arg] for arg in edge.args]
                values.update(zip(edge.block.params, incoming, strict=True))
                following = edge.block
            elif kind is Kind.COND_BRANCH:
                following = inst.successors[0 if operands[0][0] & 1 else 1].block
            elif kind is Kind.RETURN:
                return operands, memory
        assert following is not None
        block = following
    raise AssertionError("program runs too long")


def _note_flag(inst: Instruction, results: tuple[Units, ...], memory: Memory) -> None:
    """A value of the flag class is the flag register."""
    for value, units in zip(inst.results, results, strict=True):
        if value.reg_class == "test.flag":
            memory.implicit["flag"] = units[0]


def run_final(final: Allocation, inputs: dict[VReg, Units]) -> tuple[list[Units], Memory]:
    """Execute allocated code on physical registers. Registers start with rubbish."""
    memory = Memory()
    registers: dict[tuple[str, int], int] = {}
    spilled: dict[tuple[str, int], int] = {}
    assign = final.assign

    def place(value: VReg, unit: int) -> tuple[str, int]:
        return REGISTERS[value.reg_class].bank, assign[value] + unit

    def read(value: VReg) -> Units:
        if value.reg_class == "test.flag":
            return (memory.implicit["flag"],)
        return tuple(registers.get(place(value, unit), 0xDEAD) for unit in range(value.units))

    def write(value: VReg, units: Units) -> None:
        if value.reg_class == "test.flag":
            memory.implicit["flag"] = units[0]
        for unit, held in enumerate(units):
            registers[place(value, unit)] = held

    for value, units in inputs.items():
        write(value, units)
    blocks = {id(block.block): block for block in final.blocks}
    block = final.blocks[0]
    for _ in range(STEPS):
        following = None
        for item in block.items:
            if isinstance(item, Move):
                banks = REGISTERS[item.reg_class].bank, REGISTERS[item.src_class].bank
                held = [registers.get((banks[1], item.src_unit + unit), 0xDEAD) for unit in range(item.units)]
                for unit, bits in enumerate(held):
                    registers[banks[0], item.dst_unit + unit] = bits
                continue
            if isinstance(item, Swap):
                bank = REGISTERS[item.reg_class].bank
                first, second = (bank, item.first_unit), (bank, item.second_unit)
                registers[first], registers[second] = registers.get(second, 0), registers.get(first, 0)
                continue
            operands = [read(value) for value in item.operands]
            if item.kind is Kind.PACKET:
                assert item.descriptor is not None
                results = MEANINGS[item.descriptor.key](memory, operands, item.immediates)
                for value, units in zip(item.results, results, strict=True):
                    write(value, units)
            elif item.kind is Kind.SPILL:
                slot = final.slots[item.slot]
                for unit, bits in enumerate(operands[0]):
                    spilled[REGISTERS[slot.reg_class].bank, slot.offset + unit] = bits
            elif item.kind is Kind.RELOAD:
                slot = final.slots[item.slot]
                bank = REGISTERS[slot.reg_class].bank
                write(item.results[0], tuple(spilled[bank, slot.offset + unit] for unit in range(slot.units)))
            elif item.kind is Kind.BRANCH:
                following = blocks[id(item.successors[0].block)]
            elif item.kind is Kind.COND_BRANCH:
                following = blocks[id(item.successors[0 if operands[0][0] & 1 else 1].block)]
            elif item.kind is Kind.RETURN:
                return operands, memory
        assert following is not None
        block = following
    raise AssertionError("program runs too long")
