"""Collectives: work-items of a subgroup or workgroup exchange values.

Floats combine from the lowest place up (from the highest down in reverse scans), which is one of the orders that
the language permits. Values are compared by their bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from loom.dialects.kernel.evaluate_scopes import WORKGROUP, Teams, require_everyone, subgroups, workgroups
from loom.evaluate.faults import FaultCode, unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.numeric import COMBINING_KINDS
from loom.evaluate.numeric.formats import Array, to_bits
from loom.evaluate.poison import poisoned, split
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue, format_of, per_lane, vector_rank
from loom.ir.core import Op


def _teams(frame: Frame, op: Any) -> Teams:
    """Who takes part: the active lanes of a subgroup or cluster, or all of a workgroup."""
    if op.name.startswith("kernel.workgroup."):
        teams = workgroups(frame, op)
        require_everyone(frame, op, WORKGROUP, "collective")
        return teams
    if "cluster_size" in op.spec.attribute_index:
        return subgroups(frame, op, op.cluster_size, op.cluster_stride)
    return subgroups(frame, op)


def _running(op: Any, teams: Teams, value: Array, order: Sequence[int], from_identity: bool) -> tuple[Array, Array]:
    """Values combined along the places in an order.

    Returns the combination in front of each place (``[teams, width, *extents]``, the start of the chain where none is)
    and that behind all places (``[teams, *extents]``).
    """
    kind, format = COMBINING_KINDS[op.kind], format_of(op.value.type)
    table = teams.table(value, vector_rank(op.value.type))
    room = (1,) * (table.ndim - 2)
    before = np.empty_like(table)
    combined = np.full_like(table[:, 0], kind.identity(format))
    started = np.full(teams.active.shape[0], from_identity)
    for place in order:
        before[:, place] = combined
        here, values = teams.active[:, place], table[:, place]
        if not here.any():
            continue
        merged = kind.combine(format, combined, values)
        taken = merged if started.all() else np.where(started.reshape(-1, *room), merged, values)
        combined = taken if here.all() else np.where(here.reshape(-1, *room), taken, combined)
        started = started | here
    return before, combined


@evaluates("kernel.subgroup.reduce", "kernel.workgroup.reduce")
def reduce(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The combined value of the team in each of its work-items."""
    teams = _teams(frame, op)
    _, combined = _running(op, teams, operands[0], range(teams.width), from_identity=False)
    return (teams.of_teams(combined),)


