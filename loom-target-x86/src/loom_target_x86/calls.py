"""The calling convention at the machine level: fixed registers for parameters, arguments and results.

Everything is copied from and to the fixed registers where control enters and leaves, after scheduling: nothing may
come between those copies, and a fixed register that stays occupied is in the way of instructions that insist on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from loom.low.descriptors import Descriptor, DescriptorSet
from loom.low.machine import Function, Instruction, Kind, VReg
from loom_target_x86.abi import CALLEE_SAVED, CallLayout, Location
from loom_target_x86.legalize import CALL
from loom_target_x86.registers import REGISTER_COUNT, STACK_POINTER, WIDTH_OF_CLASS

RESULT_POINTER: Final = 7  # rdi takes the hidden result pointer, rax hands it back
_RAX: Final = 0

CALLER_SAVED: Final = tuple(
    unit for unit in range(REGISTER_COUNT) if unit != STACK_POINTER and unit not in CALLEE_SAVED
)


@attrs.frozen(eq=False)
class Frame:
    """Stack that calls need below the function's own storage: outgoing arguments, then result structs."""

    outgoing_bytes: int = 0
    struct_bytes: int = 0


class CallingConvention:
    """Applies the convention to one function.

    `own` gives the places of its parameters and results (None for a kernel, whose parameters are live-ins),
    `layouts` those of the functions it calls, by symbol.
    """

    def __init__(self, function: Function, own: CallLayout | None, layouts: Mapping[str, CallLayout]) -> None:
        self._function = function
        self._set: DescriptorSet = function.descriptor_set
        self._own = own
        self._layouts = layouts
        self._vex = "vaddss.xmm" in self._set.by_mnemonic
        self._hidden: VReg | None = None

    # -- the function itself ----------------------------------------------------------------------

    def place_parameters(self) -> None:
        """Fetch the parameters from registers and from the caller's frame."""
        own = self._own
        if own is None:
            return
        entry = self._function.blocks[0]
        copies: list[Instruction] = []
        loads: list[Instruction] = []
        arriving: list[VReg] = []
        if own.result_size:
            self._hidden = self._function.new_value("x86.gpr64", 1, "results")
            arriving.append(self._arrival(copies, self._hidden, RESULT_POINTER))
        for parameter, place in zip(entry.params, own.parameters, strict=True):
            if place.place == "stack":
                loads += self._stack_load(parameter, place)
            else:
                arriving.append(self._arrival(copies, parameter, place.position))
        entry.params = arriving
        entry.instructions = [*copies, *loads, *entry.instructions]

    def _arrival(self, copies: list[Instruction], value: VReg, unit: int) -> VReg:
        fixed = self._function.new_value(value.reg_class, value.units, value.name, unit)
        copies.append(Instruction(Kind.COPY, None, [value], [fixed]))
        return fixed

    def _stack_load(self, parameter: VReg, place: Location) -> list[Instruction]:
        vector = self._is_vector(parameter)
        # The bytes behind a float are the next argument or the caller's frame: reading eight is always fine.
        mnemonic = self._frame_access("load", vector, 8 if place.size <= 8 else 16)
        wide = self._function.new_value("x86.xmm" if vector else "x86.gpr64", 1, parameter.name)
        load = self._packet(mnemonic, [wide], [], {"disp32": place.position})
        return [load, Instruction(Kind.COPY, None, [parameter], [wide])]

    def place_results(self) -> None:
        """Copy the results of every return to where the caller expects them."""
        own = self._own
        if own is None:
            return
        for block in self._function.blocks:
            end = block.terminator
            if end.kind is not Kind.RETURN:
                continue
            before: list[Instruction] = []
            fixed: list[VReg] = []
            for value, place in zip(end.operands, own.results, strict=True):
                if place.place == "memory":
                    assert self._hidden is not None
                    before.append(self._struct_store(value, self._hidden, place))
                else:
                    fixed.append(self._fixed_copy(before, value, place.position))
            if self._hidden is not None:
                fixed.append(self._fixed_copy(before, self._hidden, _RAX))
            end.operands = fixed
            block.instructions[-1:] = [*before, end]

    def _struct_store(self, value: VReg, base: VReg, place: Location) -> Instruction:
        mnemonic = self._memory_access("store", value, place.size)
        return self._packet(mnemonic, [], [value, base], {"disp32": place.position})

    # -- calls ------------------------------------------------------------------------------------

    def place_calls(self) -> Frame:
        """Put arguments and results of every call where the convention says, and give up the other registers."""
        outgoing = structs = 0
        for block in self._function.blocks:
            if not any(_is_call(instruction) for instruction in block.instructions):
                continue
            code: list[Instruction] = []
            for instruction in block.instructions:
                if not _is_call(instruction):
                    code.append(instruction)
                    continue
                layout = self._layouts[str(instruction.immediates["symbol"])]
                code += self._call(instruction, layout)
                outgoing = max(outgoing, layout.stack_size)
                structs = max(structs, layout.result_size)
            block.instructions = code
        return Frame(outgoing + -outgoing % 16, structs + -structs % 16)

    def _call(self, call: Instruction, layout: CallLayout) -> list[Instruction]:
        before: list[Instruction] = []
        after: list[Instruction] = []
        operands: list[VReg] = []
        struct: VReg | None = None
        for value, place in zip(call.operands, layout.parameters, strict=True):
            if place.place == "stack":
                before.append(self._stack_store(before, value, place))
        if layout.result_size:
            # Where the struct lies in the frame is known when the frame is: behind the outgoing arguments.
            struct = self._function.new_value("x86.gpr64")
            before.append(self._packet("lea.frame", [struct], [], {"disp32": 0, STRUCT_MARK: True}))
            operands.append(self._fixed_copy(before, struct, RESULT_POINTER))
        for value, place in zip(call.operands, layout.parameters, strict=True):
            if place.place != "stack":
                operands.append(self._fixed_copy(before, value, place.position))
        results: list[VReg] = []
        taken: set[tuple[bool, int]] = set()
        for value, place in zip(call.results, layout.results, strict=True):
            if place.place == "memory":
                assert struct is not None
                mnemonic = self._memory_access("load", value, place.size)
                after.append(self._packet(mnemonic, [value], [struct], {"disp32": place.position}))
                continue
            fixed = self._function.new_value(value.reg_class, 1, value.name, place.position)
            taken.add((self._is_vector(value), place.position))
            results.append(fixed)
            after.append(Instruction(Kind.COPY, None, [value], [fixed], loc=call.loc))
        results += self._clobbers(taken)
        call.operands, call.results = operands, results
        return [*before, call, *after]

    def _clobbers(self, taken: set[tuple[bool, int]]) -> list[VReg]:
        new = self._function.new_value
        dead = [new("x86.gpr64", 1, None, unit) for unit in CALLER_SAVED if (False, unit) not in taken]
        if "x86.xmm" in self._set.registers:
            wide = "x86.ymm" if "x86.ymm" in self._set.registers else "x86.xmm"
            dead += [new(wide, 1, None, unit) for unit in range(REGISTER_COUNT) if (True, unit) not in taken]
        return dead

    def _stack_store(self, before: list[Instruction], value: VReg, place: Location) -> Instruction:
        vector = self._is_vector(value)
        if not vector and value.reg_class != "x86.gpr64":
            wide = self._function.new_value("x86.gpr64", 1, value.name)
            before.append(Instruction(Kind.COPY, None, [wide], [value]))
            value = wide
        mnemonic = self._frame_access("store", vector, 8 if place.size <= 8 else 16)
        return self._packet(mnemonic, [], [value], {"disp32": place.position})

    # -- instructions -----------------------------------------------------------------------------

    def _fixed_copy(self, before: list[Instruction], value: VReg, unit: int) -> VReg:
        fixed = self._function.new_value(value.reg_class, value.units, value.name, unit)
        before.append(Instruction(Kind.COPY, None, [fixed], [value]))
        return fixed

    def _packet(
        self, mnemonic: str, results: list[VReg], operands: list[VReg], immediates: dict[str, object]
    ) -> Instruction:
        descriptor: Descriptor = self._set.by_mnemonic[mnemonic]
        return Instruction(Kind.PACKET, descriptor, results, operands, immediates)

    def _is_vector(self, value: VReg) -> bool:
        return WIDTH_OF_CLASS[value.reg_class] in "xy"

    def _frame_access(self, what: str, vector: bool, size: int) -> str:
        if not vector:
            return f"frame.{what}.gpr64"
        return f"{'v' if self._vex else ''}frame.{what}{size * 8}.xmm"

    def _memory_access(self, what: str, value: VReg, size: int) -> str:
        if not self._is_vector(value):
            return f"mov.{what}.{value.reg_class.removeprefix('x86.')}"
        if size == 16:
            return f"{'vmovdqu32' if self._vex else 'movups'}.{what}.xmm"
        return f"{'v' if self._vex else ''}movs{'s' if size == 4 else 'd'}.{what}.xmm"


STRUCT_MARK: Final = "result_struct"
"""Immediate that marks the address of a call's result struct."""


def _is_call(instruction: Instruction) -> bool:
    return instruction.descriptor is not None and instruction.descriptor.key == CALL
