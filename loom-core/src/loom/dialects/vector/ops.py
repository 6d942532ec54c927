"""Declarations of the ``vector`` dialect (language reference, part 2, sections 6 to 10)."""

from __future__ import annotations

from loom.dialects import words as w
from loom.ir.core import Op, Value
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s


@s.op(
    "vector.load",
    "⟦<$flags>⟧ $source$<indices indices>⟦ $<dict cache_scope cache_temporal>⟧ : type($source) -> type($result)",
    traits=("reads",),
)
class Load(Op):
    """Reads a footprint whose axes are the trailing axes of the view."""

    flags: tuple[str, ...] | None = s.optional_attribute(w.ACCESS_FLAGS)
    source: Value = s.operand(c.VIEW)
    indices: list[Value] = s.operands(c.INDEX)
    static_indices: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    cache_scope: str | None = s.optional_attribute(w.CACHE_SCOPE)
    cache_temporal: str | None = s.optional_attribute(w.CACHE_TEMPORAL)
    result: Value = s.result(c.VECTOR)


@s.op(
    "vector.store",
    "⟦<$flags>⟧ $value, $target$<indices indices>⟦ $<dict cache_scope cache_temporal>⟧ : type($value), type($target)",
    traits=("writes",),
)
class Store(Op):
    """Writes a footprint whose axes are the trailing axes of the view."""

    flags: tuple[str, ...] | None = s.optional_attribute(w.ACCESS_FLAGS)
    value: Value = s.operand(c.VECTOR)
    target: Value = s.operand(c.VIEW)
    indices: list[Value] = s.operands(c.INDEX)
    static_indices: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    cache_scope: str | None = s.optional_attribute(w.CACHE_SCOPE)
    cache_temporal: str | None = s.optional_attribute(w.CACHE_TEMPORAL)


@s.op("vector.reduce", "<$kind⟦, $flags⟧> $source, $init : type($source), type($init)", traits=("pure",))
class Reduce(Op):
    """Combines all lanes with an initial value, in lane order."""

    kind: str = s.attribute(w.COMBINING)
    flags: tuple[str, ...] | None = s.optional_attribute(w.FASTMATH)
    source: Value = s.operand(c.VECTOR)
    init: Value = s.operand(c.SCALAR)
    result: Value = s.result(c.SCALAR, same_type_as="init")
