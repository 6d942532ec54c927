"""The life of a split barrier: what may stand between arrive and wait (language reference, part 2, section 12.7)."""

from __future__ import annotations

from typing import Any, Final

from loom.ir.core import Block, Op, Region, Value
from loom.ir.diagnostics import Diagnostic, Related
from loom.verify.effects import Purity

ARRIVE: Final = "kernel.barrier.arrive"
WAIT: Final = "kernel.barrier.wait"
COMPLETE: Final = "kernel.barrier"
EXIT: Final = "kernel.exit"


def check_phases(function: Op, purity: Purity) -> list[Diagnostic]:
    """Findings about split barriers of a module-level operation that has some."""
    checker = _Checker(purity)
    for region in function.regions:
        end = checker.region(region, None)
        if end is not None:
            checker.report(function, end, "open_at_exit", "the body ends")
    return checker.findings


class _Checker:
    """Follows the open phase, if any, through regions and blocks."""

    def __init__(self, purity: Purity) -> None:
        self.findings: list[Diagnostic] = []
        self.purity = purity
        # One finding for each phase: others would follow from the first.
        self._reported: set[Value] = set()

    def report(self, op: Op, phase: Value, reason: str, what: str) -> None:
        if phase in self._reported:
            return
        self._reported.add(phase)
        owner = phase.owner
        related = (Related("the phase is opened here", owner.loc),) if isinstance(owner, Op) else ()
        self.findings.append(
            Diagnostic(
                "STRUCTURE/056",
                f"{what} while the phase %{phase.name or '?'} of a split barrier is open",
                op.loc,
                {"op_name": op.name, "reason": reason},
                related=related,
            )
        )

    def region(self, region: Region, phase: Value | None) -> Value | None:
        """Check a region that is entered with a phase and return the one at its end."""
        if not region.blocks:
            return phase
        if len(region.blocks) == 1:
            return self.block(region.entry, phase)
        found: dict[Block, Value | None] = {region.entry: phase}
        pending = [region.entry]
        result = phase
        while pending:
            block = pending.pop()
            after = self.block(block, found[block])
            last = block.last
            if last is None or not last.successors:
                result = after
                continue
            for successor in last.successors:
                if successor not in found:
                    found[successor] = after
                    pending.append(successor)
                elif found[successor] is not after:
                    phase_there = found[successor] or after
                    assert phase_there is not None
                    self.report(last, phase_there, "edges_disagree", "another edge reaches the same block")
        return result

    def block(self, block: Block, phase: Value | None) -> Value | None:
        for op in block:
            if op.name == WAIT:
                phase = self.wait(op, phase)
                continue
            if phase is not None:
                self.between(op, phase)
            if op.name == ARRIVE:
                phase = op.results[0]
            for region in op.regions:
                after = self.region(region, phase)
                if after is not phase:
                    changed = after or phase
                    assert changed is not None
                    what = f"a region of '{op.name}' ends in another state,"
                    self.report(op, changed, "region_changes_phase", what)
        return phase

    def wait(self, op: Op, phase: Value | None) -> Value | None:
        if op.operands[0] is phase:
            return None
        # An argument's phase is opened by whoever passes it, which the type alone allows nobody to do.
        self.report(op, op.operands[0], "not_open", f"'{op.name}' does not stand")
        return phase

    def between(self, op: Any, phase: Value) -> None:
        traits = op.spec.traits
        if op.name == ARRIVE:
            self.report(op, phase, "second_arrive", "a second arrive")
            self._reported.add(op.results[0])
        elif op.name == COMPLETE:
            self.report(op, phase, "complete_barrier", "a complete barrier")
        elif "call" in traits:
            if not self.purity.of_call(op):
                self.report(op, phase, "impure_call", "a call that is not proven pure")
        elif op.name == EXIT or "return" in traits:
            self.report(op, phase, "open_at_exit", "an exit")
        elif "convergent" in traits:
            self.report(op, phase, "convergent_op", f"'{op.name}', in which all invocations meet,")
