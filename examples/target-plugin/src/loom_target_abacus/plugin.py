"""Everything this package tells Loom. Imports stay inside the hooks, so that other commands start fast."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from loom.plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from loom.ir.core import Module
    from loom.low.descriptors import DescriptorSet
    from loom.low.schedule import TableModel
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
    """The target record ``abacus.target``."""
    return {"abacus": "loom_target_abacus.dialect"}


@hookimpl
def loom_register_targets() -> Iterable[TargetProfile]:
    """``abacus:a1``."""
    from loom_target_abacus.profile import A1

    return [A1]


def _build_descriptors() -> DescriptorSet:
    from loom_target_abacus.descriptors import build

    return build()


@hookimpl
def loom_register_descriptor_sets() -> Iterable[LazyDescriptorSet]:
    """The instructions of ``abacus.core``."""
    from loom.plugins.records import LazyDescriptorSet
    from loom_target_abacus.profile import CONTRACT

    return [LazyDescriptorSet(CONTRACT, _build_descriptors)]


def _make_model(profile: TargetProfile) -> TableModel:
    from loom.low.schedule import TableModel
    from loom_target_abacus.descriptors import LATENCIES, REGISTER_LIMIT, WORD

    return TableModel(latencies=LATENCIES, limits={WORD: REGISTER_LIMIT})


@hookimpl
def loom_register_schedulers() -> Iterable[Scheduler]:
    """How long instructions take."""
    from loom.plugins.records import Scheduler
    from loom_target_abacus.profile import SCHEDULER

    return [Scheduler(SCHEDULER, _make_model, summary="Abacus latencies")]


def _emit(request: EmitRequest) -> EmitResult:
    from loom_target_abacus.emit import emit

    return emit(request)


def _lower(request: EmitRequest) -> Module:
    from loom_target_abacus.emit import lower

    return lower(request)


@hookimpl
def loom_register_emitters() -> Iterable[Emitter]:
    """Assembly text."""
    from loom.plugins.records import Emitter
    from loom_target_abacus.profile import FAMILY, FORMAT

    return [Emitter(FORMAT, (FAMILY,), _emit, _lower, root_traits=("function",), summary="Abacus assembly text")]


def _open(target: TargetProfile | None) -> OpenDevice:
    from loom_target_abacus.device import AbacusDevice
    from loom_target_abacus.profile import A1

    return AbacusDevice(target or A1)


@hookimpl
def loom_register_devices() -> Iterable[Device]:
    """An interpreter of the assembly text, so that checks can run."""
    from loom.plugins.records import Device
    from loom_target_abacus.profile import A1, FAMILY

    return [Device("abacus", _open, A1.name, (FAMILY,), summary="interprets Abacus assembly")]
