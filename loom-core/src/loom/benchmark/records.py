"""What a benchmark run reports (language reference, part 3, section 8.10); field order is key order in the JSON.

A field whose value is its default ``None`` is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from attrs import Attribute, asdict, frozen

from loom.check.report import ParameterValues, PlanningIssue, SampleResult, TrialResult


class Measure(Enum):
    """What an operation is whose time is taken."""

    CASE_END_TO_END = "case_end_to_end"
    """A whole sample but its expectations: inputs are made anew each time. Of a scenario, all trials as they are."""

    END_TO_END = "end_to_end"
    """The launches and calls of a sample, on the inputs that are there."""

    DISPATCH_COMPLETE = "dispatch_complete"
    """The launches only."""


@frozen
class Policy:
    """How long to measure. Times of the command line are in milliseconds."""

    measure: Measure = Measure.CASE_END_TO_END
    warmup_iterations: int = 1
    iterations: int = 10
    batch_size: int = 1
    min_time_ms: float = 100.0
    warmup_time_ms: float = 0.0
    max_batches: int = 1000
    stable_p90_to_p50_ppm: int = 100_000


@frozen
class Timing:
    """Order statistics of one series of times, in nanoseconds."""

    count: int
    total: int
    min: int
    max: int
    mean: float
    p50: int
    p90: int
    p90_to_p50_delta_ppm: int


@frozen
class Interpretation:
    """What the number to compare is, and what makes it doubtful."""

    score: int
    score_meaning: str
    score_unit: str
    warnings: tuple[str, ...]


@frozen
class Measurement:
    """The times of one work item."""

    operation_timing_ns: Timing
    batch_timing_ns: Timing
    logical_operations_per_batch: int
    physical_dispatches_per_batch: int
    physical_dispatches_per_logical_operation: int
    warmup_batch_count: int
    warmup_duration_ns: int
    measured_batch_count: int
    measured_logical_operation_count: int
    measured_physical_dispatch_count: int
    measured_duration_ns: int
    stop_reason: str
    timing_interpretation: Interpretation
    mean_physical_dispatch_duration_ns: float | None = None


@frozen
class Failure:
    """Why something was not measured: ``stage`` is ``planning``, ``correctness`` or ``measurement``."""

    stage: str
    kind: str
    message: str


@frozen
class Correctness:
    """What checking a work item before timing it showed."""

    passed: bool


@frozen
class SampleKey:
    """The sample of a work item; a scenario has no parameters."""

    sample_ordinal: int
    parameter_count: int
    parameters: ParameterValues


@frozen
class WorkItem:
    """One thing that is timed; benchmarks of the same case and assignments share it.

    ``state`` is ``planned``, ``measured``, ``failed`` or ``skipped``.
    """

    work_item_index: int
    case: str
    state: str
    policy: Policy
    sample: SampleKey
    correctness: Correctness | None = None
    measurement: Measurement | None = None
    failure: Failure | None = None


@frozen
class BenchmarkRow:
    """A benchmark and one of the work items it selects."""

    candidate_id: str
    candidate_index: int
    benchmark: str
    case: str
    state: str
    work_item_index: int


@frozen
class Repetition:
    """One turn of a comparison."""

    order_index: int
    repetition_index: int
    comparison_group: str
    method: str
    baseline_candidate_id: str
    candidate_id: str
    operation_timing_ns: Timing


@frozen
class Comparison:
    """A candidate against the baseline: medians over repetitions, and how far these are apart.

    A ratio is the candidate's time over the baseline's, a speedup the reverse; they are absent when a time is 0.
    """

    comparison_group: str
    method: str
    baseline_candidate_id: str
    candidate_id: str
    baseline_repetition_count: int
    candidate_repetition_count: int
    baseline_p50_ns: int
    candidate_p50_ns: int
    baseline_p90_ns: int
    candidate_p90_ns: int
    ratio_p50: float | None
    speedup_p50: float | None
    ratio_p90: float | None
    speedup_p90: float | None
    baseline_spread_ppm: int
    candidate_spread_ppm: int


@frozen
class Planned:
    """How much was planned."""

    case_count: int
    benchmark_count: int
    selected_benchmark_count: int
    logical_sample_count: int
    work_item_count: int


@frozen
class FailureCounts:
    """How much went wrong."""

    row_count: int
    failed_benchmark_count: int


@frozen
class CorrectnessCounts:
    """What was checked before it was timed."""

    sample_count: int
    failed_sample_count: int


@frozen
class Summary:
    """The totals of a run."""

    planned: Planned
    failures: FailureCounts
    correctness: CorrectnessCounts


@frozen
class DeviceRow:
    """The device that was measured."""

    device_uri: str
    driver: str
    target_family: str | None
    target: str | None
    state: str


@frozen
class Snapshot:
    """The whole report of a run."""

    tool: str
    run_id: str
    source: str
    results_path: str
    output_format: str
    dry_run: bool
    summary: Summary
    device: DeviceRow
    work_items: tuple[WorkItem, ...]
    benchmarks: tuple[BenchmarkRow, ...]
    failed_samples: tuple[SampleResult | TrialResult, ...] | None = None
    failures: tuple[Failure, ...] | None = None
    planning_issues: tuple[PlanningIssue, ...] | None = None
    repetitions: tuple[Repetition, ...] | None = None
    comparisons: tuple[Comparison, ...] | None = None

    @property
    def failed(self) -> bool:
        """Whether anything could not be measured."""
        return bool(self.failures or self.failed_samples or self.planning_issues)


def to_json(snapshot: Snapshot) -> str:
    """The report as one JSON object, ending in a newline."""
    return json.dumps(_plain(snapshot), indent=2, allow_nan=False) + "\n"


def to_json_lines(snapshot: Snapshot) -> str:
    """The report as rows: one JSON object per line, each with its kind and the id of the run."""
    plain = _plain(snapshot)
    header = {key: plain[key] for key in ("tool", "source", "results_path", "output_format", "dry_run")}
    rows: list[tuple[str, Mapping[str, Any]]] = [("run", header), ("plan", plain["summary"]["planned"])]
    rows.append(("device", plain["device"]))
    rows += [("sample", row) for row in plain["work_items"]]
    rows += [("benchmark", row) for row in plain["benchmarks"]]
    rows += [("benchmark.repetition", row) for row in plain.get("repetitions", ())]
    rows += [("comparison", row) for row in plain.get("comparisons", ())]
    rows += [("failure", row) for row in plain.get("failures", ())]
    rows.append(("summary", plain["summary"]))
    return "".join(json.dumps({"row": kind, "run_id": snapshot.run_id, **row}) + "\n" for kind, row in rows)


def _plain(snapshot: Snapshot) -> dict[str, Any]:
    return asdict(snapshot, filter=_is_present, value_serializer=_serialize)


def _is_present(attribute: Attribute[Any], value: object) -> bool:
    return not (value is None and attribute.default is None)


def _serialize(_record: object, _attribute: Attribute[Any] | None, value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, ParameterValues):
        return dict(value.pairs)
    return value


def timing(samples: Sequence[int]) -> Timing:
    """The statistics of some times; percentiles are the least sample that as many are at most."""
    ordered = sorted(samples)
    p50, p90 = (ordered[-(-len(ordered) * percent // 100) - 1] for percent in (50, 90))
    total = sum(ordered)
    delta = (p90 - p50) * 1_000_000 // p50 if p50 else 0
    return Timing(len(ordered), total, ordered[0], ordered[-1], total / len(ordered), p50, p90, delta)
