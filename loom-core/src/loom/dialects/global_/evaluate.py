"""What module-private state means: one value per symbol, which host code changes and kernels read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loom.evaluate.faults import FaultCode, unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue, literal
from loom.ir.types import ScalarType


def _declaration(frame: Frame, op: Any) -> Any:
    declaration = frame.machine.program.symbols.get(op.symbol)
    if declaration is None or not isinstance(op.operands[0].type if op.operands else op.results[0].type, ScalarType):
        raise unsupported(op, f"'{op.name}' of '@{op.symbol}', which is no scalar global of this module")
    return declaration


@evaluates("global.load")
def load(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The value stored last, or the initial one."""
    declaration = _declaration(frame, op)
    state = frame.machine.program.globals
    if op.symbol not in state:
        if declaration.value is None:
            raise frame.fault(
                FaultCode.UNINITIALIZED,
                op,
                f"'@{op.symbol}' has no value yet",
                frame.first_active,
                symbol_name=op.symbol,
            )
        state[op.symbol] = literal(declaration.type, declaration.value)
    return (state[op.symbol],)


@evaluates("global.store")
def store(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Replaces the value; only host code may, because work-items would race."""
    _declaration(frame, op)
    if frame.machine.lanes.geometry is not None:
        raise unsupported(op, "a kernel changes a global")
    value = operands[0]
    frame.machine.program.globals[op.symbol] = value if value.ndim == 0 else value[frame.first_active].copy()
    return ()
