"""What a run of checks is asked to do; free of NumPy, so that a command can offer it before it needs any."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import frozen

if TYPE_CHECKING:
    from loom.check.expected import ExpectedCodes
    from loom.plugins.records import TargetProfile

DEFAULT_SAMPLE_CAP: Final = 4096
"""Samples of one case that are run unless the caller asks for another number."""


@frozen
class CheckOptions:
    """Which cases and samples to run, and where their files go.

    `cases` are symbol names without the sigil, empty for all. `sample` is the ordinal of the only sample to
    run of each case. Without an `output_directory` nothing is written. `device_name` names the device in
    the report. `target` is what the module was specialized for, if for anything. `expected` are the records that are
    expected to fail.
    """

    cases: tuple[str, ...] = ()
    sample: int | None = None
    max_samples_per_case: int = DEFAULT_SAMPLE_CAP
    output_directory: Path | None = None
    device_name: str = "device"
    target: TargetProfile | None = None
    expected: tuple[ExpectedCodes, ...] = ()
