"""Planning and running the benchmarks of a module: correctness first, then times."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from attrs import define, evolve, field, frozen

from loom.benchmark.compare import Interleave, compare
from loom.benchmark.measure import measure
from loom.benchmark.records import (
    BenchmarkRow,
    Comparison,
    Correctness,
    CorrectnessCounts,
    DeviceRow,
    Failure,
    FailureCounts,
    Measure,
    Planned,
    Policy,
    Repetition,
    SampleKey,
    Snapshot,
    Summary,
    WorkItem,
)
from loom.check.errors import CheckError
from loom.check.expand import Sample
from loom.check.gate import reason_to_skip
from loom.check.invoke import INVOCATIONS, Execution
from loom.check.plan import BenchmarkPlan, CasePlan, CheckPlan
from loom.check.plan_scenario import ScenarioPlan
from loom.check.report import ParameterValues, SampleResult, TrialResult
from loom.check.run import run_sample, run_steps, sample_values
from loom.check.run_scenario import run_trials
from loom.check.values import Environment
from loom.ir.core import Op
from loom.ir.diagnostics import did_you_mean

Report = Callable[[BenchmarkRow, WorkItem], None]


@frozen(eq=False)
class Candidate:
    """A benchmark with one sample that it selects, or with its scenario."""

    benchmark: BenchmarkPlan
    record: CasePlan | ScenarioPlan
    sample: Sample | None


@define(eq=False)
class BenchmarkRun:
    """The benchmarks of a plan and how to measure them. ``report`` is told about each as soon as it is done.

    ``names`` selects benchmarks. Those of ``compared``, the baseline first, are then measured again in turns.
    """

    plan: CheckPlan
    policy: Policy
    names: Sequence[str] = ()
    sample: int | None = None
    report: Report = field(default=lambda row, item: None)
    compared: Sequence[str] = ()
    interleave: Interleave = Interleave.ABABA
    repetitions: int = 2

    def candidates(self) -> list[Candidate]:
        """What to measure, in source order. Raises `CheckError` for a benchmark or sample that is not there."""
        plan = self.plan
        records: dict[str, CasePlan | ScenarioPlan] = {case.name: case for case in plan.cases}
        records |= {scenario.name: scenario for scenario in plan.scenarios}
        known = [benchmark.name for benchmark in plan.benchmarks]
        names = {*self.names, *self.compared}
        for name in (*self.names, *self.compared):
            if name not in known:
                hint = did_you_mean(name, known) or (f"known are {', '.join(known)}" if known else "there is none")
                raise CheckError(f"there is no benchmark '@{name}'; {hint}")
        found = []
        for benchmark in plan.benchmarks:
            if names and benchmark.name not in names:
                continue
            record = records[benchmark.case]
            if benchmark.expansion is None:
                # A scenario has no samples to choose from.
                found += [Candidate(benchmark, record, None)] if self.sample is None else []
                continue
            samples = [s for s in benchmark.expansion if self.sample is None or s.ordinal == self.sample]
            found += [Candidate(benchmark, record, sample) for sample in samples]
        if self.sample is not None and not found:
            raise CheckError(f"no benchmark selects the sample {self.sample}")
        return found

    def snapshot(
        self, execution: Execution | None, device: DeviceRow, source: str, results_path: str, output_format: str
    ) -> Snapshot:
        """Measure everything, or without an execution only plan it; returns the report."""
        items: dict[tuple[str, int | None], WorkItem] = {}
        rows: list[BenchmarkRow] = []
        failed: list[SampleResult | TrialResult] = []
        candidates = self.candidates()
        for index, candidate in enumerate(candidates):
            key = candidate.record.name, candidate.sample.ordinal if candidate.sample is not None else None
            if key not in items:
                planned = self._planned(len(items), candidate)
                items[key] = planned if execution is None else self._measured(planned, candidate, execution, failed)
            rows.append(_row(index, candidate, items[key]))
            if execution is not None:
                self.report(rows[-1], items[key])
        repetitions, comparisons = self._compared(candidates, rows, execution)
        return Snapshot(
            tool="loom-benchmark",
            run_id=uuid.uuid4().hex,
            source=source,
            results_path=results_path,
            output_format=output_format,
            dry_run=execution is None,
            summary=self._summary(list(items.values()), rows),
            device=device,
            work_items=tuple(items.values()),
            benchmarks=tuple(rows),
            failed_samples=tuple(failed) or None,
            failures=tuple(item.failure for item in items.values() if item.failure is not None) or None,
            planning_issues=self.plan.issues or None,
            repetitions=tuple(repetitions) or None,
            comparisons=tuple(comparisons) or None,
        )

    def _compared(
        self, candidates: Sequence[Candidate], rows: Sequence[BenchmarkRow], execution: Execution | None
    ) -> tuple[list[Repetition], list[Comparison]]:
        """Measure what is compared in turns. Raises `CheckError` unless each selects one sample, which passes."""
        if not self.compared or execution is None:
            return [], []
        operations = {}
        for name in self.compared:
            mine = [(c, row) for c, row in zip(candidates, rows, strict=True) if row.benchmark == name]
            if len(mine) != 1:
                raise CheckError(f"@{name} selects {len(mine)} samples; what is compared selects one")
            candidate, row = mine[0]
            if row.state != "measured":
                raise CheckError(f"@{name} cannot be compared: it is {row.state}")
            operations[row.candidate_id] = _operation(candidate, execution, self.policy.measure)
        baseline, *others = operations
        return compare(
            baseline, others, self.interleave, self.repetitions, lambda name: measure(*operations[name], self.policy)
        )

    def _summary(self, items: Sequence[WorkItem], rows: Sequence[BenchmarkRow]) -> Summary:
        checks = [item.correctness.passed for item in items if item.correctness is not None]
        return Summary(
            Planned(
                case_count=len(self.plan.cases) + len(self.plan.scenarios),
                benchmark_count=len(self.plan.benchmarks),
                selected_benchmark_count=len({row.benchmark for row in rows}),
                logical_sample_count=len(rows),
                work_item_count=len(items),
            ),
            FailureCounts(
                sum(item.failure is not None for item in items),
                len({row.benchmark for row in rows if row.state == "failed"}),
            ),
            CorrectnessCounts(len(checks), checks.count(False)),
        )

    def _planned(self, index: int, candidate: Candidate) -> WorkItem:
        sample = candidate.sample
        pairs = tuple((a.key, a.value) for a in sample.assignments) if sample is not None else ()
        key = SampleKey(sample.ordinal if sample is not None else 0, len(pairs), ParameterValues(pairs))
        return WorkItem(index, candidate.record.name, "planned", self.policy, key)

    def _measured(
        self,
        item: WorkItem,
        candidate: Candidate,
        execution: Execution,
        failed: list[SampleResult | TrialResult],
    ) -> WorkItem:
        skipped = reason_to_skip(candidate.record, execution.device.facts, execution.registries.requirement_providers)
        if skipped is not None:
            return evolve(item, state="skipped")
        wrong = _wrong_results(candidate, execution)
        failed += wrong
        correctness = Correctness(not wrong)
        if wrong:
            failure = Failure("correctness", "failed_sample", f"@{item.case} does not pass, so it is not timed")
            return evolve(item, state="failed", correctness=correctness, failure=failure)
        try:
            operation, dispatches = _operation(candidate, execution, self.policy.measure)
            measurement = measure(operation, dispatches, self.policy)
        except CheckError as error:
            failure = Failure("measurement", "invalid_input", str(error))
            return evolve(item, state="failed", correctness=correctness, failure=failure)
        return evolve(item, state="measured", correctness=correctness, measurement=measurement)


def _row(index: int, candidate: Candidate, item: WorkItem) -> BenchmarkRow:
    name = candidate.benchmark.name
    identity = f"{name}[{candidate.sample.ordinal}]" if candidate.sample is not None else name
    return BenchmarkRow(identity, index, name, item.case, item.state, item.work_item_index)


def _wrong_results(candidate: Candidate, execution: Execution) -> list[SampleResult | TrialResult]:
    """The sample or trials that do not pass."""
    results: list[SampleResult | TrialResult]
    if isinstance(candidate.record, ScenarioPlan):
        results = list(run_trials(candidate.record, execution, None))
    else:
        assert candidate.sample is not None
        results = [run_sample(candidate.record, candidate.sample, execution, None, keep_failure=False)]
    return [result for result in results if not result.passed]


def _operation(candidate: Candidate, execution: Execution, what: Measure) -> tuple[Callable[[], None], int]:
    """What to time, and how many launches it makes. Raises `CheckError` when there is nothing of the kind."""
    record = candidate.record
    if isinstance(record, ScenarioPlan):
        if what is not Measure.CASE_END_TO_END:
            raise CheckError(f"@{record.name} is a scenario, whose time is that of all trials: measure case_end_to_end")
        launches = sum(_launches(trial.steps) * trial.count for trial in record.trials) * record.configurations
        return lambda: _all_trials(record, execution), launches
    sample = candidate.sample
    assert sample is not None
    if what is Measure.CASE_END_TO_END:
        return lambda: _carry_out(record.steps, sample_values(record, sample), execution), _launches(record.steps)
    wanted = ("kernel.launch",) if what is Measure.DISPATCH_COMPLETE else tuple(INVOCATIONS)
    steps = [op for op in record.steps if op.name in wanted]
    if not steps:
        raise CheckError(f"@{record.name} has no {'launches' if len(wanted) == 1 else 'launches or calls'} to measure")
    values = sample_values(record, sample)
    _carry_out(record.steps, values, execution)
    return lambda: _carry_out(steps, values, execution), _launches(steps)


def _launches(steps: Sequence[Op]) -> int:
    return sum(op.name == "kernel.launch" for op in steps)


def _all_trials(scenario: ScenarioPlan, execution: Execution) -> None:
    for _ in run_trials(scenario, execution, None):
        pass


def _carry_out(steps: Sequence[Op], values: Environment, execution: Execution) -> None:
    issue = run_steps(steps, values, execution)
    if issue is not None:
        raise CheckError(f"{issue.stage}: {issue.message}")
