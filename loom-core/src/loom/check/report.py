"""The `loom.test.v0` report: what ran, what failed and how, what was skipped and why.

Field order in these records is key order in the JSON. A field whose value is its default `None` is
left out, except where the format wants an explicit null.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum
from typing import Any

from attrs import Attribute, asdict, frozen

from loom.check.errors import PlanningError, PlanningIssueKind
from loom.check.verdict import ExpectationKind, Mismatch
from loom.ir.diagnostics import SourceLocation

FORMAT = "loom.test.v0"

Scalar = bool | int | float


@frozen
class ExpectationFailure:
    """A failed expectation: its position among the case's expectations and the values it names."""

    index: int
    kind: ExpectationKind
    actual_value_id: str
    expected_value_id: str | None
    detail: str
    mismatch: Mismatch | None = None
    source_location: SourceLocation | None = None


@frozen
class Expectations:
    """The outcome of all expectations of one sample or trial."""

    expectation_count: int = 0
    passed_count: int = 0
    failed_count: int = 0
    failures: tuple[ExpectationFailure, ...] = ()

    @classmethod
    def of(cls, evaluated: int, failures: Sequence[ExpectationFailure]) -> Expectations:
        """The outcome of this many expectations, of which these failed."""
        return cls(evaluated, evaluated - len(failures), len(failures), tuple(failures))


@frozen
class RuntimeIssue:
    """Why a sample could not be carried out to its expectations.

    `category` names whose fault it is (such as `compile` or `device`), `provider` who reported it,
    `stage` what was being done and `kind` what went wrong. `excerpt` is the source line of `source_location`, with
    carets below the place.
    """

    category: str
    provider: str
    stage: str
    kind: str
    message: str
    op: str | None = None
    source_location: SourceLocation | None = None
    fix_hint: str | None = None
    excerpt: str | None = None


@frozen
class ParameterValues:
    """What a sample gives to each parameter, by key in declaration order; an object in JSON."""

    pairs: tuple[tuple[str, Scalar], ...] = ()


@frozen
class SampleResult:
    """One run of a case. A sample with an `issue` could not be carried out in full, which fails it.

    `files` are the paths of the files it wrote.
    """

    case: str
    sample_ordinal: int
    passed: bool
    expectations: Expectations
    issue: RuntimeIssue | None = None
    parameters: ParameterValues = ParameterValues()
    files: tuple[str, ...] | None = None


@frozen
class TrialResult:
    """One trial of a scenario.

    `trial_index` counts within its `check.trial`, `trial_ordinal` all trials of the scenario; `entropy` is what the
    trial's values derive from.
    """

    scenario: str
    entropy: str
    configuration_ordinal: int
    trial_index: int
    trial_ordinal: int
    passed: bool
    expectations: Expectations
    issue: RuntimeIssue | None = None
    files: tuple[str, ...] | None = None


class SkipCode(Enum):
    """Why a case was skipped; the value is the report's spelling."""

    PROVIDER_NOT_REGISTERED = "provider_not_registered"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    REQUIREMENT_NOT_SATISFIED = "requirement_not_satisfied"
    SKIP_PREDICATE_MATCHED = "skip_predicate_matched"


@frozen
class SkippedCase:
    """A case that was not run; `op` is `requires` or `skip_if`. Neither a pass nor a failure."""

    case: str
    provider: str
    op: str
    code: SkipCode
    provider_code: str | None = None
    display_message: str | None = None


@frozen
class PlanningIssue:
    """A fault in a case or benchmark that keeps it from contributing samples."""

    kind: PlanningIssueKind
    case: str
    op: str
    source_location: SourceLocation | None
    message: str
    fix_hint: str | None = None

    @classmethod
    def from_error(
        cls, error: PlanningError, case: str, op: str, source_location: SourceLocation | None
    ) -> PlanningIssue:
        """The issue for an error that was raised while planning an operation of a case."""
        return cls(error.kind, case, op, source_location, str(error), error.fix_hint)


class ExpectedFailureOutcome(Enum):
    """How a record with expected diagnostics came out."""

    XFAIL = "xfail"
    XPASS = "xpass"
    MISMATCH = "mismatch"


