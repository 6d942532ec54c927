"""Records that are expected to fail: which diagnostics, and how it came out (language reference, part 3, section 8.9).

A record is a case or a scenario. What it meets are the codes of diagnostics (``EVALUATE/002``), the kinds of device
faults (``out_of_bounds``) and of planning issues, and ``expectation`` for values that are not what they should be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen

from loom.check.errors import CheckError
from loom.check.report import (
    CaseOutcome,
    Expectations,
    ExpectedFailure,
    ExpectedFailureOutcome,
    RuntimeIssue,
)

EXPECTATION: Final = "expectation"

_OPTION: Final = re.compile(r"@([^=]+)=(.*)\Z")
_CODE: Final = re.compile(r"[A-Z]+/[0-9]{3}\Z|[a-z][a-z0-9_-]*\Z")


@frozen
class ExpectedCodes:
    """What a record is expected to meet. One that is not ``required`` to may also pass."""

    record: str
    codes: tuple[str, ...]
    required: bool


def read_expected(text: str, *, required: bool) -> ExpectedCodes:
    """The value of ``--xfail`` or ``--allow-failure``: ``@record=CODE,...``. Raises ``CheckError``."""
    match = _OPTION.match(text)
    codes = tuple(code.strip() for code in match.group(2).split(",")) if match is not None else ()
    if match is None or not all(_CODE.match(code) for code in codes):
        raise CheckError(f"{text!r} is not @record=DOMAIN/NNN,...")
    return ExpectedCodes(match.group(1), codes, required)


def judge(expected: Sequence[ExpectedCodes], outcomes: Sequence[CaseOutcome]) -> list[ExpectedFailure]:
    """How the records that are expected to fail came out. Those that did not run or passed as they may are left out."""
    by_name: Mapping[str, CaseOutcome] = {outcome.name: outcome for outcome in outcomes}
    found = []
    for entry in expected:
        outcome = by_name.get(entry.record)
        if outcome is None or outcome.skipped is not None:
            continue
        observed = _observed(outcome)
        if not observed:
            if entry.required:
                found.append(_row(entry, ExpectedFailureOutcome.XPASS, observed))
        elif set(observed) <= set(entry.codes):
            found.append(_row(entry, ExpectedFailureOutcome.XFAIL, observed))
        else:
            found.append(_row(entry, ExpectedFailureOutcome.MISMATCH, observed))
    return found


def _row(entry: ExpectedCodes, outcome: ExpectedFailureOutcome, observed: tuple[str, ...]) -> ExpectedFailure:
    return ExpectedFailure(f"@{entry.record}", outcome, entry.codes, observed)


def _observed(outcome: CaseOutcome) -> tuple[str, ...]:
    """Everything that went wrong in a record, each once, sorted."""
    found = {issue.kind.value for issue in outcome.issues}
    results = [(sample.expectations, sample.issue) for sample in outcome.samples]
    results += [(trial.expectations, trial.issue) for trial in outcome.trials]
    for expectations, issue in results:
        found |= _of_result(expectations, issue)
    return tuple(sorted(found))


def _of_result(expectations: Expectations, issue: RuntimeIssue | None) -> set[str]:
    found = {EXPECTATION} if expectations.failed_count else set()
    if issue is not None:
        found.add(issue.kind)
    return found
