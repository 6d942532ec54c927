"""Running one sample of a case: values and invocations in source order, then expectations, then files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loom.check.elements import is_float
from loom.check.expand import Sample
from loom.check.expectations import EXPECTATIONS, compared_values
from loom.check.faults import runtime_issue
from loom.check.generate import literal
from loom.check.invoke import INVOCATIONS, Execution, invocation_provider
from loom.check.npy import output_path, write_npy
from loom.check.plan import CasePlan
from loom.check.report import ExpectationFailure, Expectations, ParameterValues, RuntimeIssue, SampleResult
from loom.check.sources import SOURCES
from loom.check.values import Environment, format_of, value_id
from loom.ir.core import Op
from loom.ir.diagnostics import SourceLocation

CHECK_PROVIDER = "check"


def run_sample(
    case: CasePlan, sample: Sample, execution: Execution, output_directory: Path | None, keep_failure: bool
) -> SampleResult:
    """Run one sample. Whatever goes wrong is part of the result; nothing is raised.

    Files are written below `output_directory`, if there is one: those of mode `always`, and on failure the
    others too, unless `keep_failure` is false.
    """
    values = Environment()
    issue = _carry_out(case, sample, values, execution)
    expectations = Expectations()
    if issue is None:
        expectations, issue = _evaluate(case, values, execution)
    passed = issue is None and not expectations.failed_count
    files: tuple[str, ...] = ()
    if output_directory is not None:
        files, fault = _write(case, values, output_directory, failures=keep_failure and not passed)
        issue = issue or fault
    return SampleResult(
        case=case.name,
        sample_ordinal=sample.ordinal,
        passed=passed and issue is None,
        expectations=expectations,
        issue=issue,
        parameters=ParameterValues(tuple((a.key, a.value) for a in sample.assignments)),
        files=files or None,
    )


def _carry_out(case: CasePlan, sample: Sample, values: Environment, execution: Execution) -> RuntimeIssue | None:
    for value, assignment in zip(case.parameters, sample.assignments, strict=True):
        element = format_of(value.type)
        number = float(assignment.value) if is_float(element) else assignment.value
        values[value] = literal(element, number)
    for op in case.steps:
        issue = _step(op, values, execution)
        if issue is not None:
            return issue
    return None


def _step(op: Op, values: Environment, execution: Execution) -> RuntimeIssue | None:
    source = SOURCES.get(op.name)
    # Devices and oracles are plugins, and one sample's accident must not end the others: hence any Exception.
    if source is not None:
        try:
            values[op.result] = source(op, values)
        except Exception as error:
            return runtime_issue(error, stage="value_source", provider=CHECK_PROVIDER, op=op)
        return None
    stage, invoke = INVOCATIONS[op.name]
    try:
        invoke(op, values, execution)
    except Exception as error:
        return runtime_issue(error, stage=stage, provider=invocation_provider(op, execution), op=op)
    return None


def _evaluate(case: CasePlan, values: Environment, execution: Execution) -> tuple[Expectations, RuntimeIssue | None]:
    """Every expectation, whether or not an earlier one failed; the first that could not be evaluated is the issue."""
    evaluated, failures = 0, []
    issue: RuntimeIssue | None = None
    for index, op in enumerate(case.expectations):
        try:
            verdict = EXPECTATIONS[op.name](op, values, execution.registries)
        except Exception as error:
            provider = op.attribute("provider") if op.name == "check.expect" else CHECK_PROVIDER
            issue = issue or runtime_issue(error, stage="expectation", provider=str(provider), op=op)
            continue
        evaluated += 1
        if not verdict.passed:
            actual, expected = compared_values(op)
            failures.append(
                ExpectationFailure(
                    index=index,
                    kind=verdict.kind,
                    actual_value_id=value_id(actual),
                    expected_value_id=value_id(expected) if expected is not None else None,
                    detail=verdict.detail,
                    mismatch=verdict.mismatch,
                    source_location=SourceLocation.of(op.loc),
                )
            )
    return Expectations.of(evaluated, failures), issue


def _write(
    case: CasePlan, values: Environment, directory: Path, *, failures: bool
) -> tuple[tuple[str, ...], RuntimeIssue | None]:
    files: list[str] = []
    issue: RuntimeIssue | None = None
    for op in case.writes:
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
