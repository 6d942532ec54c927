"""The `loom.test.v0` report: keys and their order, counts, text."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys

import pytest

from loom.check.compare import expect_equal, expect_shape
from loom.check.errors import PlanningError, PlanningIssueKind
from loom.check.generate import fill, iota
from loom.check.report import (
    CaseOutcome,
    ExpectationFailure,
    Expectations,
    ExpectedFailure,
    ExpectedFailureOutcome,
    ParameterValues,
    PlanningIssue,
    RuntimeIssue,
    SampleResult,
    SkipCode,
    SkippedCase,
    TestReport,
    TrialResult,
    TruncatedCase,
    to_json,
)
from loom.check.report_text import Line, case_line, failure_lines, sample_line, totals_line, write_lines
from loom.evaluate.numeric.formats import I32
from loom.ir.diagnostics import Diagnostic, SourceFile, SourceLocation, Span

TOP_LEVEL_KEYS = [
    "format",
    "case_count",
    "scenario_count",
    "sample_count",
    "failed_sample_count",
    "trial_count",
    "failed_trial_count",
    "skipped_case_count",
    "planning_issue_count",
    "xfail_count",
    "xpass_count",
    "xfail_mismatch_count",
    "samples",
    "trials",
    "skipped_cases",
    "planning_issues",
    "xfails",
]


PLACE_JSON = {
    "provenance": "exact_source",
    "filename": "checks.loom",
    "start_line": 3,
    "start_column": 5,
    "end_line": 3,
    "end_column": 12,
}
PLACE = SourceLocation("checks.loom", 3, 5, 3, 12)


def failed_expectations() -> Expectations:
    actual = iota(I32, [2, 3], 0, 1)
    equal = expect_equal(actual, fill(I32, [2, 3], 0))
    shape = expect_shape(actual, [6])
    failures = [
        ExpectationFailure(1, equal.kind, "a", "want", equal.detail, equal.mismatch),
        ExpectationFailure(2, shape.kind, "a", None, shape.detail, shape.mismatch, PLACE),
    ]
    return Expectations.of(3, failures)


def sample(case: str, ordinal: int, passed: bool) -> SampleResult:
    expectations = Expectations(1, 1, 0) if passed else failed_expectations()
    parameters = ParameterValues((("rows", 64), ("scale", 0.5)))
    return SampleResult(case, ordinal, passed, expectations, parameters=parameters)


def full_report() -> TestReport:
    error = PlanningError(PlanningIssueKind.INVALID_PARAMETER, "parameter 'n': bad", subject="n", fix_hint="fix it")
    return TestReport.collect(
        case_count=4,
        scenario_count=1,
        samples=[
            sample("good", 0, True),
            sample("good", 1, True),
            *(sample("bad", i, i == 0) for i in range(6)),
        ],
        trials=[TrialResult("s", "01/02", 0, 3, 3, False, failed_expectations())],
        skipped_cases=[
            SkippedCase("off", "loom.target", "requires", SkipCode.REQUIREMENT_NOT_SATISFIED, display_message="wave64")
        ],
        planning_issues=[PlanningIssue.from_error(error, "broken", "check.param.range", PLACE)],
        xfails=[ExpectedFailure("x", ExpectedFailureOutcome.XPASS, ("TYPE/001",), ())],
        truncated_cases=[TruncatedCase("good", 90, 2)],
    )


def test_keys_come_in_the_order_of_the_format() -> None:
    """Also when everything is empty; only a truncated case adds one more key at the end."""
    empty = TestReport.collect(case_count=0)
    assert list(json.loads(to_json(empty))) == TOP_LEVEL_KEYS
    assert json.loads(to_json(empty))["format"] == "loom.test.v0"
    assert not empty.failed
    assert list(json.loads(to_json(full_report()))) == [*TOP_LEVEL_KEYS, "truncated_cases"]


def test_counts_follow_from_the_results() -> None:
    """No count is given by hand but the two selections."""
    plain = json.loads(to_json(full_report()))
    counts = {key: value for key, value in plain.items() if key.endswith("_count")}
    assert list(counts.values()) == [4, 1, 8, 5, 1, 1, 1, 1, 0, 1, 0]


def test_elements_have_the_documented_fields() -> None:
    """In their order; optional ones that are absent are left out, `expected_value_id` is null."""
    plain = json.loads(to_json(full_report()))
    passed, failed = plain["samples"][0], plain["samples"][3]
    assert passed == {
        "case": "good",
        "sample_ordinal": 0,
        "passed": True,
        "expectations": {"expectation_count": 1, "passed_count": 1, "failed_count": 0, "failures": []},
        "parameters": {"rows": 64, "scale": 0.5},
    }
    assert list(failed) == ["case", "sample_ordinal", "passed", "expectations", "parameters"]
    equal, shape = failed["expectations"]["failures"]
    assert list(equal)[:5] == ["index", "kind", "actual_value_id", "expected_value_id", "detail"]
    assert (equal["index"], equal["kind"], equal["expected_value_id"]) == (1, "equal", "want")
    assert equal["mismatch"] == {
        "element_count": 6,
        "mismatch_count": 5,
        "index": [0, 1],
        "actual": "1",
        "expected": "0",
        "largest_absolute_error": "5",
        "further": [
            {"index": [0, 2], "actual": "2", "expected": "0"},
            {"index": [1, 0], "actual": "3", "expected": "0"},
            {"index": [1, 1], "actual": "4", "expected": "0"},
        ],
    }
    assert shape == {
        "index": 2,
        "kind": "shape",
        "actual_value_id": "a",
        "expected_value_id": None,
        "detail": "shape is [2, 3], expected [6]",
        "source_location": PLACE_JSON,
    }
    assert plain["skipped_cases"] == [
        {
            "case": "off",
            "provider": "loom.target",
            "op": "requires",
            "code": "requirement_not_satisfied",
            "display_message": "wave64",
        }
    ]
    assert plain["planning_issues"] == [
        {
            "kind": "invalid_parameter",
            "case": "broken",
            "op": "check.param.range",
            "source_location": PLACE_JSON,
            "message": "parameter 'n': bad",
            "fix_hint": "fix it",
        }
    ]


def test_places_are_written_like_those_of_diagnostics() -> None:
    """One record serves both, with lines and columns of the source text."""
    source = SourceFile("x.loom", "first\n  second third\n")
    span = Span(source, 8, 14)
    place = SourceLocation.of(span)
    assert place == SourceLocation("x.loom", 2, 3, 2, 9)
    error = PlanningError(PlanningIssueKind.INVALID_PARAMETER, "bad")
    issue = PlanningIssue.from_error(error, "case", "check.param.seed", place)
    report = json.loads(to_json(TestReport.collect(case_count=1, planning_issues=[issue])))
    diagnostic = Diagnostic("TYPE/001", "bad", span).to_json()
    assert report["planning_issues"][0]["source_location"] == diagnostic["source_location"]


def test_json_is_deterministic() -> None:
    """Equal reports, equal bytes."""
    assert to_json(full_report()) == to_json(full_report())


@pytest.mark.parametrize(
    ("report", "failed"),
    [
        (TestReport.collect(case_count=1, samples=[sample("a", 0, True)]), False),
        (TestReport.collect(case_count=1, samples=[sample("a", 0, False)]), True),
        (
            TestReport.collect(
                case_count=1,
                skipped_cases=[SkippedCase("a", "p", "skip_if", SkipCode.SKIP_PREDICATE_MATCHED)],
                xfails=[ExpectedFailure("a", ExpectedFailureOutcome.XFAIL, ("A/001",), ("A/001",))],
            ),
            False,
        ),
        (
            TestReport.collect(
                case_count=0, xfails=[ExpectedFailure("a", ExpectedFailureOutcome.MISMATCH, ("A/001",), ())]
            ),
            True,
        ),
        (
            TestReport.collect(
                case_count=0, xfails=[ExpectedFailure("a", ExpectedFailureOutcome.XPASS, ("A/001",), ())]
            ),
            True,
        ),
        (
            TestReport.collect(
                case_count=1,
                planning_issues=[PlanningIssue(PlanningIssueKind.INVALID_INVOCATION, "a", "kernel.launch", None, "no")],
            ),
            True,
        ),
    ],
)
def test_what_fails_the_command(report: TestReport, failed: bool) -> None:
    """Failed samples, planning issues, unexpected passes and mismatches; not skips or expected failures."""
    assert report.failed is failed


def test_a_line_per_case() -> None:
    """What happened to it, and how long it took when that is known."""
    report = full_report()
    by_case = {case: tuple(s for s in report.samples if s.case == case) for case in ("good", "bad")}
    outcomes = [
        CaseOutcome("good", by_case["good"], truncated=TruncatedCase("good", 90, 2)),
        CaseOutcome("bad", by_case["bad"]),
        CaseOutcome("off", skipped=report.skipped_cases[0]),
        CaseOutcome("broken", issues=report.planning_issues),
    ]
    assert [case_line(outcome).text for outcome in outcomes] == [
        "PASS  @good: 2 samples (of 90; the rest is over the cap)",
        "FAIL  @bad: 5 of 6 samples failed",
        "SKIP  @off: requires<loom.target>: wave64",
        "ERROR @broken: cannot be planned (1 issue)",
    ]
    assert case_line(outcomes[1], 0.0123).text == "FAIL  @bad: 5 of 6 samples failed (12 ms)"
    assert case_line(outcomes[1], 2.04).text == "FAIL  @bad: 5 of 6 samples failed (2.0 s)"
    assert sample_line(report.samples[1], 0.5).text == "  ok   sample 1 {rows = 64, scale = 0.5} (500 ms)"


def test_failures_in_detail() -> None:
    """Planning issues, then the first failures of each case, or all of them when asked for."""
    text = [line.text for line in failure_lines(full_report())]
    assert text[:2] == [
        "checks.loom:3:5: @broken: check.param.range: invalid parameter: parameter 'n': bad",
        "  hint: fix it",
    ]
    assert text[2:10] == [
        "@bad sample 1 {rows = 64, scale = 0.5}",
        "  expectation 1 (equal): %a against %want",
        "    5 of 6 elements differ; first at [0, 1]: actual 1, expected 0; largest absolute error 5",
        "    then [0, 2]: actual 2, expected 0",
        "    then [1, 0]: actual 3, expected 0",
        "    then [1, 1]: actual 4, expected 0",
        "  checks.loom:3:5: expectation 2 (shape): %a",
        "    shape is [2, 3], expected [6]",
    ]
    assert "@bad: and 2 more failed samples" in text
    assert not any(line.startswith("@bad sample 4") for line in text)
    assert text[-1] == "xpass x: expected TYPE/001; met none"
    everything = [line.text for line in failure_lines(full_report(), None)]
    assert sum(line.startswith("@bad sample") for line in everything) == 5
    assert not any("more failed" in line for line in everything)


def test_totals() -> None:
    """All that ran, and all that did not."""
    assert totals_line(full_report()).text == (
        "8 samples: 3 passed, 5 failed; 1 trial: 0 passed, 1 failed; 1 skipped case; 1 planning issue; "
        "1 unexpected pass"
    )


def test_runtime_issues_are_shown() -> None:
    """With the place, the stage and who reported it."""
    place = SourceLocation("k.loom", 9, 3, 9, 4)
    issue = RuntimeIssue("device", "sim", "launch", "fault", "read past the end of %x", None, place)
    failed = SampleResult("a", 0, False, Expectations(), issue, files=("out/y.npy",))
    program = RuntimeIssue("program", "sim", "launch", "TARGET/001", "no such op", None, None, "use another")
    report = TestReport.collect(case_count=2, samples=[failed, SampleResult("b", 1, False, Expectations(), program)])
    assert [line.text for line in failure_lines(report)] == [
        "@a sample 0",
        "  k.loom:9:3: launch (sim): read past the end of %x",
        "  wrote out/y.npy",
        "@b sample 1",
        "  launch (sim) [TARGET/001]: no such op",
        "    hint: use another",
    ]
    assert json.loads(to_json(report))["samples"][0]["issue"]["category"] == "device"


def test_colours_change_nothing_but_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain text without them, and the same text with them; brackets are no markup."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines = [Line("FAIL  @a: [1] of 2", "bold red"), totals_line(TestReport.collect(case_count=0))]
    plain, coloured = io.StringIO(), io.StringIO()
    write_lines(lines, plain, colour=False)
    assert plain.getvalue() == "FAIL  @a: [1] of 2\n0 samples: 0 passed, 0 failed\n"
    write_lines(lines, coloured, colour=True)
    assert "\x1b[1;31mFAIL  @a: [1] of 2\x1b[0m\n" in coloured.getvalue()
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured.getvalue()) == plain.getvalue()


def test_reports_need_no_numpy() -> None:
    """A command that only lists or renders cases starts without it."""
    code = "import sys, loom.check.report_text; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
