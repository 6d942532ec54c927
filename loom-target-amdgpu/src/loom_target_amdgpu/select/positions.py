"""Index arithmetic that accesses alone read.

An address is put together from the terms of a position (see ``linear``), not from the number that the program computes
on the way. Where nothing else reads such a number, no instruction has to compute it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from loom.facts.analysis import FunctionFacts
from loom.ir.core import Op, Value
from loom.ir.types import ShapedType

# Operation -> operands that are multiplied by each other: read as numbers unless one of them is a constant.
_FACTORS: Final[Mapping[str, int]] = {"index.add": 0, "index.sub": 0, "index.mul": 2, "index.scale": 2, "index.madd": 2}
# Access -> the operand that is a view; indices follow it.
_ACCESSES: Final[Mapping[str, int]] = {
    "view.load": 0,
    "view.store": 1,
    "view.subview": 0,
    "vector.load": 0,
    "vector.store": 1,
}


def only_positions(found: Mapping[str, Iterable[Op]], facts: FunctionFacts) -> set[Value]:
    """Results of index arithmetic that nothing reads as numbers. ``found`` has the operations of a body by name."""
    results = {op.results[0] for name in _FACTORS for op in found.get(name, ())}
    read = [value for value in results if value.dependents or any(_reads(user, value, facts) for user in value.uses)]
    results.difference_update(read)
    while read:
        op = read.pop().defining_op
        assert op is not None
        for operand in op.operands:
            if operand in results:
                results.remove(operand)
                read.append(operand)
    return results


def _reads(user: Op, value: Value, facts: FunctionFacts) -> bool:
    """Whether an operation reads a value as a number, even if nothing reads its own result."""
    factors = _FACTORS.get(user.name)
    if factors is not None:
        product = user.operands[:factors]
        return value in product and all(facts.exact(factor) is None for factor in product)
    view = _ACCESSES.get(user.name)
    if view is None or value in user.operands[: view + 1]:
        return True
    type_ = user.operands[view].type
    # Strides that are not known are multiplied.
    return not isinstance(type_, ShapedType) or type_.dynamic or type_.encoding is not None
