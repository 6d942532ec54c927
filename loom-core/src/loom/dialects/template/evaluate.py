"""What template calls mean. Applications have been resolved to calls before evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import loom.dialects.func.evaluate as _calls
from loom.evaluate.faults import unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue


@evaluates("template.call")
def call(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Calls one named provider."""
    return _calls.call_function(frame, op, _calls.find_callee(frame, op, op.callee), operands)


@evaluates("template.apply")
def apply(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Says why an unresolved application cannot run."""
    raise unsupported(
        op, f"no provider of '@{op.family}' has been selected", hint="link and specialize the module first"
    )
