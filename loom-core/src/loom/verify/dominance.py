"""Dominance and successor rules (language reference, part 1, sections 2.10 and 12)."""

from __future__ import annotations

from loom.ir.core import Block, Op, Region, Value
from loom.ir.diagnostics import Diagnostic, Location, Related
from loom.ir.types import ERROR, EncodingType, ShapedType


def dominators(region: Region) -> dict[Block, Block | None]:
    """Immediate dominator of every reachable block (Cooper, Harvey and Kennedy's iteration); entry -> ``None``."""
    order: list[Block] = []
    seen: set[Block] = set()
    stack: list[tuple[Block, int]] = [(region.entry, 0)]
    seen.add(region.entry)
    while stack:
        block, at = stack.pop()
        successors = block.last.successors if block.last is not None else []
        if at < len(successors):
            stack.append((block, at + 1))
            nxt = successors[at]
            if nxt not in seen and nxt.parent is region:
                seen.add(nxt)
                stack.append((nxt, 0))
        else:
            order.append(block)
    order.reverse()
    number = {block: i for i, block in enumerate(order)}
    predecessors: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for nxt in block.last.successors if block.last is not None else []:
            if nxt in predecessors:
                predecessors[nxt].append(block)
    idom: dict[Block, Block | None] = {region.entry: region.entry}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            new: Block | None = None
            for predecessor in predecessors[block]:
                if predecessor not in idom:
                    continue
                new = predecessor if new is None else _meet(new, predecessor, idom, number)
            if new is not None and idom.get(block) is not new:
                idom[block] = new
                changed = True
    idom[region.entry] = None
    return idom


def _meet(a: Block, b: Block, idom: dict[Block, Block | None], number: dict[Block, int]) -> Block:
    while a is not b:
        while number[a] > number[b]:
            up = idom[a]
            assert up is not None
            a = up
        while number[b] > number[a]:
            up = idom[b]
            assert up is not None
            b = up
    return a


