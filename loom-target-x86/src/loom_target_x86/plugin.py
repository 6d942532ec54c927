"""Hooks of the x86 package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from loom.plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from loom.ir.core import Module
    from loom.low.descriptors import DescriptorSet
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

LOOM_API_VERSION: Final = 1


@hookimpl
def loom_register_dialects() -> Mapping[str, str]:
    """Target records."""
    return {"x86": "loom_target_x86.dialect"}


@hookimpl
def loom_register_targets() -> Iterable[TargetProfile]:
    """x86-64 at three levels."""
    from loom_target_x86.profiles import PROFILES

    return list(PROFILES.values())


def _builder(key: str) -> Callable[[], DescriptorSet]:
    def build() -> DescriptorSet:
        from loom_target_x86.descriptors import descriptor_set

        return descriptor_set(key)

    return build


@hookimpl
def loom_register_descriptor_sets() -> Iterable[LazyDescriptorSet]:
    """One per contract."""
    from loom.plugins.records import LazyDescriptorSet
    from loom_target_x86.profiles import PROFILES

    return [LazyDescriptorSet(profile.contract, _builder(profile.contract)) for profile in PROFILES.values()]


def _make_model(target: TargetProfile) -> Any:
    from loom_target_x86.schedule import make_model

    return make_model()


@hookimpl
def loom_register_schedulers() -> Iterable[Scheduler]:
    """Latencies of recent cores."""
    from loom.plugins.records import Scheduler
    from loom_target_x86.profiles import SCHEDULER

    return [Scheduler(SCHEDULER, _make_model, summary="latencies of recent x86-64 cores")]


def _emit(request: EmitRequest) -> EmitResult:
    from loom_target_x86.emit import emit

    return emit(request)


def _lower(request: EmitRequest) -> Module:
    from loom_target_x86.emit import lower

    return lower(request)


def _emit_text(request: EmitRequest) -> EmitResult:
    from loom_target_x86.emit import emit_text

    return emit_text(request)


@hookimpl
def loom_register_emitters() -> Iterable[Emitter]:
    """Relocatable objects, and their text."""
    from loom.plugins.records import Emitter
    from loom_target_x86.profiles import FAMILY, FORMAT, TEXT_FORMAT

    roots = ("kernel", "function", "low_kernel")
    summary = "a relocatable ELF object for x86-64 Linux"
    return [
        Emitter(FORMAT, (FAMILY,), _emit, _lower, root_traits=roots, summary=summary),
        Emitter(TEXT_FORMAT, (FAMILY,), _emit_text, _lower, root_traits=roots, summary="the same as assembly text"),
    ]


def _open(target: TargetProfile | None) -> OpenDevice:
    from loom_target_x86.device import open_host

    return open_host(target)


@hookimpl
def loom_register_devices() -> Iterable[Device]:
    """The processor that this runs on."""
    from loom.plugins.records import Device
    from loom_target_x86.cpu import best_selector
    from loom_target_x86.profiles import FAMILY

    target = f"{FAMILY}:{best_selector()}"
    summary = "runs x86-64 code on this processor, in a process of its own"
    return [Device("host", _open, target, (FAMILY,), summary)]
