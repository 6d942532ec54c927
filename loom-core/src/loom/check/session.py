"""From files and the name of a device to a report: choosing, preparing, opening, running."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from loom.check.faults import runtime_issue
from loom.check.options import DEFAULT_SAMPLE_CAP, CheckOptions
from loom.check.runner import Progress, run_checks
from loom.ir.core import Module
from loom.ir.diagnostics import LoomError, fail
from loom.plugins.manager import find_device, find_target
from loom.plugins.records import Device, OpenDevice, TargetProfile

if TYPE_CHECKING:
    from loom.check.report import TestReport
    from loom.config_values import ConfigValue


def select_device(name: str, target: TargetProfile | str | None) -> tuple[Device, TargetProfile | None]:
    """The device of a name and the target it runs: the one asked for, otherwise its default one.

    Raises `LoomError` when either is not installed, and when the device does not run the target.
    """
    device = find_device(name)
    wanted = device.default_target if target is None else target
    profile = find_target(wanted) if isinstance(wanted, str) else wanted
    if profile is not None and device.families and profile.family not in device.families:
        families = " and ".join(device.families)
        raise fail(
            "TARGET/036",
            f"the device '{name}' runs {families} targets, not '{profile.name}'",
            emitter="driver",
            hint="choose another device or target; loom-plugins lists them",
            device=name,
            target_name=profile.name,
        )
    return device, profile


@contextmanager
def opened(device: Device, target: TargetProfile | None) -> Iterator[OpenDevice]:
    """The device in use, closed afterwards. Raises `LoomError` when it cannot be opened."""
    try:
        handle = device.open(target)
    except LoomError:
        raise
    except Exception as error:  # devices are plugins: what a missing driver raises is theirs to choose
        issue = runtime_issue(error, stage="open", provider=device.name)
        message = f"the device '{device.name}' cannot be opened: {issue.message}"
        raise fail("TARGET/036", message, emitter="driver", hint=issue.fix_hint, device=device.name) from error
    try:
        yield handle
    finally:
        handle.close()


def run_on_device(
    inputs: Sequence[Module | str | Path],
    libraries: Sequence[Module | str | Path] = (),
    device: str = "reference",
    target: TargetProfile | str | None = None,
    *,
    cases: Sequence[str] = (),
    sample: int | None = None,
    max_samples_per_case: int = DEFAULT_SAMPLE_CAP,
    output_directory: str | Path | None = None,
    config: Mapping[str, ConfigValue] | None = None,
    progress: Progress | None = None,
) -> TestReport:
    """Link the inputs with the libraries, specialize for the device's target, and run the selected cases.

    `cases` are symbols with or without the sigil, `config` binds configuration keys. Raises `LoomError`, `OSError` and
    `CheckError` for input that cannot be used; what goes wrong in a case is in the report.
    """
    from loom import api

    chosen, profile = select_device(device, target)
    module = api.prepare_checks(inputs, libraries, profile, config)
    options = CheckOptions(
        cases=tuple(name.removeprefix("@") for name in cases),
        sample=sample,
        max_samples_per_case=max_samples_per_case,
        output_directory=Path(output_directory) if output_directory is not None else None,
        device_name=device,
        target=profile,
    )
    with opened(chosen, profile) as handle:
        return run_checks(module, handle, options, progress=progress)
