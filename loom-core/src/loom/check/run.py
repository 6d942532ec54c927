"""Carrying out a body of checks: values and invocations in source order, then expectations, then files.

A body is that of a case, for one sample, or that of a trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from attrs import frozen

from loom.check.elements import is_float
from loom.check.errors import CheckError
from loom.check.events import Event, failure_event, matches, take_events
from loom.check.expand import Sample
from loom.check.expectations import EXPECTATIONS, Outcome, compared_values
from loom.check.faults import runtime_issue
from loom.check.generate import literal
from loom.check.invoke import CALLEES, INVOCATIONS, Execution, invocation_provider
from loom.check.npy import output_path, write_npy
from loom.check.plan import CasePlan
from loom.check.report import ExpectationFailure, Expectations, ParameterValues, RuntimeIssue, SampleResult
from loom.check.sources import SOURCES
from loom.check.values import Environment, format_of
from loom.ir.core import Op
from loom.ir.diagnostics import SourceLocation

CHECK_PROVIDER = "check"


class Body(Protocol):
    """Ops by phase, each in source order. Expectations of comparisons are among the body's own."""

    @property
    def steps(self) -> Sequence[Op]:
        """Value sources and invocations."""

    @property
    def expectations(self) -> Sequence[Op]:
        """What must hold afterwards."""

    @property
    def writes(self) -> Sequence[Op]:
        """Files to write at the end."""


@frozen
class BodyResult:
    """What became of a body. An issue means that it could not be carried out in full, which fails it."""

    expectations: Expectations
    issue: RuntimeIssue | None
    files: tuple[str, ...] | None

    @property
    def passed(self) -> bool:
        """Whether nothing went wrong."""
        return self.issue is None and not self.expectations.failed_count


def run_sample(
    case: CasePlan, sample: Sample, execution: Execution, output_directory: Path | None, keep_failure: bool
) -> SampleResult:
    """Run one sample. Whatever goes wrong is part of the result; nothing is raised.

    Files are written below `output_directory`, if there is one: those of mode `always`, and on failure the
    others too, unless `keep_failure` is false.
    """
    result = run_body(case, sample_values(case, sample), execution, output_directory, keep_failure)
    return SampleResult(
        case=case.name,
        sample_ordinal=sample.ordinal,
        passed=result.passed,
        expectations=result.expectations,
        issue=result.issue,
        parameters=ParameterValues(tuple((a.key, a.value) for a in sample.assignments)),
        files=result.files,
    )


def sample_values(case: CasePlan, sample: Sample) -> Environment:
    """What a sample starts with: the values of its parameters."""
    values = Environment()
    for value, assignment in zip(case.parameters, sample.assignments, strict=True):
        element = format_of(value.type)
        number = float(assignment.value) if is_float(element) else assignment.value
        values[value] = literal(element, number)
    return values


def run_body(
    body: Body, values: Environment, execution: Execution, output_directory: Path | None, keep_failure: bool
) -> BodyResult:
    """Carry out a body on the values it starts with; files as `run_sample` writes them."""
    events: list[Event] = []
    issue = run_steps(body.steps, values, execution, body.expectations, events)
    expectations = Expectations()
    if issue is None:
        expectations, issue = _evaluate(body.expectations, values, events, execution)
    files: tuple[str, ...] = ()
    if output_directory is not None:
        failed = issue is not None or bool(expectations.failed_count)
        files, fault = _write(body.writes, values, output_directory, failures=keep_failure and failed)
        issue = issue or fault
    return BodyResult(expectations, issue, files or None)


def run_steps(
    steps: Sequence[Op],
    values: Environment,
    execution: Execution,
    expectations: Sequence[Op] = (),
    events: list[Event] | None = None,
) -> RuntimeIssue | None:
    """Carry out value sources and invocations; returns what stopped them.

    Device events are added to `events`. A failure that one of the expectations is waiting for stops nothing.
    """
    collected: list[Event] = [] if events is None else events
    for op in steps:
        issue, event = _step(op, values, execution)
        collected += take_events(execution.device)
        if event is not None:
            collected.append(event)
        if issue is not None and not (event is not None and _is_expected(event, expectations)):
            return issue
    return None


