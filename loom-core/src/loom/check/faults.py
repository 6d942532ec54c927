"""Turning what stopped a sample into the issue that its report shows.

Devices, oracles and comparisons are plugins: what they raise has no common class. Their structured errors are
recognised by what they carry; anything else is still only this sample's failure, but marked as internal.
"""

from __future__ import annotations

import re
from types import TracebackType

from loom.check.errors import CheckError
from loom.check.report import RuntimeIssue
from loom.ir.core import Op
from loom.ir.diagnostics import Location, LoomError, SourceLocation, excerpt

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def runtime_issue(error: Exception, *, stage: str, provider: str, op: Op | None = None) -> RuntimeIssue:
    """The issue for an error; `stage` says what was being done, `provider` who did it, `op` for which op.

    | error | category | kind |
    |---|---|---|
    | `LoomError`: a diagnostic of the program | `program` | the diagnostic's code |
    | `CheckError`: the case's own input is impossible | `check` | `invalid_input` |
    | one with a `record` that has a `kind`, such as a fault in simulated code | `device` | the record's kind |
    | any other class that a plugin defines; `OSError`, `MemoryError` | `device` | the class, in snake case |
    | any other built-in exception: a defect of the provider | `internal` | the class, in snake case |

    The place is that of the diagnostic, or the `location` that the exception has; else that of `op`.
    """
    message, hint = str(error) or type(error).__name__, None
    location: Location = getattr(error, "location", None)
    kind = _snake_case(type(error).__name__)
    if isinstance(error, LoomError) and error.diagnostics:
        category, kind = "program", error.diagnostics[0].code
        message = "; ".join(diagnostic.message for diagnostic in error.diagnostics)
        hint = error.diagnostics[0].hint
        location = error.diagnostics[0].location
    elif isinstance(error, CheckError):
        category, kind = "check", "invalid_input"
    elif isinstance(recorded := getattr(getattr(error, "record", None), "kind", None), str):
        category, kind = "device", recorded
    elif type(error).__module__ != "builtins" or isinstance(error, OSError | MemoryError):
        category = "device"
    else:
        category = "internal"
        message = f"{type(error).__name__}: {message}{_origin(error.__traceback__)}"
    place = SourceLocation.of(location)
    if place is None and op is not None:
        place = SourceLocation.of(op.loc)
    return RuntimeIssue(
        category, provider, stage, kind, message, op.name if op else None, place, hint, excerpt(location)
    )


def _snake_case(name: str) -> str:
    return _WORD_START.sub("_", name).lower()


def _origin(trace: TracebackType | None) -> str:
    """Where the exception was raised: the one thing its message does not say."""
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" (raised in {trace.tb_frame.f_globals.get('__name__', '?')}, line {trace.tb_lineno})"
