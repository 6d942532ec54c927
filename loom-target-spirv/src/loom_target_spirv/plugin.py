"""Hooks of the SPIR-V package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from loom.plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from loom.low.descriptors import DescriptorSet
    from loom.plugins.records import (
        Device,
        EmitRequest,
        EmitResult,
        Emitter,
        LazyDescriptorSet,
        OpenDevice,
        TargetProfile,
    )

LOOM_API_VERSION: Final = 1


@hookimpl
def loom_register_dialects() -> Mapping[str, str]:
    """Target records."""
    return {"spirv": "loom_target_spirv.dialect"}


@hookimpl
def loom_register_targets() -> Iterable[TargetProfile]:
    """Vulkan 1.3 with buffer addresses."""
    from loom_target_spirv.profiles import PROFILE

    return [PROFILE]


def _build_descriptors() -> DescriptorSet:
    from loom_target_spirv.descriptors import build

    return build()


@hookimpl
def loom_register_descriptor_sets() -> Iterable[LazyDescriptorSet]:
    """The instructions of the contract."""
    from loom.plugins.records import LazyDescriptorSet
    from loom_target_spirv.profiles import CONTRACT

    return [LazyDescriptorSet(CONTRACT, _build_descriptors)]


def _emit(request: EmitRequest) -> EmitResult:
    from loom_target_spirv.emit import emit

    return emit(request)


def _emit_text(request: EmitRequest) -> EmitResult:
    from loom_target_spirv.emit import emit_text

    return emit_text(request)


@hookimpl
def loom_register_emitters() -> Iterable[Emitter]:
    """SPIR-V modules, and their text."""
    from loom.plugins.records import Emitter
    from loom_target_spirv.profiles import FORMAT, TEXT_FORMAT

    return [
        Emitter(FORMAT, ("spirv",), _emit, summary="a SPIR-V module for Vulkan 1.3"),
        Emitter(TEXT_FORMAT, ("spirv",), _emit_text, summary="the same as text"),
    ]


def _open(target: TargetProfile | None) -> OpenDevice:
    from loom_target_spirv.device import open_vulkan

    return open_vulkan(target)


@hookimpl
def loom_register_devices() -> Iterable[Device]:
    """Any Vulkan 1.3 driver."""
    from loom.plugins.records import Device
    from loom_target_spirv.profiles import PROFILE

    return [Device("vulkan", _open, PROFILE.name, ("spirv",), summary="runs kernels through a Vulkan 1.3 driver")]
