"""Whether asynchronous transfers keep their stream in order (language reference, part 2, section 12.8).

What the reference evaluator finds while a program runs is found here for all runs, as far as a block shows it: groups
are committed and waited for in one block, and an access of a pending destination names the destination's view or one
made of it. Views that only meet in memory are left to the evaluator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from loom.dialects.buffer.spaces import UNKNOWN, space_of
from loom.ir.core import Block, Op, Value
from loom.ir.diagnostics import Diagnostic, LoomError, Related
from loom.ir.records import record

PHASE: Final = "kernel-async-legality"
GROUP: Final = "kernel.async.group"
WAIT: Final = "kernel.async.wait"
# The result is a view of the first operand's storage, all of it or a part.
_DERIVING: Final = frozenset({"view.subview", "view.refine", "sanitizer.assert.layout"})


# What keeps an end of a transfer from being described, as bits for the source; those for the target stand one higher.
NO_SPACE: Final = 1
OPEN_EXTENT: Final = 4
OPEN_LAYOUT: Final = 16
_REASONS: Final = {
    NO_SPACE: "lies in an unknown memory space",
    OPEN_EXTENT: "has an extent that only a run knows",
    OPEN_LAYOUT: "has a layout that only a run knows",
}


def has_transfers(function: Op) -> bool:
    """Whether there is anything to check in a function."""
    return any(op.name.startswith("kernel.async.") for op in function.walk())


def check_transfers(function: Op) -> None:
    """Raise LOWERING/022 to 033 for what breaks the order of a function's transfers; all of it at once."""
    stream = _Streams()
    for region in function.regions:
        for block in region.blocks:
            stream.block(block, ())
    if stream.found:
        raise LoomError(stream.found)


@record
class _Transfer:
    """A transfer that may still move bytes."""

    op: Any

    @property
    def target(self) -> Value:
        value: Value = self.op.target
        return value


