"""Values that are literal: known without any analysis."""

from __future__ import annotations

from loom.ir.core import Value


def index_constant(value: Value) -> int | None:
    """The integer of an ``index.constant``, or ``None`` when something else defines the value."""
    op = value.defining_op
    if op is None or op.name != "index.constant":
        return None
    found = op.attribute("value")
    return found if isinstance(found, int) else None