def _is_expected(event: Event, expectations: Sequence[Op]) -> bool:
    return any(op.name == "check.expect.event" and matches(_pattern(op), event) for op in expectations)


def _pattern(op: Any) -> dict[str, object]:
    return dict(op.pattern)


def _step(op: Op, values: Environment, execution: Execution) -> tuple[RuntimeIssue | None, Event | None]:
    source = SOURCES.get(op.name)
    # Devices and oracles are plugins, and one sample's accident must not end the others: hence any Exception.
    if source is not None:
        try:
            values[op.result] = source(op, values)
        except Exception as error:
            return runtime_issue(error, stage="value_source", provider=CHECK_PROVIDER, op=op), None
        return None, None
    stage, invoke = INVOCATIONS[op.name]
    try:
        invoke(op, values, execution)
    except Exception as error:
        issue = runtime_issue(error, stage=stage, provider=invocation_provider(op, execution), op=op)
        if op.name not in CALLEES:
            return issue, None
        callee = execution.symbols[str(op.attribute(CALLEES[op.name]))]
        return issue, failure_event(error, issue, callee)
    return None, None


def _evaluate(
    expectations: Sequence[Op], values: Environment, events: Sequence[Event], execution: Execution
) -> tuple[Expectations, RuntimeIssue | None]:
    """Every expectation, whether or not an earlier one failed; the first that could not be evaluated is the issue."""
    evaluated, failures = 0, []
    issue: RuntimeIssue | None = None
    for index, op in enumerate(expectations):
        try:
            outcome = Outcome(*_sides(op, values), events, execution.registries)
            verdict = EXPECTATIONS[op.name](op, outcome)
        except Exception as error:
            provider = op.attribute("provider") if op.name == "check.expect" else CHECK_PROVIDER
            issue = issue or runtime_issue(error, stage="expectation", provider=str(provider), op=op)
            continue
        evaluated += 1
        if not verdict.passed:
            actual_id, expected_id = compared_values(op)
            failures.append(
                ExpectationFailure(
                    index=index,
                    kind=verdict.kind,
                    actual_value_id=actual_id,
                    expected_value_id=expected_id,
                    detail=verdict.detail,
                    mismatch=verdict.mismatch,
                    source_location=SourceLocation.of(op.loc),
                )
            )
    return Expectations.of(evaluated, failures), issue


def _sides(op: Op, values: Environment) -> tuple[Environment, Environment]:
    """What an expectation sees as actual and as expected; both are the same outside of comparisons."""
    comparison = op.parent_op
    if comparison is None or comparison.name != "check.compare":
        return values, values
    if comparison not in values.sides:
        raise CheckError("the comparison was not carried out")
    return values.sides[comparison]


def _write(
    writes: Sequence[Op], values: Environment, directory: Path, *, failures: bool
) -> tuple[tuple[str, ...], RuntimeIssue | None]:
    files: list[str] = []
    issue: RuntimeIssue | None = None
    for op in writes:
        issue = _write_one(op, values, directory, files, failures) or issue
    return tuple(files), issue


def _write_one(op: Any, values: Environment, directory: Path, files: list[str], failures: bool) -> RuntimeIssue | None:
    wanted = failures or op.mode == "always"
    # A sample that stopped early still writes what it has: that is when its values are of most interest.
    if not wanted or op.value not in values:
        return None
    try:
        path = output_path(directory, op.path)
        write_npy(path, values[op.value])
    except Exception as error:
        return runtime_issue(error, stage="file_write", provider=CHECK_PROVIDER, op=op)
    files.append(str(path))
    return None
