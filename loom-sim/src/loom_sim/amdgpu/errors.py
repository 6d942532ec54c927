"""What can go wrong in a launch, as structured records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from loom.ir.diagnostics import Location
    from loom_target_amdgpu.code_object.debug_lines import SourcePlace


@attrs.frozen(slots=True)
class FaultRecord:
    """Where and why a program was stopped.

    `kind` is a stable short name: `out_of_bounds`, `misaligned`, `missing_wait`, `hazard`, `uninitialized`,
    `race`, `barrier_divergence`, `step_budget`, `lds_out_of_range`, `scratch_out_of_range`, `invalid_pc`,
    `unsupported`, `illegal_instruction`, `trap`. `pc` is the instruction's address in the code object (its ELF virtual
    address). `source` is where the instruction comes from, if the code object has a line table. Fields that do not
    apply are None.
    """

    kind: str
    message: str
    kernel: str | None = None
    pc: int | None = None
    instruction: str | None = None
    workgroup: tuple[int, int, int] | None = None
    wave: int | None = None
    lane: int | None = None
    address: int | None = None
    source: SourcePlace | None = None

    def __str__(self) -> str:
        where = []
        if self.kernel is not None:
            where.append(f"kernel {self.kernel}")
        if self.pc is not None:
            where.append(f"at {self.pc:#x}")
        if self.instruction is not None:
            where.append(f"`{self.instruction}`")
        if self.source is not None:
            where.append(f"source {self.source}")
        if self.workgroup is not None:
            where.append(f"workgroup {self.workgroup}")
        if self.wave is not None:
            where.append(f"wave {self.wave}")
        if self.lane is not None:
            where.append(f"lane {self.lane}")
        if self.address is not None:
            where.append(f"address {self.address:#x}")
        return f"{self.kind}: {self.message}" + (f" ({', '.join(where)})" if where else "")


class SimulationError(Exception):
    """Base of everything the emulator raises on purpose."""


class LoadError(SimulationError):
    """The code object cannot be loaded: damaged, of an unknown processor, or the decoder is not installed."""


class LaunchError(SimulationError):
    """The launch itself is wrong: unknown kernel, sizes out of range, arguments that do not fit the metadata."""


class SimulationFault(SimulationError):
    """The program did something hardware may hide: see `record`.

    `location` is the place in a Loom module, set by who knows the module.
    """

    def __init__(self, record: FaultRecord) -> None:
        super().__init__(str(record))
        self.record = record
        self.location: Location = None

    def __reduce__(self) -> tuple[type[SimulationFault], tuple[FaultRecord]]:
        return type(self), (self.record,)  # the message is not what it is made of


class UnsupportedInstruction(SimulationFault):
    """The emulator does not know this instruction or this form of it; nothing was guessed."""
