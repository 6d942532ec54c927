"""Declarations of the ``group`` dialect (language reference, part 2, section 14.2)."""

from __future__ import annotations

from loom.dialects.group import verify as v
from loom.ir.core import Op, Value
from loom.spec import constraints as c
from loom.spec import model as s


@s.op(
    "group.create",
    " $size : type($size) -> type($result)",
    traits=("unique_identity",),
    verify=v.create,
)
class Create(Op):
    """A fresh scheduling group of so many lanes; two groups of one size are different groups."""

    size: Value = s.operand(c.INDEX)
    result: Value = s.result(c.GROUP)
