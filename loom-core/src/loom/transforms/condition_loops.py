"""Values of ``scf.while`` that need no loop (language reference, part 1, section 13.4, folding).

A header value that every iteration hands back unchanged is its initial value, and what is handed on from outside of the
loop is just that. Values that are only handed round go away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loom.ir.core import Op, Value


def forward_invariants(loop: Any) -> bool:
    """Replace values that are the same in every iteration; whether something changed."""
    changed = False
    while _forward_header(loop) or _forward_handed(loop):
        changed = True
    return changed


def drop_unused(loop: Any) -> bool:
    """Drop header and handed-on values that nobody uses but for handing them round; whether something changed."""
    condition, back = _end(loop, 0), _end(loop, 1)
    header, handed = loop.before.entry.args, loop.after.entry.args
    # What is used otherwise, and then whatever that is made of.
    live: set[Value] = {v for v in header if _has_other_uses(v, condition) or condition.operands[0] is v}
    live.update(v for v, result in zip(handed, loop.results, strict=True) if result.is_used or _has_other_uses(v, back))
    size = -1
    while size != len(live):
        size = len(live)
        live.update(v for v, argument in zip(condition.operands[1:], handed, strict=True) if argument in live)
        live.update(v for v, argument in zip(back.operands, header, strict=True) if argument in live)
    unused = [argument.index for argument in handed if argument not in live]
    dropped = [argument.index for argument in header if argument not in live]
    _drop_handed(loop, condition, unused)
    _drop_header(loop, dropped)
    return bool(unused or dropped)


def _has_other_uses(value: Value, end: Op) -> bool:
    return bool(value.dependents) or any(user is not end for user in value.uses)


def _end(loop: Any, region: int) -> Op:
    end: Op | None = loop.regions[region].entry.last
    assert end is not None
    return end


def _forward_header(loop: Any) -> bool:
    condition, back = _end(loop, 0), _end(loop, 1)
    for index, init in enumerate(loop.iter_args):
        argument, value = loop.before.entry.args[index], back.operands[index]
        if value.owner is loop.after.entry:
            # What the body hands back is what the first region handed on to it.
            value = condition.operands[1 + value.index]
        if (value is argument or value is init) and argument.type == init.type:
            argument.replace_all_uses(init)
            _drop_header(loop, [index])
            return True
    return False


def _forward_handed(loop: Any) -> bool:
    condition = _end(loop, 0)
    for index, result in enumerate(loop.results):
        argument, value = loop.after.entry.args[index], condition.operands[1 + index]
        if value.is_inside(loop) or not value.type == argument.type == result.type:
            continue
        argument.replace_all_uses(value)
        result.replace_all_uses(value)
        _drop_handed(loop, condition, [index])
        return True
    return False


def _drop_header(loop: Any, indices: Sequence[int]) -> None:
    if not indices:
        return
    kept = [i for i in range(len(loop.iter_args)) if i not in indices]
    back, block = _end(loop, 1), loop.before.entry
    back.set_operands([back.operands[i] for i in kept], (len(kept),))
    loop.set_operands([loop.iter_args[i] for i in kept], (len(kept),))
    block.args = _renumbered([block.args[i] for i in kept])


def _drop_handed(loop: Any, condition: Op, indices: Sequence[int]) -> None:
    if not indices:
        return
    kept = [i for i in range(len(loop.results)) if i not in indices]
    condition.set_operands([condition.operands[0], *(condition.operands[1 + i] for i in kept)], (1, len(kept)))
    block = loop.after.entry
    block.args = _renumbered([block.args[i] for i in kept])
    loop.results = _renumbered([loop.results[i] for i in kept])


def _renumbered(values: list[Value]) -> list[Value]:
    for index, value in enumerate(values):
        value.index = index
    return values
