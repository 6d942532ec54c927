"""Calls and launches prepared for a runner: blocks of bytes with holes for addresses.

A runner (the simulator, the native child) copies the buffers in, fills in their addresses, runs the code
through the routines of `trampoline` and copies the buffers back; it needs to know no calling convention.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from attrs import frozen

from loom_target_x86.abi import (
    INTEGER_REGISTERS,
    RESULT_REGISTERS,
    CallLayout,
    Signature,
    layout_arguments,
    layout_call,
)
from loom_target_x86.values import AbiError, pack_value, unpack_value, value_size

#: Stands for the block itself in a fixup.
OWN_BLOCK = 0xFFFFFFFF


@frozen
class BufferFixup:
    """The address of buffer `buffer`, or of the block itself for `OWN_BLOCK`, belongs at byte `offset` of a block.

    The number found there is added to it.
    """

    offset: int
    buffer: int


@frozen
class Invocation:
    """A call or launch prepared for a runner.

    `block` holds a call frame (see `trampoline`) or a kernel's argument block, with holes for addresses.
    `buffers` are the caller's objects; a runner copies each in and, unless it is read-only, back out.
    """

    block: bytes
    fixups: tuple[BufferFixup, ...]
    buffers: tuple[memoryview, ...]


@frozen(eq=False)
class BufferSlice:
    """An array argument that lies in larger memory: it starts `offset` bytes into `memory`.

    Slices of one `memory` object share it in the run, so what is stored through one is seen through the others.
    """

    memory: object
    offset: int


class _Buffers:
    """The buffers of one invocation, each object once, and the places of their addresses."""

    def __init__(self, block: bytearray) -> None:
        self._block = block
        self.fixups: list[BufferFixup] = []
        self.views: list[memoryview] = []
        self._slices: dict[int, int] = {}

    def add(self, value: object, at: int, what: str) -> None:
        """Put the address of an array argument at byte `at` of the block."""
        number, offset = len(self.views), 0
        if isinstance(value, BufferSlice):
            offset = value.offset
            number = self._slices.setdefault(id(value.memory), number)
            value = value.memory
        if number == len(self.views):
            self.views.append(buffer_view(value, what))
        self._block[at : at + 8] = offset.to_bytes(8, "little")
        self.fixups.append(BufferFixup(at, number))


def buffer_view(value: object, what: str) -> memoryview:
    """A byte view of an array argument. Raises `AbiError` unless it is contiguous memory."""
    try:
        view = memoryview(value)  # type: ignore[arg-type]
    except TypeError:
        raise AbiError(f"{what} must be an array, not {type(value).__name__}") from None
    if not view.c_contiguous:
        raise AbiError(f"{what} must be contiguous (C order)")
    if view.nbytes == 0:
        return memoryview(b"")
    return view.cast("B")


def prepare_launch(signature: Signature, arguments: Sequence[object]) -> Invocation:
    """The argument block of a kernel launch. Raises `AbiError` when arguments and parameters do not match."""
    _check_count(signature, arguments)
    layout = layout_arguments([parameter.type for parameter in signature.parameters])
    block = bytearray(layout.size)
    buffers = _Buffers(block)
    for parameter, value, offset in zip(signature.parameters, arguments, layout.offsets, strict=True):
        if parameter.type == "buffer":
            buffers.add(value, offset, f"argument {parameter.name} of {signature.name}")
        else:
            data = pack_value(parameter.type, value)
            block[offset : offset + len(data)] = data
    return Invocation(bytes(block), tuple(buffers.fixups), tuple(buffers.views))


def dispatch_block(signature: Signature, workgroups: Sequence[int], workgroup_size: Sequence[int]) -> bytes:
    """The dispatch block of a launch. Raises `AbiError` for sizes the kernel was not compiled for."""
    if len(workgroups) != 3 or len(workgroup_size) != 3:
        raise AbiError("workgroups and workgroup_size take three numbers each")
    sizes = [int(size) for size in workgroup_size]
    counts = [int(count) for count in workgroups]
    if any(size < 1 or size >= 1 << 32 for size in sizes) or any(
        count < 0 or count >= 1 << 32 for count in counts
    ):
        raise AbiError(f"impossible launch: workgroups {tuple(counts)}, workgroup size {tuple(sizes)}")
    if signature.workgroup_size is not None and tuple(sizes) != signature.workgroup_size:
        raise AbiError(
            f"{signature.name} was compiled for workgroups of {signature.workgroup_size}, not {tuple(sizes)}"
        )
    return struct.pack("<9I", 0, 0, 0, *counts, *sizes)


def _check_count(signature: Signature, arguments: Sequence[object]) -> None:
    if len(arguments) != len(signature.parameters):
        raise AbiError(f"{signature.name} takes {len(signature.parameters)} arguments, not {len(arguments)}")


# Fields of a call frame, in bytes (see `trampoline.CALL_ROUTINE`).
FRAME_ENTRY = 0
FRAME_INTEGERS = 8
FRAME_STACK_SIZE = 56
FRAME_RESULT_INTEGERS = 64  # rax, rdx
FRAME_CHANGED_REGISTERS = 80  # not zero when the callee did not keep a callee-saved register
FRAME_VECTORS = 96  # xmm0-xmm7 in, xmm0 and xmm1 out
#: Bytes of stack arguments the routine has room for; a multiple of 16.
STACK_ARGUMENT_LIMIT = 2048
FRAME_STACK = 224  # stack arguments, then the hidden result struct


@frozen
class CallFrame:
    """A prepared function call: the frame for the trampoline and where the results will be.

    `hidden_result` is the frame offset of the result struct, whose own address belongs in rdi; 0 for none.
    """

    invocation: Invocation
    layout: CallLayout
    result_types: tuple[str, ...]
    hidden_result: int

    def kept_registers(self, frame: bytes) -> bool:
        """False when the callee changed a register it must preserve."""
        return not any(frame[FRAME_CHANGED_REGISTERS : FRAME_CHANGED_REGISTERS + 8])

    def results(self, frame: bytes, *, raw: bool = False) -> list[object]:
        """Read the results out of the frame after the call; `raw` gives their bytes instead of values."""
        values: list[object] = []
        for type_name, place in zip(self.result_types, self.layout.results, strict=True):
            if place.place == "gpr":
                at = FRAME_RESULT_INTEGERS + 8 * RESULT_REGISTERS.index(place.position)
            elif place.place == "vector":
                at = FRAME_VECTORS + 16 * place.position
            else:
                at = self.hidden_result + place.position
            data = frame[at : at + value_size(type_name)]
            values.append(data if raw else unpack_value(type_name, data))
        return values


def prepare_call(signature: Signature, arguments: Sequence[object]) -> CallFrame:
    """The frame of a function call. Raises `AbiError` when arguments and parameters do not match."""
    _check_count(signature, arguments)
    types = [parameter.type for parameter in signature.parameters]
    layout = layout_call(types, signature.results)
    stack = layout.stack_size + -layout.stack_size % 16
    if stack > STACK_ARGUMENT_LIMIT:
        raise AbiError(f"{signature.name} takes more than {STACK_ARGUMENT_LIMIT} bytes of stack arguments")
    frame = bytearray(FRAME_STACK + stack + layout.result_size)
    frame[FRAME_STACK_SIZE : FRAME_STACK_SIZE + 8] = stack.to_bytes(8, "little")
    buffers = _Buffers(frame)
    for parameter, value, place in zip(signature.parameters, arguments, layout.parameters, strict=True):
        if place.place == "gpr":
            at = FRAME_INTEGERS + 8 * INTEGER_REGISTERS.index(place.position)
        elif place.place == "vector":
            at = FRAME_VECTORS + 16 * place.position
        else:
            at = FRAME_STACK + place.position
        if parameter.type == "buffer":
            buffers.add(value, at, f"argument {parameter.name} of {signature.name}")
        else:
            data = pack_value(parameter.type, value)
            frame[at : at + len(data)] = data
    hidden = FRAME_STACK + stack if layout.result_size else 0
    if hidden:
        frame[FRAME_INTEGERS : FRAME_INTEGERS + 8] = hidden.to_bytes(8, "little")
        buffers.fixups.append(BufferFixup(FRAME_INTEGERS, OWN_BLOCK))
    return CallFrame(
        Invocation(bytes(frame), tuple(buffers.fixups), tuple(buffers.views)), layout, signature.results, hidden
    )
