"""Fragments and matrix multiply-accumulate over logical matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from loom.dialects.kernel.evaluate_scopes import Teams, subgroups
from loom.dialects.vector.evaluate_fragment_values import logical_elements, recut
from loom.evaluate import accesses
from loom.evaluate.accesses import Located
from loom.evaluate.assumptions import check_predicates
from loom.evaluate.faults import FaultCode, unsupported
from loom.evaluate.fragments import Fragment, fragment_arrays
from loom.evaluate.frame import Frame
from loom.evaluate.numeric import OPERATIONS
from loom.evaluate.numeric.fma import fma
from loom.evaluate.numeric.formats import Array, Kind, ScalarFormat, signed, to_bits, wrapped
from loom.evaluate.rules import evaluates
from loom.evaluate.shapes import extents_of, in_lane_order
from loom.evaluate.values import RuntimeValue, View, format_of, per_lane
from loom.facts.fragments import FragmentShape, find_placement, fragment_shape, offered_tiles
from loom.ir.core import Op, Value
from loom.ir.types import ShapedType, Type


@attrs.frozen(eq=False)
class _Held:
    """A fragment as it is held: where elements lie, their format, and how many matrices of how many rows there are.

    Matrices of several blocks stand below each other, so ``placement`` has ``blocks * rows`` rows.
    """

    placement: Fragment
    format: ScalarFormat
    blocks: int
    rows: int


def _held(frame: Frame, op: Op, shape: FragmentShape, format: ScalarFormat, length: int, type_: Type) -> _Held:
    """How a fragment of elements per work-item is held. Raises a located diagnostic when nothing defines it."""
    given = (shape.origin.blocks, shape.rows, shape.columns)
    blocks, rows, columns = (
        1 if v is None else frame.uniform(op, frame.extent(v), "the shape of a fragment") for v in given
    )
    facts = frame.machine.program.facts
    tiles = offered_tiles(facts) if shape.origin.blocks is None else ()
    found = find_placement(shape.role, blocks * rows, columns, format.name, length, tiles)
    if found is None:
        wave = facts.get("subgroup_size")
        subgroups_are = f"subgroups of {wave} lanes" if isinstance(wave, int) else "a target without subgroups"
        count = f"{blocks} blocks of " if shape.origin.blocks is not None else ""
        raise unsupported(op, f"no {count}{rows}x{columns} fragment '{shape.role}' is {type_} with {subgroups_are}")
    return _Held(fragment_arrays(found), format, blocks, rows)


def _plain(frame: Frame, op: Any, type_: Type) -> _Held:
    """How the fragment that an operation names is held in a vector of its elements."""
    length = math.prod(extents_of(frame, op, type_))
    return _held(frame, op, FragmentShape(op.role, op.rows, op.columns, op), format_of(type_), length, type_)


def _given(op: Op, operands: Sequence[RuntimeValue], value: Value) -> RuntimeValue:
    """The runtime value of an operand."""
    return operands[op.operands.index(value)]


def _refuse_encodings(op: Any) -> None:
    if "aux" in op.spec.operand_index and op.aux:
        raise unsupported(op, "encoded elements in memory")


def _holders(frame: Frame, op: Op, fragment: Fragment) -> Teams | None:
    """The subgroups that hold matrices, which must be active as a whole; nothing for matrices held alone."""
    if fragment.alone:
        return None
    teams = subgroups(frame, op)
    partial = np.any(teams.active, axis=1) & ~np.all(teams.active, axis=1)
    lane = frame.offender(teams.of_teams(np.asarray(partial)))
    if lane is not None:
        reason = "a lane of the subgroup is not active"
        raise frame.fault(FaultCode.UNDEFINED_RESULT, op, f"'{op.name}': {reason}", lane, reason=reason)
    return teams


def _matrices(frame: Frame, op: Op, held: _Held, teams: Teams | None, value: Array) -> Array:
    """The logical matrices of elements ``[work-items, length]``: ``[teams or work-items, rows, columns]``."""
    fragment = held.placement
    table = value[:, None] if teams is None else teams.table(value, 1)
    matrices = np.zeros((table.shape[0], fragment.rows, fragment.columns), dtype=table.dtype)
    matrices[:, fragment.row, fragment.column] = table
    # Lanes may hold copies of an element; a product of copies that differ depends on which one is read.
    copies = to_bits(held.format, matrices[:, fragment.row, fragment.column]) != to_bits(held.format, table)
    differ = copies.any(axis=(1, 2))
    lane = frame.offender(np.asarray(differ if teams is None else teams.of_teams(differ)))
    if lane is not None:
        reason = "lanes hold different copies of an element"
        raise frame.fault(FaultCode.UNDEFINED_RESULT, op, f"'{op.name}': {reason}", lane, reason=reason)
    return matrices


@evaluates("vector.fragment")
def fragment_of(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The data itself; what it means is looked at where it is used."""
    if op.predicates:
        values = [_given(op, operands, v) for v in op.mentioned]
        check_predicates(frame, op, op.predicates, op.mentioned, values)
    return (_given(op, operands, op.data),)