class _Streams:
    """Goes through blocks and keeps what is pending in each."""

    def __init__(self) -> None:
        self.found: list[Diagnostic] = []

    def block(self, block: Block, outer: tuple[_Transfer, ...]) -> bool:
        """Check a block in which the transfers of enclosing ones are pending; whether it waits for anything."""
        inherited = list(outer)
        # Transfers that no group has yet, and groups in order of commit with theirs.
        started: list[_Transfer] = []
        pending: dict[Op, list[_Transfer]] = {}
        finished: dict[Op, Op] = {}
        waits = False
        for op in block:
            moving = [*inherited, *started, *(t for group in pending.values() for t in group)]
            if op.name == GROUP:
                chosen = {token.defining_op for token in op.operands}
                pending[op] = [t for t in started if t.op in chosen]
                started = [t for t in started if t.op not in chosen]
                self._tokens(op)
                self._uses(op)
            elif op.name == WAIT:
                waits = True
                self._wait(op, pending, finished)
                inherited = []
            elif op.regions:
                # A wait inside completes what is pending here, whenever it is reached.
                nested = [self.block(b, tuple(moving)) for region in op.regions for b in region.blocks]
                if any(nested):
                    waits = True
                    finished.update(dict.fromkeys(pending, op))
                    pending, inherited = {}, []
            else:
                self._access(op, moving)
                if _is_transfer(op):
                    self._ends(op)
                    started.append(_Transfer(op))
        for group in pending:
            if not group.results[0].uses:
                self._tell("LOWERING/022", group, "nothing waits for the group")
        return waits

    def _tell(self, code: str, op: Op, message: str, related: Op | None = None, label: str = "", **params: int) -> None:
        notes = () if related is None else (Related(label, related.loc),)
        named = {"op_name": op.name, "phase_name": PHASE, **params}
        self.found.append(Diagnostic(code, message, op.loc, named, related=notes, emitter=PHASE))

    def _ends(self, op: Any) -> None:
        """Both ends are places that a target can be told of: a space, extents and a layout."""
        found: list[tuple[int, str]] = []
        for shift, (side, value) in enumerate((("source", op.source), ("target", op.target))):
            type_: Any = value.type
            reasons = (
                NO_SPACE * (space_of(value) == UNKNOWN)
                | OPEN_EXTENT * any(isinstance(dim, Value) for dim in type_.dims)
                | OPEN_LAYOUT * isinstance(type_.encoding, Value)
            )
            found += [(bit << shift, f"its {side} {why}") for bit, why in _REASONS.items() if reasons & bit]
        if found:
            why = " and ".join(text for _, text in found)
            message = f"'{op.name}' cannot be described: {why}"
            self._tell("LOWERING/024", op, message, rejection_bits=sum(bit for bit, _ in found))

    def _tokens(self, group: Op) -> None:
        """Every token of a group is one that a transfer has made; verified programs have no others."""
        for number, token in enumerate(group.operands):
            maker = token.defining_op
            if maker is None:
                self._tell("LOWERING/033", group, f"token {number} has no operation that made it")
            elif not _is_transfer(maker):
                self._tell(
                    "LOWERING/025", group, f"token {number} does not come from a transfer", maker, "it comes from here"
                )

    def _uses(self, group: Op) -> None:
        """A group is for waits of its own block."""
        waits = [user for user in group.results[0].uses if user.name == WAIT]
        if waits and not any(wait.parent is group.parent for wait in waits):
            message = "the group leaves its block before anything waits for it"
            self._tell("LOWERING/032", group, message, waits[0], "waited for here")
        for user in group.results[0].uses:
            if user.name != WAIT:
                self._tell(
                    "LOWERING/023", group, f"the group is used by '{user.name}', but only a wait may", user, "used here"
                )

    def _wait(self, op: Any, pending: dict[Op, list[_Transfer]], finished: dict[Op, Op]) -> None:
        group = op.operands[0].defining_op
        if group is None or group.name != GROUP:
            self._tell("LOWERING/029", op, "the group that the wait names is not committed in this stream")
        elif group in finished:
            self._tell("LOWERING/030", op, "the group is complete already", finished[group], "completed here")
        elif group in pending:
            order = list(pending)
            at = order.index(group)
            newer = len(order) - 1 - at
            if op.newer_groups != newer:
                self._tell(
                    "LOWERING/031",
                    op,
                    f"{newer} newer groups are pending, not {op.newer_groups}",
                    actual_newer_groups=op.newer_groups,
                    expected_newer_groups=newer,
                )
            for done in order[: at + 1]:
                del pending[done]
                finished[done] = op
        # A group of another block is told of where it is committed.

    def _access(self, op: Any, moving: list[_Transfer]) -> None:
        """Accesses of destinations that are still written."""
        if not moving:
            return
        transfer = _is_transfer(op)
        reads, writes = "reads" in op.spec.traits, "writes" in op.spec.traits
        for other in moving:
            if transfer:
                if _within(op.target, other.target) or _within(other.target, op.target):
                    self._pending("LOWERING/026", op, other, "writes into the destination of a pending transfer")
                elif _within(op.source, other.target) or _within(other.target, op.source):
                    self._pending("LOWERING/028", op, other, "reads the destination of a pending transfer")
            elif (reads or writes) and any(_within(v, other.target) for v in op.operands):
                if writes:
                    self._pending("LOWERING/027", op, other, "writes into the destination of a pending transfer")
                else:
                    self._pending("LOWERING/028", op, other, "reads the destination of a pending transfer")

    def _pending(self, code: str, op: Op, other: _Transfer, what: str) -> None:
        self._tell(code, op, f"'{op.name}' {what}", other.op, "the transfer starts here")


def _is_transfer(op: Op) -> bool:
    return op.name.startswith("kernel.async.") and op.name not in (GROUP, WAIT)


def _within(view: Value, whole: Value) -> bool:
    """Whether a view is another one or a part of it by the way it was made."""
    return any(value is whole for value in _origins(view))


def _origins(view: Value) -> Iterator[Value]:
    while True:
        yield view
        op = view.defining_op
        if op is None or op.name not in _DERIVING:
            return
        view = op.operands[0]
