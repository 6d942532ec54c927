"""Fragments and matrix multiply-accumulate over logical matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loom.dialects.kernel.evaluate_scopes import Teams, subgroups
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
from loom.evaluate.shapes import extents_of, in_lane_order, with_lane_axis
from loom.evaluate.values import RuntimeValue, View, format_of, per_lane
from loom.facts.fragments import FragmentShape, find_placement, fragment_shape, offered_tiles
from loom.ir.core import Op, Value
from loom.ir.types import ShapedType, Type


def _placement(frame: Frame, op: Op, shape: FragmentShape, type_: Type) -> Fragment:
    """Where a fragment of a vector type lies. Raises a located diagnostic when nothing defines it."""
    rows, columns = (frame.uniform(op, frame.extent(v), "the shape of a fragment") for v in (shape.rows, shape.columns))
    length = int(np.prod(extents_of(frame, op, type_), dtype=np.int64))
    facts = frame.machine.program.facts
    found = find_placement(shape.role, rows, columns, format_of(type_).name, length, offered_tiles(facts))
    if found is None:
        wave = facts.get("subgroup_size")
        subgroups_are = f"subgroups of {wave} lanes" if isinstance(wave, int) else "a target without subgroups"
        raise unsupported(op, f"no {rows}x{columns} fragment '{shape.role}' is {type_} with {subgroups_are}")
    return fragment_arrays(found)


def _given(op: Op, operands: Sequence[RuntimeValue], value: Value) -> RuntimeValue:
    """The runtime value of an operand."""
    return operands[op.operands.index(value)]


def _refuse_encodings(op: Any) -> None:
    if op.blocks is not None:
        raise unsupported(op, "fragments of several blocks")
    if "aux" in op.spec.operand_index and op.aux:
        raise unsupported(op, "encoded fragments")


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


def _matrices(frame: Frame, op: Op, fragment: Fragment, teams: Teams | None, value: Array, type_: Type) -> Array:
    """The logical matrices of a value: ``[teams or work-items, rows, columns]``."""
    assert isinstance(type_, ShapedType)
    held = in_lane_order(per_lane(value, frame.machine.lanes.count, type_.rank), type_.rank)
    table = held[:, None] if teams is None else teams.table(held, 1)
    matrices = np.zeros((table.shape[0], fragment.rows, fragment.columns), dtype=table.dtype)
    matrices[:, fragment.row, fragment.column] = table
    # Lanes may hold copies of an element; a product of copies that differ depends on which one is read.
    format = format_of(type_)
    copies = to_bits(format, matrices[:, fragment.row, fragment.column]) != to_bits(format, table)
    differ = copies.any(axis=(1, 2))
    lane = frame.offender(np.asarray(differ if teams is None else teams.of_teams(differ)))
    if lane is not None:
        reason = "lanes hold different copies of an element"
        raise frame.fault(FaultCode.UNDEFINED_RESULT, op, f"'{op.name}': {reason}", lane, reason=reason)
    return matrices


@evaluates("vector.fragment")
def fragment_of(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The data itself; what it means is looked at where it is used."""
    _refuse_encodings(op)
    if op.predicates:
        values = [_given(op, operands, v) for v in op.mentioned]
        check_predicates(frame, op, op.predicates, op.mentioned, values)
    return (_given(op, operands, op.data),)


