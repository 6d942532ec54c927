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


CACHED_ATOMIC = " $<dict cache_scope cache_temporal ordering scope>"


class _Atomic(Op):
    __slots__ = ()
    indices: list[Value] = s.operands(c.INDEX)
    static_indices: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    cache_scope: str | None = s.optional_attribute(w.CACHE_SCOPE)
    cache_temporal: str | None = s.optional_attribute(w.CACHE_TEMPORAL)
    scope: str = s.attribute(w.SCOPE)


class _Combine(_Atomic):
    __slots__ = ()
    kind: str = s.attribute(w.ATOMIC)
    flags: tuple[str, ...] | None = s.optional_attribute(w.ATOMIC_FLAGS)
    ordering: str = s.attribute(w.ORDERING)
    value: Value = s.operand(c.SCALAR)
    target: Value = s.operand(c.VIEW)


_COMBINE_HEAD = "<$kind⟦, $flags⟧> $value, $target$<indices indices>" + CACHED_ATOMIC


@s.op(
    "view.atomic.reduce",
    _COMBINE_HEAD + " : type($value), type($target)",
    traits=("reads", "writes"),
    verify=v.atomic_combine,
)
class AtomicReduce(_Combine):
    """Combines atomically; the old value is not returned."""


@s.op(
    "view.atomic.rmw",
    _COMBINE_HEAD + " : type($value), type($target) -> type($result)",
    traits=("reads", "writes"),
    verify=v.atomic_combine,
)
class AtomicRmw(_Combine):
    """Combines atomically and returns the old value."""

    result: Value = s.result(c.SCALAR)


@s.op(
    "view.atomic.cmpxchg",
    " $expected, $value, $target$<indices indices>"
    " $<dict cache_scope cache_temporal failure_ordering scope success_ordering>"
    " : type($value), type($target) -> type($result)",
    traits=("reads", "writes"),
    same_type=(("expected", "value"),),
    verify=v.compare_exchange_rules,
)
class AtomicCmpxchg(_Atomic):
    """Replaces the value if it has the expected bits; returns the old value."""

    expected: Value = s.operand(c.SCALAR)
    value: Value = s.operand(c.SCALAR)
    target: Value = s.operand(c.VIEW)
    failure_ordering: str = s.attribute(w.ORDERING)
    success_ordering: str = s.attribute(w.ORDERING)
    result: Value = s.result(c.SCALAR)


@s.op(
    "view.atomic.load",
    " $source$<indices indices>" + CACHED_ATOMIC + " : type($source) -> type($result)",
    traits=("reads", "observable"),
    verify=v.atomic_load,
)
class AtomicLoad(_Atomic):
    """Reads one element atomically."""

    source: Value = s.operand(c.VIEW)
    ordering: str = s.attribute(w.ORDERING)
    result: Value = s.result(c.SCALAR)


@s.op(
    "view.atomic.store",
    " $value, $target$<indices indices>" + CACHED_ATOMIC + " : type($value), type($target)",
    traits=("writes", "observable"),
    verify=v.atomic_store,
)
class AtomicStore(_Atomic):
    """Writes one element atomically."""

    value: Value = s.operand(c.SCALAR)
    target: Value = s.operand(c.VIEW)
    ordering: str = s.attribute(w.ORDERING)


PREFETCH_INTENT = k.enum("prefetch intent", ("read", "write"))
PREFETCH_LOCALITY = k.enum("prefetch locality", ("none", "l1", "l2", "l3"))


@s.op("view.prefetch", " $source$<indices indices> $<dict intent locality> : type($source)", traits=("hint",))
class Prefetch(Op):
    """A cache hint without meaning for values."""

    source: Value = s.operand(c.VIEW)
    indices: list[Value] = s.operands(c.INDEX)
    static_indices: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    intent: str = s.attribute(PREFETCH_INTENT)
    locality: str = s.attribute(PREFETCH_LOCALITY)
