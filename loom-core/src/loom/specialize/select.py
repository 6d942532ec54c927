"""Template selection in three-valued logic (language reference, part 1, section 9.4; part 3, section 10.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from loom.dialects.template import ops as template
from loom.facts.analysis import FunctionFacts
from loom.facts.predicates import all_of
from loom.ir.attributes import Encoding, Ref
from loom.ir.core import Op, Value
from loom.ir.diagnostics import LoomError, Related, fail
from loom.ir.records import record

if TYPE_CHECKING:
    from loom.plugins.records import TargetProfile

PHASE = "select-templates"


def decide_requirement(requirement: Encoding, target: TargetProfile | None) -> bool | None:
    """Whether the target facts prove a requirement, refute it, or leave it open."""
    if requirement.family == "target.subgroup.size" and requirement.primary:
        have = target.facts.get("subgroup_size") if target is not None else None
        return None if have is None else have == requirement.primary[0]
    return None


@record
class Candidate:
    """A provider at one application: its verdict and the conditions that decided it."""

    provider: Any
    verdict: bool | None
    reasons: tuple[str, ...]
    applies: bool | None = True
    """Whether the provider's target record covers the target in use."""

    @property
    def priority(self) -> int:
        """What the provider says; 0 if it says nothing."""
        return self.provider.priority or 0


def classify(
    provider: Any,
    args: Sequence[Value],
    facts: FunctionFacts,
    at: Op,
    target: TargetProfile | None,
    applies: Callable[[Any], bool | None],
) -> Candidate:
    """Evaluate a provider's target, requirements and predicates at an application."""
    answers: list[bool | None] = []
    reasons: list[str] = []

    def note(answer: bool | None, text: str) -> None:
        answers.append(answer)
        if answer is not True:
            reasons.append(f"{text} is {'false' if answer is False else 'not known'}")

    covers: bool | None = True
    if provider.target is not None:
        covers = applies(provider)
        note(covers, f"target(@{provider.target})")
    for requirement in provider.requires or ():
        note(decide_requirement(requirement, target), str(requirement))

    parameters = provider.body.entry.args
    for predicate in provider.predicates or ():
        text = ", ".join(
            f"%{parameters[a.index].name}" if isinstance(a, Ref) and a.index < len(parameters) else str(a)
            for a in predicate.args
        )
        note(facts.decide_predicate(predicate, args, at), f"{predicate.name}({text})")
    return Candidate(provider, all_of(answers), tuple(reasons), covers)


@record
class Choice:
    """What an application is bound to, of which candidates."""

    chosen: Candidate
    candidates: tuple[Candidate, ...]

    @property
    def provider(self) -> Any:
        """The provider that won."""
        return self.chosen.provider

    @property
    def outcome(self) -> str:
        """``fallback_selected`` where a provider that is not decided would have come first."""
        undecided = any(c.verdict is None and c.priority >= self.chosen.priority for c in self.candidates)
        return "fallback_selected" if undecided else "selected"


@record
class Selection:
    """A row of the compile report: what an application was bound to."""

    function: str
    apply_op: str
    contract: str
    target: str | None
    provider: str | None
    priority: int
    highest_priority: int
    outcome: str
    provider_count: int
    target_applicable_count: int
    possible_count: int
    best_exact_count: int

    @classmethod
    def of(cls, function: str, apply: Any, choice: Choice, target: TargetProfile | None) -> Selection:
        """The row about an application of a function."""
        candidates = choice.candidates
        best = choice.chosen.priority
        return cls(
            function,
            apply.name,
            apply.family,
            target.name if target is not None else None,
            choice.provider.callee,
            best,
            max(c.priority for c in candidates),
            choice.outcome,
            len(candidates),
            sum(c.applies is not False for c in candidates),
            sum(c.verdict is not False for c in candidates),
            sum(c.verdict is True and c.priority == best for c in candidates),
        )

    def row(self) -> dict[str, object]:
        """The row for a report (language reference, part 3, section 10.5)."""
        return {
            "category": "template-selection",
            "function": self.function,
            "apply_op": self.apply_op,
            "contract": self.contract,
            "target": self.target,
            "selected_provider": self.provider,
            "selected_priority": self.priority,
            "highest_provider_priority": self.highest_priority,
            "outcome": self.outcome,
            "provider_count": self.provider_count,
            "target_applicable_count": self.target_applicable_count,
            "possible_count": self.possible_count,
            "best_exact_count": self.best_exact_count,
        }


