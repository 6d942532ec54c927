"""What core itself registers, through the same hooks as any plugin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from loom.plugins.hookspecs import API_VERSION, hookimpl

if TYPE_CHECKING:
    from loom.plugins.records import Device, OpenDevice, Oracle, RequirementProvider, TargetProfile

LOOM_API_VERSION: Final = API_VERSION


@hookimpl
def loom_register_devices() -> Iterable[Device]:
    """The reference device: the evaluator."""
    from loom.plugins.records import Device

    def open_reference(target: TargetProfile | None) -> OpenDevice:
        from loom.evaluate.device import open_reference_device

        return open_reference_device(target)

    return [Device("reference", open_reference, summary="evaluates the source program")]


@hookimpl
def loom_register_requirement_providers() -> Iterable[RequirementProvider]:
    """Facts of the target in use."""
    from loom.check.requirements import BUILTIN_PROVIDERS

    return BUILTIN_PROVIDERS


@hookimpl
def loom_register_oracles() -> Iterable[Oracle]:
    """Matrix products."""
    from loom.check.requirements import BUILTIN_ORACLES

    return BUILTIN_ORACLES
