"""Tied results: the argument is consumed (language reference, part 1, section 2.9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loom.ir.core import Block, Op, Region, Value
from loom.ir.diagnostics import Diagnostic, Related

# Ops whose regions run one of several, and those whose region runs again and again. All others run in order.
ALTERNATIVES: Final = frozenset({"scf.if", "scf.switch", "low.scf.if"})
LOOPS: Final = frozenset({"scf.for", "scf.while", "low.scf.for", "low.scf.while"})

State = dict[Value, Op]


def ties_of(op: Any) -> Sequence[int]:
    """Per result the operand it is tied to, or -1."""
    return op.attribute("ties") or () if "ties" in op.spec.attribute_index else ()


def check_ties(op: Any, operands: Sequence[Value], results: int) -> list[Diagnostic]:
    """The ties of one call: in range, no operand twice, and no tied value passed in another place too."""
    ties = ties_of(op)
    if not ties:
        return []
    found: list[Diagnostic] = []
    if len(ties) != results:
        params: dict[str, object] = {"result_index": len(ties) - 1, "op_name": op.name, "result_count": results}
        found.append(Diagnostic("DOMINANCE/004", f"{len(ties)} ties for {results} results", op.loc, params))
    seen: set[int] = set()
    for tie in ties:
        if tie < 0:
            continue
        params = {"operand_index": tie, "op_name": op.name}
        if tie >= len(operands):
            message = f"a result is tied to operand {tie} of {len(operands)}"
            found.append(Diagnostic("DOMINANCE/005", message, op.loc, {**params, "operand_count": len(operands)}))
            continue
        name = operands[tie].name or "?"
        if tie in seen:
            found.append(Diagnostic("DOMINANCE/007", f"'%{name}' is tied to two results", op.loc, params))
        elif any(value is operands[tie] for k, value in enumerate(operands) if k != tie):
            message = f"'%{name}' is tied to a result and passed as another argument too"
            found.append(Diagnostic("DOMINANCE/008", message, op.loc, {**params, "value_name": name}))
        seen.add(tie)
    return found


def check_signature_ties(op: Any) -> list[Diagnostic]:
    """No two results of a signature share an argument."""
    seen: set[int] = set()
    found = []
    for spec in op.result_specs:
        if spec.tied is None:
            continue
        if spec.tied in seen:
            name = op.body.entry.args[spec.tied].name
            params = {"operand_index": spec.tied, "op_name": op.name}
            found.append(Diagnostic("DOMINANCE/007", f"'%{name}' is tied to two results", op.loc, params))
        seen.add(spec.tied)
    return found


def check_consumption(function: Op) -> list[Diagnostic]:
    """Uses of values that an earlier call has consumed."""
    checker = _Checker()
    for region in function.regions:
        checker.region(region, {})
    return checker.findings


class _Checker:
    """Follows which values are consumed, and by what."""

    def __init__(self) -> None:
        self.findings: list[Diagnostic] = []
        self._reported: set[tuple[Op, Value]] = set()

    def region(self, region: Region, state: State) -> State:
        """The state behind a region."""
        if not region.blocks:
            return state
        if len(region.blocks) == 1:
            return self.block(region.entry, state)
        entering: dict[Block, State] = {region.entry: state}
        pending = [region.entry]
        after: State = {}
        while pending:
            block = pending.pop()
            left = self.block(block, entering[block])
            after.update(left)
            for successor in block.last.successors if block.last is not None else ():
                known = entering.get(successor)
                if known is None or not left.keys() <= known.keys():
                    entering[successor] = left | (known or {})
                    pending.append(successor)
        return after

    def block(self, block: Block, entering: State) -> State:
        state = dict(entering)
        for op in block:
            for value in op.operands:
                if value in state:
                    self._report(op, value, state[value])
            if op.name in LOOPS:
                # What one turn consumes is gone in the next.
                for region in (*op.regions, *op.regions):
                    state |= self.region(region, state)
            elif op.name in ALTERNATIVES:
                for left in [self.region(region, state) for region in op.regions]:
                    state |= left
            else:
                for region in op.regions:
                    state |= self.region(region, state)
            state |= {op.operands[tie]: op for tie in ties_of(op) if 0 <= tie < len(op.operands)}
        return state

    def _report(self, op: Op, value: Value, consumer: Op) -> None:
        if (op, value) in self._reported:
            return
        self._reported.add((op, value))
        name = value.name or "?"
        self.findings.append(
            Diagnostic(
                "DOMINANCE/002",
                f"'%{name}' is used after '{consumer.name}' has consumed it",
                op.loc,
                {"value_name": name, "consuming_op": consumer.name},
                related=(Related("consumed here: a result is tied to it", consumer.loc),),
            )
        )
