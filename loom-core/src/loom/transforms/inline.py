"""Replacing calls by the bodies they call (language reference, part 3, section 10.4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any

from loom.ir.core import Op, Value
from loom.ir.diagnostics import LoomError, Related, fail
from loom.transforms.structure import Unstructured, structured_copy

# How deep calls may nest while bodies are inlined; recursion is found long before.
MAX_DEPTH = 256


def inline_call(call: Op, callee: Any) -> list[Op]:
    """Put a copy of the callee's body in place of the call and return the copied operations.

    Facts that the callee's predicates state stay obligations of the caller; nothing is assumed from them. A body of
    several blocks becomes structured; :class:`~loom.transforms.structure.Unstructured` says that it cannot.
    """
    if len(callee.body.blocks) > 1:
        ops, values = structured_copy(callee.body, call.operands, [r.type for r in call.results])
        for op in ops:
            op.insert_before(call)
        call.replace_with(values)
        return ops
    block = callee.body.entry
    mapping: dict[Value, Value] = dict(zip(block.args, call.operands, strict=True))
    copied: list[Op] = []
    for op in block:
        if op.next is None:
            break
        copy = op.clone(mapping)
        copy.insert_before(call)
        copied.append(copy)
    end = block.last
    assert end is not None
    call.replace_with([mapping.get(v, v) for v in end.operands])
    return copied


def policy(call: Op, callee: Op, phase: str) -> str | None:
    """``inline``, ``noinline`` or ``None``; a conflict between call and callee is diagnosed."""
    own = call.attribute("inline_policy") if "inline_policy" in call.spec.attribute_index else None
    theirs = callee.attribute("inline_policy") if "inline_policy" in callee.spec.attribute_index else None
    if own is not None and theirs is not None and own != theirs:
        raise _failure(
            call, callee, phase, "policy_conflict", "the call and its callee ask for opposite inline policies"
        )
    return own or theirs  # type: ignore[return-value]  # words of one enum


def _failure(call: Op, callee: Any, phase: str, code: str, text: str, related: tuple[Related, ...] = ()) -> LoomError:
    name = callee.callee
    return fail(
        "LOWERING/044",
        f"cannot inline '@{name}': {text}",
        call.loc,
        related=(Related(f"'@{name}' is here", callee.loc), *related),
        emitter=phase,
        op_name=call.name,
        phase_name=phase,
        callee_name=name,
        failure_code=code,
    )


def inline_required(call: Op, callee: Any, phase: str) -> list[Op]:
    """:func:`inline_call` of a call that has to go; a body that has no structured form raises LOWERING/044."""
    try:
        return inline_call(call, callee)
    except Unstructured as problem:
        text = f"its body has several blocks and {problem.reason}"
        related = (Related(f"{problem.reason} here", problem.at.loc),)
        raise _failure(call, callee, phase, "callee_body_not_single_block", text, related) from problem


def _inlined(call: Op, callee: Any, phase: str, required: bool) -> list[Op] | None:
    if required:
        return inline_required(call, callee, phase)
    try:
        return inline_call(call, callee)
    except Unstructured:
        return None


def inline_calls(
    root: Op,
    symbols: Mapping[str, Op],
    phase: str = "inline-callables",
    *,
    kinds: Collection[str] = ("func.call",),
    check: Callable[[Op, Op], None] = lambda call, callee: None,
) -> bool:
    """Inline the calls of a body that can be: of functions that have a structured form and are not ``noinline``.

    ``kinds`` are the names of the calls to look at: of functions, and of providers that applications are bound to.

    ``check`` sees every call of a function of the module with its callee, inlined or not, before it changes.
    Returns whether anything changed. A required inlining that is impossible raises LOWERING/044.
    """
    changed = False
    depth: dict[Op, tuple[str, ...]] = {}
    pending = deque(op for op in root.walk() if op.name in kinds)
    while pending:
        call = pending.popleft()
        callee: Any = symbols.get(str(call.attribute("callee")))
        if callee is not None:
            check(call, callee)
        if callee is None or "declaration" in callee.spec.traits or callee.name == "template.ukernel":
            continue
        wanted = policy(call, callee, phase)
        if wanted == "noinline":
            continue
        chain = depth.get(call, ())
        required = wanted == "inline"
        if callee is root or callee.callee in chain or len(chain) >= MAX_DEPTH:
            if required:
                raise _failure(call, callee, phase, "required_cycle", "it calls itself")
            continue
        copied = _inlined(call, callee, phase, required)
        if copied is None:
            continue
        for op in copied:
            for inner in op.walk():
                if inner.name in kinds:
                    depth[inner] = (*chain, callee.callee)
                    pending.append(inner)
        changed = True
    return changed
