"""Declarations of the ``view`` dialect (language reference, part 2, section 5)."""

from __future__ import annotations

from loom.dialects import words as w
from loom.dialects.view import verify as v
from loom.ir.core import Op, Value
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s


@s.op("view.subview", " $source$<indices indices> : type($source) -> type($result)", traits=("pure",), verify=v.subview)
class SubView(Op):
    """Moves the logical origin; root, layout and alignment stay."""

    source: Value = s.operand(c.VIEW)
    indices: list[Value] = s.operands(c.INDEX)
    static_indices: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    result: Value = s.result(c.VIEW)


@s.op("view.refine", " $source : type($source) -> type($result)", traits=("pure",), verify=v.refine)
class Refine(Op):
    """Restates shape, layout or alignment of the same bytes."""

    source: Value = s.operand(c.VIEW)
    result: Value = s.result(c.VIEW)


@s.op(
    "view.load",
    "⟦<$flags>⟧ $source$<indices indices>⟦ $<dict cache_scope cache_temporal>⟧ : type($source) -> type($result)",
    traits=("reads",),
    verify=v.access,
)
class Load(Op):
    """Reads one element."""

    flags: tuple[str, ...] | None = s.optional_attribute(w.ACCESS_FLAGS)
    source: Value = s.operand(c.VIEW)
    indices: list[Value] = s.operands(c.INDEX)
    static_indices: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    cache_scope: str | None = s.optional_attribute(w.CACHE_SCOPE)
    cache_temporal: str | None = s.optional_attribute(w.CACHE_TEMPORAL)
    result: Value = s.result(c.SCALAR)


@s.op(
    "view.store",
    "⟦<$flags>⟧ $value, $target$<indices indices>⟦ $<dict cache_scope cache_temporal>⟧ : type($value), type($target)",
    traits=("writes",),
    verify=v.access,
)
class Store(Op):
    """Writes one element."""

    flags: tuple[str, ...] | None = s.optional_attribute(w.ACCESS_FLAGS)
    value: Value = s.operand(c.SCALAR)
    target: Value = s.operand(c.VIEW)
    indices: list[Value] = s.operands(c.INDEX)
    static_indices: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    cache_scope: str | None = s.optional_attribute(w.CACHE_SCOPE)
    cache_temporal: str | None = s.optional_attribute(w.CACHE_TEMPORAL)
