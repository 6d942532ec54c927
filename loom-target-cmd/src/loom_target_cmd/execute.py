"""Executing a command program on NumPy arrays: the meaning of a ``.loomcmd``, for embedders without a device runtime.

An entry is a Python callable ``entry(workgroups, arguments)``. ``workgroups`` are three integers. A buffer argument
is a ``uint8`` array over the referenced bytes, written in place; a scalar is the unsigned integer of its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from loom_target_cmd.manifest import Manifest, ManifestProgram
from loom_target_cmd.records import (
    BufferReference,
    Command,
    CommandProgram,
    Copy,
    DispatchDirect,
    DispatchIndirect,
    ExecutionBarrier,
    Fill,
    Role,
)

Bytes = NDArray[np.uint8]
Entry = Callable[[tuple[int, int, int], list[Any]], None]

SCRATCH: Final = 0xFF
"""What scratch storage holds at first: nothing sensible, so that reading it before writing shows."""


class ExecutionError(ValueError):
    """The program cannot run with what it was given; the message says why."""


def entries_of(manifest: Manifest, program: ManifestProgram, available: Mapping[str, Entry]) -> list[Entry]:
    """The callables of a program's entries, in order of their ordinals, by symbol. Raises for a missing one."""
    symbols = [manifest.entries[index].symbol for index in program.entry_requirements]
    missing = [symbol for symbol in symbols if symbol not in available]
    if missing:
        raise ExecutionError(f"no callable for the entry '{missing[0]}'")
    return [available[symbol] for symbol in symbols]


def fixed_buffer(program: CommandProgram, fixed: int, values: Mapping[str, NDArray[Any]]) -> Bytes:
    """A fixed buffer of a program with its parameters in place, by key. Raises for a missing or misfitting one."""
    root = next((root for root in program.parameter_roots if root.fixed == fixed), None)
    if root is None:
        raise ExecutionError(f"fixed buffer {fixed} holds no parameters")
    buffer = np.zeros(root.length, np.uint8)
    for parameter in program.parameters:
        if parameter.fixed != fixed:
            continue
        if parameter.key not in values:
            raise ExecutionError(f"no value for the parameter '{parameter.key}'")
        data = np.ascontiguousarray(values[parameter.key]).reshape(-1).view(np.uint8)
        if data.size != parameter.length:
            raise ExecutionError(f"parameter '{parameter.key}' takes {parameter.length} bytes, not {data.size}")
        buffer[parameter.offset : parameter.offset + parameter.length] = data
    return buffer


def execute(
    program: CommandProgram,
    entries: Sequence[Entry],
    bindings: Sequence[NDArray[Any]] = (),
    fixed: Sequence[NDArray[Any]] = (),
) -> None:
    """Run the commands of a program in order.

    ``bindings`` are the rebindable buffers but the transient slab, which is made here; ``fixed`` the fixed buffers.
    Arrays are contiguous and are updated in place. Raises :class:`ExecutionError` when a count of things is wrong
    or a command reaches outside a buffer.
    """
    roots = [_bytes(array) for array in bindings]
    if program.launch_counts is not None:
        raise ExecutionError("the program wants launch counts from its issuer, which is not supported")
    if program.transient is not None:
        scratch = np.full(program.transient.length, SCRATCH, np.uint8)
        roots.insert(program.transient.binding, scratch)
    for what, given, wanted in (
        ("entries", len(entries), program.entry_count),
        ("rebindable bindings", len(roots), program.rebindable_binding_count),
        ("fixed buffers", len(fixed), program.fixed_buffer_count),
    ):
        if given != wanted:
            raise ExecutionError(f"{given} {what}, the program has {wanted}")
    _Execution(entries, {Role.FIXED: [_bytes(array) for array in fixed], Role.REBINDABLE: roots}).run(program)


def _bytes(array: NDArray[Any]) -> Bytes:
    if not array.flags.c_contiguous:
        raise ExecutionError("a buffer must be a contiguous array")
    return array.reshape(-1).view(np.uint8)


class _Execution:
    def __init__(self, entries: Sequence[Entry], roots: Mapping[Role, Sequence[Bytes]]) -> None:
        self.entries = entries
        self.roots = roots

    def run(self, program: CommandProgram) -> None:
        # Static counts may be read before anything runs; doing so shows a count that is static by mistake.
        static = {
            id(command): self._counts(command)
            for command in program.commands
            if isinstance(command, DispatchIndirect) and not command.dynamic
        }
        for command in program.commands:
            self._command(command, static.get(id(command)))

    def _command(self, command: Command, static: tuple[int, int, int] | None) -> None:
        match command:
            case Fill():
                target = self._range(command.target)
                pattern = np.frombuffer(command.pattern.to_bytes(command.pattern_length, "little"), np.uint8)
                target[:] = np.resize(pattern, target.size)
            case Copy():
                source, target = self._range(command.source), self._range(command.target)
                if source.size != target.size:
                    raise ExecutionError(f"a copy of {source.size} bytes into {target.size}")
                if np.shares_memory(source, target):
                    raise ExecutionError("source and target of a copy overlap")
                target[:] = source
            case DispatchDirect():
                self._dispatch(command, command.counts)
            case DispatchIndirect():
                self._dispatch(command, static or self._counts(command))
            case ExecutionBarrier():
                pass  # Commands run one after another here.

    def _dispatch(self, command: DispatchDirect | DispatchIndirect, counts: tuple[int, int, int]) -> None:
        arguments = [self._range(a) if isinstance(a, BufferReference) else a.bits for a in command.arguments]
        self.entries[command.entry](counts, arguments)

    def _counts(self, command: DispatchIndirect) -> tuple[int, int, int]:
        data = self._range(command.count)
        if data.size < 12:
            raise ExecutionError(f"workgroup counts take 12 bytes, {data.size} are there")
        x, y, z = np.frombuffer(data[:12].tobytes(), "<u4").tolist()
        return x, y, z

    def _range(self, reference: BufferReference) -> Bytes:
        root = self.roots[reference.role][reference.root]
        end = root.size if reference.length is None else reference.offset + reference.length
        if reference.offset > end or end > root.size:
            raise ExecutionError(
                f"bytes {reference.offset} to {end} of {reference.role.name.lower()} buffer {reference.root}, "
                f"which has {root.size}"
            )
        return root[reference.offset : end]
