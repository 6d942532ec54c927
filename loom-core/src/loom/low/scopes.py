"""Phased scopes: which scopes are open at an instruction, and in which phase each of them is.

A scope is an instance of a phased region: ``SCOPE_BEGIN`` opens one inside the current phase of its
parent, ``SCOPE_PHASE`` starts the next phase of the innermost open one, ``SCOPE_END`` closes it. A
phased function is itself scope 0, open from its entry to every return. Scopes order instructions and
emit nothing.
"""

from __future__ import annotations

from loom.low.cfg import MachineError, reverse_postorder
from loom.low.machine import MARKERS, Block, Function, Instruction, Kind, ScheduleMode

ScopePath = tuple[tuple[int, int], ...]

FUNCTION_SCOPE = 0
SCOPE_COUNT = "schedule.scope_count"


def has_scopes(function: Function) -> bool:
    """True when the function is phased or contains a scope marker."""
    if function.schedule_mode is ScheduleMode.PHASED:
        return True
    return any(instruction.kind in MARKERS for block in function.blocks for instruction in block.instructions)


def scope_paths(function: Function) -> dict[Block, list[ScopePath]]:
    """Per reachable block and instruction: (scope, phase) pairs from the outermost scope inwards.

    Phases count from 0 in each block, because order between phases is a matter of one block.

    Raises:
        MachineError: paths into a block disagree on the open scopes, an explicit scope is open at
            an exit, an end or phase has no scope to act on, or an end would close the function's
            own scope.
    """
    identity = _scope_ids(function)
    start: tuple[int, ...] = (FUNCTION_SCOPE,) if function.schedule_mode is ScheduleMode.PHASED else ()
    at_entry: dict[Block, tuple[int, ...]] = {function.blocks[0]: start}
    paths: dict[Block, list[ScopePath]] = {}
    for block in reverse_postorder(function):
        paths[block], stack = _walk(block, at_entry[block], identity)
        if not block.edges and any(scope != FUNCTION_SCOPE for scope in stack):
            raise MachineError(
                f"a schedule scope is still open where block ^{block.label} leaves @{function.name}",
                block.terminator.loc,
            )
        for edge in block.edges:
            known = at_entry.setdefault(edge.block, stack)
            if known != stack:
                raise MachineError(
                    f"paths into block ^{edge.block.label} disagree on the open schedule scopes",
                    block.terminator.loc,
                )
    return paths


def annotate_scopes(function: Function) -> int:
    """Store every instruction's scope path in ``scope_events``; returns the number of scopes.

    The number is kept as the function attribute ``schedule.scope_count``, which also says that it
    has been done: once scheduled, scopes interleave and their markers are gone.

    Raises:
        MachineError: see :func:`scope_paths`.
    """
    known = function.attributes.get(SCOPE_COUNT)
    if isinstance(known, int):
        return known
    scopes = 0
    if has_scopes(function):
        scopes = len(_scope_ids(function)) + (function.schedule_mode is ScheduleMode.PHASED)
        for block, paths in scope_paths(function).items():
            for instruction, path in zip(block.instructions, paths, strict=True):
                instruction.scope_events = path
    function.attributes[SCOPE_COUNT] = scopes
    return scopes


def _scope_ids(function: Function) -> dict[Instruction, int]:
    begins = (
        instruction
        for block in function.blocks
        for instruction in block.instructions
        if instruction.kind is Kind.SCOPE_BEGIN
    )
    return {instruction: number for number, instruction in enumerate(begins, FUNCTION_SCOPE + 1)}


def _walk(
    block: Block, open_scopes: tuple[int, ...], identity: dict[Instruction, int]
) -> tuple[list[ScopePath], tuple[int, ...]]:
    stack = list(open_scopes)
    phases = dict.fromkeys(stack, 0)
    path: ScopePath = tuple((scope, 0) for scope in stack)
    paths: list[ScopePath] = []
    for instruction in block.instructions:
        kind = instruction.kind
        if kind in MARKERS:
            if kind is Kind.SCOPE_BEGIN:
                stack.append(identity[instruction])
                phases[stack[-1]] = 0
            elif not stack:
                word = "phase" if kind is Kind.SCOPE_PHASE else "end"
                raise MachineError(f"low.schedule.{word} outside every schedule scope", instruction.loc)
            elif kind is Kind.SCOPE_PHASE:
                phases[stack[-1]] += 1
            elif stack[-1] == FUNCTION_SCOPE:
                raise MachineError("low.schedule.end would close the function's own scope", instruction.loc)
            else:
                stack.pop()
            path = tuple((scope, phases[scope]) for scope in stack)
        paths.append(path)
    return paths, tuple(stack)
