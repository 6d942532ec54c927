"""Stopping a launch at instructions, looking at its waves and changing them.

A `Debugger` runs a kernel one instruction at a time and calls a function at every stop. The function looks at the waves
that are about to execute the instruction through the `Stop` it gets, and says how to go on. Waves that agree on the
program counter stop together.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from loom_sim.amdgpu.errors import LaunchError
from loom_sim.amdgpu.machine import Machine
from loom_sim.amdgpu.program import LaunchReport, Program
from loom_sim.amdgpu.state import EXEC_LO, SCC, Array, Group, as_words, resolve

if TYPE_CHECKING:
    from loom_target_amdgpu.code_object.debug_lines import SourcePlace

_SCALARS = 106
_NAMED = {"vcc_lo": 106, "vcc_hi": 107, "exec_lo": 126, "exec_hi": 127}


class Action(enum.Enum):
    """How to go on after a stop."""

    CONTINUE = "to the next breakpoint"
    STEP = "to the next instruction, of whichever waves run next"
    QUIT = "not at all: the launch ends with `Quit`"


class Quit(Exception):
    """The function called at a stop has ended the launch; arrays may be partly updated."""


class Stop:
    """Waves about to execute an instruction. Valid only while the function that got it runs.

    Attributes:
        address: of the instruction, in the code object.
        instruction: its text.
        source: where it comes from, or None if the code object does not say.
        waves: (workgroup, wave within it) of each wave that stops here; workgroups are numbered with x fastest.
    """

    def __init__(
        self,
        group: Group,
        machine: Machine,
        vectors: int,
        text: str,
        source: SourcePlace | None,
        first_workgroup: int,
        per_group: int,
    ) -> None:
        self._group = group
        self._machine = machine
        self._vectors = vectors
        self.address = group.pc
        self.instruction = text
        self.source = source
        self.waves = tuple((first_workgroup + wave // per_group, wave % per_group) for wave in group.waves.tolist())

    @property
    def active(self) -> Array:
        """The active lanes, bool of shape (waves, lanes)."""
        result: Array = self._group.exec.copy()
        return result

    @property
    def scc(self) -> Array | None:
        """The scalar condition code, bool of shape (waves,); None if nothing wrote it."""
        value = resolve(self._group.s[SCC], self._group.memo, self._group.lanes)
        return None if value is None else np.broadcast_to(value, (len(self.waves), 1))[:, 0].copy()

    def read(self, register: str) -> Array | None:
        """Words of a register.

        Args:
            register: `v7`; `s7`, `vcc_lo`, `exec_lo` and so on.

        Returns:
            uint32 of shape (waves, lanes) or, for scalar registers, (waves,); None if nothing wrote it.

        Raises:
            ValueError: there is no such register.
        """
        group = self._group
        vector, index = self._place(register)
        value = resolve((group.v if vector else group.s)[index], group.memo, group.lanes)
        if value is None:
            return None
        shape = (len(self.waves), group.lanes if vector else 1)
        words: Array = np.broadcast_to(as_words(value), shape).copy()
        return words if vector else words[:, 0]

    def write(self, register: str, value: Any) -> None:
        """Set a vector or scalar register, in all lanes; `value` broadcasts to what `read` returns.

        Raises:
            ValueError: there is no such register, it is EXEC, or the value does not fit.
        """
        group = self._group
        vector, index = self._place(register)
        if not vector and index >= EXEC_LO:
            raise ValueError("EXEC cannot be changed at a stop")
        shape = (len(self.waves), group.lanes) if vector else (len(self.waves),)
        words = np.broadcast_to(np.asarray(value, np.uint32), shape).copy()
        (group.v if vector else group.s)[index] = words if vector else words[:, None]
        (group.xv if vector else group.xs).pop(index, None)

    def _place(self, register: str) -> tuple[bool, int]:
        index = _NAMED.get(register)
        if index is not None:
            return False, index
        kind, number = register[:1], register[1:]
        limit = {"v": self._vectors, "s": _SCALARS}.get(kind, 0)
        if not (number.isascii() and number.isdigit()) or int(number) >= limit:
            raise ValueError(f"no register {register!r}: v0 to v{self._vectors - 1}, s0 to s105, {', '.join(_NAMED)}")
        return kind == "v", int(number)

    def memory(self, address: int, size: int) -> bytes:
        """Bytes of global memory, at an address as a register holds it.

        Raises:
            AccessError: they are outside every buffer.
        """
        return self._machine.space.peek(address, size)

    def lds(self, wave: int = 0) -> bytes:
        """All LDS of the workgroup of a wave, counted as in `waves`."""
        return self._machine.lds_of(int(self._group.waves[wave]))


class Debugger:
    """Runs kernels of a program and stops at breakpoints.

    Attributes:
        breakpoints: addresses in the code object at which waves stop.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.breakpoints: set[int] = set()
        self._stepping = False
        self._batch = (0, 1)
        self._on_stop: Callable[[Stop], Action] = lambda stop: Action.CONTINUE

    def break_at(self, place: int | str, offset: int = 0) -> int:
        """Set a breakpoint at an address, or so many bytes behind a symbol; returns its address.

        Raises:
            LaunchError: the code object has no such symbol.
        """
        if isinstance(place, str):
            symbol = self._program.code_object.symbols.get(place)
            if symbol is None:
                raise LaunchError(f"no symbol '{place}' in the code object")
            place = symbol.address
        self.breakpoints.add(place + offset)
        return place + offset

    def break_at_line(self, file: str, line: int) -> tuple[int, ...]:
        """Set breakpoints where runs of instructions of a source line start; returns their addresses.

        Args:
            file: as the compiler was given it, or the last parts of that path.
            line: from 1.

        Raises:
            LaunchError: no instruction comes from the line, or the code object has no line table.
        """
        lines = self._program.lines
        found = lines.addresses(file, line)
        if not found:
            known = ", ".join(lines.files())
            raise LaunchError(
                f"no instruction comes from {file}:{line}; "
                + (f"the code comes from: {known}" if known else "the code object has no line table")
            )
        self.breakpoints.update(found)
        return found

    def launch(
        self,
        name: str,
        on_stop: Callable[[Stop], Action],
        workgroups: Sequence[int] | int = 1,
        workgroup_size: Sequence[int] | int = 1,
        arguments: Sequence[Any] = (),
        *,
        step: bool = False,
        **options: Any,
    ) -> LaunchReport:
        """Run a kernel as `Program.launch` does, calling `on_stop` at every breakpoint.

        Args:
            step: stop at the first instruction too.
            options: further arguments of `Program.launch`.

        Raises:
            Quit: `on_stop` said so.
        """
        self._stepping = step
        self._on_stop = on_stop
        return self._program.launch(name, workgroups, workgroup_size, arguments, control=self, **options)

    def batch(self, first_workgroup: int, waves_per_workgroup: int) -> None:
        """Waves are numbered anew; see `trace.Observer`."""
        self._batch = first_workgroup, waves_per_workgroup

    def before(self, group: Group, machine: Machine, vectors: int, text: Callable[[], str]) -> None:
        """Waves are about to execute an instruction (`program.Control`)."""
        if not self._stepping and group.pc not in self.breakpoints:
            return
        source = self._program.source_of(group.pc)
        action = self._on_stop(Stop(group, machine, vectors, text(), source, *self._batch))
        if action is Action.QUIT:
            raise Quit
        self._stepping = action is Action.STEP
