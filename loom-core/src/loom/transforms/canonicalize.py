"""Canonicalization to a fixed point: folding, decided control flow, common subexpressions, dead code.

One walk in the order of the text does all but the last: every operation is looked at when its operands have their
final form, so that a second walk is needed only for graphs of blocks, where text order is no order of execution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from loom.facts.analysis import FunctionFacts
from loom.facts.version import Version
from loom.ir.core import Block, Op, Region, Value
from loom.transforms import carried, condition_loops
from loom.transforms.conditionals import choose_values, drop_unused_results, forward_yields
from loom.transforms.cse import Available
from loom.transforms.dce import eliminate_dead_ops
from loom.transforms.fold import fold, make_constant
from loom.transforms.identities import simplify

MAX_ROUNDS = 16


def canonicalize(
    root: Op,
    symbols: dict[str, Op],
    target_facts: Mapping[str, object] | None = None,
    max_rounds: int = MAX_ROUNDS,
    *,
    version: Version | None = None,
) -> bool:
    """Simplify the body of a function or kernel; whether something changed.

    Meaning, effects and trapping behaviour stay as they are. ``version`` has the facts of the function, if others ask
    for them, too.
    """
    version = version or Version(root, target_facts)
    changed = False
    for _ in range(max_rounds):
        simplifier = _Simplifier(root, version.facts)
        again = simplifier.run()
        different = simplifier.changed
        different |= eliminate_dead_ops(root, symbols)
        while _drop_results(simplifier):
            different = True
            eliminate_dead_ops(root, symbols)
        # Without its dead operations a conditional may only choose between values; those are still to be looked at.
        for branch in reversed(simplifier.branches):
            if simplifier.is_live(branch) and choose_values(branch):
                different = again = True
        if different:
            version.changed()
            changed = True
        if not again:
            break
    return changed


def _drop_results(simplifier: _Simplifier) -> bool:
    """Drop what conditionals and loops hand out and nobody takes, inner ones first."""
    dropped = False
    for branch in reversed(simplifier.branches):
        dropped |= simplifier.is_live(branch) and drop_unused_results(branch)
    for loop in reversed(simplifier.loops):
        dropped |= simplifier.is_live(loop) and _DROP[loop.name](loop)
    return dropped


class _Simplifier:
    """One walk over a function."""

    def __init__(self, root: Op, facts: FunctionFacts) -> None:
        self.root = root
        self.facts = facts
        self.changed = False
        self.loops: list[Op] = []
        self.branches: list[Op] = []
        self._known = Available()
        self._graphs = False

    def run(self) -> bool:
        """Simplify everything; whether another walk may find more."""
        for region in self.root.regions:
            # The regions of a function are separate bodies.
            self._known = Available()
            self._region(region)
        return self._graphs and self.changed

    def is_live(self, op: Op) -> bool:
        """Whether an operation is still part of the function; what encloses it may have gone."""
        while op is not self.root:
            parent = op.parent_op
            if parent is None:
                return False
            op = parent
        return True

    def _region(self, region: Region) -> None:
        self._graphs |= len(region.blocks) > 1
        with self._known.scope():
            for block in region.blocks:
                if block is region.blocks[0]:
                    self._block(block)
                else:
                    # Blocks of a graph only share what the entry block computed.
                    with self._known.scope():
                        self._block(block)

    def _block(self, block: Block) -> None:
        op = block.first
        while op is not None:
            op = self._structured(op, block) if op.regions else self._plain(op)

    def _plain(self, op: Op) -> Op | None:
        """Fold or merge an operation without regions; the one to look at next."""
        following = op.next
        if op.results or op.name == "sanitizer.assert.op":
            found = fold(op, self.facts)
            if found is None:
                found = simplify(op, self.facts)
            if found is not None:
                self._replace(op, found)
            elif (first := self._known.first(op)) is not None:
                op.replace_with(first.results)
                self.changed = True
        return following

    def _replace(self, op: Op, found: list[Value | object]) -> None:
        values: list[Value] = []
        for replacement, result in zip(found, op.results, strict=True):
            if isinstance(replacement, Value):
                values.append(replacement)
                continue
            constant = make_constant(result.type, replacement, op.loc)
            first = self._known.first(constant)
            if first is None:
                constant.insert_before(op)
            values.append((first or constant).results[0])
        op.replace_with(values)
        self.changed = True

    def _structured(self, op: Op, block: Block) -> Op | None:
        """Decide or simplify an operation with regions; the one to look at next."""
        before = op.prev
        if self._decide(op):
            self.changed = True
            # What has taken the op's place is yet to be looked at.
            return before.next if before is not None else block.first
        forward = _FORWARD.get(op.name)
        while True:
            if forward is not None:
                self.changed |= forward(op)
            for region in op.regions:
                self._region(region)
            # Inside, a carried value may have turned out to stay what it was.
            if forward is None or not forward(op):
                break
            self.changed = True
        if op.name == "scf.while" and self._decide_while(op):
            # Its flag is made inside, where only now it is simplified.
            self.changed = True
            return before.next if before is not None else block.first
        if forward is not None:
            self.loops.append(op)
        elif op.name == "scf.if":
            self.branches.append(op)
            self.changed |= forward_yields(op)
            if choose_values(op):
                self.changed = True
                return before.next if before is not None else block.first
        return op.next

    def _decide(self, op: Op) -> bool:
        """Replace control flow whose course is known by the part that runs."""
        if op.name == "scf.if":
            known = self.facts.exact(op.operands[0], op)
            if known is None:
                return False
            taken = 0 if known else 1
            if taken < len(op.regions):
                splice(op, op.regions[taken])
            else:
                op.erase()
            return True
        if op.name == "scf.switch":
            return self._decide_switch(op)
        return op.name == "scf.for" and self._decide_loop(op)

    def _decide_switch(self, op: Op) -> bool:
        selector = self.facts.exact(op.operands[0], op)
        if selector is None:
            return False
        keys: Any = op.attribute("case_keys")
        splice(op, op.regions[1 + keys.index(selector)] if selector in keys else op.regions[0])
        return True

    def _decide_while(self, op: Op) -> bool:
        """A loop that never goes on is one run of its first region."""
        block = op.regions[0].entry
        end = block.last
        if end is None or end.name != "scf.condition" or self.facts.exact(end.operands[0], end) != 0:
            return False
        for arg, value in zip(block.args, op.operands, strict=True):
            arg.replace_all_uses(value)
        splice(op, op.regions[0], 1)
        return True

    def _decide_loop(self, op: Op) -> bool:
        """A loop that never runs is its initial values; one that runs once is its body."""
        lower, upper, step = (self.facts.integer(v, op) for v in op.operands[:3])
        if step.lo <= 0:
            return False
        if lower.lo >= upper.hi:
            op.replace_with(op.group(3))
            return True
        if lower.exact is None or upper.exact is None or step.exact is None:
            return False
        if not lower.exact < upper.exact <= lower.exact + step.exact:
            return False
        block = op.regions[0].entry
        for arg, value in zip(block.args, [op.operands[0], *op.group(3)], strict=True):
            arg.replace_all_uses(value)
        splice(op, op.regions[0])
        return True


# What replaces values that are the same in every iteration of a loop, and what drops those that nobody uses.
_FORWARD: Final[Mapping[str, Callable[[Any], bool]]] = {
    "scf.for": carried.forward_invariants,
    "scf.while": condition_loops.forward_invariants,
}
_DROP: Final[Mapping[str, Callable[[Any], bool]]] = {
    "scf.for": carried.drop_unused,
    "scf.while": condition_loops.drop_unused,
}


def splice(op: Op, region: Region, skipped: int = 0) -> None:
    """Replace an op by the contents of one of its single-block regions.

    Its results become what the end of the region hands on, behind some operands that it has for itself.
    """
    block = region.entry
    end = block.last
    assert end is not None
    values = end.operands[skipped:]
    end.erase()
    for inner in block:
        inner.detach()
        inner.insert_before(op)
    op.replace_with(values)