@frozen
class ExpectedFailure:
    """A record named by `--xfail` or `--allow-failure`: codes it should meet and those it met.

    What fails as expected is in the rows of the report, but not among the failures that are counted.
    """

    record: str
    outcome: ExpectedFailureOutcome
    expected: tuple[str, ...]
    observed: tuple[str, ...]


@frozen
class TruncatedCase:
    """A case with more samples than the cap: how many there are, and how many ran."""

    case: str
    planned_sample_count: int
    sample_count: int


@frozen
class CaseOutcome:
    """What became of one case or scenario: its results, or why there are none."""

    name: str
    samples: tuple[SampleResult, ...] = ()
    trials: tuple[TrialResult, ...] = ()
    skipped: SkippedCase | None = None
    issues: tuple[PlanningIssue, ...] = ()
    truncated: TruncatedCase | None = None


@frozen
class TestReport:
    """The whole report. Build it with `collect`, which derives the counts."""

    # Not a test class, whatever its name suggests to pytest.
    __test__ = False

    format: str
    case_count: int
    scenario_count: int
    sample_count: int
    failed_sample_count: int
    trial_count: int
    failed_trial_count: int
    skipped_case_count: int
    planning_issue_count: int
    xfail_count: int
    xpass_count: int
    xfail_mismatch_count: int
    samples: tuple[SampleResult, ...]
    trials: tuple[TrialResult, ...]
    skipped_cases: tuple[SkippedCase, ...]
    planning_issues: tuple[PlanningIssue, ...]
    xfails: tuple[ExpectedFailure, ...]
    truncated_cases: tuple[TruncatedCase, ...] | None = None

    @property
    def failed(self) -> bool:
        """Whether the command exits with a failure. A skipped case and an expected failure are none."""
        return bool(
            self.failed_sample_count
            or self.failed_trial_count
            or self.planning_issue_count
            or self.xpass_count
            or self.xfail_mismatch_count
        )

    @classmethod
    def collect(
        cls,
        *,
        case_count: int,
        scenario_count: int = 0,
        samples: Sequence[SampleResult] = (),
        trials: Sequence[TrialResult] = (),
        skipped_cases: Sequence[SkippedCase] = (),
        planning_issues: Sequence[PlanningIssue] = (),
        xfails: Sequence[ExpectedFailure] = (),
        truncated_cases: Sequence[TruncatedCase] = (),
    ) -> TestReport:
        """The report on these results; the two counts are of selected cases and scenarios."""
        outcomes = [record.outcome for record in xfails]
        excused = {
            record.record.removeprefix("@") for record in xfails if record.outcome is ExpectedFailureOutcome.XFAIL
        }
        return cls(
            format=FORMAT,
            case_count=case_count,
            scenario_count=scenario_count,
            sample_count=len(samples),
            failed_sample_count=sum(not s.passed and s.case not in excused for s in samples),
            trial_count=len(trials),
            failed_trial_count=sum(not t.passed and t.scenario not in excused for t in trials),
            skipped_case_count=len({skip.case for skip in skipped_cases}),
            planning_issue_count=sum(issue.case not in excused for issue in planning_issues),
            xfail_count=outcomes.count(ExpectedFailureOutcome.XFAIL),
            xpass_count=outcomes.count(ExpectedFailureOutcome.XPASS),
            xfail_mismatch_count=outcomes.count(ExpectedFailureOutcome.MISMATCH),
            samples=tuple(samples),
            trials=tuple(trials),
            skipped_cases=tuple(skipped_cases),
            planning_issues=tuple(planning_issues),
            xfails=tuple(xfails),
            truncated_cases=tuple(truncated_cases) or None,
        )


def to_json(report: TestReport) -> str:
    """The report as JSON text, ending in a newline; equal reports give equal text."""
    plain = asdict(report, filter=_is_present, value_serializer=_serialize)
    return json.dumps(plain, indent=2, allow_nan=False) + "\n"


def _is_present(attribute: Attribute[Any], value: object) -> bool:
    return not (value is None and attribute.default is None)


def _serialize(_record: object, _attribute: Attribute[Any] | None, value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, ParameterValues):
        return dict(value.pairs)
    return value
