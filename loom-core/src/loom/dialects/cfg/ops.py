"""Declarations of the ``cfg`` dialect (language reference, part 1, section 12)."""

from __future__ import annotations

from loom.ir.core import Block, Op, Value
from loom.spec import constraints as c
from loom.spec import model as s


@s.op("cfg.br", " $dest⟦$<payload args>⟧", traits=("terminator", "branch"))
class Br(Op):
    """Jump to a block with values for its arguments."""

    dest: Block = s.successor()
    args: list[Value] = s.operands(c.ANY)


@s.op("cfg.cond_br", " $condition, $true_dest, $false_dest", traits=("terminator", "branch"))
class CondBr(Op):
    """Jump to one of two blocks without arguments."""

    condition: Value = s.operand(c.I1)
    true_dest: Block = s.successor()
    false_dest: Block = s.successor()
