"""Planning scenarios: what runs once per configuration, and what each trial runs."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from loom.check.errors import PlanningError, PlanningIssueKind
from loom.check.plan_rules import Phase, PlanContext, check_op, check_written_once, issue_of
from loom.check.report import PlanningIssue
from loom.ir.core import Op, Value

_REQUIREMENTS = ("check.requires", "check.skip_if")


@frozen(eq=False)
class TrialPlan:
    """One `check.trial`: its ops by phase, each in source order, and how often they run."""

    op: Op
    count: int
    number: Value
    entropy: Value
    steps: tuple[Op, ...]
    expectations: tuple[Op, ...]
    writes: tuple[Op, ...]


@frozen(eq=False)
class ScenarioPlan:
    """One scenario. `setup` runs once for each of the `configurations`, before the trials of that configuration.

    `number` and `entropy` are the arguments of the `configure` block, if there is one. A scenario with `issues`
    runs no trial.
    """

    name: str
    op: Op
    requirements: tuple[Op, ...]
    configurations: int
    number: Value | None
    entropy: Value | None
    setup: tuple[Op, ...]
    trials: tuple[TrialPlan, ...]
    issues: tuple[PlanningIssue, ...]

    @property
    def trial_count(self) -> int:
        """Trials that run."""
        return 0 if self.issues else self.configurations * sum(trial.count for trial in self.trials)


def plan_scenario(op: Any, context: PlanContext) -> ScenarioPlan:
    """Plan a scenario of a valid module. Faults become its issues."""
    issues: list[PlanningIssue] = []
    requirements: list[Op] = []
    trials: list[TrialPlan] = []
    setup: list[Op] = []
    for inner in op.body.entry:
        if inner.name in _REQUIREMENTS:
            requirements.append(inner)
        elif inner.name == "check.trial":
            trials.append(_plan_trial(inner, op.symbol, context, issues))
        elif inner.name != "check.return":
            phase = _phase(inner, op.symbol, context, issues)
            if phase is Phase.STEP:
                setup.append(inner)
            elif phase is not None:
                issues.append(_misplaced(inner, op.symbol, "a 'configure' block makes values, it expects nothing"))
    arguments = op.body.entry.args
    return ScenarioPlan(
        name=op.symbol,
        op=op,
        requirements=tuple(requirements),
        configurations=op.configurations or 1,
        number=arguments[0] if arguments else None,
        entropy=arguments[1] if arguments else None,
        setup=tuple(setup),
        trials=tuple(trials),
        issues=tuple(issues),
    )


def _plan_trial(op: Any, scenario: str, context: PlanContext, issues: list[PlanningIssue]) -> TrialPlan:
    by_phase: dict[Phase, list[Op]] = {phase: [] for phase in Phase}
    written: set[str] = set()
    for inner in op.body.entry:
        phase = _phase(inner, scenario, context, issues)
        if phase is None:
            continue
        by_phase[phase].append(inner)
        if inner.name == "check.compare":
            comparisons = list(inner.regions[0].entry)
            phases = [_phase(comparison, scenario, context, issues) for comparison in comparisons]
            by_phase[Phase.EXPECTATION] += [
                comparison for comparison, phase in zip(comparisons, phases, strict=True) if phase is Phase.EXPECTATION
            ]
        elif phase is Phase.WRITE:
            try:
                check_written_once(inner, written)
            except PlanningError as error:
                issues.append(issue_of(error, scenario, inner))
    number, entropy = op.body.entry.args
    return TrialPlan(
        op=op,
        count=op.count,
        number=number,
        entropy=entropy,
        steps=tuple(by_phase[Phase.STEP]),
        expectations=tuple(by_phase[Phase.EXPECTATION]),
        writes=tuple(by_phase[Phase.WRITE]),
    )


def _phase(op: Op, scenario: str, context: PlanContext, issues: list[PlanningIssue]) -> Phase | None:
    """The phase of an op, or ``None`` when it cannot run, which is noted."""
    try:
        phase = check_op(op, context)
    except PlanningError as error:
        issues.append(issue_of(error, scenario, op))
        return None
    if phase in (Phase.PARAMETER, Phase.REQUIREMENT):
        issues.append(_misplaced(op, scenario, f"'{op.name}' stands in a case, not in a trial"))
        return None
    return phase


def _misplaced(op: Op, scenario: str, message: str) -> PlanningIssue:
    return issue_of(PlanningError(PlanningIssueKind.UNSUPPORTED_BODY_OP, message), scenario, op)
