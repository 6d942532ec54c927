"""Running scenarios: the trials of each configuration, every one with entropy of its own.

The entropy of a scenario is a child of `root(0)` named after it. A configuration's is that of the scenario for one
without a ``configure`` block, otherwise the child at its number. Trial `i` of the `b`-th ``check.trial`` gets the
child at `i` of the child at `b` of its configuration's: a trial that is added changes no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from loom.check.entropy import Entropy, at, fork, root
from loom.check.generate import literal
from loom.check.invoke import Execution
from loom.check.plan_scenario import ScenarioPlan, TrialPlan
from loom.check.report import Expectations, RuntimeIssue, TrialResult
from loom.check.run import run_body, run_steps
from loom.check.values import Environment, format_of
from loom.ir.core import Value

_CONFIGURATIONS: Final = "configure"


def run_trials(scenario: ScenarioPlan, execution: Execution, output_directory: Path | None) -> Iterator[TrialResult]:
    """Run all trials in order. Whatever goes wrong is part of the results; nothing is raised.

    A configuration that cannot be made fails its first trial and runs none of the others. Every trial starts with the
    values that the configuration made, in storage of its own.
    """
    source = fork(root(0), scenario.name)
    per_configuration = sum(trial.count for trial in scenario.trials)
    failed = False
    for configuration in range(scenario.configurations):
        entropy = source if scenario.entropy is None else at(fork(source, _CONFIGURATIONS), configuration)
        made = Environment()
        _set(made, scenario.number, scenario.entropy, configuration, entropy)
        issue = run_steps(scenario.setup, made, execution)
        ordinal = configuration * per_configuration
        for block, trial in enumerate(scenario.trials):
            for index in range(trial.count):
                own = at(at(entropy, block), index)
                result = _run_trial(
                    scenario, trial, (configuration, index, ordinal), own, made, issue, execution,
                    None if failed else output_directory,
                )  # fmt: skip
                failed = failed or not result.passed
                ordinal += 1
                yield result
                if issue is not None:
                    break
            if issue is not None:
                break


def _run_trial(
    scenario: ScenarioPlan,
    trial: TrialPlan,
    place: tuple[int, int, int],
    entropy: Entropy,
    made: Environment,
    issue: RuntimeIssue | None,
    execution: Execution,
    output_directory: Path | None,
) -> TrialResult:
    configuration, index, ordinal = place
    expectations = Expectations()
    files: tuple[str, ...] | None = None
    if issue is None:
        values = made.separate()
        _set(values, trial.number, trial.entropy, index, entropy)
        result = run_body(trial, values, execution, output_directory, keep_failure=True)
        expectations, issue, files = result.expectations, result.issue, result.files
    return TrialResult(
        scenario=scenario.name,
        entropy=str(entropy),
        configuration_ordinal=configuration,
        trial_index=index,
        trial_ordinal=ordinal,
        passed=issue is None and not expectations.failed_count,
        expectations=expectations,
        issue=issue,
        files=files,
    )


def _set(values: Environment, number: Value | None, entropy: Value | None, index: int, source: Entropy) -> None:
    if number is not None and entropy is not None:
        values[number] = literal(format_of(number.type), index)
        values[entropy] = source
