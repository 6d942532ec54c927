"""Checking predicates that the program promises."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from loom.evaluate.arithmetic import value_text
from loom.evaluate.faults import FaultCode
from loom.evaluate.numeric import floats
from loom.evaluate.numeric.formats import Array, Kind, unsigned
from loom.evaluate.values import Poisoned, RuntimeValue, format_of
from loom.ir.attributes import Predicate, Ref
from loom.ir.core import Op, Value
from loom.ir.predicates import MEANINGS, UNSIGNED, predicate_text

if TYPE_CHECKING:
    from loom.evaluate.frame import Frame


def check_predicates(
    frame: Frame,
    op: Op,
    predicates: Iterable[Predicate],
    named: Sequence[Value],
    values: Sequence[RuntimeValue],
    what: str = "assumed",
) -> None:
    """Fault at ``op`` if a predicate is false in an active lane. ``named`` and ``values`` are what it refers to."""
    for predicate in predicates:
        _refuse_poison(frame, op, predicate, named, values)
        held = _holds(predicate, named, values)
        lane = frame.offender(~held)
        if lane is None:
            continue
        shown = ", ".join(
            f"%{named[a.index].name or '?'} = {value_text(named[a.index], values[a.index], lane)}"
            for a in predicate.args
            if isinstance(a, Ref)
        )
        text = predicate_text(predicate, named)
        raise frame.fault(
            FaultCode.FALSE_PREDICATE, op, f"the {what} predicate '{text}' is false: {shown}", lane, predicate=text
        )


def _refuse_poison(
    frame: Frame, op: Op, predicate: Predicate, named: Sequence[Value], values: Sequence[RuntimeValue]
) -> None:
    for argument in predicate.args:
        value = values[argument.index] if isinstance(argument, Ref) else None
        if isinstance(argument, Ref) and isinstance(value, Poisoned):
            lane = frame.offender(value.lanes)
            if lane is not None:
                name = named[argument.index].name or "?"
                raise frame.fault(
                    FaultCode.POISON,
                    op,
                    f"%{name} is poison in the predicate '{predicate_text(predicate, named)}'",
                    lane,
                    value_name=name,
                    boundary_kind="predicate",
                )


def _holds(predicate: Predicate, named: Sequence[Value], values: Sequence[RuntimeValue]) -> Array:
    reading = _unsigned if predicate.name in UNSIGNED else _number
    width = max((format_of(named[a.index].type).bits for a in predicate.args if isinstance(a, Ref)), default=64)
    arguments: list[Array] = []
    for argument in predicate.args:
        if isinstance(argument, Ref):
            value = values[argument.index]
            arguments.append(reading(named[argument.index], value.value if isinstance(value, Poisoned) else value))
        elif predicate.name in UNSIGNED:
            arguments.append(np.asarray(argument & ((1 << width) - 1), dtype=np.uint64))
        else:
            arguments.append(np.asarray(argument, dtype=np.int64))
    with np.errstate(all="ignore"):
        return np.asarray(MEANINGS[predicate.name](*arguments))


def _number(named: Value, value: Array) -> Array:
    """The mathematical value: ``int64``, or ``float64`` for floats; ``i1`` is 0 or 1."""
    format = format_of(named.type)
    return floats.to_f64(format, value) if format.kind is Kind.FLOAT else value.astype(np.int64)


def _unsigned(named: Value, value: Array) -> Array:
    return unsigned(format_of(named.type), value).astype(np.uint64)
