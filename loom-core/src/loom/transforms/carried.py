"""Carried values of counted loops that carry nothing (language reference, part 1, section 13.3, folding)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loom.ir.core import Op


def forward_invariants(loop: Any) -> bool:
    """Replace carried values that every iteration yields unchanged by their initial values."""
    changed = False
    block = loop.body.entry
    end: Op = block.last
    again = bool(loop.results)
    while again:
        again = False
        for index, init in enumerate(loop.iter_args):
            argument = block.args[1 + index]
            yielded = end.operands[index]
            # A type may name a sibling that is carried on: then the value is not the same thing in each iteration.
            if (yielded is argument or yielded is init) and argument.type == init.type == loop.results[index].type:
                argument.replace_all_uses(init)
                loop.results[index].replace_all_uses(init)
                _drop(loop, [index])
                again = changed = True
                break
    return changed


def drop_unused(loop: Any) -> bool:
    """Drop carried values that are used neither behind the loop nor inside it, but for being yielded on."""
    arguments = loop.body.entry.args[1:]
    end = loop.body.entry.last
    unused = []
    for index, (argument, result) in enumerate(zip(arguments, loop.results, strict=True)):
        if result.is_used or argument.dependents:
            continue
        if not argument.uses or (list(argument.uses) == [end] and end.operands.count(argument) == 1
                                 and end.operands[index] is argument):  # fmt: skip
            unused.append(index)
    _drop(loop, unused)
    return bool(unused)


def _drop(loop: Any, indices: Sequence[int]) -> None:
    """Take carried values, whose arguments and results have no other uses, out of a loop."""
    if not indices:
        return
    gone = set(indices)
    block = loop.body.entry
    end = block.last
    kept = [i for i in range(len(loop.results)) if i not in gone]
    yielded = [end.operands[i] for i in kept]
    end.set_operands(yielded, (len(yielded),))
    loop.set_group(loop.spec.operand_index["iter_args"], [loop.iter_args[i] for i in kept])
    block.args = [block.args[0], *(block.args[1 + i] for i in kept)]
    loop.results = [loop.results[i] for i in kept]
    for values in (block.args, loop.results):
        for index, value in enumerate(values):
            value.index = index
