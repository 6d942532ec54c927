"""Errors of the check machinery, and the kinds of planning issue a bad case is reported under."""

from __future__ import annotations

from enum import Enum


class CheckError(Exception):
    """A case cannot be planned or run as written: the message says which rule its input breaks."""


class PlanningIssueKind(Enum):
    """Why a case, or a benchmark of it, contributes no samples; the value is the report's spelling."""

    UNSUPPORTED_BODY_OP = "unsupported_body_op"
    INVALID_PARAMETER = "invalid_parameter"
    INVALID_BENCHMARK_CASE = "invalid_benchmark_case"
    DUPLICATE_PARAMETER_NAME = "duplicate_parameter_name"
    INVALID_BENCHMARK_ASSIGNMENT = "invalid_benchmark_assignment"
    INVALID_VALUE_SOURCE = "invalid_value_source"
    INVALID_FILE_WRITE = "invalid_file_write"
    INVALID_INVOCATION = "invalid_invocation"
    INVALID_EXPECTATION = "invalid_expectation"


class PlanningError(CheckError):
    """A fault found before anything runs, with the issue kind it is reported under.

    `subject` names the parameter or key at fault, so that the planner can point at its operation.
    """

    def __init__(
        self,
        kind: PlanningIssueKind,
        message: str,
        *,
        subject: str | None = None,
        fix_hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.subject = subject
        self.fix_hint = fix_hint
