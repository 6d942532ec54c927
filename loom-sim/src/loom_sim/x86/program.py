"""Load and run x86-64 code under Unicorn.

Calls and launches go through the same routines that the native runner uses, so a program meets the same
register and stack contents on both.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from loom_sim.x86 import memory
from loom_sim.x86.faults import FaultRecord, SimulationError, SimulationFault
from loom_sim.x86.report import Counts, LaunchReport
from loom_sim.x86.validate import check_code

if TYPE_CHECKING:
    from loom_target_x86.abi import Signature
    from loom_target_x86.image import Image
    from loom_target_x86.invocation import Invocation

_DEFAULT_MXCSR = 0x1F80  # all exceptions masked, round to nearest, no flushing
_EXCEPTIONS = {
    0: ("divide", "the code divided by zero or out of range"),
    3: ("exception", "the code stopped at a breakpoint"),
    6: ("invalid-instruction", "the code executed an invalid instruction"),
    13: ("exception", "the code raised a general protection fault (a misaligned vector access, perhaps)"),
}


class Program:
    """Simulated code; see `load`."""

    def __init__(
        self, image: Image, *, max_instructions: int | None, max_seconds: float, counted: bool = False
    ) -> None:
        check_code(image)
        self.counted = counted
        self.last_report: LaunchReport | None = None
        self.image = image
        self.max_instructions = max_instructions
        self.max_seconds = max_seconds
        self._machine: _Machine | None = None

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """Exported functions and kernels by name."""
        return self.image.signatures

    def call(
        self,
        name: str,
        arguments: Sequence[object],
        result_types: Sequence[str] | None = None,
        *,
        raw: bool = False,
    ) -> list[object]:
        """Call an object function and return its results (`raw`: their bytes); arrays are updated in place.

        `result_types`, when given, must be what the function returns. Raises
        `loom_target_x86.values.AbiError` for arguments that do not fit and `SimulationFault` when the code
        misbehaves.
        """
        from loom_target_x86.abi import find_signature
        from loom_target_x86.invocation import prepare_call
        from loom_target_x86.trampoline import CALL_SYMBOL
        from loom_target_x86.values import AbiError

        signature = find_signature(self.image.signatures, name, "function")
        if result_types is not None and tuple(result_types) != signature.results:
            raise AbiError(
                f"{name} returns ({', '.join(signature.results)}), not ({', '.join(result_types)})"
            )
        call = prepare_call(signature, arguments)
        frame = self._run(CALL_SYMBOL, name, call.invocation, b"")
        if not call.kept_registers(frame):
            raise SimulationFault(
                FaultRecord("callee-saved", f"{name} did not preserve a callee-saved register", symbol=name)
            )
        return call.results(frame, raw=raw)

    def launch(
        self,
        name: str,
        workgroups: Sequence[int] = (1, 1, 1),
        workgroup_size: Sequence[int] = (1, 1, 1),
        arguments: Sequence[object] = (),
    ) -> None:
        """Run a kernel for every workgroup; arrays are updated in place. Raises like `call`."""
        from loom_target_x86.abi import find_signature
        from loom_target_x86.invocation import dispatch_block, prepare_launch
        from loom_target_x86.trampoline import LAUNCH_SYMBOL

        signature = find_signature(self.image.signatures, name, "kernel")
        dispatch = dispatch_block(signature, workgroups, workgroup_size)
        invocation = prepare_launch(signature, arguments)
        if 0 not in [int(count) for count in workgroups]:
            self._run(LAUNCH_SYMBOL, name, invocation, dispatch)

    def _run(self, routine: str, name: str, invocation: Invocation, dispatch: bytes) -> bytes:
        if self._machine is None:
            self._machine = _Machine(self.image, Counts() if self.counted else None)
        self.last_report = None
        start = time.perf_counter()
        try:
            result = self._machine.run(
                routine, name, invocation, dispatch, self.max_instructions, self.max_seconds
            )
        except SimulationError:
            # A stopped machine may hold half-executed state: the next run gets a new one.
            self._machine = None
            raise
        counts = self._machine.counts
        if counts is not None:
            code = self.image.data[: self.image.text_size]
            self.last_report = counts.report(name, code, memory.IMAGE, time.perf_counter() - start)
            self._machine.counts = Counts()
        return result


class _Machine:
    """One Unicorn instance with the code and the stack mapped."""

    def __init__(self, image: Image, counts: Counts | None = None) -> None:
        from loom_target_x86.trampoline import trampolines

        # Unicorn's own annotations are incomplete: it is treated as untyped here.
        unicorn: Any = import_module("unicorn")
        self._unicorn = unicorn
        self._registers: Any = import_module("unicorn.x86_const")
        self._image = image
        self._uc: Any = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
        self._buffers = memory.BufferSpace(self._uc)
        self._fault: FaultRecord | None = None
        code = trampolines()
        self._routines = code.labels
        executable = unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC
        self._map(memory.STOP, b"\xf4", executable)
        self._map(memory.ROUTINES, code.data, executable)
        data = image.placed_at(memory.IMAGE)
        self._map(memory.IMAGE, data[: image.rodata_offset], executable)
        if data[image.rodata_offset :]:
            self._map(memory.IMAGE + image.rodata_offset, data[image.rodata_offset :], unicorn.UC_PROT_READ)
        self._uc.mem_map(memory.STACK_TOP - memory.STACK_SIZE, memory.STACK_SIZE)
        self._uc.hook_add(unicorn.UC_HOOK_MEM_INVALID, self._on_invalid)
        self._uc.hook_add(unicorn.UC_HOOK_INTR, self._on_exception)
        self.counts = counts
        if counts is not None:
            self._uc.hook_add(unicorn.UC_HOOK_BLOCK, self._on_block)
            self._uc.hook_add(unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, self._on_access)

    def _map(self, address: int, data: bytes, protection: int) -> None:
        self._uc.mem_map(address, memory.pages(len(data)), protection)
        self._uc.mem_write(address, data)

    # -- running ----------------------------------------------------------------------------------

    def run(
        self,
        routine: str,
        name: str,
        invocation: Invocation,
        dispatch: bytes,
        max_instructions: int | None,
        max_seconds: float,
    ) -> bytes:
        """Run one call or launch; returns the block afterwards and copies the buffers back."""
        from loom_target_x86.abi import DISPATCH_SIZE
        from loom_target_x86.invocation import OWN_BLOCK

        uc, constants, unicorn = self._uc, self._registers, self._unicorn
        regions = [self._buffers.add(buffer) for buffer in invocation.buffers]
        hooks = [
            uc.hook_add(
                unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, self._on_edge, region, begin, end
            )
            for region in regions
            if region.length
            for begin, end in region.watched()
        ]
        entry = memory.IMAGE + self._image.symbols[name]
        block = bytearray(invocation.block)
        for fixup in invocation.fixups:
            address = memory.BLOCK if fixup.buffer == OWN_BLOCK else regions[fixup.buffer].start
            address += struct.unpack_from("<Q", block, fixup.offset)[0]
            struct.pack_into("<Q", block, fixup.offset, address)
        uc.mem_map(memory.BLOCK, memory.pages(len(block)))
        uc.mem_map(memory.DISPATCH, memory.PAGE)
        if dispatch:
            arguments = (entry, memory.BLOCK, memory.DISPATCH)
        else:
            struct.pack_into("<Q", block, 0, entry)
            arguments = (memory.BLOCK, 0, 0)
        uc.mem_write(memory.BLOCK, bytes(block))
        uc.mem_write(memory.DISPATCH, dispatch)
        # As after a call: the return address lies eight bytes below a multiple of sixteen.
        stack = memory.STACK_TOP - 72
        uc.mem_write(stack, struct.pack("<Q", memory.STOP))
        for register, value in zip(("RDI", "RSI", "RDX"), arguments, strict=True):
            uc.reg_write(getattr(constants, f"UC_X86_REG_{register}"), value)
        uc.reg_write(constants.UC_X86_REG_RSP, stack)
        uc.reg_write(constants.UC_X86_REG_MXCSR, _DEFAULT_MXCSR)
        try:
            self._emulate(memory.ROUTINES + self._routines[routine], max_instructions, max_seconds)
        except SimulationFault as fault:
            if dispatch:
                raise fault.with_workgroup(
                    struct.unpack("<3I", uc.mem_read(memory.DISPATCH, DISPATCH_SIZE)[:12])
                ) from None
            raise
        for region, buffer in zip(regions, invocation.buffers, strict=True):
            if not buffer.readonly:
                buffer[:] = self._buffers.read(region)
        result = bytes(uc.mem_read(memory.BLOCK, len(block))) if block else b""
        for hook in hooks:
            uc.hook_del(hook)
        uc.mem_unmap(memory.BLOCK, memory.pages(len(block)))
        uc.mem_unmap(memory.DISPATCH, memory.PAGE)
        self._buffers.clear()
        return result

    def _emulate(self, begin: int, max_instructions: int | None, max_seconds: float) -> None:
        self._fault = None
        error: Any = None
        try:
            self._uc.emu_start(
                begin, memory.STOP, timeout=max(1, int(max_seconds * 1e6)), count=max_instructions or 0
            )
        except self._unicorn.UcError as caught:
            error = caught
        if self._fault is not None:
            raise SimulationFault(self._fault)
        address = int(self._uc.reg_read(self._registers.UC_X86_REG_RIP))
        if error is not None:
            kind, message = "exception", f"the code stopped: {error}"
            if error.errno == self._unicorn.UC_ERR_INSN_INVALID:
                kind, message = _EXCEPTIONS[6]
            raise SimulationFault(self._locate(kind, message, address))
        if address == memory.STOP:
            return
        timed_out = self._uc.query(self._unicorn.UC_QUERY_TIMEOUT)
        if max_instructions is not None and not timed_out:
            raise SimulationFault(
                self._locate(
                    "instruction-budget",
                    f"the code did not end within {max_instructions} instructions",
                    address,
                )
            )
        raise SimulationFault(
            self._locate("time-budget", f"the code did not end within {max_seconds:g} seconds", address)
        )

    # -- faults -----------------------------------------------------------------------------------

    def _locate(self, kind: str, message: str, rip: int, **details: Any) -> FaultRecord:
        from loom_target_x86.inspect import decode_one, symbol_at

        offset = rip - memory.IMAGE
        if not 0 <= offset < self._image.text_size:
            return FaultRecord(kind, message, **details)
        text = decode_one(self._image.data[offset : offset + 15], offset)
        symbol = symbol_at(self._image, offset)
        return FaultRecord(kind, message, code_offset=offset, instruction=text, symbol=symbol, **details)

    def _access(self, kind: str, address: int, size: int) -> FaultRecord:
        rip = int(self._uc.reg_read(self._registers.UC_X86_REG_RIP))
        verb = {"read": "read", "write": "wrote", "fetch": "jumped to"}[kind]
        region = self._buffers.nearest(address)
        message = f"the code {verb} {size} bytes at {address:#x}"
        if kind == "fetch":
            message = f"the code jumped to {address:#x}, which is not executable"
        stack = memory.STACK_TOP - memory.STACK_SIZE
        if region is not None:
            offset = address - region.start
            what = f"offset {offset} of buffer {region.number}, which has {region.size} bytes"
            message = f"the code {verb} {size} bytes at {what}"
            return self._locate(
                kind, message, rip, address=address, size=size, buffer=region.number, offset=offset
            )
        if stack - (1 << 20) <= address < stack:
            message = f"the code used more than {memory.STACK_SIZE} bytes of stack"
        elif address < memory.PAGE:
            message = f"the code {verb} {size} bytes at the null address {address:#x}"
        return self._locate(kind, message, rip, address=address, size=size)

    def _on_block(self, _uc: Any, address: int, size: int, _data: Any) -> None:
        if self.counts is not None:
            self.counts.blocks[address, size] += 1

    def _on_access(self, uc: Any, access: int, _address: int, size: int, _value: int, _data: Any) -> None:
        inside = memory.IMAGE <= int(uc.reg_read(self._registers.UC_X86_REG_RIP)) < memory.IMAGE + self._image.text_size
        if self.counts is None or not inside:
            return  # the routines that make the call move arguments
        if access == self._unicorn.UC_MEM_WRITE:
            self.counts.stored += size
        else:
            self.counts.loaded += size

    def _on_invalid(self, _uc: Any, access: int, address: int, size: int, _value: int, _data: Any) -> bool:
        unicorn = self._unicorn
        if access in (unicorn.UC_MEM_WRITE_UNMAPPED, unicorn.UC_MEM_WRITE_PROT):
            kind = "write"
        elif access in (unicorn.UC_MEM_FETCH_UNMAPPED, unicorn.UC_MEM_FETCH_PROT):
            kind = "fetch"
        else:
            kind = "read"
        if self._fault is None:
            self._fault = self._access(kind, address, size)
        return False

    def _on_edge(
        self, uc: Any, access: int, address: int, size: int, _value: int, region: memory.Region
    ) -> None:
        if region.start <= address and address + size <= region.start + region.size:
            return
        if self._fault is None:
            self._fault = self._access(
                "write" if access == self._unicorn.UC_MEM_WRITE else "read", address, size
            )
        uc.emu_stop()

    def _on_exception(self, uc: Any, number: int, _data: Any) -> None:
        kind, message = _EXCEPTIONS.get(number, ("exception", f"the code raised exception {number}"))
        if self._fault is None:
            rip = int(uc.reg_read(self._registers.UC_X86_REG_RIP))
            self._fault = self._locate(kind, message, rip)
        uc.emu_stop()


def load(
    code: bytes,
    signatures: Sequence[Signature] = (),
    *,
    max_instructions: int | None = None,
    max_seconds: float = 60.0,
    counted: bool = False,
) -> Program:
    """Load an ELF object (as this target or a C compiler makes them), or bare code with one signature.

    `signatures` describe symbols that the object itself does not describe. `max_seconds` bounds each call or
    launch in time; `max_instructions` bounds it exactly, and reproducibly, at about a tenth of the speed.
    With `counted`, `Program.last_report` tells what the last call or launch executed, at some cost in speed.
    Raises `UnsupportedInstruction` for code the simulator must not run and
    `loom_target_x86.object.ObjectError` for malformed objects.
    """
    try:
        from loom_target_x86.image import load_image
    except ImportError as error:
        raise SimulationError(
            "simulating x86 code needs the package loom-target-x86; install loom-sim[x86]"
        ) from error
    image = load_image(code, signatures)
    return Program(image, max_instructions=max_instructions, max_seconds=max_seconds, counted=counted)
