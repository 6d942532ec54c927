"""From a command program to a straight schedule (language reference, part 3, section 2.2, steps 1 to 3).

What remains holds kernel launches and dispatches in nested serial and concurrent regions, and pure values. The
program given is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loom.dialects.command import ops as command
from loom.dialects.kernel import ops as kernel
from loom.evaluate.launch import evaluate_integers
from loom.facts.analysis import FunctionFacts
from loom.ir.attributes import Predicate, Ref
from loom.ir.core import Block, Op, Region, Value
from loom.ir.diagnostics import LoomError, Related
from loom.ir.predicates import failing_scalar_predicate
from loom.specialize.pipeline import bind_configuration
from loom.transforms.canonicalize import canonicalize
from loom.transforms.fold import constant_of, make_constant
from loom.transforms.inline import inline_calls
from loom.transforms.loops import apply_loop_policies
from loom.verify.effects import EFFECTFUL
from loom_target_cmd.diagnostics import Refusals, binding_hint, exact_number, unsettled

SCHEDULES = ("command.serial", "command.concurrent")

Facts = Mapping[str, object]


def prepare(program: Op, symbols: dict[str, Op], target_facts: Facts) -> Op:
    """A copy of a root with child programs inlined, loops unrolled and control flow decided.

    Raises ``LoomError`` for recursive or missing child programs, predicates that do not hold, control flow that
    stays open and operations that no command program may hold.
    """
    refusals = Refusals(program)
    _reject_recursion(program, symbols, refusals)
    work = program.clone({})
    while True:
        _simplify(work, symbols, target_facts)
        launches = [op for op in work.walk() if op.name == "command.program.launch"]
        if not launches:
            break
        facts = FunctionFacts(work, target_facts)
        for launch in launches:
            _inline_program(launch, symbols, facts, refusals)
    if _project_configurations(work, symbols, target_facts):
        _simplify(work, symbols, target_facts)
    _check_residue(work, Refusals(work))
    return work


def _reject_recursion(program: Op, symbols: Mapping[str, Op], refusals: Refusals) -> None:
    """A schedule is finite: no program reaches itself, whatever its control flow would decide."""
    finished: set[Op] = set()
    active: list[Op] = []
    # (launch that reached it, program, programs it launches that are still to visit)
    stack: list[tuple[Op, list[tuple[Op, Op]]]] = []

    def enter(op: Op) -> None:
        active.append(op)
        calls = [inner for inner in op.walk() if inner.name == "command.program.launch"]
        stack.append((op, [(c, symbols[n]) for c in calls if (n := str(c.attribute("callee"))) in symbols]))

    enter(program)
    while stack:
        op, pending = stack[-1]
        if not pending:
            stack.pop()
            active.pop()
            finished.add(op)
            continue
        launch, callee = pending.pop(0)
        if callee in active:
            name = callee.attribute("callee")
            raise refusals.refuse(
                "LOWERING/044",
                f"'@{name}' launches itself; a command program is a finite schedule",
                launch,
                related=(Related(f"'@{name}' is here", callee.loc),),
                phase_name="prepare-commands",
                callee_name=name,
                failure_code="required_cycle",
            )
        if callee not in finished:
            enter(callee)


def _simplify(work: Op, symbols: dict[str, Op], target_facts: Facts) -> None:
    while True:
        bind_configuration(work, symbols)
        inline_calls(work, symbols, "prepare-commands")
        canonicalize(work, symbols, target_facts)
        folded = _fold_integers(work)
        if not _unroll_loops(work, target_facts) and not folded:
            return


def _fold_integers(work: Op) -> bool:
    """Evaluate the integer operations on constants that facts have no exact rule for."""
    changed = False
    for op in list(work.walk()):
        if "pure" not in op.spec.traits or "constant" in op.spec.traits or not op.results:
            continue
        literals = [constant_of(v) for v in op.operands]
        if not literals or not all(isinstance(literal, int) for literal in literals):
            continue
        results = evaluate_integers(op, [int(literal) for literal in literals])  # type: ignore[call-overload]
        if results is None:
            continue
        constants = [make_constant(r.type, n, op.loc) for r, n in zip(op.results, results, strict=True)]
        for constant in constants:
            constant.insert_before(op)
        op.replace_with([constant.results[0] for constant in constants])
        changed = True
    return changed


def _unroll_loops(work: Op, target_facts: Facts) -> bool:
    """Unroll the loops whose bounds are exact. Policies say how, not whether: a schedule has no loops."""
    facts = FunctionFacts(work, target_facts)
    found = False
    for op in list(work.walk()):
        if op.name != "scf.for":
            continue
        loop: Any = op
        exact = all(facts.exact(bound, op) is not None for bound in op.operands[:3])
        groups = op.spec.operand_index
        for group in ("pipeline_depth", "unroll_factor"):
            op.set_group(groups[group], ())
        loop.unroll_schedule = None
        loop.unroll_policy = "unroll" if exact else None
        found |= exact
    if found:
        apply_loop_policies(work, target_facts)
    return found


def _inline_program(launch: Any, symbols: Mapping[str, Op], facts: FunctionFacts, refusals: Refusals) -> None:
    """Put the callee's schedule in place of the launch, as one child of the surrounding schedule."""
    name = launch.callee
    callee: Any = symbols.get(name)
    if callee is None or callee.name != "command.program.def":
        raise refusals.refuse(
            "SYMBOL/002",
            f"nothing defines the command program '@{name}'",
            launch,
            hint="link the module that defines it",
            symbol_name=name,
        )
    parameters = callee.body.entry.args
    require_predicates(callee, parameters, launch, launch.operands, facts, refusals)
    mapping: dict[Value, Value] = dict(zip(parameters, launch.operands, strict=True))
    block = Block()
    for op in callee.body.entry:
        if op.next is not None:
            block.append(op.clone(mapping))
    block.append(command.Yield([], [], loc=launch.loc))
    schedule = command.Serial.build(regions=[Region([block])], loc=launch.loc)
    schedule.insert_before(launch)
    launch.erase()


