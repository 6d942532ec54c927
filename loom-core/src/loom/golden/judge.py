"""Judging a case: what it made and was diagnosed with against what it expects (part 3, sections 9.3 to 9.5)."""

from __future__ import annotations

import difflib
import re
import traceback
from collections.abc import Sequence
from typing import Final

from attrs import evolve, frozen

from loom.golden.annotations import Input, match
from loom.golden.execute import CANONICAL_INPUT, Setting, execute, is_met
from loom.golden.model import Case, GoldenError
from loom.ir.diagnostics import Diagnostic, LoomError

PASSED: Final = "passed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"

_CHECK: Final = re.compile(r"\s*(?://\s*)?(CHECK|CHECK-NOT):\s?(.*)\Z")


@frozen
class Hunk:
    """Lines that differ: where they stand in the expected text, counted from 1, and what replaces what."""

    start: int
    expected: tuple[str, ...]
    actual: tuple[str, ...]


@frozen
class CaseResult:
    """The outcome of one case.

    ``raw`` is what happened, ``final`` what it means for the run: ``XFAIL`` turns one into the other. One that could
    not be run as written has not ``ran``. ``product`` is the text that was made, if one was. ``matched`` has for each
    annotation the diagnostic it consumed, ``left`` the diagnostics that none did. ``hunks`` is how the product
    differs from the expected text.
    """

    case: Case
    raw: str
    final: str
    detail: str = ""
    product: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    matched: tuple[Diagnostic | None, ...] = ()
    left: tuple[Diagnostic, ...] = ()
    hunks: tuple[Hunk, ...] = ()
    ran: bool = False


def run_case(case: Case, setting: Setting, path: str) -> CaseResult:
    """Run one case and judge it. What goes wrong is part of the result."""
    missing = [name for name in case.requires if not is_met(name)]
    if missing:
        return CaseResult(case, SKIPPED, SKIPPED, f"requires {', '.join(missing)}")
    source = Input.of(case, path)
    product: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    try:
        product = execute(case, setting, source.name)
    except LoomError as error:
        diagnostics = error.diagnostics
    except GoldenError as error:
        return _final(CaseResult(case, FAILED, FAILED, f"{path}:{error.line or case.line}: {error}"))
    except Exception as error:  # a defect of what is tested is this case's failure and must not end the others
        return _final(CaseResult(case, FAILED, FAILED, f"{path}:{case.line}: internal error\n{_trace(error)}"))
    matched, left = match(case.annotations, diagnostics, source)
    faults = [
        f"{path}:{annotation.line}: nothing matches '{annotation.text}'"
        for annotation, found in zip(case.annotations, matched, strict=True)
        if found is None
    ]
    faults += [_located(diagnostic, case, path) for diagnostic in left]
    more, hunks = _compare(case, product, failed=bool(diagnostics))
    faults += [f"{path}:{case.line}: {fault}" for fault in more]
    outcome = FAILED if faults else PASSED
    detail = "\n".join([*faults, *_hunk_lines(hunks)])
    result = CaseResult(
        case, outcome, outcome, detail, product, diagnostics, tuple(matched), tuple(left), tuple(hunks), ran=True
    )
    return _final(result)


def _trace(error: Exception) -> str:
    """Where an exception came from: the innermost calls and the message."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    calls = [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    return "\n".join([*calls, *(line.rstrip() for line in traceback.format_exception_only(error))])


def _final(result: CaseResult) -> CaseResult:
    """The result as ``XFAIL`` has it."""
    xfail = result.case.xfail
    if xfail is None or result.raw == SKIPPED:
        return result
    if result.raw == FAILED:
        return evolve(result, final=PASSED, detail=f"expected to fail: {xfail.value}")
    return evolve(result, final=FAILED, detail=f"passes, but is expected to fail: {xfail.value}")


def _located(diagnostic: Diagnostic, case: Case, path: str) -> str:
    line = Input.of(case, path).line_of(diagnostic)
    place = diagnostic.position()
    where = path
    if place is not None:
        where = f"{path}:{line}:{place[2]}" if line is not None else ":".join(map(str, place))
    return f"{where}: {diagnostic.severity}: [{diagnostic.code}] {diagnostic.message}"


def expected_text(case: Case) -> str | None:
    """The text that a case wants to see made: its expected section, or in some modes the input itself."""
    if case.expected is None and case.run.mode in CANONICAL_INPUT and not case.run.with_checks:
        return case.input
    return case.expected


def _compare(case: Case, product: str | None, *, failed: bool) -> tuple[list[str], list[Hunk]]:
    wanted = expected_text(case)
    if product is None:
        if case.expected is None:
            return [], []
        why = "it failed" if failed else f"'{case.run.mode}' makes none"
        return [f"there is an expected section, but no output: {why}"], []
    if wanted is None:
        return ["there is no expected section"], []
    if case.run.with_checks:
        return check_globs(wanted, product), []
    hunks = _differences(wanted, product)
    return ["the output is not as expected"] if hunks else [], hunks


def _differences(wanted: str, product: str) -> list[Hunk]:
    before, after = wanted.strip().splitlines(), product.strip().splitlines()
    before, after = [line.rstrip() for line in before], [line.rstrip() for line in after]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [
        Hunk(low + 1, tuple(before[low:high]), tuple(after[start:end]))
        for tag, low, high, start, end in matcher.get_opcodes()
        if tag != "equal"
    ]


def _hunk_lines(hunks: Sequence[Hunk]) -> list[str]:
    lines = []
    for hunk in hunks:
        lines.append(f"  expected line {hunk.start}:")
        lines += [f"  - {line}" for line in hunk.expected] + [f"  + {line}" for line in hunk.actual]
    return lines


def check_globs(wanted: str, product: str) -> list[str]:
    """What is wrong with a text by ``CHECK:`` and ``CHECK-NOT:`` lines, in whatever order these stand."""
    lines = product.splitlines()
    faults: list[str] = []
    positive = 0
    for line in wanted.strip().splitlines():
        if not line.strip():
            continue
        match = _CHECK.match(line)
        if match is None:
            faults.append(f"'{line.strip()}' is neither CHECK: nor CHECK-NOT:")
            continue
        word, glob = match.group(1), match.group(2).strip()
        pattern = _glob(glob)
        found = any(pattern.fullmatch(text.strip()) for text in lines)
        positive += word == "CHECK"
        if found != (word == "CHECK"):
            faults.append(f"{'no line matches' if word == 'CHECK' else 'a line matches'} '{glob}'")
    if not positive:
        faults.append("with-checks needs at least one CHECK:")
    return faults


def _glob(glob: str) -> re.Pattern[str]:
    """``*`` is any run of characters and ``?`` one character; nothing else is special."""
    special = {"*": ".*", "?": "."}
    return re.compile("".join(special.get(c, re.escape(c)) for c in glob))
