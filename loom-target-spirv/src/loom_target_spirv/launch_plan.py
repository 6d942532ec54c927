"""From the arguments of a launch to what the device needs: the root, distinct regions of memory, bindings
into them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from loom_target_spirv.abi import (
    SCALAR_BITS,
    KernelAbi,
    ModuleAbi,
    ParameterKind,
    PlacedParameter,
    pack_root,
)
from loom_target_spirv.errors import SpirvError, VulkanUnsupported
from loom_target_spirv.facts import DeviceFacts

Array: TypeAlias = npt.NDArray[Any]
Argument: TypeAlias = Array | np.generic | bool | int | float

_RUN_ALIGNMENT = 16


@attrs.frozen
class LaunchPlan:
    """Arguments of one launch as the child wants them: root, distinct memory regions, and bindings into
    them.
    """

    root: bytes
    regions: tuple[Array, ...]
    bindings: tuple[tuple[int, int], ...]
    targets: tuple[tuple[str, Array], ...]

    def describe(self, region: int) -> str:
        """The names of the parameters that lie in a region."""
        names = [
            name for (name, _), (index, _) in zip(self.targets, self.bindings, strict=True) if index == region
        ]
        return "the buffer " + " / ".join(map(repr, names))

    def copy_back(self, payload: bytearray) -> None:
        """Store the regions the kernel left into the arrays."""
        starts, position = [], 0
        for region in self.regions:
            starts.append(position)
            position += region.nbytes
        for (_, target), (region_index, offset) in zip(self.targets, self.bindings, strict=True):
            if target.flags.writeable:
                start = starts[region_index] + offset
                data = np.frombuffer(payload, np.uint8, target.nbytes, start)
                target[...] = data.view(target.dtype).reshape(target.shape)


def plan_launch(abi: ModuleAbi, kernel: KernelAbi, arguments: Sequence[Argument]) -> LaunchPlan:
    """Check the arguments against the parameters and lay them out.

    Raises SpirvError when their number, kind, element size or value does not fit.
    """
    if len(arguments) != len(kernel.parameters):
        raise SpirvError(
            f"the kernel {kernel.name!r} takes {len(kernel.parameters)} arguments, not {len(arguments)}"
        )
    scalars: list[tuple[PlacedParameter, float]] = []
    targets: list[tuple[str, Array]] = []
    for parameter, argument in zip(kernel.parameters, arguments, strict=True):
        if parameter.kind is ParameterKind.SCALAR:
            scalars.append((parameter, _scalar(parameter, argument)))
        else:
            targets.append((parameter.name, _buffer(parameter, argument)))
    regions, bindings = _merge_regions([array for _, array in targets])
    return LaunchPlan(pack_root(abi, 0, 0, scalars), regions, bindings, tuple(targets))


def _scalar(parameter: PlacedParameter, argument: Argument) -> float:
    if isinstance(argument, np.generic):
        argument = argument.item()
    if not isinstance(argument, (bool, int, float)):
        raise SpirvError(f"the argument {parameter.name!r} is a number, not {type(argument).__name__}")
    return argument


def _buffer(parameter: PlacedParameter, argument: Argument) -> Array:
    if not isinstance(argument, np.ndarray):
        raise SpirvError(f"the argument {parameter.name!r} is an array, not {type(argument).__name__}")
    if not argument.flags.c_contiguous:
        raise SpirvError(f"the array for {parameter.name!r} is not C-contiguous")
    bits = SCALAR_BITS.get(parameter.type, 0)
    if bits >= 8 and argument.dtype != np.uint8 and argument.dtype.itemsize * 8 != bits:
        raise SpirvError(
            f"the array for {parameter.name!r} has elements of {argument.dtype}; "
            f"the kernel reads {parameter.type}"
        )
    return argument


def _merge_regions(arrays: Sequence[Array]) -> tuple[tuple[Array, ...], tuple[tuple[int, int], ...]]:
    """Distinct runs of memory that cover the arrays, and each array as (run, byte offset).

    Arrays that overlap share a run, which then keeps their addresses modulo `_RUN_ALIGNMENT`.  An empty array
    has a run of its own without bytes.
    """
    spans = [(array.ctypes.data, array.ctypes.data + array.nbytes) for array in arrays]
    runs: list[tuple[int, int]] = []
    run_of = [0] * len(arrays)
    for index in sorted(range(len(arrays)), key=lambda i: (arrays[i].nbytes == 0, spans[i])):
        start, end = spans[index]
        if start < end and runs and start < runs[-1][1]:
            first, last = runs[-1]
            runs[-1] = (first - first % _RUN_ALIGNMENT, max(last, end))
        else:
            runs.append((start, end))
        run_of[index] = len(runs) - 1
    regions = tuple(np.zeros(end - start, np.uint8) for start, end in runs)
    placed = tuple((run, start - runs[run][0]) for run, (start, _) in zip(run_of, spans, strict=True))
    for array, (run, offset) in zip(arrays, placed, strict=True):
        regions[run][offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)
    return regions, placed


def check_limits(
    abi: ModuleAbi, kernel: KernelAbi, workgroups: tuple[int, int, int], facts: DeviceFacts
) -> None:
    """Raise VulkanUnsupported when the workgroup, the grid or the root is more than the device has."""
    x, y, z = kernel.local_size
    if x * y * z > facts.max_invocations or any(
        size > limit for size, limit in zip(kernel.local_size, facts.max_workgroup_size, strict=True)
    ):
        raise VulkanUnsupported(
            f"the workgroup size {kernel.local_size} of {kernel.name!r} exceeds the limits of "
            f"{facts.name!r}: {facts.max_workgroup_size} and {facts.max_invocations} in all"
        )
    if any(not 0 <= n <= limit for n, limit in zip(workgroups, facts.max_workgroup_count, strict=True)):
        raise VulkanUnsupported(
            f"a grid of {workgroups} workgroups is outside the limits of {facts.name!r}: "
            f"{facts.max_workgroup_count}"
        )
    if abi.root_size > facts.max_push_constants:
        raise VulkanUnsupported(
            f"the scalars of the module's kernels take {abi.root_size} bytes of push constants, their head "
            f"included; {facts.name!r} has {facts.max_push_constants}"
        )
