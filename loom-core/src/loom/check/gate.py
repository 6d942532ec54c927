"""Whether a case runs on the device in use: `check.requires` and `check.skip_if`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loom.check.plan import CasePlan
from loom.check.plan_scenario import ScenarioPlan
from loom.check.report import SkipCode, SkippedCase
from loom.plugins.records import RequirementProvider, RequirementVerdict


def reason_to_skip(
    case: CasePlan | ScenarioPlan, facts: Mapping[str, object], providers: Mapping[str, RequirementProvider]
) -> SkippedCase | None:
    """The first reason, in source order, not to run a case on a device with these facts.

    A requirement that cannot be asked is not met. A `skip_if` that cannot be asked does not hold, but
    an unknown provider skips either way: nobody knows what it would have said.
    """
    for op in case.requirements:
        reason = _reason(op, case.name, facts, providers)
        if reason is not None:
            return reason
    return None


def _reason(
    op: Any, case: str, facts: Mapping[str, object], providers: Mapping[str, RequirementProvider]
) -> SkippedCase | None:
    word = op.name.removeprefix("check.")
    provider = providers.get(op.provider)
    if provider is None:
        message = f"no requirement provider is registered as '{op.provider}'"
        return SkippedCase(case, op.provider, word, SkipCode.PROVIDER_NOT_REGISTERED, display_message=message)
    verdict = provider.check(op.facts or {}, facts)
    if word == "skip_if":
        if not verdict.satisfied:
            return None
        code, message = SkipCode.SKIP_PREDICATE_MATCHED, op.reason or verdict.message or _facts_text(op.facts)
    elif verdict.satisfied:
        return None
    else:
        code, message = _unmet(verdict)
    return SkippedCase(case, op.provider, word, code, verdict.code or None, message or None)


def _unmet(verdict: RequirementVerdict) -> tuple[SkipCode, str]:
    if not verdict.available:
        return SkipCode.PROVIDER_UNAVAILABLE, verdict.message
    return SkipCode.REQUIREMENT_NOT_SATISFIED, verdict.message


def _facts_text(facts: Mapping[str, object] | None) -> str:
    return ", ".join(f"{key} = {value}" for key, value in sorted((facts or {}).items()))
