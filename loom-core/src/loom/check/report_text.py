"""A report for people: one line per case, the failures in detail, and the totals.

Lines are plain text with a style beside it; colours appear on a terminal only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TextIO, TypeVar

from attrs import frozen

from loom.check.report import (
    ExpectationFailure,
    Expectations,
    ParameterValues,
    PlanningIssue,
    RuntimeIssue,
    SampleResult,
    SkippedCase,
    TestReport,
    TrialResult,
    TruncatedCase,
)

MAX_DETAILED_FAILURES = 3
"""Failed samples of one case that are shown in full; the others usually say the same."""

_PASS, _FAIL, _SKIP = "green", "bold red", "yellow"

_Item = TypeVar("_Item")


@frozen
class Line:
    """One line of output and the rich style it has on a terminal."""

    text: str
    style: str = ""


def case_line(
    case: str,
    samples: Sequence[SampleResult],
    skipped: SkippedCase | None = None,
    issues: Sequence[PlanningIssue] = (),
    truncated: TruncatedCase | None = None,
) -> Line:
    """The summary of one case, given what the report holds on it."""
    if issues:
        return Line(f"ERROR @{case}: cannot be planned ({_count(len(issues), 'issue')})", _FAIL)
    if skipped is not None:
        reason = skipped.display_message or skipped.code.value
        return Line(f"SKIP  @{case}: {skipped.op}<{skipped.provider}>: {reason}", _SKIP)
    limit = f" (of {truncated.planned_sample_count}; the rest is over the cap)" if truncated else ""
    return _outcome_line(case, [sample.passed for sample in samples], "sample", limit)


def scenario_line(scenario: str, trials: Sequence[TrialResult]) -> Line:
    """The summary of one scenario."""
    return _outcome_line(scenario, [trial.passed for trial in trials], "trial", "")


def failure_lines(report: TestReport) -> list[Line]:
    """Everything that went wrong, in detail: planning issues, then failed samples and trials."""
    lines: list[Line] = []
    for issue in report.planning_issues:
        lines.extend(_issue_lines(issue))
    failed_samples = [sample for sample in report.samples if not sample.passed]
    for case, samples in _grouped((sample.case, sample) for sample in failed_samples).items():
        for sample in samples[:MAX_DETAILED_FAILURES]:
            head = f"@{case} sample {sample.sample_ordinal}{_parameters_text(sample.parameters)}"
            lines.extend(_failed_lines(head, sample.expectations, sample.issue))
        lines.extend(_more(case, len(samples), "sample"))
    failed_trials = [trial for trial in report.trials if not trial.passed]
    for scenario, trials in _grouped((trial.scenario, trial) for trial in failed_trials).items():
        for trial in trials[:MAX_DETAILED_FAILURES]:
            position = f"index {trial.trial_index}, entropy {trial.entropy}"
            head = f"@{scenario} trial {trial.trial_ordinal} ({position})"
            lines.extend(_failed_lines(head, trial.expectations, trial.issue))
        lines.extend(_more(scenario, len(trials), "trial"))
    for record in report.xfails:
        met = ", ".join(record.observed) or "none"
        text = f"{record.outcome.value} {record.record}: expected {', '.join(record.expected)}; met {met}"
        lines.append(Line(text, _SKIP))
    return lines


def totals_line(report: TestReport) -> Line:
    """The last line: how many samples and trials passed and failed, and what did not run."""
    parts = []
    if report.sample_count or not report.trial_count:
        parts.append(_totals(report.sample_count, report.failed_sample_count, "sample"))
    if report.trial_count:
        parts.append(_totals(report.trial_count, report.failed_trial_count, "trial"))
    for count, noun in (
        (report.skipped_case_count, "skipped case"),
        (report.planning_issue_count, "planning issue"),
        (report.xfail_count, "expected failure"),
        (report.xpass_count, "unexpected pass"),
        (report.xfail_mismatch_count, "mismatched failure"),
    ):
        if count:
            parts.append(_count(count, noun))
    return Line("; ".join(parts), _FAIL if report.failed else _PASS)


def report_lines(report: TestReport) -> list[Line]:
    """The whole report: a line per case and scenario, details of failures, totals."""
    skipped = {skip.case: skip for skip in report.skipped_cases}
    truncated = {entry.case: entry for entry in report.truncated_cases or ()}
    issues = _grouped((issue.case, issue) for issue in report.planning_issues)
    samples = _grouped((sample.case, sample) for sample in report.samples)
    lines = [
        case_line(case, samples.get(case, ()), skipped.get(case), issues.get(case, ()), truncated.get(case))
        for case in dict.fromkeys((*samples, *skipped, *issues))
    ]
    trials = _grouped((trial.scenario, trial) for trial in report.trials)
    lines.extend(scenario_line(scenario, results) for scenario, results in trials.items())
    return [*lines, *failure_lines(report), totals_line(report)]


def write_lines(lines: Iterable[Line], stream: TextIO) -> None:
    """Write lines to a stream, coloured when it is a terminal (and `NO_COLOR` is unset)."""
    if not stream.isatty():
        stream.writelines(f"{line.text}\n" for line in lines)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text(line.text, style=line.style))


def _outcome_line(name: str, passes: Sequence[bool], noun: str, note: str) -> Line:
    failed = passes.count(False)
    if failed:
        return Line(f"FAIL  @{name}: {failed} of {_count(len(passes), noun)} failed{note}", _FAIL)
    return Line(f"PASS  @{name}: {_count(len(passes), noun)}{note}", _PASS)


def _issue_lines(issue: PlanningIssue) -> list[Line]:
    place = f"{issue.source_location}: " if issue.source_location else ""
    kind = issue.kind.value.replace("_", " ")
    lines = [Line(f"{place}@{issue.case}: {issue.op}: {kind}: {issue.message}", _FAIL)]
    if issue.fix_hint:
        lines.append(Line(f"  hint: {issue.fix_hint}"))
    return lines


def _failed_lines(head: str, expectations: Expectations, issue: RuntimeIssue | None) -> list[Line]:
    lines = [Line(head, _FAIL)]
    if issue is not None:
        place = f"{issue.source_location}: " if issue.source_location else ""
        lines.append(Line(f"  {place}{issue.stage} ({issue.provider}): {issue.message}"))
    for failure in expectations.failures:
        lines.extend(_expectation_lines(failure))
    return lines


def _expectation_lines(failure: ExpectationFailure) -> list[Line]:
    against = f" against {failure.expected_value_id}" if failure.expected_value_id else ""
    head = f"  expectation {failure.index} ({failure.kind.value}): {failure.actual_value_id}{against}"
    return [Line(head), Line(f"    {failure.detail}")]


def _parameters_text(parameters: ParameterValues) -> str:
    values = ", ".join(f"{key} = {value}" for key, value in parameters.pairs)
    return f" {{{values}}}" if values else ""


def _more(name: str, failed: int, noun: str) -> list[Line]:
    hidden = failed - MAX_DETAILED_FAILURES
    return [Line(f"@{name}: and {_count(hidden, f'more failed {noun}')}", _FAIL)] if hidden > 0 else []


def _totals(count: int, failed: int, noun: str) -> str:
    return f"{_count(count, noun)}: {count - failed} passed, {failed} failed"


def _count(count: int, noun: str) -> str:
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count} {noun}{ending}"


def _grouped(pairs: Iterable[tuple[str, _Item]]) -> dict[str, list[_Item]]:
    groups: dict[str, list[_Item]] = {}
    for name, item in pairs:
        groups.setdefault(name, []).append(item)
    return groups