@evaluates("vector.fragment.repack")
def fragment_repack(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The same fragment in another vector: the bits of each work-item end to end, cut anew."""
    value = _given(op, operands, op.data)
    return (recut(frame, op, value, op.data.type, op.results[0].type),)


def _locate(
    frame: Frame, op: Any, held: _Held, view: View, view_type: Type, once: bool = False
) -> tuple[Array, Located]:
    """The active work-items and the elements that they hold, one after the other; ``once``: without copies."""
    fragment = held.placement
    items = np.arange(frame.machine.lanes.count) if frame.active is None else frame.active
    teams = _holders(frame, op, fragment)
    lane = np.zeros_like(items) if teams is None else teams.column[items]
    if once and teams is not None:
        first = lane < _first_holders(fragment)
        items, lane = items[first], lane[first]
    length = fragment.row.shape[1]
    holders = np.repeat(items, length)
    positions = [p if p.ndim == 0 else p[holders] for p in frame.indices(op.indices, op.static_indices)]
    rows = fragment.row[lane].reshape(-1)
    if op.blocks is not None:
        positions[-3] = positions[-3] + rows // held.rows
    positions[-2] = positions[-2] + rows % held.rows
    positions[-1] = positions[-1] + fragment.column[lane].reshape(-1)
    return items, accesses.locate_elements(frame, op, view, view_type, positions, holders)


def locate_fragment(
    frame: Frame, op: Any, operands: Sequence[RuntimeValue], data: Value, view: Value, *, once: bool
) -> Located:
    """The elements of a view that the active work-items hold in a fragment; ``once``: without copies."""
    _refuse_encodings(op)
    return _locate(frame, op, _plain(frame, op, data.type), _given(op, operands, view), view.type, once)[1]


def _first_holders(fragment: Fragment) -> int:
    """Lanes that hold the matrix once; later lanes hold copies."""
    lanes, length = map(int, fragment.row.shape)
    return min(lanes, -(-fragment.rows * fragment.columns // max(length, 1)))


def _converted(op: Op, source: ScalarFormat, target: ScalarFormat, values: Array) -> Array:
    """Floats of another width, rounded once; a located diagnostic for other conversions."""
    if source is target:
        return values
    if source.kind is target.kind is Kind.FLOAT and source.bits != target.bits:
        return OPERATIONS["extf" if source.bits < target.bits else "fptrunc"].apply((values,), source, target).value
    raise unsupported(op, f"converting {source.name} to {target.name} in a fragment access")


def _require_matrix(op: Any, view_type: Type) -> None:
    assert isinstance(view_type, ShapedType)
    if view_type.rank < (2 if op.blocks is None else 3):
        axes = "rows and columns" if op.blocks is None else "blocks, rows and columns"
        raise unsupported(op, f"a fragment of {view_type}, which has no {axes}")


@evaluates("vector.fragment.load")
def fragment_load(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Reads the matrix whose first element is at the indices."""
    _refuse_encodings(op)
    _require_matrix(op, op.source.type)
    type_ = op.results[0].type
    items, place = _locate(frame, op, _plain(frame, op, type_), _given(op, operands, op.source), op.source.type)
    read = _converted(op, format_of(op.source.type), format_of(type_), accesses.read(frame, op, place))
    return (accesses.spread(frame, items, read.reshape(items.size, *extents_of(frame, op, type_))),)


@evaluates("vector.fragment.store")
def fragment_store(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Writes the matrix whose first element is at the indices."""
    _refuse_encodings(op)
    _require_matrix(op, op.target.type)
    type_ = op.value.type
    held_as = _plain(frame, op, type_)
    items, place = _locate(frame, op, held_as, _given(op, operands, op.target), op.target.type, once=True)
    held = in_lane_order(per_lane(_given(op, operands, op.value), frame.machine.lanes.count, type_.rank), type_.rank)
    values = _converted(op, format_of(type_), format_of(op.target.type), held[items].reshape(-1))
    accesses.store(frame, op, place, values)
    return ()


@evaluates("vector.mma")
def mma(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """init + lhs * rhs over the logical matrices, k ascending, each step rounded once."""
    accumulator = format_of(op.init.type)
    parts: list[_Held] = []
    elements: list[Array] = []
    for value, role, array in zip((op.lhs, op.rhs, op.init), ("lhs", "rhs", "init"), operands, strict=True):
        shape = fragment_shape(value)
        if shape is None or (shape.role != role and not (role == "init" and shape.role == "result")):
            raise unsupported(op, f"%{value.name or '?'} is no fragment of role '{role}'")
        logical = logical_elements(frame, op, value, array, accumulator)
        parts.append(_held(frame, op, shape, logical.placed_as, logical.elements.shape[1], value.type))
        parts[-1] = attrs.evolve(parts[-1], format=logical.format)
        elements.append(per_lane(logical.elements, frame.machine.lanes.count, 1))
    left, right, result = parts
    shapes = [(part.blocks, part.rows, part.placement.columns) for part in parts]
    (_, rows, inner), (_, inner_again, columns), _ = shapes
    if (result.blocks, rows, columns) != shapes[2] or inner != inner_again or left.blocks != right.blocks:
        sizes = [f"{b} x " * (b > 1) + f"{r}x{c}" for b, r, c in shapes]
        raise unsupported(op, f"a product of {sizes[0]} and {sizes[1]} added to {sizes[2]}")
    if len({part.placement.alone for part in parts}) > 1:
        raise unsupported(op, "operands that are spread over a subgroup and operands that are not")
    teams = _holders(frame, op, result.placement)
    a, b, c = (
        _matrices(frame, op, part, teams, array).reshape(-1, part.rows, part.placement.columns)
        for part, array in zip(parts, elements, strict=True)
    )
    product = _multiply(op, left.format, right.format, accumulator, a, b, c)
    product = product.reshape(-1, result.blocks * result.rows, result.placement.columns)
    held = product[:, result.placement.row, result.placement.column]
    mine = held[:, 0] if teams is None else held[teams.row, teams.column]
    return (mine.reshape(mine.shape[0], *extents_of(frame, op, op.results[0].type)),)


def _multiply(
    op: Any, left: ScalarFormat, right: ScalarFormat, format: ScalarFormat, a: Array, b: Array, c: Array
) -> Array:
    kinds = {left.kind, right.kind, format.kind}
    if len(kinds) > 1 or max(left.bits, right.bits) > format.bits or (format.kind is Kind.INTEGER and format.bits > 32):
        raise unsupported(op, f"a product of {left.name} and {right.name} accumulated in {format.name}")
    total = c
    with np.errstate(all="ignore"):
        for k in range(a.shape[2]):
            x, y = a[:, :, k, None], b[:, None, k, :]
            if format.kind is Kind.FLOAT:
                x, y = _converted(op, left, format, x), _converted(op, right, format, y)
                total = fma(format, x, y, total)
                continue
            # Products of at most 32 bits added to 32 bits fit 64.
            exact = total.astype(np.int64) + signed(left, x).astype(np.int64) * signed(right, y).astype(np.int64)
            if op.flags:
                exact = np.clip(exact, format.minimum, format.maximum)
            total = wrapped(format, exact)
    return total
