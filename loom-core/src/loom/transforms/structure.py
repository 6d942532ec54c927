"""Putting a body of several blocks in place of a call: branches become conditionals.

A graph without cycles can be written with ``scf.if``. Behind a branch the sides run up to the block that all paths
from there go through, its immediate postdominator, whose arguments are what the conditional yields. Where a side
returns early there is none, and what follows is copied into the sides. Structured bodies go wherever calls may stand,
also into the regions of loops and conditionals.
"""

from __future__ import annotations

from typing import Final

from loom.dialects.scf import ops as scf
from loom.ir.core import Block, Op, Region, Value
from loom.ir.types import Type

RETURNS: Final = frozenset({"func.return", "template.return"})
# Copies of blocks that early returns may cost, for each block of the body.
MAX_COPIES: Final = 4


class Unstructured(Exception):
    """The body has no structured form here: ``reason`` says why, ``at`` is the operation that it is about."""

    def __init__(self, reason: str, at: Op) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


def structured_copy(body: Region, arguments: list[Value], result_types: list[Type]) -> tuple[list[Op], list[Value]]:
    """Detached copies of a body's operations with its branches as conditionals, and the values that it returns.

    Raises :class:`Unstructured` and leaves nothing behind when that is not possible.
    """
    order = _topological(body)
    writer = _Writer(order, _postdominators(order), result_types)
    writer.mapping.update(zip(body.entry.args, arguments, strict=True))
    block = Block()
    try:
        values = writer.write(body.entry, None, block)
    except Unstructured:
        for op in writer.made:
            op.drop_references()
        raise
    copied = list(block)
    for op in copied:
        op.detach()
    return copied, values


def _successors(block: Block) -> list[Block]:
    end = block.last
    assert end is not None
    if end.name not in RETURNS and end.name not in ("cfg.br", "cfg.cond_br"):
        raise Unstructured(f"'{end.name}' ends a block", end)
    return list(end.successors)


def _topological(body: Region) -> list[Block]:
    """The blocks that the entry reaches, each before those it branches to."""
    found: list[Block] = []
    entered: set[Block] = set()
    left: set[Block] = set()
    stack = [(body.entry, iter(_successors(body.entry)))]
    entered.add(body.entry)
    while stack:
        block, following = stack[-1]
        successor = next(following, None)
        if successor is None:
            stack.pop()
            left.add(block)
            found.append(block)
        elif successor not in entered:
            entered.add(successor)
            stack.append((successor, iter(_successors(successor))))
        elif successor not in left:
            end = block.last
            assert end is not None
            raise Unstructured("its blocks form a loop", end)
    return found[::-1]


def _postdominators(order: list[Block]) -> dict[Block, Block | None]:
    """The immediate postdominator of each block; ``None`` is the end of the body."""
    numbers = {block: number for number, block in enumerate(order)}
    found: dict[Block, Block | None] = {}

    def common(a: Block | None, b: Block | None) -> Block | None:
        while a is not b:
            # What comes later in the order is nearer to the end.
            if a is None or b is None:
                return None
            if numbers[a] < numbers[b]:
                a = found[a]
            else:
                b = found[b]
        return a

    for block in reversed(order):
        successors = _successors(block)
        nearest: Block | None = successors[0] if successors else None
        for successor in successors[1:]:
            nearest = common(nearest, successor)
        found[block] = nearest
    return found


class _Writer:
    def __init__(self, order: list[Block], meeting: dict[Block, Block | None], result_types: list[Type]) -> None:
        self.meeting = meeting
        self.result_types = result_types
        self.mapping: dict[Value, Value] = {}
        self.made: list[Op] = []  # All that uses values of the caller.
        self._written: set[Block] = set()
        self._copies = MAX_COPIES * len(order)

    def write(self, block: Block, stop: Block | None, out: Block) -> list[Value]:
        """Write what runs from a block up to another one; the arguments of that, or what is returned."""
        current = block
        while True:
            end = self._copy(current, out)
            if end.name in RETURNS:
                return self._values(end)
            following: Block | None
            if end.name == "cfg.br":
                values, following = self._values(end), end.successors[0]
            else:
                following = self.meeting[current]
                values = self._branch(end, following, out)
            if following is stop or following is None:
                return values
            self.mapping.update(zip(following.args, values, strict=True))
            current = following

    def _values(self, end: Op) -> list[Value]:
        return [self.mapping.get(v, v) for v in end.operands]

    def _copy(self, block: Block, out: Block) -> Op:
        end = block.last
        assert end is not None
        if block in self._written:
            once = next((op for outer in block for op in outer.walk() if "convergent" in op.spec.traits), None)
            if once is not None:
                raise Unstructured(f"'{once.name}' would be copied into both sides of a branch", once)
            self._copies -= 1
            if self._copies < 0:
                raise Unstructured("early returns would copy too many of its blocks", end)
        self._written.add(block)
        for op in block:
            if op is not end:
                self._append(op.clone(self.mapping), out)
        return end

    def _branch(self, end: Op, meeting: Block | None, out: Block) -> list[Value]:
        types = self.result_types if meeting is None else [arg.type for arg in meeting.args]
        if any(True for type_ in types for _ in type_.values()):
            raise Unstructured("types that depend on values meet behind a branch", end)
        regions = []
        for successor in end.successors:
            side = Block()
            # A branch has no payload, so that a side without blocks hands on nothing.
            values = [] if successor is meeting else self.write(successor, meeting, side)
            self._append(scf.Yield(values, [], segments=(len(values),), loc=end.loc), side)
            regions.append(Region([side]))
        condition = self.mapping.get(end.operands[0], end.operands[0])
        made = scf.If.build(condition=condition, result_types=list(types), regions=regions, loc=end.loc)
        self._append(made, out)
        return list(made.results)

    def _append(self, op: Op, out: Block) -> None:
        out.append(op)
        self.made.append(op)