class DominanceChecker:
    """Walks a module-level op with the set of values whose definitions dominate the current point."""

    __slots__ = ("_reported", "findings", "visible")

    def __init__(self) -> None:
        self.visible: set[Value] = set()
        self.findings: list[Diagnostic] = []
        self._reported: set[tuple[Value, Op | Block]] = set()

    def op(self, op: Op) -> None:
        """Check one operation and everything inside it, then make its results visible."""
        visible = self.visible
        for operand in op.operands:
            if operand not in visible:
                self._report(operand, op)
        for region in op.regions:
            self.region(region)
        for result in op.results:
            visible.add(result)
        for result in op.results:
            if not result.type.text:
                self._type(result, op)

    def region(self, region: Region) -> None:
        """Check a region; what it defines is invisible outside."""
        if not region.blocks:
            return
        added: list[Value] = []
        if len(region.blocks) == 1:
            self._block(region.blocks[0], added)
            self._successors(region.blocks[0], region)
        else:
            self._graph(region, added)
        self.visible.difference_update(added)

    def _block(self, block: Block, added: list[Value]) -> None:
        visible = self.visible
        for arg in block.args:
            visible.add(arg)
            added.append(arg)
        for arg in block.args:
            if not arg.type.text:
                self._type(arg, block)
        op = block.first
        while op is not None:
            if op.regions:
                self.op(op)
                added.extend(op.results)
            else:
                for operand in op.operands:
                    if operand not in visible:
                        self._report(operand, op)
                dynamic = False
                for result in op.results:
                    visible.add(result)
                    added.append(result)
                    dynamic |= not result.type.text
                if dynamic:
                    # Results of one list may name each other in any order.
                    for result in op.results:
                        if not result.type.text:
                            self._type(result, op)
            op = op.next

    def _graph(self, region: Region, added: list[Value]) -> None:
        for block in region.blocks:
            self._successors(block, region)
        idom = dominators(region)
        children: dict[Block, list[Block]] = {}
        for block, parent in idom.items():
            if parent is not None:
                children.setdefault(parent, []).append(block)
        frames: list[tuple[Block, bool, list[Value]]] = [(region.entry, False, [])]
        while frames:
            block, done, own = frames.pop()
            if done:
                if block is not region.entry:
                    self.visible.difference_update(own)
                else:
                    added.extend(own)
                continue
            self._block(block, own)
            frames.append((block, True, own))
            frames.extend((child, False, []) for child in children.get(block, ()))

    def _successors(self, block: Block, region: Region) -> None:
        end = block.last
        if end is None:
            return
        for i, successor in enumerate(end.successors):
            if successor.parent is not region or successor is region.entry:
                what = "the entry block" if successor is region.entry else "a block of another region"
                self.findings.append(
                    Diagnostic(
                        "STRUCTURE/024",
                        f"'{end.name}' branches to {what}",
                        end.loc,
                        {"op_name": end.name, "successor_index": i},
                    )
                )
                continue
            payload = end.operands if end.name.endswith(".br") else []
            if len(payload) != len(successor.args):
                self.findings.append(
                    Diagnostic(
                        "STRUCTURE/025",
                        f"'{end.name}' passes {len(payload)} values to a block with {len(successor.args)} arguments",
                        end.loc,
                        {
                            "op_name": end.name,
                            "successor_index": i,
                            "actual_count": len(payload),
                            "expected_count": len(successor.args),
                        },
                    )
                )
                continue
            mapping = dict(zip(successor.args, payload, strict=True))
            for j, (value, arg) in enumerate(zip(payload, successor.args, strict=True)):
                expected = arg.type.substitute(mapping)
                if value.type != expected and ERROR not in (value.type, expected):
                    self.findings.append(
                        Diagnostic(
                            "STRUCTURE/026",
                            f"'{end.name}' passes {value.type} where the block takes {expected}",
                            end.loc,
                            {
                                "op_name": end.name,
                                "successor_index": i,
                                "argument_index": j,
                                "actual_type": value.type,
                                "expected_type": expected,
                            },
                        )
                    )

    def _type(self, value: Value, place: Op | Block) -> None:
        """What the type of a value names is visible, and what it names as its encoding is an encoding."""
        type_ = value.type
        encoding = type_.encoding if isinstance(type_, ShapedType) and isinstance(type_.encoding, Value) else None
        for named in type_.values():
            if named in self.visible:
                if named is encoding and not isinstance(named.type, EncodingType) and named.type is not ERROR:
                    self._encoding(named, place, "ENCODING/005", f"is {named.type}, not an encoding")
            elif named is encoding:
                self._encoding(named, place, "ENCODING/004", "is not defined where a type names it as its encoding")
            else:
                self._report(named, place)

    def _encoding(self, named: Value, place: Op | Block, code: str, problem: str) -> None:
        name = named.name or "?"
        params: dict[str, object] = {"field_name": "encoding", "value_name": name}
        if code == "ENCODING/005":
            params["actual_type"] = named.type
        related = _definition(named)
        self.findings.append(Diagnostic(code, f"'%{name}' {problem}", _place(place), params, related=related))

    def _report(self, value: Value, place: Op | Block) -> None:
        if (value, place) in self._reported:
            return
        self._reported.add((value, place))
        name = value.name or "?"
        self.findings.append(
            Diagnostic(
                "DOMINANCE/001",
                f"'%{name}' is used where its definition does not dominate",
                _place(place),
                {"value_name": name},
                related=_definition(value),
            )
        )


def _place(place: Op | Block) -> Location:
    """Where to point: the entry block of a body has no place of its own."""
    if place.loc is None and isinstance(place, Block) and place.parent is not None and place.parent.parent is not None:
        return place.parent.parent.loc
    return place.loc


def _definition(value: Value) -> tuple[Related, ...]:
    """A note with the place where a value is defined, if it has one."""
    owner = value.owner
    where = owner.loc if isinstance(owner, Op) else None
    return (Related(f"'%{value.name or '?'}' is defined here", where),) if where is not None else ()
