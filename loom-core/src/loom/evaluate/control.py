"""Control-flow graphs: branches of lanes that may part and meet again.

Each lane is at one block. Of the blocks that have lanes the first in convergence order runs, with all lanes that are
at it: a lane waits at a join until no other can still come, and behind a loop until all have left it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loom.evaluate.machine import Results, returned
from loom.evaluate.numeric.formats import Array
from loom.evaluate.poison import evaluate_with_poison
from loom.ir.core import Block, Op, Region

if TYPE_CHECKING:
    from loom.evaluate.frame import Frame


def run_graph(frame: Frame, body: Region, mask: Array | None) -> Results:
    """Run a region of several blocks until every active lane has returned; merges the returned values by lane."""
    order = convergence_order(body)
    position = {block: i for i, block in enumerate(order)}
    waiting: dict[int, Array] = {0: np.ones(frame.machine.lanes.count, dtype=np.bool_) if mask is None else mask}
    results: Results | None = None
    while waiting:
        at = min(waiting)
        lanes = waiting.pop(at)
        end = _run_block(frame, order[at], None if lanes.all() else lanes)
        if frame.exited is not None:
            lanes = lanes & ~frame.exited
            if not lanes.any():
                continue
        if not end.successors:
            values = returned(frame, end)
            if results is None:
                results = values
            else:
                results = [
                    frame.merge(end, operand, lanes, new, old)
                    for operand, new, old in zip(end.operands, values, results, strict=True)
                ]
            continue
        frame.machine.program.step(end)
        for block, taken in _targets(frame, end, lanes):
            index = position[block]
            waiting[index] = waiting[index] | taken if index in waiting else taken
    # When every lane left the kernel early, none came to its end, which returns nothing.
    return [] if results is None else results


def _run_block(frame: Frame, block: Block, mask: Array | None) -> Op:
    """Run a block without disturbing what lanes outside the mask computed in it when they passed it earlier."""
    machine = frame.machine
    if mask is None:
        return frame.run_block(block, None)
    env = frame.env
    frame.mask = mask
    exited = frame.exited
    for rule, op in machine.program.rules_of(block):
        values = evaluate_with_poison(frame, rule, op, [env[v] for v in op.operands])
        frame.mask = mask
        for result, value in zip(op.results, values, strict=True):
            env[result] = frame.merge(op, result, mask, value, env[result]) if result in env else value
        if frame.exited is not exited:
            exited = frame.exited
            assert exited is not None
            mask = frame.mask = mask & ~exited
            if not mask.any():
                break
    assert block.last is not None
    return block.last


def _targets(frame: Frame, end: Op, lanes: Array) -> list[tuple[Block, Array]]:
    """Where the lanes go; block arguments receive the branch operands of exactly those lanes."""
    if len(end.successors) == 1:
        block = end.successors[0]
        values = [frame.env[v] for v in end.operands]
        everyone = bool(lanes.all())
        for parameter, value in zip(block.args, values, strict=True):
            old = frame.env.get(parameter)
            frame.env[parameter] = value if everyone or old is None else frame.merge(end, parameter, lanes, value, old)
        return [(block, lanes)]
    condition = frame.condition(end, frame.env[end.operands[0]])
    true = lanes & condition
    false = lanes & ~condition
    return [(block, taken) for block, taken in zip(end.successors, (true, false), strict=True) if taken.any()]


def convergence_order(body: Region) -> list[Block]:
    """The reachable blocks: each before all it leads to, but that a loop's blocks precede what follows the loop.

    Loops are the strongly connected components; the first block of one is its head, and the rest is ordered the same
    way without the edges back to the head.
    """
    order: list[Block] = []
    pending: list[tuple[list[Block], list[Block]]] = [([body.entry], _postorder([body.entry], None))]
    while pending:
        entries, blocks = pending.pop()
        components = _components(entries, set(blocks))
        if len(components) == 1 and len(blocks) > 1:
            head = components[0][0]
            order.append(head)
            rest = [b for b in blocks if b is not head]
            pending.append(([s for s in _successors(head) if s is not head], rest))
            continue
        if len(blocks) == 1:
            order.extend(blocks)
            continue
        pending.extend(([component[0]], component) for component in reversed(components))
    return order


def _components(entries: list[Block], inside: set[Block]) -> list[list[Block]]:
    """Strongly connected components in topological order, each with its first block in front (Kosaraju)."""
    finished = _postorder(entries, inside)
    before: dict[Block, list[Block]] = {block: [] for block in finished}
    for block in finished:
        for successor in _successors(block):
            if successor in inside:
                before[successor].append(block)
    components: list[list[Block]] = []
    placed: set[Block] = set()
    for root in reversed(finished):
        if root in placed:
            continue
        placed.add(root)
        component = [root]
        for block in component:
            for predecessor in before[block]:
                if predecessor not in placed:
                    placed.add(predecessor)
                    component.append(predecessor)
        components.append(component)
    return components


def _postorder(roots: list[Block], inside: set[Block] | None) -> list[Block]:
    """Blocks reachable from the roots, each behind those reached through it."""
    order: list[Block] = []
    seen: set[Block] = set()
    for root in roots:
        if root in seen or (inside is not None and root not in inside):
            continue
        seen.add(root)
        stack = [(root, iter(_successors(root)))]
        while stack:
            block, successors = stack[-1]
            for successor in successors:
                if successor not in seen and (inside is None or successor in inside):
                    seen.add(successor)
                    stack.append((successor, iter(_successors(successor))))
                    break
            else:
                order.append(block)
                stack.pop()
    return order


def _successors(block: Block) -> list[Block]:
    return block.last.successors if block.last is not None else []