def select(
    apply: Any,
    providers: Sequence[Any],
    facts: FunctionFacts,
    target: TargetProfile | None,
    applies: Callable[[Any], bool | None],
    *,
    final: bool,
) -> Choice | None:
    """Choose the provider of one application.

    With ``final`` an undecided provider is not eligible and a failure raises LOWERING/045. Otherwise an
    undecided provider of at least the best proven priority keeps the choice open and ``None`` is returned.
    """
    candidates = [classify(p, apply.args, facts, apply, target, applies) for p in providers]
    proven = [c for c in candidates if c.verdict is True]
    open_ones = [c for c in candidates if c.verdict is None]
    best = max((c.priority for c in proven), default=None)
    top = [c for c in proven if c.priority == best]
    if len(top) > 1:
        raise _failure(apply, "ambiguous", f"{len(top)} providers share the best priority {best}", top)
    if not final and (not top or any(c.priority >= top[0].priority for c in open_ones)):
        return None
    if top:
        return Choice(top[0], tuple(candidates))
    if not providers:
        raise _failure(apply, "no_provider", "no provider is visible", [])
    if all(c.applies is False for c in candidates):
        raise _failure(apply, "target_mismatch", "no provider is for this target", candidates)
    code = "missing_facts" if open_ones else "all_rejected"
    raise _failure(apply, code, "no provider is proven eligible", candidates)


def _failure(apply: Any, code: str, text: str, candidates: Sequence[Candidate]) -> LoomError:
    notes = tuple(
        Related(
            f"candidate '@{c.provider.callee}' with priority {c.priority}"
            + (f": {'; '.join(c.reasons)}" if c.reasons else ""),
            c.provider.loc,
        )
        for c in sorted(candidates, key=lambda c: c.provider.callee)
    )
    names = ", ".join(f"'@{c.provider.callee}'" for c in sorted(candidates, key=lambda c: c.provider.callee))
    return fail(
        "LOWERING/045",
        f"cannot select a provider of '@{apply.family}': {text}" + (f" ({names})" if names else ""),
        apply.loc,
        related=notes,
        emitter=PHASE,
        op_name=apply.name,
        phase_name=PHASE,
        contract_key=apply.family,
        failure_code=code,
    )


def bind(apply: Any, provider: Any) -> Op:
    """Turn an application into an exact call of the chosen provider."""
    call = template.Call.build(
        purity=apply.purity,
        temperature=apply.temperature,
        callee=provider.callee,
        ties=apply.ties,
        args=apply.args,
        result_types=[r.type for r in apply.results],
        loc=apply.loc,
    )
    call.comments, call.blank_before = apply.comments, apply.blank_before
    call.insert_before(apply)
    for old, new in zip(apply.results, call.results, strict=True):
        new.name = old.name
    apply.replace_with(call.results)
    return call


def require_provider_holds(
    call: Any, provider: Any, facts: FunctionFacts, target: TargetProfile | None, applies: Callable[[Any], bool | None]
) -> None:
    """A named provider's predicates and requirements must be proven too."""
    candidate = classify(provider, call.args, facts, call, target, applies)
    if candidate.verdict is not True:
        raise fail(
            "LOWERING/045",
            f"'@{provider.callee}' cannot be called here: {'; '.join(candidate.reasons)}",
            call.loc,
            related=(Related("the provider", provider.loc),),
            emitter=PHASE,
            op_name=call.name,
            phase_name=PHASE,
            contract_key=provider.family,
            failure_code="all_rejected" if candidate.verdict is False else "missing_facts",
        )
