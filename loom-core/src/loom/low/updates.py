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
    found: dict[VReg, dict[VReg, None]] = {}
    for block in function.blocks:
        for edge in block.edges:
            for parameter, value in zip(edge.block.params, edge.args, strict=True):
                found.setdefault(value, {})[parameter] = None
    return found


def update_last(graph: DependenceGraph, updates: Updates, live_out: Collection[VReg]) -> None:
    """Order the instruction that makes a new value of a parameter out of the old one behind all others that read the
    old one, where nothing speaks against it."""
    found = [
        (node, parameter)
        for node, members in enumerate(graph.members)
        for instruction in members
        for result in instruction.results
        if result in updates
        for parameter in updates[result]
        if parameter not in live_out and parameter in instruction.operands
    ]
    if not found:
        return
    readers: dict[VReg, set[int]] = {parameter: set() for _, parameter in found}
    for node, members in enumerate(graph.members):
        for instruction in members:
            for value in instruction.operands:
                if value in readers:
                    readers[value].add(node)
    for node, parameter in found:
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
