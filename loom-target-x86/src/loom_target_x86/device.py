"""Devices that compile for x86: what they share, and the host processor.

Code is compiled when a kernel or function is first used and kept until another module comes along.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from loom.evaluate.launch import evaluate_launch_config
from loom.evaluate.numeric.formats import FORMATS
from loom.ir.core import Module, Op
from loom.ir.diagnostics import fail
from loom.plugins.records import TargetProfile
from loom.specialize.pipeline import specialize
from loom_target_x86.cpu import best_selector
from loom_target_x86.descriptors import REQUIRED_FEATURES
from loom_target_x86.emit import compile_roots
from loom_target_x86.native import NativeRunner, NativeUnavailable, host_features
from loom_target_x86.profiles import PROFILES
from loom_target_x86.sharing import share


class LoadedProgram(Protocol):
    """Code that can be run: `NativeProgram` and the simulator's `Program`."""

    def call(self, name: str, arguments: Sequence[object], *, raw: bool) -> list[object]:
        """Call a function; with `raw` the results are bytes."""

    def launch(
        self, name: str, workgroups: Sequence[int], workgroup_size: Sequence[int], arguments: Sequence[object]
    ) -> None:
        """Run a kernel for every workgroup."""


class X86Device(ABC):
    """Compiles kernels and functions for an x86 target and runs them; subclasses say where."""

    runs_functions: Final = True
    returns_buffers: Final = False

    def __init__(self, target: TargetProfile) -> None:
        self.target = target
        self.facts: Mapping[str, object] = dict(target.facts) | {
            "contract": target.contract,
            "contracts": sorted(PROFILES[selector].contract for selector in target.satisfies),
        }
        self._module: Module | None = None
        self._programs: dict[str, tuple[LoadedProgram, str]] = {}

    def launch(self, module: Module, kernel: Op, workload: Sequence[Any], arguments: Sequence[Any]) -> None:
        """Run one kernel; arrays are updated in place.

        Raises `LoomError` for a kernel that has no x86 form or a bad launch configuration, and what the code or the
        arguments give rise to: `AbiError`, `NativeError` or the simulator's faults.
        """
        geometry = evaluate_launch_config(kernel, workload, module, self.target.facts)
        program, symbol = self._program(module, kernel)
        shared = share(arguments)
        program.launch(symbol, geometry.workgroups, geometry.workgroup_size, shared.arguments)
        shared.copy_back()

    def call(self, module: Module, function: Op, arguments: Sequence[Any]) -> list[Any]:
        """Call one function and return its results as NumPy scalars (arrays for vectors). Raises like `launch`."""
        specs: Any = function.attribute("result_specs")
        for spec in specs:
            if spec.type.text not in FORMATS and not spec.type.text.startswith("vector<"):
                raise fail(
                    "TARGET/033",
                    f"'@{function.attribute('callee')}' returns {spec.type}, which cannot be handed out of "
                    f"{self.target.name} code",
                    function.loc,
                    emitter="x86-object",
                    hint="run the function on --device=reference",
                    field_name="result",
                    actual_type=str(spec.type),
                )
        program, symbol = self._program(module, function)
        # Functions take vectors by value, not as memory.
        parameters = function.regions[-1].entry.args
        given = [
            argument.tobytes() if str(parameter.type).startswith("vector<") else argument
            for parameter, argument in zip(parameters, arguments, strict=False)
        ] + list(arguments[len(parameters) :])
        shared = share(given)
        results = program.call(symbol, shared.arguments, raw=True)
        shared.copy_back()
        return [_value(data, spec.type) for data, spec in zip(results, specs, strict=True)]

    def close(self) -> None:
        """Forget the code."""
        self._module = None
        self._programs.clear()

    def _program(self, module: Module, root: Op) -> tuple[LoadedProgram, str]:
        """The loaded code of a kernel or function and its symbol, compiled once per module."""
        if module is not self._module:
            self._module = module
            self._programs.clear()
        name = str(root.attribute("callee"))
        if name not in self._programs:
            special = specialize(module, self.target, (name,)).module
            work = special.symbols()[name]
            made = compile_roots(special, (work,), self.target)
            symbol = str(work.attribute("export_symbol") or name)
            self._programs[name] = self._load(made.data), symbol
        return self._programs[name]

    @abstractmethod
    def _load(self, code: bytes) -> LoadedProgram:
        """Prepare an object for running."""


def _value(data: object, type_: Any) -> Any:
    assert isinstance(data, bytes)
    if type_.text in FORMATS:
        return np.frombuffer(data, FORMATS[type_.text].dtype)[0]
    return np.frombuffer(data, FORMATS[type_.element.text].dtype).reshape(type_.dims).copy()


class HostDevice(X86Device):
    """The processor that this runs on, in a child process."""

    def __init__(self, target: TargetProfile) -> None:
        super().__init__(target)
        missing = sorted(REQUIRED_FEATURES[target.contract] - host_features())
        if missing:
            raise NativeUnavailable(
                f"this processor has no {missing[0]}, which {target.name} needs; "
                f"use --target=x86:{best_selector()} or --device=sim"
            )
        self._runner = NativeRunner()

    def _load(self, code: bytes) -> LoadedProgram:
        return self._runner.load(code)

    def close(self) -> None:
        """Stop the child process."""
        super().close()
        self._runner.close()


def open_host(target: TargetProfile | None) -> HostDevice:
    """Open the host processor, for the best target it runs unless one is given. Raises `NativeUnavailable`."""
    return HostDevice(target or PROFILES[best_selector()])
