"""The device ``sim``: kernels compiled for a target and executed by this package's simulators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from loom.evaluate.launch import evaluate_launch_config
from loom.ir.core import Module, Op
from loom.ir.diagnostics import Location, SourceLocation, fail, placed_span
from loom.plugins.records import OpenDevice, TargetProfile
from loom_sim.amdgpu.errors import FaultRecord, SimulationFault
from loom_sim.amdgpu.program import LaunchReport, Program, load


def open_sim(target: TargetProfile | None) -> OpenDevice:
    """Open the simulator of the target's family.

    Raises:
        LoomError: no target, or one of a family that is not simulated.
    """
    if target is None:
        raise fail(
            "TARGET/026",
            "the simulator needs a target",
            None,
            hint="pass --target=amdgpu:gfx1100",
            emitter="driver",
            function_name="",
        )
    if target.family == "x86":
        from loom_sim.x86.device import open_x86_sim

        device: OpenDevice = open_x86_sim(target)
        return device
    return AmdgpuSimulator(target)


class AmdgpuSimulator:
    """Runs kernels on the AMD GPU wave emulator.

    A kernel is compiled by the emitter that is registered for the target's default format, once per module.
    ``strict`` checks waits, undefined registers and barriers while running. ``last_report`` has the statistics of
    the last launch.
    """

    runs_functions: Final = False
    """Functions of checks are host code and run on the reference evaluator."""

    def __init__(self, target: TargetProfile, strict: bool = True) -> None:
        self.target = target
        self.facts: Mapping[str, object] = dict(target.facts)
        self.last_report: LaunchReport | None = None
        self._strict = strict
        self._module: Module | None = None
        self._programs: dict[str, tuple[Program, str]] = {}

    def launch(self, module: Module, kernel: Op, workload: Sequence[Any], arguments: Sequence[Any]) -> None:
        """Compile (once) and run one kernel; arrays are updated in place.

        Raises:
            LoomError: the kernel has no form on the target, or its launch configuration is bad.
            SimulationFault: the machine code did something wrong.
        """
        if module is not self._module:
            self._module = module
            self._programs.clear()
        geometry = evaluate_launch_config(kernel, workload, module, self.facts)
        program, name = self._program(module, kernel)
        if 0 in geometry.workgroups:
            return
        try:
            self.last_report = program.launch(
                name,
                geometry.workgroups,
                geometry.workgroup_size,
                list(arguments),
                dynamic_lds=geometry.dynamic_storage,
                strict=self._strict,
            )
        except SimulationFault as fault:
            fault.location = _location(fault.record, module)
            raise

    def call(self, module: Module, function: Op, arguments: Sequence[Any]) -> list[Any]:
        """Functions have no entry point in a code object; raises `LoomError`."""
        raise fail(
            "TARGET/036",
            f"the device 'sim' runs kernels of {self.target.name}, not functions",
            function.loc,
            emitter="driver",
            device="sim",
            target_name=self.target.name,
        )

    def close(self) -> None:
        """Forget compiled kernels."""
        self._programs.clear()
        self._module = None

    def _program(self, module: Module, kernel: Op) -> tuple[Program, str]:
        from loom import api

        symbol = str(kernel.attribute("callee"))
        found = self._programs.get(symbol)
        if found is None:
            made = api.compile(module, (symbol,), self.target, options={"debug_info": True})
            program = load(made.result.primary.data)
            (name,) = program.kernels
            found = self._programs[symbol] = program, name
        return found


def _location(record: FaultRecord, module: Module) -> Location:
    """The operation that an instruction at fault was made from, or at least its place."""
    place = record.source
    if place is None:
        return None
    for op in module.walk():
        found = SourceLocation.of(op.loc)
        if found is not None and (found.filename, found.start_line, found.start_column) == (
            place.file,
            place.line,
            place.column,
        ):
            return op.loc
    return placed_span(place.file, (place.line, place.column, place.line, place.column))
