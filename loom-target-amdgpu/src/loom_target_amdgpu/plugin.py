"""What this package registers with Loom. Everything is named here and imported when used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from loom.plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from loom.ir.core import Module
    from loom.plugins.records import (
        Device,
        EmitRequest,
        EmitResult,
        Emitter,
        LazyDescriptorSet,
        OpenDevice,
        Scheduler,
        TargetProfile,
    )

LOOM_API_VERSION = 1

# Contract -> generation letter of the descriptor tables (loom_target_amdgpu.descriptors.CONTRACTS).
_CONTRACTS = (
    "amdgpu.cdna3.core",
    "amdgpu.cdna4.core",
    "amdgpu.rdna3.core",
    "amdgpu.rdna3_5.core",
    "amdgpu.gfx11.generic.core",
    "amdgpu.rdna4.core",
    "amdgpu.gfx12.generic.core",
)


@hookimpl
def loom_register_dialects() -> Mapping[str, str]:
    """The ``amdgpu.target`` record."""
    return {"amdgpu": "loom_target_amdgpu.dialect"}


@hookimpl
def loom_register_targets() -> Iterable[TargetProfile]:
    """One profile per processor that can be compiled for."""
    from loom_target_amdgpu.targets import profiles

    return profiles()


@hookimpl
def loom_register_descriptor_sets() -> Iterable[LazyDescriptorSet]:
    """One set per representation contract."""
    from functools import partial

    from loom.plugins.records import LazyDescriptorSet

    def build(contract: str) -> Any:
        from loom_target_amdgpu.descriptors import build as build_set

        return build_set(contract)

    return [LazyDescriptorSet(contract, partial(build, contract)) for contract in _CONTRACTS]


@hookimpl
def loom_register_schedulers() -> Iterable[Scheduler]:
    """One schedule model per contract."""
    from loom.plugins.records import Scheduler

    def make(target: TargetProfile) -> Any:
        from loom_target_amdgpu.profiles import profile
        from loom_target_amdgpu.schedule import model

        return model(profile(target.selector))

    return [Scheduler(contract, make, "latencies and register limits") for contract in _CONTRACTS]


@hookimpl
def loom_register_emitters() -> Iterable[Emitter]:
    """HSACO code objects, and the same as assembly."""
    from loom.plugins.records import Emitter

    def emit(request: EmitRequest) -> EmitResult:
        from loom_target_amdgpu.emitter import emit_hsaco

        return emit_hsaco(request)

    def lower(request: EmitRequest) -> Module:
        from loom_target_amdgpu.emitter import lower_module

        return lower_module(request)

    def write(request: EmitRequest) -> EmitResult:
        from loom_target_amdgpu.assembly_text import emit_assembly

        return emit_assembly(request)

    traits = ("kernel", "low_kernel")
    families = ("amdgpu",)
    return [
        Emitter(
            "amdgpu-hsaco",
            families,
            emit,
            lower,
            root_traits=traits,
            debug_info=True,
            summary="AMD GPU code object (HSACO)",
        ),
        Emitter("amdgpu-asm", families, write, lower, root_traits=traits, summary="AMD GPU assembly"),
    ]


@hookimpl
def loom_register_devices() -> Iterable[Device]:
    """AMD GPUs through the HIP runtime."""
    from loom.plugins.records import Device

    def open_device(target: TargetProfile | None) -> OpenDevice:
        from loom_target_amdgpu.device import open_hip

        return open_hip(target)

    return [Device("amdgpu", open_device, None, ("amdgpu",), "AMD GPUs through the HIP runtime")]
