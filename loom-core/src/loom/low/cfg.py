"""Shape of a machine function's control flow: predecessors, dominators, loop depth, well-formedness."""

from __future__ import annotations

from loom.low.machine import Block, Function, Instruction, Kind, VReg


class MachineError(Exception):
    """A machine function breaks a structural rule; ``loc`` is the place, where one is known."""

    def __init__(self, message: str, loc: object = None) -> None:
        super().__init__(message)
        self.message = message
        self.loc = loc


def predecessors(function: Function) -> dict[Block, list[Block]]:
    """Block -> predecessors in block order; a block appears once per edge."""
    result: dict[Block, list[Block]] = {block: [] for block in function.blocks}
    for block in function.blocks:
        for edge in block.edges:
            result[edge.block].append(block)
    return result


def reverse_postorder(function: Function) -> list[Block]:
    """Reachable blocks, each before its successors except along back edges."""
    seen = {function.blocks[0]}
    postorder: list[Block] = []
    stack = [(function.blocks[0], iter(function.blocks[0].edges))]
    while stack:
        block, edges = stack[-1]
        for edge in edges:
            if edge.block not in seen:
                seen.add(edge.block)
                stack.append((edge.block, iter(edge.block.edges)))
                break
        else:
            stack.pop()
            postorder.append(block)
    postorder.reverse()
    return postorder


def immediate_dominators(function: Function) -> dict[Block, Block]:
    """Reachable block -> immediate dominator; the entry maps to itself.

    The iterative scheme of Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
    """
    order = reverse_postorder(function)
    number = {block: index for index, block in enumerate(order)}
    before = predecessors(function)
    parent = [0] + [-1] * (len(order) - 1)
    changed = True
    while changed:
        changed = False
        for index in range(1, len(order)):
            best = -1
            for block in before[order[index]]:
                other = number.get(block, -1)
                if other < 0 or parent[other] < 0:
                    continue
                if best < 0:
                    best = other
                    continue
                while best != other:
                    while best > other:
                        best = parent[best]
                    while other > best:
                        other = parent[other]
            if parent[index] != best:
                parent[index] = best
                changed = True
    return {block: order[parent[index]] for index, block in enumerate(order)}


def dominates(dominators: dict[Block, Block], above: Block, below: Block) -> bool:
    """True when every path from the entry to ``below`` passes ``above``."""
    while below is not above:
        parent = dominators[below]
        if parent is below:
            return False
        below = parent
    return True


def loop_depths(function: Function) -> dict[Block, int]:
    """Number of natural loops around each reachable block."""
    dominators = immediate_dominators(function)
    number = {block: index for index, block in enumerate(dominators)}
    before = predecessors(function)
    bodies: dict[Block, set[Block]] = {}
    for block in dominators:
        for edge in block.edges:
            # Blocks come in reverse postorder, where nothing follows what it dominates.
            if number[edge.block] > number[block] or not dominates(dominators, edge.block, block):
                continue
            body = bodies.setdefault(edge.block, {edge.block})
            work = [block]
            while work:
                inside = work.pop()
                if inside not in body and inside in dominators:
                    body.add(inside)
                    work.extend(before[inside])
    depths = dict.fromkeys(dominators, 0)
    for body in bodies.values():
        for inside in body:
            depths[inside] += 1
    return depths


def verify_structure(function: Function) -> None:
    """Check what every algorithm of this package relies on.

    Raises:
        MachineError: a block does not end in its only terminator, an edge leads to the entry block or
            out of the function, argument and parameter lists differ, a conditional edge carries
            arguments, a live-in is not first, or a value is defined twice.
    """
    if not function.blocks:
        raise MachineError(f"@{function.name} has no blocks")
    known = set(function.blocks)
    defined: set[VReg] = set()
    for block in function.blocks:
        if not block.instructions or not block.terminator.is_terminator:
            raise MachineError(f"block ^{block.label} of @{function.name} has no terminator")
        for value in block.params:
            _define(value, defined, None)
        live_ins_may_follow = block is function.blocks[0]
        for instruction in block.instructions:
            if instruction.kind is Kind.LIVE_IN and not live_ins_may_follow:
                raise MachineError("a live-in must come first in the entry block", instruction.loc)
            live_ins_may_follow = live_ins_may_follow and instruction.kind is Kind.LIVE_IN
            for value in instruction.results:
                _define(value, defined, instruction)
            if instruction.is_terminator and instruction is not block.terminator:
                raise MachineError(f"terminator in the middle of block ^{block.label}", instruction.loc)
        for edge in block.edges:
            _verify_edge(function, block, edge.block, edge.args, known)


def _define(value: VReg, defined: set[VReg], where: Instruction | None) -> None:
    if value in defined:
        raise MachineError(f"{value!r} is defined twice", where.loc if where is not None else None)
    defined.add(value)


def _verify_edge(function: Function, block: Block, target: Block, args: list[VReg], known: set[Block]) -> None:
    loc = block.terminator.loc
    if target not in known:
        raise MachineError(f"block ^{block.label} branches out of @{function.name}", loc)
    if target is function.blocks[0]:
        raise MachineError(f"block ^{block.label} branches to the entry block", loc)
    if args and block.terminator.kind is not Kind.BRANCH:
        raise MachineError(f"only an unconditional branch may carry values (block ^{block.label})", loc)
    shapes = [(value.reg_class, value.units) for value in args]
    if shapes != [(value.reg_class, value.units) for value in target.params]:
        raise MachineError(f"the values block ^{block.label} passes do not match ^{target.label}", loc)
