"""The simulator as a device for x86 targets: code compiled without AVX runs under Unicorn."""

from __future__ import annotations

from loom.ir.diagnostics import fail
from loom.plugins.records import TargetProfile
from loom_sim.x86.program import load
from loom_target_x86.device import LoadedProgram, X86Device
from loom_target_x86.profiles import PROFILES

#: Selectors whose code Unicorn 2.1 executes correctly.
SIMULATED = ("scalar", "simd128")


class X86SimDevice(X86Device):
    """Runs kernels and functions of x86 targets instruction by instruction, with checked memory."""

    def _load(self, code: bytes) -> LoadedProgram:
        return load(code)


def open_x86_sim(target: TargetProfile | None = None) -> X86SimDevice:
    """Open the simulator for a target, `x86:simd128` unless one is given.

    Raises `LoomError` for a target whose instructions it does not have.
    """
    target = target or PROFILES["simd128"]
    if target.selector not in SIMULATED:
        raise fail(
            "TARGET/036",
            f"the simulator runs code for x86:{' and x86:'.join(SIMULATED)}, not for {target.name}",
            emitter="driver",
            hint="choose --target=x86:simd128, or --device=host",
            device="sim",
            target_name=target.name,
        )
    return X86SimDevice(target)
