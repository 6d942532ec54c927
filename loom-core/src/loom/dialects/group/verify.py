"""Rules of the ``group`` dialect (language reference, part 2, section 14.2)."""

from __future__ import annotations

from typing import Any

from loom.dialects.constants import index_constant
from loom.dialects.scf.verify import out_of_contract
from loom.dialects.vector.checks import result_error
from loom.ir.diagnostics import Diagnostic


def create(op: Any) -> list[Diagnostic] | None:
    """The type of the group has one extent: the operand, or the number that is known of it. Older types have none."""
    size = index_constant(op.size)
    if size is not None and size < 1:
        return [out_of_contract(op, "size", size, "at least 1")]
    dims = op.result.type.dims
    if not dims or (len(dims) == 1 and (dims[0] is op.size or (size is not None and dims[0] == size))):
        return None
    return [result_error(op, op.result.type, f"group<[%{op.size.name or '?'}]>")]
