"""The artifact formats ``spirv-binary``, all selected kernels in one SPIR-V module, and ``spirv-dis``, its text."""

from __future__ import annotations

from typing import Any

from loom.facts.analysis import FunctionFacts
from loom.ir.core import Op
from loom.ir.diagnostics import fail
from loom.plugins.records import Artifact, EmitRequest, EmitResult, TargetProfile
from loom_target_spirv.disasm import disassemble
from loom_target_spirv.encoding import instructions
from loom_target_spirv.select.lowering import LoweredModule, lower_kernels


def emit(request: EmitRequest) -> EmitResult:
    """Write the selected kernels of a specialized module.

    Raises `LoomError`: TARGET/022 for a workgroup size that is no positive constant, SPIRV and TARGET codes for
    operations without a SPIR-V form.
    """
    target = request.target
    assert target is not None  # the format declares that it needs one
    kernels = [(kernel, static_workgroup_size(kernel, target)) for kernel in request.roots]
    lowered = lower_kernels(kernels, target.name, target.facts)
    return EmitResult(Artifact("module.spv", "target-artifact", lowered.data), report=report(lowered))


def emit_text(request: EmitRequest) -> EmitResult:
    """What `emit` writes, as text in the notation of ``spirv-dis``. Raises like it."""
    made = emit(request)
    text = disassemble(made.primary.data)
    return EmitResult(Artifact("module.spvasm", "target-listing", text.encode()), report=made.report)


def static_workgroup_size(kernel: Op, target: TargetProfile) -> tuple[int, int, int]:
    """The workgroup size that the launch configuration fixes, which SPIR-V makes part of the code."""
    sizes = FunctionFacts(kernel, target.facts).static_workgroup_size
    for axis, size in zip("xyz", sizes, strict=True):
        if size is None or size < 1:
            configuration: Any = kernel.regions[0].blocks[-1].last
            what = "depends on the launch; a SPIR-V kernel has a constant one" if size is None else f"is {size}"
            raise fail(
                "TARGET/022",
                f"the workgroup size of '@{kernel.attribute('callee')}' along {axis} {what}",
                (configuration or kernel).loc,
                emitter="spirv",
                hint="make it a constant or a configuration value" if size is None else "make it positive",
                function_name=kernel.attribute("callee"),
                target_name=target.name,
                constraint_key="workgroup_size",
            )
    x, y, z = (size for size in sizes if size is not None)
    return x, y, z


def report(lowered: LoweredModule) -> dict[str, object]:
    """Report groups: what was emitted, and the scratch memory of all kernels together."""
    return {
        "emission": {
            "instruction_count": sum(1 for _ in instructions(lowered.data)),
            "code_byte_count": len(lowered.data),
        },
        "memory": {
            "private_bytes": sum(kernel.private_bytes for kernel in lowered.kernels),
            "local_bytes": sum(kernel.workgroup_bytes for kernel in lowered.kernels),
        },
        "entries": [
            {
                "function": kernel.entry,
                "workgroup_size": list(kernel.local_size),
                "memory": {"private_bytes": kernel.private_bytes, "local_bytes": kernel.workgroup_bytes},
            }
            for kernel in lowered.kernels
        ],
    }
