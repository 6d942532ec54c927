"""Examples of single statements of the language: what a loop may carry, fences, staging, collectives, authored code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from loom import api
from loom.check.report import TestReport


@attrs.frozen
class Example:
    """An example: its samples, and what devices refuse of it, by kind of device.

    ``conditional`` cases require what not every device has: on the targets of ``runs_on`` they run, elsewhere all of
    them may be skipped.
    """

    samples: int
    refused: dict[str, str] = attrs.field(factory=dict)
    conditional: int = 0
    runs_on: tuple[str, ...] = ()


GPUS: Final = ("amdgpu:gfx1100", "amdgpu:gfx1200", "amdgpu:gfx942")
EXAMPLES: Final = {
    "flat_pointers.loom": Example(5, conditional=3, runs_on=("amdgpu:gfx1100",)),
    "carried_views.loom": Example(7),
    "dependent_lookup.loom": Example(11),
    "row_read_ahead.loom": Example(13, {"x86": "vector.constant"}),
    "workgroup_staging.loom": Example(21, {"x86": "kernel.barrier"}),
    "collective_recurrence.loom": Example(18, conditional=3, runs_on=GPUS),
    "paged_attention.loom": Example(22, conditional=4, runs_on=GPUS),
    "aligned_copy.loom": Example(8),
    "split_barrier.loom": Example(4, {"x86": "kernel.barrier"}),
}


def kind(machine: Any) -> str:
    """What a refusal depends on."""
    return "x86" if machine.is_x86 else str(machine.device)


def require_passed(report: TestReport, samples: int) -> None:
    failures = [(s.case, s.sample_ordinal, s.issue or s.expectations) for s in report.samples if not s.passed]
    assert failures == []
    assert (report.sample_count, report.skipped_case_count, report.planning_issue_count) == (samples, 0, 0)


def require_refused(report: TestReport, name: str, missing: str) -> None:
    """Refused where it stands: every sample that does not pass names what is missing, in this file."""
    refusals = [sample.issue for sample in report.samples if not sample.passed]
    assert refusals
    for issue in refusals:
        assert issue is not None
        assert (issue.category, missing in issue.message) == ("program", True), issue.message
        assert issue.source_location is not None
        assert Path(issue.source_location.filename).name == name


@pytest.mark.seed("EX2", "EX4", "EX5", "EX6", "EX7", "EX8", "EX9", "EX11")
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_cases_pass_on_every_device(machine: Any, root: Path, name: str) -> None:
    example = EXAMPLES[name]
    report = machine.check([root / "examples" / name])
    missing = example.refused.get(kind(machine))
    if example.conditional and machine.target not in example.runs_on and not report.sample_count:
        assert (report.skipped_case_count, report.planning_issue_count) == (example.conditional, 0)
    elif missing is None:
        require_passed(report, example.samples)
    else:
        require_refused(report, name, missing)


@pytest.mark.seed("EX8", "EX9")
@pytest.mark.parametrize("processor", ["gfx1100", "gfx942"])
@pytest.mark.parametrize("name", ["collective_recurrence.loom", "paged_attention.loom"])
def test_collectives_of_a_target_on_the_reference_device(root: Path, name: str, processor: str) -> None:
    pytest.importorskip("loom_target_amdgpu")
    report = api.check([root / "examples" / name], (), "reference", f"amdgpu:{processor}")
    require_passed(report, EXAMPLES[name].samples)


@pytest.mark.seed("EX5", "N01", "N02")
def test_every_unrolled_copy_keeps_its_fence(root: Path) -> None:
    """Eight rows of a full tile, three copies for a partial one. The addition of a row stays in front of its loads."""
    module = api.load(root / "examples" / "dependent_lookup.loom")
    lowered = api.specialize(module, None).module
    kernel = lowered.symbols()["dependent_lookup"]
    names = [op.name for op in kernel.walk() if op.name in ("scalar.addf", "scf.schedule.fence", "view.load")]
    fences = [i for i, name in enumerate(names) if name == "scf.schedule.fence"]
    assert len(fences) == 8 + 3
    assert all(names[i - 1] == "scalar.addf" and names[i + 1] == "view.load" for i in fences)


SPLIT = re.compile(r"s_barrier_signal -1\n(?P<between>(?:.*\n)*?)\s*s_barrier_wait 0xffff")


@pytest.mark.seed("EX11", "J05")
@pytest.mark.parametrize(("processor", "halves"), [("gfx1200", True), ("gfx1100", False)])
def test_the_barrier_is_split_where_it_has_halves(root: Path, processor: str, halves: bool) -> None:
    """The work-item's own arithmetic stands between the halves; elsewhere the fallback has one whole barrier."""
    pytest.importorskip("loom_target_amdgpu")
    module = api.load(root / "examples" / "split_barrier.loom")
    compiled = api.compile(module, ("hand_around",), f"amdgpu:{processor}", "amdgpu-asm")
    text = compiled.result.primary.data.decode()
    between = [found["between"] for found in SPLIT.finditer(text)]
    assert bool([part for part in between if "v_xor_b32" in part]) is halves
    assert ("s_barrier\n" in text) is not halves


