"""Rules of the ``pool`` dialect (language reference, part 2, section 14.1)."""

from __future__ import annotations

from typing import Any

from loom.dialects.vector.checks import operand_error
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import ERROR


def blocks(op: Any) -> list[Diagnostic] | None:
    """The pool manages blocks of one size; a borrowed memory (bare ``pool``) does not."""
    type_ = op.pool.type
    if type_ is ERROR or len(type_.dims) == 1:
        return None
    return [operand_error(op, "pool", type_, "a pool with a block size")]
