"""What module-private state and constant data mean: a value per symbol, which host code changes and kernels read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from loom.evaluate.assumptions import check_predicates
from loom.evaluate.faults import FaultCode, unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.rules import evaluates
from loom.evaluate.values import (
    Buffer,
    Layout,
    Poisoned,
    RuntimeValue,
    View,
    constant_root,
    literal,
    vector_rank,
)
from loom.ir.types import Type


def _declaration(frame: Frame, op: Any) -> Any:
    declaration = frame.machine.program.symbols.get(op.symbol)
    if declaration is None or declaration.name == "global.rodata.decl":
        raise unsupported(op, f"'{op.name}' of '@{op.symbol}', which this module does not define")
    return declaration


@evaluates("global.load")
def load(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The value stored last, or the initial one, then what its type names. Constant data is a buffer."""
    declaration = _declaration(frame, op)
    state = frame.machine.program.globals
    if op.symbol not in state:
        if declaration.name == "global.rodata.def":
            state[op.symbol] = (constant_root(declaration.data),)
        elif declaration.value is None:
            raise frame.fault(
                FaultCode.UNINITIALIZED,
                op,
                f"'@{op.symbol}' has no value yet",
                frame.first_active,
                symbol_name=op.symbol,
            )
        else:
            state[op.symbol] = (literal(declaration.type, declaration.value),)
    return state[op.symbol]


@evaluates("global.store")
def store(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Replaces the value; only host code may, because work-items would race."""
    declaration = _declaration(frame, op)
    if frame.machine.lanes.geometry is not None:
        raise unsupported(op, "a kernel changes a global")
    type_ = op.value.type
    values = tuple(_settled(v.type, frame.env[v]) for v in (op.value, *dict.fromkeys(type_.values())))
    _check(frame, op, declaration, values)
    frame.machine.program.globals[op.symbol] = values
    return ()


def _check(frame: Frame, op: Any, declaration: Any, values: tuple[RuntimeValue, ...]) -> None:
    """What the declaration says of its value and of the names in its type must hold."""
    named = declaration.body.entry.args
    # Extents come first; the value itself has a name only if the predicates need it.
    about = (*values[1:], values[0])[: len(named)]
    check_predicates(frame, op, declaration.predicates, named, about, "declared")


def _settled(type_: Type, value: RuntimeValue) -> RuntimeValue:
    """A value of host code, which has one lane, as one without a lane axis."""
    if isinstance(value, np.ndarray):
        return value[0].copy() if value.ndim > vector_rank(type_) else value
    if isinstance(value, Poisoned):
        return value
    if isinstance(value, tuple):
        return tuple(_settled(type_, item) for item in value)
    if isinstance(value, Buffer | View | Layout):
        parts = {field.name: _settled(type_, getattr(value, field.name)) for field in attrs.fields(type(value))}
        return type(value)(**parts)
    return value
