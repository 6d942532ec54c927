"""The device ``vulkan``: kernels of checks compiled for the driver at hand and run by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from loom.evaluate.launch import LaunchGeometry, evaluate_launch_config
from loom.ir.core import Module, Op
from loom.ir.diagnostics import fail
from loom.plugins.records import TargetProfile
from loom.specialize.pipeline import specialize
from loom_target_spirv.enumerants import ExecutionMode
from loom_target_spirv.exact_fma import FmaMethod
from loom_target_spirv.facts import DeviceFacts
from loom_target_spirv.profiles import PROFILE
from loom_target_spirv.select.lowering import LoweredModule, Options, entry_name, lower_kernels
from loom_target_spirv.vulkan import VulkanRunner

_FLOAT_MODES: Final[dict[ExecutionMode, str]] = {
    ExecutionMode.DenormPreserve: "shaderDenormPreserveFloat",
    ExecutionMode.SignedZeroInfNanPreserve: "shaderSignedZeroInfNanPreserveFloat",
    ExecutionMode.RoundingModeRTE: "shaderRoundingModeRTEFloat",
}

_GRID_LIMIT: Final = (1 << 32) - 1
"""Work-items along an axis: what the facts about dispatch coordinates assume."""


def open_vulkan(target: TargetProfile | None) -> VulkanDevice:
    """Open the first fitting Vulkan device.  Raises VulkanUnavailable when there is none."""
    return VulkanDevice(target or PROFILE, VulkanRunner())


class VulkanDevice:
    """A Vulkan device as checks use it.

    `facts` are the target's facts with the driver's own: subgroup size, limits, and `device`, `driver` and
    `features` for requirements.
    """

    runs_functions: Final = False
    """Functions of checks are host code and run on the reference evaluator."""

    def __init__(self, target: TargetProfile, runner: VulkanRunner) -> None:
        self._runner = runner
        driver = runner.facts()
        self.target = attrs.evolve(target, facts=dict(target.facts) | _limits(driver))
        self.facts: Mapping[str, object] = self.target.facts | {  # type: ignore[operator]  # a plain dict, above
            "device": driver.name,
            "driver": driver.driver,
            "features": sorted(driver.features),
        }
        self._options = _options(driver)
        self._shared_memory = driver.max_shared_memory
        self._module: Module | None = None
        self._kernels: dict[str, Op] = {}
        self._lowered: dict[tuple[str, tuple[int, int, int]], LoweredModule] = {}

    def launch(self, module: Module, kernel: Op, workload: Sequence[Any], arguments: Sequence[Any]) -> None:
        """Run one kernel; arrays are updated in place.

        Raises `LoomError` for a kernel that has no SPIR-V form or a bad launch configuration, and `VulkanError`
        or `SpirvError` for what the driver or an argument has against it.
        """
        if module is not self._module:
            self._module = module
            self._kernels.clear()
            self._lowered.clear()
        geometry = evaluate_launch_config(kernel, workload, module, self.target.facts)
        self._check_grid(kernel, geometry)
        specialized = self._specialize(module, kernel)
        lowered = self._lower(specialized, geometry)
        self._runner.launch(lowered.data, entry_name(specialized), geometry.workgroups, arguments)

    def call(self, module: Module, function: Op, arguments: Sequence[Any]) -> list[Any]:
        """Functions have no entry point in SPIR-V; raises `LoomError`."""
        raise fail(
            "TARGET/036",
            f"the device 'vulkan' runs kernels, not the function '@{function.attribute('callee')}'",
            function.loc,
            emitter="spirv",
            device="vulkan",
            target_name=self.target.name,
        )

    def close(self) -> None:
        """End the driver process."""
        self._runner.close()

    def _specialize(self, module: Module, kernel: Op) -> Op:
        """The kernel specialized for this device, once per module."""
        name = str(kernel.attribute("callee"))
        if name not in self._kernels:
            result = specialize(module, self.target, (name,)).module
            self._kernels[name] = result.symbols()[name]
        return self._kernels[name]

    def _lower(self, kernel: Op, geometry: LaunchGeometry) -> LoweredModule:
        """The SPIR-V of a kernel, once per workgroup size."""
        key = (str(kernel.attribute("callee")), geometry.workgroup_size)
        if key not in self._lowered:
            lowered = lower_kernels([(kernel, key[1])], self.target.name, self.target.facts, self._options)
            scratch = lowered.kernels[0].workgroup_bytes
            if scratch > self._shared_memory:
                raise fail(
                    "TARGET/051",
                    f"'@{key[0]}' allocates {scratch} bytes of workgroup memory; the device has {self._shared_memory}",
                    kernel.loc,
                    emitter="spirv",
                    function_name=key[0],
                    target_name=self.target.name,
                    reserved_bytes=scratch,
                    limit_bytes=self._shared_memory,
                )
            self._lowered[key] = lowered
        return self._lowered[key]

    def _check_grid(self, kernel: Op, geometry: LaunchGeometry) -> None:
        for axis, count, size in zip("xyz", geometry.workgroups, geometry.workgroup_size, strict=True):
            if count * size > _GRID_LIMIT:
                raise fail(
                    "TARGET/024",
                    f"'@{kernel.attribute('callee')}' would run {count * size} work-items along {axis}; coordinates "
                    f"end at {_GRID_LIMIT}",
                    kernel.loc,
                    emitter="spirv",
                    function_name=kernel.attribute("callee"),
                    target_name=self.target.name,
                    axis=axis,
                    size=count * size,
                    limit=_GRID_LIMIT,
                )


def _limits(driver: DeviceFacts) -> dict[str, object]:
    facts: dict[str, object] = {
        "subgroup_size": driver.subgroup_size,
        "max_flat_workgroup_size": driver.max_invocations,
        "max_workgroup_storage_bytes": driver.max_shared_memory,
    }
    for axis, size, count in zip("xyz", driver.max_workgroup_size, driver.max_workgroup_count, strict=True):
        facts[f"max_workgroup_size_{axis}"] = size
        facts[f"max_workgroup_count_{axis}"] = count
    return facts


def _options(driver: DeviceFacts) -> Options:
    """Everything the driver offers for floats, and the fast fused multiply-add where it can compute in f64."""
    modes = {
        width: frozenset(mode for mode, feature in _FLOAT_MODES.items() if f"{feature}{width}" in driver.features)
        for width in (16, 32, 64)
    }
    wide = "shaderFloat64" in driver.features
    return Options(modes, FmaMethod.WIDER if wide else FmaMethod.INTEGER)
