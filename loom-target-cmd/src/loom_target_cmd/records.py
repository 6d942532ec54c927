"""A prepared command program: the records that a ``.loomcmd`` file holds and its Low text shows.

Byte offsets, lengths and alignments are in bytes. Ordinals count from zero, each kind of thing on its own.
"""

from __future__ import annotations

import enum
from typing import Final

import attrs

U32_MAX: Final = (1 << 32) - 1
U64_MAX: Final = (1 << 64) - 1


class Role(enum.IntEnum):
    """Which table the root of a buffer reference counts in."""

    FIXED = 1
    """Bound once, when the program is materialized: model parameters."""
    REBINDABLE = 2
    """Bound at every issue: inputs, outputs and the transient slab."""


class ArgumentKind(enum.IntEnum):
    """How an entry takes one argument."""

    BUFFER = 1
    B8 = 2
    B16 = 3
    B32 = 4
    B64 = 5

    @property
    def bits(self) -> int:
        """Width of a scalar; 0 for a buffer."""
        return 0 if self is ArgumentKind.BUFFER else 8 << (self - ArgumentKind.B8)

    @property
    def payload_size(self) -> int:
        """Bytes of one argument in a file's argument data."""
        return {ArgumentKind.BUFFER: 24, ArgumentKind.B64: 8}.get(self, 4)


SCALAR_KINDS: Final = {kind.bits: kind for kind in ArgumentKind if kind.bits}


@attrs.frozen
class BufferReference:
    """A byte range of a root. ``length`` is ``None`` for everything from the offset on."""

    role: Role
    root: int
    offset: int = 0
    length: int | None = None

    kind = ArgumentKind.BUFFER


@attrs.frozen
class Scalar:
    """A scalar argument as its bits."""

    kind: ArgumentKind
    bits: int


Argument = BufferReference | Scalar


@attrs.frozen
class Fill:
    """Repeats the low ``pattern_length`` (1, 2 or 4) bytes of ``pattern`` over a range."""

    target: BufferReference
    pattern: int
    pattern_length: int
    barrier: bool = False


@attrs.frozen
class Copy:
    """Copies a range to a disjoint one of the same length."""

    source: BufferReference
    target: BufferReference
    barrier: bool = False


@attrs.frozen
class DispatchDirect:
    """Runs an entry with known workgroup counts (x, y, z)."""

    executable: int
    entry: int
    counts: tuple[int, int, int]
    arguments: tuple[Argument, ...] = ()
    barrier: bool = False


@attrs.frozen
class DispatchIndirect:
    """Runs an entry with three 32-bit workgroup counts in memory.

    They are read when the command runs if ``dynamic``; otherwise the issuer may read them ahead.
    """

    executable: int
    entry: int
    count: BufferReference
    dynamic: bool
    arguments: tuple[Argument, ...] = ()
    barrier: bool = False


@attrs.frozen
class ExecutionBarrier:
    """Everything before it completes, and its writes are visible, before anything behind it starts."""


Command = Fill | Copy | DispatchDirect | DispatchIndirect | ExecutionBarrier


@attrs.frozen
class ParameterRoot:
    """A fixed buffer that holds parameters: how long and how aligned it has to be."""

    fixed: int
    length: int
    alignment: int


@attrs.frozen
class Parameter:
    """Where a named parameter lies in its fixed buffer."""

    key: str
    fixed: int
    offset: int
    length: int
    alignment: int


@attrs.frozen
class Slab:
    """A rebindable binding that the issuer provides memory for."""

    binding: int
    length: int
    alignment: int


@attrs.frozen
class CommandProgram:
    """One prepared command program.

    ``rebindable_binding_count`` includes the slabs. ``launch_counts`` is storage for counts that the issuer writes;
    programs made here have none.
    """

    fixed_buffer_count: int
    rebindable_binding_count: int
    executable_count: int
    entry_count: int
    commands: tuple[Command, ...] = ()
    parameter_roots: tuple[ParameterRoot, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    transient: Slab | None = None
    launch_counts: Slab | None = None

    def entry_kinds(self) -> dict[int, tuple[ArgumentKind, ...]]:
        """Entry ordinal -> the argument kinds it is dispatched with. Raises ``ValueError`` when two differ."""
        found: dict[int, tuple[ArgumentKind, ...]] = {}
        for command in self.commands:
            if isinstance(command, DispatchDirect | DispatchIndirect):
                kinds = tuple(argument.kind for argument in command.arguments)
                if found.setdefault(command.entry, kinds) != kinds:
                    raise ValueError(f"entry {command.entry} is dispatched with different argument lists")
        return found
