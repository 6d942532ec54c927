"""Planning: which cases of a module to run, with which samples, and which cases cannot be run as written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from loom.check.errors import CheckError, PlanningError, PlanningIssueKind
from loom.check.expand import Expansion, Parameter, Sample, benchmark_name, expand, pin
from loom.check.options import CheckOptions
from loom.check.plan_rules import Phase, PlanContext, check_op, check_written_once, issue_of, parameter_of
from loom.check.plan_scenario import ScenarioPlan, plan_scenario
from loom.check.report import PlanningIssue
from loom.ir.core import Module, Op, Value
from loom.ir.diagnostics import Related, did_you_mean, fail
from loom.plugins.manager import Registries

_CASE: Final = "check.case"
_SCENARIO: Final = "check.scenario"


@frozen(eq=False)
class CasePlan:
    """One case: its ops by phase, each in source order, and its samples.

    `parameters` are the values that a sample assigns, by position. A case with `issues` runs no sample.
    """

    name: str
    op: Op
    requirements: tuple[Op, ...]
    parameters: tuple[Value, ...]
    steps: tuple[Op, ...]
    expectations: tuple[Op, ...]
    writes: tuple[Op, ...]
    expansion: Expansion
    sample: int | None
    issues: tuple[PlanningIssue, ...]

    @property
    def sample_count(self) -> int:
        """Samples that `samples` delivers."""
        if self.issues:
            return 0
        if self.sample is not None:
            return int(self.sample < self.expansion.full_count)
        return self.expansion.count

    @property
    def is_truncated(self) -> bool:
        """Whether the cap leaves samples out."""
        return not self.issues and self.sample is None and self.expansion.is_truncated

    def samples(self) -> Iterator[Sample]:
        """The samples to run, by ordinal."""
        if not self.sample_count:
            return iter(())
        return iter(self.expansion) if self.sample is None else iter((self.expansion.sample(self.sample),))


@frozen(eq=False)
class BenchmarkPlan:
    """A benchmark: the samples of a case that it selects, or a scenario. Without an expansion it is a scenario's."""

    name: str
    op: Op
    case: str
    expansion: Expansion | None


@frozen(eq=False)
class CheckPlan:
    """The selected cases and scenarios of a module in source order, and benchmarks of these with their faults."""

    module: Module
    cases: tuple[CasePlan, ...]
    scenarios: tuple[ScenarioPlan, ...]
    benchmarks: tuple[BenchmarkPlan, ...]
    benchmark_issues: tuple[PlanningIssue, ...]

    @property
    def issues(self) -> tuple[PlanningIssue, ...]:
        """All faults: those of cases, then those of scenarios, then those of benchmarks."""
        in_cases = (issue for case in self.cases for issue in case.issues)
        in_scenarios = (issue for scenario in self.scenarios for issue in scenario.issues)
        return (*in_cases, *in_scenarios, *self.benchmark_issues)


def plan_checks(module: Module, options: CheckOptions, registries: Registries) -> CheckPlan:
    """Plan the cases and scenarios that `options` selects of a module, which must be valid and is not changed.

    A fault in a case is an issue of that case alone. Raises `LoomError` when a selected case is not in the
    module, and `CheckError` when no selected case has the selected sample, or a scenario would have to.
    """
    symbols = module.symbols()
    selected = _select(module, symbols, options.cases)
    # Naming a record that is not there must not look like an expected failure.
    _select(module, symbols, [entry.record for entry in options.expected], "named by --xfail or --allow-failure")
    context = PlanContext(symbols, registries, options)
    cases = tuple(_plan_case(op, context) for op in selected if op.name == _CASE)
    scenarios = tuple(plan_scenario(op, context) for op in selected if op.name == _SCENARIO)
    if options.sample is not None:
        if scenarios:
            raise CheckError(f"@{scenarios[0].name} is a scenario, which has trials and no samples; choose a case")
        if cases and not any(c.issues or c.sample_count for c in cases):
            counts = ", ".join(f"@{case.name} has {case.expansion.full_count}" for case in cases)
            raise CheckError(f"there is no sample {options.sample}: {counts}, counted from 0")
    return CheckPlan(module, cases, scenarios, *_plan_benchmarks(module, symbols, cases, scenarios))


