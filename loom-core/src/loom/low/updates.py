"""Updates of loop-carried values after their last use.

A value that the next iteration receives in place of a parameter can share its register only if it is computed when
the parameter is not needed any more: ``i + 1`` behind everything that reads ``i``. Otherwise the edge back copies it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from loom.low.dependence import DependenceGraph
from loom.low.machine import Function, VReg

Updates = Mapping[VReg, Collection[VReg]]


def updates_of(function: Function) -> Updates:
    """Values that edges hand on -> the parameters that receive them."""
    found: dict[VReg, set[VReg]] = {}
    for block in function.blocks:
        for edge in block.edges:
            for parameter, value in zip(edge.block.params, edge.args, strict=True):
                found.setdefault(value, set()).add(parameter)
    return found


def update_last(graph: DependenceGraph, updates: Updates, live_out: Collection[VReg]) -> None:
    """Order the instruction that makes a new value of a parameter out of the old one behind all others that read the
    old one, where nothing speaks against it."""
    readers: dict[VReg, set[int]] = {}
    for node, members in enumerate(graph.members):
        for instruction in members:
            for value in instruction.operands:
                readers.setdefault(value, set()).add(node)
    for node, members in enumerate(graph.members):
        for instruction in members:
            for result in instruction.results:
                for parameter in updates.get(result, ()):
                    if parameter in live_out or parameter not in instruction.operands:
                        continue
                    others = readers[parameter] - {node}
                    if others and not others & _behind(graph, node):
                        for other in others:
                            graph.predecessors[node].setdefault(other, 0)


def _behind(graph: DependenceGraph, node: int) -> set[int]:
    """The nodes that have to follow a node."""
    successors = graph.successors()
    found: set[int] = set()
    work = [node]
    while work:
        for after, _ in successors[work.pop()]:
            if after not in found:
                found.add(after)
                work.append(after)
    return found
