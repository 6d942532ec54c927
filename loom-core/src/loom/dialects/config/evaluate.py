"""What reading a configuration value means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loom.evaluate.faults import unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.layouts import static_layout
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue, literal
from loom.ir.attributes import Encoding


@evaluates("config.get")
def get(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The bound value."""
    definition: Any = frame.machine.program.symbols.get(op.key)
    if definition is None or definition.name != "config.def":
        raise unsupported(
            op, f"the configuration value '@{op.key}' is not bound", hint="bind it with a 'config.def' or '--config'"
        )
    value = definition.value
    if isinstance(value, Encoding):
        return (static_layout(op, value) if value.family.startswith("encoding.layout.") else value,)
    return (literal(op.results[0].type, value),)
