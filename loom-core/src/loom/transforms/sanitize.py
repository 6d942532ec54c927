"""Inserting executable checks and observations of accesses (language reference, part 1, section 20; part 3, 11).

A check stands directly in front of what it guards and has its source position. What masks decide, and vectors whose
extents only run time knows, stays as it is: no footprint describes them. Checks have effects, so pure functions are
for the caller to leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import product
from typing import Any, Final

from loom.dialects.index import ops as index
from loom.dialects.sanitizer import ops as sanitizer
from loom.ir.attributes import Predicate, Ref
from loom.ir.core import Op, Value
from loom.ir.records import record
from loom.ir.types import INDEX, INTEGERS, ScalarType
from loom.spec.kinds import DYNAMIC
from loom.spec.registry import lookup
from loom.text.directives import index_entries

CHECKS: Final = ("access", "value", "operation", "race")

# Elements of one vector access that are observed one by one; larger accesses are left alone.
MAX_OBSERVED: Final = 64


@record
class AccessShape:
    """How an operation accesses memory: its kind, the operand that is the view, and the vector it moves, if any."""

    kind: str
    view: str
    vector: str | None = None
    ordering: str | None = None


ACCESSES: Final = {
    "view.load": AccessShape("read", "source"),
    "view.store": AccessShape("write", "target"),
    "view.atomic.load": AccessShape("read", "source", ordering="ordering"),
    "view.atomic.store": AccessShape("write", "target", ordering="ordering"),
    "view.atomic.reduce": AccessShape("read_write", "target", ordering="ordering"),
    "view.atomic.rmw": AccessShape("read_write", "target", ordering="ordering"),
    "view.atomic.cmpxchg": AccessShape("read_write", "target", ordering="success_ordering"),
    "vector.load": AccessShape("read", "source", "result"),
    "vector.store": AccessShape("write", "target", "value"),
}


def _body(function: Op) -> list[Op]:
    """The operations that run with the function; a launch configuration runs elsewhere."""
    return [inner for block in function.regions[-1].blocks for op in block for inner in op.walk()]


def _extents(op: Any, shape: AccessShape) -> tuple[int, ...] | None:
    """The footprint along every axis of the view; ``None`` when only run time knows it."""
    rank: int = getattr(op, shape.view).type.rank
    dims: tuple[int | Value, ...] = () if shape.vector is None else getattr(op, shape.vector).type.dims
    static = tuple(dim for dim in dims if isinstance(dim, int))
    return (1,) * (rank - len(dims)) + static if len(static) == len(dims) else None


# -- assertions ----------------------------------------------------------------------------------------------


def insert_assertions(function: Op, checks: Collection[str]) -> int:
    """Insert the assertions of the given kinds; returns their number.

    ``access``: footprints are accessible. ``value``: what assumptions and ``where`` promise is so. ``operation``:
    operands for which an operation has no result do not occur.
    """
    inserted = 0
    for op in _body(function):
        if "access" in checks and op.name in ACCESSES:
            inserted += _assert_access(op)
        elif "value" in checks and op.name in ("index.assume", "scalar.assume"):
            _assert_assumption(op)
            inserted += 1
        elif "operation" in checks and op.name in OPERATIONS:
            inserted += _assert_operation(op)
    return inserted + (_assert_parameters(function) if "value" in checks else 0)


def _assert_access(op: Any) -> int:
    shape = ACCESSES[op.name]
    extents = _extents(op, shape)
    if extents is None or 0 in extents:
        return 0
    sanitizer.AssertAccess.build(
        kind=shape.kind,
        view=getattr(op, shape.view),
        indices=op.indices,
        static_indices=op.static_indices,
        static_extents=None if set(extents) <= {1} else extents,
        loc=op.loc,
    ).insert_before(op)
    return 1


def _assert_assumption(op: Any) -> None:
    """The assumption becomes an assertion that gives the same values with the same facts."""
    types = [result.type for result in op.results]
    check = sanitizer.AssertValue.build(
        result_types=types, inputs=op.inputs, mentioned=op.mentioned, predicates=op.predicates, loc=op.loc
    )
    check.comments, check.blank_before = op.comments, op.blank_before
    check.insert_before(op)
    op.replace_with(check.results)


def _assert_parameters(function: Any) -> int:
    """What the signature requires of its arguments, checked at entry."""
    region = function.regions[-1]
    first = region.entry.first
    arguments = region.entry.args
    about = [
        predicate
        for predicate in function.attribute("predicates") or ()
        if all(isinstance(a, int) or a.index < len(arguments) for a in predicate.args)
    ]
    mentioned = [a for a in arguments if any(Ref(a.index) in predicate.args for predicate in about)]
    if not about or first is None or not all(isinstance(a.type, ScalarType) for a in mentioned):
        return 0
    place = {Ref(a.index): Ref(position) for position, a in enumerate(mentioned)}
    renamed = tuple(Predicate(p.name, tuple(place[a] if isinstance(a, Ref) else a for a in p.args)) for p in about)
    sanitizer.AssertOp.build(inputs=mentioned, mentioned=mentioned, predicates=renamed, loc=function.loc).insert_before(
        first
    )
    return 1


def _not_zero(type_: ScalarType) -> Predicate:
    return Predicate("ne", (Ref(0), 0))


def _shift_amount(type_: ScalarType) -> Predicate:
    return Predicate("range", (Ref(0), 0, type_.width - 1))


# Operation -> what its second operand must be for the operation to have a result.
OPERATIONS: Final[dict[str, Callable[[ScalarType], Predicate]]] = {
    **{
        f"scalar.{name}": _not_zero
        for name in ("divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi")
    },
    **{f"index.{name}": _not_zero for name in ("div", "rem")},
    **{f"scalar.{name}": _shift_amount for name in ("shli", "shrsi", "shrui")},
    **{f"index.{name}": _shift_amount for name in ("shli", "shrsi", "shrui")},
}


def _assert_operation(op: Op) -> int:
    value = op.operands[1]
    type_ = value.type
    if not isinstance(type_, ScalarType) or (type_ in INTEGERS and type_.width == 1):
        return 0
    predicate = OPERATIONS[op.name](type_)
    sanitizer.AssertOp.build(inputs=[value], mentioned=[value], predicates=(predicate,), loc=op.loc).insert_before(op)
    return 1


# -- observations --------------------------------------------------------------------------------------------


def insert_race_observations(function: Op) -> int:
    """Insert an observation in front of every access and behind every barrier; returns their number."""
    inserted = 0
    for op in _body(function):
        if op.name in ACCESSES:
            inserted += _observe_access(op)
        elif op.name in ("vector.fragment.load", "vector.fragment.store"):
            inserted += _observe_fragment(op)
        elif op.name == "kernel.barrier":
            inserted += _observe_barrier(op)
    return inserted


def _observe_access(op: Any) -> int:
    shape = ACCESSES[op.name]
    extents = _extents(op, shape)
    if extents is None:
        return 0
    steps = list(product(*(range(extent) for extent in extents)))
    if len(steps) > MAX_OBSERVED:
        return 0
    atomic = shape.ordering is not None
    entries = index_entries(op.indices, op.static_indices)
    for step in steps:
        moved = [_moved(op, entry, by) for entry, by in zip(entries, step, strict=True)]
        sanitizer.RaceAccess.build(
            kind=shape.kind,
            view=getattr(op, shape.view),
            indices=[entry for entry in moved if isinstance(entry, Value)],
            static_indices=tuple(DYNAMIC if isinstance(entry, Value) else entry for entry in moved),
            atomic=atomic,
            ordering=getattr(op, shape.ordering) if shape.ordering is not None else None,
            scope=op.scope if atomic else None,
            loc=op.loc,
        ).insert_before(op)
    return len(steps)


def _moved(op: Op, entry: int | Value, by: int) -> int | Value:
    """An index some elements further on."""
    if isinstance(entry, int):
        return entry + by
    if by == 0:
        return entry
    distance = index.Constant([], [by], [INDEX], loc=op.loc)
    distance.insert_before(op)
    add = lookup("index.add")
    assert add is not None
    total = add([entry, distance.results[0]], [], [INDEX], loc=op.loc)
    total.insert_before(op)
    return total.results[0]


def _observe_fragment(op: Any) -> int:
    loads = op.name == "vector.fragment.load"
    if loads and op.aux:
        # Encoded elements lie elsewhere than a plain fragment's.
        return 0
    observation = sanitizer.RaceFragmentAccess.build(
        kind="read" if loads else "write",
        fragment=op.results[0] if loads else op.value,
        view=op.source if loads else op.target,
        indices=op.indices,
        static_indices=op.static_indices,
        blocks=op.blocks,
        rows=op.rows,
        columns=op.columns,
        role=op.role,
        loc=op.loc,
    )
    _insert_after(observation, op) if loads else observation.insert_before(op)
    return 1


def _observe_barrier(op: Any) -> int:
    sync = sanitizer.RaceSync.build(space=op.space, scope=op.scope, ordering=op.ordering, loc=op.loc)
    _insert_after(sync, op)
    return 1


def _insert_after(new: Op, op: Op) -> None:
    following = op.next
    assert following is not None, "a block ends in a terminator"
    new.insert_before(following)
