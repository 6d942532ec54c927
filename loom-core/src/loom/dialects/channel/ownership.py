"""Every write is published and every read released, once, on every path (language reference, part 2, section 14.5).

``read`` and ``write`` values are obligations. Somebody owns each at any time: an operation that ends it, a call, a
return, a yield or a branch takes it over. A view that was lent with an obligation is used only while that is owned.

The state of an obligation is that it is owned or gone; a body is followed in order, each region from the state at
its op, blocks of a graph from the state on which their predecessors agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from loom.ir.core import Block, Op, Region, Value
from loom.ir.diagnostics import Diagnostic, Location, Related
from loom.ir.types import NestedType, is_view

State = Literal["owned", "consumed", "captured"]
States = dict[Value, State]

PHASE: Final = "channel_ownership"

# What an operation of the dialect does to the obligations that it takes.
ENDS: Final = {
    "channel.publish": "publish",
    "channel.release": "release",
    "channel.fanout": "split",
    "channel.copy": "transport",
}
BORROWS: Final = {"channel.wait": "wait"}
# Ops that run one of their regions (or none, when there is no other); regions of others run any number of times.
BRANCHES: Final = ("scf.if", "scf.switch")
# Bodies that run on their own: what surrounds them stays with whoever owns it.
APART: Final = ("pipeline.strand", "pipeline.execute")


def is_obligation(value: Value) -> bool:
    """Whether somebody has to end the value."""
    return isinstance(value.type, NestedType) and value.type.head in ("read", "write")


def check_ownership(function: Op) -> list[Diagnostic]:
    """The findings for one definition with a body."""
    checker = _Checker()
    for region in function.regions:
        if region.blocks and region.blocks[0].last is not None:
            checker.body(region, {})
    return checker.findings


class _Checker:
    """Follows the obligations of one definition."""

    def __init__(self) -> None:
        self.findings: list[Diagnostic] = []
        self._lenders: dict[Value, Value] = {}
        self._ends: dict[Value, Op] = {}

    def body(self, region: Region, outer: States) -> States:
        """Follow a region from a state; returns the state of the outer obligations at its end."""
        entry = dict(outer)
        for argument in region.entry.args:
            if is_obligation(argument):
                entry[argument] = "owned"
        if len(region.blocks) == 1:
            end = self._block(region.entry, entry)
            return {value: state for value, state in end.items() if value in outer}
        return self._graph(region, entry, outer)

    def _graph(self, region: Region, entry: States, outer: States) -> States:
        at: dict[Block, States] = {region.entry: entry}
        leaving: States = dict(outer)
        # Each block behind all that lead to it, but for the way back of a loop, which has to change nothing.
        for block in _in_order(region):
            end = self._block(block, dict(at[block]))
            assert block.last is not None
            if not block.last.successors:
                leaving = {value: state for value, state in end.items() if value in outer}
            for successor in block.last.successors:
                carried = dict(end)
                carried.update((a, "owned") for a in successor.args if is_obligation(a))
                if successor in at:
                    self._join(block.last, at[successor], carried)
                else:
                    at[successor] = carried
        return leaving

    def _block(self, block: Block, states: States) -> States:
        for op in block:
            self._views(op, states)
            if "terminator" in op.spec.traits:
                self._leave(op, states)
            else:
                self._operands(op, states)
                self._regions(op, states)
                states.update((result, "owned") for result in op.results if is_obligation(result))
        return states

    # -- operands ------------------------------------------------------------------------------------------

    def _operands(self, op: Op, states: States) -> None:
        for value in op.operands:
            if not is_obligation(value):
                continue
            if op.name in BORROWS:
                self._require(op, value, states, BORROWS[op.name])
            elif op.name in ENDS:
                self._consume(op, value, states, ENDS[op.name])
            elif "call" in op.spec.traits or op.name == "pipeline.compose" or (op.regions and op.name not in APART):
                self._consume(op, value, states, "transfer")
            else:
                self.findings.append(
                    Diagnostic(
                        "DOMINANCE/010",
                        f"'{op.name}' cannot take {_text(value)}, which only channel operations, calls and control "
                        "flow pass on",
                        op.loc,
                        {
                            "value_name": value.name or "?",
                            "user_op": op.name,
                            "expected_constraint": "channel operation, call or control flow",
                        },
                    )
                )

    def _consume(self, op: Op, value: Value, states: States, effect: str) -> None:
        if self._require(op, value, states, effect):
            states[value] = "consumed"
            self._ends.setdefault(value, op)

    def _require(self, op: Op, value: Value, states: States, effect: str) -> bool:
        state = states.get(value)
        if state == "owned":
            return True
        name = value.name or "?"
        if state == "consumed":
            end = self._ends.get(value)
            where = (Related(f"'{end.name}' takes it over here", end.loc),) if end is not None else ()
            self.findings.append(
                Diagnostic(
                    "DOMINANCE/012",
                    f"'{op.name}' uses {_text(value)}, which is gone already",
                    op.loc,
                    {"phase_name": PHASE, "value_name": name, "op_name": op.name},
                    related=where,
                )
            )
        elif state == "captured":
            self.findings.append(
                Diagnostic(
                    "DOMINANCE/013",
                    f"'{op.name}' needs {_text(value)}, which the definition around it owns",
                    op.loc,
                    {
                        "phase_name": PHASE,
                        "op_name": op.name,
                        "value_name": name,
                        "effect_name": effect,
                        "state_name": state,
                    },
                )
            )
        return False

    def _leave(self, op: Op, states: States) -> None:
        """A terminator hands its operands on; what the region itself got must not remain."""
        for value in op.operands:
            if is_obligation(value):
                self._consume(op, value, states, "transfer")
        if op.successors:
            return
        region = op.parent.parent if op.parent is not None else None
        for value, state in states.items():
            if state == "owned" and _belongs(value, region):
                states[value] = "consumed"
                self.findings.append(
                    Diagnostic(
                        "DOMINANCE/014",
                        f"{_text(value)} is never {'published' if _head(value) == 'write' else 'released'}",
                        _origin(value) or op.loc,
                        {"phase_name": PHASE, "value_name": value.name or "?"},
                        related=(Related("the body ends here", op.loc),),
                    )
                )

    # -- regions -------------------------------------------------------------------------------------------

    def _regions(self, op: Op, states: States) -> None:
        if not op.regions:
            return
        if op.name in APART:
            captured: States = {value: "captured" if s == "owned" else s for value, s in states.items()}
            for region in op.regions:
                self.body(region, captured)
            return
        ends = [self.body(region, states) for region in op.regions]
        if op.name not in BRANCHES or (op.name == "scf.if" and len(op.regions) == 1):
            # The regions may not run at all.
            ends.append(dict(states))
        for end in ends[1:]:
            self._join(op, ends[0], end)
        states.update(ends[0])

    def _join(self, op: Op, current: States, incoming: States) -> None:
        for value in {**current, **incoming}:
            a, b = current.get(value, "consumed"), incoming.get(value, "consumed")
            if a != b:
                # One finding is enough; take it as gone from here on.
                current[value] = incoming[value] = "consumed"
                self.findings.append(
                    Diagnostic(
                        "DOMINANCE/015",
                        f"{_text(value)} is {a} on one way through '{op.name}' and {b} on another",
                        op.loc,
                        {
                            "phase_name": PHASE,
                            "value_name": value.name or "?",
                            "current_state": a,
                            "incoming_state": b,
                        },
                    )
                )

    # -- views ---------------------------------------------------------------------------------------------

    def _views(self, op: Op, states: States) -> None:
        """Note views that are lent with an obligation, and report their use when that is gone."""
        lender: Value | None = None
        for value in op.operands:
            lender = self._lenders.get(value, lender)
            owed = self._lenders.get(value)
            if owed is not None and states.get(owed) == "consumed" and op is not self._ends.get(owed):
                end = self._ends.get(owed)
                self.findings.append(
                    Diagnostic(
                        "DOMINANCE/002",
                        f"'{op.name}' uses %{value.name or '?'}, which was lent with {_text(owed)}",
                        op.loc,
                        {"value_name": value.name or "?", "consuming_op": end.name if end is not None else op.name},
                        related=(Related("that ends here", end.loc),) if end is not None else (),
                    )
                )
        obligations: Iterable[Value] = (v for v in (*op.results, *op.operands) if is_obligation(v))
        if op.spec.dialect == "channel":
            lender = next(iter(obligations), None)
        if lender is not None:
            self._lenders.update((result, lender) for result in op.results if is_view(result.type))


def _in_order(region: Region) -> list[Block]:
    """The reachable blocks in reverse postorder."""
    order: list[Block] = []
    seen = {region.entry}
    stack = [(region.entry, iter(region.entry.last.successors if region.entry.last is not None else []))]
    while stack:
        block, successors = stack[-1]
        for successor in successors:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(successor.last.successors if successor.last is not None else [])))
                break
        else:
            order.append(block)
            stack.pop()
    return order[::-1]


def _belongs(value: Value, region: Region | None) -> bool:
    """Whether a value comes from the region itself, or from an op in it."""
    block = value.owner.parent if isinstance(value.owner, Op) else value.owner
    return block is not None and block.parent is region


def _head(value: Value) -> str:
    assert isinstance(value.type, NestedType)
    return value.type.head


def _text(value: Value) -> str:
    return f"the {_head(value)} %{value.name or '?'}"


def _origin(value: Value) -> Location:
    return value.owner.loc if isinstance(value.owner, Op) else None
