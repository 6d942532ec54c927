"""Promises about storage, shapes and lanes that cannot be so (language reference, part 2, sections 4.4, 5.2, 12.5).

A root is what remains of a buffer when assumptions are taken off: a parameter, or one execution of an allocation. Two
names of one root overlap, two allocations never are one, and an allocation lies where it says. How far an allocation
happens to be aligned, and which parameters are one buffer, is not known here and never refuted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from loom.dialects.scf.verify import out_of_contract
from loom.facts.analysis import FunctionFacts
from loom.ir.core import Block, Op, Value
from loom.ir.diagnostics import Diagnostic, Related
from loom.ir.records import evolve
from loom.ir.types import ShapedType


def root_of(value: Value) -> Value:
    """The buffer that a handle stands for: promises give it other names."""
    while True:
        op: Any = value.defining_op
        if op is None:
            return value
        if op.name == "buffer.assume.same_root":
            # The result keeps its own facts and takes the other's identity.
            value = op.root
        elif op.name.startswith("buffer.assume."):
            value = op.operands[value.index]
        else:
            return value


def _space_of(value: Value) -> tuple[str, Op] | None:
    """The memory space that is known of a handle, and what says so."""
    while True:
        op: Any = value.defining_op
        if op is None:
            return _space_of_argument(value)
        if op.name in ("buffer.assume.memory_space", "buffer.alloca"):
            return op.space, op
        if not op.name.startswith("buffer.assume."):
            return None
        value = op.operands[value.index]


def _space_of_argument(value: Value) -> tuple[str, Op] | None:
    """Buffers that are passed to a kernel are global."""
    block = value.owner
    assert isinstance(block, Block)
    region = block.parent
    function = region.parent if region is not None else None
    if region is None or function is None or function.name != "kernel.def" or block is not region.entry:
        return None
    return "global", function


def _no_alias(op: Any, facts: FunctionFacts) -> Iterator[Diagnostic]:
    roots: dict[Value, Value] = {}
    for operand in op.inputs:
        root = root_of(operand)
        first = roots.setdefault(root, operand)
        if first is not operand or op.inputs.count(operand) > 1:
            yield _refuted(op, "noalias", f"{_name(first)} and {_name(operand)} are one buffer", "disjoint roots", root)
            return


def _same_root(op: Any, facts: FunctionFacts) -> Iterator[Diagnostic]:
    a, b = root_of(op.input), root_of(op.root)
    made = [v for v in (a, b) if v.defining_op is not None and v.defining_op.name == "buffer.alloca"]
    # What comes in from outside was there before anything is allocated.
    outside = [v for v in (a, b) if v.defining_op is None]
    if a is not b and len(made) + len(outside) == 2 and made:
        text = f"{_name(op.input)} and {_name(op.root)} are different allocations"
        yield _refuted(op, "same_root", text, "one root", made[-1])


def _memory_space(op: Any, facts: FunctionFacts) -> Iterator[Diagnostic]:
    known = _space_of(op.input)
    if known is None or op.space == known[0] or "generic" in (op.space, known[0]):
        return
    found = out_of_contract(op, "memory_space", op.space, f"'{known[0]}', where the buffer lies")
    yield evolve(found, related=(Related(f"it is {known[0]} by this", known[1].loc),), emitter="specialize")


def _extents(op: Any, facts: FunctionFacts) -> Iterator[Diagnostic]:
    before, after = op.source.type, op.results[0].type
    assert isinstance(before, ShapedType)
    assert isinstance(after, ShapedType)
    for axis, (a, b) in enumerate(zip(before.dims, after.dims, strict=True)):
        sizes = [dim if isinstance(dim, int) else facts.exact(dim, op) for dim in (a, b)]
        if None not in sizes and sizes[0] != sizes[1]:
            yield Diagnostic(
                "SHAPE/001",
                f"'view.refine' says that axis {axis} has {sizes[1]} elements, but it has {sizes[0]}",
                op.loc,
                {"operand_a": "source", "rank_a": sizes[0], "operand_b": "result", "rank_b": sizes[1]},
                emitter="specialize",
            )


def _one_lane(op: Any, facts: FunctionFacts) -> Iterator[Diagnostic]:
    if _differs_between_lanes(op.lane, facts):
        text = f"{_name(op.lane)} is another one in every lane"
        yield _refuted(op, "lane", text, "the same in all lanes of a subgroup", op.lane)


def _differs_between_lanes(value: Value, facts: FunctionFacts) -> bool:
    """Whether a value is, for certain, another one in each lane of a subgroup that has several.

    Work-items of one subgroup differ in their number along x where the workgroup has no other axis.
    """
    sizes = facts.static_workgroup_size
    subgroup = facts.target_facts.get("subgroup_size")
    if not isinstance(subgroup, int) or subgroup < 2 or sizes[0] is None or sizes[0] < 2 or sizes[1:] != (1, 1):
        return False
    while True:
        op = value.defining_op
        if op is None:
            return False
        if op.name == "kernel.subgroup.lane.id":
            return True
        if op.name == "kernel.workitem.id":
            return op.attribute("axis") == "x"
        if op.name == "index.cast" and value.type.text in ("i32", "i64", "index", "offset"):
            value = op.operands[0]
        elif op.name in _SHIFTS and any(_is_constant(v) for v in op.operands):
            value = next((v for v in op.operands if not _is_constant(v)), op.operands[0])
        else:
            return False


#: With a constant on one side they give different numbers for different numbers.
_SHIFTS: Final = frozenset({"index.add", "index.sub", "index.xori", "scalar.addi", "scalar.subi", "scalar.xori"})


def _is_constant(value: Value) -> bool:
    return value.defining_op is not None and "constant" in value.defining_op.spec.traits


def _refuted(op: Op, name: str, why: str, expected: str, about: Value) -> Diagnostic:
    owner = about.owner
    related = (Related("this one", owner.loc),) if isinstance(owner, Op) else ()
    return Diagnostic(
        "STRUCTURE/014",
        f"what '{op.name}' says cannot be so: {why}",
        op.loc,
        {"attr_name": name, "actual_value": why, "expected_constraint": expected},
        related=related,
        emitter="specialize",
    )


def _name(value: Value) -> str:
    return f"%{value.name or '?'}"


#: Operations that state something of storage, shapes or lanes, with what refutes them.
CHECKS: Final[dict[str, Callable[[Any, FunctionFacts], Iterator[Diagnostic]]]] = {
    "buffer.assume.noalias": _no_alias,
    "buffer.assume.same_root": _same_root,
    "buffer.assume.memory_space": _memory_space,
    "view.refine": _extents,
    "kernel.subgroup.broadcast": _one_lane,
}
