"""Types in memory: text cannot spell a malformed one, but the API and damaged files can make it (part 1, section 4)."""

from __future__ import annotations

from collections.abc import Iterable

from loom.ir.core import Op, Value
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import MAX_RANK, DimsType, FunctionType, NestedType, RegType, ShapedType, Type


def malformation(type_: Type) -> str | None:
    """What is wrong with a type as data, or ``None``."""
    if isinstance(type_, ShapedType):
        return _of_shape(type_)
    if isinstance(type_, DimsType):
        return _of_extents(type_.dims)
    if isinstance(type_, RegType):
        if type_.count < 1:
            return "no_units"
        return None if type_.payload is None or type_.reg_class.endswith(".id") else "second_type"
    parts: tuple[Type, ...] = ()
    if isinstance(type_, FunctionType):
        parts = (*type_.inputs, *type_.outputs)
    elif isinstance(type_, NestedType):
        parts = type_.parts
    return next((found for part in parts if (found := malformation(part)) is not None), None)


def _of_extents(dims: tuple[int | Value, ...]) -> str | None:
    return "negative_extent" if any(isinstance(dim, int) and dim < 0 for dim in dims) else None


def _of_shape(type_: ShapedType) -> str | None:
    align = type_.align
    if len(type_.dims) > MAX_RANK:
        return "rank"
    if type_.kind == "vector" and not type_.dims:
        return "no_extents"
    if type_.kind == "vector" and type_.encoding is not None:
        return "encoded_vector"
    if align is not None and (
        type_.kind != "view" or align < 1 or align & (align - 1) or align > type_.element.byte_size
    ):
        return "alignment"
    return _of_extents(type_.dims)


def check_types(op: Op, field: str, values: Iterable[Value], sound: set[Type]) -> list[Diagnostic]:
    """Findings about the types of values; those that are known to be sound are in ``sound``."""
    found = []
    for value in values:
        type_ = value.type
        if type_ in sound:
            continue
        problem = malformation(type_)
        if problem is None:
            sound.add(type_)
            continue
        found.append(
            Diagnostic(
                "TYPE/010",
                f"%{value.name or '?'} has the malformed type {type_} ({problem.replace('_', ' ')})",
                op.loc,
                {"field_name": field, "actual_type": type_, "malformation_code": problem},
            )
        )
    return found
