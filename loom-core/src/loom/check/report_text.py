"""A report for people: one line per case, the failures in detail, and the totals.

Lines are plain text with a style beside it; colours appear on a terminal only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TextIO, TypeVar

from attrs import frozen

from loom.check.report import (
    CaseOutcome,
    ExpectationFailure,
    Expectations,
    ParameterValues,
    PlanningIssue,
    RuntimeIssue,
    SampleResult,
    TestReport,
    TrialResult,
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


def case_line(outcome: CaseOutcome, seconds: float | None = None) -> Line:
    """The summary of one case, with the time it took if that is known."""
    case, time = outcome.name, f" ({_duration(seconds)})" if seconds is not None else ""
    if outcome.issues:
        return Line(f"ERROR @{case}: cannot be planned ({count_text(len(outcome.issues), 'issue')})", _FAIL)
    if outcome.skipped is not None:
        skipped = outcome.skipped
        reason = skipped.display_message or skipped.code.value
        return Line(f"SKIP  @{case}: {skipped.op}<{skipped.provider}>: {reason}", _SKIP)
    results: Sequence[SampleResult | TrialResult] = outcome.trials or outcome.samples
    noun = "trial" if outcome.trials else "sample"
    total, failed = len(results), sum(not result.passed for result in results)
    if not total:
        return Line(f"NONE  @{case}: the selected sample does not exist", _SKIP)
    limit = ""
    if outcome.truncated is not None:
        limit = f" (of {outcome.truncated.planned_sample_count}; the rest is over the cap)"
    if failed:
        return Line(f"FAIL  @{case}: {failed} of {count_text(total, noun)} failed{limit}{time}", _FAIL)
    return Line(f"PASS  @{case}: {count_text(total, noun)}{limit}{time}", _PASS)


def sample_line(result: SampleResult | TrialResult, seconds: float) -> Line:
    """One sample or trial, for those who want to see each."""
    word, style = ("ok  ", "") if result.passed else ("FAIL", _FAIL)
    text = _sample_text(result) if isinstance(result, SampleResult) else _trial_text(result)
    return Line(f"  {word} {text} ({_duration(seconds)})", style)


def failure_lines(report: TestReport, limit: int | None = MAX_DETAILED_FAILURES) -> list[Line]:
    """Everything that went wrong, in detail: planning issues, then failed samples and trials.

    At most `limit` failed samples of a case (or trials of a scenario) are shown, None shows all.
    """
    lines: list[Line] = []
    for issue in report.planning_issues:
        lines.extend(issue_lines(issue))
    failed_samples = [sample for sample in report.samples if not sample.passed]
    for case, samples in _grouped((sample.case, sample) for sample in failed_samples).items():
        for sample in samples[:limit]:
            lines.append(Line(f"@{case} {_sample_text(sample)}", _FAIL))
            lines.extend(_failed_lines(sample.expectations, sample.issue))
            lines.extend(Line(f"  wrote {path}") for path in sample.files or ())
        lines.extend(_more(case, len(samples), limit, "sample"))
    failed_trials = [trial for trial in report.trials if not trial.passed]
    for scenario, trials in _grouped((trial.scenario, trial) for trial in failed_trials).items():
        for trial in trials[:limit]:
            lines.append(Line(f"@{scenario} {_trial_text(trial)}", _FAIL))
            lines.extend(_failed_lines(trial.expectations, trial.issue))
            lines.extend(Line(f"  wrote {path}") for path in trial.files or ())
        lines.extend(_more(scenario, len(trials), limit, "trial"))
    for record in report.xfails:
        met = ", ".join(record.observed) or "none"
        text = f"{record.outcome.value} {record.record}: expected {', '.join(record.expected)}; met {met}"
        lines.append(Line(text, _SKIP))
    return lines


def totals_line(report: TestReport) -> Line:
    """The last line: how many samples and trials passed and failed, and what did not run."""
    parts = []
    if report.sample_count or not report.trial_count:
        passed = sum(sample.passed for sample in report.samples)
        parts.append(_totals(report.sample_count, passed, report.failed_sample_count, "sample"))
    if report.trial_count:
        passed = sum(trial.passed for trial in report.trials)
        parts.append(_totals(report.trial_count, passed, report.failed_trial_count, "trial"))
    for count, noun in (
        (report.skipped_case_count, "skipped case"),
        (report.planning_issue_count, "planning issue"),
        (report.xfail_count, "expected failure"),
        (report.xpass_count, "unexpected pass"),
        (report.xfail_mismatch_count, "mismatched failure"),
    ):
        if count:
            parts.append(count_text(count, noun))
    return Line("; ".join(parts), _FAIL if report.failed else _PASS)


def write_lines(lines: Iterable[Line], stream: TextIO, *, colour: bool) -> None:
    """Write lines to a stream, in colour or plain."""
    if not colour:
        stream.writelines(f"{line.text}\n" for line in lines)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, soft_wrap=True, force_terminal=True)
    for line in lines:
        console.print(Text(line.text, style=line.style))


def issue_lines(issue: PlanningIssue) -> list[Line]:
    """A planning issue with its place and hint."""
    place = f"{issue.source_location}: " if issue.source_location else ""
    kind = issue.kind.value.replace("_", " ")
    lines = [Line(f"{place}@{issue.case}: {issue.op}: {kind}: {issue.message}", _FAIL)]
    if issue.fix_hint:
        lines.append(Line(f"  hint: {issue.fix_hint}"))
    return lines


def _failed_lines(expectations: Expectations, issue: RuntimeIssue | None) -> list[Line]:
    lines: list[Line] = []
    if issue is not None:
        place = f"{issue.source_location}: " if issue.source_location else ""
        code = f" [{issue.kind}]" if issue.category == "program" else ""
        lines.append(Line(f"  {place}{issue.stage} ({issue.provider}){code}: {issue.message}"))
        if issue.excerpt:
            lines += [Line(f"  {text}") for text in issue.excerpt.splitlines()]
        if issue.fix_hint:
            lines.append(Line(f"    hint: {issue.fix_hint}"))
    for failure in expectations.failures:
        lines.extend(_expectation_lines(failure))
    return lines


def _expectation_lines(failure: ExpectationFailure) -> list[Line]:
    place = f"{failure.source_location}: " if failure.source_location else ""
    against = f" against %{failure.expected_value_id}" if failure.expected_value_id else ""
    kind = f"expectation {failure.index} ({failure.kind.value})"
    lines = [
        Line(f"  {place}{kind}: %{failure.actual_value_id}{against}"),
        Line(f"    {failure.detail}"),
    ]
    further = failure.mismatch.further if failure.mismatch is not None else ()
    lines += [Line(f"    then {list(d.index)}: actual {d.actual}, expected {d.expected}") for d in further]
    return lines


def _sample_text(result: SampleResult) -> str:
    return f"sample {result.sample_ordinal}{_parameters_text(result.parameters)}"


def _trial_text(trial: TrialResult) -> str:
    place = f"configuration {trial.configuration_ordinal}, index {trial.trial_index}, entropy {trial.entropy}"
    return f"trial {trial.trial_ordinal} ({place})"


def _parameters_text(parameters: ParameterValues) -> str:
    values = ", ".join(f"{key} = {value}" for key, value in parameters.pairs)
    return f" {{{values}}}" if values else ""


def _more(name: str, failed: int, limit: int | None, noun: str) -> list[Line]:
    if limit is None or failed <= limit:
        return []
    return [Line(f"@{name}: and {count_text(failed - limit, f'more failed {noun}')}", _FAIL)]


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _totals(count: int, passed: int, failed: int, noun: str) -> str:
    """Those that fail as expected are neither passed nor failed."""
    return f"{count_text(count, noun)}: {passed} passed, {failed} failed"


def count_text(count: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is one."""
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count} {noun}{ending}"


def _grouped(pairs: Iterable[tuple[str, _Item]]) -> dict[str, list[_Item]]:
    groups: dict[str, list[_Item]] = {}
    for name, item in pairs:
        groups.setdefault(name, []).append(item)
    return groups
