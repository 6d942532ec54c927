"""Conditionals that choose less than they seem to (language reference, part 1, section 13.2, folding)."""

from __future__ import annotations

from typing import Any

from loom.dialects.scf import ops as scf
from loom.ir.core import Op
from loom.ir.types import ADDRESSES, FLOATS, I1, INTEGERS
from loom.transforms.fold import constant_of

SCALARS = INTEGERS | ADDRESSES | FLOATS


def forward_yields(op: Any) -> bool:
    """Replace results whose value needs no conditional: equal yields, and true and false, which are the condition."""
    if len(op.regions) < 2:
        return False
    changed = False
    first, second = (region.entry.last.operands for region in op.regions)
    for result, then, other in zip(op.results, first, second, strict=True):
        value = None
        if then is other and result.type == then.type:
            value = then
        elif result.type is I1 and (constant_of(then), constant_of(other)) == (True, False):
            value = op.condition
        if value is not None and result.is_used:
            result.replace_all_uses(value)
            changed = True
    return changed


def choose_values(op: Any) -> bool:
    """Replace a conditional whose regions only yield scalars by choices between these."""
    if len(op.regions) < 2 or not op.results or any(r.type not in SCALARS for r in op.results):
        return False
    blocks = [region.entry for region in op.regions]
    if any(block.first is not block.last for block in blocks):
        return False
    values = []
    for result, then, other in zip(op.results, *(block.last.operands for block in blocks), strict=True):
        choice = scf.Select.build(
            condition=op.condition, true_value=then, false_value=other, result_types=[result.type], loc=op.loc
        )
        choice.insert_before(op)
        values.append(choice.result)
    op.replace_with(values)
    return True


def drop_unused_results(op: Op) -> bool:
    """Drop results that nothing uses, and what the regions yield for them."""
    kept = [result.index for result in op.results if result.is_used]
    if len(kept) == len(op.results):
        return False
    for region in op.regions:
        end = region.entry.last
        assert end is not None
        yielded = [end.operands[index] for index in kept]
        end.set_operands(yielded, (len(yielded),))
    op.results = [op.results[index] for index in kept]
    for index, result in enumerate(op.results):
        result.index = index
    return True
