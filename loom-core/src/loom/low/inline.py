"""Inlining of Low helpers (language reference, part 3, section 4.8).

Helpers are authored for a contract whose instructions the caller's contract has under the same keys, so their
operations are copied as they are. A locked helper keeps its order as one sequence; a phased one becomes a scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from loom.dialects.low import ops as low
from loom.facts.predicates import decide_predicate
from loom.ir.core import Block, Op, Region, Value, clone_region
from loom.ir.diagnostics import fail
from loom.low.descriptors import DescriptorSet
from loom.low.invoke import assumptions, refuse_input, require_inline, require_proven
from loom.low.register_facts import RegisterFacts
from loom.spec.registry import lookup

PHASE = "inline-low"


def inline_calls(
    function: low.LowFunction,
    symbols: Mapping[str, Op],
    descriptor_set: DescriptorSet,
    calls: Iterable[Op] | None = None,
    *,
    proven: bool,
) -> dict[Op, int]:
    """Replace Low calls in a function, all of them by default, by the bodies that they call, and calls in those too.

    The preconditions of calls that stand for a ``low.invoke`` are ``proven`` already; those of other calls, and of
    calls inside helpers, are proven here, from what the calling Low function itself says.

    Returns:
        operation -> number of the locked sequence it belongs to.

    Raises:
        LoomError: an unknown, external or recursive callee, one that has resources or live-ins of its own, or a
            precondition that is not proven.
    """
    locks: dict[Op, int] = {}
    chains: dict[Op, tuple[str, ...]] = {}
    work = [op for op in function.body.ops() if isinstance(op, low.Call)] if calls is None else list(calls)
    if not proven:
        for call in work:
            _prove(call, symbols, function)
    sequences = 0
    while work:
        call = work.pop()
        chain = chains.pop(call, ())
        callee = _callee(call, chain, symbols, descriptor_set)
        for inner in callee.body.ops():
            if isinstance(inner, low.Call):
                _prove(inner, symbols, callee)
        lock = locks.pop(call, 0)
        if not lock and callee.schedule == "locked":
            sequences += 1
            lock = sequences
        for op in _splice(call, callee):
            if isinstance(op, low.Call):
                chains[op] = (*chain, str(call.attribute("callee")))
                work.append(op)
            if lock and "terminator" not in op.spec.traits:
                locks[op] = lock
    return locks


def _prove(call: Any, symbols: Mapping[str, Op], caller: Op) -> None:
    """The preconditions of a nested call hold by what the calling Low function says of its registers."""
    helper: Any = symbols.get(call.callee)
    if isinstance(helper, low.FuncDef):
        facts = RegisterFacts(caller)
        for predicate in helper.predicates:
            held = decide_predicate(predicate, lambda index: facts.integer(call.args[index]))
            require_proven(call, helper, predicate, held, PHASE)


def _callee(call: Any, chain: tuple[str, ...], symbols: Mapping[str, Op], descriptor_set: DescriptorSet) -> low.FuncDef:
    found = symbols.get(call.callee)
    if not isinstance(found, low.FuncDef):
        raise fail(
            "TARGET/022",
            f"'@{call.callee}' is no Low function that can be inlined here",
            call.loc,
            emitter=PHASE,
            function_name=call.callee,
            target_name=descriptor_set.key,
            constraint_key="call.definition",
        )
    if call.callee in chain:
        raise fail(
            "TARGET/022",
            f"the Low function '@{call.callee}' calls itself",
            call.loc,
            emitter=PHASE,
            function_name=call.callee,
            target_name=descriptor_set.key,
            constraint_key="call.recursion",
        )
    require_inline(call, found, PHASE)
    if found.allocation == "fixed":
        raise refuse_input(call, found, "invoke.allocation", "has fixed registers", descriptor_set.key)
    for op in found.body.ops():
        if isinstance(op, low.Resource):
            raise refuse_input(call, found, "invoke.resource", "reads a resource", descriptor_set.key)
        if isinstance(op, low.LiveIn):
            raise refuse_input(call, found, "invoke.live_in", "reads a live-in", descriptor_set.key)
        if isinstance(op, low.Packet | low.Const) and op.key not in descriptor_set.by_key:
            raise fail(
                "TARGET/045",
                f"'{op.key}' of '@{call.callee}' is not part of {descriptor_set.key}",
                op.loc,
                emitter=PHASE,
                function_name=call.callee,
                opcode=op.key,
                descriptor_set_key=descriptor_set.key,
            )
    return found


def _splice(call: Any, callee: low.FuncDef) -> list[Op]:
    """Put a copy of the callee in place of the call; returns the copied operations."""
    given = list(call.operands)
    for position, assumption in assumptions(callee, given, call).items():
        assumption.insert_before(call)
        given[position] = assumption.results[0]
    call.set_operands(given, (len(given),))
    mapping: dict[Value, Value] = dict(zip(callee.body.entry.args, given, strict=True))
    phased = callee.schedule == "phased"
    if phased:
        _control("begin").insert_before(call)
    copies = _one_block(call, callee, mapping) if len(callee.body.blocks) == 1 else _blocks(call, callee, mapping)
    if phased:
        _control("end").insert_before(call)
    call.erase()
    return copies


def _control(name: str) -> Op:
    cls = lookup(f"low.schedule.{name}")
    assert cls is not None
    return cls([], [])


def _one_block(call: Any, callee: low.FuncDef, mapping: dict[Value, Value]) -> list[Op]:
    copies = []
    for op in callee.body.entry:
        if isinstance(op, low.Return):
            _deliver(call, [mapping[v] for v in op.operands])
        else:
            copy = op.clone(mapping)
            copy.insert_before(call)
            copies.append(copy)
    return copies


def _deliver(call: Any, values: list[Value]) -> None:
    for result, value in zip(call.results, values, strict=True):
        if value.name is None:
            value.name = result.name
        result.replace_all_uses(value)


def _blocks(call: Any, callee: low.FuncDef, mapping: dict[Value, Value]) -> list[Op]:
    """The caller's block is cut at the call; every return of the callee goes on behind the cut."""
    block: Block = call.parent
    region = block.parent
    assert region is not None
    behind = Block([result.type for result in call.results])
    following: Op | None = call
    while following is not None:
        after: Op | None = following.next
        following.detach()
        behind.append(following)
        following = after
    _deliver(call, list(behind.args))
    blocks: dict[Block, Block] = {}
    body: Region = clone_region(callee.body, mapping, blocks)
    for argument, given in zip(body.entry.args, call.operands, strict=True):
        argument.replace_all_uses(given)
    body.entry.args.clear()
    copies = [op for inner in body.blocks for op in inner]
    position = region.blocks.index(block) + 1
    for number, inner in enumerate(body.blocks):
        inner.label = None
        inner.parent = region
        region.blocks.insert(position + number, inner)
    behind.parent = region
    region.blocks.insert(position + len(body.blocks), behind)
    block.append(low.Br([], [], successors=[body.entry], segments=(0,), loc=call.loc))
    for op in copies:
        if isinstance(op, low.Return):
            jump = low.Br(list(op.operands), [], successors=[behind], segments=(len(op.operands),), loc=op.loc)
            jump.insert_before(op)
            op.erase()
    return [op for op in copies if not isinstance(op, low.Return)]