def require_predicates(
    callee: Op,
    parameters: Sequence[Value],
    site: Op,
    values: Sequence[Value],
    facts: FunctionFacts,
    refusals: Refusals,
) -> None:
    """Refuse a launch whose exact operands break a predicate of the callee. Inexact ones stay obligations."""
    predicates: tuple[Predicate, ...] = callee.attribute("predicates") or ()  # type: ignore[assignment]  # by kind
    numbers: list[int | float | None] = [exact_number(v, facts, site) for v in values]
    for predicate in predicates:
        if any(isinstance(a, Ref) and numbers[a.index] is None for a in predicate.args):
            continue
        broken = failing_scalar_predicate((predicate,), numbers, parameters)
        if broken is None:
            continue
        index = next((a.index for a in predicate.args if isinstance(a, Ref)), 0)
        name, number = f"%{parameters[index].name}", numbers[index]
        raise refusals.refuse(
            "TARGET/060",
            f"'@{callee.attribute('callee')}' requires {broken}, but {name} is {number}",
            site,
            related=(Related("the requirement", callee.loc),),
            predicate_name=predicate.name,
            value_name=name,
            known_value=number,
        )


def _project_configurations(work: Op, symbols: Mapping[str, Op], target_facts: Facts) -> bool:
    """Turn launches whose workload is not exact into dispatches that compute their counts here.

    Facts about the workload may still settle the counts (a range that needs one workgroup, an axis that does not
    depend on it). Launches of an exact workload are evaluated instead. Returns whether there were any.
    """
    facts = FunctionFacts(work, target_facts)
    changed = False
    for op in list(work.walk()):
        if op.name != "kernel.launch":
            continue
        launch: Any = op
        callee: Any = symbols.get(launch.callee)
        if callee is None or callee.name != "kernel.def":
            continue
        if all(exact_number(v, facts, op) is not None for v in launch.workload):
            continue
        mapping: dict[Value, Value] = dict(zip(callee.config.entry.args, launch.workload, strict=True))
        end = callee.config.entry.last
        for inner in callee.config.entry:
            if inner is not end:
                inner.clone(mapping).insert_before(op)
        dispatch = kernel.Dispatch.build(
            callee=launch.callee,
            counts=[mapping.get(v, v) for v in end.operands[:3]],
            args=launch.args,
            sizes=[],
            loc=op.loc,
        )
        dispatch.insert_before(op)
        op.erase()
        changed = True
    return changed


def _check_residue(work: Op, refusals: Refusals) -> None:
    """Only schedules, commands and values without effects are left."""
    for op in work.walk():
        traits = op.spec.traits
        if op is work or op.name in SCHEDULES:
            continue
        if op.regions:
            raise _open_control(op, refusals)
        if "command" in traits or "allocates" in traits:
            continue
        if "call" in traits:
            raise refusals.refuse(
                "TARGET/001",
                f"'{op.name}' stays a call, and a command program calls nothing but programs",
                op,
                hint="call a single-block function that this module defines and that is not 'noinline'",
            )
        if traits & EFFECTFUL:
            raise refusals.refuse(
                "TARGET/001", f"'{op.name}' has effects and is no command", op, hint="put it into a kernel"
            )


def _open_control(op: Op, refusals: Refusals) -> LoomError:
    """The refusal of a conditional or loop that nothing decided, naming what it hangs on."""
    facts = FunctionFacts(refusals.program)
    deciding = op.operands[:3] if op.name == "scf.for" else op.operands[:1]
    reason, hint = "it cannot be decided now", None
    for value in deciding:
        if exact_number(value, facts, op) is None:
            reason, hint = unsettled(value), binding_hint(value)
            break
    return refusals.refuse(
        "TARGET/030",
        f"'{op.name}' shapes the schedule, which must be exact here, but {reason}",
        op,
        hint=hint,
        region_count=len(op.regions),
    )
