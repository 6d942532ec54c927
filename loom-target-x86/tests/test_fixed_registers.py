"""Packets with fixed registers survive scheduling and allocation.

All it takes are singleton classes, copies into and out of them that are locked to their packet, so that the
scheduler cannot make two such values live at once, and arguments that leave their registers before a fence.
"""

from __future__ import annotations

import random

import pytest

from loom.low.allocate import allocate
from loom.low.check_allocation import check_allocation
from loom.low.machine import Function, Instruction, Kind, VReg
from loom.low.schedule import Strategy, TableModel, schedule
from loom_target_x86.descriptors import SIMD128, descriptor_set


def random_program(seed: int, length: int) -> Function:
    """Straight-line arithmetic full of divisions, shifts by cl, wide products and fused multiply-adds."""
    rng = random.Random(seed)
    descriptors = descriptor_set(SIMD128)
    function = Function("f", descriptors)
    block = function.add_block("entry")
    values = [function.new_value("x86.gpr64", fixed=unit) for unit in (7, 6, 2, 1)]
    floats = [function.new_value("x86.xmm", fixed=unit) for unit in (0, 1, 2)]
    block.params += [*values, *floats]

    def packet(mnemonic: str, *operands: VReg) -> list[VReg]:
        descriptor = descriptors.by_mnemonic[mnemonic]
        results = [function.new_value(result.classes[0]) for result in descriptor.results]
        block.instructions.append(Instruction(Kind.PACKET, descriptor, results, operands))
        return results

    def copy(value: VReg, register_class: str) -> VReg:
        result = function.new_value(register_class)
        block.instructions.append(Instruction(Kind.COPY, None, [result], [value]))
        return result

    # Arguments leave their registers at once: a fixed live-in would block the packets that need it.
    values = [copy(value, "x86.gpr64") for value in values]
    floats = [copy(value, "x86.xmm") for value in floats]
    block.instructions.append(Instruction(Kind.FENCE))
    for number in range(length):
        x, y = rng.choice(values), rng.choice(values)
        begin = len(block.instructions)
        kind = rng.choice(["divide", "shift", "wide", "fma", "plain", "plain"])
        if kind == "divide":
            results = packet(rng.choice(["div.gpr64", "idiv.gpr64"]), copy(x, "x86.rax"), y)
            values += [copy(result, "x86.gpr64") for result in results]
        elif kind == "shift":
            (count,) = packet("mov.gpr32.gpr64", y)
            values += packet(rng.choice(["shl.gpr64", "sar.gpr64"]), x, copy(count, "x86.ecx"))
        elif kind == "wide":
            _low, high = packet("mul.wide.gpr64", copy(x, "x86.rax"), y)
            values.append(copy(high, "x86.gpr64"))
        elif kind == "fma":
            a, b, c = (rng.choice(floats) for _operand in range(3))
            (result,) = packet(
                "fma64.soft.xmm", copy(a, "x86.xmm0"), copy(b, "x86.xmm1"), copy(c, "x86.xmm2")
            )
            floats.append(copy(result, "x86.xmm"))
        else:
            values += packet(rng.choice(["add.gpr64", "sub.gpr64", "imul.gpr64"]), x, y)
        if kind != "plain":
            # One sequence: between the copies nothing else may claim the register.
            for instruction in block.instructions[begin:]:
                instruction.lock = number + 1
    total = values[0]
    for value in values[1:]:
        (total,) = packet("add.gpr64", total, value)
    block.instructions.append(Instruction(Kind.RETURN, None, [], [copy(total, "x86.rax")]))
    return function


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("length", [1, 3, 10, 40])
def test_fixed_registers_are_allocated(length: int, strategy: Strategy) -> None:
    for seed in range(12):
        function = random_program(seed, length)
        schedule(function, TableModel(), strategy)
        allocation = allocate(function, can_swap={"x86.gpr32", "x86.gpr64"})
        check_allocation(function, allocation)
        for value, unit in allocation.assign.items():
            assert unit not in descriptor_set(SIMD128).registers[value.reg_class].reserved


def test_moves_around_a_division_are_not_wasted() -> None:
    """A quotient of the first argument costs one move in; the result is where the caller wants it."""
    descriptors = descriptor_set(SIMD128)
    function = Function("f", descriptors)
    block = function.add_block("entry")
    a, b = (function.new_value("x86.gpr64", fixed=unit) for unit in (7, 6))
    block.params += [a, b]
    low, quotient, remainder = (function.new_value(name) for name in ("x86.rax", "x86.rax", "x86.rdx"))
    divide = descriptors.by_mnemonic["idiv.gpr64"]
    block.instructions += [
        Instruction(Kind.COPY, None, [low], [a]),
        Instruction(Kind.PACKET, divide, [quotient, remainder], [low, b]),
        Instruction(Kind.RETURN, None, [], [quotient]),
    ]
    allocation = allocate(function)
    check_allocation(function, allocation)
    assert allocation.moves == 1
    assert allocation.spills == 0
