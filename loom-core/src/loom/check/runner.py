"""Running the checks of a module on an open device."""

from __future__ import annotations

from pathlib import Path

from loom.check.entropy import fork, root
from loom.check.expected import judge
from loom.check.faults import runtime_issue
from loom.check.gate import reason_to_skip
from loom.check.invoke import Execution
from loom.check.options import CheckOptions
from loom.check.plan import CasePlan, CheckPlan, plan_checks
from loom.check.plan_scenario import ScenarioPlan
from loom.check.report import (
    CaseOutcome,
    Expectations,
    RuntimeIssue,
    SampleResult,
    TestReport,
    TrialResult,
    TruncatedCase,
)
from loom.check.run import CHECK_PROVIDER, run_sample
from loom.check.run_scenario import run_trials
from loom.ir.core import Module, Op
from loom.plugins.manager import Registries, load_plugins
from loom.plugins.records import OpenDevice


class Progress:
    """Told how a run gets on; override what is of interest."""

    def case_started(self, case: str, sample_count: int) -> None:
        """A case is about to run this many samples."""

    def sample_finished(self, result: SampleResult) -> None:
        """A sample of the case has run."""

    def scenario_started(self, scenario: str, trial_count: int) -> None:
        """A scenario is about to run this many trials."""

    def trial_finished(self, result: TrialResult) -> None:
        """A trial of the scenario has run."""

    def case_finished(self, outcome: CaseOutcome) -> None:
        """It is done, was skipped, or could not be planned (the last two may come without a start)."""


def run_checks(
    module: Module,
    device: OpenDevice,
    options: CheckOptions | None = None,
    *,
    progress: Progress | None = None,
    registries: Registries | None = None,
) -> TestReport:
    """Plan and run the checks of a module that is valid, linked and specialized for the device's target.

    `registries` holds the oracles, comparisons and requirement providers to use, by default those of all
    installed plugins. The module is not changed and the device stays open. Raises `LoomError` and `CheckError` as
    `plan_checks` does; what goes wrong in a case is in the report.
    """
    options = options or CheckOptions()
    registries = registries or load_plugins()
    plan = plan_checks(module, options, registries)
    return run_plan(plan, device, options, registries, progress or Progress())


def run_plan(
    plan: CheckPlan, device: OpenDevice, options: CheckOptions, registries: Registries, progress: Progress
) -> TestReport:
    """Run the planned cases in order and report on them."""
    execution = Execution(plan.module, device, options.device_name, registries, options.target)
    outcomes = []
    try:
        for case in _in_source_order(plan):
            outcome = _run(case, execution, options.output_directory, progress)
            progress.case_finished(outcome)
            outcomes.append(outcome)
    finally:
        execution.close()
    return TestReport.collect(
        case_count=len(plan.cases),
        scenario_count=len(plan.scenarios),
        samples=[result for outcome in outcomes for result in outcome.samples],
        trials=[result for outcome in outcomes for result in outcome.trials],
        skipped_cases=[outcome.skipped for outcome in outcomes if outcome.skipped is not None],
        planning_issues=plan.issues,
        truncated_cases=[outcome.truncated for outcome in outcomes if outcome.truncated is not None],
        xfails=judge(options.expected, outcomes),
    )


def _in_source_order(plan: CheckPlan) -> list[CasePlan | ScenarioPlan]:
    planned: dict[Op, CasePlan | ScenarioPlan] = {case.op: case for case in plan.cases}
    planned |= {scenario.op: scenario for scenario in plan.scenarios}
    return [planned[op] for op in plan.module.ops if op in planned]


def _run(
    case: CasePlan | ScenarioPlan, execution: Execution, output_directory: Path | None, progress: Progress
) -> CaseOutcome:
    if case.issues:
        return CaseOutcome(case.name, issues=case.issues)
    try:
        skipped = reason_to_skip(case, execution.device.facts, execution.registries.requirement_providers)
    except Exception as error:  # a provider is a plugin; whether the case should run is then unknown
        return _unknown(case, runtime_issue(error, stage="requirement", provider=CHECK_PROVIDER, op=case.op))
    if skipped is not None:
        return CaseOutcome(case.name, skipped=skipped)
    if isinstance(case, ScenarioPlan):
        return _run_scenario(case, execution, output_directory, progress)
    return _run_case(case, execution, output_directory, progress)


def _unknown(case: CasePlan | ScenarioPlan, issue: RuntimeIssue) -> CaseOutcome:
    """The outcome of a case of which nobody knows whether it should run: its first sample or trial fails."""
    if isinstance(case, ScenarioPlan):
        trial = TrialResult(case.name, str(fork(root(0), case.name)), 0, 0, 0, False, Expectations(), issue)
        return CaseOutcome(case.name, trials=(trial,))
    first = next(case.samples(), None)
    ordinal = first.ordinal if first is not None else 0
    return CaseOutcome(case.name, (SampleResult(case.name, ordinal, False, Expectations(), issue),))


def _run_scenario(
    scenario: ScenarioPlan, execution: Execution, output_directory: Path | None, progress: Progress
) -> CaseOutcome:
    progress.scenario_started(scenario.name, scenario.trial_count)
    results = []
    for result in run_trials(scenario, execution, output_directory):
        results.append(result)
        progress.trial_finished(result)
    return CaseOutcome(scenario.name, trials=tuple(results))


def _run_case(case: CasePlan, execution: Execution, output_directory: Path | None, progress: Progress) -> CaseOutcome:
    progress.case_started(case.name, case.sample_count)
    results: list[SampleResult] = []
    failed = False
    for sample in case.samples():
        # Samples share their paths: the files are those of the first failure, the one reported in detail.
        result = run_sample(case, sample, execution, output_directory, keep_failure=not failed)
        failed = failed or not result.passed
        results.append(result)
        progress.sample_finished(result)
    truncated = None
    if case.is_truncated:
        truncated = TruncatedCase(case.name, case.expansion.full_count, len(results))
    return CaseOutcome(case.name, tuple(results), truncated=truncated)
