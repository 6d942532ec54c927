"""What structured control flow means when lanes may part.

A condition that all active lanes share runs one region. Otherwise each region runs with the lanes that chose it, and
results are merged lane by lane; a region that no lane chose does not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loom.evaluate.faults import FaultCode
from loom.evaluate.frame import Frame
from loom.evaluate.numeric.formats import Array
from loom.evaluate.poison import poisoned, split
from loom.evaluate.rules import evaluates
from loom.evaluate.values import Poisoned, RuntimeValue
from loom.ir.core import Op, Region


def run_branches(frame: Frame, op: Op, branches: Sequence[tuple[Array, Region | None]]) -> Sequence[RuntimeValue]:
    """Run each region with the active lanes in which its condition holds. Exactly one condition holds in a lane."""
    outer = frame.mask
    merged: list[RuntimeValue] | None = None
    for condition, region in branches:
        if condition.ndim == 0:
            if not condition:
                continue
            mask = outer
        else:
            chosen = condition if outer is None else condition & outer
            if not chosen.any():
                continue
            mask = None if chosen.all() else chosen
        values = frame.run_region(region, mask) if region is not None else []
        frame.mask = outer
        if merged is None:
            merged = values
        else:
            merged = [
                frame.merge(op, result, condition, new, old)
                for result, new, old in zip(op.results, values, merged, strict=True)
            ]
    assert merged is not None
    return merged


@evaluates("scf.if")
def conditional(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """One of two regions."""
    condition = frame.condition(op, operands[0])
    return run_branches(frame, op, ((condition, op.then_region), (np.logical_not(condition), op.else_region)))


@evaluates("scf.switch")
def switch(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The region of the matching key, or the default."""
    selector = frame.condition(op, operands[0])
    matches = [np.asarray(selector == key) for key in op.case_keys]
    default = np.logical_not(np.any(matches, axis=0)) if matches else np.asarray(True)
    return run_branches(frame, op, ((default, op.default_region), *zip(matches, op.case_regions, strict=True)))


@evaluates("scf.select")
def select(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """One of two whole values."""
    condition, true, false = operands
    if isinstance(condition, Poisoned):
        chosen = select(frame, op, (condition.value, true, false))[0]
        if isinstance(chosen, Poisoned):
            return (Poisoned(chosen.value, chosen.lanes | condition.lanes),)
        return (Poisoned(chosen, condition.lanes),)
    if condition.ndim == 0:
        return (true if condition else false,)
    return (frame.merge(op, op.results[0], condition, true, false),)


@evaluates("scf.lookup")
def lookup(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The row of the matching key, or the default row."""
    given, *table = operands
    selector, unknown = split(given)
    columns = len(op.results)
    results = list(table[len(op.case_keys) * columns :])
    for row, key in enumerate(op.case_keys):
        hit = np.asarray(selector == key)
        if hit.ndim == 0:
            if hit:
                results = table[row * columns : (row + 1) * columns]
                break
            continue
        for column, result in enumerate(op.results):
            results[column] = frame.merge(op, result, hit, table[row * columns + column], results[column])
    if not unknown.any():
        return results
    values = [split(v) for v in results]
    return [poisoned(frame, value, bad | unknown) for value, bad in values]


@evaluates("scf.for")
def counted_loop(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Lower, lower + step, ... strictly below upper; a lane leaves when its own range is exhausted."""
    lower, upper, step = (frame.condition(op, v) for v in operands[:3])
    carried = list(operands[3 : 3 + len(op.results)])
    lane = frame.offender(step <= 0)
    if lane is not None:
        value = int(step if step.ndim == 0 else step[lane])
        raise frame.fault(
            FaultCode.STEP_NOT_POSITIVE,
            op,
            f"the step of the loop is {value}, which is not positive",
            lane,
            pass_name="evaluator",
        )
    outer = frame.mask
    if lower.ndim == upper.ndim == step.ndim == 0:
        for position in range(int(lower), int(upper), int(step)):
            frame.machine.program.step(op)
            carried = frame.run_region(op.body, outer, (np.asarray(position, dtype=np.int64), *carried))
            frame.mask = outer
        return carried
    return _divergent_loop(frame, op, lower, upper, step, carried)


def _divergent_loop(
    frame: Frame, op: Any, lower: Array, upper: Array, step: Array, carried: list[RuntimeValue]
) -> list[RuntimeValue]:
    outer = frame.mask
    position = lower
    running: Array = np.broadcast_to(position < upper, (frame.machine.lanes.count,))
    if outer is not None:
        running = running & outer
    while running.any():
        frame.machine.program.step(op)
        mask = None if running.all() else running
        values = frame.run_region(op.body, mask, (position, *carried))
        frame.mask = outer
        if mask is None:
            carried = values
        else:
            carried = [
                frame.merge(op, result, running, new, old)
                for result, new, old in zip(op.results, values, carried, strict=True)
            ]
        # The distance left fits 64 unsigned bits, while the position after the last visited one need not exist.
        with np.errstate(over="ignore"):
            left = np.asarray(upper - position).astype(np.uint64)
            running = running & (left > step.astype(np.uint64))
            position = np.where(running, position + step, position)
    return carried


@evaluates("scf.while")
def while_loop(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """First region, then the second while the flag holds; a lane leaves with what it forwarded last."""
    test = op.before.entry.last
    looping = frame.mask
    header: Sequence[RuntimeValue] = operands
    results: list[RuntimeValue] | None = None
    while True:
        frame.machine.program.step(op)
        flag, *forwarded = frame.run_region(op.before, looping, header)
        more = frame.condition(test, flag)
        if more.ndim or not more:
            inside = np.ones(frame.machine.lanes.count, dtype=np.bool_) if looping is None else looping
            leaving, staying = inside & ~more, inside & more
            if results is None:
                results = forwarded
            elif leaving.any():
                results = [
                    frame.merge(op, result, leaving, new, old)
                    for result, new, old in zip(op.results, forwarded, results, strict=True)
                ]
            if not staying.any():
                return results
            looping = None if staying.all() else staying
        header = frame.run_region(op.after, looping, forwarded)


@evaluates("scf.schedule.fence")
def schedule_fence(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Constrains only how a compiler orders code."""
    return ()