@evaluates("vector.fragment.repack")
def fragment_repack(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The same fragment in another vector: only reshaped whole matrices have a meaning without a target."""
    _refuse_encodings(op)
    shape = FragmentShape(op.role, op.rows, op.columns, op)
    source, target = (_placement(frame, op, shape, t) for t in (op.data.type, op.results[0].type))
    if format_of(op.data.type) is not format_of(op.results[0].type) or source.alone != target.alone:
        raise unsupported(op, f"repacking {op.data.type} as {op.results[0].type}")
    value = with_lane_axis(_given(op, operands, op.data), op.data.type.rank)
    return (value.reshape(value.shape[0], *extents_of(frame, op, op.results[0].type)),)


def _locate(
    frame: Frame, op: Any, fragment: Fragment, view: View, view_type: Type, once: bool = False
) -> tuple[Array, Located]:
    """The active work-items and the elements that they hold, one after the other; ``once``: without copies."""
    items = np.arange(frame.machine.lanes.count) if frame.active is None else frame.active
    teams = _holders(frame, op, fragment)
    lane = np.zeros_like(items) if teams is None else teams.column[items]
    if once and teams is not None:
        first = lane < _first_holders(fragment)
        items, lane = items[first], lane[first]
    length = fragment.row.shape[1]
    holders = np.repeat(items, length)
    positions = [p if p.ndim == 0 else p[holders] for p in frame.indices(op.indices, op.static_indices)]
    positions[-2] = positions[-2] + fragment.row[lane].reshape(-1)
    positions[-1] = positions[-1] + fragment.column[lane].reshape(-1)
    return items, accesses.locate_elements(frame, op, view, view_type, positions, holders)


def locate_fragment(
    frame: Frame, op: Any, operands: Sequence[RuntimeValue], data: Value, view: Value, *, once: bool
) -> Located:
    """The elements of a view that the active work-items hold in a fragment; ``once``: without copies."""
    _refuse_encodings(op)
    fragment = _placement(frame, op, FragmentShape(op.role, op.rows, op.columns, op), data.type)
    return _locate(frame, op, fragment, _given(op, operands, view), view.type, once)[1]


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


def _require_matrix(op: Op, view_type: Type) -> None:
    assert isinstance(view_type, ShapedType)
    if view_type.rank < 2:
        raise unsupported(op, f"a fragment of {view_type}, which has no rows and columns")


@evaluates("vector.fragment.load")
def fragment_load(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Reads the matrix whose first element is at the indices."""
    _refuse_encodings(op)
    _require_matrix(op, op.source.type)
    type_ = op.results[0].type
    fragment = _placement(frame, op, FragmentShape(op.role, op.rows, op.columns, op), type_)
    items, place = _locate(frame, op, fragment, _given(op, operands, op.source), op.source.type)
    read = _converted(op, format_of(op.source.type), format_of(type_), accesses.read(frame, op, place))
    return (accesses.spread(frame, items, read.reshape(items.size, *extents_of(frame, op, type_))),)


@evaluates("vector.fragment.store")
def fragment_store(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Writes the matrix whose first element is at the indices."""
    _refuse_encodings(op)
    _require_matrix(op, op.target.type)
    type_ = op.value.type
    fragment = _placement(frame, op, FragmentShape(op.role, op.rows, op.columns, op), type_)
    items, place = _locate(frame, op, fragment, _given(op, operands, op.target), op.target.type, once=True)
    held = in_lane_order(per_lane(_given(op, operands, op.value), frame.machine.lanes.count, type_.rank), type_.rank)
    values = _converted(op, format_of(type_), format_of(op.target.type), held[items].reshape(-1))
    accesses.store(frame, op, place, values)
    return ()


@evaluates("vector.mma")
def mma(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """init + lhs * rhs over the logical matrices, k ascending, each step rounded once."""
    parts = []
    for value, role in ((op.lhs, "lhs"), (op.rhs, "rhs"), (op.init, "init")):
        shape = fragment_shape(value)
        if shape is None or (shape.role != role and not (role == "init" and shape.role == "result")):
            raise unsupported(op, f"%{value.name or '?'} is no fragment of role '{role}'")
        parts.append(_placement(frame, op, shape, value.type))
    left, right, result = parts
    if (left.rows, left.columns, right.columns) != (result.rows, right.rows, result.columns):
        raise unsupported(
            op,
            f"a product of {left.rows}x{left.columns} and {right.rows}x{right.columns} "
            f"added to {result.rows}x{result.columns}",
        )
    if len({p.alone for p in parts}) > 1:
        raise unsupported(op, "operands that are spread over a subgroup and operands that are not")
    teams = _holders(frame, op, result)
    a, b, c = (
        _matrices(frame, op, p, teams, value, v.type)
        for p, value, v in zip(parts, operands, (op.lhs, op.rhs, op.init), strict=True)
    )
    product = _multiply(op, a, b, c)
    held = product[:, result.row, result.column]
    mine = held[:, 0] if teams is None else held[teams.row, teams.column]
    return (mine.reshape(mine.shape[0], *extents_of(frame, op, op.results[0].type)),)


def _multiply(op: Any, a: Array, b: Array, c: Array) -> Array:
    left, right, format = (format_of(v.type) for v in (op.lhs, op.rhs, op.init))
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
