"""What ``low.invoke`` asks of a helper, whatever the target (language reference, part 3, section 4.8).

A helper may be used where the caller's target has its contract, it can be inlined, it takes its inputs as arguments,
and every predicate of it is proven from what is known at the call. Only behind that proof do the predicates become
``low.assume`` of the registers that are handed over: they restate what is known and never support the call.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loom.dialects.low import ops as low
from loom.facts.analysis import FunctionFacts
from loom.facts.integers import IntegerFacts
from loom.facts.predicates import decide_predicate
from loom.ir.attributes import Predicate, Ref
from loom.ir.core import Op, Value
from loom.ir.diagnostics import LoomError, Related, fail
from loom.ir.types import ADDRESSES, INTEGERS
from loom.specialize.targets import accepts_record

if TYPE_CHECKING:
    from loom.plugins.records import TargetProfile

PHASE = "source-to-low"


def require_invocable(
    op: Any, symbols: Mapping[str, Op], facts: FunctionFacts, target: TargetProfile, contracts: Collection[str]
) -> low.FuncDef:
    """The helper that a ``low.invoke`` names, once everything that its use needs is established.

    ``contracts`` are those whose instructions the caller's target has. A helper with a target record also needs a
    caller that satisfies it; one without takes the caller's. Raises ``LoomError``.
    """
    helper = symbols.get(op.callee)
    if not isinstance(helper, low.FuncDef):
        raise fail(
            "TARGET/022",
            f"'@{op.callee}' is no Low function that can be inlined here",
            op.loc,
            emitter=PHASE,
            function_name=op.callee,
            target_name=target.name,
            constraint_key="invoke.definition",
        )
    witness = symbols.get(helper.witness) if helper.witness is not None else None
    if helper.contract not in contracts or accepts_record(target, witness) is False:
        written = helper.contract if helper.contract not in contracts else f"'@{helper.witness}'"
        raise fail(
            "TARGET/040",
            f"'@{op.callee}' is written for {written}, which {target.name} does not satisfy",
            op.loc,
            related=(_helper(helper),),
            emitter=PHASE,
            op_name=op.name,
            field_name="callee",
            callee_target_name=helper.contract,
            caller_target_name=target.contract,
        )
    require_inline(op, helper, PHASE)
    for predicate in helper.predicates:
        require_proven(op, helper, predicate, decide_predicate(predicate, _facts_of(op, facts)), PHASE)
    return helper


def require_inline(call: Any, helper: Any, phase: str) -> None:
    """Calls of helpers disappear, so neither side may keep them. Raises LOWERING/044."""
    if "noinline" in (call.inline_policy, helper.inline_policy):
        message = f"'@{call.callee}' must be inlined on this target, but is marked noinline"
        raise _refused(call, helper, message, phase, "policy_conflict")


def require_proven(call: Any, helper: Any, predicate: Predicate, held: bool | None, phase: str) -> None:
    """A precondition holds for sure; unknown is as bad as false. Raises LOWERING/044."""
    if held:
        return
    names = [f"%{arg.name}" for arg in helper.body.entry.args]
    shown = ", ".join(names[a.index] if isinstance(a, Ref) else str(a) for a in predicate.args)
    words = "is contradicted by" if held is False else "does not follow from"
    message = f"the precondition '{predicate.name}({shown})' of '@{call.callee}' {words} what is known at the call"
    raise _refused(call, helper, message, phase, f"precondition_{'contradicted' if held is False else 'unproven'}")


def _refused(call: Any, helper: Any, message: str, phase: str, failure_code: str) -> LoomError:
    return fail(
        "LOWERING/044",
        message,
        call.loc,
        related=(_helper(helper),),
        emitter=phase,
        op_name=call.name,
        phase_name=phase,
        callee_name=call.callee,
        failure_code=failure_code,
    )


def _facts_of(op: Any, facts: FunctionFacts) -> Any:
    def of(position: int) -> IntegerFacts | None:
        value = op.args[position] if position < len(op.args) else None
        if value is None or (value.type not in INTEGERS and value.type not in ADDRESSES):
            return None
        return facts.integer(value, op)

    return of


def _helper(helper: Op) -> Related:
    return Related("the helper", helper.loc)


def assumptions(helper: Any, registers: Sequence[Value], call: Op) -> dict[int, Op]:
    """``low.assume`` operations that restate a helper's proven predicates, by the argument that each is about."""
    by_subject: dict[int, list[Predicate]] = {}
    for predicate in helper.predicates:
        subject = next((a.index for a in predicate.args if isinstance(a, Ref)), None)
        if subject is not None and subject < len(registers):
            by_subject.setdefault(subject, []).append(predicate)
    found: dict[int, Op] = {}
    for subject, predicates in sorted(by_subject.items()):
        mentioned = list(dict.fromkeys(a.index for p in predicates for a in p.args if isinstance(a, Ref)))
        positions = {index: position for position, index in enumerate(mentioned)}
        moved = tuple(
            Predicate(p.name, tuple(Ref(positions[a.index]) if isinstance(a, Ref) else a for a in p.args))
            for p in predicates
        )
        found[subject] = low.Assume.build(
            input=registers[subject],
            mentioned=[registers[index] for index in mentioned],
            predicates=moved,
            result_types=[registers[subject].type],
            loc=call.loc,
        )
    return found


def refuse_input(call: Any, helper: Op, key: str, what: str, target: str) -> LoomError:
    """A helper that has inputs besides its arguments."""
    return fail(
        "TARGET/022",
        f"the Low helper '@{call.callee}' {what}; it may take its inputs as arguments only",
        call.loc,
        related=(_helper(helper),),
        emitter=PHASE,
        function_name=call.callee,
        target_name=target,
        constraint_key=key,
    )
