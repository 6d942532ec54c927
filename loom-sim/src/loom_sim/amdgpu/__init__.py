"""An emulator of AMD GPU waves: runs compute code objects for gfx942, gfx11 and gfx12 on NumPy.

`load(code_object)` gives a `Program`; `Program.launch` runs a kernel. Code is decoded with the tables of
`loom-target-amdgpu`, which must be installed to load anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loom_sim.amdgpu.errors import (
    FaultRecord,
    LaunchError,
    LoadError,
    SimulationError,
    SimulationFault,
    UnsupportedInstruction,
)

if TYPE_CHECKING:
    from loom_sim.amdgpu.program import KernelInfo, LaunchReport, Program

__all__ = [
    "FaultRecord",
    "KernelInfo",
    "LaunchError",
    "LaunchReport",
    "LoadError",
    "Program",
    "SimulationError",
    "SimulationFault",
    "UnsupportedInstruction",
    "load",
]

_PROGRAM_NAMES = frozenset({"KernelInfo", "LaunchReport", "Program"})


def load(code_object: bytes, processor: str | None = None) -> Program:
    """Load a linked AMDGPU code object; see `program.load`."""
    from loom_sim.amdgpu.program import load as load_program

    return load_program(code_object, processor)


def __getattr__(name: str) -> object:
    if name in _PROGRAM_NAMES:  # NumPy is imported only when somebody runs something
        from loom_sim.amdgpu import program

        return getattr(program, name)
    raise AttributeError(name)
