"""Building operations from named fields, for transforms and lowerings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from loom.ir.core import Block, Op, Region, Value
from loom.ir.diagnostics import Location
from loom.ir.types import Type

O = TypeVar("O", bound=Op)  # noqa: E741  # the field's usual letter for an operation


def build_op(
    cls: type[O],
    result_types: Sequence[Type] | None,
    regions: Sequence[Region],
    successors: Sequence[Block],
    loc: Location,
    fields: Mapping[str, object],
) -> O:
    """Create ``cls`` from named fields; see :meth:`loom.ir.core.Op.build`."""
    spec = cls.spec
    left = dict(fields)
    operands: list[Value] = []
    segments: list[int] = []
    for operand in spec.operands:
        given = left.pop(operand.name, None)
        values: list[Value]
        if given is None:
            values = []
        elif isinstance(given, Value):
            values = [given]
        else:
            values = list(given)  # type: ignore[call-overload]  # a sequence of values by contract
        if operand.arity == "one" and len(values) != 1:
            raise TypeError(f"{spec.name}: operand '{operand.name}' is required")
        operands.extend(values)
        segments.append(len(values))
    attributes: list[object] = []
    for attribute in spec.attributes:
        value = left.pop(attribute.name, attribute.default)
        if value is None and attribute.required:
            raise TypeError(f"{spec.name}: attribute '{attribute.name}' is required")
        attributes.append(value)
    if left:
        raise TypeError(f"{spec.name}: no field named {', '.join(sorted(left))}")
    built = cls(
        operands, attributes, (), list(regions), list(successors), tuple(segments) if spec.segmented else None, loc
    )
    types = list(result_types) if result_types is not None else derive_result_types(built)
    built.results = [Value(type_, built, i) for i, type_ in enumerate(types)]
    return built


def derive_result_types(op: Op) -> list[Type]:
    """Result types that the declaration fixes. Raises ``TypeError`` when it leaves one to the author."""
    types: list[Type] = []
    for result in op.spec.results:
        if result.variadic:
            continue
        if result.fixed is not None:
            types.append(result.fixed)
        elif result.infer is not None:
            types.append(result.infer(op))
        elif result.same_type_as is not None:
            types.append(op.group(op.spec.operand_index[result.same_type_as])[0].type)
        else:
            raise TypeError(f"{op.name}: the type of result '{result.name}' must be given")
    return types
