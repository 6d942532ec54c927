"""What this package registers with Loom: the device ``sim``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from loom.plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from loom.plugins.records import Device, OpenDevice, TargetProfile

LOOM_API_VERSION = 1


@hookimpl
def loom_register_devices() -> Iterable[Device]:
    """The simulator; it opens the emulator of the target's family."""
    from loom.plugins.records import Device

    def open_device(target: TargetProfile | None) -> OpenDevice:
        from loom_sim.device import open_sim

        return open_sim(target)

    summary = "wave emulator for AMD GPUs, Unicorn for x86"
    return [Device("sim", open_device, "amdgpu:gfx1100", ("amdgpu", "x86"), summary)]
