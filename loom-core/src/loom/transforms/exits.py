"""``kernel.exit`` as structured control flow: what follows runs only where the invocation stays."""

from __future__ import annotations

from typing import Any

from loom.dialects.scf.ops import If, Yield
from loom.ir.core import Block, Op, Region


def nest_exits(kernel: Op) -> None:
    """Move what follows each ``kernel.exit`` of a kernel to the false side of an ``scf.if``.

    The work of the exit itself moves to the true side. A body with several blocks is left alone: there the tail
    of a block is not the tail of the kernel.
    """
    if kernel.name != "kernel.def" or len(kernel.regions[1].blocks) != 1:
        return
    for op in [op for op in kernel.regions[1].entry if op.name == "kernel.exit"]:
        _nest(op)


def _nest(op: Any) -> None:
    block = op.parent
    ops = list(block)
    end = ops[-1]
    leaving = Region([Block()])
    if op.body is not None:
        _move([inner for inner in op.body.entry if "return" not in inner.spec.traits], leaving)
    staying = Region([Block()])
    _move(ops[ops.index(op) + 1 : -1], staying)
    for region in (leaving, staying):
        region.entry.append(Yield.build(loc=op.loc))
    choice = If.build(condition=op.condition, result_types=[], regions=[leaving, staying], loc=op.loc)
    choice.insert_before(end)
    op.erase()


def _move(ops: list[Op], region: Region) -> None:
    for op in ops:
        op.detach()
        region.entry.append(op)
