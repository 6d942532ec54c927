"""Moving operations out of loops that compute the same in every iteration (language reference, part 3, section 11).

An operation moves only when nothing can tell: it is pure, takes nothing from inside the loop, and either may run where
it was not written, or is sure to run because the loop has an iteration. A source fence in the loop's own body keeps
everything in its place: whatever left the loop would cross it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from loom.facts.analysis import FunctionFacts
from loom.facts.version import Version
from loom.ir.core import Op, Value

FENCE: Final = "scf.schedule.fence"

# Not declared safe to speculate because of their overflow flags, if they have any; without flags they wrap.
WRAPPING: Final = frozenset(
    f"{dialect}.{name}"
    for dialect in ("scalar", "vector")
    for name in ("addi", "subi", "muli", "negi", "fmai", "andi", "ori", "xori", "rotli", "rotri")
)


def hoist_invariants(function: Op, target_facts: Mapping[str, object], *, version: Version | None = None) -> int:
    """Move invariant operations in front of the loops of a function, innermost first; how many moved."""
    version = version or Version(function, target_facts)
    moved = 0
    for loop in [op for op in function.walk() if op.name in ("scf.for", "scf.while")][::-1]:
        moved += _hoist(loop, version.facts)
    if moved:
        version.changed()
    return moved


def _hoist(loop: Any, facts: FunctionFacts) -> int:
    blocks = [region.entry for region in loop.regions]
    if any(op.name == FENCE for block in blocks for op in block):
        return 0
    # The first region of a condition loop runs at least once, whatever its second one does.
    runs = loop.name == "scf.while" or facts.integer(loop.upper, loop).lo > facts.integer(loop.lower, loop).hi
    inside: set[Value] = {argument for block in blocks for argument in block.args}
    moved = 0
    for block in blocks:
        for op in block:
            if _is_movable(op, runs and block is blocks[0]) and not any(v in inside for v in _taken(op)):
                op.detach()
                op.insert_before(loop)
                moved += 1
                continue
            for inner in op.walk():
                inside.update(inner.results)
    return moved


def _is_movable(op: Op, runs: bool) -> bool:
    if "pure" not in op.spec.traits or op.regions or not op.results:
        return False
    return runs or is_speculatable(op)


def is_speculatable(op: Op) -> bool:
    """Whether a pure operation has a result for all operands, so that it may run where it was not written."""
    if "speculatable" in op.spec.traits:
        return True
    return op.name in WRAPPING and not ("flags" in op.spec.attribute_index and op.attribute("flags"))


def _taken(op: Op) -> list[Value]:
    """Operands, and values that the types of results name; a result may name its sibling."""
    return [*op.operands, *(v for r in op.results for v in r.type.values() if v.owner is not op)]
