"""Planning: which cases of a module to run, with which samples, and which cases cannot be run as written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from loom.check.errors import CheckError, PlanningError, PlanningIssueKind
from loom.check.expand import Expansion, Parameter, Sample, benchmark_name, expand, pin
from loom.check.options import CheckOptions
from loom.check.plan_rules import RULES, Phase, PlanContext, parameter_of
from loom.check.report import PlanningIssue
from loom.ir.core import Module, Op, Value
from loom.ir.diagnostics import Related, SourceLocation, did_you_mean, fail
from loom.plugins.manager import Registries


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
class CheckPlan:
    """The selected cases of a module in source order, and the faults of benchmarks of these cases."""

    module: Module
    cases: tuple[CasePlan, ...]
    benchmark_issues: tuple[PlanningIssue, ...]

    @property
    def issues(self) -> tuple[PlanningIssue, ...]:
        """All faults: those of cases, then those of benchmarks."""
        return (*(issue for case in self.cases for issue in case.issues), *self.benchmark_issues)


def plan_checks(module: Module, options: CheckOptions, registries: Registries) -> CheckPlan:
    """Plan the cases that `options` selects of a module, which must be valid and is not changed.

    A fault in a case is an issue of that case alone. Raises `LoomError` when a selected case is not in the
    module, and `CheckError` when no selected case has the selected sample.
    """
    symbols = module.symbols()
    selected = _select(module, symbols, options.cases)
    context = PlanContext(symbols, registries, options)
    cases = tuple(_plan_case(op, context) for op in selected)
    if options.sample is not None and cases and not any(c.issues or c.sample_count for c in cases):
        counts = ", ".join(f"@{case.name} has {case.expansion.full_count}" for case in cases)
        raise CheckError(f"there is no sample {options.sample}: {counts}, counted from 0")
    return CheckPlan(module, cases, _benchmark_issues(module, symbols, cases))


def _select(module: Module, symbols: Mapping[str, Op], names: Sequence[str]) -> list[Op]:
    for name in names:
        found = symbols.get(name)
        if found is None:
            cases = [op.attribute("symbol") for op in module.ops if op.name == "check.case"]
            hint = did_you_mean(name, [case for case in cases if isinstance(case, str)])
            raise fail("SYMBOL/002", f"there is no case '@{name}'", hint=hint, emitter="check", symbol_name=name)
        if found.name != "check.case":
            raise fail(
                "SYMBOL/003",
                f"'@{name}' is a '{found.name}', not a case",
                found.loc,
                emitter="check",
                related=(Related("asked for with --case"),),
                symbol_name=name,
                actual_kind=found.name,
                expected_kind="check.case",
            )
    wanted = set(names)
    return [op for op in module.ops if op.name == "check.case" and (not wanted or op.attribute("symbol") in wanted)]


def _plan_case(op: Any, context: PlanContext) -> CasePlan:
    by_phase: dict[Phase, list[Op]] = {phase: [] for phase in Phase}
    parameters: list[Parameter] = []
    issues: list[PlanningIssue] = []
    written: set[str] = set()
    for inner in op.body.entry:
        try:
            phase = _check_op(inner, context)
            if phase is Phase.PARAMETER:
                parameters.append(parameter_of(inner))
            elif phase is Phase.WRITE:
                _check_written_once(inner, written)
            by_phase[phase].append(inner)
        except PlanningError as error:
            issues.append(_issue(error, op.symbol, inner))
    expansion = Expansion((), {}, context.options.max_samples_per_case)
    try:
        expansion = expand(parameters, context.options.max_samples_per_case)
    except PlanningError as error:
        same = [position for position, parameter in enumerate(parameters) if parameter.key == error.subject]
        issues.append(_issue(error, op.symbol, by_phase[Phase.PARAMETER][same[1]]))
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


def _check_op(op: Op, context: PlanContext) -> Phase:
    found = RULES.get(op.name)
    if found is None:
        kind = PlanningIssueKind.UNSUPPORTED_BODY_OP
        raise PlanningError(kind, f"'{op.name}' is not supported in a case")
    phase, rule = found
    rule(op, context)
    return phase


def _check_written_once(op: Any, written: set[str]) -> None:
    if op.path in written:
        kind = PlanningIssueKind.INVALID_FILE_WRITE
        raise PlanningError(kind, f"the case writes {op.path!r} twice", fix_hint="give each file its own path")
    written.add(op.path)


def _benchmark_issues(
    module: Module, symbols: Mapping[str, Op], cases: Sequence[CasePlan]
) -> tuple[PlanningIssue, ...]:
    plans = {case.name: case for case in cases}
    issues = []
    for op in module.ops:
        if op.name != "check.benchmark":
            continue
        target = op.attribute("case")
        assert isinstance(target, str)
        try:
            found = symbols.get(target)
            if found is None or found.name != "check.case":
                kind = PlanningIssueKind.INVALID_BENCHMARK_CASE
                raise PlanningError(kind, f"'@{target}' is not a case of this module")
            case = plans.get(target)
            if case is not None and not case.issues:
                _check_benchmark(op, case)
        except PlanningError as error:
            issues.append(_issue(error, target, op))
    return tuple(issues)


def _check_benchmark(op: Op, case: CasePlan) -> None:
    pinned = op.attribute("parameters") or {}
    assert isinstance(pinned, Mapping)
    try:
        pin(case.expansion, list(pinned.items()))
    except PlanningError as error:
        symbol = op.attribute("symbol")
        name = benchmark_name(case.name, symbol if isinstance(symbol, str) else None)
        raise PlanningError(error.kind, f"benchmark '@{name}': {error}", subject=error.subject) from None


def _issue(error: PlanningError, case: str, op: Op) -> PlanningIssue:
    return PlanningIssue.from_error(error, case, op.name, SourceLocation.of(op.loc))