@pytest.mark.seed("EX11")
def test_the_reference_device_runs_the_halves_of_a_target(root: Path) -> None:
    pytest.importorskip("loom_target_amdgpu")
    name = "split_barrier.loom"
    module = api.specialize(api.load(root / "examples" / name), "amdgpu:gfx1200").module
    assert "kernel.barrier.arrive" in {op.name for op in module.symbols()["hand_around"].walk()}
    require_passed(api.check([root / "examples" / name], (), "reference", "amdgpu:gfx1200"), EXAMPLES[name].samples)


READ_AHEAD: Final = {
    "row_read_ahead.loom": {
        "sum_serial": ("serial", 1),
        "sum_ahead": ("pipelined", 4),
        "sum_unrolled": ("serial", 1),
        "dot_serial": ("serial", 1),
        "dot_ahead": ("pipelined", 3),
    },
    "workgroup_staging.loom": {
        "stage_short": ("serial", 4),
        "stage_serial": ("serial", 1),
        "stage_ahead": ("pipelined", 3),
        "stage_combined": ("pipelined", 3),
        "stage_pairs": ("pipelined", 2),
    },
    "collective_recurrence.loom": {
        "recurrence_serial": ("serial", 1),
        "recurrence_pipelined": ("pipelined", 3),
        "recurrence_combined": ("pipelined", 2),
    },
    "paged_attention.loom": {
        "paged_serial": ("serial", 1),
        "paged_ahead": ("pipelined", 3),
        "paged_sparse": ("pipelined", 2),
        "paged_grouped": ("pipelined", 2),
    },
}
"""Example -> kernel -> what became of its request for read-ahead, and the depth of that. A loop over no row is gone."""


@pytest.mark.seed("A25")
@pytest.mark.parametrize("name", READ_AHEAD)
def test_each_kernel_gets_the_policy_that_it_asks_for(root: Path, name: str) -> None:
    """Loads run ahead; what meets others, workgroup memory and collectives, stays with the consumer."""
    rows = [detail.row() for detail in api.specialize(api.load(root / "examples" / name), None).loops]
    found = {str(r["function"]): (r["outcome"], r["depth"]) for r in rows if r["category"] == "scf-pipeline"}
    assert found == READ_AHEAD[name]
    stages = {(str(r["op"]), r["stage"]) for r in rows if r["category"] == "scf-pipeline-stage"}
    meeting = {stage for stage in stages if stage[0].startswith(("kernel.", "view.store"))}
    assert {stage for _, stage in meeting} <= {"consumer"}
    assert any(stage == "producer" for _, stage in stages)
