"""x86-64 code under Unicorn: `load(code).call(…)` and `.launch(…)`.

Runs the SSE-only profile (`x86:simd128`); code with AVX or later instructions is refused.
"""

from __future__ import annotations

from loom_sim.x86.faults import FaultRecord, SimulationError, SimulationFault, UnsupportedInstruction
from loom_sim.x86.program import Program, load

__all__ = ["FaultRecord", "Program", "SimulationError", "SimulationFault", "UnsupportedInstruction", "load"]
