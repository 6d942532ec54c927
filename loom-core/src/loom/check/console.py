"""A run shown to people while it goes on: a line per case, progress on a terminal, failures and totals."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from enum import IntEnum
from typing import TextIO

from loom.check.plan import BenchmarkPlan, CheckPlan
from loom.check.report import CaseOutcome, SampleResult, TestReport, TrialResult
from loom.check.report_text import (
    MAX_DETAILED_FAILURES,
    Line,
    case_line,
    count_text,
    failure_lines,
    issue_lines,
    sample_line,
    totals_line,
    write_lines,
)
from loom.check.runner import Progress

_CLEAR_LINE = "\r\x1b[2K"
_REFRESH_SECONDS = 0.1


def listing(plan: CheckPlan) -> list[Line]:
    """The cases of a plan, each with its samples and the parameters that they come from, the scenarios with their
    trials, the benchmarks with what they time; then what is wrong."""
    lines = []
    for case in plan.cases:
        keys = ", ".join(f"{p.key} x{p.count}" for p in case.expansion.parameters)
        lines.append(Line(f"@{case.name}: {count_text(case.sample_count, 'sample')}{f' ({keys})' if keys else ''}"))
    for scenario in plan.scenarios:
        blocks = " + ".join(str(trial.count) for trial in scenario.trials) or "0"
        times = f" ({scenario.configurations} configurations of {blocks})" if scenario.configurations > 1 else ""
        lines.append(Line(f"@{scenario.name}: {count_text(scenario.trial_count, 'trial')}{times}"))
    for benchmark in plan.benchmarks:
        lines.append(Line(f"@{benchmark.name}: benchmark of @{benchmark.case}{_selection(benchmark)}"))
    for issue in plan.issues:
        lines.extend(issue_lines(issue))
    return lines


def _selection(benchmark: BenchmarkPlan) -> str:
    """The samples that a benchmark times."""
    expansion = benchmark.expansion
    if expansion is None:
        return ""
    pinned = ", ".join(
        f"{parameter.key} = {parameter.value(expansion.pinned[position])}"
        for position, parameter in enumerate(expansion.parameters)
        if position in expansion.pinned
    )
    return f": {count_text(expansion.count, 'sample')}{f' ({pinned})' if pinned else ''}"


def _wrote_files(report: TestReport) -> bool:
    return any(sample.files for sample in report.samples) or any(trial.files for trial in report.trials)


class Verbosity(IntEnum):
    """How much of a run is shown."""

    SILENT = 0
    """Nothing but progress: the output is for a program."""

    QUIET = 1
    """Cases that did not pass, their details, and the totals."""

    NORMAL = 2
    """Also a line for every case."""

    VERBOSE = 3
    """Also a line for every sample, and every failed sample in detail."""


class Console(Progress):
    """Writes results to `out` and, if it is a terminal, progress to `err`."""

    def __init__(self, out: TextIO, err: TextIO, verbosity: Verbosity, *, colour: bool) -> None:
        self._out = out
        self._err = err
        self._verbosity = verbosity
        self._colour = colour
        self._shows_progress = verbosity is not Verbosity.QUIET and err.isatty()
        self._progress_shown = False
        self._refreshed = 0.0
        self._case = self._noun = ""
        self._total = self._done = self._failed = 0
        self._case_started = self._sample_started = time.monotonic()

    def case_started(self, case: str, sample_count: int) -> None:
        self._started(case, sample_count, "sample")

    def scenario_started(self, scenario: str, trial_count: int) -> None:
        self._started(scenario, trial_count, "trial")

    def sample_finished(self, result: SampleResult) -> None:
        self._finished(result)

    def trial_finished(self, result: TrialResult) -> None:
        self._finished(result)

    def _started(self, case: str, total: int, noun: str) -> None:
        self._case, self._total, self._noun = case, total, noun
        self._done = self._failed = 0
        self._case_started = self._sample_started = time.monotonic()
        self._show_progress()

    def _finished(self, result: SampleResult | TrialResult) -> None:
        now = time.monotonic()
        self._done += 1
        self._failed += not result.passed
        if self._verbosity is Verbosity.VERBOSE:
            self._write([sample_line(result, now - self._sample_started)])
        self._sample_started = now
        if now - self._refreshed >= _REFRESH_SECONDS:
            self._show_progress()

    def case_finished(self, outcome: CaseOutcome) -> None:
        self.clear()
        results: Sequence[SampleResult | TrialResult] = outcome.trials or outcome.samples
        ran = bool(results)
        passed = ran and all(result.passed for result in results)
        if self._verbosity >= Verbosity.NORMAL or (self._verbosity is Verbosity.QUIET and not passed):
            seconds = time.monotonic() - self._case_started if ran else None
            self._write([case_line(outcome, seconds)])

    def finish(self, plan: CheckPlan, report: TestReport) -> None:
        """The details of what failed, and the totals."""
        limit = None if self._verbosity is Verbosity.VERBOSE else MAX_DETAILED_FAILURES
        lines = failure_lines(report, limit)
        failed = {sample.case for sample in report.samples if not sample.passed}
        failed |= {trial.scenario for trial in report.trials if not trial.passed}
        writing = [case.name for case in plan.cases if case.writes]
        writing += [scenario.name for scenario in plan.scenarios if any(trial.writes for trial in scenario.trials)]
        if failed.intersection(writing) and not _wrote_files(report):
            lines.append(Line("hint: --file-output-dir=DIR keeps the files that failed cases write"))
        self._write([*lines, totals_line(report)])

    def clear(self) -> None:
        """Take the progress line away, so that something else can be written."""
        if self._progress_shown:
            self._err.write(_CLEAR_LINE)
            self._err.flush()
            self._progress_shown = False

    def _write(self, lines: Sequence[Line]) -> None:
        self.clear()
        write_lines(lines, self._out, colour=self._colour)
        self._out.flush()

    def _show_progress(self) -> None:
        if not self._shows_progress:
            return
        failed = f", {self._failed} failed" if self._failed else ""
        text = f"@{self._case}: {self._done} of {self._total} {self._noun}s{failed}"
        # A line that wraps could not be cleared.
        width = shutil.get_terminal_size().columns - 1
        self._err.write(_CLEAR_LINE + text[:width])
        self._err.flush()
        self._progress_shown = True
        self._refreshed = time.monotonic()