@evaluates("kernel.subgroup.scan", "kernel.workgroup.scan")
def scan(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The combined value of the places up to each work-item's own, which counts in an inclusive scan."""
    teams = _teams(frame, op)
    order = range(teams.width) if op.direction == "forward" else range(teams.width - 1, -1, -1)
    exclusive = op.mode == "exclusive"
    before, combined = _running(op, teams, operands[0], order, from_identity=exclusive)
    if exclusive:
        return (teams.of_places(before),)
    # What stands in front of the next place is what stands behind this one.
    behind = np.empty_like(before)
    places = list(order)
    behind[:, places[:-1]] = before[:, places[1:]]
    behind[:, places[-1]] = combined
    return (teams.of_places(behind),)


@evaluates("kernel.subgroup.vote.any", "kernel.workgroup.vote.any")
def vote_any(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Whether the predicate holds in some work-item that takes part."""
    teams = _teams(frame, op)
    return (teams.of_teams(np.any(teams.table(operands[0], 0) & teams.active, axis=1)),)


@evaluates("kernel.subgroup.vote.all", "kernel.workgroup.vote.all")
def vote_all(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Whether the predicate holds in every work-item that takes part."""
    teams = _teams(frame, op)
    return (teams.of_teams(np.all(teams.table(operands[0], 0) | ~teams.active, axis=1)),)


@evaluates("kernel.workgroup.vote.count")
def vote_count(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """How many work-items of the workgroup have a true predicate."""
    teams = _teams(frame, op)
    dtype = format_of(op.results[0].type).dtype
    return (teams.of_teams((teams.table(operands[0], 0) & teams.active).sum(axis=1, dtype=dtype)),)


def _words(op: Op, places: Array) -> Array:
    """Words of the operation's first result with a bit for each of the last axis' places."""
    format = format_of(op.results[0].type)
    if places.shape[-1] > format.bits:
        raise unsupported(op, f"a subgroup of {places.shape[-1]} lanes does not fit the bits of {format.name}")
    weights = np.left_shift(np.uint64(1), np.arange(places.shape[-1], dtype=np.uint64))
    return np.asarray(np.where(places, weights, np.uint64(0)).sum(axis=-1, dtype=np.uint64).astype(format.dtype))


@evaluates("kernel.subgroup.vote.ballot")
def ballot(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A bit for each active lane whose predicate holds."""
    teams = _teams(frame, op)
    return (teams.of_teams(_words(op, teams.table(operands[0], 0) & teams.active)),)


@evaluates("kernel.subgroup.active.mask")
def active_mask(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """A bit for each active lane."""
    teams = _teams(frame, op)
    return (teams.of_teams(_words(op, teams.active)),)


def _equal(op: Any, teams: Teams, value: Array) -> Array:
    """Which active lanes have the bits of each work-item's value, ``bool[lanes, width]``."""
    bits = to_bits(format_of(op.value.type), per_lane(value, teams.row.size, 0))
    return np.asarray((teams.table(bits, 0)[teams.row] == bits[:, None]) & teams.active[teams.row])


@evaluates("kernel.subgroup.match.any")
def match_any(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The active lanes with this lane's value."""
    teams = _teams(frame, op)
    return (_words(op, _equal(op, teams, operands[0])),)


@evaluates("kernel.subgroup.match.all")
def match_all(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The active lanes and whether they agree on the value; no lanes when they do not."""
    teams = _teams(frame, op)
    equal = _equal(op, teams, operands[0])
    agree = (equal == teams.active[teams.row]).all(axis=1)
    return (_words(op, equal & agree[:, None]), agree)


# The lane that a lane reads from, and whether that is inside the width, of own lane, offset and width.
SHUFFLES: Final[dict[str, Callable[[Array, Array, Array], tuple[Array, Array]]]] = {
    "xor": lambda lane, offset, width: (lane ^ offset, (lane ^ offset) < width),
    "up": lambda lane, offset, width: (lane - offset, lane >= offset),
    "down": lambda lane, offset, width: (lane + offset, lane + offset < width),
    "index": lambda lane, offset, width: (offset, (offset >= 0) & (offset < width)),
}


@evaluates("kernel.subgroup.shuffle")
def shuffle(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The value of another lane, which is unspecified where that lane is not there or not active."""
    (value, bad), (offset, unknown), (width, open_) = (split(v) for v in operands)
    rank = vector_rank(op.value.type)
    teams = _teams(frame, op)
    source, inside = SHUFFLES[op.mode](teams.column, offset.astype(np.int64), width.astype(np.int64))
    valid = inside & (source >= 0) & (source < teams.width)
    source = np.where(valid, source, teams.column)
    valid = valid & teams.active[teams.row, source]
    source = np.where(valid, source, teams.column)
    # Whether the lane is there may be asked, unless it is not known which lane is meant.
    nobody = unknown | open_
    unspecified = ~valid | nobody | teams.table(bad, 0)[teams.row, source]
    moved = np.asarray(teams.table(value, rank)[teams.row, source])
    return (poisoned(frame, moved, unspecified), poisoned(frame, valid, nobody))


@evaluates("kernel.subgroup.broadcast")
def broadcast(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The value of the lane that all active lanes of the subgroup name."""
    (value, bad), (lane, unknown) = (split(v) for v in operands)
    teams = _teams(frame, op)
    _refuse(frame, op, unknown, lambda at: "the lane is poison")
    source = per_lane(lane, teams.row.size, 0).astype(np.int64)
    outside = (source < 0) | (source >= teams.width)
    place = np.where(outside, 0, source)
    outside = outside | ~teams.active[teams.row, place]
    _refuse(frame, op, outside, lambda at: f"lane {int(source[at])} of the subgroup is not active")
    first = np.argmax(teams.active, axis=1)
    differs = source != teams.of_teams(teams.table(source, 0)[np.arange(first.size), first])
    _refuse(frame, op, differs, lambda at: "the lanes of the subgroup name different lanes")
    return (_from_places(frame, op, teams, value, bad, place),)


def _from_places(frame: Frame, op: Any, teams: Teams, value: Array, bad: Array, place: Array) -> RuntimeValue:
    """The value that each work-item finds at a place of its team, poison as it is there."""
    found = np.asarray(teams.table(value, vector_rank(op.value.type))[teams.row, place])
    return poisoned(frame, found, np.asarray(teams.table(bad, 0)[teams.row, place]))


def _refuse(frame: Frame, op: Op, bad: Array, reason: Callable[[int], str]) -> None:
    lane = frame.offender(bad)
    if lane is not None:
        text = reason(lane)
        raise frame.fault(FaultCode.UNDEFINED_RESULT, op, f"'{op.name}': {text}", lane, reason=text)


@evaluates("kernel.subgroup.broadcast.first")
def broadcast_first(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The value of the lowest active lane."""
    teams = _teams(frame, op)
    first = np.argmax(teams.active, axis=1)
    return (_from_places(frame, op, teams, *split(operands[0]), first[teams.row]),)