def _select(
    module: Module, symbols: Mapping[str, Op], names: Sequence[str], asked: str = "asked for with --case"
) -> list[Op]:
    for name in names:
        found = symbols.get(name)
        if found is None:
            known = [op.attribute("symbol") for op in module.ops if op.name in (_CASE, _SCENARIO)]
            hint = did_you_mean(name, [case for case in known if isinstance(case, str)])
            raise fail("SYMBOL/002", f"there is no case '@{name}'", hint=hint, emitter="check", symbol_name=name)
        if found.name not in (_CASE, _SCENARIO):
            raise fail(
                "SYMBOL/003",
                f"'@{name}' is a '{found.name}', not a case or scenario",
                found.loc,
                emitter="check",
                related=(Related(asked),),
                symbol_name=name,
                actual_kind=found.name,
                expected_kind=_CASE,
            )
    wanted = set(names)
    return [
        op for op in module.ops if op.name in (_CASE, _SCENARIO) and (not wanted or op.attribute("symbol") in wanted)
    ]


def _plan_case(op: Any, context: PlanContext) -> CasePlan:
    by_phase: dict[Phase, list[Op]] = {phase: [] for phase in Phase}
    parameters: list[Parameter] = []
    issues: list[PlanningIssue] = []
    written: set[str] = set()
    for inner in op.body.entry:
        try:
            phase = check_op(inner, context)
            if phase is Phase.PARAMETER:
                parameters.append(parameter_of(inner))
            elif phase is Phase.WRITE:
                check_written_once(inner, written)
            by_phase[phase].append(inner)
        except PlanningError as error:
            issues.append(issue_of(error, op.symbol, inner))
    expansion = Expansion((), {}, context.options.max_samples_per_case)
    try:
        expansion = expand(parameters, context.options.max_samples_per_case)
    except PlanningError as error:
        same = [position for position, parameter in enumerate(parameters) if parameter.key == error.subject]
        issues.append(issue_of(error, op.symbol, by_phase[Phase.PARAMETER][same[1]]))
    return CasePlan(
        name=op.symbol,
        op=op,
        requirements=tuple(by_phase[Phase.REQUIREMENT]),
        parameters=tuple(parameter.result for parameter in by_phase[Phase.PARAMETER]),
        steps=tuple(by_phase[Phase.STEP]),
        expectations=tuple(by_phase[Phase.EXPECTATION]),
        writes=tuple(by_phase[Phase.WRITE]),
        expansion=expansion,
        sample=context.options.sample,
        issues=tuple(issues),
    )


def _plan_benchmarks(
    module: Module, symbols: Mapping[str, Op], cases: Sequence[CasePlan], scenarios: Sequence[ScenarioPlan]
) -> tuple[tuple[BenchmarkPlan, ...], tuple[PlanningIssue, ...]]:
    """The benchmarks of the planned cases and scenarios, and what is wrong with any benchmark of the module."""
    plans: dict[str, CasePlan | ScenarioPlan] = {case.name: case for case in cases}
    plans |= {scenario.name: scenario for scenario in scenarios}
    benchmarks, issues = [], []
    for op in module.ops:
        if op.name != "check.benchmark":
            continue
        target = op.attribute("case")
        assert isinstance(target, str)
        try:
            found = symbols.get(target)
            if found is None or found.name not in (_CASE, _SCENARIO):
                kind = PlanningIssueKind.INVALID_BENCHMARK_CASE
                raise PlanningError(kind, f"'@{target}' is not a case or scenario of this module")
            record = plans.get(target)
            if record is not None and not record.issues:
                benchmarks.append(_plan_benchmark(op, record))
        except PlanningError as error:
            issues.append(issue_of(error, target, op))
    return tuple(benchmarks), tuple(issues)


def _plan_benchmark(op: Op, record: CasePlan | ScenarioPlan) -> BenchmarkPlan:
    pinned = op.attribute("parameters") or {}
    assert isinstance(pinned, Mapping)
    symbol = op.attribute("symbol")
    name = benchmark_name(record.name, symbol if isinstance(symbol, str) else None)
    try:
        if isinstance(record, CasePlan):
            return BenchmarkPlan(name, op, record.name, pin(record.expansion, list(pinned.items())))
        if pinned:
            kind = PlanningIssueKind.INVALID_BENCHMARK_ASSIGNMENT
            raise PlanningError(kind, "a scenario has no parameters", subject=next(iter(pinned)))
    except PlanningError as error:
        raise PlanningError(error.kind, f"benchmark '@{name}': {error}", subject=error.subject) from None
    return BenchmarkPlan(name, op, record.name, None)
